"""Forms in letters: what texts say, and that every operator computes the same in every form that they generate."""

from __future__ import annotations

from dataclasses import replace

import pytest

from layoutsolve.emit import apply
from layoutsolve.ir.functions import PLAN
from layoutsolve.ir.graph import Shape
from layoutsolve.solver.statement.objective import Goal
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.targets.form_table import Line, Table, based
from layoutsolve.solver.targets.target import Target
from layoutsolve.solver.targets.target_file import shipped
from layoutsolve.solver.theory.letters import Letter, letters
from layoutsolve.solver.theory.node_rule import known_rule
from layoutsolve.solver.theory.rule import Site, operator_name
from tests.graphs import feeds, run
from tests.solver.cases import CASES, Random, graph_of
from tests.solver.theory.test_rules import FEWER, SEEDS, check, random_ends, samples

LETTERED = sorted(
    operator
    for operator in CASES
    if any(
        (rule := known_rule(Site(graph, node))) is not None and rule.letters and node.op == operator
        for graph in (graph_of(operator, seed)[0] for seed in SEEDS)
        for node in graph.nodes
    )
)
"""The operators whose dimensions have letters."""

OTHERS = ["Add", "Clip", "Concat", "LayerNormalization", "Mul", "Pad", "Relu", "Resize", "Softmax", "Tile"]
"""Some whose dimensions have none but those of the source's images."""


def target_of(*lines: Line) -> Target:
    """A target with a table."""
    return replace(shipped("onnx"), table=Table(lines))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("NHWC", "N H W C"),
        ("NCHW16c", "N C H W C16"),
        ("OIHW4i16o4i", "O I H W I4 O16 I4"),
        ("O", "O"),
    ],
)
def test_texts(text: str, found: str) -> None:
    wanted = [Letter(each[0], int(each[1:] or 0)) for each in found.split()]
    assert list(letters(text)) == wanted


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it must have a letter"),
        ("16c", "it must have a letter"),
        ("NCHWc", "'c' is neither"),
        ("N C", "' C' is neither"),
        ("NCHW1c", "one element"),
        ("NCHW0c", "'0c' is neither"),
        ("NCHC", "more than once"),
        ("NHW4c", "not the dimension itself"),
        ("N" + "2n" * 40, "at most"),
        ("ÑCHW", "'ÑCHW' is neither"),
    ],
)
def test_texts_that_say_nothing(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        letters(text)


def permuted(random: Random, plain: str, shape: Shape, blocked: bool) -> str:
    """The letters in a random order, perhaps with blocks of one."""
    text = "".join(random.permutation(list(plain)))
    sizes = [(letter, size) for letter, dim in zip(plain, shape, strict=True) for size in (2, 3) if dim in (size, 6)]
    if not blocked or not sizes:
        return text
    letter, size = sizes[int(random.integers(len(sizes)))]
    place = int(random.integers(text.index(letter) + 1, len(text) + 1))
    return f"{text[:place]}{size}{letter.lower()}{text[place:]}"


def lines_of(random: Random, site: Site) -> list[Line]:
    """Some random forms of an operator, the last ones in blocks, and the one of ONNX, which always fits."""
    rule = based(site, known_rule(site))
    ports = {"data": 0, "kernel": 1} if 1 in rule.inputs else {"data": 0}
    shapes = {name: site.required(number).shape for name, number in ports.items()} | {"out": site.output().shape}
    plain = {name: rule.letters[rule.inputs.index(number)] for name, number in ports.items()}
    plain["out"] = rule.letters[len(rule.inputs)]
    op, found = (operator_name(site.node),), list[Line]()
    for number in range(5):
        texts = {name: permuted(random, plain[name], shapes[name], number > 1) for name in plain}
        found.append(Line(op, texts, price=int(random.integers(0, 3))))
    return [*found, Line(op, {"out": plain["out"]}, price=3)]


def run_rows(operator: str, seed: int) -> set[str]:
    """Run every row of every form: rewritten on rearranged inputs it computes the original, rearranged.

    Returns what was called.
    """
    graph, random = graph_of(operator, seed)
    site = next(Site(graph, node) for node in graph.nodes if operator_name(node) == operator)
    target = target_of(*lines_of(random, site))
    boundary, permutations = random_ends(graph, random)
    data = feeds(graph, seed)
    truth, called = run(graph, data), set[str]()
    for assignment in samples(Statement(graph, boundary, Goal(target=target)), random):
        check(graph, assignment, permutations, data, truth)
        called.update(node.op for node in apply(assignment).nodes if node.domain == PLAN)
    return called


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("operator", LETTERED)
def test_rows(operator: str, seed: int) -> None:
    run_rows(operator, seed)


@pytest.mark.members(7)
@pytest.mark.parametrize("operator", LETTERED)
def test_rows_in_blocks(operator: str) -> None:
    """Forms of ends in another order are there, and such in blocks."""
    called = {name for seed in SEEDS for name in run_rows(operator, seed)}
    assert any(character.isdigit() for name in called for character in name.partition("_")[2])
    assert all(name.partition("_")[0] == operator for name in called)


@pytest.mark.members(7)
@pytest.mark.parametrize("operator", OTHERS)
def test_rows_without_letters(operator: str) -> None:
    """An operator that takes any layout may be fixed to one."""
    assert {name for seed in FEWER for name in run_rows(operator, seed)}
