"""What keeps ONNX Runtime's optimiser from breaking a model, or from making it slower.

Each :class:`Guard` knows one of its transformers: the nodes that it would treat wrongly, and how to write them so that
it leaves them alone. Mostly that is a barrier, a node that it neither moves through nor removes. ``docs/runtimes.md``
tells of each which versions are concerned and what the guard costs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import onnx
from onnx import numpy_helper

from layoutsolve.emit.nodes import graphs_of, outer_names
from layoutsolve.graph import Array

Fresh = Callable[[str], str]
"""Makes a name unique."""

_BARRIER = "Max"
"""Of one operand it is a copy."""

_PASSED = frozenset({"MaxPool", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Slice"})
"""The operators that DequantizeLinear is moved down through, and QuantizeLinear up."""

_REMOVED = frozenset(
    {"Cast", "DequantizeLinear", "Identity", "QuantizeLinear", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
)
"""The operators between a Pad and what reads it that may be passed over, removed or moved away."""

_LIMITS = frozenset({"Clip", "Relu"})
"""The operators before QuantizeLinear that are removed where its range is what they limit to."""

_WEIGHED = ("Conv", "ConvTranspose", "Gemm")
"""The operators whose weights and biases are quantised where what they read and give is."""

_BROKEN_OPSET = 21
"""From here on what DequantizeLinear becomes when it is moved is refused for int8."""

_INT32 = 2.0**31
"""What 32 bits do not hold."""

_EPSILON = float(np.finfo(np.float32).eps)
"""The distance up to which limits are taken to be equal, however small the steps of a tensor are."""


@dataclass(eq=False)
class _Scope:
    """One graph of a model, and what is around it: ``constants`` are initializers by name."""

    graph: onnx.GraphProto
    version: int
    constants: Mapping[str, onnx.TensorProto]
    fresh: Fresh
    behind: dict[int, onnx.NodeProto] = field(default_factory=dict)
    _origins: dict[str, onnx.NodeProto | None] = field(default_factory=dict)

    @cached_property
    def producers(self) -> dict[str, onnx.NodeProto]:
        """The node that makes each value."""
        return {name: node for node in self.graph.node for name in node.output}

    @cached_property
    def readers(self) -> Mapping[str, Sequence[onnx.NodeProto]]:
        """The nodes that read each value in this graph itself."""
        found: dict[str, list[onnx.NodeProto]] = defaultdict(list)
        for node in self.graph.node:
            for name in dict.fromkeys(node.input):
                found[name].append(node)
        return found

    @cached_property
    def results(self) -> frozenset[str]:
        """The names of the outputs."""
        return frozenset(port.name for port in self.graph.output)

    @cached_property
    def captured(self) -> frozenset[str]:
        """The names that branches and loops in this graph read."""
        return frozenset(name for node in self.graph.node for inner in graphs_of(node) for name in outer_names(inner))

    def constant(self, name: str) -> Array | None:
        """The elements of a small constant, None where a value is computed."""
        found = self.constants.get(name)
        if found is None or found.data_location == onnx.TensorProto.EXTERNAL:
            return None
        array: Array = numpy_helper.to_array(found)
        return array

    def following(self, name: str, operators: frozenset[str]) -> Iterator[onnx.NodeProto]:
        """What reads a value, itself or behind some of these operators that have it as their data."""
        reached = [name]
        for name in reached:
            for node in self.readers.get(name, ()):
                yield node
                if node.op_type in operators and node.input[0] == name:
                    reached.append(node.output[0])

    def origin(self, name: str) -> onnx.NodeProto | None:
        """What makes a value, before all operators that DequantizeLinear is moved through."""
        passed = [name]
        node = self.producers.get(name)
        while node is not None and node.op_type in _PASSED and node.input and node.input[0] not in self._origins:
            passed.append(node.input[0])
            node = self.producers.get(node.input[0])
        if node is not None and node.op_type in _PASSED and node.input:
            node = self._origins[node.input[0]]
        self._origins.update(dict.fromkeys(passed, node))
        return node


@dataclass(frozen=True)
class Guard:
    """How the nodes of one operator are kept from a transformer.

    ``concerned`` gives the readers between which and the node it would act wrongly, ``rewrite`` changes the two.
    """

    transformer: str
    operator: str
    concerned: Callable[[_Scope, onnx.NodeProto], Sequence[onnx.NodeProto]]
    rewrite: Callable[[_Scope, onnx.NodeProto, Sequence[onnx.NodeProto]], None]


def guard(graph: onnx.GraphProto, version: int, fresh: Fresh) -> None:
    """Write all parts of a model of operator set ``version`` that an optimiser would break in another way."""
    _guard(graph, version, {}, fresh)


def _guard(graph: onnx.GraphProto, version: int, around: Mapping[str, onnx.TensorProto], fresh: Fresh) -> None:
    constants = {**around, **{item.name: item for item in graph.initializer}}
    nodes = list(graph.node)  # kept, so that each stays the same object: what is behind them goes by that
    for node in nodes:
        for inner in graphs_of(node):
            _guard(inner, version, constants, fresh)
    scope = _Scope(graph, version, constants, fresh)
    for node in nodes:
        for each in _BY_OPERATOR.get(node.op_type, ()):
            if concerned := each.concerned(scope, node):
                each.rewrite(scope, node, concerned)
    if scope.behind:
        ordered = [each for node in nodes for each in (node, scope.behind.get(id(node))) if each is not None]
        copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in ordered]
        del graph.node[:]
        graph.node.extend(copies)


# -- what would be treated wrongly ---------------------------------------------------------------------------------


def _moved_too_far(scope: _Scope, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The views through which a DequantizeLinear must not be moved.

    The process aborts where that leads to an If or Loop that reads the result inside only; from opset 21 on what is
    written is then refused where the numbers are int8.
    """
    zero = scope.constants.get(node.input[2]) if len(node.input) > 2 else None
    broken = scope.version >= _BROKEN_OPSET and zero is not None and zero.data_type == onnx.TensorProto.INT8
    if not broken and not scope.captured:
        return []

    def ends(name: str) -> bool:
        """Whether a value is quantised at once."""
        readers = scope.readers.get(name, ())
        return name not in scope.results and all(reader.op_type == "QuantizeLinear" for reader in readers)

    def is_captured(name: str) -> bool:
        views = (view for view in scope.following(name, _PASSED) if view.op_type in _PASSED)
        return not scope.captured.isdisjoint([name, *(view.output[0] for view in views)])

    views = [view for view in scope.readers.get(node.output[0], ()) if view.op_type in _PASSED]
    return [view for view in views if is_captured(view.output[0]) or (broken and not ends(view.output[0]))]


