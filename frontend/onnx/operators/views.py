"""Views: operators that permute or regroup axes and move no data by themselves."""

from __future__ import annotations

from collections.abc import Sequence

from layoutsolve.frontend.onnx.call import Call
from layoutsolve.frontend.onnx.operators.registry import lowering
from layoutsolve.ir.graph import Array, Dim, Quant, Size, Value, product, quotient, reshape_entries
from layoutsolve.proto.ort_kernels import moves


@lowering("Identity")
def identity(call: Call) -> bool:
    """Another name of the same tensor."""
    return alias(call, call.outputs[0], call.inputs[0])


@lowering("Dropout")
def dropout(call: Call) -> bool:
    """What is given, where nothing is trained and nobody asks which elements would be dropped."""
    draft = call.draft
    training = call.has(2) and (call.constant(2) is None or bool(call.constant(2)))
    if training or any(draft.uses.get(name) or name in draft.outputs for name in call.outputs[1:]):
        return False
    return alias(call, call.outputs[0], call.inputs[0])


def alias(call: Call, name: str, source: str) -> bool:
    """Let one tensor be another; False for an output of the model, which is a tensor of its own, and for one of whose
    dimensions more is known.
    """
    draft = call.draft
    if name in draft.outputs or name in draft.asked:
        return False
    if draft.value(source).foreign is not None and draft.types.dims(name) is not None:
        return False
    draft.alias[name] = draft.alias.get(source, source)
    return True


@lowering("Transpose")
def transpose(call: Call) -> bool:
    """A view."""
    if not call.known(0):
        return False
    value = call.value(0)
    perm = call.integers("perm") or tuple(range(len(value.shape)))[::-1]
    if sorted(perm) != list(range(len(value.shape))):
        return False
    view(call, "Transpose", [value.shape[axis] for axis in perm], {"perm": perm})
    return True


@lowering("Reshape")
def reshape(call: Call) -> bool:
    """A view where the sizes are known that it asks for."""
    if not call.known(0):
        return False
    wanted, before = call.dims(1), call.value(0).shape
    if wanted is None:
        known = call.shapes()[0]
        shape = [dim for dim in known or () if dim is not None]
        if known is None or len(shape) < len(known) or product(shape) != product(before):
            return False
        return reshaped(call, shape)
    found: list[Dim] = []
    for axis, dim in enumerate(wanted):
        if dim == 0 and not call.attribute("allowzero", 0):
            if axis >= len(before):
                return False
            found.append(before[axis])
        else:
            found.append(dim)
    if found.count(-1) == 1:
        at = found.index(-1)
        rest = quotient(product(before), product(found[:at] + found[at + 1 :]))
        if rest is None or 0 in found:
            rest = _inferred(call, at)
        if rest is None:
            return False
        found[at] = rest
    return reshaped(call, found)


def _inferred(call: Call, axis: int) -> Dim | None:
    dims = call.shapes()[0]
    return None if dims is None or axis >= len(dims) else dims[axis]


@lowering("Squeeze")
def squeeze(call: Call) -> bool:
    """A Reshape."""
    if not call.known(0):
        return False
    shape = call.value(0).shape
    axes = call.constant(1) if call.has(1) else None
    every = not call.has(1) or (axes is not None and not axes.size)  # as ONNX Runtime takes no axes for all
    if (axes is None and not every) or (every and any(isinstance(dim, Size) for dim in shape)):
        return False
    gone = {axis for axis, dim in enumerate(shape) if dim == 1}
    if axes is not None and not every:
        gone = {int(axis) % max(len(shape), 1) for axis in axes.reshape(-1)}
    if any(shape[axis] != 1 for axis in gone):
        return False
    return reshaped(call, [dim for axis, dim in enumerate(shape) if axis not in gone])


@lowering("Unsqueeze")
def unsqueeze(call: Call) -> bool:
    """A Reshape."""
    axes = call.constant(1)
    if axes is None or not call.known(0):
        return False
    rank = len(call.value(0).shape) + axes.size
    new = {int(axis) % rank for axis in axes.reshape(-1)}
    if len(new) < axes.size:
        return False
    rest = iter(call.value(0).shape)
    return reshaped(call, [1 if axis in new else next(rest) for axis in range(rank)])


