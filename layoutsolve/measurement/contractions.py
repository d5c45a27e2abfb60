"""Products, convolutions, pooling and regroupings, in the forms that a rule can choose between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import onnx

from layoutsolve.measurement.axis_operators import Group, Variant, described
from layoutsolve.measurement.kernels import Array, Node, Spec, model, transpose
from layoutsolve.solver.targets.target_file import default_target
from layoutsolve.solver.theory.rules.contraction import PANEL

PRODUCT_SIZES = (
    *((17, 48, 48), (64, 128, 128), (49, 512, 512), (196, 256, 256)),
    *((784, 128, 128), (3136, 64, 64), (197, 192, 576), (197, 768, 192)),
    *((4, 512, 128), (8, 192, 192), (25, 256, 64), (49, 96, 384), (81, 192, 192), (100, 384, 96)),
)
"""Rows of the data, contracted size, columns of the result; some rows are no whole panels of what kernels compute."""


def products() -> Iterator[Group]:
    """``x W + b`` with constant W, data stored ``[p, k]`` or ``[k, p]``, the result ``[p, m]`` or ``[m, p]``."""
    for p, k, m in PRODUCT_SIZES:
        yield Group("Gemm", tuple(_gemms(p, k, m)))
        yield Group("MatMul", tuple(_bare(p, k, m)))


def _gemms(p: int, k: int, m: int) -> Iterator[Variant]:
    rows, columns = Spec((p, k)), Spec((k, p))
    moved = transpose(Spec((p, max(k, m))), (1, 0))
    forms = {"NN": (rows, (k, m)), "NT": (rows, (m, k)), "TN": (columns, (k, m)), "TT": (columns, (m, k))}
    for kind, (spec, weights) in forms.items():
        transposed = {"transA": int(kind[0] == "T"), "transB": int(kind[1] == "T")}
        yield product(kind, [Node("Gemm", ["x", "w", "b"], attributes=transposed)], spec, weights, (m,), moved)
    for kind, spec, weights in (("NN", columns, (m, k)), ("NT", rows, (m, k))):
        nodes = [Node("Gemm", ["w", "x", "b"], attributes={"transB": int(kind[1] == "T")})]
        yield product(_classed("Gemm", f"swapped {kind}", p), nodes, spec, weights, (m, 1), moved)
    nodes = [Node("MatMul", ["x", "w"], ["z"]), Node("Add", ["z", "b"])]
    yield product("MatMul", nodes, rows, (k, m), (m,), moved)
    nodes = [Node("MatMul", ["w", "x"], ["z"]), Node("Add", ["z", "b"])]
    yield product(_classed("Gemm", "swapped MatMul", p), nodes, columns, (m, k), (m, 1), moved)
    turn = {"perm": [1, 0]}
    before = [Node("Transpose", ["x"], ["t"], turn), Node("MatMul", ["t", "w"], ["z"]), Node("Add", ["z", "b"])]
    yield product("Transpose, MatMul", before, columns, (k, m), (m,), moved, listed=False)
    after = [Node("MatMul", ["x", "w"], ["z"]), Node("Add", ["z", "b"], ["s"]), Node("Transpose", ["s"], ["y"], turn)]
    yield product("MatMul, Transpose", after, rows, (k, m), (m,), moved, listed=False)


def _bare(p: int, k: int, m: int) -> Iterator[Variant]:
    """``x W`` with constant W, either way round."""
    moved = transpose(Spec((p, min(k, m))), (1, 0))
    for kind, spec, node, weights in (
        ("MatMul", Spec((p, k)), Node("MatMul", ["x", "w"]), (k, m)),
        ("swapped MatMul of weights", Spec((k, p)), Node("MatMul", ["w", "x"]), (m, k)),
        ("swapped NT", Spec((p, k)), Node("Gemm", ["w", "x"], attributes={"transB": 1}), (m, k)),
        ("swapped TN", Spec((k, p)), Node("Gemm", ["w", "x"], attributes={"transA": 1}), (k, m)),
        ("swapped TT", Spec((p, k)), Node("Gemm", ["w", "x"], attributes={"transA": 1, "transB": 1}), (k, m)),
    ):
        yield product(_classed("MatMul", kind, p), [node], spec, weights, (1,), moved)


def _classed(operator: str, kind: str, count: int) -> str:
    """A kind, or that of the class which has products of so many lines of data."""
    return default_target().classed(operator, kind, {"lines": count, "left over": count % PANEL})


def quantized_products() -> Iterator[Group]:
    """The same with 8 bits all over: rows through Gemm, or columns through a 1x1 Conv of one image.

    Alone the Conv is as fast, so it is not listed: what it loses it loses in whole models
    (``experiments.measure.runtime``), where channels first make what lies around products slow. The target says so by
    hand: twice what the other slow forms lose.
    """
    for p, k, m in PRODUCT_SIZES:
        moved = transpose(Spec((p, max(k, m)), "int8"), (1, 0))
        weights = Spec((m, k), "int8").sample()
        scales: dict[str, Array] = {"s": np.asarray(0.05, np.float32), "s2": np.asarray(0.0025, np.float32)}
        found = []
        for kind, spec, kernel, attributes in (
            ("NT", Spec((p, k), "int8"), (m, k), {"transB": 1}),
            ("TT", Spec((k, p), "int8"), (m, k), {"transA": 1, "transB": 1}),
            ("Conv", Spec((1, k, p, 1), "int8"), (m, k, 1, 1), {}),
        ):
            constants = {**scales, "w": weights.reshape(kernel), "b": Spec((m,), "int32").sample()}
            nodes = [
                Node("DequantizeLinear", ["x", "s"], ["xr"]),
                Node("DequantizeLinear", ["w", "s"], ["wr"]),
                Node("DequantizeLinear", ["b", "s2"], ["br"]),
                Node("Conv" if kind == "Conv" else "Gemm", ["xr", "wr", "br"], ["z"], attributes),
                Node("QuantizeLinear", ["z", "s", "zero"], ["y"]),
            ]
            made = model(nodes, {"x": spec}, {**constants, "zero": np.zeros((), np.int8)})
            text = f"{described(spec)} by {'x'.join(map(str, kernel))}"
            found.append(Variant(kind, text, made, moved, listed=False))
        yield Group("Gemm", tuple(found))


def product(
    kind: str,
    nodes: Sequence[Node],
    spec: Spec,
    weights: tuple[int, ...],
    bias: tuple[int, ...],
    moved: onnx.ModelProto,
    listed: bool = True,
) -> Variant:
    """A product with constant weights ``w`` and bias ``b``."""
    constants = {"w": Spec(weights).sample(), "b": Spec(bias).sample()}
    text = f"{described(spec)} by {'x'.join(map(str, weights))}"
    return Variant(kind, text, model(nodes, {"x": spec}, constants), moved, listed)


BATCHED_SIZES = (
    *((4, 17, 12, 17), (4, 17, 17, 12), (12, 50, 50, 8), (12, 64, 64, 64), (4, 197, 48, 197), (8, 384, 64, 384)),
    *((4, 197, 197, 48), (12, 128, 128, 32), (3, 197, 197, 64), (12, 256, 256, 64)),
)
"""Batch, rows, contracted size and columns."""


def batched() -> Iterator[Group]:
    """Products of two activations, as they are and with operands swapped or transposed first."""
    for b, m, k, n in BATCHED_SIZES:
        yield Group("MatMul", tuple(_batched(Spec((b, m, k)), Spec((b, k, n)))))


def _batched(left: Spec, right: Spec) -> Iterator[Variant]:
    turn = {"perm": [0, 2, 1]}
    moved = transpose(min(left, right, key=lambda spec: spec.shape[1] * spec.shape[2]), (0, 2, 1))
    plain, swapped = Node("MatMul", ["a", "b"]), Node("MatMul", ["b", "a"])
    first = [Node("Transpose", ["a"], ["t"], turn), Node("MatMul", ["t", "b"])]
    second = [Node("Transpose", ["b"], ["t"], turn), Node("MatMul", ["a", "t"])]
    last = [Node("MatMul", ["a", "b"], ["z"]), Node("Transpose", ["z"], ["y"], turn)]
    sizes = {"left": left.shape[1], "left by right": left.shape[1] // right.shape[2]}
    for kind, nodes, turns in (
        ("MatMul", [plain], ""),
        (default_target().classed("MatMul", "swapped MatMul", sizes), [swapped], "ab"),
        ("Transpose A", first, "a"),
        ("Transpose B", second, "b"),
        ("MatMul, Transpose", last, ""),
    ):
        operands = {"a": turned(left) if "a" in turns else left, "b": turned(right) if "b" in turns else right}
        text = " by ".join(described(spec) for spec in operands.values())
        yield Variant(kind, text, model(nodes, operands), moved, listed="Transpose" not in kind)


HEADED_SIZES = (
    *((17, 48, 4, 12), (64, 128, 4, 32), (128, 256, 4, 64)),
    *((197, 192, 3, 64), (196, 384, 6, 64), (8, 256, 4, 64)),
)
"""Rows, size of what is not split, heads and size of each."""


def by_head() -> Iterator[Group]:
    """Products whose constant weights have a matrix for each head, against those by one matrix: heads of the result,
    and heads that are summed.
    """
    summed = [Node("MatMul", ["x", "w"], ["z"]), Node("ReduceSum", ["z", "axes"], ["y"], {"keepdims": 0})]
    turned_sum = [Node("MatMul", ["w", "x"], ["z"]), summed[1]]
    for p, k, h, d in HEADED_SIZES:
        moved, plain = transpose(Spec((p, h, d)), (1, 0, 2)), [Node("MatMul", ["x", "w"])]
        for forms in (
            (
                ("MatMul", plain, (p, k), (k, h * d)),
                ("MatMul of heads", plain, (p, k), (h, k, d)),
                ("swapped MatMul of heads", [Node("MatMul", ["w", "x"])], (k, p), (h, d, k)),
            ),
            (
                ("MatMul", plain, (p, h * d), (h * d, k)),
                ("MatMul summed over heads", summed, (h, p, d), (h, d, k)),
                ("swapped MatMul summed over heads", turned_sum, (h, d, p), (h, k, d)),
            ),
        ):
            found = []
            for kind, nodes, data, weights in forms:
                constants = {"w": Spec(weights).sample(), "axes": np.array([0])}
                text = f"{described(Spec(data))} by {'x'.join(map(str, weights))}"
                made = model(nodes, {"x": Spec(data)}, constants)
                found.append(Variant(kind, text, made, moved, listed=kind != "MatMul"))
            yield Group("MatMul", tuple(found))


def turned(spec: Spec) -> Spec:
    """A batch of matrices stored transposed."""
    batch, rows, columns = spec.shape
    return Spec((batch, columns, rows), spec.dtype)


POINTWISE_SIZES = ((56, 64, 64), (28, 128, 128), (14, 256, 256), (7, 512, 512), (56, 24, 144), (14, 96, 576))
"""Height and width, input and output channels."""


def pointwise() -> Iterator[Group]:
    """Four 1x1 convolutions with Relu in a row, so that a layout of the kernel's own is entered once."""
    for side, c, o in POINTWISE_SIZES:
        area = side * side
        planes, pixels = Spec((1, c, side, side)), Spec((area, c))
        moved = transpose(Spec((area, max(c, o))), (1, 0))
        yield Group(
            "Conv 1x1, four in a row",
            (
                _chain("Conv", planes, c, o, moved),
                _chain("Conv on [HW,C,1,1]", Spec((area, c, 1, 1)), c, o, moved),
                _chain("MatMul", pixels, c, o, moved),
                _chain("NT", pixels, c, o, moved),
                _chain("swapped NN", Spec((c, area)), c, o, moved),
                _chain("swapped MatMul", Spec((c, area)), c, o, moved),
            ),
        )
        yield Group("Conv 1x1", tuple(_single(side, c, o, moved)))


