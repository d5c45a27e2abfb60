"""Attention and rotary embeddings: heads are a dimension by themselves, or lie within features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.ir.graph import Dim, Shape
from layoutsolve.solver.theory.relation import Placed
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import CONTRIB, Dims, Rule, Site, Step, Way, rule, static

HEADS, FEATURES = 4, 3
"""The dimensions where heads are one of them, before the sequence, and where they lie within features, behind it."""

Labels = tuple[str, str, str, str]
"""Those of batch, heads, sequence and features of a head."""

KINDS = {HEADS: "heads apart", FEATURES: "heads in features"}

EXCHANGED = "heads before batch"
"""The kind of a way in which each is taken for the other: heads are apart, and nothing tells them from a batch."""


def lying(rank: int, labels: Labels) -> Dims:
    """The places of batch, heads, sequence and the features of a head."""
    batch, heads, sequence, features = labels
    if rank == HEADS:
        return (batch,), (heads,), (sequence,), (features,)
    return (batch,), (sequence,), (heads, features)


@dataclass(frozen=True, slots=True)
class Headed:
    """A port: ``labels`` of one that may have its heads either way, or the ``places`` of one that has not."""

    number: int
    labels: Labels | None = None
    places: Dims = ()

    def at(self, rank: int) -> Dims:
        """Its places where heads are so."""
        return self.places if self.labels is None else lying(rank, self.labels)

    def exchanged(self) -> Dims | None:
        """Its places where batch and heads, apart, have changed theirs; None where they cannot."""
        batch, *rest = self.at(HEADS)
        if len(rest) == HEADS - 1:
            return rest[0], batch, *rest[1:]
        return self.at(HEADS) if len(rest) < HEADS - 2 or not batch else None


def headed(
    site: Site,
    ports: tuple[list[Headed], list[Headed]],
    free: str,
    sizes: Mapping[str, Dim],
    attributes: Mapping[int, Mapping[str, Any]],
    symmetric: bool = False,
) -> Rule:
    """The rule of an operator with some ports, and the ``attributes`` that it has for either number of dimensions. In
    one that is ``symmetric`` batch and heads may change places.
    """
    source = len(site.required(0).shape)
    every = [*ports[0], *ports[1]]

    def way(rank: int, places: tuple[Dims, ...] | None = None) -> Way:
        def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
            if rank == source:
                return site.same()
            gone = {name for each in attributes.values() for name in each}
            kept = {name: value for name, value in site.node.attributes.items() if name not in gone}
            (step,) = site.same()
            return (Step(step.op, step.inputs, step.outputs, {**kept, **attributes[rank]}, step.domain),)

        kind = KINDS[rank] if places is None else EXCHANGED
        return Way(Placed(places or tuple(each.at(rank) for each in every), frozenset(free)), rewrite, kind)

    dims = tuple(each.at(source) for each in every)
    labels = {label for each in dims for place in each for label in place}
    dense = tuple(tuple(tuple(name for name in place if sizes.get(name) != 1) for place in each) for each in dims)
    ways = [way(source), way(HEADS + FEATURES - source)]
    turned = [each.exchanged() for each in every if symmetric]
    if turned and None not in turned:
        ways.append(way(HEADS, tuple(places for places in turned if places is not None)))
    inputs = tuple(each.number for each in ports[0])
    return Rule(inputs, dense, tuple(ways), sizes, frozenset(labels).difference(free))


@rule("Attention")
def attention(site: Site) -> Rule | None:
    """Heads apart or in features. Batch, heads and features of a head come in any order; so do the queries, and the
    keys, where none is before another.
    """
    shapes = [site.required(number).shape for number in range(3)]
    rank = len(shapes[0])
    if rank not in (HEADS, FEATURES) or any(len(shape) != rank for shape in shapes):
        return None
    if rank == HEADS:
        heads, groups = static(shapes[0][1]), static(shapes[1][1])
        size, value = static(shapes[0][3]), static(shapes[2][3])
    else:
        heads, groups = site.attribute("q_num_heads"), site.attribute("kv_num_heads")
        size, value = static(shapes[0][2]) // heads, static(shapes[2][2]) // groups
    shared, past, unordered = heads == groups, site.input(4) is not None, _unordered(site)
    group, total = "h" if shared else "g", "w" if past else "t"
    sizes: dict[str, Dim] = {"h": heads, "d": size, "e": value, **({} if shared else {"g": groups})}
    inputs = [
        Headed(0, ("b", "h", "s", "d")),
        Headed(1, ("b", group, "t", "d")),
        Headed(2, ("b", group, "t", "e")),
    ]
    if site.input(3) is not None:
        total_size = shapes[1][-2] if not past else site.required(3).shape[-1]
        places = _masked(site.required(3).shape, (shapes[0][0], heads, shapes[0][-2], total_size), total)
        if places is None:
            return None
        inputs.append(Headed(3, places=places))
    for number, features in ((4, "d"), (5, "e")):
        if site.input(number) is not None:
            inputs.append(Headed(number, places=(("b",), (group,), ("u",), (features,))))
    if site.input(6) is not None:
        inputs.append(Headed(6, places=(("b",),)))
    results = [
        Headed(0, ("b", "h", "s", "e")),
        Headed(1, places=(("b",), (group,), (total,), ("d",))),
        Headed(2, places=(("b",), (group,), (total,), ("e",))),
        Headed(3, places=(("b",), ("h",), ("s",), (total,))),
    ]
    outputs = [each for each, name in zip(results, site.node.outputs, strict=False) if name]
    free = "bde" + ("h" if shared else "") + ("s" if unordered else "") + ("t" if unordered and not past else "")
    attributes = {HEADS: {}, FEATURES: {"q_num_heads": heads, "kv_num_heads": groups}}
    return headed(site, (inputs, outputs), free, sizes, attributes, shared and site.input(6) is None)


def _masked(mask: Shape, scores: Shape, total: str) -> Dims | None:
    """The places of a mask, which may be repeated; None where it is of other sizes."""
    first = len(scores) - len(mask)
    if any(dim not in (1, size) for dim, size in zip(mask, scores[first:], strict=True)):
        return None
    names = ("b", "h", "s", total)[first:]
    return tuple(() if dim == 1 else (name,) for dim, name in zip(mask, names, strict=True))


def _unordered(site: Site) -> bool:
    """Whether it is no matter which key comes after which."""
    windows = any(site.attribute(f"{side}_window_size", -1) >= 0 for side in ("left", "right"))
    return not (site.attribute("is_causal", 0) or windows or site.input(6) is not None)


@rule(f"{CONTRIB}:MultiHeadAttention")
def multi_head_attention(site: Site) -> Rule | None:
    """Features with heads in them; batch, heads and features of a head come in any order, but for those of a bias."""
    shapes = [value.shape for number in range(3) if (value := site.input(number)) is not None]
    others = [number for number in range(4, len(site.node.inputs)) if site.input(number) is not None]
    if [len(shape) for shape in shapes] != [FEATURES] * 3 or others or any(site.node.outputs[1:]):
        return None
    heads = site.attribute("num_heads")
    sizes: dict[str, Dim] = {"h": heads, "d": static(shapes[0][2]) // heads, "e": static(shapes[2][2]) // heads}
    ports: tuple[Labels, ...] = ("b", "h", "s", "d"), ("b", "h", "t", "d"), ("b", "h", "t", "e"), ("b", "h", "s", "e")
    dims = tuple(lying(FEATURES, labels) for labels in ports)
    free = "b" + ("" if site.input(3) is not None else "hde") + ("" if site.attribute("unidirectional", 0) else "st")
    dense = tuple(tuple(tuple(name for name in place if sizes.get(name) != 1) for place in each) for each in dims)
    way = Way(Placed(dims, frozenset(free)), site.unchanged)
    return Rule((0, 1, 2), dense, (way,), sizes, frozenset("bhstde").difference(free))


@rule("RotaryEmbedding", f"{CONTRIB}:RotaryEmbedding")
def rotary(site: Site) -> Rule | None:
    """Heads apart or in features, which stay in order; batch, heads and places of the sequence come in any."""
    shape, own = site.required(0).shape, site.node.domain == ""
    rank, heads = len(shape), site.attribute("num_heads", 0)
    where, tables = (3, (1, 2)) if own else (1, (2, 3))
    if rank not in (HEADS, FEATURES):
        return None
    heads = static(shape[1]) if rank == HEADS else heads
    if not heads:
        return None
    features = static(shape[3]) if rank == HEADS else static(shape[2]) // heads
    sizes: dict[str, Dim] = {"h": heads, "d": features}
    batch, length = shape[0], shape[2 if rank == HEADS else 1]
    inputs, told = [Headed(0, ("b", "h", "s", "d"))], False
    place = site.input(where)
    for number in sorted((where, *tables)):
        value = site.input(number)
        if value is None:
            continue
        if value.shape[:2] == (batch, length) and len(value.shape) == (2 if number == where else 3):
            inputs.append(Headed(number, places=(("b",), ("s",), *((("r",),) if number != where else ()))))
            told = True
        elif number == where:
            if value.shape != (1,):
                return None
            inputs.append(Headed(number, places=(("one",),)))
        elif len(value.shape) == 2 and place is not None:
            inputs.append(Headed(number, places=(("m",), ("r",))))
        else:
            return None
    attributes = {HEADS: {"num_heads": heads} if not own else {}, FEATURES: {"num_heads": heads}}
    free = "bh" + ("s" if told else "")
    return headed(site, (inputs, [Headed(0, ("b", "h", "s", "d"))]), free, sizes, attributes)
