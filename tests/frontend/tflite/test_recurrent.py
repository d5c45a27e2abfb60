"""What is refused of recurrent operators, and with which words; how many operators a step takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest

import layoutsolve
from layoutsolve.emit import nodes_of
from layoutsolve.errors import ModelError, UnsupportedError
from layoutsolve.frontend import read
from layoutsolve.verification.runtimes import OnnxRuntime, optimised
from tests.builder import Builder, Quant

FEATURES, UNITS, STEPS = 3, 4, 5


def cell(builder: Builder, *, dtype: str = "float32", rows: int = UNITS) -> list[int]:
    """The weights of one direction, from input-to-input to the bias of the projection, which is left out."""
    quant = None if dtype == "float32" else Quant([0.01], [0])
    weights = [builder.constant("w", np.zeros((rows, FEATURES)), dtype, quant) for _ in range(4)]
    weights += [builder.constant("r", np.zeros((UNITS, UNITS)), dtype, quant) for _ in range(4)]
    bias = "float32" if dtype == "float32" else "int32"
    biases = [builder.constant("b", np.zeros(UNITS), bias) for _ in range(4)]
    return [*weights, -1, -1, -1, *biases, -1, -1]


def states(builder: Builder, batch: int, *, dtypes: Sequence[str] = ("float32", "float32")) -> list[int]:
    """The output state and the cell state."""
    quants = [None if dtype == "float32" else Quant([2.0**-12], [0]) for dtype in dtypes]
    pairs = zip(dtypes, quants, strict=True)
    return [builder.tensor("s", (batch, UNITS), dtype, quant=quant, variable=True) for dtype, quant in pairs]


def refusal(source: bytes) -> str:
    with pytest.raises(UnsupportedError) as error:
        read(source, "refused")
    return str(error.value)


def sequence(options: Mapping[str, Any], **more: Any) -> bytes:
    builder = Builder()
    x = builder.input("x", (1, STEPS, FEATURES))
    y = builder.tensor("y", (1, STEPS, UNITS))
    inputs = [x, *cell(builder, **more), *states(builder, 1)]
    builder.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [y], options)
    return builder.finish(y)


def test_no_activation() -> None:
    assert "no activation" in refusal(sequence({"fused_activation_function": "NONE"}))


def test_unknown_activation() -> None:
    options = {"fused_activation_function": "SIGN_BIT", "cell_clip": 1.0}
    assert "activation has the code 5" in refusal(sequence(options))


def test_weights_of_another_shape() -> None:
    with pytest.raises(ModelError, match="shape"):
        read(sequence({"fused_activation_function": "TANH"}, rows=UNITS + 1), "broken")


def test_merged_batches() -> None:
    builder = Builder()
    x = builder.input("x", (2, STEPS, FEATURES))
    y = builder.tensor("y", (2, STEPS, 2 * UNITS))
    inputs = [x, *cell(builder), *cell(builder), *states(builder, 2), *states(builder, 2), *[-1] * 9]
    options = {"merge_outputs": True, "time_major": False, "fused_activation_function": "TANH"}
    builder.operator("BIDIRECTIONAL_SEQUENCE_LSTM", inputs, [y], options)
    assert "beyond its states" in refusal(builder.finish(y))


def test_eight_bits_inside() -> None:
    builder, quant = Builder(), Quant([0.01], [0])
    x = builder.input("x", (1, FEATURES), "int8", quant=quant)
    y = builder.tensor("y", (1, UNITS), "int8", quant=quant)
    inputs = [x, *cell(builder, dtype="int8"), *states(builder, 1, dtypes=("int8", "int16")), *[-1] * 4]
    between = [builder.tensor("between", (0,), "int8", quant=quant) for _ in range(12)]
    builder.operator("LSTM", inputs, [y], {"fused_activation_function": "TANH"}, intermediates=between)
    assert "8 bits inside" in refusal(builder.finish(y))


def test_computed_weights() -> None:
    builder = Builder()
    x, weights = builder.input("x", (1, FEATURES)), builder.input("w", (UNITS, FEATURES))
    recurrent, bias = (
        builder.constant("r", np.zeros((UNITS, UNITS)), "float32"),
        builder.constant("b", np.zeros(UNITS), "float32"),
    )
    y, state = builder.tensor("y", (1, UNITS)), builder.tensor("s", (1, UNITS), variable=True)
    builder.operator("RNN", [x, weights, recurrent, bias, state], [y], {"fused_activation_function": "TANH"})
    assert "weights are computed" in refusal(builder.finish(y))


@pytest.mark.parametrize("given", [True, False])
def test_integers_without_parameters_of_the_output(given: bool) -> None:
    """LiteRT takes a scale of zero for one that is missing."""
    builder, quant = Builder(), Quant([2.0**-12], [0])
    x = builder.input("x", (1, STEPS, FEATURES), "int8", quant=quant)
    y = builder.tensor("y", (1, STEPS, UNITS), "int8", quant=quant if given else None)
    between = [builder.tensor(f"i{at}", (), "int16" if at < 4 else "int8", quant=quant) for at in range(5)]
    inputs = [x, *cell(builder, dtype="int8"), *states(builder, 1, dtypes=("int8", "int16"))]
    options = {"fused_activation_function": "TANH"}
    builder.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [y], options, intermediates=between)
    if given:
        read(builder.finish(y), "converted")
    else:
        with pytest.raises(ModelError, match="has an output without quantization parameters"):
            read(builder.finish(y), "refused")


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("operator", ["LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM"])
def test_states_are_different_variables(operator: str, alike: bool) -> None:
    builder = Builder()
    steps = (1,) if operator == "LSTM" else (1, STEPS)
    x, y = builder.input("x", (*steps, FEATURES)), builder.tensor("y", (*steps, UNITS))
    output, cells = states(builder, 1)
    inputs = [x, *cell(builder), output, output if alike else cells]
    builder.operator(operator, inputs, [y], {"fused_activation_function": "TANH"})
    if alike:
        with pytest.raises(ModelError, match="as several of its states"):
            read(builder.finish(y), "broken")
    else:
        read(builder.finish(y), "right")


def integer_sequence(steps: int, **options: Any) -> bytes:
    """An LSTM of the integer kernel over so many steps."""
    builder, quant = Builder(), Quant([0.01], [0])
    x = builder.input("x", (1, steps, FEATURES), "int8", quant=quant)
    y = builder.tensor("y", (1, steps, UNITS), "int8", quant=quant)
    kept = [builder.tensor("h", (1, UNITS), "int8", quant=quant, variable=True)]
    kept.append(builder.tensor("c", (1, UNITS), "int16", quant=Quant([2.0**-12], [0]), variable=True))
    between = [*(builder.tensor("none", (0,)) for _ in range(4)), builder.tensor("hidden", (0,), "int8", quant=quant)]
    inputs = [x, *cell(builder, dtype="int8"), *kept, *[-1] * 4]
    chosen = {"fused_activation_function": "TANH", **options}
    builder.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [y], chosen, intermediates=between)
    return builder.finish(y)


@pytest.mark.parametrize("clip", [0.0, 0.5])
def test_operators_of_a_step(clip: float) -> None:
    """A step of integers takes few operators, as each takes longer than what it computes on a small cell."""
    kinds = [
        Counter(node.op_type for node in nodes_of(optimised(model.SerializeToString()).graph))
        for model in (layoutsolve.convert(integer_sequence(steps, cell_clip=clip)).model for steps in (6, 9))
    ]
    expected = {"Add": 2, "Cast": 2, "Gather": 2, "Mul": 3, "QuantizeLinear": 2, "Round": 2}
    each = dict.fromkeys(("Clip", "DequantizeLinear", "Gemm", "Split"), 1)
    assert kinds[1] - kinds[0] == Counter({name: 3 * count for name, count in {**expected, **each}.items()})


def keras(steps: int, bias: float, clip: float = 10.0) -> bytes:
    """A sequence of floats as Keras has it: all gates get the same bias."""
    builder, random = Builder(), np.random.default_rng(steps)
    x, y = builder.input("x", (1, steps, FEATURES)), builder.tensor("y", (1, steps, UNITS))
    matrices = [(UNITS, FEATURES)] * 4 + [(UNITS, UNITS)] * 4
    weights = [builder.constant("w", random.uniform(-0.5, 0.5, shape).astype(np.float32)) for shape in matrices]
    biases = [builder.constant("b", np.full(UNITS, bias, np.float32)) for _ in range(4)]
    inputs = [x, *weights, -1, -1, -1, *biases, -1, -1, *states(builder, 1)]
    builder.operator(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [y], {"fused_activation_function": "TANH", "cell_clip": clip}
    )
    return builder.finish(y)


@pytest.mark.parametrize("steps", [8, 20, 33])
@pytest.mark.parametrize("bias", [0.0, 1.0, 6.0])
def test_cells_that_come_to_their_clip(steps: int, bias: float) -> None:
    """Whether any does decides whether a cell is clipped between steps: only one that grew past 4.9 is."""
    model = layoutsolve.convert(keras(steps, bias)).model
    (branch,) = [node for node in model.graph.node if node.op_type == "If"]
    assert Counter(node.op_type for node in model.graph.node)["LSTM"] == 1
    model.graph.output.append(onnx.helper.make_tensor_value_info(branch.input[0], onnx.TensorProto.BOOL, []))
    data = np.random.default_rng(0).uniform(-1, 1, (1, steps, FEATURES)).astype(np.float32)
    inside = OnnxRuntime(model.SerializeToString()).run({"x": data})[-1]
    assert inside == (bias < 6)


@pytest.mark.parametrize(("steps", "clip"), [(7, 10.0), (20, 9.0), (20, 0.5)])
def test_clips_that_are_always_applied(steps: int, clip: float) -> None:
    """Where few steps are, or a clip that shows in what a cell gives, each step is written out."""
    kinds = Counter(node.op_type for node in nodes_of(layoutsolve.convert(keras(steps, 0, clip)).model.graph))
    assert not kinds["If"] and not kinds["LSTM"] and kinds["Clip"] == steps
