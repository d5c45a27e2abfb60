"""Operators with the layouts of a standard one: quantized, or with a fused activation. Most are ONNX Runtime's contrib
operators (``docs/ContribOperators.md`` there): its optimizer and its quantizer write them. They stay what they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.ir.graph import Array, Shape, Value
from layoutsolve.solver.theory.node_rule import NUMBERS, Extra, extended
from layoutsolve.solver.theory.relation import Arranged, Placed
from layoutsolve.solver.theory.row import Row, position
from layoutsolve.solver.theory.rule import (
    CONTRIB,
    RULES,
    Changed,
    Dims,
    Rewrite,
    Rule,
    Site,
    Step,
    Way,
    numbered,
    operator_name,
    rule,
)

CONV, GEMM, MATMUL, POOL = ("channels-first",), ("NT", "TT", "NN", "TN"), ("MatMul",), ("channels-first",)
"""The ways of other rules in which their operators stay what they are, by the names of their kinds."""

CHANNELS, COLUMNS = 1, -1
"""The dimensions of a result for each index of which there may be a number."""


@dataclass(frozen=True, slots=True)
class Sibling:
    """An operator that is laid out as ``of``, whose inputs are its ``ports``, in ``of``'s order, in the ways of some
    ``kinds``, all if none are named. ``vectors`` are inputs that may have a number for each index of the result's
    ``axis``, ``whole`` those that are as large as the result. All others are single numbers. One that is
    ``channels_last`` reads and writes images so if its attribute says so, or always (None). ``exchanged`` are its
    inputs with its operands in exchange, where that is possible: none of the others is a vector, and operands are of
    the same type, the right one is of unsigned bytes, or the operator is one of :data:`MIXED`.
    """

    of: str
    ports: tuple[int, ...]
    kinds: tuple[str, ...] = ()
    vectors: tuple[int, ...] = ()
    axis: int = 0
    whole: tuple[int, ...] = ()
    channels_last: bool | None = False
    exchanged: tuple[int, ...] = ()


SIBLINGS = {
    "ConvInteger": Sibling("Conv", (0, 1), CONV, (3,), CHANNELS),
    "MatMulInteger": Sibling("MatMul", (0, 1), MATMUL, (3,), COLUMNS, exchanged=(1, 0, 3, 2)),
    "QLinearConv": Sibling("Conv", (0, 3, 8), CONV, (4, 5), CHANNELS),
    "QLinearMatMul": Sibling("MatMul", (0, 3), MATMUL, (4, 5), COLUMNS, exchanged=(3, 4, 5, 0, 1, 2, 6, 7)),
    f"{CONTRIB}:DequantizeLinear": Sibling("Identity", (0,)),
    f"{CONTRIB}:DynamicQuantizeMatMul": Sibling("MatMul", (0, 1), MATMUL, (2, 3, 4), COLUMNS),
    f"{CONTRIB}:FusedConv": Sibling("Conv", (0, 1, 2), CONV, whole=(3,)),
    f"{CONTRIB}:FusedGemm": Sibling("Gemm", (0, 1, 2), GEMM),
    f"{CONTRIB}:Gelu": Sibling("Gelu", (0,)),
    f"{CONTRIB}:GatherND": Sibling("GatherND", (0, 1)),
    f"{CONTRIB}:GridSample": Sibling("GridSample", (0, 1)),
    f"{CONTRIB}:MatMulInteger16": Sibling("MatMul", (0, 1), MATMUL, exchanged=(1, 0)),
    f"{CONTRIB}:MatMulIntegerToFloat": Sibling(
        "MatMul", (0, 1), MATMUL, (3, 5, 6), COLUMNS, exchanged=(1, 0, 3, 2, 5, 4)
    ),
    f"{CONTRIB}:MurmurHash3": Sibling("Identity", (0,)),
    f"{CONTRIB}:NhwcMaxPool": Sibling("MaxPool", (0,), POOL, channels_last=None),
    f"{CONTRIB}:Pad": Sibling("Pad", (0, 1, 2)),
    f"{CONTRIB}:QGemm": Sibling("Gemm", (0, 3, 6), GEMM, (4, 5), COLUMNS),
    f"{CONTRIB}:QLinearAdd": Sibling("Add", (0, 3)),
    f"{CONTRIB}:QLinearAveragePool": Sibling("AveragePool", (0,), POOL, channels_last=True),
    f"{CONTRIB}:QLinearConv": Sibling("Conv", (0, 3, 8), CONV, (4, 5), CHANNELS, channels_last=True),
    f"{CONTRIB}:QLinearGlobalAveragePool": Sibling("AveragePool", (0,), POOL, channels_last=True),
    f"{CONTRIB}:QLinearLeakyRelu": Sibling("LeakyRelu", (0,)),
    f"{CONTRIB}:QLinearMul": Sibling("Mul", (0, 3)),
    f"{CONTRIB}:QLinearSigmoid": Sibling("Sigmoid", (0,)),
    f"{CONTRIB}:QLinearWhere": Sibling("Where", (0, 1, 4)),
    f"{CONTRIB}:QuantizeLinear": Sibling("Identity", (0,)),
    f"{CONTRIB}:QuickGelu": Sibling("Gelu", (0,)),
    f"{CONTRIB}:SampleOp": Sibling("Identity", (0,)),
    f"{CONTRIB}:ScaledSiLU": Sibling("Swish", (0,)),
}


MIXED = frozenset(("MatMulInteger",))
"""Operators whose operands may be of any types; the left one of others is of unsigned bytes where these differ."""


@rule(*SIBLINGS)
def sibling(site: Site) -> Rule | None:
    """The rule of the other operator, as far as that stays what it is."""
    return _as(site, SIBLINGS[operator_name(site.node)])


@rule(f"{CONTRIB}:QLinearConcat")
def concat(site: Site) -> Rule | None:
    """Concat of every third input, between which their steps and zeros are."""
    return _as(site, Sibling("Concat", tuple(range(2, len(site.node.inputs), 3))))


def _as(site: Site, row: Sibling) -> Rule | None:
    node, extras = site.node, _extras(site, row)
    inputs = [node.inputs[number] if number < len(node.inputs) else "" for number in row.ports]
    while inputs and not inputs[-1]:
        inputs.pop()
    attributes = {key: value for key, value in node.attributes.items() if key not in ("alpha", "beta")}
    like = replace(node, op=row.of, domain="", inputs=tuple(inputs), attributes=attributes)
    found = RULES[row.of](replace(site, node=like))
    if found is None or extras is None:
        return None
    order = _exchange(site, row, extras)
    kept = (way for way in found.ways if (order or not way.swapped) and (not row.kinds or _name(way) in row.kinds))
    ways = tuple(
        replace(way, rewrite=_reordered(site, order) if way.swapped else _renamed(site, row.ports, way.rewrite))
        for way in kept
    )
    own = extended(replace(found, inputs=tuple(row.ports[number] for number in found.inputs), ways=ways), extras)
    return own if row.channels_last is False else _either_way(site, own, row.channels_last is None)


def _name(way: Way) -> str:
    """What a way of an operator is called, whichever of its operands is the constant one."""
    return str(way.kind).split(", ")[0].removeprefix("swapped ").removesuffix(" of weights")


def _exchange(site: Site, row: Sibling, extras: Mapping[int, Extra]) -> tuple[int, ...]:
    """The inputs with the operands in exchange; none where they cannot be."""
    one, other = (site.required(number).dtype for number in row.ports[:2]) if row.exchanged else ("", "")
    same = one == other or other == "uint8" or operator_name(site.node) in MIXED
    return row.exchanged if same and not extras else ()


def _reordered(site: Site, order: tuple[int, ...]) -> Rewrite:
    """The operator with its inputs in another order."""

    def write(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        present = [number if site.input(number) is not None else "" for number in order]
        return site.same({}, dict(enumerate(present)))

    return write


def _extras(site: Site, row: Sibling) -> dict[int, Extra] | None:
    """The inputs beside a sibling's ports that are no single numbers; None where one is something else."""
    found, result = dict[int, Extra](), site.output().shape
    axis = -1 if row.channels_last and site.attribute("channels_last", 0) else row.axis
    for number in range(len(site.node.inputs)):
        value = site.input(number)
        if value is None or number in row.ports or value.shape in NUMBERS:
            continue
        if number in row.whole and _may_be(value.shape, result):
            found[number] = Extra(lambda dims: dims, whole=True)
        elif number in row.vectors and value.shape == (result[axis],):
            found[number] = Extra(lambda dims: (dims[row.axis],))
        else:
            return None
    return found


