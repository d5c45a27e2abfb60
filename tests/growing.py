"""Small models in ONNX of which something grows: results of constants, sizes, functions, and what lies in bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper, numpy_helper

FLOAT, INT, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL
LONG = 30_000
"""The size of vectors that are broadcast against each other."""

HUGE = 1 << 28
DOUBLINGS = 40

_OWN = "tests"


@dataclass
class Maker:
    """Nodes in the making, and their constants, which are nodes as well so that they may be in functions."""

    prefix: str = "t"
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: object) -> str:
        names = [f"{self.prefix}{len(self.nodes)}_{number}" for number in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, **attributes))
        return names[0]

    def constant(self, value: object, dtype: str = "int64") -> str:
        return self.op("Constant", value=numpy_helper.from_array(np.asarray(value, dtype)))

    def row(self, size: int = LONG) -> str:
        return self.op("Range", self.constant(0), self.constant(size), self.constant(1))

    def column(self, size: int = LONG) -> str:
        return self.op("Unsqueeze", self.row(size), self.constant([1]))

    def wide(self, dtype: int = INT, shape: object = (LONG, LONG)) -> str:
        filler = helper.make_tensor("", dtype, [1], [1])
        return self.op("ConstantOfShape", self.constant(shape), value=filler)

    def wide_of(self, shape: str) -> str:
        return self.op("ConstantOfShape", shape, value=helper.make_tensor("", INT, [1], [1]))

    def zeros(self, shape: object) -> str:
        return self.op("Mul", self.wide(shape=shape), self.constant(0))

    def real(self, name: str) -> str:
        return self.op("Cast", name, to=FLOAT)


Family = Callable[[Maker], str]
"""What writes nodes that grow, given no input, and tells the name of the result."""


def _pairs() -> Iterator[tuple[str, Family]]:
    whole = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Equal", "Less", "Greater", "Mod", "Pow", "Mean", "Sum")
    for kind in whole:
        real = kind in ("Mean", "Sum")
        yield (
            kind,
            lambda m, kind=kind, real=real: m.op(
                kind, *((m.real(m.row()), m.real(m.column())) if real else (m.row(), m.column()))
            ),
        )
    for kind in ("And", "Or", "Xor"):
        yield kind, lambda m, kind=kind: m.op(kind, *(m.op("Cast", each, to=BOOL) for each in (m.row(), m.column())))
    yield "PRelu", lambda m: m.op("PRelu", m.real(m.wide()), m.real(m.row()))
    yield "Where", lambda m: m.op("Where", m.op("Cast", m.column(), to=BOOL), m.row(), m.constant(1))
    yield "MatMul", lambda m: m.op("MatMul", m.real(m.column()), m.op("Reshape", m.real(m.row()), m.constant([1, -1])))
    yield "Gemm", lambda m: m.op("Gemm", m.real(m.column()), m.real(m.column()), transB=1)
    yield "Einsum", lambda m: m.op("Einsum", m.real(m.row()), m.real(m.row()), equation="i,j->ij")
    yield "Gather", lambda m: m.op("Gather", m.column(), m.wide(shape=[LONG]), axis=1)
    yield "GatherND", lambda m: m.op("GatherND", m.wide(shape=[1, LONG]), m.zeros([LONG, 1]))
    yield "OneHot", lambda m: m.op("OneHot", m.row(), m.constant([LONG]), m.constant([0, 1]))


def _fillers() -> Iterator[tuple[str, Family]]:
    yield "ConstantOfShape", lambda m: m.wide()
    yield "ConstantOfShape of bytes", lambda m: m.wide(onnx.TensorProto.INT8, [HUGE * 8])
    yield "Range", lambda m: m.row(HUGE)
    yield "Expand", lambda m: m.op("Expand", m.constant([1]), m.constant([HUGE]))
    yield "Tile", lambda m: m.op("Tile", m.constant([1, 2]), m.constant([HUGE]))
    yield "Tile to nothing", lambda m: m.op("Tile", m.constant([[1]]), m.constant([HUGE, 0]))
    yield "Pad", lambda m: m.op("Pad", m.constant([[1]]), m.constant([LONG, LONG, 0, 0]))
    yield "Resize", lambda m: m.op("Resize", m.real(m.wide(shape=[1, 1, 4, 4])), "", m.constant([1, 1, 9e3, 9e3], "f"))
    yield "Concat", lambda m: m.op("Concat", *[m.row(1 << 20)] * 1000, axis=0)
    yield "EyeLike", lambda m: m.op("EyeLike", m.wide())
    yield "Trilu", lambda m: m.op("Trilu", m.wide())
    yield "NonZero", lambda m: m.op("NonZero", m.wide())
    yield "CumSum", lambda m: m.op("CumSum", m.wide(), m.constant(0))
    yield "Transpose", lambda m: m.op("Transpose", m.wide(), perm=[1, 0])
    yield "Cast", lambda m: m.real(m.wide())
    yield "Neg", lambda m: m.op("Neg", m.wide())
    yield "ReduceSum", lambda m: m.op("ReduceSum", m.wide(), m.constant([0]))
    yield "Softmax", lambda m: m.op("Softmax", m.real(m.wide()))
    yield "TopK", lambda m: m.op("TopK", m.wide(), m.constant([LONG]), outputs=2)
    yield "Split", lambda m: m.op("Split", m.wide(), outputs=2, num_outputs=2)
    yield "Slice", lambda m: m.op("Slice", m.wide(), m.constant([1]), m.constant([LONG]))
    yield "ScatterND", lambda m: m.op("ScatterND", m.wide(), m.constant([[0, 0]]), m.constant([1]))
    yield (
        "QuantizeLinear",
        lambda m: m.op("QuantizeLinear", m.real(m.wide()), m.constant(0.1, "f"), m.constant(0, "uint8")),
    )
    yield (
        "DequantizeLinear",
        lambda m: m.op(
            "DequantizeLinear", m.wide(onnx.TensorProto.UINT8), m.constant(0.1, "f"), m.constant(0, "uint8")
        ),
    )
    picture = [1, 1, 1, 1]
    yield "Conv", lambda m: m.op("Conv", m.real(m.wide(shape=picture)), m.real(m.wide(shape=picture)), pads=[LONG] * 4)
    yield (
        "ConvTranspose",
        lambda m: m.op(
            "ConvTranspose", m.real(m.wide(shape=[1, 1, 2, 2])), m.real(m.wide(shape=picture)), strides=[LONG] * 2
        ),
    )
    yield (
        "MaxPool",
        lambda m: m.op("MaxPool", m.real(m.wide(shape=[1, 1, LONG, LONG])), kernel_shape=[2, 2], strides=[1, 1]),
    )
    yield "AffineGrid", lambda m: m.op("AffineGrid", m.real(m.wide(shape=[1, 2, 3])), m.constant([1, 1, LONG, LONG]))
    yield (
        "GridSample",
        lambda m: m.op("GridSample", m.real(m.wide(shape=picture)), m.real(m.wide(shape=[1, LONG, LONG, 2]))),
    )
    yield "CenterCropPad", lambda m: m.op("CenterCropPad", m.constant([[1]]), m.constant([LONG, LONG]))
    yield "DepthToSpace", lambda m: m.op("DepthToSpace", m.real(m.wide(shape=[1, 4, LONG, LONG])), blocksize=2)
    yield "RandomNormal", lambda m: m.op("RandomNormal", shape=[LONG, LONG])
    yield "HannWindow", lambda m: m.op("HannWindow", m.constant(HUGE))
    yield (
        "MelWeightMatrix",
        lambda m: m.op(
            "MelWeightMatrix", *map(m.constant, (LONG, 2 * LONG, LONG)), m.constant(1.0, "f"), m.constant(9e3, "f")
        ),
    )
    yield "DFT", lambda m: m.op("DFT", m.real(m.wide(shape=[1, 4, 1])), m.constant(HUGE), m.constant(1))
    yield (
        "Col2Im",
        lambda m: m.op("Col2Im", m.real(m.wide(shape=[1, 1, 1])), m.constant([LONG, LONG]), m.constant([LONG, LONG])),
    )


def _again(step: Callable[[Maker, str], str], times: int = DOUBLINGS, size: int = 1) -> Family:
    return lambda m: _steps(m, step, times, m.op("Expand", m.constant([2]), m.constant([size])))


def _steps(m: Maker, step: Callable[[Maker, str], str], times: int, name: str) -> str:
    for _ in range(times):
        name = step(m, name)
    return name


def _chains() -> Iterator[tuple[str, Family]]:
    yield "Concat doubled", _again(lambda m, x: m.op("Concat", x, x, axis=0))
    yield "Tile doubled", _again(lambda m, x: m.op("Tile", x, m.constant([2])))
    yield "Pad doubled", _again(lambda m, x: m.op("Pad", x, m.op("Concat", m.constant([0]), m.op("Shape", x), axis=0)))
    yield "Gather doubled", _again(lambda m, x: m.op("Gather", x, m.op("Tile", m.op("Sub", x, x), m.constant([2]))))
    yield "Mul squared", _again(lambda m, x: m.op("Mul", x, x))
    yield "Unsqueeze and Add", _again(lambda m, x: m.op("Add", x, m.op("Unsqueeze", x, m.constant([-1]))), 10, 8)
    for kind in ("Add", "Equal", "Div", "Where"):
        yield f"many middling {kind}", lambda m, kind=kind: _many(m, kind)
    yield "many small", _again(lambda m, x: m.op("Add", x, m.constant([1])), 1500, 1 << 12)
    yield "many turned", _again(_turned, 500, 1 << 18)
    yield "many turned in three", _again(lambda m, x: _turned(m, x, [2, 4, -1], [2, 0, 1]), 500, 1 << 18)
    yield "many turned and negated", _again(lambda m, x: m.op("Neg", _turned(m, x)), 250, 1 << 18)
    yield "many turned and added", _again(lambda m, x: m.op("Add", _turned(m, x), m.constant([1])), 250, 1 << 18)
    yield "many turned of few", _again(_turned, 1000, 1 << 10)
    yield "many turned at once", _turned_at_once
    yield "many computed turned", lambda m: _steps(m, _turned, 250, _computed(m, 1 << 18))
    yield "many turned while computed", lambda m: _steps(m, _turned_apart, 250, _computed(m, 1 << 18))


def _turned(m: Maker, x: str, shape: Sequence[int] = (2, -1), perm: Sequence[int] = (1, 0)) -> str:
    turned = m.op("Transpose", m.op("Reshape", x, m.constant(list(shape))), perm=list(perm))
    return m.op("Reshape", turned, m.constant([-1]))


def _turned_apart(m: Maker, x: str) -> str:
    return m.op("Relu", _turned(m, x))


def _computed(m: Maker, size: int) -> str:
    """A vector that depends on the model's input."""
    return m.op("Expand", m.op("ReduceMax", "x", keepdims=0), m.constant([size]))


