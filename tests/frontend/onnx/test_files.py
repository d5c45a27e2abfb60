"""What files in ONNX may have beside operators on tensors of known sizes, and what is wrong with others."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import layoutsolve
from layoutsolve.errors import ConversionError, ModelError, OptionError
from layoutsolve.frontend.onnx.detection import is_model
from layoutsolve.ir.graph import OPENING
from layoutsolve.proto.data_movement import moves
from tests.frontend.onnx.test_random import run
from tests.random_onnx import Writer, add, conv, normal, permuted, random_model

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


def test_unknown_operators_stay_as_they_are() -> None:
    model = text(
        """<ir_version: 8, opset_import: ["" : 18, "of.mine" : 4]> g (float[1, 3, 4, 5] x) => (y) {
            a = Transpose<perm = [0, 2, 3, 1]>(x) b = Relu(a) c = Transpose<perm = [0, 3, 1, 2]>(b)
            d = of.mine.Mystery<depth = 3, way = "up">(c) e = Relu(d) y = of.mine.Other(e, x) }"""
    )
    result = converted(model)
    kept = [node for node in result.graph.node if node.domain == "of.mine"]
    assert [node.op_type for node in kept] == ["Mystery", "Other"] and operators(result).count("Transpose") == 0
    assert {each.name: helper.get_attribute_value(each) for each in kept[0].attribute} == {"depth": 3, "way": b"up"}
    assert {each.domain: each.version for each in result.opset_import} == {"": 18, "of.mine": 4}


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


def test_what_is_told_of_the_model_is_kept() -> None:
    model = text(f"{HEAD} net (float[1, 3, 4, 5] x) => (float[1, 3, 4, 5] y) {{ {ROUND} }}")
    model.metadata_props.add(key="labels", value="cat, dog")
    model.doc_string, model.domain, model.model_version = "all about it", "org.nets", 7
    model.graph.doc_string = "a graph"
    for number, node in enumerate(model.graph.node):
        node.name, node.doc_string = f"node {number}", f"about {number}"
    result = converted(model)
    facts = {each.key: each.value for each in result.metadata_props}
    assert facts["labels"] == "cat, dog" and "layoutsolve.source.sha256" in facts
    assert (result.doc_string, result.domain, result.model_version) == ("all about it", "org.nets", 7)
    assert (result.graph.name, result.graph.doc_string) == ("net", "a graph")
    assert [(node.name, node.doc_string) for node in result.graph.node] == [("node 1", "about 1")]


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


@pytest.mark.parametrize("seed", range(24))
def test_what_is_told_is_of_the_model_that_is_written(seed: int) -> None:
    """Of one that stays as it is as well: its Transposes, with the bound that holds for any other."""
    _, model = random_model(seed, dynamic=seed % 2 == 0)
    found = layoutsolve.convert(model.SerializeToString())
    for tier in found.tiers:
        assert tier.bound <= tier.value == sum(getattr(found.price, name) for name in tier.names)
    if found.kept:
        assert found.price.transposes <= moves(found.model).transposes == moves(model).transposes
        assert found.report["hidden_transposes"] == found.price.hidden


@pytest.mark.parametrize("seed", range(24))
def test_what_is_told_of_a_model_that_was_written_is_of_that_model(seed: int) -> None:
    """A convolution that has become a product costs otherwise as that, so that fewer might be possible by now."""
    writer = Writer(seed)
    count = int(writer.random.choice([16, 24, 40]))
    x = writer.input(1, 3, 16, 16)
    x = writer.op("Conv", x, writer.weights(count, 3, 3, 3), shape=[1, count, 14, 14])
    heads = []
    for _ in range(int(writer.random.integers(1, 4))):
        y = writer.op("Conv", x, writer.weights(6, count, 1, 1), shape=[1, 6, 14, 14])
        y = writer.op("Transpose", y, shape=[1, 14, 14, 6], perm=[0, 2, 3, 1])
        heads.append(writer.op("Reshape", y, writer.constant([1, 196 * 6], "int64"), shape=[1, 196 * 6]))
    first = layoutsolve.convert(writer.model(*heads).SerializeToString())
    again = layoutsolve.convert(first.model.SerializeToString())
    assert again.model == first.model
    assert again.price.transposes == again.report["transposes"] == moves(first.model).transposes
    assert again.report["bound"] <= again.price.transposes + again.price.hidden
    assert all(tier.bound <= tier.value for tier in again.tiers)


def test_sizes_that_are_computed_survive() -> None:
    """Two open sizes in one Reshape, which are told by data alone."""
    model = text(
        f"""{HEAD} g (float[2, c, h, w] x, int64[4] shape) => (float[a, b, d, e] z) {{
            {ROUND} r = Reshape(y, shape) s = Transpose<perm = [0, 2, 3, 1]>(r) t = Relu(s)
            z = Transpose<perm = [0, 3, 1, 2]>(t) }}"""
    )
    result = converted(model)
    feeds = {"x": np.random.default_rng(0).normal(size=(2, 3, 4, 6)).astype(np.float32)}
    feeds["shape"] = np.array([2, 6, 2, 6])
    assert np.array_equal(run(model, feeds)[0], run(result, feeds)[0]) and operators(result).count("Transpose") == 0


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda model: model.graph.node.pop(), ModelError),
        (lambda model: model.graph.node[0].input.__setitem__(0, "nobody"), ModelError),
        (lambda model: model.graph.node[1].output.__setitem__(0, "a"), ModelError),
        (lambda model: model.opset_import[0].__setattr__("version", 4), ModelError),
        (lambda model: model.opset_import[0].__setattr__("version", 999), ModelError),
        (lambda model: model.graph.ClearField("output"), ModelError),
        (lambda model: model.graph.input[0].__setattr__("name", ""), ModelError),
        *((lambda model, op=op: model.graph.node[1].__setattr__("op_type", op), ModelError) for op in OPENING),
    ],
)
def test_wrong_models(spoil: Callable[[onnx.ModelProto], object], error: type[ConversionError]) -> None:
    model = text(f"{HEAD} g (float[1, 3, 4, 5] x) => (float[1, 3, 4, 5] y) {{ {ROUND} }}")
    spoil(model)
    with pytest.raises(error):
        converted(model)


@pytest.mark.parametrize("kind", [0, 99, -1])
def test_casts_to_no_type(kind: int) -> None:
    model = text(
        f"""{HEAD} g (float[2, 3] x) => (float[2, 3] y, float[2, 3] z) {{ b = Cast<to = 1>(x) y = Relu(b)
        t = Transpose<perm = [1, 0]>(x) u = Relu(t) z = Transpose<perm = [1, 0]>(u) }}"""
    )
    model.graph.node[0].attribute[0].i = kind
    with pytest.raises(ConversionError):
        layoutsolve.convert(model.SerializeToString())


def test_a_constant_of_no_known_form_is_left_to_the_runtime() -> None:
    model = text(
        f"{HEAD} g (float[2, 3] x) => (float[2, 3] y) {{ c = Constant<value = float[1] {{2.0}}>() y = Mul(x, c) }}"
    )
    model.graph.node[0].attribute[0].name = "strength"  # ONNX Runtime reads the first attribute
    same(model, converted(model), (2, 3))


def test_options_that_are_for_tflite_are_refused() -> None:
    model = text(f"{HEAD} g (float[1, 3, 4, 5] x) => (float[1, 3, 4, 5] y) {{ {ROUND} }}")
    for options in ({"quant": "exact"}, {"quant": "float"}, {"signature": "main"}, {"weights": "symmetric"}):
        with pytest.raises(OptionError):
            converted(model, **options)


@pytest.mark.parametrize("seed", range(40))
def test_broken_bytes_give_a_model_or_an_error(seed: int) -> None:
    random = np.random.default_rng(seed)
    data = bytearray(random_model(seed % 8)[1].SerializeToString())
    for _ in range(int(random.integers(1, 6))):
        place = int(random.integers(len(data)))
        if seed % 4 == 0:
            del data[place:]
        else:
            data[place % max(len(data), 1)] = int(random.integers(256))
        if not data:
            break
    try:
        layoutsolve.convert(bytes(data) or b"\0")
    except ConversionError as error:
        assert not isinstance(error, layoutsolve.InternalError)


def test_detection() -> None:
    data = random_model(0)[1].SerializeToString()
    assert is_model(data) and not is_model(b"") and not is_model(b"\x18\0\0\0TFL3") and not is_model(b"PK\3\4")
    assert is_model(data[: len(data) // 2])  # cut off: an error of its own
    with pytest.raises(ModelError):
        layoutsolve.convert(data[: len(data) // 2])


def test_the_source_is_never_overwritten_by_default(tmp_path: Path) -> None:
    from layoutsolve.cli.command_line import main

    path = tmp_path / "net.onnx"
    path.write_bytes(random_model(0)[1].SerializeToString())
    before = path.read_bytes()
    assert main([str(path), "-q"]) == 0
    assert path.read_bytes() == before and (tmp_path / "net.layoutsolve.onnx").is_file()
    assert main([str(path), "-q", "-o", str(path)]) == 2 and path.read_bytes() == before
    assert main([str(path), "-q", "--verify", "-o", str(tmp_path / "other.onnx")]) == 0


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


def test_written_models_are_solved_again(tmp_path: Path) -> None:
    """What the pattern around every operator leaves in a file is found again as in the source itself."""
    from tests.random_models import network

    for each in [each for each in map(network, range(20)) if each.kind == "float32"]:
        source = each.source
        try:
            direct = layoutsolve.convert(source, objective="min-transpose")
            plain = layoutsolve.convert(source, strategy="transpose").content(tmp_path / "plain.onnx")
        except ConversionError:
            continue
        again = layoutsolve.convert(plain, objective="min-transpose")
        assert operators(again.model).count("Transpose") <= max(
            operators(direct.model).count("Transpose"), direct.price.transposes
        )


@pytest.mark.parametrize("states", [1, 2])
def test_states_are_known_again(states: int) -> None:
    """What layoutsolve writes with states is as good when it is solved again: a state takes any layout."""
    from layoutsolve.emit import apply, serialise
    from layoutsolve.solver import assign
    from tests.graphs import GraphBuilder

    builder = GraphBuilder(0)
    total = builder.conv(builder.input(1, 4, 5, 6), 6, kernel=3)
    for _ in range(states):
        now, become = builder.state(1, 4, 5, 6)
        total = builder.add(total, now)
        become(builder.relu(total))
    graph = builder.graph(builder.conv(builder.relu(total), 6, kernel=3))
    plain = serialise(apply(assign(graph, strategy="transpose")))
    assert operators(plain).count("Transpose") == 4
    result = converted(plain)
    assert operators(result).count("Transpose") == operators(serialise(apply(assign(graph)))).count("Transpose") == 2
    following = [
        {each.key: each.value for each in model.metadata_props if "state" in each.key} for model in (plain, result)
    ]
    assert following[0] == following[1] != {}
    random = np.random.default_rng(0)
    found = layoutsolve.convert(plain.SerializeToString())
    assert layoutsolve.verify(plain.SerializeToString(), found).passed
    names = [port.name for port in plain.graph.input]
    for model in (plain, result):
        assert [port.name for port in model.graph.input] == names
    feeds = {name: random.normal(size=(1, 4, 5, 6)).astype(np.float32) for name in names}
    told = {each.key: each.value for each in result.metadata_props}
    moved = dict(feeds)
    for name in names:
        if f"layoutsolve.layout.{name}" in told:
            order = [int(each) for each in told[f"layoutsolve.layout.{name}"].split()]
            moved[name] = np.ascontiguousarray(feeds[name].transpose(order))
    assert np.allclose(run(plain, feeds)[0], run(result, moved)[0], atol=1e-5)


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


@pytest.mark.parametrize("bounds", ["low, high", '"", high', "low"])
@pytest.mark.parametrize("shape", ["", "[1]"])
def test_bounds_that_are_computed(bounds: str, shape: str) -> None:
    """They are single numbers, and no reason to leave data where it is."""
    given = bounds.replace('""', "")
    model = text(
        f"""{HEAD} g (float[2, 3, 4, 5] x, float{shape} l) => (float[2, 3, 4, 5] y) {{
            low = Neg(l) high = Exp(l) a = Transpose<perm = [0, 2, 3, 1]>(x) b = Clip({given})
            y = Transpose<perm = [0, 3, 1, 2]>(b) }}""".replace("Clip(", "Clip(a, ")
    )
    if shape:  # ONNX has scalars alone there
        for number, name in enumerate(("low", "high")):
            node = model.graph.node[number]
            node.output[0] = f"{name}_line"
            model.graph.node.insert(3, helper.make_node("Squeeze", [f"{name}_line"], [name]))
    found = converted(model)
    assert operators(found).count("Transpose") == 0
    x, low = np.random.default_rng(0).normal(size=(2, 3, 4, 5)), np.full((1,) if shape else (), 0.2)
    feeds = {"x": x.astype(np.float32), "l": low.astype(np.float32)}
    assert np.array_equal(run(model, feeds)[0], run(found, feeds)[0])


@pytest.mark.parametrize("shape", [(1, 2, 1, 9), (1, 9, 1, 1), (2, 1, 7, 1)])
def test_counts_that_follow_from_sizes(shape: tuple[int, ...]) -> None:
    """The largest of a line, as many as its sizes say, beside dimensions of size 1 that layouts leave out or add."""
    space = shape[1:]
    flat = int(np.prod(space))
    model = text(
        f"""{HEAD} g (float[n, {", ".join(map(str, space))}] x) => (float[n, m] y, int64[n, m] z)
        <int64[2] line = {{0, {flat}}}, int64[1] one = {{1}}, int64[1] most = {{6}}> {{
            a = Transpose<perm = [0, 2, 3, 1]>(x) b = Relu(a) c = Transpose<perm = [0, 3, 1, 2]>(b)
            flat = Reshape(c, line) all = Shape(flat) count = Gather(all, one) k = Min(count, most)
            y, z = TopK(flat, k) }}"""
    )
    found = converted(model)
    assert operators(found).count("Transpose") == 0
    feeds = {"x": np.random.default_rng(0).normal(size=shape).astype(np.float32)}
    assert all(np.array_equal(*pair) for pair in zip(run(model, feeds), run(found, feeds), strict=True))


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


def test_long_vectors_take_no_memory() -> None:
    """What the library infers of them by following numbers would."""
    model = text(
        f"""{HEAD} g (float[3] x) => (float[n] z) <int64[1] many = {{20000000}}, float half = {{0.5}}>
        {{ y = Reshape(x, many) z = Mul(y, half) }}"""
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with contextlib.suppress(ConversionError):
        converted(model)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 18  # KiB


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


@pytest.mark.parametrize("told", [None, (), (2, 3)])
@pytest.mark.parametrize("last", ["r = com.microsoft.QuickGelu(c)", "s = com.microsoft.QuickGelu(c) r = Neg(s)"])
def test_operators_of_others_in_branches(told: tuple[int, ...] | None, last: str) -> None:
    model = text(
        f"""<ir_version: 8, opset_import: ["" : 18, "com.microsoft" : 1]>
        g (float[2, 3] x, bool test) => (float[2, 3] y) {{
            a = Transpose<perm = [1, 0]>(x) b = Relu(a) c = Transpose<perm = [1, 0]>(b)
            y = If(test) <then_branch = t () => (r) {{ {last} }}, else_branch = e () => (q) {{ q = Neg(c) }}> }}"""
    )
    if told is not None:
        info = helper.make_tensor_value_info("s", FLOAT, told or None)
        model.graph.node[3].attribute[0].g.value_info.append(info)
    result = converted(model)
    assert operators(result) == ["Relu", "If"]
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    for test in (False, True):
        feeds = {"x": x, "test": np.array(test)}
        assert np.array_equal(*run(model, feeds), *run(result, feeds))


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


def test_sizes_with_which_the_runtime_ends_are_passed_over() -> None:
    """A division by a size less another number ends the process, whichever model it is in."""
    model = text(
        f"""{HEAD} g (float[n, 3, 4] x) => (float[n, 4, 3] y, int64 z)
        <int64 less = {{2}}, int64 ten = {{10}}, int64 first = {{0}}> {{
            sizes = Shape(x) count = Gather<axis = 0>(sizes, first) by = Sub(count, less) z = Div(ten, by)
            y = Transpose<perm = [0, 2, 1]>(x) }}"""
    )
    assert layoutsolve.verify(model.SerializeToString(), layoutsolve.convert(model.SerializeToString())).passed


@pytest.mark.members(2)
@pytest.mark.parametrize("size", [1, 2, 64, 512])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_sizes_with_which_a_model_runs_are_found(axis: int, size: int) -> None:
    """Of dimensions without names, some of which have to be equal, and one to be a number."""
    fixed = [numpy_helper.from_array(np.array([size if at == axis else -1 for at in range(3)], np.int64), "shape")]
    ports = [helper.make_tensor_value_info(name, FLOAT, [None] * 3) for name in ("x", "state")]
    nodes = [
        helper.make_node("Add", ["x", "state"], ["sum"]),
        helper.make_node("Shape", ["sum"], ["sizes"]),
        helper.make_node("Greater", ["shape", "zero"], ["told"]),
        helper.make_node("Where", ["told", "shape", "sizes"], ["wanted"]),
        helper.make_node("Reshape", ["sum", "wanted"], ["y"]),
    ]
    fixed.append(numpy_helper.from_array(np.array(0, np.int64), "zero"))
    out = helper.make_tensor_value_info("y", FLOAT, [None] * 3)
    model = helper.make_model(
        helper.make_graph(nodes, "g", ports, [out], fixed), opset_imports=[helper.make_opsetid("", 18)], ir_version=8
    )
    assert layoutsolve.verify(model.SerializeToString(), layoutsolve.convert(model.SerializeToString())).passed


@pytest.mark.parametrize("seed", range(12))
def test_what_is_joined_is_as_large(seed: int) -> None:
    """A size that has a name is that of what it is joined with, as in an export of a batch with one class token."""
    writer = Writer(seed, dynamic=True)
    x = writer.input(2, 4, 3, 5)
    for kind in (conv, permuted, add, normal)[seed % 4 :]:
        x = kind(writer, x)
    shape = (1, *writer.shapes[x][1:])
    parts = [x, writer.constant(writer.random.normal(size=shape))]
    y = writer.op("Concat", *parts[:: 1 if seed % 2 else -1], shape=(1, 2 * shape[1], *shape[2:]), axis=1)
    writer.shapes |= {name: (1, *sizes[1:]) for name, sizes in writer.shapes.items()}
    y = permuted(writer, permuted(writer, y))
    model = writer.model(y)
    found = layoutsolve.convert(model.SerializeToString())
    assert moves(found.model).counts <= moves(model).counts
    feeds = {"input_0": writer.feeds()["input_0"]}
    assert feeds["input_0"].shape[0] == 1
    truth, result = (run(each, feeds)[0] for each in (model, found.model))
    assert np.allclose(truth, result, atol=1e-5)


@pytest.mark.parametrize("opset", [9, 13, 17, 18, 21])
def test_operators_that_onnx_does_not_know_stay(opset: int) -> None:
    """In ONNX's own domain as well, where converters leave some of their own: whatever the operator set is."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["a"], perm=[0, 2, 3, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Transpose", ["b"], ["c"], perm=[0, 3, 1, 2]),
        helper.make_node("TFL_Special", ["c"], ["d"], name="mine", tuned=3),
        helper.make_node("Transpose", ["c"], ["e"], perm=[0, 2, 3, 1]),
        helper.make_node("Transpose", ["e"], ["y"], perm=[0, 3, 1, 2]),
    ]
    ports = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in (("d", None), ("y", (1, 3, 4, 5)))]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", FLOAT, (1, 3, 4, 5))], ports)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    found = converted(model)
    (mine,) = (node for node in found.graph.node if node.op_type == "TFL_Special")
    assert (mine.name, mine.domain, mine.attribute) == ("mine", "", nodes[3].attribute)
    assert "Transpose" not in operators(found)


