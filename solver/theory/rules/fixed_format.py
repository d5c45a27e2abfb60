"""Operators with dimensions in fixed places, as a table of formats: which factors are free, and which places may be
exchanged for each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations
from math import prod
from typing import Any

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.ir.graph import Array, Dim, Shape
from layoutsolve.solver.theory.relation import Placed
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import (
    CONTRIB,
    Between,
    Changed,
    Dims,
    Rule,
    Site,
    Step,
    Way,
    operator_name,
    rule,
    static,
)

WHOLE = "="
"""Begins the label of a dimension of several labels whose sizes are not known: none of them is free."""

MOST = 4
"""The most dimensions of which all orders are listed."""


def orders(count: int) -> list[tuple[int, ...]]:
    """The orders of so many dimensions, that of the source first; that one alone where there are many."""
    return list(permutations(range(count))) if count <= MOST else [tuple(range(count))]


@dataclass(frozen=True, slots=True)
class Format:
    """The places of an operator's dimensions, as in ``n (g c) s.., (g c) -> n (g c) s..``: a port after the other,
    each a place after the other. ``s..`` are as many as are left, ``1`` is a dimension of size 1 and ``1..`` as
    many as are left, ``*`` those before all others, in any arrangement. ``-`` is an input that is no port.

    The factors of ``free`` labels may come in any order, those of all others stay together. Labels that are
    ``exchanged`` may change places with each other, at all ports, or all those of some pairs at once, as in
    ``yx/pq``; ``changed`` writes the node for an order of them, where something is to be said otherwise then, and gives
    nothing where that cannot be said. ``sizes`` are those of labels that share a dimension; where they are not
    known it stays whole. Nodes whose first input has fewer than ``least`` dimensions are not covered.
    """

    text: str
    free: str = ""
    exchanged: str = ""
    changed: Callable[[Site, bool], tuple[Step, ...]] | None = None
    sizes: Callable[[Site], Mapping[str, Dim]] | None = None
    least: int = 0

    def ports(self) -> tuple[list[list[str]], list[list[str]]]:
        """The places of each input and of each output."""
        before, after = self.text.split("->")
        inputs, outputs = ([_tokens(port) for port in side.split(",")] for side in (before, after))
        return inputs, outputs


def _tokens(text: str) -> list[str]:
    return re.findall(r"\([^)]*\)|[^\s()]+", text)


def _groups(site: Site) -> Mapping[str, Dim]:
    groups = site.attribute("num_groups")
    return {"g": groups, "c": static(site.required(0).shape[1]) // groups}


def _inputs_of(site: Site, orders: Mapping[int, tuple[int, Array]]) -> dict[int, Changed]:
    """Inputs with what they have along an axis in another order, by their numbers."""
    return {
        number: Changed(number, partial(_taken, axis=axis, order=order))
        for number, (axis, order) in orders.items()
        if site.input(number) is not None
    }


def _taken(data: Array, axis: int, order: Array) -> Array:
    return np.ascontiguousarray(np.take(data, order, axis))


def _with_boxes(site: Site, number: int, order: Sequence[int], attributes: Mapping[str, Any]) -> tuple[Step, ...]:
    """The node with the coordinates of its boxes in another order, which a Gather takes where they are computed."""
    boxes, taken = site.required(number), np.array(order)
    if site.changeable(number):
        return site.same(attributes, {number: Changed(number, partial(_taken, axis=1, order=taken))})
    gathered = Between("boxes", boxes.dtype, boxes.shape)
    step = Step("Gather", (number, taken), (gathered,), {"axis": 1})
    return (step, *site.same(attributes, {number: "boxes"}))


def _aligned(site: Site, turned: bool) -> tuple[Step, ...]:
    """Boxes of an image with height and width exchanged."""
    sizes = {"output_height": site.attribute("output_width", 1), "output_width": site.attribute("output_height", 1)}
    return _with_boxes(site, 1, (1, 0, 3, 2), sizes) if turned else site.same()


def _pooled(site: Site, turned: bool) -> tuple[Step, ...]:
    """Boxes behind their image's number, with height and width exchanged."""
    sizes = {"pooled_shape": tuple(site.attribute("pooled_shape"))[::-1]}
    return _with_boxes(site, 1, (0, 2, 1, 4, 3), sizes) if turned else site.same()


