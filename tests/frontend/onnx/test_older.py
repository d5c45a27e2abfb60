"""Operators of older sets, and functions, where ONNX's own converters would change what they mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

import layoutsolve
from experiments.fuzz import onnx_mutants
from layoutsolve.errors import ConversionError, ModelError
from tests.frontend.onnx.test_random import run
from tests.random_onnx import random_model
from tests.random_quirks import with_functions

HEIGHT, WIDTH = 7, 6

PAIRS = [(2, 2), (1.5, 2.4), (1, 3), (0.5, 0.7), (1, 0.3), (2 / 7, 1)]
"""Factors of rows and columns, none of which enlarges where another reduces."""


def model(nodes: Sequence[NodeProto], shape: Sequence[int], opset: int, **constants: np.ndarray) -> onnx.ModelProto:
    ends = [helper.make_tensor_value_info("x", 1, shape), helper.make_tensor_value_info("y", 1, None)]
    fixed = [numpy_helper.from_array(np.asarray(data), name) for name, data in constants.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], fixed)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=4 if opset < 11 else 8)


def between(node: NodeProto, there: Sequence[int]) -> list[NodeProto]:
    """A node that reads ``t`` and writes ``r``, between two Transposes that undo each other."""
    back = np.argsort(there).tolist()
    first = helper.make_node("Transpose", ["x"], ["t"], perm=there)
    return [first, node, helper.make_node("Transpose", ["r"], ["y"], perm=back)]


def agrees(source: onnx.ModelProto) -> onnx.ModelProto:
    """What a model is converted to, which gives the same."""
    result = layoutsolve.convert(source.SerializeToString()).model
    shape = [dim.dim_value for dim in source.graph.input[0].type.tensor_type.shape.dim]
    feeds = {"x": np.random.default_rng(0).normal(size=shape).astype(np.float32)}
    for one, other in zip(run(source, feeds), run(result, feeds), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
    return result


def resize(op: str, mode: str, scales: Sequence[float], opset: int) -> onnx.ModelProto:
    """An image that is resized, its channels first, in a model that has them last."""
    factors = np.array([1, 1, *scales], np.float32)
    attributes = {"mode": mode, **({"scales": factors.tolist()} if opset == 7 else {})}
    node = helper.make_node(op, ["t", "s"][: 1 + (opset > 7)], ["r"], **attributes)
    return model(between(node, [0, 3, 1, 2]), [1, HEIGHT, WIDTH, 2], opset, **({"s": factors} if opset > 7 else {}))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize(("op", "opset"), [("Upsample", 7), ("Upsample", 9), ("Resize", 10)])
def test_pixels_have_corners(op: str, opset: int, mode: str) -> None:
    for scales in PAIRS:
        if op == "Resize" or min(scales) >= 1:
            result = agrees(resize(op, mode, scales, opset))
            assert mode == "linear" or all(node.op_type != "Transpose" for node in result.graph.node)


def test_what_has_no_form_is_told() -> None:
    with pytest.raises(ConversionError, match="enlarges along one dimension and reduces"):
        layoutsolve.convert(resize("Resize", "nearest", (2, 0.5), 10).SerializeToString())
    agrees(resize("Resize", "linear", (2, 0.5), 10))
    dropout = [helper.make_node("Dropout", ["x"], ["z", "mask"]), helper.make_node("Add", ["z", "mask"], ["y"])]
    with pytest.raises(ConversionError, match="mask"):
        layoutsolve.convert(model(dropout, [2, 3], 9).SerializeToString())
    pool = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3], dilations=[2], auto_pad="SAME_UPPER")
    with pytest.raises(ConversionError, match="dilations"):
        layoutsolve.convert(model([pool], [1, 2, 8], 18).SerializeToString())


@pytest.mark.parametrize("opset", range(7, 18))
@pytest.mark.parametrize("inner", [False, True])
def test_masks_that_nothing_reads_are_left_out(opset: int, inner: bool) -> None:
    """As the exporters of AlexNet, VGG and SqueezeNet wrote them."""
    nodes = between(helper.make_node("Dropout", ["t"], ["r", "mask"]), [0, 2, 1])
    if inner:
        body = helper.make_graph(nodes, "body", [], [helper.make_tensor_value_info("y", 1, [2, 3, 4])])
        yes = helper.make_node("Constant", [], ["yes"], value=numpy_helper.from_array(np.array(True)))
        nodes = [yes, helper.make_node("If", ["yes"], ["y"], then_branch=body, else_branch=body)]
    assert all(
        node.op_type not in ("Dropout", "Transpose") for node in agrees(model(nodes, [2, 3, 4], opset)).graph.node
    )


@pytest.mark.members(10)
@pytest.mark.parametrize(("opset", "op"), [*product((7, 9, 11, 12, 13, 18), ("Hardmax", "Softmax", "LogSoftmax"))])
def test_an_axis_was_all_from_it_on(opset: int, op: str) -> None:
    for axis in (None, 0, 1, 2):
        attributes = {} if axis is None else {"axis": axis}
        agrees(model(between(helper.make_node(op, ["t"], ["r"], **attributes), [0, 2, 1]), [2, 3, 4], opset))


@pytest.mark.parametrize("opset", [7, 9, 10])
def test_attributes_of_another_type_are_told(opset: int) -> None:
    """The library would end the process."""
    source = resize("Resize" if opset == 10 else "Upsample", "nearest", (2, 2), opset)
    (mode,) = [each for each in source.graph.node[1].attribute if each.name == "mode"]
    mode.type, mode.i = onnx.AttributeProto.INT, 1
    with pytest.raises(ConversionError, match="mode"):
        layoutsolve.convert(source.SerializeToString())


@pytest.mark.parametrize("given", [None, 0.5])
def test_attributes_of_functions_have_defaults(given: float | None) -> None:
    inner = helper.make_node("LeakyRelu", ["a"], ["b"])
    inner.attribute.add(name="alpha", ref_attr_name="alpha", type=onnx.AttributeProto.FLOAT)
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    default = [helper.make_attribute("alpha", 0.25)]
    leaky = helper.make_function("own", "Leaky", ["a"], ["b"], [inner], imports[:1], [], default)
    calls = [helper.make_node("Leaky", ["a"], ["b"], domain="own")]
    outer = helper.make_function("own", "Outer", ["a"], ["b"], calls, imports, [], [])
    attributes = {} if given is None else {"alpha": given}
    nodes = [
        helper.make_node("Leaky", ["x"], ["l"], domain="own", **attributes),
        helper.make_node("Outer", ["l"], ["t"], domain="own"),
        helper.make_node("Transpose", ["t"], ["r"]),
        helper.make_node("Transpose", ["r"], ["y"]),
    ]
    source = model(nodes, [3, 4], 18)
    source.functions.extend([leaky, outer])
    source.opset_import.append(imports[1])
    agrees(source)


@pytest.mark.parametrize("opset", [7, 10])
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_what_a_pad_fills_with(mode: str, opset: int) -> None:
    """It may be said where nothing is filled, too."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
        helper.make_node("Pad", ["t"], ["p"], mode=mode, pads=[0, 1, 0, 0, 2, 1], value=0.5),
        helper.make_node("Transpose", ["p"], ["y"], perm=[0, 2, 1]),
    ]
    result = agrees(model(nodes, [2, 4, 5], opset))
    assert [node.op_type for node in result.graph.node] == ["Pad"]


