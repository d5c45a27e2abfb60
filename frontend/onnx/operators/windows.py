"""Convolutions and pools: kernel, strides, dilations and padding in numbers, so that none is implied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from layoutsolve.errors import Gap, UnsupportedError
from layoutsolve.frontend.onnx.call import Call
from layoutsolve.frontend.onnx.operators.registry import lowering
from layoutsolve.frontend.shapes import same_pads, same_passes_over
from layoutsolve.ir.graph import Dim, Size, product
from layoutsolve.proto import pool_sizes


@lowering("Conv", "ConvTranspose", "AveragePool", "MaxPool", "LpPool")
def window(call: Call) -> bool:
    """Kernel, strides, dilations and padding in numbers, so that none is implied."""
    if not call.known(0) or any(not call.known(number) for number in range(1, len(call.inputs))):
        return False
    shape = call.value(0).shape
    rank = len(shape) - 2
    attributes = dict(call.attributes)
    kernel = _kernel(call)
    if kernel is None or len(kernel) != rank or rank < 1:
        return False
    attributes["kernel_shape"] = kernel
    strides, dilations = call.integers("strides") or (1,) * rank, call.integers("dilations") or (1,) * rank
    automatic = attributes.pop("auto_pad", "NOTSET") or "NOTSET"
    if automatic.startswith("SAME") and call.op.endswith("Pool") and max(dilations) > 1:
        reason = "it has dilations, which ONNX Runtime's padding by auto_pad leaves out and ONNX's does not"
        gap = Gap(
            call.draft.graph, call.index, call.op, call.outputs[0], reason, "export the model with pads in numbers"
        )
        raise UnsupportedError([gap])
    if automatic != "NOTSET":
        pads = (
            _transposed_padding(call, automatic, kernel, strides, dilations)
            if call.op == "ConvTranspose"
            else _padding(automatic, shape[2:], kernel, strides, dilations)
        )
        if pads is None:
            return False
        attributes["pads"] = pads
        if automatic.startswith("SAME"):
            attributes.pop("ceil_mode", None)  # which that does not look at
    for name in [name for name, value in attributes.items() if not isinstance(value, (int, float, str, tuple))]:
        del attributes[name]  # an empty list
    made = _result(call, shape, kernel, strides, dilations, attributes)
    names, storage = call.operands(call.stores)
    call.draft.declare(call.outputs[0], made)
    for name in call.outputs[1:]:
        call.draft.declare(name, made)
    call.emit(call.op, names, call.outputs, attributes, storage)
    return True


def _kernel(call: Call) -> tuple[int, ...] | None:
    """The sizes of the kernel, as far as they are known; None where nothing tells them."""
    kernel = call.integers("kernel_shape")
    if kernel is None and call.op in ("Conv", "ConvTranspose"):
        return tuple(size for size in call.value(1).shape[2:] if isinstance(size, int))
    return kernel


def _padding(
    way: str, sizes: Sequence[Dim], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[int, ...] | None:
    """The padding that is meant; None where that depends on a size that is not known."""
    if way == "VALID":
        return (0,) * (2 * len(kernel))
    found = []
    for size, extent, stride, gap in zip(sizes, kernel, strides, dilations, strict=True):
        if same_passes_over(size, (extent - 1) * gap + 1, stride):
            return None
        pads = None if isinstance(size, Size) and stride > 1 else same_pads(size, extent, stride, gap)
        if pads is None:
            return None
        found.append(pads if way == "SAME_UPPER" else pads[::-1])
    return (*(before for before, _ in found), *(after for _, after in found))


def _transposed_padding(
    call: Call, way: str, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[int, ...] | None:
    """What a transposed convolution with ``output_padding`` cuts off, where each pixel is to give one stride: inference
    takes its result for larger than runtimes do. None for others.
    """
    extra = call.integers("output_padding")
    if not way.startswith("SAME") or extra is None or call.integers("output_shape") is not None:
        return None
    totals = [
        max((size - 1) * gap + 1 + more - stride, 0)
        for size, gap, more, stride in zip(kernel, dilations, extra, strides, strict=True)
    ]
    sides = [each // 2 for each in totals], [each - each // 2 for each in totals]
    before, after = sides if way == "SAME_UPPER" else sides[::-1]
    return (*before, *after)


def _result(
    call: Call,
    shape: Sequence[Dim],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    attributes: dict[str, Any],
) -> list[Dim | None]:
    """The sizes of the result, where those of the image have names."""
    known = call.draft.types.dims(call.outputs[0])
    if known is not None and None not in known:
        return list(known)
    pads, rank = attributes.get("pads", (0,) * (2 * len(kernel))), len(kernel)
    channels: Dim | None = shape[1]
    if call.op == "Conv":
        channels = call.value(1).shape[0]
    elif call.op == "ConvTranspose":
        channels = product((call.value(1).shape[1], attributes.get("group", 1)))
    found: list[Dim | None] = [shape[0], channels]
    arithmetic = call.arithmetic
    for axis in range(rank):
        reach, size = dilations[axis] * (kernel[axis] - 1) + 1, shape[2 + axis]
        around = pads[axis] + pads[axis + rank]
        if call.op == "ConvTranspose":
            more = attributes.get("output_padding", (0,) * rank)[axis]
            given = attributes.get("output_shape")
            if given is not None:
                found.append(given[axis])
            else:
                last = product((strides[axis], arithmetic.difference(size, 1)))
                found.append(arithmetic.total((last, more + reach - around)))
        else:
            if attributes.get("ceil_mode", 0):
                around = pads[axis] + pool_sizes.behind(kernel, strides, dilations, pads)[axis]
            found.append(arithmetic.window(arithmetic.total((size, around)), reach, strides[axis]))
    return found


@lowering("GlobalAveragePool", "GlobalMaxPool")
def pooled(call: Call) -> bool:
    """A reduction over all pixels, which reads images in any layout."""
    if not call.known(0) or len(call.value(0).shape) < 3:
        return False
    shape, draft = call.value(0).shape, call.draft
    names, storage = call.operands(call.stores)
    axes = draft.sizes(range(2, len(shape)), f"{call.outputs[0]}/axes")
    draft.declare(call.outputs[0], [*shape[:2], *([1] * (len(shape) - 2))])
    op = "ReduceMean" if call.op == "GlobalAveragePool" else "ReduceMax"
    call.emit(op, [names[0], axes], call.outputs, {"keepdims": 1}, storage)
    return True
