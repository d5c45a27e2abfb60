"""Files in ONNX that break the definitions of operators: one clear error for each, or a right model, and never the end
of the process.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress

import onnx
import pytest
from onnx import AttributeProto, ModelProto, TensorProto, helper, parser

import layoutsolve
from experiments.fuzz import onnx_mutants, onnx_schemas
from layoutsolve.emit.check import check
from layoutsolve.errors import ConversionError, InternalError, LoweringError, ModelError
from layoutsolve.proto import operator_schemas
from layoutsolve.solver.theory.rule import RULES
from tests.random_onnx import random_model

FRAGILE = ("DictVectorizer", "EyeLike", "LabelEncoder", "RegexFullMatch", "TreeEnsemble")
"""Operators at which ONNX's inference ends the process where the type of their input is not known."""

BEHIND = '<ir_version: 8, opset_import: ["" : 20, "ai.onnx.ml" : 5, "nobody" : 1, "com.microsoft" : 1]>'


def alone(work: Callable[[], object]) -> onnx_mutants.Verdict:
    """What becomes of some work in a process of its own."""
    mutants = [onnx_mutants.Mutant(0, b"", "", "")]

    def tried(_: onnx_mutants.Mutant) -> onnx_mutants.Verdict:
        with suppress(LoweringError):
            work()
        return onnx_mutants.Verdict("converted")

    return onnx_mutants.steps(mutants, tried, 20.0)[0]


def told(model: ModelProto) -> str:
    """The one error that a model is refused with."""
    with pytest.raises(ConversionError) as caught:
        layoutsolve.convert(model.SerializeToString())
    assert not isinstance(caught.value, InternalError), caught.value
    return str(caught.value)


def node(op: str, opset: int, inputs: int = 1, outputs: int = 1, **attributes: object) -> ModelProto:
    """A model of one operator on images."""
    names = [f"x{number}" for number in range(inputs)], [f"y{number}" for number in range(outputs)]
    made = helper.make_node(op, *names, **attributes)
    ports = [helper.make_tensor_value_info(name, 1, (2, 3, 4, 5)) for name in names[0]]
    graph = helper.make_graph([made], "g", ports, [helper.make_tensor_value_info(name, 1, None) for name in names[1]])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


# -- the definition check ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (node("GatherND", 13, 2, batch_dims=-(1 << 31)), "'batch_dims', where 0"),
        (node("LayerNormalization", 17, 3, 3, axis=1 << 31), "'axis', where -1024"),
        (node("PRelu", 20, 6, 2), "6 inputs, where PRelu has 2"),
        (node("Relu", 20, 1, 3), "3 outputs, where Relu has 1"),
        (node("Split", 18, 1, 5, num_outputs=3), "num_outputs is 3"),
        (node("Einsum", 12, 2, equation="i...j.,->"), "equation"),
        (node("ConvTranspose", 18, 2, group=[1]), "'group' of type INTS, which is of type INT"),
        (node("ConvTranspose", 9, 2, group=(1 << 63) - 1), "'group', where 1"),
        (node("SpaceToDepth", 13), "lacks the attribute 'blocksize'"),
        (node("DepthToSpace", 13, blocksize=0), "'blocksize', where 1"),
        (node("If", 16), "lacks the attribute 'else_branch'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("place", ["graph", "branch", "function"])
def test_nodes_that_break_their_definition(model: ModelProto, text: str, place: str) -> None:
    """Wherever they are; the message names operator, tensor and remedy."""
    {"graph": lambda made: None, "branch": _in_branch, "function": _in_function}[place](model)
    found = told(model)
    assert text in found and "(output 'y0')" in found and "repair it, or export the model again" in found


def _in_branch(model: ModelProto) -> None:
    graph = model.graph
    branch = onnx.GraphProto(name="branch", node=graph.node, output=graph.output)
    names = [port.name for port in graph.output]
    graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, ()))
    del graph.node[:]
    graph.node.append(
        helper.make_node("If", ["c"], [f"{name}/if" for name in names], then_branch=branch, else_branch=branch)
    )
    for port in graph.output:
        port.name += "/if"


def _in_function(model: ModelProto) -> None:
    (inner,) = model.graph.node
    imports = [helper.make_opsetid("", model.opset_import[0].version)]
    model.functions.append(helper.make_function("local", "f", inner.input, inner.output, [inner], imports))
    model.opset_import.add(domain="local", version=1)
    outer = helper.make_node("f", inner.input, inner.output, domain="local")
    del model.graph.node[:]
    model.graph.node.append(outer)