@pytest.mark.parametrize("given", [None, 0.5])
@pytest.mark.parametrize("defaults", list(product([None, 0.25], repeat=3)), ids=str)
def test_what_a_call_leaves_out_is_left_out_within(given: float | None, defaults: tuple[float | None, ...]) -> None:
    """Functions that hand an attribute on to each other, under other names: the default of the next one counts then."""
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    functions = []
    for depth, default in enumerate(defaults):
        called = helper.make_node("LeakyRelu", ["a"], ["c"])
        called.attribute.add(name="alpha", ref_attr_name=f"alpha{depth}", type=onnx.AttributeProto.FLOAT)
        nodes = [called, helper.make_node("Identity", ["c"], ["b"])]
        if depth:
            nodes[1] = helper.make_node(f"Deep{depth - 1}", ["c"], ["b"], domain="own")
            nodes[1].attribute.add(
                name=f"alpha{depth - 1}", ref_attr_name=f"alpha{depth}", type=onnx.AttributeProto.FLOAT
            )
        known = [] if default is None else [helper.make_attribute(f"alpha{depth}", default * (depth + 1))]
        names = [f"alpha{depth}"] if default is None else []
        functions.append(helper.make_function("own", f"Deep{depth}", ["a"], ["b"], nodes, imports, names, known))
    attributes = {} if given is None else {"alpha2": given}
    nodes = [
        helper.make_node("Deep2", ["x"], ["t"], domain="own", **attributes),
        helper.make_node("Deep2", ["t"], ["u"], domain="own", alpha2=0.75),
        helper.make_node("Transpose", ["u"], ["r"]),
        helper.make_node("Transpose", ["r"], ["y"]),
    ]
    source = model(nodes, [3, 4], 18)
    source.functions.extend(functions)
    source.opset_import.append(imports[1])
    agrees(source)