def _turned_at_once(m: Maker) -> str:
    """Large constants, each of which is turned by itself."""
    found = m.op("Expand", m.constant([2]), m.constant([1 << 18]))
    return m.op("Max", *(_turned(m, m.op("Add", found, m.constant([number]))) for number in range(100)))


def _many(m: Maker, kind: str) -> str:
    row, column, found = m.row(12_000), m.column(12_000), []
    test = m.op("Cast", column, to=BOOL)
    for _ in range(300):
        made = m.op("Where", test, row, column) if kind == "Where" else m.op(kind, row, column)
        found.append(m.op("ReduceMax", m.op("Cast", made, to=INT), keepdims=0))
    return m.op("Max", *found)


FAMILIES: Mapping[str, Family] = dict([*_pairs(), *_fillers(), *_chains()])


def _ended(m: Maker, result: str, x: str) -> str:
    return m.op("Add", x, m.op("ReduceMax", m.real(result), keepdims=0))


def plain(family: Family) -> bytes:
    """A model that adds a number of what grows to its input."""
    m = Maker()
    return _model(m.nodes, _ended(m, family(m), "x"))


def _graph(nodes: list[onnx.NodeProto], result: str) -> onnx.GraphProto:
    return helper.make_graph(nodes, "body", [], [helper.make_tensor_value_info(result, FLOAT, None)])


