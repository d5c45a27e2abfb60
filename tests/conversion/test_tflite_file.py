"""TensorFlow Lite of a source whose inputs are given other sizes (``--shape``)."""

from __future__ import annotations

import numpy as np
import pytest

import layoutsolve
from layoutsolve import ConversionError, UnsupportedError
from layoutsolve.frontend.tflite.reading.reader import parse
from tests.builder import Builder, Quant
from tests.random_models import network
from tests.truth import litert


def stated(data: bytes) -> dict[str, tuple[int, ...]]:
    """The sizes of a model's inputs."""
    main = parse(data).subgraphs[0]
    return {each.name: each.signature or each.shape for each in (main.tensors[index] for index in main.inputs)}


@pytest.mark.members(5)
@pytest.mark.parametrize("seed", range(40))
def test_a_file_has_the_sizes_that_are_asked_for(seed: int) -> None:
    """With as many Transposes as its source or with fewer, whether other layouts are found or not."""
    made = network(seed)
    source = made.source
    sizes = {name: shape for name, shape in stated(source).items() if shape}
    for first in (3, -1, 0):
        asked = {name: (first or shape[0], *shape[1:]) for name, shape in sizes.items()}
        try:
            found = layoutsolve.convert(source, shapes=asked, to="tflite")
        except ConversionError:
            assert first  # the source's own sizes are always written
            continue
        assert {**stated(source), **asked} == stated(found.data)
        assert not found.kept or asked == sizes
        verified = layoutsolve.verify(source, found, samples=1)
        if verified.verdict == "not verified":  # where LiteRT's kernels want the source's own sizes
            shapes = [[max(size, 2) for size in shape] for shape in stated(found.data).values()]
            litert().run(
                found.data, [np.zeros(shape, each.dtype) for shape, each in zip(shapes, made.feeds(2), strict=True)]
            )
        else:
            assert verified.passed


def pooled(batch: int) -> bytes:
    """A mean over the pixels of a batch of int8 images, which LiteRT has a kernel for in one layout alone."""
    builder, steps = Builder(), Quant((0.02,), (3,))
    x = builder.input("x", (batch, 6, 6, 16), "int8", quant=steps)
    kernel = np.random.default_rng(1).integers(-127, 128, (16, 1, 1, 16)).astype(np.int8)
    weights = builder.constant("w", kernel, quant=Quant((0.01,) * 16, (0,) * 16, 0))
    bias = builder.constant("b", np.arange(16, dtype=np.int32), quant=Quant((0.0002,) * 16, (0,) * 16, 0))
    image = builder.tensor("image", (batch, 6, 6, 16), "int8", quant=steps)
    options = {"padding": 0, "stride_w": 1, "stride_h": 1}
    builder.operator("CONV_2D", [x, weights, bias], [image], options)
    y = builder.tensor("y", (batch, 16), "int8", quant=steps)
    builder.operator("MEAN", [image, builder.constant("axes", np.array([1, 2], np.int32))], [y], {"keep_dims": False})
    return builder.finish(y)


@pytest.mark.parametrize("batch", [1, 2, 5])
@pytest.mark.parametrize("other", [1, 2, 4, -1])
def test_operators_on_bytes_are_written_for_another_batch(batch: int, other: int) -> None:
    source = pooled(batch)
    found = layoutsolve.convert(source, shapes={"x": (other, 6, 6, 16)}, to="tflite")
    assert found.moves.transposes == 0 and bool(found.kept) == (batch == other)
    assert stated(found.data) == {"x": (other, 6, 6, 16)}
    if other > 0:
        data = np.random.default_rng(other).integers(-128, 128, (other, 6, 6, 16)).astype(np.int8)
        (one,), (several,) = (litert().run(each, [data]).results for each in (found.data, pooled(other)))
        np.testing.assert_array_equal(one, several)


def test_the_first_reason_is_given_where_a_size_cannot_be_written() -> None:
    """Operators that keep their layouts are no reason."""
    for seed in (2, 8):
        source = network(seed).source
        asked = {name: (3, *shape[1:]) for name, shape in stated(source).items() if shape}
        with pytest.raises(UnsupportedError, match=r"its int8 kernel is not there in other layouts; .* sizes.*--shape"):
            layoutsolve.convert(source, shapes=asked, to="tflite")


def upscaled(batch: int, dtype: str) -> bytes:
    """A TRANSPOSE_CONV, an operand of which states the sizes of its result."""
    builder, random = Builder(), np.random.default_rng(2)
    quants = [Quant((scale,), (0,)) if dtype == "int8" else None for scale in (0.02, 0.01, 0.05)]
    low, high = (-127, 128) if dtype == "int8" else (-2, 3)
    x = builder.input("x", (batch, 5, 6, 3), dtype, quant=quants[0])
    weights = builder.constant("w", random.integers(low, high, (4, 3, 3, 3)).astype(dtype), quant=quants[1])
    sizes = builder.constant("sizes", np.array([batch, 10, 12, 4], np.int32))
    y = builder.tensor("y", (batch, 10, 12, 4), dtype, quant=quants[2])
    builder.operator("TRANSPOSE_CONV", [sizes, weights, x], [y], {"padding": 0, "stride_w": 2, "stride_h": 2})
    return builder.finish(y)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("other", [1, 2, 4, -1])
def test_sizes_that_an_operand_states_follow(dtype: str, other: int) -> None:
    source = upscaled(1, dtype)
    try:
        found = layoutsolve.convert(source, shapes={"x": (other, 5, 6, 3)}, to="tflite")
    except UnsupportedError:
        assert dtype == "int8" and other == -1  # which no kernel computes with sizes of a run
        return
    batch = max(other, 3) if other == -1 else other
    data = np.random.default_rng(other + 1).integers(-9, 9, (batch, 5, 6, 3)).astype(dtype)
    (one,), (several,) = (litert().run(each, [data]).results for each in (found.data, upscaled(batch, dtype)))
    np.testing.assert_allclose(one, several, rtol=1e-6)
