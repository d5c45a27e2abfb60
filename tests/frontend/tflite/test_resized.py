"""Images of any size resized to the nearest pixel: which pixels are taken, for all pairs of sizes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from layoutsolve.emit import serialise
from layoutsolve.frontend import read
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.builder import Builder, Quant
from tests.truth import litert

OUT = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 56, 64, 80)
MODES = ({}, {"align_corners": True}, {"half_pixel_centers": True})


def resized(size: tuple[int, int] | None, signature: tuple[int, int], mode: dict[str, bool], dtype: str) -> bytes:
    """An image resized to ``size``, else to what a second input says."""
    builder, quant = Builder(), Quant([0.02], [3]) if dtype == "int8" else None
    x = builder.input("x", (1, *map(abs, signature), 1), dtype, quant=quant, signature=(1, *signature, 1))
    wanted = builder.constant("size", np.array(size, np.int32)) if size else builder.input("size", (2,), "int32")
    y = builder.tensor("y", (1, *(size or (1, 1)), 1), dtype, quant=quant, signature=(1, *(size or (-1, -1)), 1))
    builder.operator("RESIZE_NEAREST_NEIGHBOR", [x, wanted], [y], mode)
    return builder.finish(y)


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_computed_sizes(mode: dict[str, bool]) -> None:
    """Both sizes are known at run time only: heights of 1 to 128, each with half of the targets."""
    source = resized(None, (-1, -1), mode, "float32")
    runtimes = [OnnxRuntime(serialise(read(source)).SerializeToString(), threads=1, level=level)
                for level in ("none", "all")]  # fmt: skip
    for height, out in ((rows, out) for rows in range(1, 129, 3) for out in OUT[rows % 2 :: 2]):
        rows = np.arange(height, dtype=np.float32).reshape(1, height, 1, 1)
        given = [np.repeat(rows, 2, axis=2), np.array([out, 1], np.int32)]
        (truth,) = litert().run(source, given).results
        for runtime in runtimes:
            (found,) = runtime.run(dict(zip(("x", "size"), given, strict=True)))
            assert np.array_equal(found, truth), (height, out)


@pytest.mark.parametrize("dtype", ["float32", "int8", "int16"])
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_one_dynamic_size(mode: dict[str, bool], dtype: str) -> None:
    """One size or both are dynamic, the target is constant, of numbers of several types."""
    for size, signature in product(((4, 7), (13, 1), (24, 24)), ((-1, 5), (6, -1), (-1, -1))):
        source = resized(size, signature, mode, dtype)
        runtime = OnnxRuntime(serialise(read(source)).SerializeToString(), threads=1)
        for free in (1, 2, 3, 7, 14, 24, 41):
            shape = [1, *(free if each < 0 else each for each in signature), 1]
            data = (np.arange(np.prod(shape)) % 251 - 120).reshape(shape).astype(dtype)
            (truth,) = litert().run(source, [data]).results
            assert np.array_equal(runtime.run({"x": data})[0], truth), (size, signature, free)


@pytest.mark.parametrize("mode", [MODES[0], MODES[2]], ids=str)
@pytest.mark.parametrize("factor", [2, 3, 4, 5, 7, 11, 41])
def test_whole_factors(factor: int, mode: dict[str, bool]) -> None:
    """Images of any size, enlarged by a whole factor."""
    builder = Builder()
    x = builder.input("x", (1, 1, 1, 1), signature=(1, -1, -1, 1))
    shape = builder.tensor("shape", (4,), "int32")
    builder.operator("SHAPE", [x], [shape], {"out_type": 2})
    bounds = [builder.constant("bound", np.array([each], np.int32)) for each in (1, 3, 1)]
    sizes, grown = builder.tensor("sizes", (2,), "int32"), builder.tensor("grown", (2,), "int32")
    builder.operator("STRIDED_SLICE", [shape, *bounds], [sizes], {})
    builder.operator("MUL", [sizes, builder.constant("factor", np.int32(factor))], [grown], {})
    y = builder.tensor("y", (1, 1, 1, 1), signature=(1, -1, -1, 1))
    builder.operator("RESIZE_NEAREST_NEIGHBOR", [x, grown], [y], mode)
    source = builder.finish(y)
    graph = read(source)
    # The reciprocal of 41 in float32 is less than that.
    assert any(node.op == "Resize" for node in graph.nodes) == (bool(mode) or factor != 41)
    runtime = OnnxRuntime(serialise(graph).SerializeToString(), threads=1)
    for height in range(1, 129):
        data = np.arange(height, dtype=np.float32).reshape(1, height, 1, 1)
        (truth,) = litert().run(source, [data]).results
        assert np.array_equal(runtime.run({"x": data})[0], truth), height