def test_attributes_that_are_none() -> None:
    model = node("Transpose", 18, perm=[0, 2, 3, 1])
    model.graph.node[0].attribute.append(helper.make_attribute("perm", [0, 1, 2, 3]))
    assert "'perm' twice" in told(model)
    model = node("Transpose", 18)
    model.graph.node[0].attribute.append(AttributeProto(name="perm", type=AttributeProto.INTS, ref_attr_name="p"))
    assert "attribute 'perm' of a function" in told(model)
    model = node("Constant", 18, 0, value_int=1, axis=0)
    assert "2 attributes, where a Constant has its value alone" in told(model)
    model = node("Constant", 18, 0)
    model.graph.node[0].attribute.append(AttributeProto(name="value", type=AttributeProto.TENSOR))
    assert "'value' without its value" in told(model)


@pytest.mark.parametrize("op", ["If", "Loop", "Scan"])
@pytest.mark.parametrize("ends", ["input", "output"])
def test_graphs_with_too_few_ends(op: str, ends: str) -> None:
    body = onnx_schemas.body(0 if op == "If" else 3, 2)
    model = node(op, 18, {"If": 1, "Loop": 3, "Scan": 3}[op], 1)
    names = ("then_branch", "else_branch") if op == "If" else ("body",)
    model.graph.node[0].attribute.extend(helper.make_attribute(name, body) for name in names)
    if op == "Scan":
        model.graph.node[0].attribute.append(helper.make_attribute("num_scan_inputs", 1))
    operator_schemas.check(model)
    for each in model.graph.node[0].attribute:
        if each.type == AttributeProto.GRAPH:
            if ends == "output":
                del each.g.output[:]
            else:
                each.g.input.add(name="more")
    with pytest.raises(ModelError, match=f"{ends}s in its graph '(then_branch|body)'"):
        operator_schemas.check(model)


@pytest.mark.parametrize("op", FRAGILE)
def test_operators_that_end_inference(op: str) -> None:
    """Behind an operator that nothing is known of."""
    domain = "" if op in ("EyeLike", "RegexFullMatch") else "ai.onnx.ml."
    model = parser.parse_model(
        f"{BEHIND} g (float[2, 3] x) => (float[2, 3] y) {{ a = nobody.Any(x) y = {domain}{op}(a) }}"
    )
    if op == "TreeEnsemble":
        schema = onnx.defs.get_schema(op, 5, "ai.onnx.ml")
        required = [(name, each.type.value) for name, each in schema.attributes.items() if each.required]
        model.graph.node[1].attribute.extend(onnx_schemas.attribute(*each) for each in required)
    within = parser.parse_model(
        f"{BEHIND} g (float[2, 3] x, bool c) => (float[2, 3] y) {{ y = If(c) <then_branch = t () => (float[2, 3] z) "
        "{ z = Relu(x) }, else_branch = e () => (float[2, 3] w) { w = Relu(x) }> }"
    )
    branch = within.graph.node[0].attribute[1].g
    del branch.node[:]
    branch.node.extend(model.graph.node)
    branch.output[0].name = "y"
    within.opset_import.extend(each for each in model.opset_import if each not in within.opset_import)
    for work in (
        lambda: layoutsolve.convert(model.SerializeToString()),
        lambda: check(model, {}, True),
        lambda: layoutsolve.convert(within.SerializeToString()),
    ):
        verdict = alone(work)
        assert verdict.word == "converted", verdict


# -- other operators of the same name, and shapes that contradict each other ----------------------------------------


def test_operators_of_other_domains_are_not_guarded_as_onnx_ones() -> None:
    text = "g (float[2] a, float[2] b, float[2] c) => (float[2] y) { y = nobody.MatMul(a, b, c) }"
    model = parser.parse_model(f"{BEHIND} {text}")
    assert layoutsolve.convert(model.SerializeToString()).model.graph.node[0].domain == "nobody"


@pytest.mark.parametrize("domain", ["nobody", "com.microsoft"])
def test_operators_of_other_domains_are_not_onnx_ones(domain: str) -> None:
    """They are written as often as they are read, and what they compute, if it is the same, is the same."""
    tried = set()
    for seed in range(40):
        _, model = random_model(seed)
        names = sorted({node.op_type for node in model.graph.node} - {"Constant"})
        name = names[seed % len(names)]
        if domain == "com.microsoft" and f"{domain}:{name}" in RULES:
            continue
        other = ModelProto.FromString(model.SerializeToString())
        other.opset_import.add(domain=domain, version=1)
        _moved(other, name, "", domain)
        made = layoutsolve.convert(other.SerializeToString()).model
        assert [_own(node) for node in made.graph.node if node.domain == domain] == [
            _own(node) for node in other.graph.node if node.domain == domain
        ]
        _moved(made, name, domain, "")
        assert onnx_mutants.compared(model.SerializeToString(), made.SerializeToString()).word == "right", (seed, name)
        tried.add(name)
    assert {"Concat", "Reshape", "Transpose"} <= tried