def in_branches(family: Family) -> bytes:
    """The same within both branches of an If."""
    m, sides = Maker(), []
    for side in "ab":
        inner = Maker(side)
        sides.append(_graph(inner.nodes, _ended(inner, family(inner), "x")))
        sides[-1].node.extend(inner.nodes[len(sides[-1].node) :])
    test = m.op("Greater", m.op("ReduceMax", "x", keepdims=0), m.constant(0, "f"))
    return _model(m.nodes, m.op("If", test, then_branch=sides[0], else_branch=sides[1]))


def in_loop(family: Family) -> bytes:
    """The same within a loop."""
    m, inner = Maker(), Maker("a")
    again = inner.op("Identity", "c")
    result = _ended(inner, family(inner), "s")
    ports = [("i", INT, []), ("c", BOOL, []), ("s", FLOAT, [2])]
    outputs = [helper.make_tensor_value_info(again, BOOL, []), helper.make_tensor_value_info(result, FLOAT, None)]
    body = helper.make_graph(inner.nodes, "body", [helper.make_tensor_value_info(*port) for port in ports], outputs)
    return _model(m.nodes, m.op("Loop", m.constant(3), "", "x", body=body))


def in_functions(family: Family) -> bytes:
    """The same within a function that another one calls twice."""
    inner = Maker("a")
    result = _ended(inner, family(inner), "x")
    imports = [helper.make_opsetid("", 20), helper.make_opsetid(_OWN, 1)]
    deep = helper.make_function(_OWN, "deep", ["x"], [result], inner.nodes, imports)
    calls = [helper.make_node("deep", [one], [other], domain=_OWN) for one, other in ("xy", "yz")]
    high = helper.make_function(_OWN, "high", ["x"], ["z"], calls, imports)
    return _model([helper.make_node("high", ["x"], ["y"], domain=_OWN)], "y", [deep, high])


