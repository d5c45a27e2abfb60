"""Int8 averages in the forms that runtimes have fast kernels for: pools as depthwise convolutions by ones, means of all
pixels of an image as pools.
"""

from __future__ import annotations

from collections import deque
from math import prod

import numpy as np

from layoutsolve.ir.graph import Graph, Quant, Shape, Value
from layoutsolve.solver.theory.offer import idiom, modest
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import Idiom, Rewrite, Rule, Site, Step
from layoutsolve.solver.theory.rules.blocks import CHANNELS, FAR
from layoutsolve.solver.theory.rules.slopes import IMAGE

FEWEST = 8
"""The channels from which on kernels on bytes take less time than floats."""

APART = frozenset(("Gemm", "MatMul", "Reshape"))
"""Operators behind which nothing lies channels-last because of a convolution before them."""

KEPT = ("kernel_shape", "strides", "pads", "dilations")
"""The attributes that a convolution has as an average has them."""


@idiom(
    "AveragePool",
    "depthwise",
    writes="int8 AveragePool, 8 channels and more, no padding: a depthwise convolution by ones",
)
def depthwise(site: Site, rule: Rule) -> Idiom | None:
    """Windows that are neither whole images nor reach into what does not count, by weights of 1 in steps of a share.
    No two products by 1 are too large for 16 bits, so that the weights may have a sign for every target.
    """
    ends = site.required(0), site.output()
    stored = all(each.in_bytes for each in ends)
    kernel = tuple(site.attribute("kernel_shape", ()))
    if not stored or site.node.storage or not _counts_alike(site) or ends[0].shape[2:] == kernel:
        return None

    def write(row: Row, shapes: tuple[Shape, ...], plain: Rewrite) -> tuple[Step, ...] | None:
        (step,) = plain(row, shapes)
        channels = shapes[0][CHANNELS] if len(shapes[0]) == IMAGE else 0
        if not isinstance(channels, int) or channels < FEWEST or not modest(channels, *kernel):
            return None
        share = Quant(np.array([1 / prod(kernel)], np.float32), np.zeros(1, np.int8))
        ones = np.ones((channels, 1, *step.attributes["kernel_shape"]), np.int8)
        attributes = {name: value for name, value in step.attributes.items() if name in KEPT}
        weights = Value(f"{site.node.outputs[0]}/ones", "int8", ones.shape, share, ones)
        return (Step("Conv", (0, weights), (0,), {**attributes, "group": channels}),)

    return write


def _counts_alike(site: Site) -> bool:
    """Whether all windows have the same number of elements that count."""
    padded = any(site.attribute("pads", ())) and not site.attribute("count_include_pad", 0)
    return not padded and site.attribute("auto_pad", "NOTSET") == "NOTSET" and not site.attribute("ceil_mode", 0)


@idiom("ReduceMean", "pixels", writes="int8 ReduceMean of all pixels behind a convolution: GlobalAveragePool")
def pixels(site: Site, rule: Rule) -> Idiom | None:
    """The mean of all pixels of an image behind a convolution as a pool, which ONNX Runtime computes in 8 bits, as they
    lie. A mean is one of floats there, and leaves the pixels out behind a Transpose of the image alone.
    """
    if not convolved_bytes(site):
        return None

    def write(row: Row, shapes: tuple[Shape, ...], plain: Rewrite) -> tuple[Step, ...] | None:
        *others, step = plain(row, shapes)
        axes = step.inputs[1] if len(step.inputs) > 1 else None
        if others or step.op != "ReduceMean" or not isinstance(axes, np.ndarray) or len(shapes[0]) != IMAGE:
            return None
        if sorted(axes.tolist()) != [2, 3] or shapes[-1][2:] != (1, 1):
            return None
        return (Step("GlobalAveragePool", (0,)),)

    return write


def convolved_bytes(site: Site) -> bool:
    """Whether a node reads a quantized image of 8 bits that follows a convolution."""
    data = site.required(0)
    image = data.in_bytes and len(data.shape) == IMAGE and not site.node.storage
    return image and follows_convolution(site.graph, data.name)


def follows_convolution(graph: Graph, name: str) -> bool:
    """Whether there is a convolution not far before a value, and nothing that lays images out anew behind it."""
    waiting, seen = deque([name]), {name}
    for _ in range(FAR):
        node = graph.producer(waiting.popleft()) if waiting else None
        if node is not None and node.op == "Conv":
            return True
        before = {*node.inputs} - seen if node is not None and node.op not in APART else set[str]()
        seen |= before
        waiting += sorted(before)
    return False