def _chain(kind: str, spec: Spec, c: int, o: int, moved: onnx.ModelProto) -> Variant:
    """Four products and Relus, from ``c`` channels to ``o`` and back, twice."""
    nodes: list[Node] = []
    constants: dict[str, Array] = {}
    last = "x"
    for index, (k, m) in enumerate(((c, o), (o, c), (c, o), (o, c))):
        w, b, z, y = f"w{index}", f"b{index}", f"z{index}", "y" if index == 3 else f"y{index}"
        steps, weights, bias = _pointwise(kind, k, m, last, (w, b), z)
        constants |= {w: Spec(weights).sample() / k, b: Spec(bias).sample()}
        nodes += [*steps, Node("Relu", [z], [y])]
        last = y
    return Variant(kind, f"{described(spec)} to {o}", model(nodes, {"x": spec}, constants), moved, listed=False)


def _pointwise(
    kind: str, k: int, m: int, x: str, names: tuple[str, str], z: str
) -> tuple[list[Node], tuple[int, ...], tuple[int, ...]]:
    """A product in one form: its operators, the shapes of weights and bias."""
    w, b = names
    if kind.startswith("Conv"):
        return [Node("Conv", [x, w, b], [z])], (m, k, 1, 1), (m,)
    if kind == "NT":
        return [Node("Gemm", [x, w, b], [z], {"transB": 1})], (m, k), (m,)
    if kind == "swapped NN":
        return [Node("Gemm", [w, x, b], [z])], (m, k), (m, 1)
    if kind == "swapped MatMul":
        return [Node("MatMul", [w, x], [f"{z}p"]), Node("Add", [f"{z}p", b], [z])], (m, k), (m, 1)
    return [Node("MatMul", [x, w], [f"{z}p"]), Node("Add", [f"{z}p", b], [z])], (k, m), (m,)