def _deformed(site: Site, turned: bool) -> tuple[Step, ...]:
    """A kernel with height and width exchanged, and the constants that say by what its taps are shifted and scaled."""
    if not turned:
        return site.same()
    kernel, groups = [static(dim) for dim in site.required(1).shape[2:]], site.attribute("offset_group", 1)
    known = all(site.input(number) is None or site.changeable(number) for number in (2, 4))
    if not known or static(site.required(2).shape[1]) != 2 * groups * prod(kernel):  # a kernel may say any sizes
        return ()
    taps = np.arange(groups * prod(kernel)).reshape(groups, *kernel).swapaxes(1, 2).reshape(-1)
    both = np.stack((2 * taps + 1, 2 * taps), 1).reshape(-1)
    moved = _inputs_of(site, {2: (1, both), 4: (1, taps)})
    given = site.node.attributes
    windows = {name: tuple(given[name])[::-1] for name in ("kernel_shape", "strides", "dilations") if given.get(name)}
    if given.get("pads"):
        windows["pads"] = tuple(given["pads"][at] for at in (1, 0, 3, 2))
    return site.same(windows, moved)


def _triangle(site: Site, turned: bool) -> tuple[Step, ...]:
    """The other triangle of a matrix that is transposed, whose diagonals count the other way."""
    if not turned:
        return site.same()
    upper, shift = {"upper": 1 - site.attribute("upper", 1)}, site.input(1)
    if shift is None:
        return site.same(upper)
    if shift.data is not None:
        return site.same(upper, {1: np.asarray(-shift.data)})
    return (Step("Neg", (1,), (Between("shift", shift.dtype, shift.shape),)), *site.same(upper, {1: "shift"}))


def _diagonal(site: Site, turned: bool) -> tuple[Step, ...]:
    """The diagonal of a matrix that is transposed."""
    return site.same({"k": -site.attribute("k", 0)} if turned else {})


def _swapped(site: Site, turned: bool) -> tuple[Step, ...]:
    """Two operands, the other way round."""
    (step,) = site.same()
    return (replace(step, inputs=step.inputs[::-1]) if turned else step,)


FORMATS: Mapping[str, Format] = {
    "CausalConvWithState": Format("n c l, c i k, c, n c p -> n c l, n c q", "nc"),
    "DeformConv": Format("n c y x, o i j k, n f p q, o, n m p q -> n o p q", "n", "yx/jk/pq", _deformed),
    "Det": Format("* r q -> *", exchanged="rq"),
    "EyeLike": Format("r q -> r q", exchanged="rq", changed=_diagonal),
    "GlobalLpPool": Format("n c s.. -> n c 1..", "ncs", exchanged="s"),
    "GroupNormalization": Format("n (g c) s.., (g c), (g c) -> n (g c) s..", "ngcs", exchanged="s", sizes=_groups),
    "MaxRoiPool": Format("n c y x, r k -> r c p q", "cr", "yx/pq", _pooled),
    "NegativeLogLikelihoodLoss": Format("n c s.., n s.., c -> n s..", "ns", exchanged="ns"),
    "RoiAlign": Format("n c y x, r k, r -> r c p q", "cr", "yx/pq", _aligned),
    "STFT": Format("b t p, -, w, - -> b f q e", "b"),
    "SoftmaxCrossEntropyLoss": Format("n c s.., n s.., c -> n s.., n c s..", "ns", exchanged="ns"),
    "StringSplit": Format("* -> * k, *"),
    "TfIdfVectorizer": Format("n k -> n m", "n", least=2),
    "Trilu": Format("* r q, - -> * r q", exchanged="rq", changed=_triangle),
    "ai.onnx.ml:ArrayFeatureExtractor": Format("* k, - -> * j", least=2),
    "ai.onnx.ml:OneHotEncoder": Format("* -> * k"),
    f"{CONTRIB}:Attention": Format("b s k, k m, m -> b s n", "b"),
    f"{CONTRIB}:CDist": Format("m k, n k -> m n", "mnk", exchanged="mn", changed=_swapped),
    f"{CONTRIB}:ConvTransposeWithDynamicPads": Format("n c s.., c o k.., v, o -> n o p..", "n"),
    f"{CONTRIB}:CropAndResize": Format("n c y x, r k, r, v -> r c p q", "cr"),
    f"{CONTRIB}:EmbedLayerNormalization": Format("b s, b s, v h, p h, u h, h, h, b s, b s -> b s h, b, b s h", "b"),
    f"{CONTRIB}:GatedAdd": Format("* k, * k, * 1 -> * k"),
    f"{CONTRIB}:Inverse": Format("* r q -> * q r", exchanged="rq"),
    f"{CONTRIB}:MaxpoolWithMask": Format("n c s.., n m u.. -> n c p..", "n"),
    f"{CONTRIB}:QAttention": Format("b s k, k m, m, -, -, -, -, -, - -> b s n", "b"),
    f"{CONTRIB}:Trilu": Format("* r q, - -> * r q", exchanged="rq", changed=_triangle),
}
"""Operators by how their dimensions lie."""