def _moved(model: ModelProto, name: str, domain: str, other: str) -> None:
    for node in model.graph.node:
        if node.op_type == name and node.domain == domain:
            node.domain = other


def _own(node: onnx.NodeProto) -> tuple[str, list[bytes]]:
    return node.op_type, sorted(each.SerializeToString() for each in node.attribute)


@pytest.mark.parametrize("absent", [False, True])
def test_concatenations_of_another_domain(absent: bool) -> None:
    """A chain of them, with operands left out, is neither joined nor taken apart."""
    chain = "x = com.microsoft.Concat<axis = 0>(a, b, a) z = com.microsoft.Concat<axis = 0>(x, b, a)"
    model = parser.parse_model(f"{BEHIND} g (float[2, 3] a, float[2, 3] b) => (float[2, 3] z) {{ {chain} }}")
    model.graph.value_info.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 3)))
    for node in model.graph.node if absent else ():
        node.input[1] = ""
        node.output.insert(0, "")
    assert len(layoutsolve.convert(model.SerializeToString()).model.graph.node) == 2


@pytest.mark.parametrize("perm", [[0, 3, 2, 1], [0], [0, 0], [1, 2], [-1, 0], [1 << 9, 0]])
@pytest.mark.parametrize("behind", ["", "z = nobody.Any(y)", "z = RegexFullMatch(y)"])
def test_transposes_of_another_number_of_dimensions(perm: list[int], behind: str) -> None:
    text = f"g (string[2, 0] x) => (string y) {{ y = Transpose<perm = {perm}>(x) {behind} }}"
    assert re.search(
        r"Transpose.* has (the perm|-1 in its attribute 'perm')", told(parser.parse_model(f"{BEHIND} {text}"))
    )


@pytest.mark.parametrize("perm", [[0, 0, 1], [1, 2, 3], [0, 1, 5]])
@pytest.mark.parametrize("then", [[2, 0, 1], [0, 2, 1]])
def test_transposes_that_name_no_dimensions(perm: list[int], then: list[int]) -> None:
    """Also where nothing is known of what they read."""
    text = f"g (float x) => (float y) {{ z = Transpose<perm = {perm}>(x) y = Transpose<perm = {then}>(z) }}"
    model = parser.parse_model(f"{BEHIND} {text}")
    for port in (*model.graph.input, *model.graph.output):
        port.type.tensor_type.ClearField("shape")
    assert "has the perm" in told(model)


def test_results_of_fewer_dimensions_than_operands() -> None:
    text = "g (float[3, 4, 5, 1] x, float[3, 4, 5] y) => (float[3, 4, 5] z) { t = Relu(x) z = Div(t, y) }"
    model = parser.parse_model(f"{BEHIND} {text}")
    assert "ONNX refuses" in told(model)


TYPED = {"Sqrt": "int16", "Sin": "bool", "QuantizeLinear": "uint32", "Not": "float", "Mod": "bool"}
"""Operators, and a type that their first input does not take."""


@pytest.mark.parametrize("op", TYPED)
def test_what_onnx_refuses_names_the_operator_the_tensor_and_a_remedy(op: str) -> None:
    other = {"QuantizeLinear": "float", "Mod": "bool"}.get(op, "")
    ports, read = (f"x, {other} y", "x, y") if other else ("x", "x")
    text = f"g ({TYPED[op]}[2, 3] {ports}) => (float[2, 3] z) {{ h = {op}({read}) z = Cast<to = 1>(h) }}"
    said = told(parser.parse_model(f"{BEHIND} {text}"))
    assert re.search(rf"^{op}#0 \(output 'h'\) is what ONNX refuses: it reads 'x', a tensor\({TYPED[op]}\), as", said)
    assert said.endswith(operator_schemas.REMEDY)


@pytest.mark.parametrize(
    ("opset", "text", "fault"),
    [
        (opset, *each)
        for opset in (9, 13, 18)
        for each in (
            ("g (float[2] x) => (float[2] y) { y = Relu(nowhere) }", "operator 0 Relu reads 'nowhere'"),
            ("g (float[2] x) => (float[2] z) { y = Relu(x) }", "nothing computes the output 'z'"),
            ("g (float[2] x) => (float[2] y) { y = Relu(x) y = Neg(x) }", "operator 1 Neg computes 'y'"),
            ("g (float[2] x, float[2] x) => (float[2] y) { y = Relu(x) }", "two inputs are called 'x'"),
        )
    ],
)
def test_broken_graphs_are_told_in_all_operator_sets(opset: int, text: str, fault: str) -> None:
    """Before ONNX's version converter looks at them, which names no operator."""
    said = told(parser.parse_model(f'<ir_version: 7, opset_import: ["" : {opset}]> {text}'))
    assert said.startswith(fault) and said.endswith("the file is broken: repair it, or export the model again")


