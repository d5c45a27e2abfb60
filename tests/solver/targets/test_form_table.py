"""Tables of targets: what a file may say, which lines are about a node, and what is said of one that no form fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutsolve.errors import OptionError
from layoutsolve.ir.graph import Graph, Origin
from layoutsolve.solver import assign
from layoutsolve.solver.statement.objective import Goal
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.targets.target import Target
from layoutsolve.solver.targets.target_file import KNOWN, SHIPPED, SYSTEMS, parsed, shipped
from tests.graphs import GraphBuilder

HEAD = 'name = "mine"\nextends = "onnx"\n'
NHWC = '[[forms]]\noperators = ["Conv"]\ndata = "NHWC"\nkernel = "OHWI"\n'


def read(text: str) -> Target:
    return parsed(f"{HEAD}{text}".encode(), "mine.toml")


def form(**facts: str) -> str:
    """A line about Conv."""
    return '[[forms]]\noperators = ["Conv"]\n' + "".join(f"{name} = {value}\n" for name, value in facts.items())


def test_a_file_in_either_syntax() -> None:
    """TOML and JSON are one format."""
    line = {"operators": ["Conv"], "data": "NHWC", "kernel": "OHWI", "price": 2, "match": {"kernel": ["3x3"]}}
    json = str({"name": "mine", "extends": "onnx", "forms": [line]}).replace("'", '"')
    toml = read(f'{NHWC}price = 2\nmatch = {{ kernel = ["3x3"] }}\n')
    assert parsed(json.encode(), "mine.json") == toml
    assert toml.table is not None
    assert toml.table.lines[0].ports == {"data": "NHWC", "kernel": "OHWI", "out": "NHWC"}


@pytest.mark.parametrize("name", KNOWN)
def test_known_targets(name: str) -> None:
    """Each has its name and another digest, and only layout systems have tables or know no times."""
    target = shipped(name)
    assert target.name == name and shipped(name) is target
    assert sum(shipped(other).digest == target.digest for other in KNOWN) == 1
    assert (target.table is not None) == (name in SYSTEMS and name != "onnx")
    assert target.timed == (name in SHIPPED)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("forms = 1", "forms: it must be a list"),
        ("forms = [1]", "forms[0]: it must be an object"),
        ("[[forms]]\ndata = 'NHWC'", "forms[0].operators: it is missing"),
        ("[[forms]]\noperators = []", "forms[0].operators: it is empty"),
        ("[[forms]]\noperators = ['Convolution']\ndata = 'N'", "forms[0].operators: unknown 'Convolution'"),
        ("[[forms]]\noperators = ['Conv']", "forms[0]: it has neither letters (data, kernel, bias, out) nor a policy"),
        (form(date="'NHWC'"), "forms[0].date: there is no such field (did you mean 'data'"),
        (form(data="'NHWc'"), "forms[0].data: 'NHWc' is no order of dimensions: 'c' is neither"),
        (form(data="'NHWC'", price="-1"), "forms[0].price: it must be a whole number from 0 to 100"),
        (form(data="'NHWC'", price="1.5"), "forms[0].price: it must be a whole number"),
        (form(policy="'none'"), "forms[0].policy: unknown 'none': use any, follow, source"),
        (form(policy="'any'", data="'NHWC'"), "forms[0].policy: a line is either a policy or a form"),
        (form(data="'NHWC'", match="1"), "forms[0].match: it must be an object"),
        (form(data="'NHWC'", match="{ kernel = '3x3' }"), "forms[0].match.kernel: it must be a list"),
        (form(data="'NHWC'", match="{ kernel = ['3*3'] }"), "forms[0].match.kernel: '3*3' is no size of a window"),
        (form(data="'NHWC'", match="{ dtype = ['float'] }"), "forms[0].match.dtype: unknown 'float'"),
        (form(data="'NHWC'", match="{ depthwise = 1 }"), "forms[0].match.depthwise: it must be true or false"),
        (form(data="'NHWC'", match="{ least = { width = 1 } }"), "forms[0].match.least.width: there is no such field"),
        (form(data="'NHWC'", match="{ after = [1] }"), "forms[0].match.after: it must be a text"),
        ("name = 1979-05-27", "it is no TOML"),
        ("[forms", "it is no TOML"),
    ],
)
def test_what_is_wrong_is_named(text: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        read(text)
    assert str(caught.value).startswith(f"target 'mine.toml': {message}")


LINE: Mapping[str, Any] = {
    "operators": ["Conv"],
    "data": "NHWC",
    "kernel": "OHWI",
    "match": {"kernel": ["3x3"], "dtype": ["int8"], "name": ["x*"], "least": {"channels": 1}, "after": ["x"]},
}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*LINE, "price"]), inner, max_size=4),
    max_leaves=8,
)


def mutations(fact: object, anything: Any) -> Iterator[Any]:
    """The same with one of its parts replaced by anything, at any depth."""
    yield anything
    if isinstance(fact, Mapping):
        for key in fact:
            yield from ({**fact, key: inner} for inner in mutations(fact[key], anything))
    elif isinstance(fact, list):
        yield [anything, *fact]


@pytest.mark.slow
@settings(max_examples=30, deadline=None, derandomize=True)
@given(ANYTHING)
def test_any_line_is_one_or_one_error(anything: object) -> None:
    import json

    for line in mutations(LINE, anything):
        try:
            parsed(json.dumps({"name": "x", "extends": "onnx", "forms": [line]}).encode(), "mine.json")
        except OptionError as error:
            assert str(error).startswith("target 'mine.json': forms") and str(error).isprintable()


def convolutions(*kernels: int, channels: int = 16, dtype: str = "float32") -> Graph:
    """A chain of convolutions in the layout of ONNX."""
    builder = GraphBuilder()
    x = builder.input(1, channels, 12, 12)
    for number, size in enumerate(kernels):
        weights = builder.weights(channels, channels, size, size)
        x = builder.op("Conv", x, weights, shape=(1, channels, 12, 12), pads=[size // 2] * 4)
        builder.nodes[-1] = replace(builder.nodes[-1], origin=Origin(0, number, "Conv", f"block{number}/conv"))
    return builder.graph(x)


def called(graph: Graph, target: Target) -> list[str]:
    """The kinds of the convolutions that a target chooses."""
    found = assign(graph, target=target)
    assert found.status == "optimal"
    rules = [
        (number, found.rules[operator.node])
        for number, operator in enumerate(found.problem.operators)
        if not operator.end
    ]
    kinds = [rule.ways[found.row(number).form].kind for number, rule in rules]
    return [str(kind).partition(",")[0] for kind in kinds]


FORM = "NHWC OHWI NHWC"


@pytest.mark.parametrize(
    ("match", "wanted"),
    [
        ("{ kernel = ['3x3'] }", [True, False, True]),
        ("{ kernel = ['1x1', '5x5'] }", [False, True, False]),
        ("{ name = ['block0/*', '*2/conv'] }", [True, False, True]),
        ("{ name = ['conv'] }", [False, False, False]),
        ("{ dtype = ['float32'] }", [True, True, True]),
        ("{ dtype = ['int8'] }", [False, False, False]),
        ("{ depthwise = false }", [True, True, True]),
        ("{ depthwise = true }", [False, False, False]),
        ("{ least = { channels = 16 }, most = { produced = 16 } }", [True, True, True]),
        ("{ least = { channels = 17 } }", [False, False, False]),
        ("{ most = { produced = 15 } }", [False, False, False]),
        ("{ after = ['t2'] }", [False, True, True]),
        ("{ before = ['t4'] }", [True, True, False]),
        ("{ after = ['t2'], before = ['t4'] }", [False, True, False]),
        ("{ after = ['t0'] }", [True, True, True]),
    ],
)
def test_which_nodes_a_line_is_about(match: str, wanted: list[bool]) -> None:
    target = read(form(data="'NHWC'", kernel="'OHWI'", match=match) + form(data="'NCHW'", kernel="'OIHW'"))
    # with both forms the first is chosen where it is the only one, so the second one costs
    only = read(form(data="'NHWC'", kernel="'OHWI'", match=match) + form(data="'NCHW'", kernel="'OIHW'", price="50"))
    assert [kind == FORM for kind in called(convolutions(3, 1, 3), only)] == wanted
    assert len(called(convolutions(3, 1, 3), target)) == 3


def test_a_cut_at_no_tensor() -> None:
    target = read(form(data="'NHWC'", kernel="'OHWI'", match="{ after = ['image'] }"))
    with pytest.raises(OptionError, match="cuts the graph at 'image', but no tensor is called so"):
        assign(convolutions(3), target=target)


def test_what_fits_no_form() -> None:
    """Blocks that do not divide fall back to the next line; where there is none that is an error, with the reason."""
    blocked = form(data="'NCHW16c'", kernel="'OIHW16i16o'")
    assert called(convolutions(3), read(blocked)) == ["NCHW16c OIHW16i16o NCHW16c"]
    with pytest.raises(OptionError, match="no form of the target fits Conv of Conv#0: 20 channels are no whole blocks"):
        assign(convolutions(3, channels=20), target=read(blocked))
    plain = form(data="'NCHW'", kernel="'OIHW'", price="4")
    assert called(convolutions(3, channels=20), read(blocked + plain)) == ["NCHW OIHW NCHW"]
    for policy in ("'any'", "'source'"):
        found = assign(convolutions(3, channels=20), target=read(blocked + form(policy=policy)))
        assert found.price.transposes == 0


def test_letters_of_an_input_that_is_not_there() -> None:
    builder = GraphBuilder()
    graph = builder.graph(builder.relu(builder.input(1, 8, 8, 4)))
    letters = "[[forms]]\noperators = ['Relu']\ndata = 'NHWC'\n"
    assert assign(graph, target=read(letters)).price.transposes == 0
    with pytest.raises(OptionError, match=r"no form of the target fits Relu of .*: it has no kernel"):
        assign(graph, target=read(f"{letters}kernel = 'OHWI'\n"))


def test_a_policy_ends_the_lines() -> None:
    """What is behind it is not about these operators any more."""
    target = read(form(policy="'any'", match="{ kernel = ['1x1'] }") + form(data="'NHWC'", kernel="'OHWI'"))
    assert [kind == FORM for kind in called(convolutions(3, 1, 3), target)] == [True, False, True]


def test_source_keeps_the_layouts_of_the_source() -> None:
    """Operators that could follow are pinned, so that data are moved to them."""
    builder = GraphBuilder()
    x = builder.relu(builder.conv(builder.input(1, 8, 8, 4), 4, 3))
    graph = builder.graph(builder.conv(x, 4, 3))
    follows = assign(graph, target=shipped("onnx"))
    pinned = assign(graph, target=read("[[forms]]\noperators = ['Relu']\npolicy = 'source'\n"))
    assert (follows.price.transposes, pinned.price.transposes) == (2, 4)
    everything = assign(graph, target=read("[[forms]]\noperators = ['*']\npolicy = 'source'\n"))
    assert everything.price.transposes == 4


def test_an_operator_without_letters_is_fixed_as_images_are_in_the_source() -> None:
    """A Relu in NCHW between channels-last ends takes two Transposes, and in NHWC none."""
    builder = GraphBuilder()
    graph = builder.graph(builder.relu(builder.input(1, 8, 8, 4)))
    counts = [
        assign(graph, target=read(f"[[forms]]\noperators = ['Relu']\ndata = '{text}'\n")).price.transposes
        for text in ("NCHW", "NHWC")
    ]
    assert counts == [2, 0]


def test_prices() -> None:
    """A form is taken where it costs no more than what it saves."""
    dear = form(data="'NCHW'", kernel="'OIHW'", price="3") + form(data="'NHWC'", kernel="'OHWI'")
    cheap = form(data="'NCHW'", kernel="'OIHW'", price="1") + form(data="'NHWC'", kernel="'OHWI'")
    found = [assign(convolutions(3), target=read(text)).price for text in (dear, cheap)]
    assert [(each.transposes, each.hidden) for each in found] == [(2, 0), (0, 1)]


def test_a_table_belongs_to_the_digest() -> None:
    targets = [read(""), read(NHWC), read(f"{NHWC}price = 1\n"), read(NHWC + NHWC)]
    assert len({target.digest for target in targets}) == 4
    assert Statement(convolutions(3), goal=Goal(target=targets[1])).target is targets[1]
