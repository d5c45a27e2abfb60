"""Numbers for few channels, repeated along whole lines: runtimes compute as many elements at once as one has.

ONNX Runtime finds the place in either operand anew after each pixel of channels-last images, which takes longer than
three or sixteen sums do.
"""

from __future__ import annotations

from math import prod

import numpy as np

from layoutsolve.ir.graph import Shape, static_elements
from layoutsolve.solver.theory.offer import idiom
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import Between, Idiom, Rewrite, Rule, Site, Step, int64

FUSED = frozenset(("Conv", "ConvTranspose", "Gemm", "LayerNormalization", "MatMul"))
"""Operators of which runtimes make one with a constant for each channel behind them."""

MOST_CHANNELS = 64
"""From more on there is little to gain."""

FEWEST_PIXELS = 64
"""With less there is nothing to gain."""

LARGEST = 4096
"""The most elements that a constant is repeated to."""


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
            numbers = (given.data if given.quant is None else given.quant.real(given.data)).reshape(-1)
            return site.same(inputs={number: np.broadcast_to(numbers, shape).copy()})
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
