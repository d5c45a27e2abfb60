"""What ONNX Runtime's optimiser would treat wrongly, or make slower, whether numbers are quantized or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from math import prod

import numpy as np

from layoutsolve.emit.guards.scope import Scope
from layoutsolve.proto.messages import NodeProto, integers, permutation
from layoutsolve.solver.theory.motion import Motion, as_layouts, motion_between

_REMOVED = frozenset(
    {"Cast", "DequantizeLinear", "Identity", "QuantizeLinear", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
)
"""The operators between a Pad and what reads it that may be passed over, removed or moved away."""

_STOPPING = frozenset({"Gather", "Gemm", "MatMul"})
"""Operators through which no Transpose is moved down."""

_TRANSPOSED = frozenset(
    {"AveragePool", "Conv", "ConvTranspose", "GlobalAveragePool", "MaxPool", "QLinearConv", "Transpose"}
)
"""Transposes, and operators that get some around them."""

_MOVED_THROUGH = frozenset(
    {
        "Abs", "Add", "Cast", "Ceil", "Celu", "Clip", "Concat", "Cos", "DequantizeLinear", "Div", "Elu", "Erf",
        "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "LogSoftmax", "Max", "Mean",
        "Min", "Mish", "Mul", "Neg", "Not", "Pad", "Pow", "PRelu", "QuantizeLinear", "Reciprocal", "ReduceL2",
        "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "Relu", "Round", "Selu", "Sigmoid",
        "Sign", "Sin", "Slice", "Softmax", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Tanh", "Tile", "Where",
    }
)  # fmt: skip
"""Operators through which Transposes are moved down to others, with which they become one."""

_PLACES = {
    (b"linear", 4): ({1, 2}, {2, 3}), (b"cubic", 4): ({1, 2}, {2, 3}), (b"linear", 5): ({2, 3, 4},)
}  # fmt: skip
"""Where kernels that interpolate take the dimensions that are resampled, by mode and number of dimensions; in the last
places also where cubic interpolation shrinks them. Those of fewer dimensions take any, of more none.
"""

_MADE_ONE, _FOLLOWED = 1 << 10, 256
"""The fewest elements of which two fast Transposes take less time than a slow one does, and how many readers are
looked at behind each.
"""

_VIEWS = frozenset({"Reshape", "Squeeze", "Unsqueeze"})
"""Operators that leave all numbers where they are."""

_ROWS = 3
"""The dimensions of what is added in one kernel with a normalization."""

_MATRIX = 2
"""The dimensions of what a Gemm gives."""


def of_reciprocals(scope: Scope, node: NodeProto) -> list[NodeProto]:
    """The products with ``1 / x`` that no quotient by ``x`` equals: those of integers, and where 1 adds dimensions."""
    one = scope.constant(node.input[0])
    if one is None or one.size != 1 or one.item() != 1:
        return []

    def as_quotient(product: NodeProto) -> bool:
        """Whether it has all dimensions without the 1 as well."""
        rest = (node.input[1], *(each for each in product.input if each != node.output[0]))
        return one.dtype.kind == "f" and one.ndim <= max(scope.rank(each) or 0 for each in rest)

    products = (reader for reader in scope.readers.get(node.output[0], ()) if reader.op_type == "Mul")
    return [product for product in products if not as_quotient(product)]


def scaled(scope: Scope, node: NodeProto) -> Sequence[NodeProto]:
    """The product with one number that alone reads a Gemm without anything added, or a view of it: the Gemm can
    do that.
    """
    added, scaled_already = len(node.input) > 2 and node.input[2], any(each.name == "alpha" for each in node.attribute)
    if added or scaled_already:
        return ()
    last = node
    while len(readers := scope.readers.get(last.output[0], ())) == 1:
        if last.output[0] in scope.results or last.output[0] in scope.captured:
            return ()
        (reader,) = readers
        if reader.op_type == "Mul":
            factor = next((scope.constant(each) for each in reader.input if each != last.output[0]), None)
            most = _MATRIX if last is node else 1
            fits = factor is not None and factor.dtype == np.float32 and factor.size == 1 and factor.ndim <= most
            return readers if fits else ()
        if reader.op_type not in _VIEWS or reader.input[0] != last.output[0]:
            return ()
        last = reader
    return ()


def pooled(scope: Scope, node: NodeProto) -> list[NodeProto]:
    """The maxima of what is padded with zeros, as padding of the pooling itself counts as less than all numbers; and
    averages, which refuse padding as wide as their window, as that of several Pads together may be.
    """
    pads, value = (scope.constant(name) if name else None for name in (*node.input, "", "")[1:3])
    if len(node.input) > 3 or pads is None or (value is not None and value.any()):
        return []
    reached, found = [*scope.following(node.output[0], _REMOVED)], list[NodeProto]()
    for reader in reached:
        wide = reader.op_type == "AveragePool" and pads.max(initial=0) + _padded(reader) >= _narrowest(reader)
        if wide or reader.op_type == "MaxPool":
            found.append(reader)
    behind = (pad.output[0] for pad in reached if pad.op_type == "Pad")
    further = (reader for name in behind for reader in scope.following(name, _REMOVED | {"Pad"}))
    return found + [reader for reader in further if reader.op_type == "AveragePool"]


def _padded(pool: NodeProto) -> int:
    """The most that a pool pads by itself."""
    return max(integers(pool, "pads"), default=0)


def _narrowest(pool: NodeProto) -> int:
    """The least size of a pool's window."""
    return min(integers(pool, "kernel_shape"))


