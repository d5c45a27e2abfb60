"""Constant folding: operators on constants, and on vectors of sizes that may have symbols, are computed before a model
runs, where that is worth its work and its bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from layoutsolve.frontend.onnx import constants, real_sizes
from layoutsolve.frontend.onnx.call import Call
from layoutsolve.frontend.onnx.constant_kernels import KERNELS, LARGEST, SIZE_KERNELS, VIEWS, objects
from layoutsolve.frontend.onnx.draft import MOST_SIZES
from layoutsolve.frontend.onnx.numeric_kernels import AS_LONG
from layoutsolve.frontend.onnx.symbols import is_size
from layoutsolve.ir.budget import SIMPLE
from layoutsolve.ir.elements import condensed, owner
from layoutsolve.ir.graph import Array, product
from layoutsolve.proto.messages import AttributeProto

_RIGHT = (TypeError, ValueError, IndexError, KeyError, ZeroDivisionError, OverflowError, AttributeError)
"""What is raised where a model asks for what cannot be: that is for the runtime to say."""

_FORMS = frozenset(
    ("sparse_value", "value", "value_float", "value_floats", "value_int", "value_ints", "value_string", "value_strings")
)
"""The attributes of which a Constant has one."""


def fold(call: Call) -> bool:
    """Compute an operator whose inputs are constants; False where it is left to be written. Sizes are noted."""
    if call.domain or call.has_graphs or not call.outputs:
        return False
    try:
        if call.op == "Constant":
            return _constant(call)
        with np.errstate(all="ignore"):
            return _folded(call) or _noted_real(call) or _noted(call)
    except _RIGHT:
        return False


def _constant(call: Call) -> bool:
    (proto,) = call.proto.attribute
    if proto.name not in _FORMS:
        return False
    texts = AttributeProto.STRING, AttributeProto.STRINGS
    if proto.name == "value":
        found = constants.of(proto.t)
    elif proto.name == "sparse_value":
        call.draft.budget.spend(constants.dense_bytes(proto.sparse_tensor))
        found = constants.dense(proto.sparse_tensor)
    elif proto.type in texts:
        strings = list(proto.strings) if proto.type == AttributeProto.STRINGS else proto.s
        found = constants.Constant("string", np.array(strings, object))
    elif proto.type in (AttributeProto.INT, AttributeProto.INTS):
        found = constants.Constant("int64", np.array(proto.i if proto.name == "value_int" else proto.ints, np.int64))
    else:
        found = constants.Constant(
            "float32", np.array(proto.f if proto.name == "value_float" else proto.floats, np.float32)
        )
    if found.data is None:
        return False
    call.draft.given[call.outputs[0]] = found
    return True


def _folded(call: Call) -> bool:
    """Compute a result, if that is worth its bytes and its work, of which the budget is asked before."""
    function, budget = KERNELS.get(call.op), call.draft.budget
    if function is None or any(not name for name in call.inputs) or not call.inputs:
        return False
    arrays = [call.constant(number) for number in range(len(call.inputs))]
    present = [data for data in arrays if data is not None]
    if len(present) < len(arrays) or any(call.value(number).dtype == "string" for number in range(len(arrays))):
        return False
    dtypes = [call.draft.types.element(name) for name in call.outputs]
    if not all(dtypes):
        return False
    kinds = [constants.numpy_type(dtype) for dtype in dtypes]
    count = LARGEST[call.op](call, *present)
    widest = max([kind.itemsize for kind in kinds], default=1)
    if not budget.would_afford(count * widest) or not budget.computes(_work(call, count, present) // SIMPLE):
        return False
    results = function(call, *present)
    kept = [np.asarray(result) for result in results]
    if len(kept) < len(kinds) or any(
        not np.can_cast(each.dtype, kind) for each, kind in zip(kept, kinds, strict=False)
    ):
        return False
    kept = [each.astype(kind, copy=False) for each, kind in zip(kept, kinds, strict=False)]
    given = {id(owner(data)) for data in present}
    fresh = [each if condensed(each).size < each.size else owner(each) for each in kept]
    if not budget.folds([each for each in fresh if id(each) not in given]):
        return False
    for name, data, dtype in zip(call.outputs, kept, dtypes, strict=False):
        call.draft.given[name] = constants.Constant(dtype, data)
    return True


def _work(call: Call, count: int, present: Sequence[Array]) -> int:
    """How many numbers are looked at or computed; none where those of a tensor stay where they are."""
    return count + sum(data.size for data in present) if count or call.op not in VIEWS else 0


def _noted(call: Call) -> bool:
    """Follow a vector of sizes; the operator is written all the same, in case that something else reads it. What none
    can be, or be any more when it is multiplied, is not followed.
    """
    found: Array | None = None
    if call.op == "Shape" and call.known(0):
        shape = call.value(0).shape
        found = objects(list(shape[slice(call.attribute("start", 0), call.attribute("end"))]))
    elif call.op == "Size" and call.known(0):
        found = objects(product(call.value(0).shape))
    elif call.op in SIZE_KERNELS and all(call.inputs):
        contents = [call.content(number) for number in range(len(call.inputs))]
        present = [each for each in contents if each is not None]
        if len(present) == len(contents) and _is_followed(call, present):
            found = SIZE_KERNELS[call.op](call, *present)
    if found is None or found.size > MOST_SIZES or not all(map(is_size, found.reshape(-1).tolist())):
        return False
    if all(isinstance(each, int) for each in found.reshape(-1).tolist()):
        dtype = call.draft.types.element(call.outputs[0]) or "int64"
        if dtype in ("int64", "int32"):
            call.draft.given[call.outputs[0]] = constants.Constant(dtype, found.astype(dtype))
            return True
    call.draft.contents[call.outputs[0]] = found
    return False


def _noted_real(call: Call) -> bool:
    """Follow sizes through floats."""
    draft = call.draft
    names = [draft.alias.get(name, name) for name in call.inputs]
    followed = [found for name in names if (found := draft.shares.get(name)) is not None]
    if call.op == "Cast" and not followed and names:
        followed = [found for found in (draft.contents.get(names[0]),) if found is not None]
    if not followed or call.op not in _REAL:
        return False
    count = max(int(each.size) for each in followed)
    return draft.budget.computes(AS_LONG * count) and real_sizes.noted(call, SIZE_KERNELS, LARGEST)


_REAL = frozenset(
    ("Cast", "Concat", "Mul", "Div", "Floor", "Ceil", "Round", "Identity", "Squeeze", "Unsqueeze", "Reshape", "Gather")
) | {"Slice"}
"""The operators that sizes are followed through as floats."""


def _is_followed(call: Call, present: Sequence[Array]) -> bool:
    """Whether what becomes of vectors of sizes is short, and worth the work."""
    count = max(LARGEST[call.op](call, *present), sum(each.size for each in present))
    return count <= MOST_SIZES and call.draft.budget.computes(AS_LONG * count)
