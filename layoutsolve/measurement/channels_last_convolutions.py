"""Convolutions that read or write channels-last, against the ordinary ones: what ``ways`` measures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np

from layoutsolve.measurement.axis_operators import Group, Variant, described
from layoutsolve.measurement.kernels import Array, Node, Spec, model, transpose
from layoutsolve.solver.targets.target_file import default_target

READING = (
    *(
        (224, 3, 32, 3, 2),
        (192, 3, 16, 5, 2),
        (96, 2, 24, 3, 1),
        (128, 3, 32, 5, 1),
        (224, 3, 64, 7, 2),
        (128, 3, 16, 3, 1),
        (56, 4, 16, 3, 1),
        (56, 8, 16, 3, 1),
        (56, 8, 24, 3, 2),
    ),
    *((112, 16, 32, 3, 1), (112, 16, 32, 3, 2), (56, 24, 48, 3, 1), (56, 24, 48, 3, 2), (56, 32, 32, 3, 1)),
    *((56, 32, 64, 3, 2), (28, 48, 96, 3, 1), (28, 48, 96, 3, 2), (28, 64, 64, 3, 1), (28, 64, 128, 3, 2)),
    *((28, 96, 96, 3, 1), (14, 128, 128, 3, 1), (14, 128, 256, 3, 2), (14, 256, 256, 3, 1), (28, 64, 64, 5, 1)),
)
"""Height and width, input and output channels, kernel, stride."""

VOLUMES = (
    (24, 3, 8, 3, 1),
    (24, 8, 32, 3, 1),
    (32, 16, 16, 3, 1),
    (16, 64, 64, 3, 1),
    (24, 3, 16, 3, 2),
    (24, 8, 8, 3, 2),
)
"""The same with as much depth."""

LINES = (
    *((1024, 3, 32, 5, 1), (1024, 8, 32, 3, 1), (512, 16, 32, 3, 1), (512, 64, 64, 3, 1), (256, 128, 128, 3, 1)),
    *((4096, 2, 64, 9, 2), (512, 8, 16, 5, 2)),
)
"""The same without height."""

WRITING = (
    *((384, 8, 3, 9, 1), (256, 8, 3, 3, 1), (128, 4, 3, 3, 1), (192, 8, 2, 3, 1), (256, 16, 1, 3, 1)),
    *((128, 16, 2, 3, 1), (128, 16, 3, 3, 1), (64, 32, 3, 9, 1), (192, 32, 3, 3, 1), (64, 64, 3, 3, 1)),
    *((64, 8, 8, 3, 1), (64, 16, 8, 3, 1), (128, 32, 6, 3, 1), (128, 32, 8, 3, 1), (64, 64, 6, 3, 1)),
    *((64, 64, 8, 3, 1), (128, 96, 8, 3, 1), (64, 32, 12, 3, 1), (64, 32, 16, 3, 1), (28, 64, 64, 3, 1)),
)
"""The same of a Conv as a ConvTranspose."""

UPWARD = (
    *((64, 16, 2, 2, 2), (64, 16, 3, 4, 2), (64, 16, 3, 2, 2), (128, 16, 2, 4, 2), (64, 32, 4, 4, 2)),
    *((64, 32, 6, 2, 2), (64, 32, 8, 2, 2), (64, 32, 8, 4, 2), (32, 64, 16, 2, 2), (32, 64, 32, 2, 2)),
)
"""The same of a ConvTranspose."""

POOLED = ((56, 16, 3), (28, 64, 3), (14, 256, 3), (28, 64, 5))
"""Height and width, channels, kernel."""

HEADS = (
    *((1, 16, 768, 12, 64), (1, 32, 256, 4, 64), (1, 49, 192, 6, 32), (1, 64, 128, 2, 64), (1, 64, 512, 8, 64)),
    *((1, 128, 256, 4, 64), (1, 128, 768, 12, 64), (1, 197, 192, 3, 64), (1, 197, 384, 6, 64), (1, 197, 768, 12, 64)),
    *((1, 256, 64, 2, 32), (1, 384, 512, 8, 64), (1, 784, 96, 3, 32), (1, 3136, 64, 2, 32)),
    *((4, 49, 192, 6, 32), (4, 64, 512, 8, 64), (4, 197, 192, 3, 64), (4, 256, 64, 2, 32)),
)
"""Images, rows, features, heads of attention, features of each."""

NUMBERS = ("float32", "int8, quantized with bias", "uint8, quantized with bias", "int16, quantized with bias")
"""What is multiplied: as kinds have it."""

IMAGE = 4
"""Inputs of a graph have fewer channels. What has more comes from another operator, where ONNX Runtime makes uint8 of
int8.
"""


def windows() -> Iterator[Group]:
    """Each convolution channels-first and interleaved."""
    for shapes, rank in ((READING, 2), (VOLUMES, 3), (LINES, 1)):
        for shape, numbers in product(shapes, NUMBERS):
            yield _reading(shape, numbers, rank)
    for shape in WRITING:
        yield _writing("Conv", shape)
    for shape in UPWARD:
        yield _writing("ConvTranspose", shape)
    for operator in ("MaxPool", "AveragePool"):
        for side, c, kernel in POOLED:
            yield _pooling(operator, side, c, kernel)
    for shape in HEADS:
        for biased in (False, True):
            yield _heads(shape, biased)


def _reading(shape: tuple[int, int, int, int, int], numbers: str, rank: int) -> Group:
    side, c, o, k, stride = shape
    dtype, pad, outer, space = _stored(numbers, c), (k - 1) // 2, (side,) * (rank - 1), range(2, 2 + rank)
    weights = Spec((o, c, *(k,) * rank), "float32" if numbers == "float32" else "int8").sample()
    last = weights.transpose(0, *space, 1).reshape(o, 1, *(k,) * (rank - 1), k * c)
    moved = transpose(Spec((1, *outer, side, c), dtype), (0, 1 + rank, *range(1, 1 + rank)))
    facts = {"channels": c, "stride": stride, "space": rank}
    kind = default_target().classed("Conv", f"interleaved, {numbers}", facts)
    found = []
    for name, spec, by, kernel in (
        ("channels-first", Spec((1, c, *outer, side), dtype), 1, weights),
        (kind, Spec((1, 1, *outer, side * c), dtype), c, last),
    ):
        nodes, constants = _multiplied(numbers, dtype, kernel, _attributes(k, stride, pad, pad, by, rank))
        text = f"{described(spec)} by {'x'.join(map(str, weights.shape))}, stride {stride}"
        found.append(Variant(name, text, model(nodes, {"x": spec}, constants), moved, listed=name == kind))
    return Group("Conv", tuple(found))


def _attributes(kernel: int, stride: int, before: int, after: int, by: int, rank: int = 2) -> dict[str, list[int]]:
    kernels, strides, befores, afters = ([each] * (rank - 1) + [each * by] for each in (kernel, stride, before, after))
    return {"kernel_shape": kernels, "strides": strides, "pads": befores + afters}


def _stored(numbers: str, channels: int) -> str:
    """The type of the data as the kernel reads them."""
    dtype = numbers.partition(",")[0]
    return "uint8" if dtype == "int8" and channels >= IMAGE else dtype


def _multiplied(
    numbers: str, dtype: str, kernel: Array, attributes: Mapping[str, list[int]]
) -> tuple[list[Node], dict[str, Array]]:
    """A Conv of floats, or quantized all over."""
    biases = Spec((len(kernel),), "float32" if numbers == "float32" else "int32").sample()
    if numbers == "float32":
        return [Node("Conv", ["x", "w", "b"], attributes=attributes)], {"w": kernel, "b": biases}
    constants = {"w": kernel, "b": biases, "s": np.asarray(0.05, np.float32), "zero": np.zeros((), np.int8)}
    nodes = [
        Node("DequantizeLinear", ["x", "s", "middle"], ["xr"]),
        Node("DequantizeLinear", ["w", "s", "zero"], ["wr"]),
        Node("DequantizeLinear", ["b", "product", "none"], ["br"]),
        Node("Conv", ["xr", "wr", "br"], ["z"], attributes),
        Node("QuantizeLinear", ["z", "wide", "middle"]),
    ]
    middle = np.array(128 if dtype == "uint8" else 0, dtype)
    scales: dict[str, Array] = {"product": np.asarray(0.0025, np.float32), "wide": np.ones((), np.float32)}
    zeros: dict[str, Array] = {"none": np.zeros((), np.int32), "middle": middle}
    return nodes, {**constants, **scales, **zeros}


def _writing(operator: str, shape: tuple[int, int, int, int, int]) -> Group:
    side, c, o, k, stride = shape
    kernel, biases = Spec((c, o, k, k)).sample(), Spec((o,)).sample()
    before, after = ((k - stride) // 2, (k - stride + 1) // 2)
    spec, size = Spec((1, c, side, side)), side * stride
    moved = transpose(Spec((1, o, size, size)), (0, 2, 3, 1))
    attributes = {by: _attributes(k, stride, before, after, by) for by in (1, o)}
    last = kernel.transpose(0, 2, 3, 1).reshape(c, 1, k, k * o)
    turned = kernel[:, :, ::-1, ::-1].swapaxes(0, 1).copy()
    plain = {"w": turned if operator == "Conv" else kernel, "b": biases}
    text = f"{described(spec)} by {c}x{o}x{k}x{k}, stride {stride}"
    name = "interleaved result" if operator == "Conv" else "interleaved"
    kind = default_target().classed(operator, f"{name}, float32", {"channels": c, "produced": o})
    first = Node(operator, ["x", "w", "b"], attributes=attributes[1])
    steps = [Node("ConvTranspose", ["x", "w"], ["z"], attributes[o]), Node("Add", ["z", "b"])]
    return Group(
        operator,
        (
            Variant("channels-first", text, model([first], {"x": spec}, plain), moved, listed=False),
            Variant(kind, text, model(steps, {"x": spec}, {"w": last, "b": np.tile(biases, size)}), moved),
        ),
    )


def _pooling(operator: str, side: int, c: int, kernel: int) -> Group:
    """Pooling without padding: interleaved, with C as dilation along W, loses far more than two Transposes."""
    spec, last = Spec((1, side, side, c)), Spec((1, 1, side, side * c))
    moved, window = transpose(spec, (0, 3, 1, 2)), {"kernel_shape": [kernel, kernel]}
    between = [
        Node("Transpose", ["x"], ["t"], {"perm": [0, 3, 1, 2]}),
        Node(operator, ["t"], ["p"], window),
        Node("Transpose", ["p"], ["y"], {"perm": [0, 2, 3, 1]}),
    ]
    stretched = [Node(operator, ["x"], attributes={**window, "dilations": [1, c]})]
    text = f"{described(spec)} by {kernel}x{kernel}"
    return Group(
        operator,
        (
            Variant("Transposes around it", text, model(between, {"x": spec}), moved, listed=False),
            Variant("interleaved", text, model(stretched, {"x": last}), moved, listed=False),
        ),
    )


def _heads(shape: tuple[int, int, int, int, int], biased: bool) -> Group:
    """Rows multiplied to heads of attention: at once and transposed, or by a batch of weights.

    The batch takes less time where there are no more features than rows and no bias, and more where there is a bias or
    there are many features: the weights of each head are a matrix of few columns.
    """
    images, rows, c, heads, width = shape
    weights, biases = Spec((c, heads * width)).sample(), Spec((heads * width,)).sample()
    moved = transpose(Spec((images, rows, heads, width)), (0, 2, 1, 3))
    apart = [
        *_product("m", biased),
        Node("Reshape", ["m", "heads"], ["r"]),
        Node("Transpose", ["r"], ["y"], {"perm": [0, 2, 1, 3]}),
    ]
    split = {"heads": np.array([images, rows, heads, width])}
    batch = weights.reshape(c, heads, width).transpose(1, 0, 2).copy()
    added = {"Transpose": biases, "batch": biases.reshape(heads, 1, width)}
    found = []
    for name, nodes, spec, constants in (
        ("Transpose", apart, Spec((images, rows, c)), {"w": weights, **split}),
        (
            "batch",
            _product("y", biased),
            Spec((images, 1, rows, c)),
            {"w": batch},
        ),
    ):
        text = f"{described(spec)} to {heads} heads of {width}"
        known = {**constants, **({"b": added[name]} if biased else {})}
        found.append(Variant(name, text, model(nodes, {"x": spec}, known), moved, listed=False))
    return Group(f"MatMul{' and bias' if biased else ''} to heads", tuple(found))


def _product(result: str, biased: bool) -> list[Node]:
    if not biased:
        return [Node("MatMul", ["x", "w"], [result])]
    return [Node("MatMul", ["x", "w"], ["p"]), Node("Add", ["p", "b"], [result])]
