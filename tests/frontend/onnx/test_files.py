"""What files in ONNX may have beside operators on tensors of known sizes, and what is wrong with others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import layoutsolve
from layoutsolve.errors import ConversionError, ModelError
from layoutsolve.proto.data_movement import moves
from tests.frontend.onnx.test_random import run
from tests.random_onnx import Writer, random_model

FLOAT = TensorProto.FLOAT


def text(source: str) -> onnx.ModelProto:
    """A model in ONNX's own notation, with a pair of Transposes before it that are too many."""
    return onnx.parser.parse_model(source)


HEAD = '<ir_version: 8, opset_import: ["" : 18]>'

ROUND = "a = Transpose<perm = [0, 2, 3, 1]>(x) b = Relu(a) y = Transpose<perm = [0, 3, 1, 2]>(b)"


def converted(model: onnx.ModelProto, **options: object) -> onnx.ModelProto:
    return layoutsolve.convert(model.SerializeToString(), **options).model  # type: ignore[arg-type]


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def same(model: onnx.ModelProto, result: onnx.ModelProto, *shapes: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    names = [port.name for port in model.graph.input]
    feeds = {name: random.normal(size=shape).astype(np.float32) for name, shape in zip(names, shapes, strict=True)}
    for one, other in zip(run(model, feeds), run(result, feeds), strict=True):
        assert np.array_equal(one, other)


def test_branches_and_loops_stay_as_they_are() -> None:
    model = text(
        f"""{HEAD} g (float[2, 3, 4, 5] x) => (float[2, 3, 4, 5] y, float[2, 3, 4, 5] z) <int64 n = {{3}}> {{
            a = Transpose<perm = [0, 2, 3, 1]>(x) b = Relu(a) c = Transpose<perm = [0, 3, 1, 2]>(b)
            total = ReduceSum<keepdims = 0>(x) zero = Constant<value_float = 0.0>() test = Greater(total, zero)
            y = If(test) <then_branch = t () => (float[2, 3, 4, 5] r) {{ r = Neg(c) }},
                          else_branch = e () => (float[2, 3, 4, 5] s) {{ s = Mul(c, c) }}>
            yes = Constant<value = bool {{1}}>()
            z = Loop(n, yes, y) <body = l (int64 i, bool go, float[2, 3, 4, 5] now)
                 => (bool on, float[2, 3, 4, 5] next) {{ on = Identity(go) next = Add(now, c) }}> }}"""
    )
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.array(3, np.int64), "n"))
    result = converted(model)
    assert operators(result).count("Transpose") == 0 and {"If", "Loop"} <= set(operators(result))
    same(model, result, (2, 3, 4, 5))
    assert moves(result) == moves(converted(result))


def test_sequences_stay_as_they_are() -> None:
    model = text(
        f"""{HEAD} g (float[1, 3, 4, 5] x) => (float[2, 3, 4, 5] z) {{
            {ROUND} s = SequenceConstruct(y, y) z = ConcatFromSequence<axis = 0>(s) }}"""
    )
    result = converted(model)
    assert operators(result) == ["Relu", "SequenceConstruct", "ConcatFromSequence"]
    same(model, result, (1, 3, 4, 5))


def test_functions_are_inlined() -> None:
    model = text(
        f"""<ir_version: 8, opset_import: ["" : 18, "own" : 1]> g (float[1, 3, 4, 5] x) => (float[1, 3, 4, 5] z)
        {{ z = own.twice(x) }} <domain: "own", opset_import: ["" : 18]> twice (x) => (y) {{ {ROUND} }}"""
    )
    result = converted(model)
    assert operators(result) == ["Relu"] and not result.functions
    same(model, result, (1, 3, 4, 5))


def test_constants_in_other_files(tmp_path: Path) -> None:
    writer = Writer(0)
    x = writer.input(1, 4, 5, 6)
    y = writer.transpose(writer.transpose(x, (0, 2, 3, 1)), (0, 3, 1, 2))
    y = writer.op("Conv", y, writer.weights(64, 4, 3, 3), shape=[1, 64, 3, 4])
    model, path = writer.model(y), tmp_path / "model.onnx"
    whole = onnx.ModelProto.FromString(model.SerializeToString())
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    result = layoutsolve.convert(path).model
    assert operators(result) == ["Conv"]
    same(whole, result, (1, 4, 5, 6))
    with pytest.raises(ModelError, match="give the model's path"):
        layoutsolve.convert(path.read_bytes())
    (tmp_path / "weights.bin").write_bytes(b"short")
    with pytest.raises(ModelError, match="bytes"):
        layoutsolve.convert(path)
    for place in ("../outside.bin", "/etc/hostname", ""):
        broken = onnx.load(path, load_external_data=False)
        for entry in broken.graph.initializer[0].external_data:
            entry.value = place if entry.key == "location" else entry.value
        path.write_bytes(broken.SerializeToString())
        with pytest.raises(ModelError, match="kept in the file"):
            layoutsolve.convert(path)


