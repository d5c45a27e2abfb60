"""What a lowering that a user has registered does wrong is an error that names its operator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import layoutsolve
from layoutsolve.errors import LoweringError, ModelError
from layoutsolve.frontend.tflite.lowering.registry import every_lowering
from layoutsolve.frontend.tflite.lowering.user_lowerings import FOREIGN, registering
from layoutsolve.ir.graph import Value
from tests.builder import Builder

REGISTRY = every_lowering()

KEPT: list[Value] = []


def source() -> bytes:
    """A custom operator with two outputs between convolutions, and one of another kind behind it."""
    builder = Builder()
    x, middle = builder.input("x", (1, 4, 4, 2)), builder.tensor("middle", (1, 4, 4, 2))
    weights, bias = builder.constant("w", np.ones((2, 3, 3, 2), np.float32)), builder.constant("b", np.zeros(2, "f"))
    first, second = builder.tensor("first", (1, 4, 4, 2)), builder.tensor("second", (1, 4, 4, 2))
    last = builder.tensor("last", (1, 4, 4, 2))
    steps = {"stride_h": 1, "stride_w": 1, "padding": "SAME"}
    builder.operator("CONV_2D", [x, weights, bias], [middle], steps)
    builder.operator("CUSTOM:Twice", [middle], [first, second])
    builder.operator("CONV_2D", [first, weights, bias], [last], steps)
    return builder.finish(last, second)


def right(call: layoutsolve.Call, position: int = 1) -> None:
    x = call.input(0)
    call.write("Neg", [x], x.shape, call.slot(position))


def writes(op: str, **more: Any) -> Callable[[layoutsolve.Call], None]:
    """A lowering whose first output is another operator's than it should be."""

    def lowering(call: layoutsolve.Call) -> None:
        x = call.input(0)
        call.write(op, [x] * more.get("inputs", 1), more.get("shape", x.shape), call.slot(), **more.get("given", {}))
        right(call)

    return lowering


def raises(error: BaseException) -> Callable[[layoutsolve.Call], None]:
    def lowering(call: layoutsolve.Call) -> None:
        raise error

    return lowering


def twice(call: layoutsolve.Call) -> None:
    right(call)
    right(call)


def of_another_model(call: layoutsolve.Call) -> None:
    x = call.input(0)
    KEPT.append(x)
    call.write("Add", [x, KEPT[0]], x.shape, call.slot())
    right(call)


def invented(call: layoutsolve.Call) -> None:
    x = call.input(0)
    call.write("Add", [x, Value("invented", "float32", x.shape)], x.shape, call.slot())
    right(call)


def no_kernel(call: layoutsolve.Call) -> None:
    """ONNX lets LRN be of float64, ONNX Runtime computes it on float32 alone."""
    x = call.input(0)
    wide = call.write("Cast", [x], x.shape, call.temporary("wide", "float64"), real="float64", to="float64")
    normal = call.write("LRN", [wide], x.shape, call.temporary("normal", "float64"), size=1)
    call.write("Cast", [normal], x.shape, call.slot(), real="float32", to="float32")
    right(call)