def normalised(scope: Scope, node: NodeProto) -> Sequence[NodeProto]:
    """The normalisation that alone reads a sum of two values of three dimensions: the kernel that adds as well takes
    several times as long as the two.
    """
    if any(scope.rank(name) not in (None, _ROWS) for name in node.input):
        return ()
    readers = scope.readers.get(node.output[0], ())
    alone = [reader.op_type for reader in readers] == ["LayerNormalization"] and node.output[0] not in scope.results
    return readers if alone else ()


def made_slower(scope: Scope, node: NodeProto) -> Sequence[NodeProto]:
    """The Transposes to which this one is moved down, where both are fast and the one that is made of them is not."""
    shape, first = scope.shape(node.input[0]), permutation(node) or ()
    if len(shape) != len(first) or 0 < prod(shape) < _MADE_ONE or _is_slow(shape, first):
        return ()
    moved, found = [shape[axis] for axis in first], list[NodeProto]()
    for reader in islice(scope.following(node.output[0], _MOVED_THROUGH, anywhere=True), _FOLLOWED):
        second = (permutation(reader) or ()) if reader.op_type == "Transpose" else ()
        if len(second) == len(first) and not _is_slow(moved, second):
            found += [reader] if _is_slow(shape, [first[axis] for axis in second]) else []
    return found


def _is_slow(shape: Sequence[int], permutation: Sequence[int]) -> bool:
    """Whether a Transpose moves single elements in no simple order."""
    _, before, behind = as_layouts(shape, permutation)
    return motion_between(before, behind)[0] is Motion.GENERAL


def turned_back(scope: Scope, node: NodeProto) -> Sequence[NodeProto]:
    """A softmax along the last dimension through which a Transpose is moved down to another one, if it would be along
    an outer dimension then: its kernel exchanges that with the last one itself, element by element.
    """
    shape = scope.shape(node.output[0])
    axis = next((each.i for each in node.attribute if each.name == "axis"), -1)
    if axis not in (-1, len(shape) - 1) or 0 < prod(shape) < _MADE_ONE:
        return ()
    following = islice(scope.following(node.output[0], _MOVED_THROUGH, anywhere=True), _FOLLOWED)
    if not any(each.op_type == "Transpose" for each in following):
        return ()
    for order in _orders(scope, node.input[0], len(shape), frozenset()):
        behind = [size for size, place in zip(shape, order, strict=True) if place > order[-1] and size != 1]
        if len(behind) > 1:
            return [node]
    return ()


