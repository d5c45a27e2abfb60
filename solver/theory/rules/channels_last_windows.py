"""Convolutions that read or write channels-last: ``[N, H, W, C]`` taken as one channel of ``[H, W * C]``.

Where a kernel has no gaps along W, a window of ``kw`` pixels of C channels is ``kw * C`` neighbours in memory, and the
next window begins ``sw * C`` further on. So a plain Conv with a kernel ``[O, 1, kh, kw * C]``, strides ``(sh, sw * C)``
and C times the padding along W does the same multiplications.

The other way round, a ConvTranspose with a kernel ``[C, 1, kh, kw * O]`` writes O neighbours for each pixel. A Conv of
stride 1 is such a ConvTranspose, with its kernel reversed along all space.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.ir.graph import Array, Shape
from layoutsolve.solver.theory.relation import Placed
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import Between, Dims, Site, Step, Way, sizes, static
from layoutsolve.solver.theory.rules.contraction import numbers
from layoutsolve.solver.theory.rules.space import Order, attributes


@dataclass(frozen=True)
class Window:
    """How a kernel moves: a number for each dimension of space, which come in an ``order``, but ``pads`` at all starts,
    then at all ends.
    """

    order: Order
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    gaps: tuple[int, ...]
    extra: tuple[int, ...]

    def wider(self, by: int) -> dict[str, Any]:
        """The attributes of the operator where every step along the last dimension is ``by`` steps."""
        half = len(self.kernel)
        found = {
            "kernel_shape": _wider(self.kernel, by),
            "strides": _wider(self.strides, by),
            "pads": (*_wider(self.pads[:half], by), *_wider(self.pads[half:], by)),
            "dilations": self.gaps,
        }
        return found | ({"output_padding": _wider(self.extra, by)} if any(self.extra) else {})


def _wider(numbers: Sequence[int], by: int) -> tuple[int, ...]:
    return (*numbers[:-1], numbers[-1] * by)


def window(site: Site, order: Order) -> Window | None:
    """The window of a convolution, with its dimensions of space in an order, if it can be interleaved: weights are
    constant, in one group and without gaps along the last dimension, and the padding is known.
    """
    kernel = site.required(1)
    rank, given = len(order), site.node.attributes
    if given.get("group", 1) != 1 or given.get("dilations", (1,) * rank)[order[-1]] != 1:
        return None
    known = given.get("auto_pad", "NOTSET") == "NOTSET" and not given.get("output_shape")
    if not known or any(site.constant(number) is None for number in range(1, len(site.node.inputs))):
        return None
    moved = {"dilations": (1,) * rank, "strides": (1,) * rank, "pads": (0,) * (2 * rank), **attributes(given, order)}
    return Window(
        order,
        tuple(static(kernel.shape[2 + axis]) for axis in order),
        moved["strides"],
        moved["pads"],
        moved["dilations"],
        moved.get("output_padding", (0,) * rank),
    )


def reading(site: Site, form: Placed, window: Window) -> Way | None:
    """A Conv that reads channels-last, in the labels of its ordinary ``form``, which has space in a window's order."""
    if (channels := static(site.required(1).shape[1])) == 1:
        return None

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return site.same(window.wider(channels))

    data, kernel, *rest = form.places
    places = (_interleaved(data), _interleaved(kernel), *rest)
    facts = {"channels": channels, "stride": window.strides[-1], "space": len(window.order)}
    return Way(Placed(places, form.free, turned=form.turned), rewrite, f"interleaved, {numbers(site)}", facts)


def writing(site: Site, form: Placed, window: Window) -> Way | None:
    """A ConvTranspose of floats that writes channels-last, in the labels of its ordinary ``form``."""
    if not site.floating or (produced := static(site.required(1).shape[1])) == 1:
        return None

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        return _transposed(site, 1, window.order, window.wider(produced), shapes[-1])

    data, kernel, *rest, result = form.places
    places = (data, _interleaved(kernel), *rest, _interleaved(result))
    return Way(
        Placed(places, form.free, turned=form.turned), rewrite, f"interleaved, {numbers(site)}", {"produced": produced}
    )


def reversing(site: Site, form: Placed, window: Window) -> Way | None:
    """A Conv of floats that writes channels-last, as a ConvTranspose: its stride is 1, and its padding is not wider
    than what its kernel reaches. Channels keep their order, since its weights are written anew.
    """
    kernel = site.constant(1)
    if kernel is None or not site.floating or any(stride != 1 for stride in window.strides):
        return None
    reach = [gap * (size - 1) for gap, size in zip(window.gaps, window.kernel, strict=True)]
    pads = tuple(most - pad for most, pad in zip((*reach, *reach), window.pads, strict=True))
    produced, contracted = kernel.shape[:2]
    if min(pads) < 0 or produced == 1:
        return None

    def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
        wider, axes = replace(window, pads=pads).wider(produced), [2 + axis for axis in window.order]
        reversed_ = np.flip(kernel, tuple(range(2, kernel.ndim))).transpose(1, *axes, 0)
        weights = np.ascontiguousarray(reversed_).reshape(contracted, 1, *wider["kernel_shape"])
        return _transposed(site, weights, window.order, wider, shapes[-1])

    *inputs, result = form.places
    places = (*inputs, _interleaved(result))
    free = form.free - {"c", "o"}
    facts = {"channels": contracted, "produced": produced}
    return Way(Placed(places, free, turned=form.turned), rewrite, f"interleaved result, {numbers(site)}", facts)


def _interleaved(dims: Dims) -> Dims:
    """``[a, c, ..., w]`` as ``[a, 1, ..., (w c)]``."""
    outer, inner, *space, last = dims
    return (outer, (), *space, (*last, *inner))


def _transposed(
    site: Site, kernel: int | Array, order: Order, wider: Mapping[str, Any], shape: Shape
) -> tuple[Step, ...]:
    """A ConvTranspose of stored ``shape``, and the bias, which is repeated for every pixel of a row."""
    if site.input(2) is None:
        return (Step("ConvTranspose", (0, kernel), (0,), wider),)
    before, count = sizes((site.output().shape[2 + order[-1]],))
    return (
        *before,
        Step("Tile", (2, count), (Between("biases", site.output().dtype, shape[-1:]),)),
        Step("ConvTranspose", (0, kernel), (Between("product", site.output().dtype, shape),), wider),
        Step("Add", ("product", "biases"), (0,)),
    )
