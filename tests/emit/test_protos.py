"""What is made of ONNX's classes is what ``onnx`` itself makes, and is made without the most of it."""

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from layoutsolve.emit.opset import HIGHEST_OPSET, LOWEST_OPSET, ir_version
from layoutsolve.emit.tensors import elements, tensor
from layoutsolve.proto.messages import attribute, port
from tests.builder import Builder

ALONE = """
import sys
from layoutsolve.base import lazy_imports
lazy_imports.own = True
import layoutsolve
conversion = layoutsolve.convert(sys.argv[1])
assert not {"onnx", "onnx.helper", "ml_dtypes"} & sys.modules.keys()
import onnx.helper
onnx.checker.check_model(conversion.model, full_check=True)
assert isinstance(conversion.model, onnx.ModelProto) and onnx.helper.make_node("Abs", ["x"], ["y"]).op_type == "Abs"
"""


def small_model() -> bytes:
    """One operator."""
    build = Builder()
    x = build.input("image", (1, 4, 5, 3))
    y = build.tensor("result", (1, 4, 5, 3))
    build.operator("ABS", [x], [y])
    return build.finish(y)


def test_a_process_of_its_own_loads_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(small_model())
    subprocess.run([sys.executable, "-c", ALONE, tmp_path / "model.tflite"], check=True)


def values() -> list[object]:
    """What attributes can be."""
    ints = [0, -1, 1 << 62, True, np.int64(3)]
    floats = [0.5, -1e300, float("inf"), np.float32(0.1), np.float64(2)]
    texts = ["", "ä\0", b"\xff", "NOTSET"]
    many = [random.Random(seed).choices(each, k=3) for seed in range(5) for each in (ints[:5], floats, texts)]
    graph = helper.make_graph([helper.make_node("Abs", ["x"], ["y"])], "g", [], [])
    return [*ints, *floats, *texts, *many, [1, 0.5], numpy_helper.from_array(np.arange(3)), graph]


def test_attributes() -> None:
    for value in values():
        plain = [int(each) if isinstance(each, bool) else each for each in value] if isinstance(value, list) else value
        assert attribute("name", value) == helper.make_attribute("name", plain), value


@pytest.mark.parametrize("value", [None, [], {}, object(), [1, "a"], [None], 1 << 70])
def test_what_is_no_attribute(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        attribute("name", value)


@pytest.mark.parametrize("shape", [[], [1], [2, "n", 0], ["batch", "batch"]])
def test_descriptions(shape: list[int | str]) -> None:
    for element in (onnx.TensorProto.FLOAT, onnx.TensorProto.STRING):
        assert port("name", element, shape) == helper.make_tensor_value_info("name", element, shape)


def test_arrays_are_read_again() -> None:
    generator = np.random.default_rng(0)
    integers = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
    for dtype in ("float32", "float64", "float16", "bool", "complex64", *integers):
        for shape in ((), (0,), (3, 1, 2)):
            data = generator.integers(0, 2, shape).astype(dtype)
            proto = tensor("name", dtype, data)
            assert proto == numpy_helper.from_array(data, "name")
            assert elements(proto).dtype == data.dtype and np.array_equal(elements(proto), data)
    for dtype, low, high in (("int4", -8, 8), ("uint4", 0, 16)):
        for size in range(5):
            data = generator.integers(low, high, (size, 1)).astype(dtype[:-1] + "8")
            proto = tensor("name", dtype, data)
            assert np.array_equal(elements(proto), data)
            assert np.array_equal(numpy_helper.to_array(proto).astype(np.int8), data.astype(np.int8))
    texts = np.array([b"a\xff", b""], object)
    assert elements(tensor("name", "string", texts)).tolist() == texts.tolist()


def test_formats_are_the_oldest() -> None:
    for version in range(LOWEST_OPSET, HIGHEST_OPSET + 1):
        assert ir_version(version) == helper.find_min_ir_version_for([helper.make_opsetid("", version)])
