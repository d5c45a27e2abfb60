"""Random models in ONNX, as exporters write them: images channels-first, with Transposes and views in between."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from layoutsolve.ir.graph import Array

OPSET = 18


class Writer:
    """A model in the making; sizes of tensors are known, that of the batch by name alone where it is ``dynamic``."""

    def __init__(self, seed: int, dynamic: bool = False) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.inputs: list[str] = []
        self.prefix = ""
        self.batch = "n" if dynamic else 2

    def input(self, *shape: int) -> str:
        """An input of real numbers; its first dimension is the batch."""
        name = f"{self.prefix}input_{len(self.inputs)}"
        self.inputs.append(name)
        self.shapes[name] = shape
        return name

    def constant(self, data: object, dtype: str = "float32") -> str:
        """A constant."""
        name = f"{self.prefix}constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(data, dtype), name))
        return name

    def weights(self, *shape: int) -> str:
        """A constant of random numbers."""
        return self.constant(self.random.normal(size=shape) / np.sqrt(max(np.prod(shape[1:]), 1)))

    def op(self, kind: str, *inputs: str, shape: Sequence[int], **attributes: object) -> str:
        """An operator with one result."""
        name = f"{self.prefix}tensor_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=f"{kind}/{len(self.nodes)}", **attributes))
        self.shapes[name] = tuple(shape)
        return name

    def transpose(self, x: str, perm: Sequence[int]) -> str:
        """A Transpose."""
        return self.op("Transpose", x, shape=[self.shapes[x][axis] for axis in perm], perm=list(perm))

    def model(self, *outputs: str, opset: int = OPSET) -> onnx.ModelProto:
        """The model with these outputs."""
        ports = [self._port(name) for name in self.inputs], [self._port(name) for name in outputs]
        graph = helper.make_graph(self.nodes, "random", *ports, self.constants)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        onnx.checker.check_model(made, full_check=True)
        return made

    def _port(self, name: str) -> onnx.ValueInfoProto:
        first, *others = self.shapes[name]
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [self.batch if first == 2 else first, *others])

    def feeds(self, seed: int = 0) -> dict[str, Array]:
        """Random inputs by name."""
        random = np.random.default_rng(seed)
        return {name: random.normal(size=self.shapes[name]).astype(np.float32) for name in self.inputs}


def random_model(seed: int, dynamic: bool = False, steps: int = 7) -> tuple[Writer, onnx.ModelProto]:
    """A network of a few operators on one image, and what it was made with."""
    writer = Writer(seed, dynamic)
    random = writer.random
    x = writer.input(2, int(random.choice([3, 4, 6])), 4, 6)
    kinds = (conv, conv, normal, pool, unary, add, permuted, permuted, there_and_back, flattened, scaled, softmax)
    kinds += (rounded, split)
    for _ in range(steps):
        x = kinds[int(random.integers(len(kinds)))](writer, x)
    x = writer.op("Relu", x, shape=writer.shapes[x])
    return writer, writer.model(x)


def conv(writer: Writer, x: str) -> str:
    batch, channels, *space = writer.shapes[x]
    if len(space) != 2:
        return x
    size, count = int(writer.random.choice([1, 3])), int(writer.random.choice([4, 6]))
    weights = writer.weights(count, channels, size, size), writer.weights(count)
    pads = {"auto_pad": "SAME_UPPER"} if writer.random.random() < 0.3 else {"pads": [size // 2] * 4}
    return writer.op("Conv", x, *weights, shape=[batch, count, *space], **pads)


def normal(writer: Writer, x: str) -> str:
    channels = writer.shapes[x][1]
    numbers = [writer.weights(channels) for _ in range(3)]
    positive = writer.constant(writer.random.uniform(0.5, 2, channels))
    return writer.op("BatchNormalization", x, *numbers, positive, shape=writer.shapes[x])


def pool(writer: Writer, x: str) -> str:
    if len(writer.shapes[x]) != 4 or writer.random.random() < 0.7:
        return x
    batch, channels, *_ = writer.shapes[x]
    mean = writer.op("GlobalAveragePool", x, shape=[batch, channels, 1, 1])
    return writer.op("Mul", x, mean, shape=writer.shapes[x])


def unary(writer: Writer, x: str) -> str:
    return writer.op(str(writer.random.choice(["Relu", "Sigmoid", "Tanh", "Identity"])), x, shape=writer.shapes[x])


def add(writer: Writer, x: str) -> str:
    shape = writer.shapes[x]
    other = [size if writer.random.random() < 0.5 else 1 for size in shape]
    return writer.op("Add", x, writer.weights(1, *other[1:]), shape=shape)


def permuted(writer: Writer, x: str) -> str:
    rank = len(writer.shapes[x])
    return writer.transpose(x, [0, *(int(axis) + 1 for axis in writer.random.permutation(rank - 1))])


def there_and_back(writer: Writer, x: str) -> str:
    """There and back, with something between."""
    rank = len(writer.shapes[x])
    there = [0, *range(2, rank), 1]
    moved = scaled(writer, writer.transpose(x, there))
    return writer.transpose(moved, [there.index(axis) for axis in range(rank)])


def flattened(writer: Writer, x: str) -> str:
    """Pixels as one dimension, and apart again."""
    batch, first, *rest = writer.shapes[x]
    flat = writer.op("Reshape", x, writer.constant([0, first, -1], "int64"), shape=[batch, first, int(np.prod(rest))])
    mixed = writer.op("Tanh", flat, shape=writer.shapes[flat])
    back = writer.constant([-1, first, *rest], "int64")
    return writer.op("Reshape", mixed, back, shape=[batch, first, *rest])


def scaled(writer: Writer, x: str) -> str:
    return writer.op("Mul", x, writer.weights(writer.shapes[x][-1]), shape=writer.shapes[x])


def softmax(writer: Writer, x: str) -> str:
    axis = int(writer.random.integers(1, len(writer.shapes[x])))
    return writer.op("Softmax", x, shape=writer.shapes[x], axis=axis)


def rounded(writer: Writer, x: str, still: bool = False) -> str:
    """Rounded to bytes, moved or ``still``, and real numbers again."""
    step, zero = writer.constant(0.03), writer.constant(writer.random.integers(-5, 5), "int8")
    stored = writer.op("QuantizeLinear", x, step, zero, shape=writer.shapes[x])
    if not still and writer.random.random() < 0.5:
        stored = permuted(writer, stored)
    return writer.op("DequantizeLinear", stored, step, zero, shape=writer.shapes[stored])


def split(writer: Writer, x: str) -> str:
    shape = writer.shapes[x]
    axis = int(writer.random.integers(1, len(shape)))
    if shape[axis] % 2:
        return x
    name = f"{writer.prefix}part_{len(writer.nodes)}"
    half = [size // 2 if at == axis else size for at, size in enumerate(shape)]
    writer.nodes.append(helper.make_node("Split", [x], [f"{name}a", f"{name}b"], axis=axis, num_outputs=2))
    writer.shapes.update({f"{name}a": tuple(half), f"{name}b": tuple(half)})
    return writer.op("Concat", f"{name}b", f"{name}a", shape=shape, axis=axis)
