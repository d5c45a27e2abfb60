"""Plans as files: written, read, and held against their schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from layoutsolve.base.wording import counted
from layoutsolve.conversion.json_sidecar import Document
from layoutsolve.errors import PlanError
from layoutsolve.planning.schema import faults, plan_schema

Facts = Mapping[str, Any]
"""What a plan says, as JSON has it: ``layoutsolve/planning/plan.schema.json`` describes every field."""


@dataclass(frozen=True, repr=False)
class Plan(Document):
    """Layout plan for other compilers: layouts of all tensors, forms of all operators, and layout conversions.

    ``facts`` are the fields of the file (:data:`Facts`, docs/plans.md).
    """

    kind = "plan"
    error = PlanError
    remedy = ""

    facts: Facts

    def __repr__(self) -> str:
        facts = self.facts
        about = f"{counted(len(facts['operators']), 'operator')}, {counted(len(facts['conversions']), 'conversion')}"
        return f"<Plan of '{facts['source']['name']}' for {facts['target']['name']}: {about}, {facts['status']}>"

    def to_json(self) -> str:
        """JSON text of the plan: each operator, tensor, constant and conversion on a line of its own."""
        lines = [_field(name, value) for name, value in self.facts.items()]
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def _of(cls, facts: Any) -> Plan:
        """What JSON says, as a plan; :class:`ValueError` names what does not fit the schema."""
        wrong = next(faults(facts, plan_schema()), None)
        if wrong is not None:
            raise ValueError(wrong)
        return cls(facts)


def _field(name: str, value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return f' "{name}": [\n  ' + ",\n  ".join(map(json.dumps, value)) + "\n ]"
    return f' "{name}": {json.dumps(value)}'