def emptied(scope: Scope, node: NodeProto) -> Sequence[NodeProto]:
    """What is expanded to no elements at all: it is passed on as it is, a size of 1 for one of 0."""
    shape = scope.constant(node.input[1]) if len(node.input) == 2 else None
    return [node] if shape is not None and shape.ndim == 1 and not shape.all() else ()


def reached_by_transposes(scope: Scope, node: NodeProto) -> Sequence[NodeProto]:
    """A Resize that a Transpose may be moved down to: where it names its axes, its sizes would be permuted as if they
    were those of all axes; where it interpolates, no kernel might take the dimensions in their new places.
    """
    if any(each.name == "axes" for each in node.attribute):
        return [node] if _is_reached(scope, node.input[0]) else ()
    mode = next((each.s for each in node.attribute if each.name == "mode"), b"nearest")
    sizes = scope.shape(node.input[0])
    places = _PLACES.get((mode, len(sizes)))
    if places is None:
        return ()
    scales = _scales(scope, node, sizes)
    resampled = {axis for axis, scale in enumerate(scales) if scale != 1}
    if (
        mode == b"cubic"
        and any(scale < 1 for scale in scales)
        and not any(each.name == "antialias" for each in node.attribute)
    ):
        places = places[-1:]
    moved = ({order[axis] for axis in resampled} for order in _orders(scope, node.input[0], len(sizes)))
    return [node] if any(not any(each <= fits for fits in places) for each in moved) else ()


def _scales(scope: Scope, node: NodeProto, sizes: Sequence[int]) -> Sequence[float]:
    """How much a Resize of all axes resamples each; by 1 what is of unknown size on both sides, as a batch is."""
    scales = scope.constant(node.input[2]) if len(node.input) > 2 and node.input[2] else None
    if scales is not None and scales.size == len(sizes):
        found: list[float] = scales.tolist()
        return found
    known = scope.constant(node.input[3]) if len(node.input) > 3 else None
    made = scope.shape(node.output[0]) if known is None else known.tolist()
    return [1.0 if new == old else new / old if old else 2.0 for old, new in zip(sizes, made, strict=True)]


def _orders(scope: Scope, name: str, rank: int, transposed: frozenset[str] = _TRANSPOSED) -> Iterator[tuple[int, ...]]:
    """The permutations by one or several Transposes that may be moved down to a value of so many dimensions, those
    around operators that are ``transposed`` included.
    """
    first = name, tuple(range(rank))
    seen, reached = {first}, [first]
    for name, order in reached:
        before = scope.producers.get(name)
        if before is None or len(reached) > _FOLLOWED:
            continue
        following = [order]
        if before.op_type == "Transpose":
            made = permutation(before) or ()
            following = [tuple(made[axis] for axis in order)] if len(made) == rank else []
            yield from following
        elif before.op_type in transposed:
            yield tuple((0, *range(2, rank), 1).index(axis) for axis in order)
            continue
        elif before.op_type not in _MOVED_THROUGH | {"Identity", "Resize"}:
            continue
        more = [(given, each) for given in before.input if given for each in following]
        reached += [each for each in more if each not in seen]
        seen.update(more)


def of_vectors(scope: Scope, node: NodeProto) -> Sequence[NodeProto]:
    """A product with a vector where a Transpose may be moved down to the other operand: the kernel of the two takes
    rows for columns.
    """
    vectors = [scope.rank(name) == 1 for name in node.input]
    if len(vectors) != 2:  # it is checked, and refused, when all is written
        return ()
    left, right = vectors
    return [node] if left != right and _is_reached(scope, node.input[int(left)]) else ()


def _is_reached(scope: Scope, name: str) -> bool:
    """Whether a Transpose may be moved down to a value."""
    seen, reached = {name}, [name]
    for each in reached:
        before = scope.producers.get(each)
        if before is None or before.op_type in _STOPPING:
            continue
        if before.op_type in _TRANSPOSED:
            return True
        more = {given for given in before.input if given} - seen
        seen |= more
        reached += sorted(more)
    return False
