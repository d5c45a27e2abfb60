"""Operators on bytes and ONNX Runtime's own: they stay what they are, and Transposes go through them or into them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
import pytest
from onnx import helper

import layoutsolve
from layoutsolve.emit import serialise
from layoutsolve.proto.data_movement import moves
from layoutsolve.proto.weight_selection import running
from layoutsolve.solver.theory.rule import RULES
from layoutsolve.solver.theory.rules.siblings import LINES, SIBLINGS
from tests.frontend.onnx.test_random import run
from tests.graphs import feeds
from tests.random_onnx import Writer
from tests.solver.cases import graph_of
from tests.solver.siblings import PRIVATE
from tests.solver.standard import RELATED

THERE, BACK = (0, 2, 3, 1), (0, 3, 1, 2)
OTHERS = ("FusedMatMul", "MatMulNBits", "QLinearConcat", "QLinearSoftmax")
AS_ONNX = {f"{PRIVATE}{op}" for op in ("DequantizeLinear", "QuantizeLinear")}
"""Operators that are read as those of ONNX, of bytes."""

ELSEWHERE = {
    f"{PRIVATE}{op}"
    for op in ("GatherND", "GridSample", "MatMulInteger16", "MurmurHash3", "Pad", "SampleOp", "ScaledSiLU")
}
"""Operators that :mod:`tests.frontend.onnx.test_there_and_back` alone has between Transposes."""

OWN = [
    "DynamicQuantizeLinear",
    *(name for name in SIBLINGS if name not in ELSEWHERE | AS_ONNX),
    *LINES,
    *(f"{PRIVATE}{op}" for op in OTHERS),
]


class Bytes(Writer):
    """A model with operators of any domain, on numbers of which some are stored as bytes."""

    def own(self, name: str, *inputs: str, shape: Sequence[int], **attributes: object) -> str:
        domain, _, kind = name.rpartition(":")
        return self.op(kind, *inputs, shape=shape, domain=domain, **attributes)

    def step(self, dtype: str = "uint8") -> list[str]:
        return [self.constant(0.0625), self.constant(3, dtype)]

    def stored(self, x: str) -> str:
        return self.op("QuantizeLinear", x, *self.step(), shape=self.shapes[x])

    def meant(self, x: str) -> str:
        return self.op("DequantizeLinear", x, *self.step(), shape=self.shapes[x])

    def matrix(self, *shape: int) -> list[str]:
        """Weights of bytes, with a step and a zero for each column or row of the last or the first dimension."""
        count = shape[0] if len(shape) == 4 else shape[-1]
        scales = self.constant(self.random.uniform(0.01, 0.02, count))
        return [self.constant(self.random.integers(-90, 90, shape), "int8"), scales, self.constant([0] * count, "int8")]

    def shuffled(self, x: str, axis: int, first: int = 2) -> str:
        """A dimension whose two factors change places."""
        shape = self.shapes[x]
        apart = [*shape[:axis], first, shape[axis] // first, *shape[axis + 1 :]]
        split = self.op("Reshape", x, self.constant(apart, "int64"), shape=apart)
        perm = [*range(axis), axis + 1, axis, *range(axis + 2, len(apart))]
        return self.op("Reshape", self.transpose(split, perm), self.constant(shape, "int64"), shape=shape)


def elementwise(w: Bytes, name: str) -> str:
    """There and back around it."""
    x = w.input(2, 3, 4, 6)
    if name.endswith(("Gelu", f"{PRIVATE}QuantizeLinear")):
        numbers = w.step() if name.endswith("Linear") else []
        y = w.own(name, w.transpose(x, THERE), *numbers, shape=(2, 4, 6, 3))
        return w.meant(w.transpose(y, BACK)) if numbers else w.transpose(y, BACK)
    given, shape, how = [w.transpose(w.stored(x), THERE), *w.step()], (2, 4, 6, 3), dict[str, object]()
    if name.endswith("DequantizeLinear"):
        return w.transpose(w.own(name, *given, shape=shape), BACK)
    if name.endswith(("QLinearAdd", "QLinearMul", "QLinearWhere", "QLinearConcat")):
        given += [w.transpose(w.stored(w.input(2, 3, 4, 6)), THERE), *w.step()]
    if name.endswith("QLinearConcat"):
        given, shape, how = [*w.step(), *given], (2, 4, 6, 6), {"axis": 3}
    else:
        given += w.step()
    if name.endswith("QLinearWhere"):
        given = [w.constant(w.random.integers(0, 2, (2, 4, 6, 3)), "bool"), *given]
    if name.endswith("QLinearSoftmax"):
        how = {"axis": 1, "opset": 13}
    return w.meant(w.transpose(w.own(name, *given, shape=shape, **how), BACK))


def dynamic(w: Bytes, name: str) -> str:
    """Bytes of the range of what is given, whose zero is computed."""
    x, names = w.transpose(w.input(2, 3, 4, 6), THERE), ["bytes", "step", "zero"]
    w.nodes.append(helper.make_node(name, [x], names))
    w.shapes["bytes"] = (2, 4, 6, 3)
    y = w.op("ConvInteger", w.transpose("bytes", BACK), *w.matrix(4, 3, 1, 1)[:1], "zero", shape=(2, 4, 4, 6))
    return w.op("Cast", y, shape=(2, 4, 4, 6), to=onnx.TensorProto.FLOAT)


def image(w: Bytes, name: str) -> str:
    """Channels in another order before it, and in their own behind it, where another convolution is."""
    last, x = name.endswith(("NhwcMaxPool", f"{PRIVATE}QLinearConv")), w.input(2, 4, 5, 6)
    if name.endswith("FusedConv"):
        for _ in range(2):
            x = w.own(name, x, w.weights(4, 4, 1, 1), w.weights(4), shape=(2, 4, 5, 6), activation="Relu")
            x = w.shuffled(x, 1)
        return w.own(name, x, w.weights(4, 4, 1, 1), shape=(2, 4, 5, 6), activation="Relu")
    if name.endswith("Pool"):
        shape = (2, 5, 6, 4) if last else (2, 4, 5, 6)
        x = w.input(*shape) if last else x
        small = [1 if "Global" in name and dim > 4 else dim for dim in shape]
        how = {} if "Global" in name else {"kernel_shape": [1, 1]}
        numbers = [] if last else [*w.step(), *w.step()]
        y = w.own(name, w.shuffled(w.stored(x), 3 if last else 1), *numbers, shape=small, **how)
        return w.meant(w.shuffled(y, 3 if last else 1))
    x = w.stored(w.input(2, 5, 6, 4) if last else x)
    how: dict[str, object] = {"channels_last": 1, "kernel_shape": [1, 1]} if last else {}
    if name == "ConvInteger":
        x = w.shuffled(x, 1)
        y = w.own(name, x, *w.matrix(4, 4, 1, 1)[:1], shape=(2, 4, 5, 6))
        return w.op("Cast", y, shape=(2, 4, 5, 6), to=onnx.TensorProto.FLOAT)
    shape = (2, 5, 6, 4) if last else (2, 4, 5, 6)
    for _ in range(2):
        x = w.own(name, x, *w.step(), *w.matrix(4, 4, 1, 1), *w.step(), shape=shape, **how)
        x = w.shuffled(x, 3 if last else 1)
    return w.meant(w.own(name, x, *w.step(), *w.matrix(4, 4, 1, 1), *w.step(), shape=shape, **how))


def lines(w: Bytes, name: str) -> str:
    """Rows in another order, and back."""
    width = 32 if name.endswith("NBits") else 4
    x, shape = w.input(2, 3, width), (3, 2, 4)
    if name.endswith("LayerNormalization"):
        given = [w.transpose(x, (1, 0, 2)), w.transpose(w.input(2, 3, 4), (1, 0, 2)), w.weights(4)]
    elif name.endswith("Gelu"):
        given = [w.transpose(x, (1, 0, 2)), w.weights(4)]
    elif name.endswith("NBits"):
        packed = w.constant(w.random.integers(0, 255, (4, 2, 8)), "uint8")
        given = [w.transpose(x, (1, 0, 2)), packed, w.weights(8)]
        made = w.own(name, *given, shape=shape, K=32, N=4, bits=4, block_size=16)
        return w.transpose(made, (1, 0, 2))
    elif name.endswith("DynamicQuantizeMatMul"):
        given = [w.transpose(x, (1, 0, 2)), *w.matrix(4, 4)]
    else:
        left, (data, scale, zero) = w.transpose(w.stored(x), (1, 0, 2)), w.matrix(4, 4)
        steps = w.step()
        given = {
            "MatMulInteger": [left, data, steps[1]],
            "QLinearMatMul": [left, *steps, data, scale, zero, *w.step()],
            f"{PRIVATE}MatMulIntegerToFloat": [left, data, steps[0], scale, steps[1], zero],
        }[name]
    y = w.transpose(w.own(name, *given, shape=shape), (1, 0, 2))
    if name == "MatMulInteger":
        return w.op("Cast", y, shape=w.shapes[y], to=onnx.TensorProto.FLOAT)
    return w.meant(y) if name == "QLinearMatMul" else y


def matrices(w: Bytes, name: str) -> str:
    """A matrix the other way round, which the operator may transpose as well."""
    if name.endswith("FusedMatMul"):
        x, y = w.input(2, 3, 4), w.transpose(w.input(2, 5, 4), (0, 2, 1))
        return w.own(name, x, y, shape=(2, 3, 5), alpha=0.5)
    if name.endswith("FusedGemm"):
        x = w.transpose(w.input(4, 3), (1, 0))
        return w.own(name, x, w.weights(4, 6), w.weights(6), shape=(3, 6), alpha=0.5, activation="Relu")
    x = w.transpose(w.stored(w.input(4, 3)), (1, 0))
    return w.own(name, x, *w.step(), *w.matrix(4, 6), shape=(3, 6), alpha=0.5)


def sandwich(name: str) -> Callable[[Bytes, str], str]:
    if name == "DynamicQuantizeLinear":
        return dynamic
    if "Conv" in name or name.endswith("Pool"):
        return image
    if name.endswith(("FusedMatMul", "Gemm")):
        return matrices
    row = SIBLINGS.get(name)
    return lines if name in LINES or name.endswith("NBits") or (row and row.of == "MatMul") else elementwise


@pytest.mark.parametrize("name", OWN)
def test_transposes_go(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is left around or between such operators, some are without the rule, and results are the same."""
    w = Bytes(0)
    y = sandwich(name)(w, name)
    graph = helper.make_graph(w.nodes, "bytes", [w._port(each) for each in w.inputs], [w._port(y)], w.constants)
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    source = helper.make_model(graph, opset_imports=imports, ir_version=8)
    kind = name.rpartition(":")[2]
    found = layoutsolve.convert(source.SerializeToString(), objective="min-transpose").model
    assert moves(source).transposes > moves(found).transposes == 0
    before, after = ([node for node in running(model.graph) if node.op_type == kind] for model in (source, found))
    assert len(before) == len(after) > 0 and before[0].domain == after[0].domain
    for optimised in (False, True):
        truth, made = (run(model, w.feeds(), optimised=optimised)[0] for model in (source, found))
        assert truth.dtype == made.dtype and np.allclose(truth, made, rtol=1e-5, atol=1e-5) and np.ptp(truth) > 0
    monkeypatch.delitem(RULES, name)
    without = layoutsolve.convert(source.SerializeToString(), objective="min-transpose").model
    assert moves(without).transposes > 0


@pytest.mark.members(48)
@pytest.mark.parametrize("name", sorted(RELATED.keys() - {"SwiGLU"}))  # of which ONNX Runtime has no kernel
def test_results_stay(name: str) -> None:
    """Of files that tell nothing of the sizes between operators."""
    for seed in range(3):
        graph, _ = graph_of(name, seed)
        source = serialise(graph)
        del source.graph.value_info[:]
        data = dict(zip([port.name for port in source.graph.input], feeds(graph, seed), strict=True))
        found = layoutsolve.convert(source.SerializeToString()).model
        assert moves(found).counts <= moves(source).counts
        for truth, made in zip(run(source, data), run(found, data), strict=True):
            assert truth.dtype == made.dtype and np.allclose(truth, made, rtol=1e-4, atol=1e-5)
