"""Random numbers. They are other ones than LiteRT's by nature; how they are distributed is the same."""

from __future__ import annotations

from typing import Any

from layoutsolve.errors import ModelError
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.registry import lowers
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.operators.filling import size_vector
from layoutsolve.frontend.tflite.operators.shared.common import ranked

_OPERATORS = {"RANDOM_UNIFORM": "RandomUniform", "RANDOM_STANDARD_NORMAL": "RandomNormal"}


def _seed(call: Call) -> dict[str, Any]:
    """The attribute for a fixed seed: ONNX has one, a real number. Two zeros stand for any seed."""
    first, second = int(call.option("seed")), int(call.option("seed2"))
    return {"seed": float((first * 1000003 + second) % (1 << 24))} if first or second else {}


@lowers(*_OPERATORS, signature="I -> F")
def random(call: Call) -> None:
    """RANDOM_UNIFORM from 0 to 1, and RANDOM_STANDARD_NORMAL."""
    vector, dims = size_vector(call, 0, "shape")
    slot, name = call.slot(), _OPERATORS[call.operator.name]
    if slot.dtype != "float32":
        raise GapError(f"it gives random numbers of {slot.dtype}", "use float32")
    numbers = tuple(dim for dim in dims if isinstance(dim, int))
    if len(numbers) == len(dims) and numbers:
        call.write_many(name, [], [(numbers, slot)], attributes={"shape": numbers, **_seed(call)})
        return
    zero = call.constant(0, "zero", "float32")
    like = call.write("Expand", [zero, vector], dims, call.temporary("like"))
    call.write(f"{name}Like", [like], dims, slot, **_seed(call))


@lowers("MULTINOMIAL", signature="F I -> I")
def multinomial(call: Call) -> None:
    """MULTINOMIAL: class indices, drawn by unnormalized log-probabilities."""
    x, slot = ranked(call, call.input(0), 2), call.slot()
    (count,) = call.integers(1, "number of samples")
    if count < 0 or x.dtype != "float32" or slot.dtype not in ("int32", "int64"):
        raise ModelError(f"{call.origin} draws {count} numbers of {slot.dtype} from {x}")
    if not count:
        raise GapError("it draws no samples", "draw one at least")
    shape = (x.shape[0], count)
    call.write("Multinomial", [x], shape, slot, real=slot.dtype, dtype=slot.dtype, sample_size=count, **_seed(call))