@pytest.mark.parametrize("opset", [7, 9, 11, 13, 17, 18])
@pytest.mark.parametrize("imported", ["", "ai.onnx"])
@pytest.mark.parametrize("domain", ["", "ai.onnx"])
def test_both_names_of_the_standard_domain(domain: str, imported: str, opset: int) -> None:
    text = "g (float[2, 3] x) => (float[3, 2] z) { y = Softmax<axis = 1>(x) z = Transpose<perm = [1, 0]>(y) }"
    model = parser.parse_model(f'<ir_version: 7, opset_import: ["{imported}" : {opset}]> {text}')
    for each in model.graph.node:
        each.domain = domain
    found = [each.op_type for each in layoutsolve.convert(model.SerializeToString()).model.graph.node]
    assert sorted(found) == ["Softmax", "Transpose"]


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("bits", range(16))
def test_weights_of_open_sizes(bits: int, op: str) -> None:
    """Also where an attribute says what the kernel is."""
    sizes = ", ".join(f"n{at}" if bits >> at & 1 else str(size) for at, size in enumerate((1, 1, 3, 3)))
    for attributes in ("kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]", "strides = [1, 1]"):
        text = f"g (float[1, 1, 5, 5] x, float[{sizes}] w) => (float[1, 1, a, b] y) {{ y = {op}<{attributes}>(x, w) }}"
        model = parser.parse_model(f"{BEHIND} {text}")
        made = layoutsolve.convert(model.SerializeToString()).model
        assert [each.op_type for each in made.graph.node] == [op]


# -- sizes, axes and indices -----------------------------------------------------------------------------------------


INTEGERS = {"tensor(int32)", "tensor(int64)"}
INDEXED = [
    (schema, place)
    for schema in onnx_schemas.schemas()
    if not schema.deprecated and schema.since_version >= 13 and schema.name != "Upsample"
    for place, each in enumerate(schema.inputs)
    if each.types and each.types <= INTEGERS
]
"""The inputs of operators that are sizes, axes or indices."""


@pytest.mark.members(3)
@pytest.mark.parametrize("kind", ["constant", "input", "computed"])
@pytest.mark.parametrize("element", [TensorProto.FLOAT, TensorProto.STRING, TensorProto.BOOL, TensorProto.UINT64])
def test_sizes_axes_and_indices_that_are_no_integers(element: int, kind: str) -> None:
    """One error that names the operator and the input."""
    assert len(INDEXED) > 50
    for schema, place in INDEXED:
        source = onnx_schemas.base(schema, 4, constant=True)
        node = source.graph.node[0]
        node.input.extend([""] * (place + 1 - len(node.input)))
        node.input[place] = "wrong"
        wrong = source.graph.input.add(name="wrong")
        onnx_schemas.described(wrong.type, element, 1)
        if kind == "constant":
            del source.graph.input[-1]
            source.graph.initializer.append(onnx_schemas.tensor(element, [1], "wrong"))
        elif kind == "computed":
            wrong.name = "before"
            source.graph.node.insert(0, helper.make_node("Identity", ["before"], ["wrong"]))
        with pytest.raises(ConversionError, match=schema.name) as error:
            layoutsolve.convert(source.SerializeToString())
        assert not isinstance(error.value, InternalError)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.INT8, TensorProto.UINT8])
@pytest.mark.parametrize("dims", [(3,), (2, 2), (2**31,)])
@pytest.mark.parametrize("within", ["Constant", "initializer"])
def test_elements_that_a_kept_body_lacks(kind: int, dims: tuple[int, ...], within: str) -> None:
    """A body that carries a sequence stays as it stands: its constants are looked at all the same."""
    constant = TensorProto(name="c", data_type=kind, dims=dims)
    nodes = [helper.make_node("SequenceInsert", ["s", "x"], ["t"]), helper.make_node("Identity", ["k"], ["l"])]
    if within == "Constant":
        nodes.insert(0, helper.make_node("Constant", [], ["c"], value=constant))
    sequence = helper.make_tensor_sequence_value_info
    body = helper.make_graph(
        nodes,
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("k", TensorProto.BOOL, []),
            sequence("s", TensorProto.FLOAT, None),
        ],
        [helper.make_tensor_value_info("l", TensorProto.BOOL, []), sequence("t", TensorProto.FLOAT, None)],
        [constant] if within == "initializer" else [],
    )
    graph = helper.make_graph(
        [
            helper.make_node("SequenceEmpty", [], ["e"]),
            helper.make_node("Loop", ["n", ""], ["r"], body=body),
            helper.make_node("ConcatFromSequence", ["r"], ["y"], axis=0),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [helper.make_tensor("n", TensorProto.INT64, [], [3])],
    )
    graph.node[1].input.append("e")
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    with pytest.raises(ModelError, match="constant 'c'"):
        layoutsolve.convert(source.SerializeToString())
