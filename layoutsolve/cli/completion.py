"""Shell completion of commands, options and their values, through argcomplete."""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection, Iterable, Iterator
from functools import partial

from layoutsolve.cli.parser import completed
from layoutsolve.frontend.tflite.lowering.options import CUSTOM, DYNAMIC, INITIALIZER_INPUTS, QUANT, WEIGHTS
from layoutsolve.inspection.printing import STAGES
from layoutsolve.solver import OBJECTIVES, STRATEGIES
from layoutsolve.solver.statement.boundary import CHOICES
from layoutsolve.solver.targets.target_file import KNOWN
from layoutsolve.verification.runtimes import LEVELS

VALUES: dict[str, Iterable[str]] = {
    "inputs": CHOICES,
    "outputs": CHOICES,
    "objective": OBJECTIVES,
    "strategy": STRATEGIES,
    "target": KNOWN,
    "custom": CUSTOM,
    "quant": QUANT,
    "dynamic": DYNAMIC,
    "weights": WEIGHTS,
    "initializer_inputs": INITIALIZER_INPUTS,
    "stage": STAGES,
    "level": LEVELS,
}
"""What may stand behind an option, by its name."""


def complete(commands: Collection[str]) -> None:
    """Tell a shell how the line that it asks about may go on, and end; nothing where argcomplete is missing."""
    try:
        import argcomplete
        from argcomplete.completers import FilesCompleter
    except ImportError:
        return
    words = os.environ.get("COMP_LINE", "")[: int(os.environ.get("COMP_POINT", "0"))].split(" ")
    parser = completed(words[1] if len(words) > 2 else "")
    files = FilesCompleter(("tflite",))

    def models(prefix: str, **more: object) -> list[str]:
        return [*files(prefix, **more), *(commands if len(words) == 2 else ())]

    for action in _actions(parser):
        if action.dest in VALUES:
            action.completer = partial(_offered, VALUES[action.dest])  # type: ignore[attr-defined]
        elif action.dest == "models":
            action.completer = models  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser)


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """What may be given, behind a command as well."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            yield from (inner for command in action.choices.values() for inner in command._actions)


def _offered(values: Iterable[str], **_: object) -> Iterable[str]:
    return values
