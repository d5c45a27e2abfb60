"""Operators for which LiteRT has no kernel are left out: all others are verified, right and wrong ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

import layoutsolve
from experiments.compare.verdicts import broken
from layoutsolve.verification.flatbuffer_repacking import opened, packed
from tests.builder import Builder
from tests.random_models import network

NETWORKS = {1: "another stride", 8: "", 13: "another axis", 21: "dimensions not kept", 24: "another dilation"}
NETWORKS |= {26: "another axis", 28: "outputs swapped", 30: "dimensions not kept", 39: "slice begins one later"}
"""Seeds of networks with a fault that each has, beside the operator that becomes a custom one."""


def unknown(seed: int) -> bytes:
    """A random network of which one operator is a custom one."""
    source = network(seed).source
    model: Any = opened(source)
    operators = model.subgraphs[0].operators
    operator, code = operators[int(np.random.default_rng(seed).integers(len(operators)))], schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
    code.customCode, code.version = b"Unknown", 1
    model.operatorCodes.append(code)
    operator.opcodeIndex = len(model.operatorCodes) - 1
    operator.builtinOptions = operator.builtinOptions2 = None
    operator.builtinOptionsType = operator.builtinOptions2Type = 0
    return packed(model, source)


@pytest.mark.members(3)
@pytest.mark.parametrize("seed", NETWORKS)
def test_all_others_are_verified(seed: int) -> None:
    source = unknown(seed)
    right = layoutsolve.convert(source, custom="passthrough")
    found = layoutsolve.verify(source, right)
    assert (found.verdict, found.passed, found.code) == ("not verified", False, 4)
    assert "no kernel for Unknown (1)" in found.refusal and "; all else agrees" in found.refusal
    assert found.inspection is not None and found.inspection.compared and found.inspection.departure is None
    if NETWORKS[seed]:
        wrong = broken(right, NETWORKS[seed], seed)
        assert wrong is not None and layoutsolve.verify(source, wrong).verdict == "FAIL"


def between(last: bool = True, read: bool = True) -> bytes:
    """A convolution, an unknown operator, which may be the last one, or read by nobody, and an addition."""
    build, random = Builder(), np.random.default_rng(0)
    x = build.input("x", (1, 6, 6, 3))
    weights = build.constant("weights", random.normal(size=(4, 3, 3, 3)).astype(np.float32))
    bias = build.constant("bias", random.normal(size=4).astype(np.float32))
    made, other, y = (build.tensor(name, (1, 6, 6, 4)) for name in ("made", "other", "y"))
    build.operator("CONV_2D", [x, weights, bias], [made], {"strideH": 1, "strideW": 1})
    build.operator("CUSTOM:Unknown", [made], [other])
    if last:
        return build.finish(other)
    build.operator("ADD", [made, other if read else made], [y], {})
    return build.finish(y)


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("last", [False, True])
def test_what_it_reads_and_gives(last: bool, external: bool) -> None:
    """Before it, and behind it where it is not the last one; with constants in a file as well."""
    source = between(last)
    right = layoutsolve.convert(source, custom="passthrough", external_data=external or None)
    found = layoutsolve.verify(source, right)
    counts = "1 intermediate tensor and 1 output" if last else "2 intermediate tensors and 2 outputs"
    assert found.verdict == "not verified" and found.refusal.endswith(counts)
    wrong = broken(right, "bias rolled", 0)
    assert wrong is not None
    told = layoutsolve.verify(source, wrong)
    assert told.verdict == "FAIL" and told.inspection is not None
    assert told.inspection.departure is not None and told.inspection.departure.index == 0


def test_what_nobody_reads_does_not_matter() -> None:
    source = between(last=False, read=False)
    right = layoutsolve.convert(source)
    assert layoutsolve.verify(source, right).verdict == "pass"
    wrong = broken(right, "bias rolled", 0)
    assert wrong is not None and layoutsolve.verify(source, wrong).verdict == "FAIL"


def test_data_are_for_the_whole_model() -> None:
    """Who gives data would have to give what the operator gives too."""
    source, data = between(), {"x": np.zeros((1, 6, 6, 3), np.float32)}
    right = layoutsolve.convert(source, custom="passthrough")
    found = layoutsolve.verify(source, right, data=data)
    assert found.verdict == "not verified" and "all else" not in found.refusal


@pytest.mark.parametrize("right", [True, False])
def test_numbers_that_an_operator_would_not_give(right: bool) -> None:
    """Indices that are drawn for it may be refused by the result, which is not wrong for that."""
    build = Builder()
    x, index = build.input("x", (4,)), build.tensor("index", (4,), "int32")
    table = build.constant("table", np.arange(6, dtype=np.float32).reshape(2, 3))
    rows, y = build.tensor("rows", (4, 3)), build.tensor("y", (4, 3))
    build.operator("CUSTOM:Unknown", [x], [index])
    build.operator("GATHER", [table, index], [rows], {"axis": 0})
    build.operator("ABS", [rows], [y])
    source = build.finish(y)
    conversion = layoutsolve.convert(source, custom="passthrough")
    table_of = next(each for each in conversion.model.graph.initializer if list(each.dims) == [2, 3])
    if right:  # as of a table that is shorter there
        table_of.dims[0], table_of.raw_data = 1, table_of.raw_data[:12]
    else:
        next(node for node in conversion.model.graph.node if node.op_type == "Gather").op_type = "NoSuchOperator"
    found = layoutsolve.verify(source, conversion)
    assert found.verdict == ("not verified" if right else "FAIL"), str(found)


def hard_sigmoid(call: layoutsolve.Call) -> None:
    """A lowering of one's own that the product behind it joins: HardSwish."""
    x = call.input(0)
    three, zero, six, sixth = (call.constant(each, "c", "float32") for each in (3.0, 0.0, 6.0, 1 / 6))
    moved = call.write("Add", [x, three], x.shape, call.temporary("moved"))
    within = call.write("Clip", [moved, zero, six], x.shape, call.temporary("within"))
    call.write("Mul", [within, sixth], x.shape, call.slot())


