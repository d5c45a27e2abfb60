"""Code of the package that is changed as it is imported: with probes, which note what is executed, or with a mutation.

The files stay as they are. What changes a module is installed in front of the import system, in a process and in those
that it starts: ``environment`` gives what they need for that.
"""

from __future__ import annotations

import ast
import atexit
import builtins
import importlib
import json
import os
from collections.abc import Callable, Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).parents[2]

ROOMS = ("emit", "frontend", "layoutsolve", "solver")
"""The folders that hold the package."""

VARIABLE = "LAYOUTSOLVE_INSTRUMENTED"
"""The variable by which a child process knows what to install: a module's name, and its argument."""

Transform = Callable[[str, ast.Module], ast.Module]
"""From a file's path in the repository and its syntax tree to what is compiled instead."""

ALL = ""
"""Every path of the package begins so."""

_SITE = "import sys; sys.path.append({root!r}); from experiments.fuzz import instrumented; instrumented.inherit()\n"

_PLAIN = SourceFileLoader.get_code


def sources() -> list[str]:
    """The paths of all files of the package within the repository."""
    return sorted(path.relative_to(ROOT).as_posix() for room in ROOMS for path in (ROOT / room).rglob("*.py"))


def install(transform: Transform, only: str = ALL) -> None:
    """Compile what is imported of the package from now on, of paths that begin so, from what ``transform`` makes of it.
    Others are as Python has compiled them before.
    """
    folders = tuple(f"{ROOT / room}{os.sep}" for room in ROOMS)

    def get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
        path = str(Path(self.path).resolve())
        within = Path(path).relative_to(ROOT).as_posix() if path.startswith(folders) else None
        if within is None or not within.startswith(only):
            return _PLAIN(self, fullname)
        tree = transform(within, ast.parse(Path(path).read_bytes(), path))
        code: CodeType = compile(ast.fix_missing_locations(tree), self.path, "exec", dont_inherit=True)
        return code

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign]


def environment(folder: Path, module: str, argument: str) -> dict[str, str]:
    """The variables with which child processes call ``inherited(argument)`` of a module of experiments.fuzz before
    anything else; ``folder`` holds a file that they find.
    """
    (folder / "sitecustomize.py").write_text(_SITE.format(root=str(ROOT)))
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {VARIABLE: f"{module}:{argument}", "PYTHONPATH": os.pathsep.join(paths)}


def inherit() -> None:
    """Install what the process that started this one said."""
    module, _, argument = os.environ.get(VARIABLE, "").partition(":")
    if module:
        importlib.import_module(f"experiments.fuzz.{module}").inherited(argument)


# -- blocks --------------------------------------------------------------------------------------------------------

REACHED: dict[str, bytearray] = {}
"""For each file that was imported with probes, a byte for each of its blocks: not 0 where it was executed."""

_COMPOUND = (ast.If, ast.For, ast.While, ast.Try, ast.With, ast.Match, ast.AsyncFor, ast.AsyncWith)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Blocks:
    """The basic blocks of a file: ``of`` gives the block of a statement by its identity, ``starts`` the statement that
    each begins with and the list that it stands in. Block 0 is what is executed on import.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.of: dict[int, int] = {}
        self.starts: list[tuple[list[ast.stmt], ast.stmt]] = [(tree.body, tree.body[0])] if tree.body else []
        self._place(tree.body, 0)

    def _place(self, body: list[ast.stmt], block: int | None) -> None:
        for statement in body:
            if block is None:
                block = len(self.starts)
                self.starts.append((body, statement))
            self.of[id(statement)] = block
            within = 0 if block == 0 else None
            if isinstance(statement, _DEFINITIONS):
                self._place(statement.body, block if isinstance(statement, ast.ClassDef) else None)
            elif isinstance(statement, _COMPOUND):
                for inner in _bodies(statement):
                    self._place(inner, within)
                block = within


def _bodies(statement: ast.stmt) -> list[list[ast.stmt]]:
    """The lists of statements that stand in a compound one."""
    handlers = [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]
    own = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
    return [body for body in [*own, *(handler.body for handler in handlers)] if body]


def probed(path: str, tree: ast.Module) -> ast.Module:
    """A file in which each block notes that it is executed."""
    blocks = Blocks(tree)
    REACHED.setdefault(path, bytearray(len(blocks.starts)))  # some code is asked for more than once
    for number, (body, first) in enumerate(blocks.starts):
        if number:
            probe = ast.parse(f"_reached_[{number}] = 1").body[0]
            place = next(place for place, each in enumerate(body) if each is first)
            body.insert(place + _is_text(first), probe)
    head = 0
    while head < len(tree.body) and (
        _is_text(tree.body[head]) or getattr(tree.body[head], "module", "") == "__future__"
    ):
        head += 1
    tree.body[head:head] = ast.parse(f"_reached_ = __reached__[{path!r}]; _reached_[:1] = b'\\1'").body
    return tree


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def probe() -> None:
    """Import the package with probes from now on."""
    vars(builtins)["__reached__"] = REACHED
    install(probed)


def taken() -> dict[str, str]:
    """The blocks of each file that were executed since this was last asked, as the digits of a number whose bits they
    are.
    """
    found = {}
    for path, blocks in REACHED.items():
        if any(blocks):
            found[path] = bits(blocks)
            blocks[:] = bytes(len(blocks))
    return found


def bits(blocks: bytearray) -> str:
    """The blocks that were executed, block 0 as the lowest bit, in hexadecimal digits."""
    return f"{int(blocks[::-1].translate(_DIGITS), 2):x}"


_DIGITS = bytes([ord("0"), *[ord("1")] * 255])


def inherited(folder: str) -> None:
    """Note what a child process of a test executes."""
    probe()
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]

    def write() -> None:
        line = json.dumps({"id": test, "reached": taken()})
        (Path(folder) / f"child-{os.getpid()}.json").write_text(line + "\n")

    atexit.register(write)


def merged(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """The blocks of both."""
    return {path: one.get(path, 0) | other.get(path, 0) for path in {*one, *other}}
