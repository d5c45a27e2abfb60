"""Making plans and writing models by them, as a program calls it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from layoutsolve import arguments, collector
from layoutsolve.api import Conversion
from layoutsolve.arguments import Options
from layoutsolve.budget import Budget
from layoutsolve.errors import CertificateError, OptionError, PlanError
from layoutsolve.graph import Graph, Origin
from layoutsolve.made import Provenance
from layoutsolve.planning.plan import Facts, Plan
from layoutsolve.planning.stating import arrangement_text, facts_of
from layoutsolve.solver.proof.restated import Restated, restate
from layoutsolve.solver.proof.text import layout_of
from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.statement.choosing import priced
from layoutsolve.solver.statement.problem import Operator
from layoutsolve.solver.statement.target import Target
from layoutsolve.solver.statement.target_file import KNOWN, shipped
from layoutsolve.source import Source, load
from layoutsolve.stages import Stages
from layoutsolve.translation import emitted, reference


@collector.paused()
def plan(source: Source, conversion: Conversion) -> Plan:
    """The plan of a conversion, given the source that it was made from, as a path or as bytes.

    Raises :class:`PlanError` where the source is written as it stands, and where it is another one.
    """
    asked = arguments.instance("conversion", conversion, Conversion)
    content = load(source)
    if asked.kept:
        raise PlanError("the source is written as it stands, as nothing is gained: there are no layouts to plan")
    if asked.provenance.source != content.digest:
        raise PlanError("the source is not the one that was converted: its SHA-256 differs")
    with Stages(content)("plan"):
        return Plan(facts_of(content, asked))


@collector.paused()
def convert_by(source: Source, plan: Plan, *, target: str | os.PathLike[str] | None = None) -> Conversion:
    """Convert a model as a plan says, without a search: what it was written from gives the same bytes.

    ``target`` is the file of a target that does not come with layoutsolve. Raises :class:`PlanError` where the plan is
    of another source or target, or says what cannot be.
    """
    asked = arguments.instance("plan", plan, Plan)
    table = None if target is None else arguments.target("target", target)
    content, facts = load(source), asked.facts
    stage = Stages(content)
    if content.digest != facts["source"]["sha256"]:
        raise PlanError("the plan is of another source: its SHA-256 differs")
    try:
        options = Options.parsed(json.dumps(facts["options"]), _target(facts["target"], table))
    except (TypeError, ValueError, AttributeError, OptionError) as error:
        raise PlanError(f"the plan names no options ({error})") from error
    budget = Budget(len(content.data), options.max_size)
    graph = reference(content, options.reading, stage, options.opset, budget)
    with stage("solve"):
        assignment = _assignment(graph, options, facts)
    made, origins = Provenance(facts["version"], content.digest, options.text, options.own_target), dict[str, Origin]()
    with stage("emit"):
        how = (options.opset, options.external_data, budget, origins)
        model, external = emitted(graph, options.boundary, assignment, options.reading, made, *how)
    said = (options.boundary, options.reading, external, content.path, origins)
    return Conversion(graph, assignment, model, stage.seconds, *said)


def _target(facts: Facts, given: Target | None) -> Target:
    """The target that a plan is for, of which it knew the very same."""
    name = facts["name"]
    if given is None and name not in KNOWN:
        raise PlanError(f"the plan is for target '{name}', which does not come with layoutsolve: give its file")
    found = given or shipped(name)
    if found.name != name:
        raise PlanError(f"the plan is for target '{name}', not '{found.name}'")
    if found.digest != facts["sha256"]:
        raise PlanError(f"target '{name}' says something else than when the plan was written: plan again")
    return found


def _assignment(graph: Graph, options: Options, facts: Facts) -> Assignment:
    """The rows that a plan says."""
    rows: Sequence[Facts] = facts["operators"]
    try:
        layouts = [tuple(layout_of(port["layout"]) for port in row["ports"]) for row in rows]
        stated = restate(graph, options.boundary, options.goal, layouts)
    except (CertificateError, ValueError) as error:
        raise PlanError(f"the plan does not fit the source: {str(error).replace('certificate', 'plan')}") from error
    found = stated.assignment([_which(stated, number, row) for number, row in enumerate(rows)])
    found = priced(found)
    if {name: getattr(found.price, name) for name in facts["price"]} != facts["price"]:
        raise PlanError(f"the layouts of the plan cost {found.price}, not what it says")
    return found


def _which(stated: Restated, number: int, row: Facts) -> int:
    """Which of the rows with the layouts of a plan has its form and arrangement."""
    operator: Operator = stated.fine.operators[number]
    if row["id"] != number or row["title"] != operator.title:
        raise PlanError(f"the plan has operator '{row['title']}' where the source has '{operator.title}'")
    for place, each in enumerate(stated.alike[number]):
        found = operator.rows[each]
        if (found.form, arrangement_text(found.arrangement)) == (row["way"], row["arrangement"]):
            return place
    raise PlanError(f"operator '{operator.title}' has no such form in the layouts that the plan says")
