"""TensorFlow's lists of tensors, which its converters of recurrent networks keep as Flex operators.

A list is a tensor here, of its elements behind each other. What is reserved alone is none yet: what its elements are is
known where the first one is set, as a rule in the body of a loop.
"""

from __future__ import annotations

from layoutsolve.errors import ModelError
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.registry import lowers, own_lowering
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.frontend.tflite.operators.control import ONE_BY_ONE, unset_list
from layoutsolve.frontend.tflite.operators.shared.common import as_int64
from layoutsolve.ir.graph import Value


@lowers("CUSTOM:FlexTensorListReserve", signature="I I -> T")
def reserve(call: Call) -> None:
    """TensorListReserve: a list of a number of elements, none of which is set."""
    call.draft.reserved[_unknown(call)] = call.input(1)


def _unknown(call: Call) -> str:
    """The name of the output as a list that is no tensor yet."""
    items = call.draft.add(Value(call.slot().name, "variant", ()))
    call.lowering.bind(call.tensor().index, items)
    return items.name


@lowers("CUSTOM:FlexTensorListSetItem", signature="T I FZB -> T")
def set_item(call: Call) -> None:
    """TensorListSetItem: a list with another element."""
    items, element = call.input(0), call.input(2)
    if items.dtype == "variant":
        if items.name not in call.draft.reserved:
            call.draft.elements[_unknown(call)] = element
            return
        items = unset_list(call, call.draft.reserved[items.name], element)
    (length, *shape), place = items.shape, call.input(1)
    if element.dtype != items.dtype or len(element.shape) != len(shape):
        raise ModelError(
            f"{call.origin} sets '{element.name}' in a list of {items.dtype}[{', '.join(map(str, shape))}]"
        )
    known = place.data
    if known is not None and (known.size != 1 or (isinstance(length, int) and not 0 <= known.item() < length)):
        raise ModelError(f"{call.origin} sets an element that a list of {length} does not have")
    update = call.reshaped(element, (1, *shape), "element")
    slot = call.temporary("list", items.dtype, items.quant)
    if length != 1:
        at = call.reshaped(as_int64(call, place), (1, 1), "place")
        update = call.write("ScatterND", [items, at, update], items.shape, slot, storage=True)
    call.lowering.bind(call.tensor().index, update)


@lowers("CUSTOM:FlexTensorListFromTensor", signature="FZB I -> T")
def from_tensor(call: Call) -> None:
    """TensorListFromTensor: what lies behind each other along the first axis."""
    call.hand_on(call.input(0), 0)


@lowers("CUSTOM:FlexTensorListGetItem", signature="T I I -> FZB")
def get_item(call: Call) -> None:
    """TensorListGetItem: an element of a list."""
    _known(call)
    own_lowering("GATHER")(call.restated({"axis": 0, "batch_dims": 0}))


@lowers("CUSTOM:FlexTensorListStack", signature="T I -> FZB")
def stack(call: Call) -> None:
    """TensorListStack: all elements of a list."""
    call.hand_on(_known(call), 0)


def _known(call: Call) -> Value:
    """The list that is the first input."""
    items = call.input(0)
    if items.dtype == "variant":
        raise GapError("it reads a list of tensors of which no element is set", ONE_BY_ONE)
    return items
