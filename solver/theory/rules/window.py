"""Operators with a fixed data format: batch, channels, then space. Convolution, pooling, local normalisation."""

from __future__ import annotations

from layoutsolve.graph import Dim, Shape
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import Between, Dims, Placed, Rule, Site, Step, rule
from layoutsolve.solver.theory.rules.contraction import kernels, product, products


def _space(name: str, count: int) -> Dims:
    return tuple((f"{name}{index}",) for index in range(count))


def _whole(*names: str, count: int) -> frozenset[str]:
    return frozenset(f"{name}{index}" for name in names for index in range(count))


@rule("Conv", "ConvTranspose")
def convolution(site: Site) -> Rule:
    """Batch and channels may be factored in any order, groups outermost; constant kernels follow."""
    if _pointwise(site):
        return pointwise(site)
    data, kernel = site.required(0), site.required(1)
    groups = site.attribute("group", 1)
    rank = len(data.shape) - 2
    transposed = site.node.op == "ConvTranspose"
    contracted, produced = (kernel.shape[0], kernel.shape[1]) if transposed else (kernel.shape[1], kernel.shape[0])
    each = (contracted, _divided(produced, groups)) if not transposed else (_divided(contracted, groups), produced)
    sizes: dict[str, Dim] = {"g": groups, "c": each[0], "o": each[1]}
    inward, outward = ("g", "c"), ("g", "o")
    channels: Dims = (inward, ("o",)) if transposed else (outward, ("c",))
    places: list[Dims] = [(("n",), inward, *_space("s", rank)), (*channels, *_space("k", rank))]
    inputs = (0, 1) if site.input(2) is None else (0, 1, 2)
    places += [(outward,)] * (len(inputs) - 2)
    places.append((("n",), outward, *_space("p", rank)))
    constant = all(site.constant(number) is not None for number in inputs[1:])
    free = frozenset("ngco") if constant else frozenset("n")
    form = Placed(tuple(places), free=free)
    solid = _whole("s", "k", "p", count=rank)
    return Rule(inputs, _dense(places, sizes), (form,), lambda row, shapes: site.same(), sizes, solid)


def _pointwise(site: Site) -> bool:
    """Whether a convolution multiplies every pixel by the same constant matrix."""
    kernel = site.required(1).shape[2:]
    constant = all(site.constant(number) is not None for number in range(1, len(site.node.inputs)))
    still = all(stride == 1 for stride in site.attribute("strides", ())) and not any(site.attribute("pads", ()))
    unpadded = site.attribute("auto_pad", "NOTSET") == "NOTSET"
    one = all(size == 1 for size in kernel) and site.attribute("group", 1) == 1
    return site.node.op == "Conv" and one and still and unpadded and constant


def pointwise(site: Site) -> Rule:
    """A 1x1 convolution is a product ``[pixels, c] x [c, o]``: pixels and channels may come either way round."""
    rank = len(site.required(0).shape) - 2
    space = _space("s", rank)
    pixels = ("n", *(label for (label,) in space))
    units = ((),) * rank
    biased = site.input(2) is not None
    bias: tuple[Dims, ...] = ((("o",),),) if biased else ()
    dims = ((("n",), ("c",), *space), (("o",), ("c",), *units), *bias, (("n",), ("o",), *space))
    forms = kernels(site, products(pixels, "c", "o", free=frozenset({*pixels, "c", "o"}), biased=biased))
    conv = Placed(dims, free=frozenset("nco"))

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        if row.form == 0:
            return site.same()
        return product(forms[row.form - 1][0], Between("product", site.real, shapes[-1]) if biased else None)

    inputs = (0, 1, 2) if biased else (0, 1)

    def kind(row: Row) -> str:
        return "" if row.form == 0 else forms[row.form - 1][0]

    return Rule(inputs, dims, (conv, *(form for _, form in forms)), rewrite, kind=kind)


def _divided(size: Dim, groups: int) -> int:
    return int(str(size)) // groups


def _dense(places: list[Dims], sizes: dict[str, Dim]) -> tuple[Dims, ...]:
    """The labels of dimensions without those of size 1, which would make every dimension look like a product."""
    return tuple(tuple(tuple(label for label in labels if sizes.get(label) != 1) for labels in dims) for dims in places)


@rule("AveragePool", "MaxPool", "LpPool")
def pooling(site: Site) -> Rule | None:
    """Batch and channels may be factored in any order."""
    if len(site.node.outputs) > 1:
        return None
    rank = len(site.required(0).shape) - 2
    dims = ((("n",), ("c",), *_space("s", rank)), (("n",), ("c",), *_space("p", rank)))
    form = Placed(dims, free=frozenset("nc"))
    return Rule((0,), dims, (form,), lambda row, shapes: site.same(), solid=_whole("s", "p", count=rank))


@rule("LRN")
def local_response(site: Site) -> Rule:
    """Channels keep their order, since neighbours matter; everything else may be factored in any order."""
    rank = len(site.required(0).shape) - 2
    dims: Dims = (("n",), ("c",), *_space("s", rank))
    form = Placed((dims, dims), free=frozenset("n") | _whole("s", count=rank))
    return Rule((0,), (dims, dims), (form,), lambda row, shapes: site.same(), solid=frozenset("c"))


@rule("GridSample")
def sampled(site: Site) -> Rule:
    """Channels may be factored in any order, and so may the batch, which the grid has as well."""
    rank = len(site.required(0).shape) - 2
    places: tuple[Dims, ...] = (
        (("n",), ("c",), *_space("s", rank)),
        (("n",), *_space("p", rank), ("k",)),
        (("n",), ("c",), *_space("p", rank)),
    )
    form = Placed(places, free=frozenset("nc"))
    solid = _whole("s", "p", count=rank) | {"k"}
    return Rule((0, 1), places, (form,), lambda row, shapes: site.same(), solid=solid)