def padded_convolution(call: layoutsolve.Call) -> None:
    """A lowering of one's own that takes over the padding in front of it."""
    x, weights = call.input(0), call.input(1)
    stored = call.transpose(x, (0, 3, 1, 2), call.temporary("nchw"), pattern=True)
    made = call.write("Conv", [stored, weights], (1, 4, 6, 6), call.temporary("made"), kernel_shape=[3, 3])
    call.transpose(made, (0, 2, 3, 1), call.slot(), pattern=True)


def joined(behind: bool) -> bytes:
    """ABS, an operator that its neighbour joins, behind it or in front, and EXP."""
    build, shape = Builder(), (1, 6, 6, 4)
    x, y = build.input("x", shape), build.tensor("y", shape)
    first, given, made = build.tensor("first", shape), build.tensor("given", shape), build.tensor("made", shape)
    build.operator("ABS", [x], [first])
    if behind:
        build.operator("CUSTOM:Own", [first], [given])
        build.operator("MUL", [first, given], [made])
    else:
        ring, padded = np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32), build.tensor("padded", (1, 8, 8, 4))
        weights = np.random.default_rng(0).normal(size=(4, 4, 3, 3)).astype(np.float32) / 8
        build.operator("PAD", [first, build.constant("ring", ring)], [padded])
        build.operator("CUSTOM:Own", [padded, build.constant("weights", weights)], [made])
    build.operator("EXP", [made], [y])
    return build.finish(y)


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(("behind", "neighbour"), [(True, "MUL"), (False, "PAD")])
def test_what_is_one_with_it(behind: bool, neighbour: str) -> None:
    """Operators that are fused with a lowering of one's own are named beside it; all others are verified, and listed
    where that is asked for.
    """
    layoutsolve.register("CUSTOM:Own")(hard_sigmoid if behind else padded_convolution)
    source = joined(behind)
    right = layoutsolve.convert(source)
    found = layoutsolve.verify(source, right, tensors=True)
    said = f"no kernel for Own (1), from which {neighbour} (1) cannot be separated; all else agrees"
    assert found.verdict == "not verified" and said in found.refusal
    assert [line.split()[1] for line in str(found).splitlines()[2:]] == ["ABS", "EXP"]
    next(node for node in right.model.graph.node if node.op_type == "Exp").op_type = "Sinh"
    assert layoutsolve.verify(source, right).verdict == "FAIL"
