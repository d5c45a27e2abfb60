"""Dynamic dimensions have two sizes in a comparison, where the source computes with both: what holds for a batch of one
may not hold for another.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import layoutsolve
from layoutsolve.verification import onnx_source
from layoutsolve.verification.verify import verify
from tests.builder import Builder


def tflite(signature: tuple[int, ...], fixed: bool = False) -> bytes:
    build = Builder()
    x, y = build.input("x", (1, 6), signature=signature), build.tensor("y", (1, 6), signature=signature)
    if fixed:
        build.operator("RESHAPE", [x, build.constant("s", np.array([1, 6], np.int32))], [y])
    else:
        build.operator("ABS", [x], [y])
    return build.finish(y)


@pytest.mark.parametrize(
    ("signature", "sizes"),
    [
        ((-1, 6), ("first 1", "first 2")),
        ((-1, -1), ("first 1, others 1", "first 2, others 2")),
        ((1, -1), ("others 1", "others 2")),
        ((1, 6), ()),
    ],
)
def test_two_sizes(signature: tuple[int, ...], sizes: tuple[str, ...]) -> None:
    found = layoutsolve.verify(tflite(signature), layoutsolve.convert(tflite(signature)))
    assert found.verdict == "pass" and found.sizes == sizes
    assert ("dynamic dimensions: " in str(found)) == bool(sizes)


@pytest.mark.parametrize(
    ("shape", "fixed", "sizes"),
    [
        ((-1, 6), False, ("first 1", "first 2")),
        ((-1, 6), True, ("first 1",)),
        ((-1, -1), False, ("first 1, others 6", "first 2, others 7")),
        ((1, -1), False, ("others 6", "others 7")),
        ((4, 6), False, ()),
    ],
)
def test_sizes_that_were_opened(shape: tuple[int, int], fixed: bool, sizes: tuple[str, ...]) -> None:
    """They are those of the source first, and larger then, where the source computes with these as well."""
    dims = ", ".join("nc"[axis] if size < 0 else str(size) for axis, size in enumerate(shape))
    text = f'<ir_version: 8, opset_import: ["" : 18]> g (float[{dims}] x) => (float[{dims}] y)'
    model = onnx.parser.parse_model(text + (" { y = Identity(x) }" if fixed else " { y = Abs(x) }"))
    found = verify(tflite((1, 6), fixed), model)
    assert found.verdict == "pass" and found.sizes == sizes


@pytest.mark.parametrize(("batch", "verdict"), [(1, "FAIL"), (9, "pass")])
def test_an_opened_batch_is_one_of_several(batch: int, verdict: str) -> None:
    assert verify(tflite((1, 6)), wrong(batch)).verdict == verdict


def test_where_one_size_is_taken_alone() -> None:
    source = tflite((-1, 6), fixed=True)
    found = layoutsolve.verify(source, layoutsolve.convert(source))
    assert found.verdict == "pass" and found.sizes == ("first 1",)


def wrong(batch: int) -> onnx.ModelProto:
    """A model that is right for a batch of a size alone: of others it repeats the first rows."""
    return onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 18]> g (float[n, 6] x) => (float[n, 6] y)
        <int64[1] most = {{{batch}}}, int64[1] zero = {{0}}, int64[2] same = {{-1, 6}}> {{
            a = Abs(x) s = Shape(a) head = Slice(a, zero, most) y = Expand(head, s) }}"""
    )


def test_what_is_right_for_a_batch_of_one_alone() -> None:
    """It fails, or is refused by ONNX Runtime."""
    found = verify(tflite((-1, 6)), wrong(1))
    assert found.verdict == "FAIL"
    assert (
        onnx_source.verify(
            onnx.parser.parse_model(
                '<ir_version: 8, opset_import: ["" : 18]> g (float[n, 6] x) => (float[n, 6] y) { y = Abs(x) }'
            ).SerializeToString(),
            wrong(1).SerializeToString(),
        ).verdict
        == "FAIL"
    )


def test_sources_in_onnx_have_two_sizes() -> None:
    source = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18]> g (float[n, 6] x) => (float[n, 6] y) { y = Abs(x) }'
    )
    found = layoutsolve.verify(source, layoutsolve.convert(source))
    assert found.verdict == "pass" and found.sizes == ("n=2", "n=1")


@pytest.mark.parametrize(
    ("shape", "inputs", "to"),
    [((1, 5, 4, 3), "keep", "onnx"), ((-1, 5, 4, 3), "nhwc", "onnx"), ((1, 5, 4, 3), "nhwc", "tflite")],
)
def test_sizes_that_were_given(shape: tuple[int, ...], inputs: str, to: str) -> None:
    """A source in ONNX is run with the sizes that its result was given, in whichever order that has them."""
    source = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 18]> g (float[n, c, h, w] x, float[n] z)
            => (float[n, c, h, w] y, float[n] t) { y = Abs(x) t = Abs(z) }"""
    )
    shapes = {"x": shape, "z": shape[:1]}
    conversion = layoutsolve.convert(source, shapes=shapes, inputs=inputs, to=to)  # type: ignore[arg-type]
    found = layoutsolve.verify(source, conversion)
    assert found.verdict == "pass" and found.sizes == (("n=2", "n=1") if shape[0] < 0 else ())