def _single(side: int, c: int, o: int, moved: onnx.ModelProto) -> Iterator[Variant]:
    """One product between images and sequences: absorbed by the product, or a Transpose beside the native form."""
    area = side * side
    planes, pixels = Spec((1, c, side, side)), Spec((1, side, side, c))
    flat, rows = Spec((c, area)), Spec((area, c))
    conv, matrix, bias = (o, c, 1, 1), (c, o), (o,)
    inward, outward = {"perm": [0, 3, 1, 2]}, {"perm": [0, 2, 3, 1]}

    def unlisted(kind: str, nodes: list[Node], spec: Spec, weights: tuple[int, ...], added: tuple[int, ...]) -> Variant:
        return product(kind, nodes, spec, weights, added, moved, listed=False)

    def gemm(first: str, second: str, **attributes: int) -> list[Node]:
        return [Node("Gemm", [first, second, "b"], attributes=attributes)]

    plain = [Node("MatMul", ["x", "w"], ["z"]), Node("Add", ["z", "b"])]
    swapped = [Node("MatMul", ["w", "x"], ["z"]), Node("Add", ["z", "b"])]
    yield unlisted("planes to planes: Conv", [Node("Conv", ["x", "w", "b"])], planes, conv, bias)
    yield unlisted("swapped NN", gemm("w", "x"), flat, (o, c), (o, 1))
    yield unlisted("swapped MatMul", swapped, flat, (o, c), (o, 1))
    yield unlisted("MatMul", plain, pixels, matrix, bias)
    yield unlisted("NT", gemm("x", "w", transB=1), rows, (o, c), bias)
    yield unlisted("TT", gemm("x", "w", transA=1, transB=1), flat, (o, c), bias)
    nodes = [Node("Conv", ["x", "w", "b"], ["z"]), Node("Transpose", ["z"], ["y"], outward)]
    yield unlisted("planes to pixels: Conv, Transpose", nodes, planes, conv, bias)
    nodes = [Node("Transpose", ["x"], ["t"], outward), Node("MatMul", ["t", "w"], ["z"]), Node("Add", ["z", "b"])]
    yield unlisted("planes to pixels: Transpose, MatMul", nodes, planes, matrix, bias)
    yield unlisted("swapped NT", gemm("w", "x", transB=1), rows, (o, c), (o, 1))
    nodes = [Node("Transpose", ["x"], ["t"], inward), Node("Conv", ["t", "w", "b"])]
    yield unlisted("pixels to planes: Transpose, Conv", nodes, pixels, conv, bias)
    nodes = [Node("MatMul", ["x", "w"], ["z"]), Node("Add", ["z", "b"], ["s"]), Node("Transpose", ["s"], ["y"], inward)]
    yield unlisted("pixels to planes: MatMul, Transpose", nodes, pixels, matrix, bias)


