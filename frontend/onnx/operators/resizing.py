"""Resize: by factors or to sizes of all dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from layoutsolve.frontend.onnx.call import Call
from layoutsolve.frontend.onnx.operators.registry import lowering
from layoutsolve.ir.graph import Array, Dim, product, without_omitted
from layoutsolve.proto.resized_sizes import MOST, are_rounded_up, are_sizes, rounded

UNITY = (0.0, 1.0)
"""The part of a dimension that is all of it."""


@lowering("Resize")
def resize(call: Call) -> bool:
    """By factors or to sizes of all dimensions, and of a known part of all of them; as it stands where the part of some
    is computed, or where only one of its sizes is kept.
    """
    by, to = (call.has(number) and not _is_empty(call, number) for number in (2, 3))
    if not call.known(0) or by is to:
        return False
    shape, attributes = call.value(0).shape, dict(call.attributes)
    places = [axis % len(shape) for axis in call.integers("axes") or range(len(shape))]
    others: list[Dim | None] = [None if axis in places else dim for axis, dim in enumerate(shape)]
    cut = attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    part = call.constant(1) if cut else None
    names, storage = call.operands(call.stores)
    if attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch" or (cut and part is None):
        call.draft.declare(call.outputs[0], others)
        call.emit("Resize", names, call.outputs, attributes, storage)
        return True
    attributes.pop("axes", None)
    if part is None:
        names[1] = ""
    elif part.size != 2 * len(places):
        return False
    elif len(places) < len(shape):
        whole = np.array([[0], [1]], part.dtype).repeat(len(shape), 1)
        whole[:, places] = part.reshape(2, -1)
        names[1] = call.draft.constant(whole.reshape(-1), f"{call.outputs[0]}/roi").name
    made = _to_sizes(call, places, names) if to else _by_factors(call, places, part, names)
    if made is None:
        return False
    call.draft.declare(call.outputs[0], made)
    call.emit("Resize", without_omitted(names), call.outputs, attributes, storage)
    return True


def _to_sizes(call: Call, places: Sequence[int], names: list[str]) -> list[Dim | None] | None:
    """The sizes that a Resize gives, of which its input names those of some axes: it gets them of all."""
    sizes = call.dims(3)
    if sizes is None or len(sizes) != len(places):
        return None
    told = dict(zip(places, sizes, strict=True))
    made = [told.get(axis, dim) for axis, dim in enumerate(call.value(0).shape)]
    names[3] = call.draft.sizes(made, call.outputs[0])
    return [*made]


def _by_factors(call: Call, places: Sequence[int], part: Array | None, names: list[str]) -> list[Dim | None] | None:
    """The same of factors, and of ``part`` of the input; None for sizes that are rounded, where the library does not
    round them otherwise than ONNX Runtime.
    """
    scales, shape = call.constant(2), call.value(0).shape
    if scales is None or scales.size != len(places):
        return None
    every = np.ones(len(shape), np.float32)
    every[places] = scales.reshape(-1)
    parts = {} if part is None else dict(zip(places, zip(*part.reshape(2, -1).tolist(), strict=True), strict=True))
    made = [
        product((dim, int(scale))) if float(scale).is_integer() and parts.get(axis, UNITY) == UNITY else None
        for axis, (dim, scale) in enumerate(zip(shape, every.tolist(), strict=True))
    ]
    fitting = part is None and ((every > 0) & (every < MOST)).all()
    if fitting and are_rounded_up(shape, every) and are_sizes(shape, every):  # by which the library has the right ones
        made = [rounded(dim, every[axis]) if isinstance(dim, int) else made[axis] for axis, dim in enumerate(shape)]
        names[2:] = ["", call.draft.sizes([dim for dim in made if dim is not None], call.outputs[0])]
        return made
    names[2] = call.draft.constant(every, f"{call.outputs[0]}/scales").name
    return made


def _is_empty(call: Call, number: int) -> bool:
    """Whether an input is a constant without elements, which stands for none."""
    found = call.constant(number)
    return found is not None and found.size == 0