@rule(*FORMATS)
def formatted(site: Site) -> Rule | None:
    """The operator with its dimensions where its format has them."""
    row = FORMATS[operator_name(site.node)]
    if len(site.required(0).shape) < row.least:
        return None
    given, made = row.ports()
    inputs = [number for number, tokens in enumerate(given) if tokens != ["-"] and site.input(number) is not None]
    written = [(tokens, name) for tokens, name in zip(made, site.node.outputs, strict=False) if name]
    shapes = [site.required(number).shape for number in inputs]
    shapes += [site.graph.values[name].shape for _, name in written]
    tokens = [*(given[number] for number in inputs), *(each for each, _ in written)]
    sizes = _sizes(site, row)
    if sizes is None:
        tokens = [
            [WHOLE + token[1:-1].replace(" ", "") if token[0] == "(" else token for token in each] for each in tokens
        ]
    if site.node.op.endswith("Loss") and not site.output().shape:  # of all together
        tokens[len(inputs)] = []
    places = [_places(each, shape) for each, shape in zip(tokens, shapes, strict=True)]
    sizes = sizes or {}
    prefix = tuple(dict.fromkeys(label for each in places for place in each for label in place if label[0] == "*"))
    labels = dict.fromkeys(label for each in places for place in each for label in place)
    free = frozenset(label for label in labels if label[0] in row.free and label not in prefix)
    ways = []
    for names in _exchanges(row.exchanged, labels):
        if row.changed is not None and not row.changed(site, bool(names)):
            continue
        inner = ([place for place in each if not {*place} & {*prefix}] for each in places)
        form = Placed(tuple(tuple(_exchanged(each, names)) for each in inner), free, prefix)
        ways.append(_way(site, row, form, bool(names)))
    dims = tuple(tuple(tuple(name for name in place if sizes.get(name) != 1) for place in each) for each in places)
    units = {label for label in prefix if _size(label, places, shapes) == 1}
    dims = tuple(tuple(() if place and place[0] in units else place for place in each) for each in dims)
    return Rule(tuple(inputs), dims, tuple(ways), sizes, frozenset(labels) - free - {*prefix})


def _sizes(site: Site, row: Format) -> Mapping[str, Dim] | None:
    """The sizes of labels that share a dimension, None where that is open."""
    try:
        return row.sizes(site) if row.sizes else {}
    except TypeError:
        return None


def _exchanges(exchanged: str, labels: Iterable[str]) -> Iterator[dict[str, str]]:
    """Which labels change places, none at first."""
    if "/" in exchanged:
        pairs = [(pair[0], pair[1]) for pair in exchanged.split("/")]
        yield {}
        yield dict(pairs + [(other, one) for one, other in pairs])
        return
    moved = [label for label in labels if label[0] in exchanged]
    for order in orders(len(moved)):
        yield {label: moved[at] for label, at in zip(moved, order, strict=True) if label != moved[at]}


def _way(site: Site, row: Format, form: Placed, turned: bool) -> Way:
    def rewrite(stored: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return site.same() if row.changed is None else row.changed(site, turned)

    return Way(form, rewrite, "exchanged" if turned else "as in the source")


def _exchanged(places: Sequence[tuple[str, ...]], names: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """The places of a port with labels exchanged, if it has those that they are exchanged for."""
    own = {label for place in places for label in place}
    fits = own.issuperset(names[label] for label in own if label in names)
    yield from (tuple(names.get(label, label) if fits else label for label in place) for place in places)


def _size(label: str, places: Sequence[Dims], shapes: Sequence[Shape]) -> Dim:
    """The size of a label that is a dimension by itself."""
    return next(
        dim
        for each, shape in zip(places, shapes, strict=True)
        for place, dim in zip(each, shape, strict=True)
        if place == (label,)
    )


def _places(tokens: Sequence[str], shape: Shape) -> Dims:
    """The labels of each dimension of a port."""
    found: list[tuple[str, ...]] = []
    for token in tokens:
        rest = range(len(shape) - len(tokens) + 1)
        if token == "*":
            found += [(f"*{axis}",) for axis in rest]
        elif token.endswith(".."):
            found += [() if token[0] == "1" else (f"{token[0]}{axis}",) for axis in rest]
        else:
            found.append(() if token == "1" else tuple(token.strip("()").split()))
    if len(found) != len(shape):
        raise ValueError(f"a tensor of {len(shape)} dimensions does not have the places {' '.join(tokens)}")
    return tuple(found)