@pytest.mark.parametrize(("shares", "step"), [(1, 0), (16, 0), (16, 64)])
def test_large_constants_in_other_files(shares: int, step: int, tmp_path: Path) -> None:
    """They may be far larger than the file. What lies in the same place is written once; parts that overlap may not say
    the same bytes again and again.
    """
    width = 2112
    writer = Writer(0)
    x = writer.transpose(writer.transpose(writer.input(1, 8, width), (0, 2, 1)), (0, 2, 1))
    constant = writer.constant(np.ones((width, width)))
    for _ in range(shares):
        x = writer.op("MatMul", x, constant, shape=[1, 8, width])
    model, path = writer.model(x), tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin")
    products = [node for node in model.graph.node if node.op_type == "MatMul"]
    for share, node in enumerate(products[1:]):
        node.input[1] = f"share/{share}"
        model.graph.initializer.add().CopyFrom(model.graph.initializer[0])
        model.graph.initializer[-1].name = node.input[1]
        for entry in model.graph.initializer[-1].external_data:
            entry.value = str(step * (share + 1)) if entry.key == "offset" else entry.value
    path.write_bytes(model.SerializeToString())
    with (tmp_path / "weights.bin").open("r+b") as file:
        file.truncate(4 * width * width + step * shares)
    if step == 0:
        made = layoutsolve.convert(path).model
        assert operators(made) == ["MatMul"] * shares
        assert len(made.graph.initializer) == 1
    else:
        with pytest.raises(ConversionError, match="grows beyond"):
            layoutsolve.convert(path)


def test_a_sparse_constant() -> None:
    values = helper.make_tensor("w", FLOAT, [2], [2.0, 3.0])
    sparse = helper.make_sparse_tensor(values, helper.make_tensor("i", TensorProto.INT64, [2], [0, 5]), [2, 3])
    nodes = [
        helper.make_node("Transpose", ["x"], ["a"], perm=[1, 0]),
        helper.make_node("Transpose", ["a"], ["b"], perm=[1, 0]),
        helper.make_node("Add", ["b", "w"], ["y"]),
    ]
    ends = [[helper.make_tensor_value_info(name, FLOAT, [2, 3])] for name in "xy"]
    graph = helper.make_graph(nodes, "g", *ends, sparse_initializer=[sparse])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    result = converted(model)
    assert operators(result) == ["Add"]
    feeds = {"x": np.ones((2, 3), np.float32)}
    assert run(result, feeds)[0].tolist() == [[3, 1, 1], [1, 1, 4]]


def test_defaults_of_inputs_may_be_replaced() -> None:
    model = text(
        f"""{HEAD} g (float[1, 3, 4, 5] x, float[5] k) => (float[1, 3, 4, 5] z) <float[5] k = {{1, 2, 3, 4, 5}}>
        {{ {ROUND} z = Mul(y, k) }}"""
    )
    result = converted(model, initializer_inputs="keep")
    assert operators(result) == ["Relu", "Mul"]
    x, k = np.ones((1, 3, 4, 5), np.float32), np.arange(5, dtype=np.float32)
    for feeds in ({"x": x}, {"x": x, "k": k}):
        assert np.array_equal(run(model, feeds)[0], run(result, feeds)[0])


@pytest.mark.parametrize("opset", [7, 9, 11, 13, 15, 17, 18, 21, onnx.defs.onnx_opset_version()])
def test_operator_sets(opset: int) -> None:
    axes = "<axes = [2, 3], keepdims = 1>(y)" if opset < 18 else "<keepdims = 1>(y, axes)"
    model = text(
        f"""<ir_version: {8 if opset < 23 else 10}, opset_import: ["" : {opset}]> g (float[1, 3, 4, 5] x)
        => (float[1, 3, 1, 1] z) <int64[2] axes = {{2, 3}}> {{ {ROUND} z = ReduceMean{axes} }}"""
    )
    result = converted(model)
    assert sorted(operators(result)) == ["ReduceMean", "Relu"]
    assert result.opset_import[0].version == max(opset, 11)
    if opset <= 21:
        same(model, result, (1, 3, 4, 5))


def test_without_layout_operators_all_stays() -> None:
    writer = Writer(0)
    x = writer.input(1, 4, 5, 6)
    y = writer.op("Conv", x, writer.weights(64, 4, 3, 3), shape=[1, 64, 3, 4])
    y = writer.op("BatchNormalization", y, *[writer.weights(64)] * 3, writer.constant([1] * 64), shape=[1, 64, 3, 4])
    y = writer.op("GlobalAveragePool", y, shape=[1, 64, 1, 1])
    model = writer.model(y)
    found = layoutsolve.convert(model.SerializeToString())
    assert found.kept and found.model.graph == model.graph
    assert "no improvement" not in repr(found)


