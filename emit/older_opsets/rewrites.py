"""What is expressed in another way in older operator sets: a function for each kind of operator that changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from layoutsolve.emit.older_opsets.step import Made, Step
from layoutsolve.proto.messages import TYPES, TensorProto, attribute, integer, integers, leave_out

_REDUCING = ("L1", "L2", "LogSum", "LogSumExp", "Mean", "Prod", "SumSquare")

CODES = {code: name for name, code in TYPES.items()}
"""The names of types by their codes."""


def _reduce(step: Step) -> Made | None:
    """ReduceMean and the like have axes as an attribute before 18, ReduceSum before 13."""
    none = integer(step.node, "noop_with_empty_axes", 0)
    leave_out(step.node, ("noop_with_empty_axes",))
    if none and (not step.slot(1) or step.ints(1) == []):
        return [step.write("Identity", [step.slot(0)], step.node.output)]
    return step.attributed(1, "axes")


def _extreme_of_axes(step: Step) -> Made | None:
    """ReduceMax and ReduceMin of bytes are new in 12. ONNX Runtime (QDQSelectorActionTransformer) makes them of bytes
    before that as well where they stand between DequantizeLinear and QuantizeLinear; a Max of one operand stops it.
    """
    made, result = _reduce(step), step.node.output[0]
    if made is None or step.version >= 12 or step.slot(0) not in step.scope.dequantized:
        return made
    made[-1].output[0] = extreme = step.new("extreme", result)
    return [*made, step.write("Max", [extreme], [result])]


def _axes(step: Step) -> Made | None:
    """Squeeze and Unsqueeze have axes as an attribute before 13."""
    return step.attributed(1, "axes")


def _split(step: Step) -> Made | None:
    """Split has its parts as an attribute before 13, and knows no number of parts before 18."""
    node, count = step.node, integer(step.node, "num_outputs", 0)
    leave_out(node, ("num_outputs",))
    parts = step.ints(1) if step.slot(1) else None
    if step.slot(1) and parts is None:
        return None if step.version < 13 else [node]
    if parts is None:
        shape, axis = step.shape(step.slot(0)), integer(node, "axis", 0)
        size = None if shape is None else shape[axis]
        if size is None:
            return None if count else [node]
        each = -(-size // (count or len(node.output)))
        parts = [max(min(each, size - each * place), 0) for place in range(len(node.output))]
    if step.version >= 13:
        name = step.slot(1) or step.hold(parts, "int64", "parts")
        node.input[:] = [step.slot(0), name]
        return [node]
    node.attribute.append(attribute("split", parts))
    return step.shortened(1)


def _pad(step: Step) -> Made | None:
    """Pad has no axes before 18, and pads every dimension."""
    if not step.slot(3):
        return step.shortened(3 if step.slot(2) else 2)
    axes, pads, shape = step.ints(3), step.ints(1), step.shape(step.slot(0))
    if axes is None or pads is None or shape is None:
        return None
    rank, whole = len(shape), [0] * (2 * len(shape))
    for place, axis in enumerate(axes):
        whole[axis % rank], whole[rank + axis % rank] = pads[place], pads[len(axes) + place]
    step.node.input[1] = step.hold(whole, "int64", "pads")
    return step.shortened(3 if step.slot(2) else 2)


def _resize(step: Step) -> Made | None:
    """Resize resizes every dimension before 18, and has a region and factors before 13, which may be empty."""
    node, axes, ahead = step.node, list(integers(step.node, "axes")), Made()
    shape = step.shape(step.slot(0))
    inputs = [step.slot(position) for position in range(4)]
    if axes and shape is not None and axes != list(range(len(shape))):
        scales, sizes = step.constant(2), step.ints(3)
        places = {axis % len(shape): place for place, axis in enumerate(axes)}
        if inputs[1] or (inputs[2] and scales is None) or (inputs[3] and sizes is None):
            return None
        if inputs[3] and sizes is not None:
            ahead, inputs[3] = _whole_sizes(step, shape, {axis: sizes[place] for axis, place in places.items()})
        elif scales is not None:
            inputs[2] = step.hold(
                [float(scales[places[axis]]) if axis in places else 1.0 for axis in range(len(shape))],
                "float32",
                "scales",
            )
    elif axes and shape is None:
        return None
    leave_out(node, ("axes",))
    if step.version < 13:
        inputs[1] = inputs[1] or step.hold([], "float32", "roi")
        inputs[2] = inputs[2] or step.hold([], "float32", "scales")
    while not inputs[-1]:
        del inputs[-1]
    node.input[:] = inputs
    return [*ahead, node]


def _whole_sizes(step: Step, shape: Sequence[int | None], sizes: Mapping[int, int]) -> tuple[Made, str]:
    """The sizes of all dimensions, of which some are given; others are those of the input, computed where they are
    open.
    """
    whole = [sizes.get(axis, size) for axis, size in enumerate(shape)]
    if None not in whole:
        return [], step.hold(whole, "int64", "sizes")
    own, parts = step.new("shape"), list[str]()
    step.scope.types[own] = TensorProto.INT64
    made = [step.write("Shape", [step.slot(0)], [own])]
    for axis, size in enumerate(whole):
        if size is not None:
            parts.append(step.hold([size], "int64", "size"))
            continue
        parts.append(step.new("size"))
        step.scope.types[parts[-1]] = TensorProto.INT64
        ends = [step.hold([axis], "int64", "start"), step.hold([axis + 1], "int64", "end")]
        made.append(step.write("Slice", [own, *ends], [parts[-1]]))
    name = step.new("sizes")
    step.scope.types[name] = TensorProto.INT64
    return [*made, step.write("Concat", parts, [name], axis=0)], name


def _softmax(step: Step) -> Made | None:
    """Softmax before 13 takes all dimensions from its axis on for one, which differs unless that is the last."""
    node = step.node
    shape, axis = step.shape(node.input[0]), integer(node, "axis", -1)
    if shape is None:
        return None
    last, axis = len(shape) - 1, axis % max(len(shape), 1)
    leave_out(node, ("axis",))
    if not shape or all(size == 1 for size in shape[axis + 1 :]):
        node.attribute.append(attribute("axis", axis if shape else 0))
        return [node] if shape else None
    if node.op_type == "Hardmax" or axis == last:
        return None
    x, y = node.input[0], node.output[0]
    most, less, exponent, total = (step.new(title, x) for title in ("max", "less", "exp", "sum"))
    made = [
        step.write("ReduceMax", [x], [most], axes=[axis], keepdims=1),
        step.write("Sub", [x, most], [less]),
        step.write("Exp", [less], [exponent]),
        step.write("ReduceSum", [exponent], [total], axes=[axis], keepdims=1),
    ]
    if node.op_type == "Softmax":
        return [*made, step.write("Div", [exponent, total], [y])]
    logarithm = step.new("log", x)
    return [*made, step.write("Log", [total], [logarithm]), step.write("Sub", [less, logarithm], [y])]


def _shape(step: Step) -> Made | None:
    """Shape gives all sizes before 15."""
    start, ends = integer(step.node, "start", 0), [each for each in step.node.attribute if each.name == "end"]
    if not start and not ends:
        leave_out(step.node, ("start",))
        return [step.node]
    whole = step.new("shape")
    step.scope.types[whole] = TensorProto.INT64
    first = step.hold([start], "int64", "start")
    last = step.hold([ends[0].i if ends else np.iinfo(np.int64).max], "int64", "end")
    made = step.write("Shape", [step.slot(0)], [whole])
    return [made, step.write("Slice", [whole, first, last], step.node.output)]


def _reshape(step: Step) -> Made | None:
    """Before 14 a size of 0 is that of the input."""
    if integer(step.node, "allowzero", 0) and 0 in (step.ints(1) or [0]):
        return None
    leave_out(step.node, ("allowzero",))
    return [step.node]


def _or_equal(step: Step) -> Made | None:
    """GreaterOrEqual and LessOrEqual are new in 12; nothing compares with what is no number."""
    one, other = (step.new(title) for title in ("strict", "equal"))
    step.scope.types[one] = step.scope.types[other] = TensorProto.BOOL
    strict = step.node.op_type.removesuffix("OrEqual")
    return [
        step.write(strict, step.node.input, [one]),
        step.write("Equal", step.node.input, [other]),
        step.write("Or", [one, other], step.node.output),
    ]


def _extreme(step: Step) -> Made | None:
    """Min and Max of integers are new in 12."""
    node = step.node
    if step.type(node.input[0]) in _FLOATS or len(node.input) == 1:
        return [node]
    made, before = Made(), node.input[0]
    compare = "Less" if node.op_type == "Min" else "Greater"
    for place, other in enumerate(node.input[1:], 2):
        chosen = step.new("chosen")
        step.scope.types[chosen] = TensorProto.BOOL
        after = node.output[0] if place == len(node.input) else step.new("extreme")
        step.scope.types[after] = step.type(before)
        made += [step.write(compare, [before, other], [chosen]), step.write("Where", [chosen, before, other], [after])]
        before = after
    return made


def _clip(step: Step) -> Made | None:
    """Clip of integers is new in 12, and ONNX Runtime clips no doubles before."""
    node = step.node
    if step.type(node.input[0]) in (TensorProto.FLOAT, TensorProto.FLOAT16):
        return [node]
    ends = [(op, step.slot(place)) for op, place in (("Less", 1), ("Greater", 2)) if step.slot(place)]
    made, before = Made(), node.input[0]
    for place, (compare, end) in enumerate(ends, 1):
        beyond = step.new("beyond")
        step.scope.types[beyond] = TensorProto.BOOL
        after = node.output[0] if place == len(ends) else step.new("clipped", node.input[0])
        made += [step.write(compare, [before, end], [beyond]), step.write("Where", [beyond, end, before], [after])]
        before = after
    return made or [step.write("Identity", [before], node.output)]


def _layer_norm(step: Step) -> Made | None:
    """LayerNormalization is new in 17: means, a quotient, scale and bias."""
    node, (x, scale), bias = step.node, step.node.input[:2], step.slot(2)
    shape, axis = step.shape(x), integer(step.node, "axis", -1)
    if shape is None or any(node.output[1:]) or step.type(x) != TensorProto.FLOAT:
        return None
    axes = list(range(axis % len(shape), len(shape)))
    titles = ("mean", "less", "square", "variance", "sum", "deviation", "normal", "scaled")
    mean, less, square, variance, total, deviation, normal, scaled = (step.new(title, x) for title in titles)
    last = scaled if bias else node.output[0]
    epsilon = step.hold(step.number("epsilon", 1e-5), "float32", "epsilon")
    made = [
        step.write("ReduceMean", [x], [mean], axes=axes, keepdims=1),
        step.write("Sub", [x, mean], [less]),
        step.write("Mul", [less, less], [square]),
        step.write("ReduceMean", [square], [variance], axes=axes, keepdims=1),
        step.write("Add", [variance, epsilon], [total]),
        step.write("Sqrt", [total], [deviation]),
        step.write("Div", [less, deviation], [normal]),
        step.write("Mul", [normal, scale], [last]),
    ]
    return [*made, step.write("Add", [last, bias], node.output[:1])] if bias else made


def _hard_swish(step: Step) -> Made | None:
    """HardSwish is new in 14: a product with HardSigmoid."""
    gate = step.new("gate", step.slot(0))
    made = step.write("HardSigmoid", [step.slot(0)], [gate], alpha=1 / 6, beta=0.5)
    return [made, step.write("Mul", [step.slot(0), gate], step.node.output)]


def _mish(step: Step) -> Made | None:
    """Mish is new in 18: a product with the hyperbolic tangent of Softplus."""
    soft, gate = (step.new(title, step.slot(0)) for title in ("softplus", "gate"))
    made = [step.write("Softplus", [step.slot(0)], [soft]), step.write("Tanh", [soft], [gate])]
    return [*made, step.write("Mul", [step.slot(0), gate], step.node.output)]


def _scaled(step: Step) -> Made | None:
    """QuantizeLinear and DequantizeLinear have one scale before 13. Constants with several could be dequantized by
    Cast, Sub and Mul, of which runtimes make no int8 kernel: results are then rounded otherwise than LiteRT's.
    """
    shape = step.shape(step.slot(1))
    if shape is None or (shape and shape != [1]):
        return None
    if shape:  # of one element: an axis that is as good as none
        for place in range(1, len(step.node.input)):
            data = step.constant(place)
            if data is None:
                return None
            name = CODES.get(step.type(step.slot(place)), "")
            step.node.input[place] = step.hold(data.reshape(()), name, "scalar")
    leave_out(step.node, ("axis",))
    return [step.node]


def _grid_sample(step: Step) -> Made | None:
    """The names of the ways of GridSample are other ones before 20."""
    names = {"linear": "bilinear", "cubic": "bicubic", "nearest": "nearest"}
    shape, mode = step.shape(step.slot(0)), step.text("mode", "linear")
    if shape is None or len(shape) != 4 or mode not in names:
        return None
    leave_out(step.node, ("mode",))
    step.node.attribute.append(attribute("mode", names[mode]))
    return [step.node]


def _roi_align(step: Step) -> Made | None:
    """RoiAlign before 16 has boxes whose pixels are not shifted by half a pixel."""
    if step.text("coordinate_transformation_mode", "half_pixel") != "output_half_pixel":
        return None
    leave_out(step.node, ("coordinate_transformation_mode",))
    return [step.node]


def _power(step: Step) -> Made | None:
    """Pow before 12 takes numbers of one type."""
    types = [step.type(name) for name in step.node.input]
    if types[0] == types[1]:
        return [step.node]
    alike = step.new("alike")
    step.scope.types[alike] = types[0]
    made = step.write("Cast", [step.slot(1)], [alike], to=types[0])
    return [made, step.write("Pow", [step.slot(0), alike], step.node.output)] if types[0] in _FLOATS else None


_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)

_COMPUTED = "with axes, sizes or parts that are computed"

REWRITES: Mapping[str, tuple[int, Callable[[Step], Made | None], str]] = {
    **{f"Reduce{name}": (18, _reduce, _COMPUTED) for name in _REDUCING},
    "ReduceMax": (18, _extreme_of_axes, _COMPUTED),
    "ReduceMin": (18, _extreme_of_axes, _COMPUTED),
    "ReduceSum": (13, _reduce, _COMPUTED),
    "Squeeze": (13, _axes, _COMPUTED),
    "Unsqueeze": (13, _axes, _COMPUTED),
    "Split": (18, _split, _COMPUTED),
    "Pad": (18, _pad, _COMPUTED),
    "Resize": (18, _resize, "with axes and sizes that are not known"),
    "Softmax": (13, _softmax, "of unknown rank"),
    "LogSoftmax": (13, _softmax, "of unknown rank"),
    "Hardmax": (13, _softmax, "along an axis that is not the last"),
    "Shape": (15, _shape, ""),
    "Reshape": (14, _reshape, "to sizes of 0"),
    "GreaterOrEqual": (12, _or_equal, ""),
    "LessOrEqual": (12, _or_equal, ""),
    "Min": (12, _extreme, ""),
    "Max": (12, _extreme, ""),
    "Clip": (12, _clip, ""),
    "LayerNormalization": (17, _layer_norm, "with several outputs, or of another type than float32"),
    "HardSwish": (14, _hard_swish, ""),
    "Mish": (18, _mish, ""),
    "QuantizeLinear": (13, _scaled, "with a scale for each channel"),
    "DequantizeLinear": (13, _scaled, "with a scale for each channel (--quant float writes none)"),
    "GridSample": (20, _grid_sample, "of volumes"),
    "RoiAlign": (16, _roi_align, "with pixels that are shifted by half of one"),
    "Pow": (12, _power, "of numbers of different types"),
}
"""Operators that changed in form or meaning: before which set, what is written then (None for what cannot be), and
what of them needs that set.
"""

SLOWER = frozenset(("LayerNormalization", "LogSoftmax", "Mish", "Softmax"))
"""Operators of which several others make a slower model: its source's operator set is not kept for that."""
