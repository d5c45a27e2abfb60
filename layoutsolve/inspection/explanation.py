"""The explanation of a converted model, for people and as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby

from layoutsolve.base.wording import counted, first_name, html_table
from layoutsolve.solver.explanation.explain import Demand, Explained
from layoutsolve.solver.explanation.remedy import Change, Remedy


@dataclass(frozen=True, repr=False)
class Explanation:
    """Explanation of each Transpose and Reshape of a model: ``operators`` has one entry for each, in the model's order.

    ``str()`` is for people, :meth:`as_dicts` for JSON.
    """

    operators: tuple[Explained, ...]

    def as_dicts(self) -> list[dict[str, object]]:
        """One dictionary for each, with the fields of :class:`~layoutsolve.solver.explanation.explain.Explained`."""
        return [asdict(item) for item in self.operators]

    def __repr__(self) -> str:
        kinds = [item.operator for item in self.operators]
        transposes, reshapes = (counted(kinds.count(each), each) for each in ("Transpose", "Reshape"))
        return f"<Explanation of {transposes} and {reshapes}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        heads = ("operator", "tensor", "stored for", "wanted by")
        rows = [(_what(item), item.tensor, _demand(item.gives), _demand(item.wants)) for item in self.operators]
        return html_table(f"Transposes and Reshapes that are left: {len(rows)}", heads, rows)

    def __str__(self) -> str:
        if not self.operators:
            return "no Transpose and no Reshape is left"
        groups = (list(group) for _, group in groupby(self.operators, _move))
        return "\n".join(line for group in groups for line in lines_of(group))


def _move(item: Explained) -> tuple[object, ...]:
    """What the operators of one move have in common."""
    return item.tensor, item.after, item.before, item.held, item.wanted


def lines_of(group: Sequence[Explained]) -> list[str]:
    """One move: its operators, where it is, both ways to store the tensor and who demands them, what would help."""
    heads = [_what(item) for item in group]
    first = group[0]
    if not first.held:
        lines = [f"{head}: within the ONNX form of {first.after}" for head in heads]
        return lines + [f"  with {_helps(remedy)}" for remedy in first.remedies]
    lines = [*heads, f"  '{first_name(first.tensor)}' from {first.after} to {', '.join(first.before)}"]
    lines += [
        f"  stored as {order} for {_demand(demand)}"
        for order, demand in ((first.held, first.gives), (first.wanted, first.wants))
    ]
    return lines + [f"  {line}" for item in group if item.permutation is not None for line in _verdict(item)]


def _what(item: Explained) -> str:
    shapes = f"[{', '.join(item.source)}] to [{', '.join(item.target)}]"
    if item.permutation is None:
        return f"{item.operator} {shapes}, moves nothing"
    return f"{item.operator} {shapes}, permutation {' '.join(map(str, item.permutation))}, {item.bytes} bytes"


def _demand(demand: Demand | None) -> str:
    if demand is None:
        return "want of a better one"
    costly = " (which could do otherwise at the price of a transposition inside)" if demand.costly else ""
    through = f", through {', '.join(demand.through)}" if demand.through else ""
    return f"{demand.operator}{costly}{through}"


def _verdict(item: Explained) -> list[str]:
    if item.remedies:
        return [f"with {_helps(remedy)}" for remedy in item.remedies]
    if not item.necessary:
        return ["nothing that was tried helps"]
    sides = [demand.operator for demand in (item.gives, item.wants) if demand is not None]
    return [f"necessary for all layouts of inputs and outputs{': between ' if sides else ''}{' and '.join(sides)}"]


def _helps(remedy: Remedy) -> str:
    noun = "Transpose" if remedy.transposes == 1 else "Transposes"
    return f"{' and '.join(map(asked, remedy.changes))}: {remedy.transposes} {noun} in all"


def asked(change: Change) -> str:
    """How the command line is asked for a change."""
    if change.kind == "layout":
        return f"no --layout for {change.tensor}"
    if change.kind == "strategy":
        return f"--strategy {change.choice}"
    return f"--{change.kind} {change.tensor}={change.choice}" + (" instead of its --layout" if change.instead else "")
