"""Which quantised forms reach ONNX Runtime's integer kernels: operators between Dequantize and Quantize, optimised.

For each type of activations and weights: the operators of the optimised graph, and their time on one thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from layoutsolve.measurement.kernels import Array, Node, Spec, Timed, loaded, model, optimised, paired, share_threads

P, K, M, SIDE = 196, 256, 256, 14
"""Rows, contracted size, columns; as an image, 14x14."""

ZERO = {"int8": 0, "uint8": 128}


@dataclass(frozen=True)
class Form:
    """Nodes from ``x`` (real numbers) and the constants ``w`` and ``b`` to ``r``.

    ``weights`` and ``bias`` are shapes. ``moves`` are permutations of the stored input and output. Where ``real``, the
    output stays a real number.
    """

    name: str
    nodes: tuple[Node, ...]
    shape: tuple[int, ...]
    weights: tuple[int, ...] = ()
    bias: tuple[int, ...] = ()
    moves: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    real: bool = False
    constants: dict[str, Array] = field(default_factory=dict)


def forms() -> Iterator[Form]:
    """All forms."""
    yield from _gemms()
    yield from _matmuls()
    yield from _convolutions()
    yield from _others()


def _gemms() -> Iterator[Form]:
    for a in (0, 1):
        for b in (0, 1):
            transposed = {"transA": a, "transB": b}
            kind = "NT"[a] + "NT"[b]
            x, w = (K, P) if a else (P, K), (M, K) if b else (K, M)
            yield Form(f"Gemm {kind}", (Node("Gemm", ["x", "w", "b"], ["r"], transposed),), x, w, (M,))
            x, w = (P, K) if b else (K, P), (K, M) if a else (M, K)
            node = Node("Gemm", ["w", "x", "b"], ["r"], transposed)
            yield Form(f"Gemm swapped {kind}", (node,), x, w, (M, 1))
    yield Form("Gemm NT, no bias", (Node("Gemm", ["x", "w"], ["r"], {"transB": 1}),), (P, K), (M, K))


def _matmuls() -> Iterator[Form]:
    product, swapped = Node("MatMul", ["x", "w"], ["r"]), Node("MatMul", ["w", "x"], ["r"])
    yield Form("MatMul", (product,), (1, P, K), (K, M))
    yield Form("MatMul swapped", (swapped,), (1, K, P), (M, K))
    yield Form("MatMul to float", (product,), (1, P, K), (K, M), real=True)
    yield Form("MatMul swapped to float", (swapped,), (1, K, P), (M, K), real=True)
    added = (Node("MatMul", ["x", "w"], ["z"]), Node("Add", ["z", "b"], ["r"]))
    yield Form("MatMul, Add", added, (1, P, K), (K, M), (M,))


def _convolutions() -> Iterator[Form]:
    convolution = (Node("Conv", ["x", "w", "b"], ["r"]),)
    planes, pixels = (1, K, SIDE, SIDE), (1, SIDE, SIDE, K)
    yield Form("Conv 1x1", convolution, planes, (M, K, 1, 1), (M,))
    yield Form("Transpose, Conv 1x1, Transpose", convolution, pixels, (M, K, 1, 1), (M,), ((0, 3, 1, 2), (0, 2, 3, 1)))


def _others() -> Iterator[Form]:
    planes, pixels = (1, 64, 56, 56), (1, 56, 56, 64)
    window = {"kernel_shape": [3, 3], "strides": [2, 2]}
    yield Form("MaxPool", (Node("MaxPool", ["x"], ["r"], window),), planes)
    yield Form("AveragePool", (Node("AveragePool", ["x"], ["r"], window),), planes)
    yield Form("GlobalAveragePool", (Node("GlobalAveragePool", ["x"], ["r"]),), planes)
    for name, shape, where in (("planes", planes, (2, 3)), ("pixels", pixels, (1, 2))):
        node = Node("ReduceMean", ["x", "axes"], ["r"])
        yield Form(f"ReduceMean {name}", (node,), shape, constants={"axes": np.array(where)})
    for kind, axis in (("innermost", 3), ("outermost", 1)):
        shape = pixels if axis == 3 else planes
        yield Form(f"Softmax {kind}", (Node("Softmax", ["x"], ["r"], {"axis": axis}),), shape)
        yield Form(f"Concat {kind}", (Node("Concat", ["x", "x"], ["r"], {"axis": axis}),), shape)
        bias = (64,) if axis == 3 else (64, 1, 1)
        yield Form(f"Add of a vector, {kind}", (Node("Add", ["x", "w"], ["r"]),), shape, bias)
    for name, shape, factors in (("planes", planes, (1, 1, 2, 2)), ("pixels", pixels, (1, 2, 2, 1))):
        for mode in ("linear", "nearest"):
            node = Node("Resize", ["x", "", "", "sizes"], ["r"], {"mode": mode})
            sizes = {"sizes": np.array(shape) * factors}
            yield Form(f"Resize {mode} {name}", (node,), shape, constants=sizes)


def quantised(form: Form, activations: str, weights: str) -> tuple[list[str], float]:
    """The operators that really run, and seconds of one run."""
    generator = np.random.default_rng(0)
    constants: dict[str, Array] = {
        "scale": np.array(0.02, np.float32),
        "zero": np.array(ZERO[activations], activations),
        "weight_scale": np.array(0.01, np.float32),
        "weight_zero": np.array(ZERO[weights], weights),
        "bias_scale": np.array(0.0002, np.float32),
        "bias_zero": np.array(0, np.int32),
        **form.constants,
    }
    nodes = [Node("DequantizeLinear", ["moved" if form.moves else "input", "scale", "zero"], ["x"])]
    if form.weights:
        constants["w8"] = generator.integers(0, 100, form.weights).astype(weights)
        nodes.append(Node("DequantizeLinear", ["w8", "weight_scale", "weight_zero"], ["w"]))
    if form.bias and form.name == "MatMul, Add":
        constants["b"] = generator.standard_normal(form.bias).astype(np.float32)
    elif form.bias:
        constants["b32"] = generator.integers(-100, 100, form.bias).astype(np.int32)
        nodes.append(Node("DequantizeLinear", ["b32", "bias_scale", "bias_zero"], ["b"]))
    nodes += form.nodes
    nodes += _ending(form)
    if form.moves:
        nodes.insert(0, Node("Transpose", ["input"], ["moved"], {"perm": form.moves[0]}))
    made = model(nodes, {"input": Spec(form.shape, activations)}, constants)
    timed = loaded(made)
    if not isinstance(timed, Timed):
        return [timed], float("nan")
    return optimised(made), float(np.median(paired([timed])))


def _ending(form: Form) -> Sequence[Node]:
    if form.real:
        return [Node("Identity", ["r"])]
    if form.moves:
        quantise = Node("QuantizeLinear", ["r", "scale", "zero"], ["r8"])
        return [quantise, Node("Transpose", ["r8"], ["y"], {"perm": form.moves[1]})]
    return [Node("QuantizeLinear", ["r", "scale", "zero"])]


def main() -> None:
    """Print a line per form and pair of types."""
    share_threads(1)
    print("| form | activations | weights | us | operators |\n|---|---|---|--:|---|")
    for form in forms():
        for activations in ZERO:
            for weights in ZERO if form.weights else ("int8",):
                operators, seconds = quantised(form, activations, weights)
                line = f"| {form.name} | {activations} | {weights} | {seconds * 1e6:.1f} | {' '.join(operators)} |"
                print(line, flush=True)


if __name__ == "__main__":
    main()
