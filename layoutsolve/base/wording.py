"""How messages show names: on one line, a few of many, the nearest one to what was given."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from reprlib import repr as shortened

_LISTED = 8
_COMPARED = 10_000
_LONGEST = 200
_SAID = 300
"""Names beyond which a comparison takes longer than a hint is worth: so many, and of so many characters. What
a library says is cut there as well.
"""

_PLACE = r"(\S+:\d+: \w+: )?Assertion `.*?` failed:?|\[\w+Error\]|Inference error\(s\):"
_NODE = r"\(op_type:[^()]*, node name: .*?\):|==> Context:"
"""What onnx's native code writes before what it has to say: its place and kind, and the node."""

FAULT = "the model contradicts itself, or this is a fault of layoutsolve: repair it, or report it with the model"
"""What is said where ONNX refuses what is written."""

OTHER_TYPE = "use another type of numbers in the source model"
"""What is said where ONNX, or ONNX Runtime, does not compute what is written with a type."""


def level_name(names: Iterable[str]) -> str:
    """Name of a level of the objective, given the fields of a price that it adds up."""
    return " + ".join("layout penalty" if name == "hidden" else name for name in names)


def printable(text: str) -> str:
    """The text on one line: whatever would end it, move a cursor or has no glyph is written as an escape."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def brief(value: object) -> str:
    """A value as a program writes it, cut short; whole numbers may have more digits than Python writes."""
    try:
        return shortened(value)
    except ValueError:
        return "a number of very many digits"


def one_line(error: object) -> str:
    """Message of an error, on one line."""
    return " ".join(str(error).split())


def native_words(error: Exception) -> str:
    """First line of an error of onnx's native code, without the place in its source code, the kind of the error and the
    node that it names, which the caller reports.
    """
    said = re.split(_NODE, one_line(re.sub(_PLACE, "", str(error))))
    first = next(filter(None, map(str.strip, said)), "")
    return first[:_SAID] or type(error).__name__


def listed(names: Iterable[str]) -> str:
    """The first few names in quotes, and how many others there are; 'none' where there is none."""
    quoted = [f"'{name}'" for name in names]
    more = len(quoted) - _LISTED
    shown = ", ".join(quoted[:_LISTED]) or "none"
    return f"{shown} and {more} others" if more > 0 else shown


def nearest(given: str, known: Iterable[str]) -> str:
    """A question in brackets, such as ``" (did you mean 'image'?)"``, or nothing where no known name is near."""
    if len(given) > _LONGEST:
        return ""
    from difflib import get_close_matches

    names = {name.casefold(): name for name in islice(known, _COMPARED) if 0 < len(name) <= _LONGEST}
    found = [names[name] for name in get_close_matches(given.casefold(), names, n=2)]
    return f" (did you mean {' or '.join(repr(name) for name in found)}?)" if found else ""


def first_name(tensor: str) -> str:
    """The name of a tensor; TensorFlow Lite lists all operators that were fused into one."""
    first, more, _ = tensor.partition(";")
    return f"{first};..." if more else tensor


def sizes(*counts: int) -> str:
    """Some sizes in bytes, from one to the next, in one decimal unit: ``14.2 -> 14.1 MB``."""
    units = (10**9, "GB"), (10**6, "MB"), (1000, "kB"), (1, "B")
    unit, name = next((each for each in units if max(counts) >= each[0]), units[-1])
    return f"{' -> '.join(f'{count / unit:.1f}' if unit > 1 else str(count) for count in counts)} {name}"


def counted(count: object, noun: str) -> str:
    """A number of things, of which one is not several."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def kept_as_is(operators: Mapping[str, int]) -> str:
    """What a minimum is relative to, such as ``" with Einsum (1) kept as it is"``; nothing where that is nothing."""
    shown = [f"{printable(name)} ({count})" for name, count in islice(operators.items(), _LISTED)]
    if len(operators) > len(shown):
        shown.append(f"{len(operators) - len(shown)} others")
    several = len(operators) > 1 or sum(operators.values()) > 1
    names = " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))
    return f" with {names} kept as {'they are' if several else 'it is'}" if shown else ""


def minimal(transposes: object, objective: object, kept: Mapping[str, int]) -> str:
    """The claim on the Transposes of a model whose layouts are optimal: other objectives may leave fewer."""
    under = f" under {objective}" if transposes and objective != "min-transpose" else ""
    return f"proven minimal{under}{kept_as_is(kept)}"


def aligned(rows: Sequence[Sequence[str]], right: Container[int]) -> list[str]:
    """The rows of a table, a line each, with columns side by side: those at some places are set to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(_padded(row, widths, right)).rstrip() for row in rows]


def _padded(row: Sequence[str], widths: Sequence[int], right: Container[int]) -> Iterator[str]:
    for place, (cell, width) in enumerate(zip(row, widths, strict=True)):
        yield cell.rjust(width) if place in right else cell.ljust(width)


def html_table(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]], notes: Iterable[str] = ()) -> str:
    """A table as notebooks show it, with a title above and lines below; all texts are escaped."""
    from html import escape

    cells = [[f"<td>{escape(printable(str(cell)))}</td>" for cell in row] for row in rows]
    lines = [f"<tr>{''.join(row)}</tr>" for row in ([f"<th>{escape(head)}</th>" for head in heads], *cells)]
    below = "".join(f"<div>{escape(printable(note))}</div>" for note in notes)
    return f"<table><caption>{escape(printable(title))}</caption>{''.join(lines)}</table>{below}"


def penalty(hidden: int) -> str:
    """What kernels lose beside the Transposes of a file, or how many of these a runtime does not execute."""
    if hidden < 0:
        return f", {-hidden} of which take no time"
    return f" and a layout penalty of {hidden}" if hidden else ""


def penalty_cell(hidden: int) -> str:
    """The same in a column of numbers."""
    return f"{-hidden} free" if hidden < 0 else str(hidden)
