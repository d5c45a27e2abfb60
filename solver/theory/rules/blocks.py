"""Operators for which runtimes leave blocks of channels, written by others for which they do not.

Some runtimes keep images in blocks of channels between convolutions, and what follows one directly in its kernel. A Pad
of channels or a Max with a constant each cost two moves of all data.
"""

from __future__ import annotations

import numpy as np

from layoutsolve.ir.graph import Array, Graph, Node, Shape
from layoutsolve.solver.theory.offer import idiom, modest
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import Idiom, Rewrite, Rule, Site, Step
from layoutsolve.solver.theory.rules.elementwise import UNARY
from layoutsolve.solver.theory.rules.slopes import IMAGE, by_channel

CHANNELS = 1
"""The stored dimension of an image's channels."""

BLOCK = 16
"""The channels of the largest blocks; smaller ones divide it."""

FAR = 12
"""How many operators are looked back at, so that long chains of them take no longer each."""

LARGEST = 65536
"""Numbers below may be multiplied by weights: of larger ones a product might be infinite that is not in turn."""

_KEPT = frozenset(("AveragePool", "Conv", "ConvTranspose", "MaxPool"))
_PASSED = frozenset((*UNARY, "BatchNormalization", "Concat", "Transpose"))
_COMBINING = frozenset(("Add", "Mul", "Sub"))
_FOLDED = frozenset(("Add", "Mul"))


@idiom("Max", "clip", writes="Max with a scalar, behind a float convolution or pool: Clip")
@idiom("Min", "clip", writes="Min with a scalar, behind a float convolution or pool: Clip")
def clip(site: Site, rule: Rule) -> Idiom | None:
    """A Clip on one side, where the other operand is one number. Convolutions do that themselves."""
    data, limit = _operands(site)
    if limit is None or limit.size != 1 or not np.isfinite(limit).all():
        return None
    bound = limit.reshape(())
    limits = (bound, _infinite(1)) if site.node.op == "Max" else (_infinite(-1), bound)
    return lambda row, shapes, plain: (Step("Clip", (data, *limits)),)


@idiom("Pad", "pointwise", writes="Pad that adds channels, blocks of float channels: a 1x1 convolution")
def pointwise(site: Site, rule: Rule) -> Idiom | None:
    """Zeros around channels by a convolution of one pixel. Where a number is infinite, what is added is no zero."""
    filler = site.constant(2)
    zero = site.input(2) is None or (filler is not None and not filler.any())
    if not zero or not _real(site) or not in_blocks(site, 0):
        return None

    def write(row: Row, shapes: tuple[Shape, ...], plain: Rewrite) -> tuple[Step, ...] | None:
        *others, step = plain(row, shapes)
        amounts = step.inputs[1]
        if others or step.op != "Pad" or not isinstance(amounts, np.ndarray) or not _whole(*shapes):
            return None
        before, after = amounts[CHANNELS], amounts[CHANNELS + IMAGE]
        channels = _channels(shapes[0])
        added = before + after
        if added < 1 or amounts.min() < 0 or amounts.sum() != added or not modest(channels, _channels(shapes[-1])):
            return None
        kernel = np.pad(np.eye(channels, dtype=np.float32), ((before, after), (0, 0)))
        return (Step("Conv", (0, kernel[:, :, None, None]), (0,), {"kernel_shape": (1, 1)}),)

    return write


