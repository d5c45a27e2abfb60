"""Numbers for few channels, repeated along whole lines: runtimes compute as many elements at once as one has.

ONNX Runtime finds the place in either operand anew after each pixel of channels-last images, which takes longer than
three or sixteen sums do. Its kernels on bytes begin anew after each such place, wherever images come from.
"""

from __future__ import annotations

from math import prod

import numpy as np

from layoutsolve.ir.graph import Array, Shape, Value, static_elements
from layoutsolve.solver.theory.offer import idiom
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import Between, Idiom, Rewrite, Rule, Site, Step, int64, static
from layoutsolve.solver.theory.rules.blocks import CHANNELS
from layoutsolve.solver.theory.rules.int8_averages import follows_convolution
from layoutsolve.solver.theory.rules.slopes import IMAGE

FUSED = frozenset(("Conv", "ConvTranspose", "Gemm", "LayerNormalization", "MatMul"))
"""Operators of which runtimes make one with a constant for each channel behind them."""

MOST_CHANNELS = 64
"""From more on there is little to gain."""

FEWEST_PIXELS = 64
"""With less there is nothing to gain."""

LARGEST = 4096
"""The most elements that a constant is repeated to."""

LONG_RUN = 256
"""So many bytes in a row take hardly longer each than more of them."""


_REPEATED = "by a per-channel constant, narrow channels-last images, float: the constant repeated along lines"
"""What is written, and for what."""


@idiom("Add", "lines", writes=f"Add {_REPEATED}")
@idiom("Div", "lines", writes=f"Div {_REPEATED}")
@idiom("Mul", "lines", writes=f"Mul {_REPEATED}")
@idiom("Sub", "lines", writes=f"Sub {_REPEATED}")
def lines(site: Site, rule: Rule) -> Idiom | None:
    """The same with one operand as large as the last dimensions, where channels are the very last one. What is computed
    is expanded to that.
    """
    result = site.output()
    number = min(range(2), key=lambda each: (site.constant(each) is None, site.required(each).shape == result.shape))
    given, data = site.required(number), site.required(1 - number)
    floating = site.floating or (site.node.op in ("Div", "Sub") and not site.node.storage)
    if not floating or site.real != "float32" or data.shape != result.shape or data.data is not None:
        return None
    producer = site.graph.producer(data.name)
    port = rule.inputs.index(number)
    varying = [label for labels in rule.dims[port] for label in labels]
    fused = producer is not None and producer.op in FUSED and given.data is not None
    if len(varying) != 1 or fused or (given.data is None and given.quant is not None):
        return None

    def write(row: Row, shapes: tuple[Shape, ...], plain: Rewrite) -> tuple[Step, ...] | None:
        last = tuple((varying[0], factor) for factor in range(len(row.arrangement[-1]))) if row.arrangement else ()
        shape = _line(shapes[-1])
        if not last or row.arrangement[-1] != last or shapes[-1][-1] != static_elements(given.shape) or not shape:
            return None
        if given.data is not None:
            return site.same(inputs={number: np.broadcast_to(given.real.reshape(-1), shape).copy()})
        full = (*(1,) * (len(shapes[port]) - len(shape)), *shape)
        line = Between("line", "float32", full)
        return (Step("Expand", (number, int64(*full)), (line,)), *site.same(inputs={number: line.name}))

    return write


def _line(image: Shape) -> tuple[int, ...]:
    """The last dimensions of an image that are still few elements; none where that is no more than the last one."""
    sizes = [size for size in image if isinstance(size, int)]
    if len(sizes) < len(image) or sizes[-1] > MOST_CHANNELS or prod(sizes) < FEWEST_PIXELS * sizes[-1]:
        return ()
    count = max(count for count in range(1, len(sizes) + 1) if count == 1 or prod(sizes[-count:]) <= LARGEST)
    return tuple(sizes[-count:]) if prod(sizes[-count:]) > sizes[-1] else ()


_ON_BYTES = "by a constant for each channel, int8: the constant repeated, so that 256 bytes and more are read in a row"
"""What is written, and for what."""


@idiom("Add", "repeated", writes=f"Add {_ON_BYTES}")
@idiom("Mul", "repeated", writes=f"Mul {_ON_BYTES}")
def repeated(site: Site, rule: Rule) -> Idiom | None:
    """The same with a constant that is repeated along the dimensions before that of its numbers. Images behind a
    convolution lie channels-last in ONNX Runtime, however they lie in the file.
    """
    number = 0 if site.constant(0) is not None else 1
    given, data, result = site.required(number), site.required(1 - number), site.output()
    stored = all(each.in_bytes for each in (given, data, result)) and not site.node.storage
    if not stored or given.data is None or data.data is not None or data.shape != result.shape:
        return None
    if given.quant is None or given.quant.axis is not None or sum(size != 1 for size in given.shape) != 1:
        return None
    port, numbers = rule.inputs.index(number), given.data
    last = len(result.shape) == IMAGE and follows_convolution(site.graph, data.name)

    def write(row: Row, shapes: tuple[Shape, ...], plain: Rewrite) -> tuple[Step, ...] | None:
        wide = _in_runs(numbers.reshape([static(size) for size in shapes[port]]), shapes[-1], last)
        if wide is None:
            return None
        return site.same(inputs={number: Value(f"{result.name}/repeated", given.dtype, wide.shape, given.quant, wide)})

    return write


def _in_runs(numbers: Array, image: Shape, last: bool) -> Array | None:
    """Numbers repeated until they have a long run in common with an image, whose channels count as the ``last``
    dimension where they are said to lie so; None where they have, or are one for all elements of a run.
    """
    shape = [1] * (len(image) - numbers.ndim) + [*numbers.shape]
    axes = [*range(len(image))]
    order = [axis for axis in axes if axis != CHANNELS] + [CHANNELS] if last else axes
    run = shape[order[-1]]
    if run == 1 or run != image[order[-1]]:
        return None
    before, wide = run, [*shape]
    for axis in reversed(order[:-1]):
        size = image[axis]
        if run >= LONG_RUN or not isinstance(size, int) or run * size > LARGEST:
            break
        wide[axis], run = size, run * size
    return np.broadcast_to(numbers.reshape(shape), wide).copy() if run > before else None
