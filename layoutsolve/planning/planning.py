"""Making plans and writing models by them, as a program calls it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from layoutsolve.api import Request
from layoutsolve.base import gc_pause
from layoutsolve.base.wording import printable
from layoutsolve.conversion import arguments
from layoutsolve.conversion.arguments import Options
from layoutsolve.conversion.stages import Stages
from layoutsolve.conversion.translation import reference
from layoutsolve.errors import OptionError, PlanError
from layoutsolve.io.source import Source, load
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.graph import Graph
from layoutsolve.planning.plan import Facts, Plan
from layoutsolve.planning.plan_contents import facts_of, proven
from layoutsolve.result import HELD, Conversion
from layoutsolve.solver.proof.serialisation import arrangement_of, layout_of
from layoutsolve.solver.statement.assignment import Assignment, Tier
from layoutsolve.solver.statement.backends import priced
from layoutsolve.solver.statement.concat_steps import in_steps
from layoutsolve.solver.statement.price import price
from layoutsolve.solver.statement.proof_scope import MOVES
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.targets.target import Target
from layoutsolve.solver.targets.target_file import KNOWN, shipped
from layoutsolve.solver.theory.row import Row
from layoutsolve.version import VERSION


@gc_pause.paused()
def plan(source: Source, conversion: Conversion) -> Plan:
    """Make the plan of a conversion: the layout of every tensor, the form of every operator and all layout conversions.

    ``source`` is the model that was converted, as a path or as bytes. Raises :class:`PlanError` where it is another
    one, and where it was returned unchanged.
    """
    asked = arguments.instance("conversion", conversion, Conversion)
    content = load(source)
    if asked.kept:
        raise PlanError("no improvement, so the source is returned unchanged: there are no layouts to plan")
    if asked.held:
        raise PlanError(f"{HELD}, which a plan does not state")
    if asked.provenance.source != content.whole:
        raise PlanError("the source is not the one that was converted: its SHA-256 differs")
    with Stages(content)("plan"):
        return Plan(facts_of(content, asked))


@gc_pause.paused()
def convert_by(source: Source, plan: Plan, *, target: str | os.PathLike[str] | None = None) -> Conversion:
    """Convert a model by a plan, without solving: the plan's own source gives the same bytes.

    ``target`` is the path of a target that does not come with layoutsolve. Raises :class:`PlanError` where the plan is
    of another version, source or target, or contradicts itself or the model that is written. Its bounds are not proven
    again: the result has the status 'planned'.
    """
    asked = arguments.instance("plan", plan, Plan)
    table = None if target is None else arguments.target("target", target)
    content, facts = load(source), asked.facts
    stage = Stages(content)
    if facts["version"] != VERSION:
        raise PlanError(f"the plan was written by layoutsolve {facts['version']}, and this is {VERSION}: plan again")
    if content.digest != facts["source"]["sha256"]:
        raise PlanError("the plan is of another source: its SHA-256 differs")
    try:
        options = Options.parsed(json.dumps(facts["options"]), _target(facts["target"], table))
    except (TypeError, ValueError, AttributeError, OptionError, RecursionError) as error:
        raise PlanError(f"the plan names no options ({error})") from error
    budget = Budget(len(content.data), options.max_size)
    graph = reference(content, options.reading, stage, options.opset, budget)
    with stage("solve"):
        assignment = _assignment(graph, options, facts)
    request = Request(content, graph, options, None, stage, budget)
    tflite = options.to == "tflite"
    found = request.tflite_of(assignment, graph) if tflite else request.onnx(options.objective, assignment)
    with stage("plan"):
        _check(facts_of(content, found), facts)
    return found


def _target(facts: Facts, given: Target | None) -> Target:
    """The target that a plan is for, of which it knew the very same."""
    name = facts["name"]
    if given is None and name not in KNOWN:
        raise PlanError(f"the plan is for target '{name}', which does not come with layoutsolve: give its file")
    found = given or shipped(name)
    if found.name != name:
        raise PlanError(f"the plan is for target '{name}', not '{found.name}'")
    if found.digest != facts["sha256"]:
        raise PlanError(f"target '{name}' has changed since the plan was written: plan again")
    return found


def _assignment(graph: Graph, options: Options, facts: Facts) -> Assignment:
    """The rows that a plan says, at the price that they come to."""
    stepped, goal = in_steps(graph), options.goal
    views = frozenset(facts["views"])
    if not all(number < len(stepped.nodes) and stepped.nodes[number].op in MOVES for number in views):
        raise PlanError("views: the source has no such Transposes and Reshapes")
    statement = Statement(stepped, options.boundary, goal, views)
    wanted = _rows(statement, facts["operators"])
    problem = statement.recorded(wanted)
    for operator in problem.operators:
        if not operator.rows:
            raise PlanError(f"operator '{operator.title}' has no such form in the layouts of the plan")
    rows = (0,) * len(problem.operators)
    total = price(problem, rows)
    found = priced(
        Assignment(stepped, statement.rules, problem, rows, total, goal, "planned", opaque_views=statement.opaque_views)
    )
    if {name: getattr(found.price, name) for name in facts["price"]} != facts["price"]:
        raise PlanError(f"the layouts of the plan cost {found.price}, not the price that it states")
    planned = tuple(Tier(**{**each, "names": tuple(each["names"])}) for each in facts["tiers"])
    found = replace(found, planned=planned)
    if not _may_be(found.tiers, planned) or proven(planned) != {name: facts[name] for name in proven(planned)}:
        raise PlanError("the bounds and statuses of the plan contradict its price")
    return found


def _rows(statement: Statement, said: Sequence[Facts]) -> list[Row]:
    """The rows of all operators as a plan says them."""
    if len(said) != len(statement.entries):
        raise PlanError(f"the source has {len(statement.entries)} operators, the plan {len(said)}")
    found = []
    for number, (entry, row) in enumerate(zip(statement.entries, said, strict=True)):
        if row["id"] != number or row["title"] != entry.title:
            other = printable(row["title"])
            raise PlanError(f"the plan has operator '{other}' where the source has '{entry.title}'")
        try:
            layouts = tuple(layout_of(port["layout"]) for port in row["ports"])
            found.append(Row(layouts, row["way"], arrangement_of(row["arrangement"])))
        except ValueError as error:
            raise PlanError(f"operator '{entry.title}': {error}") from error
    return found


def _may_be(priced: Sequence[Tier], said: Sequence[Tier]) -> bool:
    """Whether what is said of levels may be so, given what they come to: no bound is above a value, and what is optimal
    is at its bound, and comes before all that is not.
    """
    if [(each.names, each.value) for each in priced] != [(each.names, each.value) for each in said]:
        return False
    ranks = [("optimal", "conditional", "feasible").index(each.status) for each in said]
    sound = all(each.bound == each.value if each.status == "optimal" else each.bound <= each.value for each in said)
    return sound and ranks == sorted(ranks)


def _check(made: Facts, said: Facts) -> None:
    """Everything that a plan says has to be so: what has been written is described, and the two are compared."""
    for name, value in json.loads(json.dumps(made)).items():
        place = difference(value, said[name], name)
        if place is not None:
            raise PlanError(f"{printable(place)} is not so: nothing else in the plan leads to it")


def difference(made: Any, said: Any, place: str) -> str | None:
    """The first place at which two values of JSON are not the same; None where they are."""
    if isinstance(made, dict) and isinstance(said, dict) and made.keys() == said.keys():
        pairs = ((made[key], said[key], f"{place}.{key}") for key in made)
    elif isinstance(made, list) and isinstance(said, list) and len(made) == len(said):
        pairs = ((*pair, f"{place}[{number}]") for number, pair in enumerate(zip(made, said, strict=True)))
    elif isinstance(said, (dict, list)):
        return place
    else:
        return None if json.dumps(made) == json.dumps(said) else place  # not a number is itself
    return next(filter(None, (difference(*each) for each in pairs)), None)