@lowering("Flatten")
def flatten(call: Call) -> bool:
    """A Reshape."""
    if not call.known(0):
        return False
    shape, axis = call.value(0).shape, call.attribute("axis", 1)
    axis += len(shape) if axis < 0 else 0
    return reshaped(call, [product(shape[:axis]), product(shape[axis:])])


def reshaped(call: Call, shape: Sequence[Dim]) -> bool:
    """Write a Reshape of the first input; False where its sizes contradict each other."""
    before = call.value(0).shape
    if product(before) != product(shape):
        if all(isinstance(dim, int) for dim in (*before, *shape)):
            return False
        call.draft.equate(product(before), product(shape))
    view(call, "Reshape", shape, {})
    return True


def view(call: Call, op: str, shape: Sequence[Dim], attributes: dict[str, object]) -> None:
    """Write a view of the first input, which may be what a stored tensor means."""
    draft, source, name = call.draft, call.value(0), call.outputs[0]
    real = draft.is_real(call.inputs[0])
    quant = _turned(source.quant, attributes.get("perm")) if real else draft.asked.get(name, _stored(source))
    if real and (quant is None or not moves(op, source.dtype)):
        source, real = draft.values[call.plain(call.inputs[0])], False
    made = draft.names.derived(name, "stored") if real else name
    if source.data is not None and all(isinstance(dim, int) for dim in shape) and _is_worth(call, op, source.data):
        perm = attributes.get("perm")
        numbers = [dim for dim in shape if isinstance(dim, int)]
        data = source.data.transpose(perm) if isinstance(perm, tuple) else source.data.reshape(numbers)
        draft.add(Value(made, source.dtype, tuple(data.shape), quant, data))
        if real:
            draft.real[name] = made
        return
    draft.types.note(shape)
    draft.add(Value(made, source.dtype, tuple(shape), quant))
    inputs = [source.name]
    if op == "Reshape":
        entries = reshape_entries(source.shape, tuple(shape))
        inputs.append(draft.sizes(shape if entries is None else entries, name))
        attributes = {"allowzero": 1} if entries is None or 0 in shape else {}
    call.emit(op, inputs, [made], attributes, storage=source.quant is not None or quant is not None)
    if real:
        stands_for(call, made)


def _is_worth(call: Call, op: str, data: Array) -> bool:
    """Whether a view of a constant is one as well: where it takes no memory, or at most half of what is left."""
    return op == "Transpose" or data.flags.c_contiguous or 2 * data.nbytes <= call.draft.budget.left


@lowering("DepthToSpace", "SpaceToDepth")
def regrouped(call: Call) -> bool:
    """What is stored, in another order, where the numbers that it means are moved."""
    draft, name = call.draft, call.outputs[0]
    if not call.known(0) or not draft.is_real(call.inputs[0]):
        return False
    source, dims = call.value(0), call.shapes()[0]
    shape = [dim for dim in dims or () if dim is not None]
    if source.quant is None or source.quant.axis is not None or source.data is not None or len(shape) != 4:
        return False
    if not moves(call.op, source.dtype):
        return False
    made = draft.add(Value(draft.names.derived(name, "stored"), source.dtype, tuple(shape), source.quant)).name
    call.emit(call.op, [source.name], [made], call.attributes, storage=True)
    stands_for(call, made)
    return True


def stands_for(call: Call, stored: str) -> None:
    """Let a stored tensor mean the result, which is written where that is an output of the model."""
    draft, name = call.draft, call.outputs[0]
    draft.real[name] = stored
    if name in draft.outputs:
        draft.add(Value(name, "float32", draft.values[stored].shape))
        call.emit("Identity", [stored], [name])


def _stored(source: Value) -> Quant | None:
    """What is stored means the same behind a view, where that is the same of all of it."""
    return source.quant if source.quant is not None and source.quant.axis is None else None


def _turned(quant: Quant | None, perm: object) -> Quant | None:
    """Parameters as they are behind a view: those of a single axis follow it through a Transpose alone."""
    if quant is None or quant.axis is None:
        return quant
    if not isinstance(perm, tuple) or quant.block:
        return None
    return Quant(quant.scale, quant.zero_point, perm.index(quant.axis))