@idiom(
    "Mul", "depthwise", writes="Mul by a per-channel constant, blocks of float channels: a 1x1 depthwise convolution"
)
def depthwise(site: Site, rule: Rule) -> Idiom | None:
    """One factor for each channel as a convolution of one pixel, which takes a sum behind it as its bias."""
    data, factors = _operands(site)
    if factors is None or (factors.size == 1 and _is_gated(site, data)) or not in_blocks(site, data):
        return None

    def write(row: Row, shapes: tuple[Shape, ...], plain: Rewrite) -> tuple[Step, ...] | None:
        given, image = shapes[rule.inputs.index(1 - data)], shapes[-1]
        alike = factors.size == 1 or (factors.size == image[CHANNELS] and _is_vector(given, image))
        if not _whole(image) or not alike or not modest(_channels(image) // factors.size):
            return None
        return (by_channel(data, np.broadcast_to(factors.reshape(-1), _channels(image)).copy()),)

    return write


@idiom("Add", "folded", writes="Add with a scalar, behind a float convolution: a per-channel constant")
@idiom("Mul", "folded", writes="Mul with a scalar, behind a float convolution: a per-channel constant")
def folded(site: Site, rule: Rule) -> Idiom | None:
    """A number behind a convolution once for each channel: runtimes make that part of its weights or of its bias, where
    of one number for all they do not.
    """
    data, numbers = _operands(site)
    if (
        numbers is None
        or not np.abs(numbers).max(initial=0) < LARGEST
        or not _is_convolved(site.graph, site.node.inputs[data])
    ):
        return None

    def write(row: Row, shapes: tuple[Shape, ...], plain: Rewrite) -> tuple[Step, ...] | None:
        given, image = shapes[rule.inputs.index(1 - data)], shapes[-1]
        if len(image) <= CHANNELS + 1 or not isinstance(image[CHANNELS], int):
            return None
        if numbers.size == 1:
            if not modest(_channels(image)):
                return None
            return (Step(site.node.op, (data, np.full(_vector(image), numbers.reshape(())))),)
        return (Step(site.node.op, (data, 1 - data)),) if _is_vector(given, image) else None

    return write


@idiom("ReduceMean", "pool", writes="ReduceMean of all pixels, blocks of float channels: GlobalAveragePool")
def pool(site: Site, rule: Rule) -> Idiom | None:
    """The mean of all pixels of an image as a pool."""
    if not _real(site) or not in_blocks(site, 0):
        return None

    def write(row: Row, shapes: tuple[Shape, ...], plain: Rewrite) -> tuple[Step, ...] | None:
        *others, step = plain(row, shapes)
        axes = step.inputs[1] if len(step.inputs) > 1 else None
        if others or step.op != "ReduceMean" or not isinstance(axes, np.ndarray) or not _whole(*shapes):
            return None
        reduced = {int(axis) % IMAGE for axis in axes if shapes[0][axis] != 1}
        if reduced != {2, 3} or shapes[-1][2:] != (1, 1):
            return None
        return (Step("GlobalAveragePool", (0,)),)

    return write


def _real(site: Site) -> bool:
    """Whether a node computes with floats of 32 bits, none of them quantized."""
    return site.floating and site.output().dtype == "float32"


def _operands(site: Site) -> tuple[int, Array | None]:
    """Of two real operands the number of the one that is computed, as large as the result, and the constant beside it;
    None where they are others.
    """
    data = next((number for number in range(2) if site.constant(number) is None), 0)
    computed = len(site.node.inputs) == 2 and site.constant(data) is None
    alike = computed and site.required(data).shape == site.output().shape
    return data, site.constant(1 - data) if alike and _real(site) else None


def _infinite(sign: int) -> Array:
    return np.array(sign * np.inf, np.float32)


def in_blocks(site: Site, number: int) -> bool:
    """Whether an input of a node is what a convolution or pool wrote, but for operators that blocks pass through."""
    graph, name = site.graph, site.node.inputs[number]
    for _ in range(FAR):
        node = graph.producer(name)
        if node is None:
            return False
        alike = node.op in _COMBINING and len({graph.values[each].shape for each in node.inputs}) == 1
        scaled = _scaled(graph, node)
        if scaled and (node.op == "Mul" or _may_fold(graph, scaled)):
            name = scaled
        elif node.op in _PASSED or alike:
            name = node.inputs[-1 if node.op == "Concat" else 0]  # the last is the newest in networks that keep all
        else:
            return node.op in _KEPT
    return False


def _is_convolved(graph: Graph, name: str) -> bool:
    """Whether a value that one node reads is what a convolution wrote, or what is made part of one."""
    for _ in range(FAR):
        node = graph.producer(name)
        if node is None or not _may_fold(graph, name):
            return False
        if node.op == "Conv":
            return graph.constant(node.inputs[1]) is not None and graph.values[node.inputs[1]].quant is None
        scaled = _scaled(graph, node)
        if node.op == "Mul" and scaled and in_blocks(Site(graph, node), node.inputs.index(scaled)):
            return True
        name = scaled or node.inputs[0]
    return False


def _may_fold(graph: Graph, name: str) -> bool:
    """Whether what makes a value for one reader alone may be a convolution by then."""
    node = graph.producer(name)
    if node is None or graph.reads[name] != 1 or name in graph.results:
        return False
    return node.op in ("BatchNormalization", "Conv", "Transpose") or bool(_scaled(graph, node))


def _is_gated(site: Site, number: int) -> bool:
    """Whether an input may be part of an activation that is written out, as Gelu and its kin: read by others too, or
    of two operands that are computed. Runtimes make one operator of those.
    """
    name = site.node.inputs[number]
    made = site.graph.producer(name)
    joined = made is not None and made.op in _COMBINING and not _scaled(site.graph, made)
    return joined or site.graph.reads[name] != 1


def _scaled(graph: Graph, node: Node) -> str:
    """What a node multiplies by a number for each channel, or adds one to; '' where it does something else."""
    data, numbers = _operands(Site(graph, node)) if node.op in _FOLDED and not node.domain else (0, None)
    return node.inputs[data] if numbers is not None and numbers.size in (1, max(numbers.shape, default=1)) else ""


def _whole(*shapes: Shape) -> bool:
    """Whether all are images of whole blocks of channels."""
    return all(len(shape) == IMAGE and _channels(shape) % BLOCK == 0 for shape in shapes)


def _vector(image: Shape) -> tuple[int, ...]:
    """The shape of one number for each channel."""
    return (_channels(image), *(1 for _ in image[CHANNELS + 1 :]))


def _is_vector(given: Shape, image: Shape) -> bool:
    """Whether a constant varies along no dimension from the channels on but these."""
    vector = _vector(image)
    return given[-len(vector) :] == vector


def _channels(shape: Shape) -> int:
    """The channels of an image, 1 where they are not known."""
    size = shape[CHANNELS]
    return size if isinstance(size, int) else 1
