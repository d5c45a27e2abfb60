"""Windows that slide over images: kernels and strides of all relations, rectangular, over sizes of all remainders."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from layoutsolve.emit import serialise
from layoutsolve.errors import ConversionError
from layoutsolve.frontend import read
from layoutsolve.frontend.tflite.operators.reduction import _pools
from layoutsolve.ir.graph import Array
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.builder import Builder, Quant
from tests.truth import litert

DEPTH = 2
POOLS = ("MAX_POOL_2D", "AVERAGE_POOL_2D", "L2_POOL_2D")
CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D", "CONV_3D")
STEPS = Quant([0.05], [3])
PAIRS = tuple(product((1, 2, 3, 4), repeat=2))
STRIDES = (1, 2, 3, 4)


def windowed(
    operator: str, dtype: str, kernel: Sequence[int], strides: Sequence[int], sizes: Sequence[int], dilation: int = 1
) -> bytes:
    """One operator with the padding SAME over an image or, of three sizes, a volume; -1 is a dynamic size."""
    builder, random = Builder(), np.random.default_rng(0)
    quant = STEPS if dtype == "int8" else None
    stated = [max(size, 1) for size in sizes]
    x = builder.input("x", (1, *stated, DEPTH), dtype, quant=quant, signature=(1, *sizes, DEPTH))
    out = [-1 if size < 0 else -(-size // stride) for size, stride in zip(sizes, strides, strict=True)]
    y = builder.tensor("y", (1, *map(abs, out), DEPTH), dtype, quant=quant, signature=(1, *out, DEPTH))
    axes = "dhw"[-len(sizes) :]
    options = {f"stride_{axis}": stride for axis, stride in zip(axes, strides, strict=True)}
    if operator in POOLS:
        options |= {"filter_height": kernel[0], "filter_width": kernel[1]}
        builder.operator(operator, [x], [y], {"padding": "SAME", **options})
        return builder.finish(y)
    options |= {f"dilation_{axis}_factor": dilation for axis in axes}
    shape = {"CONV_2D": (DEPTH, *kernel, DEPTH), "DEPTHWISE_CONV_2D": (1, *kernel, DEPTH)}
    weights = random.normal(0, 0.3, shape.get(operator, (*kernel, DEPTH, DEPTH))).astype(np.float32)
    if quant is None:
        inputs = [x, builder.constant("weights", weights), builder.constant("bias", np.ones(DEPTH, np.float32))]
    else:
        per_step = Quant([0.01] * DEPTH, [0] * DEPTH, 0 if operator == "CONV_2D" else 3)
        steps = np.clip(weights * 100, -127, 127).astype(np.int8)
        scales = Quant([0.01 * STEPS.scale[0]] * DEPTH, [0] * DEPTH)
        bias = builder.constant("bias", np.arange(DEPTH, dtype=np.int32), quant=scales)
        inputs = [x, builder.constant("weights", steps, quant=per_step), bias]
    if operator == "DEPTHWISE_CONV_2D":
        options["depth_multiplier"] = 1
    builder.operator(operator, inputs, [y], {"padding": "SAME", **options})
    return builder.finish(y)


def numbers(dtype: str, sizes: Sequence[int]) -> Array:
    """Negative ones are many, so that padding with zeros shows."""
    random, shape = np.random.default_rng(1), (1, *sizes, DEPTH)
    if dtype == "int8":
        return random.integers(-128, -20, shape).astype(np.int8)
    return random.uniform(-2, 1, shape).astype(np.float32)


def compare(source: bytes, dtype: str, shapes: Sequence[Sequence[int]], slack: int, label: object) -> None:
    """One conversion over all shapes, without optimisation and with all of it."""
    model = serialise(read(source)).SerializeToString()
    runtimes = [OnnxRuntime(model, threads=1, level=level) for level in ("none", "all")]
    for sizes in shapes:
        data = numbers(dtype, sizes)
        (truth,) = litert().run(source, [data]).results
        for runtime in runtimes:
            (found,) = runtime.run({"x": data})
            assert found.shape == truth.shape, (label, sizes)
            error = np.abs(found.astype(np.float64) - truth.astype(np.float64)).max()
            assert error <= (slack if dtype == "int8" else 1e-5), (label, sizes)


def depends(kernel: int, stride: int) -> bool:
    """Whether what SAME adds before an axis depends on its size."""
    return len({max(kernel - rest, 0) // 2 for rest in range(1, stride + 1)}) > 1


def refused(kernel: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether a pooling over dynamic sizes is: one axis needs automatic padding, which another one does not stand."""
    pairs = list(zip(kernel, strides, strict=True))
    return any(depends(*pair) for pair in pairs) and any(1 < size < stride for size, stride in pairs)