def test_certificates_hold(tmp_path: Path) -> None:
    writer, model = random_model(3)
    found = layoutsolve.convert(model.SerializeToString())
    while found.kept:
        writer, model = random_model(int(writer.random.integers(1000)))
        found = layoutsolve.convert(model.SerializeToString())
    source, target = model.SerializeToString(), tmp_path / "model.onnx"
    found.save(target)
    certificate = layoutsolve.certify(source, found)
    assert layoutsolve.check_certificate(source, target, certificate)


def test_images_are_channels_first_in_the_source() -> None:
    model = text(f"{HEAD} g (float[1, 3, 4, 5] x) => (float[1, 3, 4, 5] y) {{ y = Relu(x) }}")
    for choice, shape in (("nchw", [1, 3, 4, 5]), ("nhwc", [1, 4, 5, 3])):
        found = layoutsolve.convert(model.SerializeToString(), inputs=choice, outputs=choice)
        for port in (*found.model.graph.input, *found.model.graph.output):
            assert [dim.dim_value for dim in port.type.tensor_type.shape.dim] == shape
        moved = [str(end) for end in found.moved_ends]
        assert moved == (
            []
            if choice == "nchw"
            else [f"{name}: stored as NHWC instead of NCHW (permutation 0 2 3 1)" for name in "xy"]
        )
        assert "Transpose" not in operators(found.model)


@pytest.mark.parametrize("mode", ["linear", "cubic", "nearest"])
@pytest.mark.parametrize("by", ["scales", "sizes"])
def test_resized_images_stay_channels_first(mode: str, by: str) -> None:
    """However pixels are made, and whatever it is slow at, the operator runs where its image is."""
    given = "none, none, sizes" if by == "sizes" else "none, scales"
    model = text(
        f"""{HEAD} g (float[2, 3, 4, 5] x) => (float[2, 3, 8, 15] z)
        <float[0] none = {{}}, float[4] scales = {{1, 1, 2, 3}}, int64[4] sizes = {{2, 3, 8, 15}}> {{
            {ROUND} r = Resize<mode = "{mode}">(y, {given})
            s = Transpose<perm = [0, 2, 3, 1]>(r) t = Neg(s) z = Transpose<perm = [0, 3, 1, 2]>(t) }}"""
    )
    found = layoutsolve.convert(model.SerializeToString(), objective="min-transpose")
    assert operators(found.model) == ["Relu", "Resize", "Neg"]
    same(model, found.model, (2, 3, 4, 5))


@pytest.mark.parametrize("opset", [9, 13, 16])
def test_normalisation_in_early_operator_sets(opset: int) -> None:
    """As ONNX Runtime's optimiser writes it, before ONNX has it."""
    model = text(
        f"""<ir_version: 8, opset_import: ["" : {opset}]> g (float[1, 3, 4, 5] x) => (float[1, 3, 4, 5] z)
        <float[5] k = {{1, 2, 3, 4, 5}}> {{ {ROUND} z = LayerNormalization<axis = -1, epsilon = 0.001>(y, k, k) }}"""
    )
    result = converted(model)
    assert operators(result) == ["Relu", "LayerNormalization"] and {each.domain for each in result.opset_import} == {""}
    same(model, result, (1, 3, 4, 5))


@pytest.mark.parametrize("real", [False, True])
def test_one_of_several_is_picked_as_it_is_stored(real: bool) -> None:
    """By an index without dimensions, computed ahead: of bytes, or of what they mean."""
    pick = "p = Gather<axis = 0>(u, i)" if not real else "r = DequantizeLinear(u, s, n) f = Gather<axis = 0>(r, i)"
    last = "f = DequantizeLinear(p, s, n)" if not real else ""
    model = text(
        f"""{HEAD} g (float[2, 3, 4, 12] x) => (float[2, 3, 4, 3] z)
        <float s = {{0.05}}, int8 n = {{2}}, int64 a = {{7}}, int64 b = {{4}}, int64[5] d = {{2, 3, 4, 4, 3}}> {{
            q = QuantizeLinear(x, s, n) t = Reshape(q, d) u = Transpose<perm = [3, 0, 1, 2, 4]>(t) i = Mod(a, b)
            {pick} {last} z = Relu(f) }}"""
    )
    found = layoutsolve.convert(model.SerializeToString(), objective="min-transpose").model
    assert not {"Transpose", "Mod", "Identity"} & {*operators(found)}
    same(model, found, (2, 3, 4, 12))


