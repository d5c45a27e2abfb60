"""Models in operator sets before the one that all is written in: for compilers of devices that ask for such.

A model is written in :data:`layoutsolve.emit.opset.LOWEST_OPSET` or a later set, then node by node brought to the one
that is asked for: what did not change since stays, attributes that have their default are left out, and what is
expressed in another way there has a rewrite below. A node fits a set where its schema has its inputs, attributes and
types; ``onnx.defs`` knows the schemas of all sets. What changed in meaning alone has a rewrite as well. Anything else
is an error that names the operator, and the oldest set that has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np

from layoutsolve.base.wording import printable
from layoutsolve.emit.check import outline_of
from layoutsolve.emit.tensors import fill
from layoutsolve.errors import OptionError
from layoutsolve.frontend.onnx.constants import of
from layoutsolve.ir.graph import Array, Origin
from layoutsolve.ir.names import Names
from layoutsolve.proto.messages import (
    DOMAINS,
    REFUSALS,
    TYPES,
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    attribute,
    inferred,
    integer,
    integers,
    leave_out,
    native,
)
from layoutsolve.proto.scopes import graphs_of, names_in, nodes_of

_REDUCING = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
_LEAVE = "leave --opset out, or cut the model before it"
_SMALL = 1 << 12
"""Elements of a constant up to which it may be axes, pads or sizes."""

Made = list[NodeProto]


class _Step:
    """One node, what is known of its tensors, and the set that it is brought to."""

    def __init__(self, scope: _Scope, node: NodeProto) -> None:
        self.scope, self.node, self.version = scope, node, scope.version

    def slot(self, position: int) -> str:
        """The name of an input, '' where it is left out."""
        return self.node.input[position] if position < len(self.node.input) else ""

    def type(self, name: str) -> int:
        """The type of the elements of a tensor, 0 where it is not known."""
        return self.scope.types.get(name, 0)

    def shape(self, name: str) -> Sequence[int | None] | None:
        """The sizes of a tensor as far as they are known."""
        return self.scope.shapes.get(name)

    def constant(self, position: int) -> Array | None:
        """An input that is a small constant, None for others."""
        found = self.scope.constants.get(self.slot(position))
        if found is None or found.external_data or prod(found.dims) > _SMALL:
            return None
        data = of(found).data
        return None if data is None else np.asarray(data)

    def ints(self, position: int) -> list[int] | None:
        """An input that is a small constant vector of integers."""
        data = self.constant(position)
        return None if data is None else [int(each) for each in data.reshape(-1)]

    def text(self, name: str, default: str) -> str:
        """An attribute that is a text."""
        return next((each.s.decode() for each in self.node.attribute if each.name == name), default)

    def number(self, name: str, default: float) -> float:
        """An attribute that is a float."""
        return next((each.f for each in self.node.attribute if each.name == name), default)

    def new(self, title: str, like: str = "") -> str:
        """A name of a new tensor, with the type and shape of another one."""
        made = self.scope.names.unique(f"{self.node.output[0]}/{title}")
        if like:
            self.scope.types[made] = self.type(like)
            if (shape := self.shape(like)) is not None:
                self.scope.shapes[made] = shape
        return made

    def hold(self, data: Any, dtype: str, title: str) -> str:
        """A new initializer."""
        name, proto = self.new(title), TensorProto()
        fill(proto, name, dtype, np.asarray(data, dtype))
        self.scope.held.append(proto)
        self.scope.constants[name], self.scope.types[name] = proto, proto.data_type
        self.scope.shapes[name] = list(proto.dims)
        return name

    def write(self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> NodeProto:
        """A node in place of this one, or of a part of it."""
        made = NodeProto(op_type=op, input=inputs, output=outputs, doc_string=self.node.doc_string)
        if self.node.name:
            made.name = self.scope.names.unique(f"{self.node.name}/{op}")
            if self.node.name in self.scope.origins:
                self.scope.origins[made.name] = self.scope.origins[self.node.name]
        made.attribute.extend(attribute(name, value) for name, value in attributes.items() if value is not None)
        return made

    def attributed(self, position: int, name: str) -> Made | None:
        """The node with an input as an attribute; None where it is computed."""
        if not self.slot(position):
            return self.shortened(position)
        values = self.ints(position)
        if values is None:
            return None
        self.node.attribute.append(attribute(name, values)) if values else None
        return self.shortened(position)

    def shortened(self, count: int) -> Made:
        """The node with its first inputs alone."""
        del self.node.input[count:]
        return [self.node]


class _Scope:
    """A graph, what is known of its tensors and of those around it, and the sets that it is written in and brought to:
    attributes have the defaults of the first.
    """

    def __init__(
        self, graph: GraphProto, written: int, version: int, origins: dict[str, Origin], outer: _Scope | None = None
    ) -> None:
        self.graph, self.written, self.version, self.origins = graph, written, version, origins
        self.names: Names = Names(names_in(graph)) if outer is None else outer.names
        self.types: dict[str, int] = {} if outer is None else dict(outer.types)
        self.shapes: dict[str, Sequence[int | None]] = {} if outer is None else dict(outer.shapes)
        self.constants: dict[str, TensorProto] = {} if outer is None else dict(outer.constants)
        self.held: list[TensorProto] = []
        self._describe(graph)
        for each in graph.initializer:
            self.constants[each.name], self.types[each.name] = each, each.data_type
            self.shapes[each.name] = list(each.dims)

    def _describe(self, graph: GraphProto) -> None:
        for port in (*graph.value_info, *graph.input, *graph.output):
            tensor = port.type.tensor_type
            self.types[port.name] = tensor.elem_type
            if tensor.HasField("shape"):
                dims = tensor.shape.dim
                self.shapes[port.name] = [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]

    def infer(self, model: ModelProto) -> None:
        """Note what is inferred of tensors that a model says nothing of."""
        try:
            found = inferred(outline_of(model).SerializeToString(), False)
        except REFUSALS:  # which the check of the model tells
            return
        told = dict(self.types), dict(self.shapes)
        self._describe(found.graph)
        for node in nodes_of(found.graph):
            for inner in graphs_of(node):
                self._describe(inner)
        self.types.update(told[0])
        self.shapes.update(told[1])

    def bring(self) -> None:
        """Bring all nodes of the graph to the set."""
        made: Made = []
        for node in self.graph.node:
            for inner in graphs_of(node):
                _Scope(inner, self.written, self.version, self.origins, self).bring()
            if node.domain not in DOMAINS:
                made.append(node)
                continue
            for each in _brought(_Step(self, node)):
                _check(_Step(self, each), node)
                made.append(each)
        copies = [NodeProto.FromString(node.SerializeToString()) for node in made]
        del self.graph.node[:]
        self.graph.node.extend(copies)
        self.graph.initializer.extend(self.held)


def bring(model: ModelProto, written: int, version: int, origins: dict[str, Origin]) -> None:
    """Bring a model that is ``written`` in one operator set to an older one; ``origins`` by names of nodes are kept.

    Raises :class:`OptionError` for an operator that the older one cannot express.
    """
    if model.functions:
        raise OptionError(f"opset {version} cannot carry this model: functions need opset {written}; {_LEAVE}")
    scope = _Scope(model.graph, written, version, origins)
    scope.infer(model)
    scope.bring()
    for each in model.opset_import:
        if each.domain in DOMAINS:
            each.version = version


@cache
def _schema(op: str, version: int) -> Any:
    """The schema of an operator in a set, None where it has none there."""
    try:
        found = native.defs.get_schema(op, version, "")
    except Exception:  # whose class is the library's own
        return None
    return None if found.deprecated else found


def _brought(step: _Step) -> Made:
    """The nodes that stand for one in the set: itself, where nothing has changed."""
    node = step.node
    rewrite = _REWRITES.get(node.op_type)
    if rewrite is not None and step.version < rewrite[0]:
        before = NodeProto.FromString(node.SerializeToString())
        found = rewrite[1](step)
        if found is None:
            raise _needs(step, before, max(rewrite[0], _since(step, before)), rewrite[2])
        return found
    return [node]


def _check(step: _Step, source: NodeProto) -> None:
    """Raise :class:`OptionError` unless a node fits the set; attributes with their defaults are left out."""
    node, version = step.node, step.version
    older, newer = _schema(node.op_type, version), _schema(node.op_type, step.scope.written)
    if newer is not None and older is not None and newer.since_version == older.since_version:
        return
    if older is None:
        raise _needs(step, source, _since(step, node), "")
    known = {} if newer is None else newer.attributes
    for each in [each for each in node.attribute if each.name not in older.attributes]:
        if each.name not in known or not _is_default(each, AttributeProto.FromString(known[each.name]._default_value)):
            raise _needs(step, source, _since(step, node), f"with its {each.name}")
        leave_out(node, (each.name,))
    while len(node.input) > older.max_input and not node.input[-1]:
        del node.input[-1]
    if not older.min_input <= len(node.input) <= older.max_input or len(node.output) > older.max_output:
        raise _needs(step, source, _since(step, node), "with its inputs and outputs")
    for given, ports in ((node.input, older.inputs), (node.output, older.outputs)):
        for position, name in enumerate(given):
            port = ports[min(position, len(ports) - 1)]
            dtype = _NAMES.get(step.type(name), "")
            if name and dtype and f"tensor({dtype})" not in port.types:
                raise _needs(step, source, _since(step, node), f"of {dtype}")


_CODES = {code: name for name, code in TYPES.items()}
_NAMES = {code: {"float32": "float", "float64": "double"}.get(name, name) for code, name in _CODES.items()}
"""The names of types as schemas have them, by their codes."""


def _is_default(given: Any, default: Any) -> bool:
    """Whether an attribute is what it is where it is left out."""
    if not default.name:  # which has none: an empty list, or 0, says as much
        return not (given.ints or given.floats or given.strings or given.s or given.i or given.f or given.HasField("t"))
    kinds = ("i", "f", "s", "ints", "floats", "strings")
    return all(getattr(given, kind) == getattr(default, kind) for kind in kinds)


def _since(step: _Step, node: NodeProto) -> int:
    """The oldest set behind the one that is asked for in which an operator is as it is written."""
    for version in range(step.version + 1, step.scope.written):
        if _schema(node.op_type, version) is None:
            continue
        copy = NodeProto.FromString(node.SerializeToString())
        again = _Step(step.scope, copy)
        again.version = version
        try:
            _check(again, copy)
        except OptionError:
            continue
        return version
    return step.scope.written


def _needs(step: _Step, node: NodeProto, version: int, what: str) -> OptionError:
    origin = step.scope.origins.get(node.name)
    tensor = next(filter(None, node.output), "")
    place = f"{origin} is written as {node.op_type}" if origin is not None else node.op_type
    shown = printable(f"{place}{f' {what}' if what else ''} (output '{tensor}')")
    return OptionError(
        f"opset {step.version} cannot carry this model: {shown} needs opset {version}; use that, or {_LEAVE}"
    )


# -- what is expressed in another way in older sets ------------------------------------------------------------------


def _reduce(step: _Step) -> Made | None:
    """ReduceMean and the like have axes as an attribute before 18, ReduceSum before 13."""
    none = integer(step.node, "noop_with_empty_axes", 0)
    leave_out(step.node, ("noop_with_empty_axes",))
    if none and (not step.slot(1) or step.ints(1) == []):
        return [step.write("Identity", [step.slot(0)], step.node.output)]
    return step.attributed(1, "axes")


def _axes(step: _Step) -> Made | None:
    """Squeeze and Unsqueeze have axes as an attribute before 13."""
    return step.attributed(1, "axes")


def _split(step: _Step) -> Made | None:
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


def _pad(step: _Step) -> Made | None:
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


def _resize(step: _Step) -> Made | None:
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


def _whole_sizes(step: _Step, shape: Sequence[int | None], sizes: Mapping[int, int]) -> tuple[Made, str]:
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


def _softmax(step: _Step) -> Made | None:
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


def _shape(step: _Step) -> Made | None:
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


def _reshape(step: _Step) -> Made | None:
    """Before 14 a size of 0 is that of the input."""
    if integer(step.node, "allowzero", 0) and 0 in (step.ints(1) or [0]):
        return None
    leave_out(step.node, ("allowzero",))
    return [step.node]


def _or_equal(step: _Step) -> Made | None:
    """GreaterOrEqual and LessOrEqual are new in 12; nothing compares with what is no number."""
    one, other = (step.new(title) for title in ("strict", "equal"))
    step.scope.types[one] = step.scope.types[other] = TensorProto.BOOL
    strict = step.node.op_type.removesuffix("OrEqual")
    return [
        step.write(strict, step.node.input, [one]),
        step.write("Equal", step.node.input, [other]),
        step.write("Or", [one, other], step.node.output),
    ]


def _extreme(step: _Step) -> Made | None:
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


def _clip(step: _Step) -> Made | None:
    """Clip of integers is new in 12."""
    node = step.node
    if step.type(node.input[0]) in _FLOATS:
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


def _layer_norm(step: _Step) -> Made | None:
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


def _hard_swish(step: _Step) -> Made | None:
    """HardSwish is new in 14: a product with HardSigmoid."""
    gate = step.new("gate", step.slot(0))
    made = step.write("HardSigmoid", [step.slot(0)], [gate], alpha=1 / 6, beta=0.5)
    return [made, step.write("Mul", [step.slot(0), gate], step.node.output)]


def _mish(step: _Step) -> Made | None:
    """Mish is new in 18: a product with the hyperbolic tangent of Softplus."""
    soft, gate = (step.new(title, step.slot(0)) for title in ("softplus", "gate"))
    made = [step.write("Softplus", [step.slot(0)], [soft]), step.write("Tanh", [soft], [gate])]
    return [*made, step.write("Mul", [step.slot(0), gate], step.node.output)]


def _scaled(step: _Step) -> Made | None:
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
            name = _CODES.get(step.type(step.slot(place)), "")
            step.node.input[place] = step.hold(data.reshape(()), name, "scalar")
    leave_out(step.node, ("axis",))
    return [step.node]


def _grid_sample(step: _Step) -> Made | None:
    """The names of the ways of GridSample are other ones before 20."""
    names = {"linear": "bilinear", "cubic": "bicubic", "nearest": "nearest"}
    shape, mode = step.shape(step.slot(0)), step.text("mode", "linear")
    if shape is None or len(shape) != 4 or mode not in names:
        return None
    leave_out(step.node, ("mode",))
    step.node.attribute.append(attribute("mode", names[mode]))
    return [step.node]


def _roi_align(step: _Step) -> Made | None:
    """RoiAlign before 16 has boxes whose pixels are not shifted by half a pixel."""
    if step.text("coordinate_transformation_mode", "half_pixel") != "output_half_pixel":
        return None
    leave_out(step.node, ("coordinate_transformation_mode",))
    return [step.node]


def _power(step: _Step) -> Made | None:
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

_REWRITES: Mapping[str, tuple[int, Callable[[_Step], Made | None], str]] = {
    **{f"Reduce{name}": (18, _reduce, _COMPUTED) for name in _REDUCING},
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