def regroupings() -> Iterator[Group]:
    """DepthToSpace as one operator and by hand; Einsum against Transpose and MatMul; MaxPool of 8 bits and floats."""
    for side, c, block in ((56, 16, 2), (28, 64, 4)):
        spec = Spec((1, c * block * block, side, side))
        moved = transpose(spec, (0, 2, 3, 1))
        split = {"DCR": ([1, block, block, c, side, side], [0, 3, 4, 1, 5, 2])}
        split["CRD"] = ([1, c, block, block, side, side], [0, 1, 4, 2, 5, 3])
        found = []
        for mode, (apart, order) in split.items():
            made = model([Node("DepthToSpace", ["x"], attributes={"blocksize": block, "mode": mode})], {"x": spec})
            found.append(Variant(mode, described(spec), made, moved, listed=False))
            shapes = {"apart": np.array(apart), "joined": np.array([1, c, side * block, side * block])}
            nodes = [
                Node("Reshape", ["x", "apart"], ["a"]),
                Node("Transpose", ["a"], ["t"], {"perm": order}),
                Node("Reshape", ["t", "joined"]),
            ]
            found.append(Variant(f"{mode} by hand", described(spec), model(nodes, {"x": spec}, shapes), moved, False))
        yield Group("DepthToSpace", tuple(found))
    yield from _einsums()
    yield from _pools()


def _einsums() -> Iterator[Group]:
    left, right = Spec((4, 197, 48)), Spec((4, 197, 48))
    moved = transpose(left, (0, 2, 1))
    turn = [Node("Transpose", ["b"], ["t"], {"perm": [0, 2, 1]}), Node("MatMul", ["a", "t"])]
    both = {"a": left, "b": right}
    einsum = model([Node("Einsum", ["a", "b"], attributes={"equation": "bik,bjk->bij"})], both)
    text = f"{described(left)} by {described(right)}"
    yield Group(
        "Einsum",
        (
            Variant("bik,bjk->bij", text, einsum, moved, listed=False),
            Variant("Transpose, MatMul", text, model(turn, both), moved, listed=False),
        ),
    )


def _pools() -> Iterator[Group]:
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    for shape in ((1, 64, 56, 56), (1, 256, 14, 14)):
        found = []
        for dtype in ("float32", "uint8", "int8"):
            spec = Spec(shape, dtype)
            made = model([Node("MaxPool", ["x"], attributes=window)], {"x": spec})
            moved = transpose(spec, (0, 2, 3, 1))
            found.append(Variant(f"MaxPool {dtype}", described(spec), made, moved, listed=False))
        yield Group("Pool", tuple(found))
