"""States are compared as all tensors are: each run is given LiteRT's, and what it leaves is held against LiteRT's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import layoutsolve
from layoutsolve import Conversion
from layoutsolve.emit.subgraphs import following_of
from tests.conformance.cases import Case
from tests.conformance.families import every_case

CASES = {
    f"{case.operator} {case.label}": case
    for case in every_case()
    if (case.operator, case.label)
    in {
        ("LSTM", "uint8-basic"),
        ("LSTM", "float32-basic"),
        ("LSTM", "int8"),
        ("RNN", "float32-TANH"),
        ("UNIDIRECTIONAL_SEQUENCE_RNN", "float32-RELU-major"),
    }
}
"""Operators with states, of floats and of 8 bits."""


def test_there_are_cases() -> None:
    assert len(CASES) == 5


@pytest.mark.members(1)
@pytest.mark.parametrize("name", CASES)
def test_states_are_compared(name: str) -> None:
    case: Case = CASES[name]
    source = case.make().source
    right = layoutsolve.convert(source)
    found = layoutsolve.verify(source, right)
    assert found.verdict == "pass", found
    states = following_of({prop.key: prop.value for prop in right.model.metadata_props})
    assert states
    for state, after in states.items():
        wrong = changed(right, after)
        if wrong is None:
            continue
        told = layoutsolve.verify(source, wrong)
        assert told.verdict == "FAIL" and told.inspection is not None and told.inspection.departure is not None, state
        assert told.inspection.departure.tensor == state and told.inspection.departure.index == 0


def changed(conversion: Conversion, name: str) -> Conversion | None:
    """What is left as a state is off by one LSB, or by a thousandth; None for a cell of 16 bits."""
    made = onnx.ModelProto()
    made.CopyFrom(conversion.model)
    (port,) = [port for port in made.graph.output if port.name == name]
    dtype = helper.tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type)
    if dtype == np.int16:
        return None
    (node,) = [node for node in made.graph.node if name in node.output]
    place = list(node.output).index(name)
    node.output[place] = f"{name}/right"
    wide, number = ("float32", 1.001) if dtype == np.float32 else ("int32", 1)
    made.graph.initializer.append(numpy_helper.from_array(np.array(number, wide), f"{name}/fault"))
    code = helper.np_dtype_to_tensor_dtype(np.dtype(wide))
    made.graph.node.append(helper.make_node("Cast", [f"{name}/right"], [f"{name}/wide"], to=code))
    operator = "Mul" if wide == "float32" else "Add"
    made.graph.node.append(helper.make_node(operator, [f"{name}/wide", f"{name}/fault"], [f"{name}/off"]))
    made.graph.node.append(helper.make_node("Cast", [f"{name}/off"], [name], to=port.type.tensor_type.elem_type))
    return replace(conversion, model=made)
