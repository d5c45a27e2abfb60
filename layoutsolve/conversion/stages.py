"""The stages of a run: how long each takes, and what becomes of an exception that nobody expected in one."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from types import TracebackType
from typing import Any

from layoutsolve.base.out_of_memory import is_short
from layoutsolve.base.wording import printable
from layoutsolve.errors import ConversionError, InternalError
from layoutsolve.io.source import Content
from layoutsolve.version import VERSION

_DIGITS = 16

_HOMES = {
    "Call": "layoutsolve.frontend.tflite.lowering.builder",
    "Node": "layoutsolve.ir.graph",
    "Origin": "layoutsolve.ir.graph",
    "Operator": "layoutsolve.solver.statement.problem",
}
"""Where the classes are that an operator is known by."""


class Stages:
    """A run over a model, with the options that are not the default. ``seconds`` has the time of each stage."""

    def __init__(self, content: Content | None = None, options: Mapping[str, object] | None = None) -> None:
        self.content, self.options = content, options or {}
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str, counted: str = "") -> Iterator[None]:
        """Run a stage, whose time is ``counted`` under its own or another name.

        Any exception but a :class:`ConversionError` becomes an :class:`InternalError`.
        """
        start = perf_counter()
        try:
            yield
        except ConversionError:
            raise
        except Exception as error:
            raise self._internal(name, error) from error
        counted = counted or name
        self.seconds[counted] = round(self.seconds.get(counted, 0.0) + perf_counter() - start, 6)

    def _internal(self, stage: str, error: Exception) -> InternalError:
        place = _origin(error.__traceback__)
        where = f"stage '{stage}'{f' at {place}' if place else ''}"
        what = printable(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
        if is_short(error):
            told = f"the memory does not suffice in {where} ({what}): give the program more, or convert a smaller model"
        elif isinstance(error, RecursionError):
            told = f"the model is nested too deeply, as seen in {where} ({what}); {self._report()}"
        else:
            told = f"unexpected error in {where}: {what}; {self._report()}"
        return InternalError(told, stage=stage, origin=place)

    def _report(self) -> str:
        facts = [f"layoutsolve {VERSION}"]
        if self.content is not None:
            facts.append(f"model sha256 {self.content.digest[:_DIGITS]}")
        facts += [printable(f"{name}={value!r}") for name, value in self.options.items()]
        return f"please report it with {', '.join(facts)} and the traceback, which LAYOUTSOLVE_DEBUG=1 shows"


def _origin(trace: TracebackType | None) -> str:
    """The operator that was worked on: the innermost one that a function on the way to the error held in a variable."""
    found = ""
    while trace is not None:
        for value in trace.tb_frame.f_locals.values():
            held = value.origin if _is(value, "Call", "Node") else value
            if _is(held, "Origin"):
                found = str(held)
            elif _is(held, "Operator"):
                found = str(held.title)
        trace = trace.tb_next
    return found


def _is(value: Any, *names: str) -> bool:
    """Whether a value is of one of some classes, none of which is loaded for that: there may be no memory left."""
    modules = ((name, sys.modules.get(_HOMES[name])) for name in names)
    return any(module is not None and isinstance(value, getattr(module, name)) for name, module in modules)
