"""Rows of attention in which a mask hides everything are 0, as exporters have them, with XNNPACK and without."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import layoutsolve
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.ir.graph import Array
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.truth import litert

BATCH, HEADS, ROWS, COLUMNS, WIDTH = 2, 2, 4, 5, 3
FULL = (BATCH, HEADS, ROWS, COLUMNS)
LAST = np.array([-1])


class Attention:
    """A random model of attention: layers that share masks, of which each may be constant, chosen by what is given, or
    given itself, and hide some rows altogether or none.
    """

    def __init__(self, seed: int, hides: bool, fixed: bool = False) -> None:
        self.choose, self.rng = random.Random(seed), np.random.default_rng(seed)
        self.hides, self.fixed = hides, fixed
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {"zero": np.zeros((), np.float32), "low": np.array(-np.inf, np.float32)}
        self.given: dict[str, Array] = {}
        masks = [self.mask() for _ in range(self.choose.choice((1, 1, 2)))]
        for layer in range(self.choose.choice((1, 2))):
            self.layer(layer, masks)

    def op(self, operator: str, *inputs: str, **attributes: object) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def input(self, data: Array) -> str:
        name = f"x{len(self.given)}"
        self.given[name] = data
        return name

    def constant(self, data: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = data
        return name

    def mask(self) -> str:
        """A mask of some of the dimensions of the scores; without hidden rows its first column is seen."""
        shape = [size if self.choose.random() < 0.7 else 1 for size in FULL[self.choose.choice((0, 1, 2)) :]]
        seen = self.rng.random(shape) < 0.6
        if self.hides:
            seen[..., self.choose.randrange(shape[-2]), :] = False
        else:
            seen[..., 0] = True
        kind = "constant" if self.fixed else self.choose.choice(("constant", "chosen", "given", "moved"))
        floats = np.where(seen, self.rng.standard_normal(shape), -np.inf).astype(np.float32)
        if kind == "constant":
            return self.constant(floats)
        if kind == "chosen":
            return self.op("Where", self.input(seen), "zero", "low")
        if kind == "given":
            return self.input(floats)
        turned = self.op("Where", self.input(np.swapaxes(seen, -1, -2).copy()), "zero", "low")
        perm = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
        return self.op("Transpose", turned, perm=perm)

    def layer(self, number: int, masks: list[str]) -> None:
        """Scores, masks, a softmax, zeros for what is no number, and a product."""
        query, key = (self.input(self.rng.standard_normal(shape).astype(np.float32))
                      for shape in ((*FULL[:3], WIDTH), (*FULL[:2], WIDTH, COLUMNS)))  # fmt: skip
        scores = self.op("MatMul", query, key)
        if self.choose.random() < 0.5:
            scores = self.op("Mul", scores, self.constant(np.array(0.5, np.float32)))
        if len(masks) > 1 and self.choose.random() < 0.5:
            scores = self.op("Add", scores, self.op("Add", *masks))
        else:
            for mask in masks:
                scores = self.op("Add", *self.choose.sample((scores, mask), 2))
        parts = self.op("Softmax", scores, axis=self.choose.choice((3, -1)))
        whole = self.guarded(scores, parts)
        value = self.constant(self.rng.standard_normal((COLUMNS, WIDTH)).astype(np.float32))
        self.nodes.append(helper.make_node("MatMul", [whole, value], [f"y{number}"]))

    def guarded(self, scores: str, parts: str) -> str:
        """Parts, or 0 in rows that are hidden, as exporters may tell them: by the result, or by what is read."""
        kind, last = (
            self.choose.choice(("number", "no number", "equal", "all", "any", "most", "largest")),
            self.constant(LAST),
        )
        if kind in ("number", "no number"):
            test = self.op("IsNaN", parts)
            test = self.op("Not", test) if kind == "number" else test
        elif kind == "equal":
            test = self.op("Equal", parts, parts)
        elif kind in ("most", "largest"):
            most = self.op("ReduceMax", scores, last, keepdims=1)
            test = self.op("IsInf", most) if kind == "most" else self.op("Equal", most, "low")
        else:
            low = self.op("Equal", scores, "low")
            each = self.op("Cast", self.op("Not", low) if kind == "any" else low, to=TensorProto.INT32)
            row = self.op("ReduceMax" if kind == "any" else "ReduceMin", each, last, keepdims=1)
            test = self.op("Cast", row, to=TensorProto.BOOL)
        seen = kind in ("number", "equal", "any")
        if self.choose.random() < 0.3:
            test, seen = self.op("Not", test), not seen
        return self.op("Where", test, *((parts, "zero") if seen else ("zero", parts)))

    def model(self) -> onnx.ModelProto:
        ports = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(data.dtype), data.shape)
            for name, data in self.given.items()
        ]
        results = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, (*FULL[:3], WIDTH))
            for node in self.nodes
            for name in node.output
            if name.startswith("y")
        ]
        constants = [numpy_helper.from_array(data, name) for name, data in self.constants.items()]
        graph = helper.make_graph(self.nodes, "g", ports, results, constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def compared(network: Attention) -> Counter[str]:
    """The operators that are written, whose results are those of ONNX Runtime."""
    model = network.model()
    truth = OnnxRuntime(model.SerializeToString(), level="none")
    expected = truth.run({name: network.given[name] for name, _, _ in truth.inputs})
    written = layoutsolve.convert(model, to="tflite").content("")
    for delegate in (False, True):
        found = litert().run(written, [*network.given.values()], delegate=delegate).results
        for one, other in zip(expected, found, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)
    return Counter(each.name for each in parse(written).subgraphs[0].operators)


@pytest.mark.members(16)
@pytest.mark.parametrize("seed", range(120))
def test_hidden_rows(seed: int) -> None:
    """Masks that may hide rows leave a product, whatever they are made of."""
    operators = compared(Attention(seed, hides=seed % 3 > 0))
    assert not operators["NOT_EQUAL"]


@pytest.mark.members(10)
@pytest.mark.parametrize("seed", range(40))
def test_constant_masks(seed: int) -> None:
    """Those that are constants leave nothing where each row has something to see, and a product where one has not."""
    hides = seed % 2 > 0
    network = Attention(seed, hides, fixed=True)
    operators = compared(network)
    assert not {"GREATER", "GREATER_EQUAL", "NOT_EQUAL", "SELECT_V2"} & operators.keys()
    scaled = sum(node.op_type == "Mul" for node in network.nodes)
    layers = sum(node.op_type == "Softmax" for node in network.nodes)
    assert operators["MUL"] - scaled == layers * hides


@pytest.mark.parametrize("number", [np.nan, np.inf, np.finfo(np.float32).min])
@pytest.mark.parametrize("hides", [False, True])
def test_masks_that_are_none(number: float, hides: bool) -> None:
    """What else is no number is looked for, and so it is beside finite numbers that are as low as what is hidden."""
    network = Attention(0, hides=False, fixed=True)
    for name, data in network.constants.items():
        if name.startswith("c") and data.shape[-1:] == (COLUMNS,):
            data[...] = -np.inf if hides else 0
            data[..., -1] = number
    written = layoutsolve.convert(network.model(), to="tflite").content("")
    operators = {each.name for each in parse(written).subgraphs[0].operators}
    assert ("NOT_EQUAL" in operators) == (hides or not np.isfinite(number))


SPELLINGS = {
    "Sub": "s = Sub(q, m)",
    "Neg": "n = Neg(m) s = Add(n, q)",
    "Mul": "n = Mul(minus, m) s = Add(q, n)",
    "scaled": "n = Neg(m) t = Add(q, n) s = Mul(t, half)",
    "divided": "n = Neg(m) t = Add(n, q) s = Div(t, half)",
    "twice": "n = Neg(m) t = Mul(n, half) s = Add(q, t)",
}


@pytest.mark.parametrize("hides", [False, True])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_masks_that_are_subtracted_or_scaled(spelling: str, known: bool, hides: bool) -> None:
    """Rows that they hide are 0 too, however a mask of plus infinity becomes one of minus infinity."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 18]> g (float[2, 4, 5] q, bool[4, 5] c) => (float[2, 4, 5] y)
        <float zero = {{0}}, float half = {{0.5}}, float minus = {{-1}}, float high = {{1}}> {{
        {"" if known else "m = Where(c, zero, high)"} {SPELLINGS[spelling]} p = Softmax <axis = -1>(s) i = IsNaN(p)
        y = Where(i, zero, p) }}"""
    )
    rng = np.random.default_rng(len(spelling))
    seen = rng.random((4, 5)) < 0.6
    seen[:, 0], seen[1] = True, not hides
    (high,) = [each for each in model.graph.initializer if each.name == "high"]
    high.CopyFrom(numpy_helper.from_array(np.array(np.inf, np.float32), "high"))
    if known:
        model.graph.initializer.append(numpy_helper.from_array(np.where(seen, 0, np.inf).astype(np.float32), "m"))
        del model.graph.input[1]
    given = [rng.standard_normal((2, 4, 5)).astype(np.float32), seen][: 1 if known else 2]
    truth = OnnxRuntime(model.SerializeToString(), level="none").run(dict(zip("qc", given, strict=False)))
    written = layoutsolve.convert(model, to="tflite").content("")
    for delegate in (False, True):
        (found,) = litert().run(written, given, delegate=delegate).results
        np.testing.assert_allclose(found, truth[0], rtol=2e-5, atol=2e-5)