def _model(
    nodes: list[onnx.NodeProto],
    result: str,
    functions: list[onnx.FunctionProto] | None = None,
    inputs: Mapping[str, Sequence[int | str]] | None = None,
) -> bytes:
    ports = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in (inputs or {"x": [2]}).items()]
    graph = helper.make_graph(nodes, "g", ports, [helper.make_tensor_value_info(result, FLOAT, None)])
    imports = [helper.make_opsetid("", 20), helper.make_opsetid(_OWN, 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10, functions=functions or [])
    return bytes(model.SerializeToString())


PLACES: Mapping[str, Callable[[Family], bytes]] = {
    "plain": plain, "branches": in_branches, "loop": in_loop, "functions": in_functions
}  # fmt: skip


# -- dimensions ----------------------------------------------------------------------------------------------------


def _deeper(step: Callable[[Maker, str], str], times: int, first: str = "x") -> Family:
    """Steps that each give a tensor of more dimensions."""

    def family(m: Maker) -> str:
        name = m.op("Unsqueeze", first, m.constant([0]))
        for _ in range(times):
            name = step(m, name)
        return name

    return family


def _stacked(m: Maker, x: str, op: str = "Loop") -> str:
    """What a loop of one turn collects."""
    inner = Maker(f"{m.prefix}{len(m.nodes)}_")
    if op == "Scan":
        inner.op("Relu", "element")
        element = helper.make_tensor_value_info("element", FLOAT, None)
        body = helper.make_graph(inner.nodes, "body", [element], [_port(inner.nodes[-1].output[0])])
        return m.op("Scan", m.op("Unsqueeze", x, m.constant([0])), body=body, num_scan_inputs=1)
    again, made = inner.op("Identity", "going"), inner.op("Relu", x)
    ports = [helper.make_tensor_value_info("turn", INT, []), helper.make_tensor_value_info("going", BOOL, [])]
    outputs = [helper.make_tensor_value_info(again, BOOL, []), _port(made)]
    return m.op("Loop", m.constant(1), "", body=helper.make_graph(inner.nodes, "body", ports, outputs))


def _port(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, FLOAT, None)


def _nested(deep: int) -> Family:
    """Loops within loops, each of which collects what the one within it does."""

    def family(m: Maker) -> str:
        if not deep:
            return m.op("Relu", "x")
        inner = Maker(f"{m.prefix}{deep}_")
        turn, going = f"turn{inner.prefix}", f"going{inner.prefix}"
        again, made = inner.op("Identity", going), _nested(deep - 1)(inner)
        made = inner.op("Unsqueeze", made, inner.constant([0, 1, 2]))
        ports = [helper.make_tensor_value_info(turn, INT, []), helper.make_tensor_value_info(going, BOOL, [])]
        outputs = [helper.make_tensor_value_info(again, BOOL, []), _port(made)]
        return m.op("Loop", m.constant(1), "", body=helper.make_graph(inner.nodes, "body", ports, outputs))

    return family


def _whole(m: Maker, x: str) -> str:
    return m.op("Cast", x, to=INT)


def _gathered(m: Maker, x: str) -> str:
    return m.op("Gather", x, _whole(m, x))


def _gathered_nd(m: Maker, x: str) -> str:
    return m.op("GatherND", x, m.op("Unsqueeze", _whole(m, x), m.constant([-1])))


def _hot(m: Maker, x: str) -> str:
    return m.op("OneHot", _whole(m, x), m.constant([1]), m.constant([0.0, 1.0], "float32"))


def _raised(m: Maker, x: str) -> str:
    return m.op("Unsqueeze", x, m.constant([0]))


def _in_sequence(m: Maker, x: str) -> str:
    return m.op("ConcatFromSequence", m.op("SequenceConstruct", x), axis=0, new_axis=1)


def _lowered(m: Maker, x: str) -> str:
    """A tensor with one dimension more, and that taken away, by an operator that finds it itself."""
    return m.op("Squeeze", _raised(m, x))


def _vectors() -> Iterator[tuple[str, Family]]:
    """Vectors of ones whose length is told at once, or grows."""
    ones = _again(lambda m, v: m.op("Concat", v, v, axis=0), 27)
    yield "doubled", lambda m: m.op("Div", ones(m), ones(m))
    yield "tiled", lambda m: m.op("Tile", m.op("Shape", "x"), m.constant([HUGE]))
    yield "filled", lambda m: m.wide(shape=[HUGE])
    yield "gathered", lambda m: m.op("Gather", m.op("Shape", "x"), m.wide(shape=[HUGE]))
    yield "padded", lambda m: m.op("Pad", m.op("Shape", "x"), m.constant([0, HUGE]), m.constant(1))
    yield "flat", lambda m: m.op("Reshape", m.wide(shape=[1 << 14, 1 << 14]), m.constant([-1]))
    yield "counted", lambda m: m.row(HUGE)
    yield "found", lambda m: m.op("ReduceMax", m.op("NonZero", m.wide(shape=[HUGE])), m.constant([0]), keepdims=0)
    yield "hundred", lambda m: m.constant([1] * 100)


def _deep() -> Iterator[tuple[str, Family]]:
    for times in (24, 60):
        yield f"Gather {times}", _deeper(_gathered, times)
        yield f"GatherND {times}", _deeper(_gathered_nd, times)
    for times in (100, 1000):
        yield f"OneHot {times}", _deeper(_hot, times)
        yield f"Unsqueeze {times}", _deeper(_raised, times)
        yield f"ConcatFromSequence {times}", _deeper(_in_sequence, times)
        yield f"Einsum {times}", _deeper(lambda m, x: m.op("Einsum", x, "x", equation="...,a->...a"), times)
    yield "Loop", _deeper(_stacked, 80)
    yield "Scan", _deeper(lambda m, x: _stacked(m, x, "Scan"), 80)
    yield "Loops within", _nested(20)
    yield "Unsqueeze at once", lambda m: m.op("Unsqueeze", "x", m.constant(list(range(1000))))
    yield "RandomNormal", lambda m: m.op("RandomNormal", shape=[1] * 100_000)
    yield "Constant", _thick
    for name, vector in _vectors():
        yield f"Reshape by {name}", lambda m, v=vector: m.op("Reshape", "x", v(m))
        yield f"Expand by {name}", lambda m, v=vector: m.op("Expand", "x", v(m))
        yield f"ConstantOfShape by {name}", lambda m, v=vector: m.wide_of(v(m))
        yield f"Unsqueeze by {name}", lambda m, v=vector: m.op("Unsqueeze", "x", v(m))
        yield f"Col2Im by {name}", lambda m, v=vector: m.op("Col2Im", _picture(m), v(m), v(m))
        yield f"MaxUnpool by {name}", _unpooled(vector)


def gathered(times: int, version: int) -> bytes:
    """A chain of Gathers, each of which doubles the dimensions, in an older operator set."""
    nodes = [helper.make_node("Cast", ["x"], ["t0"], to=INT)]
    nodes += [helper.make_node("Gather", [f"t{step}"] * 2, [f"t{step + 1}"]) for step in range(times)]
    nodes.append(helper.make_node("Cast", [f"t{times}"], ["y"], to=FLOAT))
    model = onnx.ModelProto.FromString(_model(nodes, "y", inputs={"x": [1, 1]}))
    del model.opset_import[:]
    model.opset_import.add(version=version)
    return bytes(model.SerializeToString())


def reshaped(kind: str, version: int) -> bytes:
    """A tensor of as many dimensions as elements of the input are not 0, in an older operator set."""
    attributes = {"axes": [0]} if version < 18 else {}
    nodes = [helper.make_node("NonZero", ["x"], ["places"])]
    if version >= 18:
        nodes.append(helper.make_node("Constant", [], ["axes"], value=numpy_helper.from_array(np.array([0]))))
    given = ["places", "axes"] if version >= 18 else ["places"]
    nodes.append(helper.make_node("ReduceMax", given, ["found"], keepdims=0, **attributes))
    nodes.append(helper.make_node("Add", ["found", "one"], ["sizes"]))
    inputs = ["sizes"] if kind == "ConstantOfShape" else ["x", "sizes"]
    nodes.append(helper.make_node(kind, inputs, ["made"]))
    nodes.append(helper.make_node("Transpose", ["made"], ["turned"]))
    nodes.append(helper.make_node("ReduceMax", ["turned"], ["y"], keepdims=0))
    nodes.insert(0, helper.make_node("Constant", [], ["one"], value=numpy_helper.from_array(np.array([1]))))
    model = onnx.ModelProto.FromString(_model(nodes, "y", inputs={"x": [1, 1]}))
    del model.opset_import[:]
    model.opset_import.add(version=version)
    return bytes(model.SerializeToString())


def _picture(m: Maker) -> str:
    return m.op("Unsqueeze", m.op("Unsqueeze", "x", m.constant([0])), m.constant([2]))


def _unpooled(vector: Family) -> Family:
    return lambda m: m.op("MaxUnpool", _picture(m), m.op("Cast", _picture(m), to=INT), vector(m), kernel_shape=[1])


def _thick(m: Maker) -> str:
    return m.op("Constant", value=onnx.TensorProto(data_type=FLOAT, dims=[1] * 10_000, float_data=[1.0]))


DEEP: Mapping[str, Family] = dict(_deep())
"""What comes to have more dimensions than any array has."""

SHALLOW: Mapping[str, Family] = {
    "Unsqueeze": _deeper(_raised, 30),
    "Gather": _deeper(_gathered, 4),
    "Squeeze": _deeper(_lowered, 300),
    "Squeeze of many": _deeper(lambda m, x: m.op("Squeeze", _deeper(_raised, 20, x)(m)), 12),
    "GatherND": _deeper(lambda m, x: m.op("GatherND", m.op("Unsqueeze", x, m.constant([0])), m.zeros([2, 2])), 100),
    "Reshape": _deeper(lambda m, x: m.op("Reshape", x, m.op("Reshape", m.op("Shape", x), m.constant([1]))), 12),
    "Reshape by what is cut": _deeper(
        lambda m, x: m.op("Reshape", x, m.op("Slice", m.op("Tile", m.op("Shape", x), m.constant([9])),
                                             m.constant([0]), m.constant([1]))), 12),
}  # fmt: skip
"""What never has more than 32, as inference knows in the end."""


# -- sizes ---------------------------------------------------------------------------------------------------------

OPEN: Mapping[str, Sequence[int | str]] = {"x": ["b", 3, "h", "w"]}


def _numbers(kinds: Sequence[str], numbers: Sequence[int], steps: int) -> bytes:
    """A vector of a size that each step computes of the last two, which Expand asks for."""
    m = Maker()
    shape = m.op("Shape", "x")
    one, other = (m.op("Gather", shape, m.constant([axis])) for axis in (2, 3))
    for _ in range(steps):
        made = m.op(kinds[0], one, other)
        for kind, number in zip(kinds[1:], numbers, strict=True):
            made = m.op(kind, made, m.constant([number]))
        one, other = made, one
    grown = m.op("Expand", m.op("ReduceMax", "x", keepdims=0), one)
    return _model(m.nodes, grown, inputs=OPEN)


def _repeated(step: Callable[[Maker, str], str], steps: int) -> bytes:
    m, name = Maker(), "x"
    for _ in range(steps):
        name = step(m, name)
    return _model(m.nodes, m.op("Reshape", name, m.constant([0, -1])), inputs=OPEN)


def _sliced(m: Maker, x: str) -> str:
    shape = m.op("Shape", x)
    high, wide = (m.op("Gather", shape, m.constant([axis])) for axis in (2, 3))
    end = m.op("Sub", high, m.op("Div", wide, m.constant([2])))
    return m.op("Slice", x, m.constant([0]), end, m.constant([2]))


def _many_inputs(kind: str, steps: int) -> bytes:
    """Inputs of open sizes, joined one after the other; each is asked for its sizes."""
    m, name, inputs = Maker(), "x", {"x": ["n", "w"]}
    for step in range(steps):
        inputs[f"i{step}"] = [f"s{step}", "w"]
        name = m.op(kind, name, f"i{step}", **({"axis": 0} if kind == "Concat" else {}))
        name = m.op("Reshape", name, m.op("Shape", name))
    return _model(m.nodes, name, inputs=inputs)


SIZES: Mapping[str, Callable[[int], bytes]] = {
    "sums": lambda steps: _numbers(["Add"], [], steps),
    "products": lambda steps: _numbers(["Mul"], [], steps),
    "quotients of sums": lambda steps: _numbers(["Add", "Div"], [3], steps),
    "quotients of products": lambda steps: _numbers(["Mul", "Div"], [7], steps),
    "differences": lambda steps: _numbers(["Sub", "Mul"], [3], steps),
    "largest": lambda steps: _numbers(["Max", "Add"], [1], steps),
    "windows": lambda steps: _repeated(lambda m, x: m.op("MaxPool", x, kernel_shape=[3, 3], strides=[1, 2]), steps),
    "slices": lambda steps: _repeated(_sliced, steps),
    "tiles": lambda steps: _repeated(
        lambda m, x: m.op("Tile", x, m.op("Max", m.op("Shape", "x"), m.constant([1, 1, 1, 1]))), steps
    ),
    "joined": lambda steps: _repeated(lambda m, x: m.op("Concat", x, x, axis=3), min(steps, 60)),
    "inputs joined": lambda steps: _many_inputs("Concat", steps),
    "inputs added": lambda steps: _many_inputs("Add", steps),
}
"""Models by how many steps they have."""


def calls(within: bool, depth: int) -> bytes:
    """Functions that call each other twice, within branches or by themselves."""
    imports = [helper.make_opsetid("", 20), helper.make_opsetid(_OWN, 1)]
    functions = []
    for level in range(depth):
        m = Maker()
        op = {"domain": _OWN} if level + 1 < depth else {}
        kind = f"f{level + 1}" if level + 1 < depth else "Neg"
        if within:
            sides = []
            for side in "ab":
                inner = Maker(side)
                inner.op(kind, inner.op(kind, "x", **op), **op)
                sides.append(_graph(inner.nodes, inner.nodes[-1].output[0]))
            test = m.op("Constant", value=helper.make_tensor("", BOOL, [], [1]))
            result = m.op("If", test, then_branch=sides[0], else_branch=sides[1])
        else:
            result = m.op(kind, m.op(kind, "x", **op), **op)
        functions.append(helper.make_function(_OWN, f"f{level}", ["x"], [result], m.nodes, imports))
    return _model([helper.make_node("f0", ["x"], ["y"], domain=_OWN)], "y", functions)


def handed(size: int, times: int) -> bytes:
    """A function that is called so often, and has a constant of so many bytes, or reads one so often that is given."""
    imports = [helper.make_opsetid("", 20), helper.make_opsetid(_OWN, 1)]
    constant = numpy_helper.from_array(np.zeros(size // 4, np.float32))
    nodes = [helper.make_node("Constant", [], [f"c{number}"]) for number in range(times)]
    for node in nodes:
        node.attribute.add(name="value", ref_attr_name="t", type=onnx.AttributeProto.TENSOR)
    nodes.append(helper.make_node("Max", [node.output[0] for node in nodes], ["m"]))
    nodes += [helper.make_node("ReduceMax", ["m"], ["r"], keepdims=0), helper.make_node("Add", ["x", "r"], ["y"])]
    function = helper.make_function(_OWN, "f", ["x"], ["y"], nodes, imports, ["t"])
    return _model([helper.make_node("f", ["x"], ["y"], domain=_OWN, t=constant)], "y", [function])


# -- channels ------------------------------------------------------------------------------------------------------

BEFORE: Mapping[str, Callable[[Maker], str]] = {
    "MaxPool": lambda m: m.op("MaxPool", "x", kernel_shape=[2, 2]),
    "bytes": lambda m: m.op("DequantizeLinear", "q", *_quantization(m)),
    "Conv": lambda m: m.op("Conv", "few", "kernel", kernel_shape=[1, 1]),
    "DeformConv": lambda m: m.op("DeformConv", "high", "taps", "offsets"),
}
"""What blocks of channels follow, of images and kernels that the file does not hold."""


def _quantization(m: Maker) -> tuple[str, str]:
    return m.constant(0.1, "float32"), m.constant(0, "int8")


def _padded(m: Maker, x: str) -> str:
    return m.op("Pad", x, m.constant([0, 16, 0, 0, 0, 16, 0, 0]))


BEHIND: Mapping[str, Callable[[Maker, str], str]] = {
    **{kind: lambda m, x, kind=kind: m.op(kind, x, m.constant(0.5, "float32"))
       for kind in ("Add", "Mul", "Sub", "Div", "Max", "Min", "PRelu", "Pow")},
    "Pad": _padded,
    "AveragePool": lambda m, x: m.op("AveragePool", x, kernel_shape=[2, 2]),
    "ReduceMean": lambda m, x: m.op("ReduceMean", x, m.constant([2, 3])),
    "LeakyRelu": lambda m, x: m.op("LeakyRelu", x, alpha=0.3),
    "LRN": lambda m, x: m.op("LRN", x, size=3),
    "Resize": lambda m, x: m.op("Resize", x, "", m.constant([1, 1, 2, 2], "float32")),
    "DepthToSpace": lambda m, x: m.op("DepthToSpace", x, blocksize=2),
    "Transpose": lambda m, x: m.op("Transpose", x, perm=[0, 2, 3, 1]),
}  # fmt: skip
"""What runtimes do in blocks of channels, by constants that are made of their number."""


def channels(before: str, behind: str, count: int) -> bytes:
    """An operator behind another one, on an image of so many channels, or by a kernel of so many taps; the result is
    quantized where it is computed from bytes.
    """
    m = Maker()
    result = BEHIND[behind](m, BEFORE[before](m))
    if before == "bytes":
        result = m.op("DequantizeLinear", m.op("QuantizeLinear", result, *_quantization(m)), *_quantization(m))
    shapes = {
        "x": [1, count, 5, 4], "q": [1, count, 5, 4], "few": [1, 2, 5, 4], "kernel": [count, 2, 1, 1],
        "high": [1, 2, count + 1, 4], "taps": [16, 2, count, 1], "offsets": [1, 2 * count, 2, 4],
    }  # fmt: skip
    read = {name for node in m.nodes for name in node.input}
    ports = [_tensor(name, shape) for name, shape in shapes.items() if name in read]
    graph = helper.make_graph(m.nodes, "g", ports, [helper.make_tensor_value_info(result, FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return bytes(model.SerializeToString())


def _tensor(name: str, shape: Sequence[int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, onnx.TensorProto.INT8 if name == "q" else FLOAT, shape)
