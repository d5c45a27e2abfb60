"""Small changes of code: one operator, condition, number or result of a syntax tree becomes another one."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from experiments.fuzz import instrumented

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.MatMult: ast.Mult,
}  # fmt: skip
_BOOLEANS: dict[type[ast.boolop], type[ast.boolop]] = {ast.And: ast.Or, ast.Or: ast.And}

Change = Callable[[], None]


@dataclass(frozen=True)
class Place:
    """One place of a file and what is changed there: its line, the kind of change and which of that kind at the same
    place, and the block that it stands in.
    """

    path: str
    number: int
    line: int
    kind: str
    block: int


def changes(tree: ast.Module) -> Iterator[tuple[ast.AST, ast.stmt, str, Change]]:
    """All changes of a file: the node, the statement around it, the kind of change, and what makes it in the tree."""
    yield from _of_statements(tree.body)


def _of_statements(body: list[ast.stmt]) -> Iterator[tuple[ast.AST, ast.stmt, str, Change]]:
    for place, statement in enumerate(list(body)):
        if isinstance(statement, (ast.Import, ast.ImportFrom)) or _is_typing(statement):
            continue
        for field, value in ast.iter_fields(statement):
            inner = value if isinstance(value, list) else [value]
            if field in ("annotation", "returns", "type_params", "decorator_list"):
                continue
            if inner and isinstance(inner[0], ast.stmt):
                yield from _of_statements(inner)
                continue
            for each in inner:
                if isinstance(each, (ast.ExceptHandler, ast.match_case)):
                    yield from _of_statements(each.body)
                elif isinstance(each, ast.AST):
                    for node, kind, change in _of_expression(each):
                        yield node, statement, kind, change
        if isinstance(statement, (ast.If, ast.While)):
            yield statement.test, statement, "condition", _setter(statement, "test", _not(statement.test))
        if _can_go(statement):
            yield statement, statement, "statement", _replacer(body, place, ast.Pass())
        if isinstance(statement, ast.Return) and not _is_nothing(statement.value):
            yield statement, statement, "return", _setter(statement, "value", ast.Constant(None))


def _is_typing(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test)


def _is_nothing(value: ast.expr | None) -> bool:
    """Whether a result is None, or False, in whose place None is as good."""
    return value is None or (isinstance(value, ast.Constant) and (value.value is None or value.value is False))


def _can_go(statement: ast.stmt) -> bool:
    """Whether it does something of which the other statements do not need a name."""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Call)
    return isinstance(statement, (ast.AugAssign, ast.Continue, ast.Break, ast.Raise, ast.Delete, ast.Assert))


def _not(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


def _of_expression(node: ast.AST) -> Iterator[tuple[ast.AST, str, Change]]:
    """Changes in an expression, but for what is said: texts, and what stands in them, and that lengths are equal."""
    if isinstance(node, (ast.JoinedStr, ast.arg)) or (isinstance(node, ast.keyword) and node.arg == "strict"):
        return
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            yield node, "comparison", _replacer(node.ops, place, _COMPARISONS[type(operator)]())
    elif isinstance(node, ast.BoolOp):
        yield node, "boolean", _setter(node, "op", _BOOLEANS[type(node.op)]())
    elif isinstance(node, ast.BinOp) and not any(_is_said(each) for each in (node.left, node.right)):
        yield node, "operator", _setter(node, "op", _OPERATORS[type(node.op)]())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        identity = _call_bool(node.operand) if isinstance(node.op, ast.Not) else ast.UnaryOp(ast.UAdd(), node.operand)
        yield node, "sign", _becomes(node, identity)
    elif isinstance(node, ast.IfExp):
        yield node, "condition", _setter(node, "test", _not(node.test))
    elif isinstance(node, ast.comprehension):
        for place, test in enumerate(node.ifs):
            yield node, "condition", _replacer(node.ifs, place, _not(test))
    elif isinstance(node, ast.Constant):
        yield from _of_constant(node)
    for child in ast.iter_child_nodes(node):
        yield from _of_expression(child)


def _is_said(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _of_constant(node: ast.Constant) -> Iterator[tuple[ast.AST, str, Change]]:
    if isinstance(node.value, bool):
        yield node, "constant", _setter(node, "value", not node.value)
    elif isinstance(node.value, int):
        yield node, "constant", _setter(node, "value", node.value + 1)
        yield node, "constant", _setter(node, "value", node.value - 1)
    elif isinstance(node.value, float):
        yield node, "constant", _setter(node, "value", node.value * 2 + 1)


def _call_bool(operand: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), ast.UnaryOp(ast.Not(), operand))


def _setter(node: ast.AST, field: str, value: object) -> Change:
    return lambda: setattr(node, field, value)


def _replacer(items: list[Any], place: int, value: ast.AST) -> Change:
    return lambda: items.__setitem__(place, value)


def _becomes(node: ast.UnaryOp, other: ast.expr) -> Change:
    def change() -> None:
        node.op, node.operand = other.op, other.operand  # type: ignore[attr-defined]

    return change


@cache
def places(path: str) -> tuple[Place, ...]:
    """All places of a file, numbered."""
    tree = ast.parse((instrumented.ROOT / path).read_bytes())
    blocks = instrumented.Blocks(tree)
    return tuple(
        Place(path, number, getattr(node, "lineno", statement.lineno), kind, blocks.of[id(statement)])
        for number, (node, statement, kind, _) in enumerate(changes(tree))
    )


def mutated(path: str, tree: ast.Module, number: int) -> tuple[ast.Module, str, str]:
    """A file with one change, and the text of the statement before and after it."""
    for place, (_, statement, _, change) in enumerate(changes(tree)):
        if place == number:
            before = _first_line(statement)
            shown = copy.deepcopy(tree)
            change()
            after = _differing(shown, tree, before)
            return tree, before, after
    raise LookupError(path, number)


def _first_line(statement: ast.stmt) -> str:
    return ast.unparse(statement)


def _differing(before: ast.Module, after: ast.Module, whole: str) -> str:
    """The lines that another tree has instead."""
    old, new = (ast.unparse(ast.fix_missing_locations(each)).splitlines() for each in (before, after))
    lines = [f"{one.strip()}  ->  {other.strip()}" for one, other in zip(old, new, strict=False) if one != other]
    return lines[0] if lines else whole
