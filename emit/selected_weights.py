"""Weights of 8 bits that are selected when the model is loaded.

Kernels for x86 that multiply bytes without a sign by weights with one take the least time on processors with VNNI; on
others their sums saturate, and weights without a sign are needed. A product of constants tells which processor this is,
and one If gives all weights in the form that it wants. Runtimes fold constants and inline the branch while they load,
so that what is left is the model that would have been written for the processor. The weights are stored once, with a
sign; those without one are computed from them outside of the If, where every version of ONNX Runtime folds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from layoutsolve.emit.parameters import parameters_of
from layoutsolve.emit.writer import Writer
from layoutsolve.ir.graph import KEPT, Array, Node, Quant, Value
from layoutsolve.ir.saturation import Weights, of_integers
from layoutsolve.proto import signed_products
from layoutsolve.proto.messages import TYPES, GraphProto, TensorProto, TypeProto, ValueInfoProto, attribute
from layoutsolve.proto.scopes import read_in
from layoutsolve.proto.weight_selection import NAME

_TELLS = (
    "While the model is loaded: int8 weights where this processor adds uint8 by int8 exactly (VNNI, ARM, WebAssembly), "
    "else the same as uint8, as such sums saturate (other x86)."
)
_SIGN, _TERMS = 128, 4
_HALF = np.array(_SIGN, np.int32)
_RUN = 16
"""How many numbers a runtime computes at a time at least; with a scalar, singly where the last size is 1."""


def write_product(writer: Writer, node: Node) -> bool:
    """Write a product of integers whose sums may saturate in both forms, or by uint8 weights where the target
    stores all so; False for all other nodes.
    """
    found = of_integers(writer.graph, node) if writer.selects or writer.unsigned else ()
    if not found:
        return False
    left = () if writer.selects else _constants(found)
    inputs = [writer.stored(name) if name and at not in left else "" for at, name in enumerate(node.inputs)]
    made = [writer.graph.values[name] if name else None for name in node.outputs]
    _write(writer, node.op.removeprefix(KEPT), inputs, made, node.attributes, node.domain, found)
    return True


def write_dequantized(
    writer: Writer, name: str, inputs: Sequence[str], real: str, attributes: Mapping[str, Any]
) -> None:
    """Write the DequantizeLinear of int8 that is computed, and multiplies uint8, in the same way: ``inputs`` are its
    own, and ``real`` is what it gives.
    """
    value = writer.graph.values[name]
    zero = value.steps.zero_point.reshape(() if value.steps.axis is None else -1)
    made = [Value(real, "float32", value.shape)]
    _write(writer, "DequantizeLinear", inputs, made, attributes, "", [Weights(0, 2, value, zero)])


def write_inner(writer: Writer, graphs: Sequence[GraphProto], around: Mapping[str, Value]) -> None:
    """Change products in graphs that stay as they stand in the same way, where sums may saturate. What is ``around``
    them is known by its names in the file.
    """
    for graph, node, weights, dtype in (
        [*signed_products.within(graphs, around)] if writer.selects or writer.unsigned else ()
    ):
        inputs, element = [*node.input], TypeProto(tensor_type={"elem_type": TYPES[dtype]}).SerializeToString()
        for each in weights:
            if each.value.data is not None:
                inputs[each.place] = writer.shared("int8", each.value.data, partial(writer.taken.unique, "w"))
        made = [Value(name, "", (), foreign=element) if name else None for name in node.output]
        attributes = {each.name: each for each in node.attribute}
        with _within(writer, written := GraphProto()):
            _write(writer, node.op_type, inputs, made, attributes, node.domain, weights)
        place = next(index for index, other in enumerate(graph.node) if other is node)
        rest = [*graph.node[:place], *written.node, *graph.node[place + 1 :]]
        del graph.node[:]
        graph.node.extend(rest)
    for graph in graphs:
        read = read_in(graph)
        left = [each for each in graph.initializer if each.name in read]
        del graph.initializer[:]
        graph.initializer.extend(left)


def _write(
    writer: Writer,
    op: str,
    inputs: Sequence[str],
    made: Sequence[Value | None],
    attributes: Mapping[str, Any],
    domain: str,
    weights: Sequence[Weights],
) -> None:
    """Write an integer product in the forms that the target wants: both, or that without a sign."""
    if writer.selects:
        write_both(writer, op, inputs, made, attributes, domain, weights)
        return
    bare = [
        _raised(writer, inputs[each.place]) if each.value.data is None else _constant(writer, each.value.data, "w")
        for each in weights
    ]
    outputs = [writer.name(each.name) if each else "" for each in made]
    writer.node(op, _without_sign(writer, inputs, weights, bare), outputs, attributes, domain)


def _constants(found: Sequence[Weights]) -> set[int]:
    """At which inputs a product has what is written without a sign alone."""
    weights = {each.place for each in found if each.value.data is not None}
    return weights | {each.zero_place for each in found if each.zero is not None}


def _without_sign(writer: Writer, inputs: Sequence[str], weights: Sequence[Weights], bare: Sequence[str]) -> list[str]:
    """The inputs of a product by ``weights`` that are ``bare`` of a sign, whose zero points are 128 higher."""
    found = [*inputs, *[""] * (max(each.zero_place for each in weights) + 1 - len(inputs))]
    for each, name in zip(weights, bare, strict=True):
        zero = each.zero
        raised = _raised(writer, inputs[each.zero_place]) if zero is None else _constant(writer, zero, "w/zero_point")
        found[each.place], found[each.zero_place] = name, raised
    return found


def _constant(writer: Writer, data: Array, name: str) -> str:
    """The initializer of some bytes with a sign as those without one, one for all that are alike."""
    return writer.shared("uint8", writer.alike(_higher(data)), partial(writer.taken.unique, name))


def _raised(writer: Writer, near: str) -> str:
    """Compute bytes that are 128 higher, of what is known only at run time."""
    half = writer.shared("int32", _HALF, partial(writer.taken.unique, "w/half"))
    wide, more, name = (writer.taken.derived(near, each) for each in ("wide", "higher", "uint8"))
    writer.node("Cast", [near], [wide], {"to": "int32"})
    writer.node("Add", [wide, half], [more])
    writer.node("Cast", [more], [name], {"to": "uint8"})
    return name


def write_both(
    writer: Writer,
    op: str,
    inputs: Sequence[str],
    made: Sequence[Value | None],
    attributes: Mapping[str, Any],
    domain: str,
    weights: Sequence[Weights],
) -> None:
    """Write an integer product by int8 ``weights``, which gives what is ``made``, and by the same as uint8."""
    constants = [(each.place, each.value.data.shape) for each in weights if each.value.data is not None]
    known = {place: _bare(writer, inputs[place], shape) for place, shape in constants}
    branches = {}
    for dtype in ("int8", "uint8"):
        branch = GraphProto(name=dtype)
        results = [writer.taken.unique(f"{writer.name(each.name)}/{dtype}") if each else "" for each in made]
        with _within(writer, branch):
            names = inputs
            if dtype == "uint8":
                bare = [known.get(each.place) or _raised(writer, inputs[each.place]) for each in weights]
                names = _without_sign(writer, inputs, weights, bare)
            writer.node(op, names, results, attributes, domain)
        branch.output.extend(writer.info(each, result) for each, result in zip(made, results, strict=True) if each)
        branches[dtype] = branch
    _select(writer, branches["int8"], branches["uint8"], [writer.name(each.name) for each in made if each])


def write(writer: Writer) -> None:
    """Write, before all other nodes, the selected weights and the probe of the processor."""
    selection = writer.selection
    chosen = {name: real for name, real in selection.real.items() if real}
    if not chosen and not selection.exact:
        return
    others, writer.body.nodes = writer.body.nodes, []
    _probe(writer)
    signed, unsigned = GraphProto(name="int8"), GraphProto(name="uint8")
    for name in chosen:
        value = writer.graph.values[name]
        stored, zero = writer.stored(name), value.steps.zero_point
        bare = _bare(writer, stored, value.constant.shape)
        for branch, weights, at in ((signed, stored, zero), (unsigned, bare, _higher(zero))):
            _dequantize(writer, branch, bare, weights, replace(value.steps, zero_point=at))
    for stored, (bare, shape) in selection.bare.items():
        _compute(writer, stored, bare, shape)
    if chosen:
        _select(writer, signed, unsigned, list(chosen.values()))
    writer.body.nodes += others


def _select(writer: Writer, signed: GraphProto, unsigned: GraphProto, outputs: Sequence[str]) -> None:
    branches = {"then_branch": attribute("then_branch", signed), "else_branch": attribute("else_branch", unsigned)}
    writer.node("If", [_exact(writer)], outputs, branches, name=NAME)
    if writer.body.nodes[-1].name == NAME:  # once, as a layer alone may be smaller than what is said
        writer.body.nodes[-1].doc_string = _TELLS


@contextmanager
def _within(writer: Writer, graph: GraphProto) -> Iterator[None]:
    """Write nodes to a branch."""
    body = writer.body
    around, body.nodes = body.nodes, []
    yield
    graph.node.extend(body.nodes)
    body.nodes = around


def _dequantize(writer: Writer, graph: GraphProto, near: str, stored: str, quant: Quant) -> None:
    """Add to a branch, which is called as a type, what gives the real numbers of weights that are stored as it. Names
    are derived from ``near``: those of layers are longer than all else that is written of small ones.
    """
    parameters, attributes = parameters_of(writer, near, quant, graph.name)
    result = writer.taken.derived(near, graph.name)
    with _within(writer, graph):
        writer.node("DequantizeLinear", [stored, *parameters], [result], attributes, name=graph.name)
    graph.output.append(ValueInfoProto(name=result, type=TypeProto(tensor_type={"elem_type": TensorProto.FLOAT})))


def _exact(writer: Writer) -> str:
    """The name of what tells whether this processor adds products exactly."""
    selection = writer.selection
    selection.exact = selection.exact or writer.taken.unique("probe/exact")
    return selection.exact


def _probe(writer: Writer) -> None:
    """Add the largest products, four at a time."""
    names = {title: writer.taken.unique(f"probe/{title}") for title in ("x", "weights", "right", "sum")}
    x, weights = np.full(_TERMS, 255, np.uint8), np.full(_TERMS, 127, np.int8)
    given = [writer.initializer(names["x"], "uint8", x), writer.initializer(names["weights"], "int8", weights)]
    right = writer.initializer(names["right"], "int32", np.array(_TERMS * 255 * 127, np.int32))
    writer.node("MatMulInteger", given, [names["sum"]], name="probe")
    writer.node("Equal", [names["sum"], right], [_exact(writer)], name="probe")


def _bare(writer: Writer, stored: str, shape: tuple[int, ...]) -> str:
    """The name of weights without a sign, which are computed from those with one."""
    known = writer.selection.bare
    if stored not in known:
        known[stored] = writer.taken.unique(f"w{len(known)}"), shape
    return known[stored][0]


def _compute(writer: Writer, stored: str, bare: str, shape: tuple[int, ...]) -> None:
    sizes, signs, bits = _last(shape), writer.selection.signs, writer.taken.derived(bare, "bits")
    if sizes not in signs:
        name = writer.taken.unique("probe/sign")
        signs[sizes] = writer.initializer(name, "uint8", np.full(sizes, _SIGN, np.uint8))
    writer.node("Cast", [stored], [bits], {"to": "uint8"}, name="weights")
    writer.node("BitwiseXor", [bits, signs[sizes]], [bare], name="weights")


def _higher(data: Array) -> Array:
    """Numbers without a sign, 128 higher; an array also of one, of which NumPy makes a scalar that has no place."""
    return np.asarray(data.astype(np.int16) + _SIGN, np.uint8)


def _last(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The last dimensions of a shape that a runtime takes at a time; none where it takes a scalar as fast."""
    counts = range(1, len(shape) + 1)
    return () if shape[-1] > 1 else shape[-next((n for n in counts if np.prod(shape[-n:]) >= _RUN), len(shape)) :]
