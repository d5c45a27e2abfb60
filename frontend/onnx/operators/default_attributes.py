"""Operators that stay as they are, with what their file leaves to be known: sizes, axes and types."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from layoutsolve.frontend.onnx.call import Call
from layoutsolve.frontend.onnx.operators.registry import lowering
from layoutsolve.ir.graph import Dim, Value, product
from layoutsolve.proto.messages import opset_of

_AXIS_AS_INPUT = 20
"""The operator set from which on DFT has its axis as an input."""


_ROWS = 3
"""The dimensions of queries, keys and values whose heads lie in one dimension."""


@lowering("Range")
def counted(call: Call) -> bool:
    """As it stands, of a known size where its bounds are. ONNX Runtime takes vectors of one for these where it does not
    see what they are: here they are numbers.
    """
    draft, name = call.draft, call.outputs[0]
    ends = [call.dims(number) for number in range(3)]
    (start,), (limit,), (delta,) = (end if end is not None and len(end) == 1 else (None,) for end in ends)
    whole = draft.types.element(name) in ("int64", "int32")
    shape: Sequence[Dim | None] = (limit if start == 0 and delta == 1 and whole else None,)
    names = [call.plain(each) for each in call.inputs]
    if name in draft.asked or (None in shape and all(draft.values[each].shape != (1,) for each in names)):
        return False
    draft.declare(name, shape)
    call.emit("Range", [_number(call, each) for each in names], [name])
    return True


def _number(call: Call, name: str) -> str:
    """The element of a vector of one."""
    draft, value = call.draft, call.draft.values[name]
    if value.shape != (1,):
        return name
    if value.data is not None:
        return draft.constant(value.data.reshape(()), f"{name}/number", value.dtype).name
    found = draft.add(Value(draft.names.derived(name, "number"), value.dtype, ())).name
    call.emit("Reshape", [name, draft.sizes((), name)], [found])
    return found


@lowering("Clip")
def bounded(call: Call) -> bool:
    """As it stands, with bounds of its own type: the library makes float32 of those that were attributes."""
    dtype = call.dtype(0)
    names, storage = call.operands(call.stores)
    apart = [number for number in (1, 2) if call.has(number) and call.dtype(number) != dtype]
    if storage or not apart or any(call.constant(number) is None for number in apart):
        return False
    for number in apart:
        with np.errstate(over="ignore"):  # no bound is the largest float32
            data = np.asarray(call.value(number).data).astype(dtype)
        names[number] = call.draft.constant(data, f"{call.outputs[0]}/bound", dtype).name
    call.draft.declare(call.outputs[0], call.value(0).shape, dtype)
    call.emit(call.op, names, call.outputs, call.attributes)
    return True


@lowering("CastLike")
def cast_like(call: Call) -> bool:
    """A Cast to the type of the other input, which is known."""
    if not (call.known(0) and call.known(1)) or call.outputs[0] in call.draft.asked:
        return False
    dtype = "float32" if call.draft.is_real(call.inputs[1]) else call.value(1).dtype
    name = call.draft.declare(call.outputs[0], call.value(0).shape, dtype).name
    call.emit("Cast", [call.plain(call.inputs[0])], [name], {**call.attributes, "to": dtype})
    return True


@lowering("DFT")
def transformed(call: Call) -> bool:
    """As it stands, with the axis where an operator set before 20 has it as an attribute with a default."""
    if opset_of(call.draft.source.proto) >= _AXIS_AS_INPUT or call.outputs[0] in call.draft.asked:
        return False
    names, storage = call.operands()
    call.draft.declare(call.outputs[0])
    call.emit(call.op, names, call.outputs, {"axis": 1, **call.attributes}, storage)
    return True


@lowering("ConstantOfShape")
def filled(call: Call) -> bool:
    """As it stands, with the sizes of its result where these are known."""
    draft, name = call.draft, call.outputs[0]
    shape = call.dims(0) if call.known(0) else None
    if shape is None or name in draft.asked:
        return False
    names, storage = call.operands()
    draft.declare(name, shape)
    call.emit(call.op, names, [name], call.attributes, storage)
    return True


@lowering("TopK")
def largest(call: Call) -> bool:
    """Keep the operator. Shape inference does not infer its results where the axis is symbolic; the sizes of all other
    axes are those of the input.
    """
    shape: list[Dim | None] = list(call.value(0).shape)
    count = call.dims(1) or (None,)
    shape[call.attribute("axis", -1)] = count[0]
    for name in call.outputs:
        if name and name not in call.draft.values:
            call.draft.declare(name, shape)
    return False


@lowering("Attention")
def attended(call: Call) -> bool:
    """As it stands. Inference takes sizes of heads, and of past and new keys together, for 0 where they are open."""
    if not all(map(call.known, range(3))):
        return False
    queries, keys, values = (call.value(number).shape for number in range(3))
    flat, old = len(queries) == _ROWS, [call.value(number).shape for number in (4, 5) if call.known(number)]
    heads, groups = (call.attribute(name, 0) if flat else 0 for name in ("q_num_heads", "kv_num_heads"))
    if len({len(queries), len(keys), len(values)}) > 1 or any(len(shape) != _ROWS + 1 for shape in old):
        return False
    if len(old) != 2 * call.has(5) or (flat and min(heads, groups) <= 0):
        return False
    known, every = call.arithmetic, (queries, keys, values, *old)
    batch = _same(call, [shape[0] for shape in every])
    lengths = [known.total([each[-2], *(shape[-2] for shape in before)]) for each, before in
               ((keys, old[:1]), (values, old[1:]))]  # fmt: skip
    total = _same(call, lengths)
    if flat:
        deep, wide = (
            _same(call, [known.quotient(each[-1], groups), *(shape[-1] for shape in before)])
            for each, before in ((keys, old[:1]), (values, old[1:]))
        )
        first = [batch, queries[1], product((heads, wide))]
    elif len(queries) == _ROWS + 1:
        heads, groups = queries[1], _same(call, [shape[1] for shape in every[1:]])
        deep = _same(call, [shape[-1] for shape in (queries, keys, *old[:1])])
        wide = _same(call, [shape[-1] for shape in (values, *old[1:])])
        first = [batch, heads, queries[2], wide]
    else:
        return False
    shapes = first, [batch, groups, total, deep], [batch, groups, total, wide], [batch, heads, queries[-2], total]
    for name, shape in zip(call.outputs, shapes, strict=False):
        if name and name not in call.draft.values:
            call.draft.declare(name, shape)
    return False


def _same(call: Call, dims: Sequence[Dim]) -> Dim:
    """What sizes are that are equal: a number where one of them is."""
    found = next((dim for dim in dims if isinstance(dim, int)), dims[0])
    for dim in dims:
        if dim != found:
            call.draft.equate(dim, found)
    return found
