"""Errors of layoutsolve. Each message states what is wrong, where, and the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from layoutsolve.base.wording import aligned, printable

FAILED, DIFFERENT, UNVERIFIED, INTERNAL, INTERRUPTED = 2, 3, 4, 70, 130
"""Exit codes of the command line, as docs/cli.md lists them."""


class ConversionError(Exception):
    """Base of all errors that layoutsolve raises; the command line exits with 2, on an :class:`InternalError` with 70.

    Where one is raised nothing has been written.
    """


class ModelError(ConversionError):
    """The source is not a readable TensorFlow Lite or ONNX model, or contradicts itself."""


class LayoutError(ConversionError):
    """An explicit layout is impossible, contradicts another one, or names an unknown tensor."""


class OptionError(ConversionError):
    """An option or argument has an invalid value."""


class StrategyError(OptionError):
    """A strategy cannot solve this model, or needs a package that is not installed; use another strategy."""


class LoweringError(ConversionError):
    """A lowering wrote an invalid operator: it has a bug, or did not notice that the model contradicts itself."""


class CertificateError(ConversionError):
    """A certificate does not hold for the given files, or cannot be made or read."""


class PlanError(ConversionError):
    """A plan does not fit the given source, or cannot be made or read."""


class OutputError(ConversionError):
    """An output file cannot be written."""


class VerifyError(ConversionError):
    """The conversion cannot be compared with its source: a runtime is missing, or refuses the model."""


class SessionError(ConversionError):
    """A model cannot be loaded or run: ONNX Runtime is missing or refuses it, or the inputs do not fit."""


class MeasureError(ConversionError):
    """A measurement is too noisy: the machine is busy."""


class InternalError(ConversionError):
    """An unexpected error: a bug in layoutsolve, or out of memory.

    ``stage`` is the stage of the conversion, ``origin`` the operator in it, '' where that is unknown. The unexpected
    exception is the cause.
    """

    def __init__(self, message: str, *, stage: str = "", origin: str = "") -> None:
        super().__init__(message)
        self.stage = stage
        self.origin = origin


class BudgetError(ConversionError):
    """The conversion would need memory, or write a model, out of proportion to the size of the source.

    ``reason`` names the quantity and its limit, ``remedy`` what the user can do.
    """

    def __init__(self, reason: str, remedy: str) -> None:
        self.reason, self.remedy = reason, remedy
        super().__init__(f"{reason}; {remedy}")

    def __reduce__(self) -> tuple[type[BudgetError], tuple[str, str]]:
        return type(self), (self.reason, self.remedy)


@dataclass(frozen=True)
class Gap:
    """One operator that cannot be converted.

    ``index`` and ``subgraph`` locate the operator in the model, ``operator`` is its TFLite name, ``tensor`` the name of
    its first output, ``reason`` the missing feature and ``remedy`` what the user can do. ``index`` is -1 where that is
    about the model, and no operator.
    """

    subgraph: int
    index: int
    operator: str
    tensor: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        if self.index < 0:
            return f"{self.reason}; {self.remedy}"
        place = f"operator {self.index}" if self.subgraph == 0 else f"subgraph {self.subgraph} operator {self.index}"
        return f"{place} {self.operator} (output '{self.tensor}'): {self.reason}; {self.remedy}"


class UnsupportedError(ConversionError):
    """The model has operators that cannot be converted; ``gaps`` lists all of them."""

    def __init__(self, gaps: Sequence[Gap]) -> None:
        self.gaps = tuple(gaps)
        count, noun = len(self.gaps), "operator" if len(self.gaps) == 1 else "operators"
        whole = any(gap.index < 0 for gap in self.gaps)
        head = f"{'the model' if whole else f'{count} {noun}'} cannot be converted:"
        super().__init__("\n".join([head, *(f"  {line}" for line in _table(self.gaps))]))

    def __reduce__(self) -> tuple[type[UnsupportedError], tuple[tuple[Gap, ...]]]:
        return type(self), (self.gaps,)


def _table(gaps: Sequence[Gap]) -> list[str]:
    """A line for each kind of operator that cannot be converted for the same reason: the first of them, and before it
    where a kind is there more than once how many there are.
    """
    kinds: dict[tuple[str, str, str], list[Gap]] = {}
    for gap in gaps:
        kinds.setdefault((gap.operator, gap.reason, gap.remedy), []).append(gap)
    lines = [printable(str(same[0])) for same in kinds.values()]
    if len(lines) == len(gaps):
        return lines
    counts = (f"{len(same)} {printable(operator)}" for (operator, _, _), same in kinds.items())
    rows = [
        (count, f"first {line}" if len(same) > 1 else line)
        for count, line, same in zip(counts, lines, kinds.values(), strict=True)
    ]
    return aligned(rows, ())
