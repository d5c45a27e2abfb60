"""Weights of float16: they stay so in the file, are floats when the model is loaded, and change nothing else."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
import pytest
from ai_edge_litert import schema_py_generated as schema
from onnx import TensorProto, helper, numpy_helper

import layoutsolve
from layoutsolve.emit import tensors
from layoutsolve.emit.guards.scope import Scope, widened
from layoutsolve.frontend.tflite.lowering.registry import every_lowering
from layoutsolve.ir.graph import Array
from layoutsolve.verification.model_inputs import feeds
from layoutsolve.verification.runtimes import OnnxRuntime, optimised
from tests.builder import Builder
from tests.conformance.rewritten import rewritten
from tests.conformance.running import FEW_LEVELS, judge

_NAMES = {number: name for name, number in vars(schema.TensorType).items()}
FLOATS, HALVES = schema.TensorType.FLOAT32, schema.TensorType.FLOAT16


def in_halves(model: Any) -> bool:
    """Store the constants of floats as float16, each behind a DEQUANTIZE; whether there are any."""
    model.operatorCodes.append(schema.OperatorCodeT(builtinCode=6, deprecatedBuiltinCode=6, version=3))
    found = False
    for subgraph in model.subgraphs:
        made = []
        for index, tensor in enumerate(list(subgraph.tensors)):
            data = model.buffers[tensor.buffer].data
            if tensor.type != FLOATS or data is None or not len(data) or tensor.isVariable or tensor.sparsity:
                continue
            with np.errstate(over="ignore"):
                half = np.asarray(data, np.uint8).view(np.float32).astype(np.float16)
            model.buffers.append(schema.BufferT(data=half.view(np.uint8)))
            name = tensor.name + b"/half"
            stored = schema.TensorT(name=name, shape=tensor.shape, type=HALVES, buffer=len(model.buffers) - 1)
            tensor.buffer = 0
            subgraph.tensors.append(stored)
            last = len(subgraph.tensors) - 1
            made.append(schema.OperatorT(len(model.operatorCodes) - 1, inputs=[last], outputs=[index]))
        subgraph.operators = [*made, *(subgraph.operators or [])]
        found |= bool(made)
    return found


def plain(source: bytes, monkeypatch: pytest.MonkeyPatch) -> onnx.ModelProto:
    """The model with all constants as they are loaded."""
    with monkeypatch.context() as patched:
        patched.setattr(tensors, "HALVED", 1 << 60)
        return layoutsolve.convert(source).model


def loaded(model: onnx.ModelProto) -> Counter[tuple[object, ...]]:
    """What ONNX Runtime makes of a model on loading: how many operators of each kind there are, and which constants by
    type, shape and bytes.
    """
    graph = optimised(model.SerializeToString(), "all").graph
    nodes = Counter[tuple[object, ...]]((node.op_type, len(node.input)) for node in graph.node)
    arrays = map(numpy_helper.to_array, graph.initializer)
    return nodes + Counter({(str(each.dtype), each.shape, each.tobytes()) for each in arrays})


def halves(model: onnx.ModelProto) -> int:
    return sum(each.data_type == TensorProto.FLOAT16 for each in model.graph.initializer)


@pytest.mark.members(39)
@pytest.mark.parametrize("operator", every_lowering())
def test_of_every_operator(operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever reads it, a constant of float16 is stored as that, and what is loaded is the same to the bit."""
    case, model = next(rewritten(in_halves, operator, 1), (None, None))
    if case is None or model is None:
        pytest.skip("it reads no constants of floats")
    monkeypatch.setattr(tensors, "HALVED", 1)
    for module in ("tflite.lower", "onnx.lower"):
        monkeypatch.setattr(f"layoutsolve.frontend.{module}.are_halves", lambda data, dtype: dtype == "float16")
    conversion = layoutsolve.convert(model.source)
    other = plain(model.source, monkeypatch)
    assert loaded(conversion.model) == loaded(other)
    judge(case, model, conversion.model, levels=FEW_LEVELS)
    ends = {port.name for port in other.graph.input}  # what states are at first
    floats = [each for each in other.graph.initializer if each.data_type == TensorProto.FLOAT and each.name not in ends]
    narrow = [each for each in floats if tensors.half_of(numpy_helper.to_array(each)) is not None]
    assert halves(conversion.model) == len(narrow)


def dense(way: str, weights: Array) -> bytes:
    """A dense layer, or two, of weights that come to it in some way."""
    builder, (rows, columns) = Builder(), weights.shape
    x, kernel = builder.input("x", (2, columns)), builder.tensor("kernel", weights.shape)
    given = weights.T if way == "transposed" else weights.reshape(rows, 1, columns) if way == "reshaped" else weights
    half = builder.constant("half", np.ascontiguousarray(given))
    widened = kernel if given is weights else builder.tensor("widened", given.shape)
    builder.operator("DEQUANTIZE", [half], [widened])
    if way == "transposed":
        builder.operator("TRANSPOSE", [widened, builder.constant("order", np.array([1, 0], np.int32))], [kernel])
    if way == "reshaped":
        builder.operator("RESHAPE", [widened, builder.constant("sizes", np.array(weights.shape, np.int32))], [kernel])
    out = builder.tensor("out", (2, rows))
    builder.operator("FULLY_CONNECTED", [x, kernel, -1], [out], {})
    if way == "shared":
        again = builder.tensor("again", (2, rows))
        builder.operator("FULLY_CONNECTED", [out, kernel, -1], [again], {})
        return builder.finish(out, again)
    if way == "output":
        return builder.finish(out, kernel)
    return builder.finish(out)