@pytest.mark.parametrize("rank", [3, 4])
def test_rows_of_a_product_lie_around_what_is_contracted(rank: int) -> None:
    around = [(place, place, [2, 3, 4, 5]) for place in range(rank)]
    for place, following, sizes in [*around, (0, rank - 1, [6, 1, 4, 1]), (rank - 1, 0, [1, 3, 5, 1])]:
        writer, rows = Writer(place), [axis for axis in range(rank) if axis != place]
        x = writer.transpose(writer.input(*sizes[:rank]), [*rows, place])
        y = writer.op("MatMul", x, writer.weights(sizes[place], 6), shape=[*(sizes[axis] for axis in rows), 6])
        back = list(range(rank - 1))
        back.insert(following, rank - 1)
        model = writer.model(writer.transpose(y, back))
        result = converted(model, objective="min-transpose")
        assert moves(result).transposes == 0
        assert np.allclose(*run(model, writer.feeds()), *run(result, writer.feeds()), rtol=0, atol=1e-5)


def test_a_matrix_is_multiplied_by_each_of_several() -> None:
    for batch in ((4,), (1, 8), (3, 2)):
        writer = Writer(0)
        x, y = writer.input(3, 6), writer.input(*batch, 6, 5)
        model = writer.model(writer.op("Relu", writer.op("MatMul", x, y, shape=[*batch, 3, 5]), shape=[*batch, 3, 5]))
        found = layoutsolve.convert(model.SerializeToString())
        assert not found.price.reshapes and operators(found.model) == ["MatMul", "Relu"]


@pytest.mark.parametrize("by", ["sizes", "scales"])
def test_bytes_that_are_resized_along_some_axes(by: str) -> None:
    """What they mean is known from behind the views that follow, and they lie as they are wanted."""
    amount = {"sizes": "int64[2] a = {8, 10}", "scales": "float[2] a = {2.0, 2.0}"}[by]
    ends = {"sizes": "q, , , a", "scales": "q, , a"}[by]
    model = text(
        f"""{HEAD} g (float[1, 3, 4, 5] x) => (float[1, 3, 8, 10] y) <float s = {{0.1}}, int8 o = {{3}}, {amount}> {{
            t = Transpose<perm = [0, 2, 3, 1]>(x) q = QuantizeLinear(t, s, o)
            r = Resize<axes = [1, 2], coordinate_transformation_mode = "asymmetric", mode = "nearest",
                       nearest_mode = "floor">({ends})
            u = Transpose<perm = [0, 3, 1, 2]>(r) y = DequantizeLinear(u, s, o) }}"""
    )
    result = converted(model)
    assert operators(result).count("Transpose") == 0
    same(model, result, (1, 3, 4, 5))


@pytest.mark.parametrize("opset", [17, 19, 20, 22])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, -2, -3])
@pytest.mark.parametrize("onesided", [0, 1])
def test_transforms_of_all_operator_sets(opset: int, axis: int | None, onesided: int) -> None:
    """The axis is an attribute before operator set 20, with another default."""
    attributes, names, fixed = dict[str, int](), ["r"], list[TensorProto]()
    if axis is not None and opset < 20:
        attributes["axis"] = axis
    elif axis is not None:
        names, fixed = ["r", "", "axis"], [numpy_helper.from_array(np.array(axis), "axis")]
    nodes = [
        helper.make_node("Transpose", ["x"], ["r"], perm=[1, 0, 2, 3]),
        helper.make_node("DFT", names, ["d"], onesided=onesided, **attributes),
        helper.make_node("Transpose", ["d"], ["y"], perm=[1, 0, 2, 3]),
    ]
    shape = [3, 4, 6, 2 - onesided]
    ends = [helper.make_tensor_value_info("x", 1, ["batch", *shape[1:]]), helper.make_tensor_value_info("y", 1, None)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], fixed)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    result = converted(model)
    told = axis if axis is not None else -2 if opset >= 20 else 1
    assert operators(result).count("Transpose") <= (0 if told in (2, -2) else 2)
    same(model, result, tuple(shape))


@pytest.mark.members(4)
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
@pytest.mark.parametrize("objective", ["min-executed", "min-transpose"])
def test_products_of_whole_numbers_stay_products(dtype: str, objective: str) -> None:
    """ONNX Runtime has no Gemm of them, which would read what is transposed as it is."""
    model = text(
        f"""{HEAD} g ({dtype}[4, 5] v, float[1, 3, 4, 5] x) => ({dtype}[4, 4] u, float[1, 3, 4, 5] y) {{
        t = Transpose<perm = [1, 0]>(v) u = MatMul(w, t) {ROUND} }}"""
    )
    weights = np.random.default_rng(0).integers(0, 9, (4, 5)).astype(dtype)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    feeds = {"v": np.arange(20).reshape(4, 5).astype(dtype), "x": np.ones((1, 3, 4, 5), np.float32)}
    result = converted(model, objective=objective)
    assert np.array_equal(run(model, feeds)[0], run(result, feeds)[0]) and "Gemm" not in operators(result)
