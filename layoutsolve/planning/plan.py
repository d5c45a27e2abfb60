"""Plans as files: written, read, and held against their schema."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from layoutsolve import arguments
from layoutsolve.errors import PlanError
from layoutsolve.files import Output, written
from layoutsolve.planning.schema import faults, plan_schema
from layoutsolve.stages import Stages
from layoutsolve.wording import printable

LARGEST = 1 << 30
"""The most bytes of a plan that is read."""


Facts = Mapping[str, Any]
"""What a plan says, as JSON has it: ``layoutsolve/planning/plan.schema.json`` describes every field."""


@dataclass(frozen=True, repr=False)
class Plan:
    """How all tensors of a model lie in memory, in which forms its operators run, and where data are moved.

    ``facts`` are what the file says (:data:`Facts`).
    """

    facts: Facts

    def __repr__(self) -> str:
        facts = self.facts
        about = f"{len(facts['operators'])} operators, {len(facts['conversions'])} conversions"
        return f"<Plan of '{facts['source']['name']}' for {facts['target']['name']}: {about}, {facts['status']}>"

    def to_json(self) -> str:
        """The plan as text: each operator, tensor, constant and conversion on a line of its own."""
        lines = [_field(name, value) for name, value in self.facts.items()]
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Read what :meth:`to_json` writes. Raises :class:`PlanError` for anything that is no plan."""
        said = arguments.text("text", text)
        try:
            facts = json.loads(said)
        except (ValueError, RecursionError) as error:
            raise PlanError(f"this is no plan: it is no JSON ({error})") from error
        wrong = next(faults(facts, plan_schema()), None)
        if wrong is not None:
            raise PlanError(f"this is no plan: {printable(wrong)}")
        return cls(facts)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan. Raises :class:`OutputError` where that is impossible."""
        target = arguments.path("path", path)
        with Stages()("write"), written([self.output(target)]):
            pass

    def output(self, path: str) -> Output:
        """What :meth:`save` writes."""
        content = self.to_json().encode()
        return Output("plan", path, lambda file: file.write(content))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Plan:
        """Read a plan from a file. Raises :class:`PlanError`."""
        name = arguments.path("path", path)
        try:
            with Path(name).open("rb") as file:
                content = file.read(LARGEST + 1)
            if len(content) > LARGEST:
                raise ValueError(f"it has more than {LARGEST} bytes")
            return cls.from_json(content.decode())
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise PlanError(f"cannot read '{printable(name)}': {reason}") from error


def _field(name: str, value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return f' "{name}": [\n  ' + ",\n  ".join(map(json.dumps, value)) + "\n ]"
    return f' "{name}": {json.dumps(value)}'