WRONG: dict[str, Callable[[layoutsolve.Call], object]] = {
    "nothing": lambda call: None,
    "one-output": right,
    "twice": twice,
    "other-model": of_another_model,
    "invented": invented,
    "no-value": lambda call: call.write("Neg", ["x"], (1, 4, 4, 2), call.slot()),
    "third-output": lambda call: right(call, 2),
    "slot-beyond": lambda call: call.slot(3),
    "slot-from-the-end": lambda call: call.slot(-1),
    "input-beyond": lambda call: call.input(7),
    "input-from-the-end": lambda call: call.input(-1),
    "optional-from-the-end": lambda call: call.optional(-1),
    "vector-of-floats": lambda call: call.vector([1.5], "v"),
    "vector-of-texts": lambda call: call.vector(["1"], "v"),  # type: ignore[list-item]
    "view-of-another-size": lambda call: call.reshape(call.input(0), (1, 4, 4, 3), call.slot()),
    "view-of-another-rank": lambda call: call.transpose(call.input(0), (0, 1), call.slot()),
    "view-of-an-axis-twice": lambda call: call.transpose(call.input(0), (0, 1, 1, 2), call.slot()),
    "view-from-the-end": lambda call: call.transpose(call.input(0), (0, 1, 2, -1), call.slot()),
    "constant-of-another-type": lambda call: call.reshape(
        call.constant(np.zeros((1, 4, 4, 2), np.int64), "c"), (1, 4, 4, 2), call.slot()
    ),
    "constant-beside-another-type": lambda call: call.write(
        "Add", [call.input(0), call.constant([1], "c", "int64")], (1, 4, 4, 2), call.slot()
    ),
    "constant-of-no-type": lambda call: call.constant([1], "c", "float13"),
    "result-of-another-type": lambda call: call.write("Shape", [call.input(0)], (4,), call.slot(), real="int64"),
    "unknown-operator": writes("Frobnicate"),
    "unknown-domain": writes("Neg", given={"domain": "ai.onnx.ml"}),
    "newer-operator": writes("Swish"),
    "unknown-attribute": writes("Neg", given={"strength": 2.0}),
    "kind-of-attribute": writes("LeakyRelu", given={"alpha": "much"}),
    "odd-attribute": writes("LeakyRelu", given={"alpha": object()}),
    "empty-attribute": writes("LeakyRelu", given={"alpha": None}),
    "type-attribute": writes("Cast", given={"to": "float13"}),
    "missing-attribute": writes("Concat", inputs=2),
    "transpose-as-text": writes("Transpose", given={"perm": "nchw"}),
    "transpose-short": writes("Transpose", given={"perm": (0, 1)}),
    "split-nothing": writes("Split"),
    "many-inputs": writes("Neg", inputs=2),
    "few-inputs": writes("Add"),
    "no-inputs": lambda call: call.write("Identity", [], (1, 4, 4, 2), call.slot()),
    "shape": writes("Neg", shape=(1, 4, 4, 3)),
    "rank": writes("Neg", shape=(1, 4, 8)),
    "negative": writes("Neg", shape=(1, 4, -4, 2)),
    "type": writes("Not"),
    "result-type": writes("IsNaN"),
    "reduced": writes("ReduceSum"),
    "reshaped": writes("Reshape", inputs=2),
    "convolved": writes("Conv", inputs=2),
    "no-kernel": no_kernel,
    **{
        type(error).__name__: raises(error)
        for error in (
            KeyError("axis"), AttributeError("no"), AssertionError(), RuntimeError("no"), RecursionError(),
            OSError("no"), ValueError("no"), IndexError("no"), NotImplementedError(), StopIteration(), MemoryError(),
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("strategy", ["cpsat", "transpose"])
def test_wrong_lowerings(name: str, strategy: str, registry: None) -> None:
    layoutsolve.register("CUSTOM:Twice")(WRONG[name])
    KEPT.clear()
    if name == "other-model":
        layoutsolve.convert(source(), strategy=strategy)
    with pytest.raises(LoweringError, match="CUSTOM:Twice"):
        layoutsolve.convert(source(), strategy=strategy)


@pytest.mark.parametrize(
    ("op", "shape", "said"),
    [
        ("Neg", (1, 4, 4, 3), r"dimension 3: \(2\) vs \(3\); correct what the lowering writes"),
        ("Neg", (1, 4, 8), r"rank: \(4\) vs \(3\); correct what the lowering writes"),
        (
            "Frobnicate",
            (1, -4, 4, 2),
            r"states the shape \[1, -4, 4, 2\] for .*, the result of its Frobnicate: sizes are",
        ),
        ("Neg", (1, 4.0, 4, 2), r"states the shape \[1, 4.0, 4, 2\] for .*, the result of its Neg: sizes are"),
        ("Neg", (1, True, 4, 2), r"states the shape \[1, True, 4, 2\] for .*, the result of its Neg: sizes are"),
    ],
)
def test_wrong_shapes(op: str, shape: tuple[int, ...], said: str, registry: None) -> None:
    """The message says what is to be corrected, also of operators that ONNX does not know."""
    domain = "" if op == "Neg" else "some.where"
    layoutsolve.register("CUSTOM:Twice")(
        lambda call: call.write(op, [call.input(0)], shape, call.slot(), domain=domain) and None
    )
    with pytest.raises(LoweringError, match=f"^CUSTOM:Twice#.*{said}"):
        layoutsolve.convert(source())


def test_exceptions_are_kept(registry: None) -> None:
    layoutsolve.register("CUSTOM:Twice")(raises(KeyError("axis")))
    with pytest.raises(LoweringError, match="registered for 'CUSTOM:Twice' failed: KeyError: 'axis'") as caught:
        layoutsolve.convert(source())
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_user_may_give_a_custom_operator_other_ports(registry: None) -> None:
    """The code of a custom operator is no more than a name: another one may be meant."""
    builder = Builder()
    x, y = builder.input("x", (4,)), builder.tensor("y", (4,))
    builder.operator("CUSTOM:MaxUnpooling2D", [x], [y])
    model = builder.finish(y)
    with pytest.raises(ModelError, match="1 inputs where its definition has 2"):
        layoutsolve.convert(model)
    layoutsolve.register("CUSTOM:MaxUnpooling2D")(lambda call: right(call, 0))
    assert [node.op_type for node in layoutsolve.convert(model).model.graph.node] == ["Neg"]


def test_a_file_that_is_run_is_that_of_what_it_registers(registry: None, tmp_path: Path) -> None:
    """And of nothing that is registered later."""
    path = tmp_path / "own.py"
    path.write_text("")
    with registering(str(path)):
        layoutsolve.register("CUSTOM:First")(right)
    layoutsolve.register("CUSTOM:Second")(right)
    names = [FOREIGN[name][0] for name in ("CUSTOM:First", "CUSTOM:Second")]
    assert names == ["own.py", Path(__file__).name]


def test_an_operator_without_options_has_no_settings(registry: None) -> None:
    found = []

    def lowering(call: layoutsolve.Call) -> None:
        found.append(call.settings())
        right(call, 0)
        right(call)

    layoutsolve.register("CUSTOM:Twice")(lowering)
    layoutsolve.convert(source())
    assert found == [{}]