def diagonal(kernel: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """All heights and all widths up to 7, in pairs that vary with the window: of all remainders, and below kernels."""
    offset = sum(kernel) + 3 * strides[0] + strides[1]
    return [(size, (5 * size + offset) % 7 + 1) for size in range(1, 8)]


@pytest.mark.members(12)
@pytest.mark.parametrize("kernel", PAIRS, ids=str)
@pytest.mark.parametrize("operator", [*POOLS, *CONVOLUTIONS[:2]])
def test_dynamic_sizes(operator: str, kernel: tuple[int, int]) -> None:
    """SAME over sizes that are known at run time only is right for each, or refused. Every other pair of strides is
    tried, of neighbouring kernels the others.
    """
    for strides in [*product(STRIDES, repeat=2)][sum(kernel) % 2 :: 2]:
        dtype = "float32" if operator == "L2_POOL_2D" or sum(kernel + strides) % 2 else "int8"
        source = windowed(operator, dtype, kernel, strides, (-1, -1))
        if operator in POOLS and refused(kernel, strides):
            with pytest.raises(ConversionError, match="stride above the kernel size"):
                read(source)
            continue
        slack = int(operator != "MAX_POOL_2D")
        compare(source, dtype, diagonal(kernel, strides), slack, (dtype, strides))


@pytest.mark.members(5)
@pytest.mark.parametrize("operator", [*POOLS, *CONVOLUTIONS[:2]])
@pytest.mark.parametrize("dynamic", [(True, False), (False, True), (False, False)], ids=str)
def test_some_dynamic_sizes(operator: str, dynamic: tuple[bool, bool]) -> None:
    """One size is known, or both are."""
    random = np.random.default_rng(sum(map(ord, operator)))
    for _ in range(30):
        kernel, strides = tuple(random.integers(1, 5, 2).tolist()), tuple(random.integers(1, 5, 2).tolist())
        dtype = "float32" if operator == "L2_POOL_2D" or random.random() < 0.5 else "int8"
        sizes = tuple(random.integers(1, 13, 2).tolist())
        signature = [-1 if free else size for size, free in zip(sizes, dynamic, strict=True)]
        source = windowed(operator, dtype, kernel, strides, signature)
        shapes = [
            [each if free else size for size, free in zip(sizes, dynamic, strict=True)]
            for each in (range(1, 9) if any(dynamic) else (1,))
        ]
        slack = int(operator != "MAX_POOL_2D")
        try:
            compare(source, dtype, shapes, slack, (dtype, kernel, strides, signature))
        except ConversionError:
            assert operator in POOLS and refused(kernel, strides)


@pytest.mark.parametrize("dynamic", [False, True])
def test_volumes(dynamic: bool) -> None:
    """Convolutions of three dimensions."""
    random = np.random.default_rng(3)
    for _ in range(40):
        kernel, strides = random.integers(1, 5, 3).tolist(), random.integers(1, 5, 3).tolist()
        shapes = random.integers(1, 9, (6 if dynamic else 1, 3)).tolist()
        source = windowed("CONV_3D", "float32", kernel, strides, [-1] * 3 if dynamic else shapes[0])
        compare(source, "float32", shapes, 0, (kernel, strides))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("operator", CONVOLUTIONS)
def test_dilations(operator: str, dynamic: bool) -> None:
    """A dilation is written along those axes only along which a kernel has several elements."""
    rank = 3 if operator == "CONV_3D" else 2
    sizes = (5, 7, 6)[:rank]
    for kernel in product((1, 3), repeat=rank):
        source = windowed(operator, "float32", kernel, (1,) * rank, (-1,) * rank if dynamic else sizes, 3)
        (conv,) = (node for node in read(source).nodes if node.op == "Conv")
        given = conv.attributes.get("dilations", (1,) * rank)
        assert given == tuple(1 if size == 1 else 3 for size in kernel)
        compare(source, "float32", [sizes], 0, kernel)


@pytest.mark.parametrize("given", [None, Quant([0.0], [0]), Quant([0.1], [0])], ids=["none", "zero", "scale"])
@pytest.mark.parametrize("result", [None, Quant([0.0], [0]), Quant([0.1], [0])], ids=["none", "zero", "scale"])
def test_numbers_without_a_scale(given: Quant | None, result: Quant | None) -> None:
    """Maxima of int16 whose scale is left out on either side are refused by name."""
    builder = Builder()
    x = builder.input("x", (1, 4, 4, 2), "int16", quant=given)
    y = builder.tensor("y", (1, 2, 2, 2), "int16", quant=result)
    builder.operator("MAX_POOL_2D", [x], [y], {"stride_h": 2, "stride_w": 2, "filter_height": 2, "filter_width": 2})
    source = builder.finish(y)
    if all(quant is not None and quant.scale[0] for quant in (given, result)):
        read(source)
        return
    with pytest.raises(ConversionError, match=r"put of int16 has no quantization parameters"):
        read(source)


def test_poolings_are_those_of_which_every_window_meets_an_element() -> None:
    """Padded by less than a window, over all small sizes and dilations."""
    ways = product(range(1, 6), range(1, 4), range(1, 4), range(1, 5), range(3), range(3))
    for size, window, stride, dilation, before, behind in ways:
        starts = range(-before, size + behind - (window - 1) * dilation, stride)
        met = [any(0 <= start + step * dilation < size for step in range(window)) for start in starts]
        fits = max(before, behind) < window and bool(met) and all(met)
        assert _pools(size, window, stride, dilation, (before, behind)) == fits, (size, window, stride, dilation)