@pytest.mark.parametrize("domain", ["", "nobody", "com.microsoft"])
@pytest.mark.parametrize(
    "name", ["Transpose", "Reshape", "Flatten", "State", "Join", "Carry", "Stack", "Turn", "Sizes"]
)
def test_operators_that_are_called_as_others_stay(name: str, domain: str) -> None:
    """Operators of other domains are no views, and none ties graphs together that ONNX does not know."""
    if not domain and name in ("Transpose", "Reshape", "Flatten"):
        return
    nodes = [
        helper.make_node("Transpose", ["x"], ["a"], perm=[0, 2, 3, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Transpose", ["b"], ["c"], perm=[0, 3, 1, 2]),
        helper.make_node(name, ["c"], ["d"], name="mine", domain=domain),
        helper.make_node("Neg", ["d"], ["e"]),
    ]
    ports = [helper.make_tensor_value_info(each, FLOAT, (1, 3, 4, 5)) for each in ("x", "d", "e")]
    imports = [helper.make_opsetid("", 18), *([helper.make_opsetid(domain, 1)] if domain else [])]
    model = helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:]), opset_imports=imports, ir_version=8)
    found = converted(model)
    assert [(node.op_type, node.domain) for node in found.graph.node] == [("Relu", ""), (name, domain), ("Neg", "")]


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE])
@pytest.mark.parametrize("opset", [7, 9, 10])
def test_bounds_that_were_attributes_are_of_the_type_of_what_they_bound(opset: int, dtype: int) -> None:
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    weights = numpy_helper.from_array(np.random.default_rng(opset).normal(size=(4, 4, 1, 1)).astype(kind), "w")
    ends = [helper.make_tensor_value_info(name, dtype, ["batch", 5, 6, 4]) for name in "xy"]
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["t", "w"], ["a"]),
        helper.make_node("Clip", ["a"], ["b"], min=0.0, max=6.0),
        helper.make_node("Clip", ["b"], ["c"], max=1.5),
        helper.make_node("Transpose", ["c"], ["y"], perm=[0, 2, 3, 1]),
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=4)
    result = converted(model)
    onnx.checker.check_model(result, full_check=True)
    assert operators(result).count("Transpose") == 0
    if dtype == TensorProto.FLOAT:  # ONNX Runtime has no older Clip of other types
        feeds = {"x": np.random.default_rng(0).normal(size=(2, 5, 6, 4)).astype(kind)}
        truth, found = (run(each, feeds)[0] for each in (model, result))
        np.testing.assert_allclose(truth, found, atol=1e-6)


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
