"""What ONNX Runtime's optimiser would treat wrongly between QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from layoutsolve.emit import slow_int8_kernels
from layoutsolve.emit.guards.scope import PASSED, Scope
from layoutsolve.ir.graph import Array
from layoutsolve.proto.messages import NodeProto, TensorProto, integer, integers

_LIMITS = frozenset({"Clip", "Relu"})
"""The operators before QuantizeLinear that are removed where its range is what they limit to."""

_BROKEN_OPSET = 21
"""From here on what DequantizeLinear becomes when it is moved is refused for int8."""

_INT32 = 2.0**31
"""What 32 bits do not hold."""

_EPSILON = float(np.finfo(np.float32).eps)
"""The distance up to which limits are taken to be equal, however small the steps of a tensor are."""

_OF_GELU, _LENGTH = frozenset(("Add", "Erf", "Mul", "Tanh")), 6
"""What follows within a GELU, and how many operators at most."""

_CUBED = 0.044715
"""What the third power has as its factor in the approximation of GELU."""

_IMAGE = 4
"""The dimensions of what lies channels-last beside convolutions of bytes."""

_FAR = 24
"""How many operators are looked back at, so that networks of many take no longer each."""

_APART = frozenset(("Gemm", "MatMul", "Reshape", "Softmax"))
"""Operators behind which nothing lies channels-last because of a convolution before them."""

_BYTES = (TensorProto.INT8, TensorProto.UINT8)


def moved_too_far(scope: Scope, node: NodeProto) -> list[NodeProto]:
    """The views through which a DequantizeLinear must not be moved.

    The process aborts where that leads to an If or Loop that reads the result inside only; from opset 21 on what is
    written is then refused where the numbers are int8.
    """
    broken = _is_broken(scope, node)
    if not broken and not scope.captured:
        return []

    def ends(name: str) -> bool:
        """Whether a value is quantized at once."""
        readers = scope.readers.get(name, ())
        return name not in scope.results and all(reader.op_type == "QuantizeLinear" for reader in readers)

    def is_captured(name: str) -> bool:
        views = (view for view in scope.following(name, PASSED) if view.op_type in PASSED)
        return not scope.captured.isdisjoint([name, *(view.output[0] for view in views)])

    views = [view for view in scope.readers.get(node.output[0], ()) if view.op_type in PASSED]
    return [view for view in views if is_captured(view.output[0]) or (broken and not ends(view.output[0]))]


def to_viewed_product(scope: Scope, node: NodeProto) -> Sequence[NodeProto]:
    """A sum that would become a Gemm, whose operand is then a view of numbers through which none may be moved."""
    product = scope.producers.get(node.input[0]) if len(node.input) == 2 else None
    if product is None or product.op_type != "MatMul" or not _by_constants(scope, product):
        return ()
    before = scope.origin(product.input[0])
    return [node] if before is not None and before.op_type == "DequantizeLinear" and _is_broken(scope, before) else ()


def _is_broken(scope: Scope, node: NodeProto) -> bool:
    """Whether what a DequantizeLinear becomes when it is moved is refused."""
    zero = scope.constants.get(node.input[2]) if len(node.input) > 2 else None
    return scope.version >= _BROKEN_OPSET and zero is not None and zero.data_type == TensorProto.INT8


def requantized(scope: Scope, node: NodeProto) -> list[NodeProto]:
    """QuantizeLinear that requantize to other parameters: ONNX Runtime would merge the two roundings into one."""
    before = scope.origin(node.input[0])
    if before is None or before.op_type != "QuantizeLinear":
        return []

    return [
        reader
        for reader in scope.readers.get(node.output[0], ())
        if reader.op_type == "QuantizeLinear"
        and not _alike(scope, node, reader)
        and any(each.op_type == "DequantizeLinear" for each in scope.following(reader.output[0], PASSED))
    ]


def given_back(scope: Scope, node: NodeProto) -> list[NodeProto]:
    """Path from a quantized tensor to an output with the same parameters, perhaps clamped on the way.

    Where the limits change nothing the output takes the place of what it is computed from, and other readers find none.
    """
    stored, real = node.input[0], node.output[0]
    if len(scope.readers[stored]) == 1 and len(scope.readers.get(real, ())) < 2 and stored not in scope.results:
        return []

    def ends(reader: NodeProto) -> bool:
        last = scope.readers.get(reader.output[0], ()) if reader.op_type in _LIMITS else (reader,)
        return any(
            each.op_type == "QuantizeLinear" and each.output[0] in scope.results and _alike(scope, node, each)
            for each in last
        )

    return [reader for reader in scope.readers.get(real, ()) if ends(reader)]


def gated_by_itself(scope: Scope, node: NodeProto) -> Sequence[NodeProto]:
    """The only GELU, or its approximation, of a quantized tensor: it is fused only if all of it reads one tensor, and
    each reader gets a DequantizeLinear of its own.
    """
    readers = scope.readers.get(node.output[0], ())

    def begins(reader: NodeProto) -> bool:
        """Whether a GELU begins with an operator, alone of all that reads the same."""
        if reader.op_type == "Div":
            return any(each.op_type == "Erf" for each in scope.readers.get(reader.output[0], ()))
        factor = scope.constant(reader.input[1]) if reader.op_type == "Mul" else None
        return factor is not None and factor.size == 1 and abs(float(factor.reshape(())) - _CUBED) < _EPSILON

    first = [reader for reader in readers if begins(reader)]
    if len(first) != 1:  # the optimiser shares parts of two, and loses them
        return ()
    within, names = set[str](), [_end(scope, first[0])]
    while names:
        name = names.pop()
        made = scope.producers.get(name) if name not in within and name != node.output[0] else None
        within.add(name)
        names += made.input if made is not None else ()
    return [reader for reader in readers if reader.output[0] in within]


def _end(scope: Scope, node: NodeProto) -> str:
    """The result of a GELU that begins with a node: of a product with what Add gives."""
    for _ in range(_LENGTH):
        following = scope.readers.get(node.output[0], ())
        if len(following) != 1 or following[0].op_type not in _OF_GELU:
            break
        last, node = node.op_type, following[0]
        if (last, node.op_type) == ("Add", "Mul") and _is_gated(scope, node):
            return str(node.output[0])
    return ""


def _is_gated(scope: Scope, node: NodeProto) -> bool:
    """Whether a product is one with what Add makes of Erf or Tanh."""
    sums = [made for name in node.input if (made := scope.producers.get(name)) is not None and made.op_type == "Add"]
    gates = (scope.producers.get(each.input[0]) for each in sums)
    return any(gate is not None and gate.op_type in ("Erf", "Tanh") for gate in gates)


def in_tiny_steps(scope: Scope, node: NodeProto) -> list[NodeProto]:
    """The QuantizeLinear of steps so small that a Clip before them is always taken to change nothing."""

    def is_tiny(reader: NodeProto) -> bool:
        scale = scope.constant(reader.input[1]) if reader.op_type == "QuantizeLinear" else None
        return scale is not None and bool((scale < 2 * _EPSILON).any())

    return [reader for reader in scope.readers.get(node.output[0], ()) if is_tiny(reader)]


def slower_in_bytes(scope: Scope, node: NodeProto) -> Sequence[NodeProto]:
    """What quantizes a result that int8 kernels take longer for than floats."""
    readers = [each for each in scope.readers.get(node.output[0], ()) if each.op_type == "QuantizeLinear"]
    zeros = (scope.constants.get(each.input[2]) for each in readers if len(each.input) > 2)
    data = [_dequantized(scope, name) for name in node.input[:2]]
    if None in data or not readers or not all(zero is not None and zero.data_type in _BYTES for zero in zeros):
        return ()
    stored = [*filter(None, data), readers[0].output[0]]
    return readers if IS_SLOWER[node.op_type](scope, node, stored) else ()


def _dequantized(scope: Scope, name: str) -> str | None:
    """The stored tensor that a value is made of, None where it is none."""
    node = scope.producers.get(name)
    return node.input[0] if node is not None and node.op_type == "DequantizeLinear" else None


def _has_small_groups(scope: Scope, conv: NodeProto, stored: Sequence[str]) -> bool:
    return slow_int8_kernels.of_groups(_dims(scope, stored[1]), integer(conv, "group", 1), integers(conv, "strides"))


def _has_long_rows(scope: Scope, softmax: NodeProto, stored: Sequence[str]) -> bool:
    return slow_int8_kernels.of_rows(scope.shape(stored[0]), integer(softmax, "axis", -1))


def _has_windows(scope: Scope, pool: NodeProto, stored: Sequence[str]) -> bool:
    given, made = (scope.shape(name) for name in stored)
    return slow_int8_kernels.of_windows(given, made, integers(pool, "kernel_shape"))


def _goes_over_pieces(scope: Scope, node: NodeProto, stored: Sequence[str]) -> bool:
    """Images as they lie, or channels-last where they come from convolutions."""
    shapes = [[*_dims(scope, name)] for name in stored[:2]]
    if max(map(len, shapes)) == _IMAGE and _is_convolved(scope, stored[:2]):
        full = ([1] * (_IMAGE - len(shape)) + shape for shape in shapes)
        shapes = [[batch, *space, channels] for batch, channels, *space in full]
    return slow_int8_kernels.of_pieces(node.op_type, *shapes)


def _dims(scope: Scope, name: str) -> Sequence[int]:
    """The sizes of a stored tensor, 0 for one that is not known."""
    constant = scope.constants.get(name)
    return scope.shape(name) if constant is None else constant.dims


def _is_convolved(scope: Scope, names: Sequence[str]) -> bool:
    """Whether there is a convolution not far before some stored numbers."""
    waiting, seen = deque(names), set(names)
    for _ in range(_FAR):
        node = scope.producers.get(waiting.popleft()) if waiting else None
        if node is not None and node.op_type == "Conv":
            return True
        before = {*node.input} - seen if node is not None and node.op_type not in _APART else set[str]()
        seen |= before
        waiting += sorted(before)
    return False


IS_SLOWER: Mapping[str, Callable[[Scope, NodeProto, Sequence[str]], bool]] = {
    "Add": _goes_over_pieces,
    "AveragePool": _has_windows,
    "Conv": _has_small_groups,
    "Mul": _goes_over_pieces,
    "Softmax": _has_long_rows,
}
"""By operator whether kernels on bytes take longer for a node, given the stored tensors that it reads and gives."""


def of_real_weights(scope: Scope, node: NodeProto) -> Sequence[NodeProto]:
    """Product of a quantized tensor by float constants, which would be quantized to 8 bits per tensor. What is added to
    it is a constant vector, or else it is left alone.
    """
    if not (_by_constants(scope, node) and _between(scope, node, node.output[0])):
        return ()
    added = node.input[2] if len(node.input) > 2 else ""
    constant = scope.constant(added) if added else None
    alone = added and (scope.varies(added) if constant is None else constant.ndim > 1)
    return () if alone else [node]


def of_large_bias(scope: Scope, node: NodeProto) -> Sequence[NodeProto]:
    """Product of a quantized tensor with a bias beyond int32."""
    large = len(node.input) > 2 and _overflows(scope, node, node.input[2])
    return [node] if large and _between(scope, node, node.output[0]) else ()


def to_product(scope: Scope, node: NodeProto) -> Sequence[NodeProto]:
    """A sum that would become a Gemm of one of these two kinds."""
    product = scope.producers.get(node.input[0]) if len(node.input) == 2 else None
    if product is None or product.op_type != "MatMul" or not _between(scope, product, node.output[0]):
        return ()
    return [node] if _by_constants(scope, product) or _overflows(scope, product, node.input[1]) else ()


def _alike(scope: Scope, node: NodeProto, after: NodeProto) -> bool:
    """Whether a DequantizeLinear and a QuantizeLinear have the same parameters."""
    pairs = zip(node.input[1:], after.input[1:], strict=False)
    return all(np.array_equal(*map(scope.constant, pair)) for pair in pairs)  # type: ignore[arg-type]


def _between(scope: Scope, node: NodeProto, result: str) -> bool:
    """Whether what a product reads was quantized, and its result is quantized."""
    before = scope.origin(node.input[0]) if node.input else None
    if before is None or before.op_type != "DequantizeLinear":
        return False
    return any(each.op_type == "QuantizeLinear" for each in scope.following(result, PASSED | _LIMITS))


def _overflows(scope: Scope, node: NodeProto, name: str) -> bool:
    """Whether 32 bits do not hold what is added to a product of quantized numbers, in steps of both scales."""
    bias, (first, second) = scope.constant(name), (_scale(scope, each) for each in (*node.input, "", "")[:2])
    if first is not None and first.size > 1:  # of an axis of its own, for which there is no kernel
        return False
    if bias is None or first is None or second is None:
        return False
    with np.errstate(all="ignore"):
        steps = np.abs(bias) / (first * second)
    return not (steps < _INT32).all()


def _scale(scope: Scope, name: str) -> Array | None:
    """The scales of numbers that were quantized, None of others."""
    made = scope.origin(name)
    if made is None or made.op_type != "DequantizeLinear" or len(made.input) < 2:
        return None
    return scope.constant(made.input[1])


def _by_constants(scope: Scope, node: NodeProto) -> bool:
    return any(map(scope.is_fixed, node.input[1:2]))