def _requantised(scope: _Scope, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The QuantizeLinear that give quantised numbers other parameters: of two roundings one of another step is made."""
    before = scope.origin(node.input[0])
    if before is None or before.op_type != "QuantizeLinear":
        return []

    return [
        reader
        for reader in scope.readers.get(node.output[0], ())
        if reader.op_type == "QuantizeLinear"
        and not _alike(scope, node, reader)
        and any(each.op_type == "DequantizeLinear" for each in scope.following(reader.output[0], _PASSED))
    ]


def _given_back(scope: _Scope, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """What leads from quantised numbers to an output with the same parameters, perhaps limited on the way.

    Where the limits change nothing the output takes the place of what it is computed from, and other readers find none.
    """
    stored, real = node.input[0], node.output[0]
    if len(scope.readers[stored]) == 1 and len(scope.readers.get(real, ())) < 2 and stored not in scope.results:
        return []

    def ends(reader: onnx.NodeProto) -> bool:
        last = scope.readers.get(reader.output[0], ()) if reader.op_type in _LIMITS else (reader,)
        return any(
            each.op_type == "QuantizeLinear" and each.output[0] in scope.results and _alike(scope, node, each)
            for each in last
        )

    return [reader for reader in scope.readers.get(real, ()) if ends(reader)]


def _alike(scope: _Scope, node: onnx.NodeProto, after: onnx.NodeProto) -> bool:
    """Whether a DequantizeLinear and a QuantizeLinear have the same parameters."""
    pairs = zip(node.input[1:], after.input[1:], strict=False)
    return all(np.array_equal(*map(scope.constant, pair)) for pair in pairs)  # type: ignore[arg-type]


def _in_tiny_steps(scope: _Scope, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The QuantizeLinear of steps so small that a Clip before them is always taken to change nothing."""

    def is_tiny(reader: onnx.NodeProto) -> bool:
        scale = scope.constant(reader.input[1]) if reader.op_type == "QuantizeLinear" else None
        return scale is not None and bool((scale < 2 * _EPSILON).any())

    return [reader for reader in scope.readers.get(node.output[0], ()) if is_tiny(reader)]


def _of_reciprocals(scope: _Scope, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The products with ``1 / x`` that no quotient by ``x`` equals: those of integers, and where 1 adds dimensions."""
    one = scope.constant(node.input[0])
    if one is None or one.size != 1 or one.item() != 1 or (one.dtype.kind == "f" and not one.ndim):
        return []
    return [reader for reader in scope.readers.get(node.output[0], ()) if reader.op_type == "Mul"]


def _pooled(scope: _Scope, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The maxima of what is padded with zeros: padding of the pooling itself counts as less than all numbers."""
    pads, value = (scope.constant(name) if name else None for name in (*node.input, "", "")[1:3])
    if len(node.input) > 3 or pads is None or (value is not None and value.any()):
        return []
    return [reader for reader in scope.following(node.output[0], _REMOVED) if reader.op_type == "MaxPool"]


def _normalised(scope: _Scope, node: onnx.NodeProto) -> Sequence[onnx.NodeProto]:
    """The normalisation that alone reads a sum: the kernel that adds as well takes several times as long as the two."""
    readers = scope.readers.get(node.output[0], ())
    alone = [reader.op_type for reader in readers] == ["LayerNormalization"] and node.output[0] not in scope.results
    return readers if alone else ()


def _emptied(scope: _Scope, node: onnx.NodeProto) -> Sequence[onnx.NodeProto]:
    """What is expanded to no elements at all: it is passed on as it is, a size of 1 for one of 0."""
    shape = scope.constant(node.input[1]) if len(node.input) == 2 else None
    return [node] if shape is not None and not shape.all() else ()


def _between(scope: _Scope, node: onnx.NodeProto, result: str) -> bool:
    """Whether what a product reads was quantised, and its result is quantised."""
    before = scope.origin(node.input[0]) if node.input else None
    if before is None or before.op_type != "DequantizeLinear":
        return False
    return any(each.op_type == "QuantizeLinear" for each in scope.following(result, _PASSED | _LIMITS))


def _overflows(scope: _Scope, node: onnx.NodeProto, name: str) -> bool:
    """Whether 32 bits do not hold what is added to a product of quantised numbers, in steps of both scales."""
    bias, (first, second) = scope.constant(name), (_scale(scope, each) for each in (*node.input, "", "")[:2])
    if bias is None or first is None or second is None:
        return False
    with np.errstate(all="ignore"):
        steps = np.abs(bias) / (first * second)
    return not (steps < _INT32).all()


def _scale(scope: _Scope, name: str) -> Array | None:
    """The scales of numbers that were quantised, None of others."""
    made = scope.origin(name)
    if made is None or made.op_type != "DequantizeLinear" or len(made.input) < 2:
        return None
    return scope.constant(made.input[1])


def _by_constants(scope: _Scope, node: onnx.NodeProto) -> bool:
    return any(name in scope.constants for name in node.input[1:2])


def _of_real_weights(scope: _Scope, node: onnx.NodeProto) -> Sequence[onnx.NodeProto]:
    """A product of quantised numbers by real constants, of which 8 bits with one scale for all would be left."""
    return [node] if _by_constants(scope, node) and _between(scope, node, node.output[0]) else ()


def _of_large_bias(scope: _Scope, node: onnx.NodeProto) -> Sequence[onnx.NodeProto]:
    """A product of quantised numbers to which more is added than 32 bits hold."""
    large = len(node.input) > 2 and _overflows(scope, node, node.input[2])
    return [node] if large and _between(scope, node, node.output[0]) else ()


def _to_product(scope: _Scope, node: onnx.NodeProto) -> Sequence[onnx.NodeProto]:
    """A sum that would become a Gemm of one of these two kinds."""
    product = scope.producers.get(node.input[0]) if len(node.input) == 2 else None
    if product is None or product.op_type != "MatMul" or not _between(scope, product, node.output[0]):
        return ()
    return [node] if _by_constants(scope, product) or _overflows(scope, product, node.input[1]) else ()


# -- what is written instead ---------------------------------------------------------------------------------------


def _put_barrier(scope: _Scope, node: onnx.NodeProto, readers: Sequence[onnx.NodeProto]) -> None:
    """Let some readers of a node read a copy."""
    name = node.output[0]
    barrier = scope.behind.get(id(node))
    if barrier is None:
        copy = scope.fresh(f"{name}/copy")
        barrier = onnx.NodeProto(op_type=_BARRIER, name=scope.fresh(f"{_BARRIER}:{copy}"), input=[name], output=[copy])
        scope.behind[id(node)] = barrier
    for reader in readers:
        for port, given in enumerate(reader.input):
            if given == name:
                reader.input[port] = barrier.output[0]


def _copy_input(scope: _Scope, node: onnx.NodeProto, readers: Sequence[onnx.NodeProto]) -> None:
    """Let a node read a copy of its first input."""
    _put_barrier(scope, scope.producers[node.input[0]], readers)


def _add_behind(scope: _Scope, node: onnx.NodeProto, _: Sequence[onnx.NodeProto]) -> None:
    """Write the bias of a product as an Add behind it."""
    bias, result = scope.constant(node.input[2]), node.output[0]
    assert bias is not None
    spatial = next((len(each.ints) for each in node.attribute if each.name == "kernel_shape"), 0)
    added = numpy_helper.from_array(bias.reshape(-1, *(1,) * spatial), scope.fresh(f"{result}/bias"))
    scope.graph.initializer.append(added)
    own = [each for each in scope.graph.initializer if each.name == node.input[2]]
    if own and len(scope.readers[own[0].name]) == 1:
        scope.graph.initializer.remove(own[0])
    product = scope.fresh(f"{result}/product")
    del node.input[2:]
    node.output[0] = product
    name = scope.fresh(f"Add:{result}")
    scope.behind[id(node)] = onnx.NodeProto(op_type="Add", name=name, input=[product, added.name], output=[result])


def _name_axes(scope: _Scope, node: onnx.NodeProto, _: Sequence[onnx.NodeProto]) -> None:
    """Say which axes are padded: all of them."""
    pads = scope.constant(node.input[1])
    assert pads is not None
    axes = numpy_helper.from_array(np.arange(pads.size // 2), scope.fresh(f"{node.output[0]}/axes"))
    scope.graph.initializer.append(axes)
    node.input.extend([""] * (3 - len(node.input)) + [axes.name])


def _cut_to_nothing(scope: _Scope, node: onnx.NodeProto, _: Sequence[onnx.NodeProto]) -> None:
    """Expand to one element where there is to be none, and cut it off."""
    shape, result = scope.constant(node.input[1]), node.output[0]
    assert shape is not None
    (axes,) = np.nonzero(shape == 0)
    vectors = {"shape": np.maximum(shape, 1), "nothing": np.zeros_like(axes), "axes": axes - len(shape)}
    names = {label: scope.fresh(f"{result}/{label}") for label in vectors}
    scope.graph.initializer.extend(numpy_helper.from_array(each, names[key]) for key, each in vectors.items())
    expanded = scope.fresh(f"{result}/expanded")
    node.input[1], node.output[0] = names["shape"], expanded
    cut = [expanded, names["nothing"], names["nothing"], names["axes"]]
    scope.behind[id(node)] = onnx.NodeProto(
        op_type="Slice", name=scope.fresh(f"Slice:{result}"), input=cut, output=[result]
    )


def _write_sum(_: _Scope, node: onnx.NodeProto, __: Sequence[onnx.NodeProto]) -> None:
    """Write an Add as Sum, which is the same."""
    node.op_type = "Sum"


GUARDS = (
    Guard("QDQPropagationTransformer", "DequantizeLinear", _moved_too_far, _put_barrier),
    Guard("DoubleQDQPairsRemover", "DequantizeLinear", _requantised, _put_barrier),
    Guard("QDQFinalCleanupTransformer", "DequantizeLinear", _given_back, _put_barrier),
    Guard("ClipQuantFusion", "Clip", _in_tiny_steps, _put_barrier),
    Guard("DivMulFusion", "Div", _of_reciprocals, _put_barrier),
    Guard("PadFusion", "Pad", _pooled, _name_axes),
    *(Guard("WeightBiasQuantization", operator, _of_real_weights, _copy_input) for operator in _WEIGHED),
    *(Guard("WeightBiasQuantization", operator, _of_large_bias, _add_behind) for operator in _WEIGHED),
    Guard("WeightBiasQuantization", "Add", _to_product, _write_sum),
    Guard("SkipLayerNormFusion", "Add", _normalised, _write_sum),
    Guard("ExpandElimination", "Expand", _emptied, _cut_to_nothing),
)
"""All guards, by the transformers of ONNX Runtime that they are against."""

_BY_OPERATOR = {
    operator: [each for each in GUARDS if each.operator == operator] for operator in {each.operator for each in GUARDS}
}