WAYS = ("dense", "output", "reshaped", "shared", "transposed")


@pytest.mark.parametrize("way", WAYS)
def test_file_stays_small(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the weights come to their reader, the file is as small as its source, and so is that of the file. The
    results are those of weights in 32 bits.
    """
    random = np.random.default_rng(0)
    weights = random.standard_normal((64, 64)).astype(np.float16)
    weights.reshape(-1)[:4] = 6e-8, -6e-8, -0.0, 65504  # steps below the normal ones, a signed zero, the largest
    source, x = dense(way, weights), random.standard_normal((2, 64)).astype(np.float32)
    converted = layoutsolve.convert(source).model
    again = layoutsolve.convert(converted.SerializeToString()).model
    results = [results_of(each, x) for each in (converted, again, plain(source, monkeypatch))]
    for found in results[:2]:
        assert [each.tobytes() for each in found] == [each.tobytes() for each in results[2]]
    assert loaded(converted) == loaded(plain(source, monkeypatch))
    for each in (converted, again):
        assert each.ByteSize() < weights.nbytes + 1500


def results_of(model: onnx.ModelProto, *inputs: Array) -> list[Array]:
    runtime = OnnxRuntime(model.SerializeToString(), threads=1)
    return runtime.run(feeds(runtime, inputs, {}))


def test_constants_that_stay_floats() -> None:
    """Few elements, what is no number of float16 any more, and what a source has whose weights are no halves."""
    weights = np.random.default_rng(3).standard_normal((64, 64)).astype(np.float32)
    plain = Builder()
    x, out = plain.input("x", (2, 64)), plain.tensor("out", (2, 64))
    plain.operator("FULLY_CONNECTED", [x, plain.constant("kernel", np.ones((64, 64), np.float32)), -1], [out], {})
    for source in (dense("dense", weights[:2, :2].astype(np.float16)), plain.finish(out)):
        assert not halves(layoutsolve.convert(source).model)
    builder = Builder()
    kernel, factor = builder.tensor("kernel", weights.shape), builder.constant("factor", np.float32(1 / 3))
    builder.operator("DEQUANTIZE", [builder.constant("half", weights.astype(np.float16))], [kernel])
    scaled, out = builder.tensor("scaled", weights.shape), builder.tensor("out", (2, 64))
    builder.operator("MUL", [kernel, factor], [scaled], {})
    builder.operator("FULLY_CONNECTED", [builder.input("x", (2, 64)), scaled, -1], [out], {})
    assert not halves(layoutsolve.convert(builder.finish(out)).model)


@pytest.mark.parametrize("numbers", [np.nan, np.inf, 65520.0, 1e-9, -0.0, 2049.0, 0.5], ids=str)
def test_half_of(numbers: float) -> None:
    """The same numbers to the bit, or none. NaN has bits of its own."""
    data = np.full(300, numbers, np.float32)
    half = tensors.half_of(data)
    assert (half is None) == (numbers in (65520.0, 1e-9, 2049.0) or np.isnan(numbers))
    if half is not None:
        assert half.astype(np.float32).tobytes() == data.tobytes()


def test_within_bodies() -> None:
    """What a branch reads is widened in the main graph, where all branches see it."""
    weights = np.random.default_rng(1).standard_normal((16, 32)).astype(np.float16)
    branches = []
    for name in ("then", "else"):
        nodes = [
            helper.make_node("Cast", ["half"], [f"{name}/wide"], to=TensorProto.FLOAT),
            helper.make_node("MatMul", ["x", f"{name}/wide"], [name]),
        ]
        nodes += [helper.make_node("Neg", [name], [f"{name}/out"])] if name == "else" else []
        out = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, [2, 32])
        branches.append(helper.make_graph(nodes, name, [], [out]))
    node = helper.make_node("If", ["which"], ["y"], then_branch=branches[0], else_branch=branches[1])
    more = helper.make_node("Transpose", ["y"], ["z"], perm=[1, 0]), helper.make_node("Transpose", ["z"], ["out"])
    x, which, out = (
        helper.make_tensor_value_info(name, kind, shape)
        for name, kind, shape in (("x", 1, [2, 16]), ("which", 9, []), ("out", 1, [2, 32]))
    )
    graph = helper.make_graph([node, *more], "g", [x, which], [out], [numpy_helper.from_array(weights, "half")])
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    converted = layoutsolve.convert(source.SerializeToString()).model
    assert converted.graph.node[0].op_type == "Cast" and converted.ByteSize() < weights.nbytes + 2500
    data = np.random.default_rng(2).standard_normal((2, 16)).astype(np.float32)
    for chosen in (True, False):
        expected, found = (results_of(each, data, np.array(chosen)) for each in (source, converted))
        assert found[0].tobytes() == expected[0].tobytes()


def test_guards_see_them_as_floats() -> None:
    """What is cast to float32, whatever other attributes the Cast has, is a constant of float32 to guards."""
    half = np.arange(300, dtype=np.float16)
    casts = [
        helper.make_node("Cast", ["half"], ["wide"], saturate=0, to=TensorProto.FLOAT),
        helper.make_node("Cast", ["half"], ["double"], to=TensorProto.DOUBLE),
        helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT),
    ]
    constants = {"half": numpy_helper.from_array(half, "half"), "x": numpy_helper.from_array(half.astype(int), "x")}
    graph = helper.make_graph(casts, "g", [], [], [*constants.values()])
    scope = Scope(graph, 19, {**constants, **widened(graph, constants)}, str)
    found = scope.constant("wide")
    assert found is not None and found.dtype == np.float32
    np.testing.assert_array_equal(found, half)
    assert scope.constant("double") is scope.constant("y") is None