def _may_be(shape: Shape, other: Shape) -> bool:
    """Whether two shapes are not known to differ."""
    both = zip(shape, other, strict=False)
    return len(shape) == len(other) and all(
        one == size or not isinstance(one, int) or not isinstance(size, int) for one, size in both
    )


def _renamed(site: Site, ports: tuple[int, ...], rewrite: Rewrite) -> Rewrite:
    """The operator itself, with the attributes and in the order of inputs that the other one would have."""

    def write(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        *before, step = rewrite(row, shapes)
        first = (
            replace(each, inputs=tuple(ports[item] if isinstance(item, int) else item for item in each.inputs))
            for each in before
        )
        replaced: dict[int, int | str | Array | Changed] = {}
        for at, item in enumerate(step.inputs):
            if isinstance(item, int):
                replaced[ports[at]] = ports[item]
            elif isinstance(item, Changed):
                replaced[ports[at]] = replace(item, number=ports[item.number])
            elif not isinstance(item, Value) and not (isinstance(item, str) and not item):
                replaced[ports[at]] = item
        return (*first, *site.same(step.attributes, replaced))

    return write


def _either_way(site: Site, found: Rule, always: bool) -> Rule:
    """An operator on images whose attribute says whether their channels come last, as they ``always`` do in some."""
    last = always or bool(site.attribute("channels_last", 0))
    count, found = len(found.inputs), replace(found, letters=())

    def turned(dims: tuple[Dims, ...]) -> tuple[Dims, ...]:
        moved = (0, *range(count, len(dims)))
        return tuple((each[0], *each[2:], each[1]) if port in moved else each for port, each in enumerate(dims))

    def written(rewrite: Rewrite, flag: int) -> Rewrite:
        def write(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
            (step,) = rewrite(row, shapes)
            same = always or flag == site.attribute("channels_last", 0)
            return (step,) if same else (replace(step, attributes={**step.attributes, "channels_last": flag}),)

        return write

    def behind(way: Way, fixed: Placed) -> Way:
        kind = str(way.kind).replace("channels-first", "channels-last")
        form = replace(fixed, places=turned(fixed.places))
        return replace(way, form=form, rewrite=written(way.rewrite, 1), kind=kind)

    before = tuple(replace(way, rewrite=written(way.rewrite, 0)) for way in found.ways)
    after = tuple(behind(way, way.form) for way in found.ways if isinstance(way.form, Placed))
    if not last:
        return replace(found, ways=(*before, *after))
    return replace(found, dims=turned(found.dims), ways=after if always else (*after, *before))


@rule(f"{CONTRIB}:QLinearSoftmax")
def softmax(site: Site) -> Rule | None:
    """As Softmax; where it is innermost all around it may be one dimension. Before operator set 13 it is over all
    dimensions from its axis on.
    """
    shape, before = site.output().shape, site.attribute("opset", 0) < 13
    axis = site.attribute("axis", 1 if before else -1) % len(shape)
    others = tuple(label for at, labels in enumerate(numbered(shape)) for label in labels if at != axis)
    dims = tuple(("k",) if at == axis else labels for at, labels in enumerate(numbered(shape)))
    whole = frozenset("k")

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return site.same({"axis": position(row.arrangement, "k")})

    anywhere = () if before else (Way(Arranged(frame=1, alone=whole), rewrite, "anywhere"),)
    if axis == len(shape) - 1:

        def innermost(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
            return site.same({"axis": -1})

        return Rule((0,), (dims, dims), (*_behind(others, (dims, dims), innermost), *anywhere), solid=whole)
    return Rule((0,), (dims, dims), anywhere, solid=whole) if anywhere else None


LINES = {
    f"{CONTRIB}:BiasGelu": Sibling("", (0,), vectors=(1,), axis=COLUMNS),
    f"{CONTRIB}:FastGelu": Sibling("", (0,), vectors=(1,), axis=COLUMNS),
    f"{CONTRIB}:SkipLayerNormalization": Sibling("", (0,), vectors=(2, 3, 4), axis=COLUMNS, whole=(1,)),
    f"{CONTRIB}:SkipSimplifiedLayerNormalization": Sibling("", (0,), vectors=(2, 3), axis=COLUMNS, whole=(1,)),
}
"""Operators on lines, which are the last dimension: siblings of none."""


@rule(*LINES)
def lines(site: Site) -> Rule | None:
    """The last dimension stays the last one; its factors come in any order, which constants follow. Some operators take
    as many dimensions as they have in the source. A FastGelu without a bias takes each element by itself.
    """
    if site.node.op == "FastGelu" and site.input(1) is None:
        return _as(site, Sibling("Gelu", (0,)))
    dims, extras = numbered(site.output().shape), _extras(site, LINES[operator_name(site.node)])
    if extras is None or not dims or any(site.node.outputs[1:3]):
        return None
    around, own = tuple(label for labels in dims[:-1] for label in labels), dims[-1]
    count = 1 + sum(map(bool, site.node.outputs))
    ports = (dims,) * count
    if site.node.op.endswith("Gelu"):
        ways = _behind(around, ports, site.unchanged, frozenset(own))
    else:
        before: list[Dims] = [dims[:-1], *([dims[1::-1], ((), around)] if len(dims) == 3 else [])]
        free = frozenset((*around, *own))
        ways = tuple(
            Way(Placed(((*each, own),) * count, free, mixed=True), site.unchanged, kind)
            for kind, each in zip(("as in the source", "turned", "together"), before, strict=False)
        )
    return extended(Rule((0,), ports, ways), extras)


def _behind(
    around: tuple[str, ...], ports: tuple[Dims, ...], rewrite: Rewrite, free: frozenset[str] = frozenset()
) -> tuple[Way, ...]:
    """An operator on the last dimension of each port, with what is ``around`` it before that in any arrangement: none,
    or as many dimensions of size 1 as in the source, where it is nothing else.
    """
    lines = Way(Placed(tuple(dims[-1:] for dims in ports), free, prefix=around), rewrite, "lines")
    return (lines,) if around else (Way(Placed(ports, free), rewrite, "as in the source"), lines)


@rule(f"{CONTRIB}:MatMulBnb4", f"{CONTRIB}:MatMulNBits")
def packed(site: Site) -> Rule:
    """Lines in any arrangement times weights that stay as they are packed."""
    dims = numbered(site.required(0).shape)[:-1]
    around = tuple(label for labels in dims for label in labels)
    ports = (*dims, ("k",)), (*dims, ("n",))
    return Rule((0,), ports, _behind(around, ports, site.unchanged), solid=frozenset("kn"))
