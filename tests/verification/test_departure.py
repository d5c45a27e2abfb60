"""One fault in a written model, whatever it is and wherever it lies, is found in its operator of the source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import layoutsolve
from experiments.make.demo import mobilenet
from layoutsolve import Conversion
from layoutsolve.reporting.sections import verified
from layoutsolve.verification.layer_accuracy import Inspection
from tests.builder import Builder, Quant
from tests.frontend.passes.test_infinities import masked
from tests.random_models import network

FAULTS = 2
"""How many faults are tried in each network."""


def faulty(conversion: Conversion, random: np.random.Generator) -> Iterator[tuple[Conversion, int]]:
    """The conversion with one operator or one constant that is wrong, and which operator of the source it belongs to.

    Values that are moved between operators belong to none.
    """
    graph = conversion.model.graph
    types = {info.name: info.type.tensor_type.elem_type for info in (*graph.value_info, *graph.output)}
    floats = {item.name for item in graph.initializer if item.data_type == onnx.TensorProto.FLOAT}
    readers = [name for node in graph.node for name in node.input]
    for number in random.permutation(len(graph.node)).tolist():
        node = graph.node[number]
        origin = conversion.origins.get(node.name)
        if origin is None or origin.subgraph or node.op_type in ("If", "Loop"):
            continue
        made = onnx.ModelProto()
        made.CopyFrom(conversion.model)
        constants = [name for name in node.input if name in floats and readers.count(name) == 1]
        if constants:
            _change(made.graph, constants[0])
        elif types.get(node.output[0]) == onnx.TensorProto.FLOAT:
            _disturb(made.graph, number)
        else:
            continue
        yield replace(conversion, model=made), origin.index


def _change(graph: onnx.GraphProto, name: str) -> None:
    (tensor,) = [item for item in graph.initializer if item.name == name]
    data = numpy_helper.to_array(tensor)
    tensor.CopyFrom(numpy_helper.from_array((data * 1.7 + 0.3).astype(data.dtype), name))


def _disturb(graph: onnx.GraphProto, number: int) -> None:
    """What an operator gives is a little more than it is."""
    node = graph.node[number]
    kept, node.output[0] = node.output[0], f"fault/{node.output[0]}"
    wrong = [
        helper.make_node("Mul", [node.output[0], "fault/factor"], ["fault/product"]),
        helper.make_node("Add", ["fault/product", "fault/more"], [kept]),
    ]
    graph.initializer.extend(
        numpy_helper.from_array(np.array(value, np.float32), f"fault/{name}")
        for name, value in (("factor", 1.4), ("more", 0.25))
    )
    after = [*graph.node[: number + 1], *wrong, *graph.node[number + 1 :]]
    del graph.node[:]
    graph.node.extend(after)


def inspected(source: bytes, conversion: Conversion) -> Inspection:
    found = layoutsolve.verify(source, conversion, tensors=True)
    assert found.inspection is not None and (found.inspection.departure is None or not found.passed)
    return found.inspection


ENDS = {"inputs": "nchw", "outputs": "nchw"}
WAYS: tuple[dict[str, object], ...] = ({}, ENDS, {"quant": "float"}, {"inputs": "free"})


@pytest.mark.members(1)
@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("seed", range(len(WAYS)))
def test_a_fault_is_named(seed: int) -> None:
    """Without one nothing departs. A fault that is not found makes no difference to any output, or next to none, as
    that of a layer which gives one number nearly everywhere.
    """
    source = network(seed).source
    conversion = layoutsolve.convert(source, **WAYS[seed % len(WAYS)])  # type: ignore[arg-type]
    clean = layoutsolve.verify(source, conversion, tensors=True)
    assert clean.inspection is not None and clean.inspection.departure is None and clean.inspection.compared
    found = 0
    for broken, index in faulty(conversion, np.random.default_rng(seed)):
        told = layoutsolve.verify(source, broken, tensors=True)
        assert told.inspection is not None
        departure = told.inspection.departure
        if departure is None:
            for one, other in zip(told.outputs, clean.outputs, strict=True):
                assert one.distance.mean <= other.distance.mean + 0.01, one
            continue
        assert index in (departure.index, *(int(other.rpartition("#")[2]) for other in departure.others))
        assert not told.passed and f"operator {departure.index} {departure.operator} " in str(told)
        assert 'class="soft"' in str(verified(clean)) and 'class="soft"' not in str(verified(told))
        found += 1
        if found == FAULTS:
            break
    assert found


@pytest.mark.members(2)
@pytest.mark.parametrize("operator", [2, 10, 18, 26])
def test_one_channel_of_many_is_found(operator: int) -> None:
    """One that is wrong of 256 is less than a hundredth of the numbers that an operator gives."""
    source = mobilenet()
    conversion = layoutsolve.convert(source, target="portable")
    made = onnx.ModelProto()
    made.CopyFrom(conversion.model)
    nodes = [node for node in made.graph.node if node.op_type == "Conv"]
    (conv,) = [node for node in nodes if conversion.origins[node.name].index == operator]
    (stored,) = [node.input[0] for node in made.graph.node if node.output[0] == conv.input[1]]
    (tensor,) = [item for item in made.graph.initializer if item.name == stored]
    data = numpy_helper.to_array(tensor).copy()
    lengths = np.abs(data.astype(np.float64) - np.median(data)).reshape(len(data), -1).sum(1)
    data[lengths.argmax()] = np.iinfo(data.dtype).max
    tensor.CopyFrom(numpy_helper.from_array(data, stored))
    found = inspected(source, replace(conversion, model=made))
    assert found.departure is not None and found.departure.index == operator


def scalars() -> bytes:
    """Numbers without dimensions."""
    builder = Builder()
    x, y, z = builder.input("x", ()), builder.tensor("y", ()), builder.tensor("z", ())
    builder.operator("ABS", [x], [y])
    builder.operator("NEG", [y], [z])
    return builder.finish(z)


def test_scalars_do_not_depart() -> None:
    source = scalars()
    conversion = layoutsolve.convert(source)
    found = inspected(source, conversion)
    assert found.departure is None and found.compared == 2
    assert conversion.session().run({"x": np.float32(-2)})["z"].shape == ()


@pytest.mark.parametrize(("adding", "chosen"), [("ADD", False), ("SUB", True)])
def test_infinite_numbers_that_are_added_do_not_depart(adding: str, chosen: bool) -> None:
    """The model has the largest ones in their place. What is finite beside them is looked at as ever."""
    source = masked(adding, "RESHAPE", chosen, also=False, first=False)
    conversion = layoutsolve.convert(source)
    assert inspected(source, conversion).departure is None
    broken = onnx.ModelProto()
    broken.CopyFrom(conversion.model)
    (number,) = [at for at, node in enumerate(broken.graph.node) if node.op_type == "Softmax"]
    _disturb(broken.graph, number)
    assert inspected(source, replace(conversion, model=broken)).departure is not None


@pytest.mark.parametrize("zero", range(4))
@pytest.mark.parametrize("inside", [False, True])
def test_inputs_in_the_middle_between_two_numbers_do_not_depart(zero: int, inside: bool) -> None:
    """LiteRT rounds halves away from zero, ONNX to even: both are right, of what is given and of what is computed."""
    builder = Builder()
    x = builder.input("x", (4,))
    if inside:
        given, x = x, builder.tensor("y", (4,))
        builder.operator("NEG", [given], [x])
    q = builder.tensor("q", (4,), "int8", quant=Quant([0.0625], [zero]))
    builder.operator("QUANTIZE", [x], [q])
    source = builder.finish(q)
    data = {"x": (np.arange(-40, 40).reshape(20, 4) * 0.5 * 0.0625).astype(np.float32)}
    found = layoutsolve.verify(source, layoutsolve.convert(source), data=data)
    assert found.inspection is not None and found.inspection.departure is None and found.inspection.compared


@pytest.mark.members(2)
@pytest.mark.parametrize(
    ("shape", "behind"), [((1, 8), True), ((8, 1), False), ((1, 4, 3), True), ((2, 1, 5), False), ((1, 1, 6), True)]
)
def test_another_shape_departs(shape: tuple[int, ...], behind: bool) -> None:
    """A Transpose that only moves dimensions of size 1 keeps all elements where they are: its shape alone is wrong."""
    build, order = Builder(), tuple(reversed(range(len(shape))))
    x, turned = build.input("x", shape), shape[::-1]
    squared, moved = build.tensor("squared", shape), build.tensor("moved", turned)
    build.operator("SQUARE", [x], [squared])
    build.operator("TRANSPOSE", [squared, build.constant("order", np.array(order, np.int32))], [moved])
    if behind:
        result = build.tensor("result", turned)
        build.operator("NEG", [moved], [result])
        moved = result
    source = build.finish(moved)
    right = layoutsolve.convert(source)
    assert layoutsolve.verify(source, right).verdict == "pass"
    places = [at for at, node in enumerate(right.model.graph.node) if node.op_type in ("Transpose", "Reshape")]
    assert places == list(range(places[0], places[-1] + 1))
    data = np.arange(np.prod(shape)).reshape(shape)
    for other in permutations(range(len(shape))):
        found = data.transpose(other)
        if found.shape == turned and np.array_equal(found, data.transpose(order)):
            continue
        made = onnx.ModelProto()
        made.CopyFrom(right.model)
        first, last = (made.graph.node[at] for at in (places[0], places[-1]))
        moves = helper.make_node("Transpose", [first.input[0]], [last.output[0]], name=last.name, perm=other)
        last.CopyFrom(moves)
        del made.graph.node[places[0] : places[-1]]
        told = layoutsolve.verify(source, replace(right, model=made))
        assert told.verdict == "FAIL" and told.inspection is not None and told.inspection.departure is not None, other
