"""Average pools of bytes as depthwise convolutions by ones: runtimes have fast kernels on bytes for those alone."""

from __future__ import annotations

from math import prod

import numpy as np

from layoutsolve.graph import BYTES, Quant, Shape, Value
from layoutsolve.solver.theory.offer import idiom
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import Idiom, Rule, Site, Step
from layoutsolve.solver.theory.rules.blocks import CHANNELS
from layoutsolve.solver.theory.rules.slopes import IMAGE

FEWEST = 8
"""The channels from which on kernels on bytes take less time than floats."""

KEPT = ("kernel_shape", "strides", "pads", "dilations")
"""The attributes that a convolution has as an average has them."""


@idiom("AveragePool", "depthwise")
def depthwise(site: Site, rule: Rule) -> Idiom | None:
    """Windows that are neither whole images nor reach into what does not count, by weights of 1 in steps of a share.
    No two products by 1 are too large for 16 bits, so that the weights may have a sign for every target.
    """
    ends = site.required(0), site.output()
    stored = all(each.dtype in BYTES and each.quant is not None and each.quant.axis is None for each in ends)
    kernel = tuple(site.attribute("kernel_shape", ()))
    if not stored or site.node.storage or not _counts_alike(site) or ends[0].shape[2:] == kernel:
        return None

    def write(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...] | None:
        channels = shapes[0][CHANNELS] if len(shapes[0]) == IMAGE else 0
        if not isinstance(channels, int) or channels < FEWEST:
            return None
        share = Quant(np.array([1 / prod(kernel)], np.float32), np.zeros(1, np.int8))
        ones = np.ones((channels, 1, *kernel), np.int8)
        attributes = {name: value for name, value in site.node.attributes.items() if name in KEPT}
        weights = Value(f"{site.node.outputs[0]}/ones", "int8", ones.shape, share, ones)
        return (Step("Conv", (0, weights), (0,), {**attributes, "group": channels}),)

    return write


def _counts_alike(site: Site) -> bool:
    """Whether all windows have the same number of elements that count."""
    padded = any(site.attribute("pads", ())) and not site.attribute("count_include_pad", 0)
    return not padded and site.attribute("auto_pad", "NOTSET") == "NOTSET" and not site.attribute("ceil_mode", 0)
