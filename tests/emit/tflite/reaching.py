"""Changes of nodes in ONNX, and what becomes of them where TensorFlow Lite is written: see tests.conformance.reaching.
``reaching.txt`` beside this file has those that execute what no other test does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import layoutsolve
from layoutsolve.errors import ConversionError, InternalError, UnsupportedError
from layoutsolve.ir.graph import Array
from tests.conformance.reaching import CONVERTED
from tests.emit.tflite.test_operators import CASES

LINES = Path(__file__).with_name("reaching.txt")

Made = tuple[onnx.ModelProto, list[Array]]
STEP = 1 / 32
STEPS = {"uint8": (STEP, 131), "int16": (STEP / 64, 0), "float32": (0.0, 0)}
"""Scales and zero points of results of other types than int8; without a scale they are floats."""

TYPES = ("int8", "uint8", "int16", "int32", "int64", "bool", "float16", "float64")


def outcome(model: onnx.ModelProto) -> tuple[str, bytes]:
    """What becomes of a model: the error that it is refused with, or the converted one."""
    try:
        return CONVERTED, layoutsolve.convert(model, to="tflite").content("")
    except InternalError:
        raise
    except ConversionError as error:
        text = str(error.gaps[0]) if isinstance(error, UnsupportedError) else str(error)
        return f"{type(error).__name__}: {text}".replace("\n", " / "), b""


def changes(operator: str, number: int) -> Iterator[tuple[str, Callable[[], Made]]]:
    """All changes of a case, each with a label."""
    model, given = CASES[operator][number].model(operator)
    (node,), ports, constants = model.graph.node, model.graph.input, model.graph.initializer

    def changed(label: str, change: Callable[[onnx.ModelProto, list[Array]], object]) -> tuple[str, Callable[[], Made]]:
        def made() -> Made:
            other, inputs = onnx.ModelProto.FromString(model.SerializeToString()), [*given]
            change(other, inputs)
            for port in other.graph.output:
                port.CopyFrom(onnx.ValueInfoProto(name=port.name))
            return onnx.shape_inference.infer_shapes(other), inputs

        return label, made

    yield changed("as it is", lambda model, given: None)
    for at, constant in enumerate(constants):
        yield changed(f"{constant.name} given", lambda m, given, at=at: _give(m, given, at))
        for dtype in TYPES:
            yield changed(f"{constant.name} of {dtype}", lambda m, given, at=at, to=dtype: _constant(m, at, to))
    for at, port in enumerate(ports):
        for axis in range(len(port.type.tensor_type.shape.dim)):
            yield changed(f"{port.name} open along {axis}", lambda m, given, at=at, axis=axis: _open(m, at, axis))
        for dtype in TYPES:
            yield changed(f"{port.name} of {dtype}", lambda m, given, at=at, to=dtype: _retype(m, given, at, to))
        yield changed(f"{port.name} of one dimension more", lambda m, given, at=at: _shape(m, given, at, (1,)))
        yield changed(f"{port.name} of three dimensions more", lambda m, given, at=at: _shape(m, given, at, (1, 2, 1)))
    for dtype in TYPES:
        yield changed(f"all of {dtype}", lambda m, given, to=dtype: [_retype(m, given, at, to) for at in range(9)])
    yield changed("in int8", lambda m, given: _in_bytes(m, "int8"))
    for dtype in STEPS:
        yield changed(f"in int8 to {dtype}", lambda m, given, to=dtype: _in_bytes(m, to))
    for attribute in node.attribute:
        yield changed(f"without {attribute.name}", lambda m, given, name=attribute.name: _attribute(m, name, None))
        for other in _others(helper.get_attribute_value(attribute)):
            label = f"{attribute.name} = {other}"
            yield changed(label, lambda m, given, name=attribute.name, to=other: _attribute(m, name, to))


def _give(model: onnx.ModelProto, given: list[Array], at: int) -> None:
    constant = model.graph.initializer.pop(at)
    model.graph.input.append(helper.make_tensor_value_info(constant.name, constant.data_type, constant.dims))
    given.append(numpy_helper.to_array(constant))


def _constant(model: onnx.ModelProto, at: int, dtype: str) -> None:
    constant = model.graph.initializer[at]
    with np.errstate(all="ignore"):
        constant.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(constant).astype(dtype), constant.name))


def _open(model: onnx.ModelProto, at: int, axis: int) -> None:
    model.graph.input[at].type.tensor_type.shape.dim[axis].dim_param = "open"


def _retype(model: onnx.ModelProto, given: list[Array], at: int, dtype: str) -> None:
    if at < len(given):
        model.graph.input[at].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        with np.errstate(all="ignore"):
            given[at] = given[at].astype(dtype)


def _shape(model: onnx.ModelProto, given: list[Array], at: int, more: tuple[int, ...]) -> None:
    port = model.graph.input[at]
    given[at] = np.broadcast_to(given[at], (*more, *given[at].shape)).copy()
    port.CopyFrom(helper.make_tensor_value_info(port.name, port.type.tensor_type.elem_type, given[at].shape))


def _in_bytes(model: onnx.ModelProto, made: str) -> None:
    """Floats as bytes between QuantizeLinear and DequantizeLinear, the results as they are or in steps of a type."""
    (node,) = model.graph.node
    step, zero = STEPS.get(made, (STEP, 3))
    model.graph.initializer.append(numpy_helper.from_array(np.float32(step), "result step"))
    model.graph.initializer.append(numpy_helper.from_array(np.array(zero, made if step else "int8"), "result zero"))
    floats = {each.name for each in (*model.graph.input,) if each.type.tensor_type.elem_type == TensorProto.FLOAT}
    model.graph.initializer.append(numpy_helper.from_array(np.float32(STEP), "step"))
    model.graph.initializer.append(numpy_helper.from_array(np.int8(3), "zero"))
    before, behind, steps = [], [], ("result step", "result zero")
    for name in floats:
        before.append(helper.make_node("QuantizeLinear", [name, "step", "zero"], [f"{name}/q"]))
        before.append(helper.make_node("DequantizeLinear", [f"{name}/q", "step", "zero"], [f"{name}/d"]))
    node.input[:] = [f"{name}/d" if name in floats else name for name in node.input]
    for port in model.graph.output:
        if step and port.type.tensor_type.elem_type == TensorProto.FLOAT:
            node.output[:] = [f"{name}/r" if name == port.name else name for name in node.output]
            behind.append(helper.make_node("QuantizeLinear", [f"{port.name}/r", *steps], [f"{port.name}/q"]))
            behind.append(helper.make_node("DequantizeLinear", [f"{port.name}/q", *steps], [port.name]))
    nodes = [*before, onnx.NodeProto.FromString(node.SerializeToString()), *behind]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _attribute(model: onnx.ModelProto, name: str, value: object) -> None:
    (node,) = model.graph.node
    kept = [each for each in node.attribute if each.name != name]
    del node.attribute[:]
    node.attribute.extend(kept if value is None else [*kept, helper.make_attribute(name, value)])


def _others(value: object) -> list[object]:
    """Other values of an attribute."""
    if isinstance(value, int):
        return [each for each in (-1, 0, 1, 2, 3) if each != value]
    if isinstance(value, float):
        return [0.0, 0.5, 2.0]
    if isinstance(value, list) and value and all(isinstance(each, int) for each in value):
        return [[each + 1 for each in value], [1 for _ in value], [2 for _ in value], [*value[1:], value[0] + 1]]
    if isinstance(value, bytes):
        return ["edge", "reflect", "wrap", "linear", "cubic", "CRD", "SAME_LOWER", "bidirectional", "none"]
    return []
