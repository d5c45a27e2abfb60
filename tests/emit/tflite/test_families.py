"""Families of single operators whose sizes, padding and bounds come together in ways that runtimes take differently:
what is written, as TensorFlow Lite and as ONNX, gives what ONNX Runtime does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product

import numpy as np
import onnx
import pytest

import layoutsolve
from layoutsolve.ir.graph import Array
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.emit.tflite.test_operators import Case, real, whole
from tests.truth import litert

Family = Iterator[tuple[str, Case]]


def results(model: onnx.ModelProto, given: list[Array]) -> list[Array]:
    """What ONNX Runtime computes."""
    truth = OnnxRuntime(model.SerializeToString(), level="none")
    return list(truth.run(dict(zip([name for name, _, _ in truth.inputs], given, strict=True))))


def transposed() -> Family:
    """Results whose size is given, and the padding follows: it may be odd, or none."""
    for how, size, kernel in product(("", "VALID", "SAME_UPPER", "SAME_LOWER"), (9, 10), (2, 3)):
        told = {"auto_pad": how} if how else {}
        yield "ConvTranspose", Case(real(1, 1, 5), real(1, 2, kernel), strides=[2], output_shape=[size], **told)
    for how, kernel, stride, extra in product(("SAME_UPPER", "SAME_LOWER"), (1, 3, 4), (2, 3), (0, 1)):
        told = {"auto_pad": how, "strides": [stride] * 2, "output_padding": [extra, 0]}
        yield "ConvTranspose", Case(real(1, 2, 4, 3), real(2, 1, kernel, kernel), **told)


def pools() -> Family:
    """Sizes that are rounded up: a window that begins in the padding behind is none."""
    for number, (kernel, stride, ahead, after) in enumerate(product((1, 2, 3), (1, 2, 3), (0, 1), (0, 2))):
        if max(ahead, after) < kernel:
            told = {"kernel_shape": [kernel, 2], "strides": [stride, 3], "pads": [ahead, 0, after, 1], "ceil_mode": 1}
            yield "MaxPool", Case(real(1, 2, 5, 7), **told)
            yield "AveragePool", Case(real(1, 2, 5, 7), count_include_pad=number % 2, **told)


def slices() -> Family:
    """Bounds far outside, in both directions."""
    for start, end, step in product((-100, -4, -1, 2, 100), (-100, -3, 0, 100), (-2, -1, 1)):
        if np.arange(3)[slice(max(start, -3), end, step)].size:
            yield "Slice", Case(real(3, 2), whole(start), whole(end), whole(0), whole(step))


def squeezed() -> Family:
    """No axes are all that have size 1."""
    for shape in ((2, 1, 3), (1, 1), (2, 3)):
        yield "Squeeze", Case(real(*shape), np.zeros(0, np.int64))


def curves() -> Family:
    """Slopes of either sign, and rows without length."""
    for alpha in (-2.0, -0.5, 0.5):
        yield "Celu", Case(real(3, 5), alpha=alpha)
    for axis, order in product((0, 1), (1, 2)):
        yield "LpNormalization", Case(real(3, 4) * whole(1, 0, 1, 0, dtype="float32"), axis=axis, p=order)
        yield "LpNormalization", Case(np.zeros((3, 4), np.float32), axis=axis, p=order)


def plain_bytes() -> Family:
    """Integers that stand for themselves are compared, and interpolated, as such."""
    for operator, dtype in product(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), ("int8", "uint8")):
        one, other = (np.arange(count).astype(dtype) for count in (12, 4))
        yield operator, Case(one.reshape(3, 4), other, fed=(0, 1))
        yield operator, Case(one, np.array(5, dtype))
    for dtype, mode in product(("int8", "uint8"), ("half_pixel", "asymmetric")):
        image = np.random.default_rng(3).integers(0, 100, (1, 2, 3, 4)).astype(dtype)
        told = {"mode": "linear", "coordinate_transformation_mode": mode}
        yield "Resize", Case(image - 40 if dtype == "int8" else image, None, None, whole(1, 2, 6, 8), **told)


FAMILIES: Mapping[str, Callable[[], Family]] = {
    each.__name__: each for each in (transposed, pools, slices, squeezed, curves, plain_bytes)
}


@pytest.mark.parametrize("name", FAMILIES)
def test_family(name: str) -> None:
    for operator, case in FAMILIES[name]():
        model, given = case.model(operator)
        expected = results(model, given)
        found = litert().run(layoutsolve.convert(model, to="tflite").content(""), given).results
        again = results(onnx.load_from_string(layoutsolve.convert(model).content("")), given)
        for one, *others in zip(expected, found, again, strict=True):
            for other in others:
                assert (one.shape, one.dtype) == (other.shape, other.dtype), (operator, case.attributes)
                np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)
