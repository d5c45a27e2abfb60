"""Description of a target, for people: its forms and prices, what is slow there, what is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from layoutsolve.ir.storage_options import PLAIN
from layoutsolve.solver.targets.form_table import Line, Match
from layoutsolve.solver.targets.target import Provider, Target


def described(target: Target) -> list[str]:
    """The target in words, line by line."""
    return [
        f"{target.name}: {_extending(target)}",
        *_provided(target),
        *_table(target),
        *_kinds(target),
        *_moves(target),
        *_rest(target),
    ]


def facts_of(target: Target) -> dict[str, Any]:
    """The same as plain data."""
    table = target.table
    return {
        "name": target.name,
        "sha256": target.digest,
        "extends": sorted(target.names - {target.name}),
        "backends": {} if table is None else {name: asdict(each) for name, each in table.backends.items()},
        "forms": [] if table is None else [_facts(line) for line in table.lines],
        "domains": sorted(target.domains),
        "storage": asdict(target.storage),
        "idioms": {operator: list(names) for operator, names in target.idioms.items()},
        "hidden": _nested(target.hidden),
        "unsupported": [" ".join(key) for key in sorted(target.unsupported)],
        "kernels": _nested(target.kernels),
        "times": target.timed,
        "provider": None if target.provider is None else _provider(target.provider),
    }


def _provider(provider: Provider) -> dict[str, Any]:
    return {"source": provider.source, "layout": provider.layout, "operators": sorted(provider.operators)}


def _provided(target: Target) -> Iterator[str]:
    """What is known of a runtime that was not measured."""
    if (provider := target.provider) is not None:
        yield f"  counted only, no times are known: {len(provider.operators)} operators, images in {provider.layout};"
        yield f"  the CPU runs all others ({provider.source})"


def _extending(target: Target) -> str:
    others = sorted(target.names - {target.name})
    return f"extends {', '.join(others)}" if others else "as it stands"


def _table(target: Target) -> Iterator[str]:
    """The forms: first those of the operators that are named first."""
    if target.table is None:
        yield "  forms: those of ONNX"
        return
    for name, backend in target.table.backends.items():
        yield f"  backend {name}: what is read there and written elsewhere costs {_transposes(backend.crossing)}"
    rows = [_row(line) for line in target.table.lines]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
    yield "  forms, of which an operator has all that fit, up to the first policy; all others are those of ONNX:"
    for row in rows:
        cells = (text.ljust(width) for text, width in zip(row[:4], widths, strict=True))
        yield f"    {'  '.join((*cells, row[4]))}".rstrip()


def _row(line: Line) -> tuple[str, str, str, str, str]:
    """Operators, letters or policy, price, backend, and what is matched."""
    said = " ".join(f"{name} {text}" for name, text in line.ports.items()) or line.policy
    shown = ", ".join(line.operators)
    operators = shown if len(shown) <= 40 else f"{line.operators[0]} and {len(line.operators) - 1} more"
    price = "" if line.policy else _transposes(line.price)
    return operators, said, price, line.backend, _match(line.match)


def _match(match: Match) -> str:
    said = []
    if match.kernel:
        said.append("kernel " + " or ".join("x".join(map(str, each)) for each in match.kernel))
    for name, values in (("", match.dtype), ("called ", match.name)):
        if values:
            said.append(name + " or ".join(values))
    for name, flag in (("depthwise", match.depthwise), ("in groups", match.grouped)):
        if flag is not None:
            said.append(name if flag else f"not {name}")
    for word, bounds in (("at least", match.least), ("at most", match.most)):
        said += [f"{word} {number} {name}" for name, number in bounds.items()]
    for word, tensors in (("behind", match.after), ("before", match.before)):
        if tensors:
            said.append(f"{word} {' or '.join(tensors)}")
    return f"if {', '.join(said)}" if said else ""


def _kinds(target: Target) -> Iterator[str]:
    """What loses something, and what is refused, by operator."""
    slow: dict[str, list[str]] = {}
    for (operator, kind), count in target.hidden.items():
        if count and operator != "Transpose":
            slow.setdefault(operator, []).append(f"{kind} {count}")
    yield from _listed("slow, in Transposes", slow)
    refused: dict[str, list[str]] = {}
    for operator, kind in sorted(target.unsupported | {key for key, runs in target.kernels.items() if not runs}):
        refused.setdefault(operator, []).append(kind)
    yield from _listed("refused", refused)


def _listed(title: str, found: Mapping[str, list[str]]) -> Iterator[str]:
    if found:
        yield f"  {title}:"
    for operator, kinds in sorted(found.items()):
        yield f"    {operator}: {'; '.join(kinds)}"


def _moves(target: Target) -> Iterator[str]:
    lost = {kind: count for (operator, kind), count in target.hidden.items() if operator == "Transpose" and count}
    more = "".join(f", one that moves {kind} {1 + count}" for kind, count in lost.items())
    times = "" if target.timed else "; what it takes is not known, so --objective min-latency is refused"
    yield f"  a Transpose costs 1{more}{times}"


def _rest(target: Target) -> Iterator[str]:
    if target.domains:
        yield f"  operators of {', '.join(sorted(target.domains))} may be used"
    if target.idioms:
        others = (f"{operator} ({', '.join(names)})" for operator, names in target.idioms.items())
        yield f"  written otherwise: {', '.join(others)}"
    if target.storage != PLAIN:
        told = (f"{name} {value}" for name, value in asdict(target.storage).items() if value != getattr(PLAIN, name))
        yield f"  storage: {', '.join(told)}"


def _transposes(count: int) -> str:
    return "free" if not count else f"{count} Transpose{'s' if count > 1 else ''}"


def _facts(line: Line) -> dict[str, Any]:
    matched = {name: value for name, value in asdict(line.match).items() if value not in ((), {}, None)}
    return {**{name: value for name, value in asdict(line).items() if value and name != "match"}, "match": matched}


def _nested(table: Mapping[tuple[str, str], Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for (operator, kind), value in table.items():
        found.setdefault(operator, {})[kind] = value
    return found