@pytest.mark.members(4)
@pytest.mark.parametrize("version", [9, 11, 13, 17, 18, 19, 21, 23])
def test_functions_in_other_operator_sets(version: int) -> None:
    """ONNX Runtime reads them in the model's: so are those inlined whose operators are the same there, and others are
    refused.
    """
    words, random = Counter[str](), np.random.default_rng(version)
    for seed in range(8):
        _, source = random_model(seed)
        with_functions(source, random)
        for function in source.functions:
            function.opset_import[0].version = version
        try:
            made = layoutsolve.convert(source.SerializeToString()).model
        except ModelError as error:
            assert f"of operator set {version}, and the model is in" in str(error)
            words["refused"] += 1
            continue
        words[onnx_mutants.compared(source.SerializeToString(), made.SerializeToString()).word] += 1
    assert words["right"] >= 3 and words.keys() <= {"right", "refused"}, words


@pytest.mark.members(4)
@pytest.mark.parametrize("version", [17, 18, 21])
@pytest.mark.parametrize("domain", ["", "ai.onnx", "own", "nobody"])
def test_functions_that_import_a_domain_twice(domain: str, version: int) -> None:
    """The first time counts."""
    for seed in range(5):
        _, source = random_model(seed)
        with_functions(source, np.random.default_rng(seed))
        for function in source.functions:
            for number in (1 if domain in ("own", "nobody") else 18, version):
                function.opset_import.add(domain=domain, version=number)
        source.opset_import.add(domain=domain, version=version)
        made = layoutsolve.convert(source.SerializeToString()).model
        word = onnx_mutants.compared(source.SerializeToString(), made.SerializeToString()).word
        assert word in ("right", "converted, not run by ONNX Runtime")


@pytest.mark.parametrize("opset", [17, 19, 20])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_transform_may_come_last(opset: int, axis: int) -> None:
    names = ["x"] if opset < 20 else ["x", "", "axis"]
    attributes, constants = ({"axis": axis}, {}) if opset < 20 else ({}, {"axis": np.array(axis)})
    result = agrees(model([helper.make_node("DFT", names, ["y"], **attributes)], [2, 4, 6, 1], opset, **constants))
    assert [node.op_type for node in result.graph.node] == ["DFT"]


@pytest.mark.parametrize("opset", [11, 18])
def test_a_part_of_an_image_is_cut_out(opset: int) -> None:
    """What is cut out is told for each dimension, as sizes are."""
    way = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}
    node = helper.make_node("Resize", ["t", "roi", "none" if opset == 11 else "", "sizes"], ["r"], **way)
    roi, sizes = np.array([0, 0, 0.2, 0, 1, 1, 0.9, 0.6], np.float32), np.array([1, 2, 5, 8])
    none = np.empty(0, np.float32)
    agrees(model(between(node, [0, 3, 1, 2]), [1, HEIGHT, WIDTH, 2], opset, roi=roi, sizes=sizes, none=none))


def test_a_loop_may_have_no_condition() -> None:
    ends = [
        helper.make_tensor_value_info("turn", TensorProto.INT64, []),
        helper.make_tensor_value_info("on", TensorProto.BOOL, []),
        helper.make_tensor_value_info("still", TensorProto.BOOL, []),
        helper.make_tensor_value_info("row", TensorProto.FLOAT, [2]),
    ]
    nodes = [helper.make_node("Identity", ["on"], ["still"]), helper.make_node("Relu", ["x"], ["row"])]
    body = helper.make_graph(nodes, "body", ends[:2], ends[2:])
    agrees(model([helper.make_node("Loop", ["turns", ""], ["y"], body=body)], [2], 18, turns=np.array(3)))
