"""Float convolutions with Transposes beside them that ONNX Runtime does not execute.

At the level all it computes images of floats in blocks of channels (NCHWc): a ReorderInput brings them there, a
ReorderOutput back. Both know the channels last as well: a Transpose that alone stands between an image ``[N, H, W, C]``
and a convolution, or behind one, becomes a part of them (NchwcTransformer, ``nchwc_transformer.cc``). So a convolution
reads or writes channels last for what it costs to read or write them first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product as product_of

from layoutsolve.ir.graph import Graph, Node, Shape, static_elements
from layoutsolve.solver.theory.offer import Offer, form, rule_of
from layoutsolve.solver.theory.relation import Placed
from layoutsolve.solver.theory.row import Price, Row
from layoutsolve.solver.theory.rule import Between, Rule, Site, Step, Way
from layoutsolve.solver.theory.rules.contraction import numbers
from layoutsolve.solver.theory.rules.elementwise import ELEMENTWISE
from layoutsolve.solver.theory.rules.pixel_groups import FIRST, IMAGE, LAST

BLOCK, ALIGNED = 16, 4
"""The channels of a block on processors with AVX-512, half of them on others, and of what a reorder pads to one."""

_BYTES = 4
"""Those of an element."""


@form(
    "Conv",
    "ort-cpu",
    writes="float Conv of a source in ONNX, channels last: Transposes that ONNX Runtime takes into its reorders",
    kinds=("reordered",),
)
def reordered(site: Site, rule: Rule) -> Iterator[Way]:
    """A convolution that reads channels last, writes them last, or both, with the Transposes that it is written with:
    they are operators of the file, and no time. What ONNX Runtime fuses into it stays next to it.
    """
    first = rule.ways[0].form
    if not site.node.given or site.node.region is not None or not isinstance(first, Placed) or not _is_blocked(site):
        return
    channels, readers = site.required(0).shape[1], site.graph.readers.get(site.node.outputs[0], ())
    reads = isinstance(channels, int) and channels >= BLOCK
    fused = len(readers) == 1 and readers[0].op in ELEMENTWISE  # which it is not with a Transpose between the two
    for into, out_of in product_of((False, True) if reads else (False,), (False,) if fused else (False, True)):
        if into or out_of:
            yield _way(site, first, into, out_of)


def unexecuted(shapes: Sequence[Shape]) -> Price:
    """The price of Transposes of floats in some shapes that are operators of the file, and no time."""
    return Price(
        transposes=len(shapes), hidden=-len(shapes), bytes=_BYTES * sum(static_elements(each) for each in shapes)
    )


def has_unexecuted(graph: Graph, node: Node, offer: Offer) -> bool:
    """Whether a target has a form of an operator with such Transposes."""
    return any(way.form.price.hidden < 0 for way in rule_of(Site(graph, node), offer).ways)


def taken(graph: Graph, offer: Offer) -> int:
    """How many Transposes of a graph take no time as they stand, given what a target has."""
    found = 0
    for node in graph.nodes:
        if node.op != "Conv" or not has_unexecuted(graph, node, offer):
            continue
        before, channels = graph.producer(node.inputs[0]), graph.values[node.inputs[0]].shape[1]
        alone = graph.reads[node.inputs[0]] == 1 and isinstance(channels, int) and channels >= BLOCK
        found += alone and before is not None and _permutes(before, FIRST)
        found += sum(_permutes(reader, LAST) for reader in graph.readers.get(node.outputs[0], ()))
    return found


def _permutes(node: Node, permutation: tuple[int, ...]) -> bool:
    return node.op == "Transpose" and tuple(node.attributes["perm"]) == permutation


def _way(site: Site, first: Placed, into: bool, out_of: bool) -> Way:
    data, *others, result = first.places
    moved = [each.shape for each, last in ((site.required(0), into), (site.output(), out_of)) if last]
    places = (_last(data) if into else data, *others, _last(result) if out_of else result)

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        dtype, (convolution,) = site.output().dtype, site.same(inputs={0: "image"} if into else {})
        image, made = (Between(name, dtype, _first(shapes[port])) for name, port in (("image", 0), ("made", -1)))
        return (
            *([Step("Transpose", (0,), (image,), {"perm": FIRST})] if into else []),
            Step(convolution.op, convolution.inputs, (made if out_of else 0,), convolution.attributes),
            *([Step("Transpose", ("made",), (0,), {"perm": LAST})] if out_of else []),
        )

    placed = Placed(places, first.free, price=unexecuted(moved))
    return Way(placed, rewrite, f"reordered, {numbers(site)}")


def _last(dims: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    return tuple(dims[axis] for axis in LAST)


def _first(shape: Shape) -> Shape:
    return tuple(shape[axis] for axis in FIRST)


def _is_blocked(site: Site) -> bool:
    """Whether ONNX Runtime computes a convolution in blocks: of floats, by constant kernels, with channels that it can
    fill blocks with.
    """
    kernel, groups = site.required(1).shape, site.attribute("group", 1)
    constant = all(site.constant(number) is not None for number in range(1, len(site.node.inputs)))
    known = all(isinstance(size, int) for size in kernel)
    if len(kernel) != IMAGE or not (site.floating and constant and known) or site.output().dtype != "float32":
        return False
    produced, channels = (int(str(size)) for size in kernel[:2])
    if groups == 1:
        return channels < BLOCK // 2 or not channels % ALIGNED
    if channels == 1 and produced == groups:
        return not produced % ALIGNED
    return not channels % BLOCK and not produced // groups % BLOCK
