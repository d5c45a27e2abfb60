"""What is written instead of what ONNX Runtime's optimiser would treat wrongly: the same in another form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from layoutsolve.emit.guards.scope import Scope
from layoutsolve.emit.tensors import tensor
from layoutsolve.ir.graph import Array
from layoutsolve.proto.messages import AttributeProto, NodeProto, TensorProto, integers, permutation

_BARRIER = "Max"
"""Of one operand it is a copy."""

_LISTED = 1 << 12
"""The most indices that are written to copy something."""


def put_barrier(scope: Scope, node: NodeProto, readers: Sequence[NodeProto]) -> None:
    """Let some readers of a node read a copy."""
    name = node.output[0]
    barrier = scope.behind.get(id(node))
    if barrier is None:
        copy = scope.fresh(f"{name}/copy")
        barrier = NodeProto(op_type=_BARRIER, name=scope.fresh(f"{_BARRIER}:{copy}"), input=[name], output=[copy])
        scope.behind[id(node)] = barrier
    for reader in readers:
        for port, given in enumerate(reader.input):
            if given == name:
                reader.input[port] = barrier.output[0]


def copy_input(scope: Scope, node: NodeProto, readers: Sequence[NodeProto]) -> None:
    """Let a node read a copy of its first input."""
    put_barrier(scope, scope.producers[node.input[0]], readers)


def copy_matrix(scope: Scope, node: NodeProto, readers: Sequence[NodeProto]) -> None:
    """Let a product with a vector read a copy of its other operand."""
    left = scope.rank(node.input[0]) == 1
    put_barrier(scope, scope.producers[node.input[int(left)]], readers)


def take_all(scope: Scope, _: NodeProto, readers: Sequence[NodeProto]) -> None:
    """Let Transposes read all along the first axis whose size is known, and not too large to be listed."""
    for reader in readers:
        sizes = dict(zip(permutation(reader) or (), scope.shape(reader.output[0]), strict=False))
        _take_along(scope, reader, sizes, "all")


def scale_itself(scope: Scope, gemm: NodeProto, products: Sequence[NodeProto]) -> None:
    """Let a Gemm multiply by the number that its result, or a view of that, is multiplied by."""
    (product,) = products
    factor, data = sorted(product.input, key=lambda name: scope.constant(name) is None)
    gemm.attribute.add(name="alpha", type=AttributeProto.FLOAT, f=float(scope.elements(factor).item()))
    scope.producers[data].output[0] = product.output[0]
    scope.gone.add(id(product))


def write_sum(_: Scope, node: NodeProto, __: Sequence[NodeProto]) -> None:
    """Write an Add as Sum, which is the same."""
    node.op_type = "Sum"


def add_behind(scope: Scope, node: NodeProto, _: Sequence[NodeProto]) -> None:
    """Write the bias of a product as an Add behind it."""
    bias, result = scope.elements(node.input[2]), node.output[0]
    spatial = len(integers(node, "kernel_shape"))
    added = _tensor(scope.fresh(f"{result}/bias"), bias.reshape(-1, *(1,) * spatial))
    scope.graph.initializer.append(added)
    own = [each for each in scope.graph.initializer if each.name == node.input[2]]
    if own and len(scope.readers[own[0].name]) == 1:
        scope.graph.initializer.remove(own[0])
    product = scope.fresh(f"{result}/product")
    del node.input[2:]
    node.output[0] = product
    name = scope.fresh(f"Add:{result}")
    scope.behind[id(node)] = NodeProto(op_type="Add", name=name, input=[product, added.name], output=[result])


def name_axes(scope: Scope, node: NodeProto, _: Sequence[NodeProto]) -> None:
    """Say which axes are padded: all of them."""
    pads = scope.elements(node.input[1])
    axes = _tensor(scope.fresh(f"{node.output[0]}/axes"), np.arange(pads.size // 2))
    scope.graph.initializer.append(axes)
    node.input.extend([""] * (3 - len(node.input)) + [axes.name])


def take_images(scope: Scope, node: NodeProto, _: Sequence[NodeProto]) -> None:
    """Let a node read all along an axis of its first input, most often the one image of a batch; a quantized one before
    it is dequantized.
    """
    before = scope.producers.get(node.input[0])
    reader = before if before is not None and before.op_type == "DequantizeLinear" else node
    if not _take_along(scope, reader, dict(enumerate(scope.shape(reader.input[0]))), "images"):
        _take_computed(scope, reader, "images")


def _take_along(scope: Scope, reader: NodeProto, sizes: Mapping[int, int], label: str) -> bool:
    """Let a node read all along the first axis whose size is known, and not too large to be listed; whether there is
    one, or something is taken already.
    """
    if id(reader) in scope.ahead:
        return True
    axis = min((axis for axis, size in sizes.items() if 0 < size <= _LISTED), default=None)
    if axis is not None:
        _gather(scope, reader, np.arange(sizes[axis]), label, axis)
    return axis is not None


def _take_computed(scope: Scope, reader: NodeProto, label: str) -> None:
    """Let a node read all along the first axis of its first input, whose size is computed when the model runs."""
    name = reader.input[0]
    size, every, taken = (scope.fresh(f"{reader.output[0]}/{each}") for each in ("size", "every", label))
    measure = NodeProto(op_type="Shape", name=scope.fresh(f"Shape:{size}"), input=[name], output=[size])
    measure.attribute.add(name="end", type=AttributeProto.INT, i=1)
    fill = NodeProto(
        op_type="ConstantOfShape", name=scope.fresh(f"ConstantOfShape:{every}"), input=[size], output=[every]
    )
    fill.attribute.add(name="value", type=AttributeProto.TENSOR, t=tensor("", "bool", np.ones(1, np.bool_)))
    take = NodeProto(op_type="Compress", name=scope.fresh(f"Compress:{taken}"), input=[name, every], output=[taken])
    take.attribute.add(name="axis", type=AttributeProto.INT, i=0)
    scope.ahead[id(reader)], reader.input[0] = (measure, fill, take), taken


def _gather(scope: Scope, reader: NodeProto, indices: Array, label: str, axis: int = 0) -> None:
    """Let a node read some of its first input along an axis."""
    index, taken = (scope.fresh(f"{reader.output[0]}/{each}") for each in ("index", label))
    scope.graph.initializer.append(_tensor(index, indices))
    given = [reader.input[0], index]
    gather = NodeProto(op_type="Gather", name=scope.fresh(f"Gather:{taken}"), input=given, output=[taken])
    if axis:
        gather.attribute.add(name="axis", type=AttributeProto.INT, i=axis)
    scope.ahead[id(reader)], reader.input[0] = (gather,), taken


def cut_to_nothing(scope: Scope, node: NodeProto, _: Sequence[NodeProto]) -> None:
    """Expand to one element where there is to be none, and cut it off."""
    shape, result = scope.elements(node.input[1]), node.output[0]
    (axes,) = np.nonzero(shape == 0)
    vectors = {"shape": np.maximum(shape, 1), "nothing": np.zeros_like(axes), "axes": axes - len(shape)}
    names = {label: scope.fresh(f"{result}/{label}") for label in vectors}
    scope.graph.initializer.extend(_tensor(names[key], each) for key, each in vectors.items())
    expanded = scope.fresh(f"{result}/expanded")
    node.input[1], node.output[0] = names["shape"], expanded
    cut = [expanded, names["nothing"], names["nothing"], names["axes"]]
    scope.behind[id(node)] = NodeProto(op_type="Slice", name=scope.fresh(f"Slice:{result}"), input=cut, output=[result])


def _tensor(name: str, data: Array) -> TensorProto:
    return tensor(name, str(data.dtype), data)
