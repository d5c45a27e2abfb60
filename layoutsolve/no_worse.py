"""An ONNX source that is optimised never gets worse: where nothing is gained, it is returned as it stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from layoutsolve.conversion.passthrough import as_it_stands, fold_transposes, say_how, written_before
from layoutsolve.conversion.provenance import WRITTEN, Provenance
from layoutsolve.emit import External
from layoutsolve.io.source import Content
from layoutsolve.proto.data_movement import Moves, moves, of_constants
from layoutsolve.proto.weight_selection import running, selects
from layoutsolve.solver import Assignment, Price, assign
from layoutsolve.solver.statement.objective import ranked, without_groupings
from layoutsolve.solver.theory.rules.reordered import taken
from layoutsolve.solver.theory.rules.transposed_operands import taken_operands

if TYPE_CHECKING:
    import onnx

    from layoutsolve.ir.graph import Graph
    from layoutsolve.result import Conversion

SMALL = 1 << 12
"""Bytes that a Transpose moves in the time of any operator: below, layout penalties are no whole Transposes."""

ARITHMETIC = ("Add", "Div", "Mul", "Pad", "Sub")
"""Operators that constants make nothing of, or a part of what is beside them."""


def no_worse_but_for_ports(found: Conversion, converted: Callable[[str], Conversion]) -> Conversion:
    """What is made of an ONNX source of which some graph inputs and outputs are stored otherwise: for fewest Transposes
    if there are more than in the source and one for each of these.
    """
    most = found.graph.figures.transposes + len(found.moved_ends)
    made = moves(found.model).transposes
    if made <= most or found.assignment.goal.objective == "min-transpose":
        return found
    other = converted("min-transpose")
    return other if moves(other.model).transposes < made else found


def no_worse(
    content: Content, found: Conversion, converted: Callable[..., Conversion], before: Sequence[Provenance]
) -> Conversion:
    """What is made of a source in ONNX, for fewer Transposes alone if need be, or the source as it stands where it is
    no better then, or has been made in one of some ways ``before``: in its own layouts with weights as they are right
    on every processor where its sums may saturate, but for Transposes that alone read a constant.
    """
    graph, goal = found.graph, found.assignment.goal
    stays, kept = _in_its_own_layouts(found), "no improvement"
    drop = found.reading.initializer_inputs == "drop"
    external = External() if found.external is not None else None
    if graph.metadata.get(WRITTEN):
        model = as_it_stands(content, external, drop)
        if model is not None and written_before(model, before):
            known = "it is what layoutsolve has written"
            return replace(found, assignment=stays, model=model, external=external, origins={}, kept=known)
    first = Moves(graph.figures.transposes + _picked(graph), graph.figures.reshapes, stays.price.hidden)
    after = moves(found.model, found.price.hidden)
    timed = not {"hidden", "nanoseconds"}.isdisjoint(without_groupings(goal.levels)[0])
    traded, alike = after.transposes > first.transposes, after.transposes == first.transposes
    cheaper = alike and _is_cheaper(found, stays, after.reshapes - first.reshapes, timed=timed)
    if cheaper or after.gains(first, executed=timed and not (traded and _is_small(found))):
        return found
    if after.counts > first.counts and goal.objective != "min-transpose":  # they were traded for time
        other = converted("min-transpose")
        after = moves(other.model, other.price.hidden)
        if after.gains(first) and after.executed <= first.executed:
            return other
        with_as_few = _in_its_own_layouts(other)
        if stays.status != with_as_few.status == "optimal":  # what has a lower price has more Transposes
            stays, kept = with_as_few, "no layouts with as few Transposes cost less"
    model = as_it_stands(content, external, drop)
    no_more = after.transposes <= first.transposes and after.executed <= first.executed
    if model is None or (no_more and _folds(found, model)):
        return found
    if _is_safer(found) and not selects(model):
        return converted(goal.objective, stays)
    fold_transposes(model)
    say_how(model, found.provenance)
    stays = replace(stays, price=_as_counted(moves(model), stays.price))
    return replace(found, assignment=stays, model=model, external=external, origins={}, kept=kept)


def _is_safer(found: Conversion) -> bool:
    """Whether what is made is right on processors on which sums of the source saturate: weights are selected, or
    written without a sign, or sums are those of floats.
    """
    return found.reading.storage.weights in ("selected", "unsigned", "uint8") and found.graph.figures.saturating > 0


def _is_small(found: Conversion) -> bool:
    """Whether Transposes move little, of sizes that are all known."""
    fixed = all(isinstance(size, int) for value in found.graph.values.values() for size in value.shape)
    return fixed and found.price.bytes < SMALL * found.price.transposes


def _is_cheaper(found: Conversion, own: Assignment, more: int, *, timed: bool) -> bool:
    """Whether layouts have a lower price than a source's own, at as many Transposes and some Reshapes ``more``, which
    are worth bytes that are not moved where times are what counts.
    """
    levels = without_groupings(own.goal.levels)
    worth = more == 0 or (timed and 0 < SMALL * more <= own.price.bytes - found.price.bytes)
    return worth and ranked(found.price, levels) < ranked(own.price, levels)


def _picked(graph: Graph) -> int:
    """How many of a source's Gathers move all that they read as Transposes do."""
    origins = (node.origin for node in graph.nodes if node.op == "Transpose")
    return sum(origin is not None and origin.operator == "Gather" for origin in origins)


def _in_its_own_layouts(found: Conversion) -> Assignment:
    """What the source's own layouts cost, beside what is proven of any other."""
    goal, proven = found.assignment.goal, found.assignment
    own = assign(found.graph, found.boundary, strategy="transpose", objective=goal.objective, target=goal.target)
    free = taken(found.graph, goal.offer) + taken_operands(found.graph, goal.offer)
    own = replace(own, price=own.price + Price(hidden=-free))
    return replace(
        own,
        strategy=proven.strategy,
        bounds=proven.bounds,
        completed=proven.completed and ranked(own.price, goal.levels) == ranked(proven.price, goal.levels),
        ended=proven.ended,
        relative=proven.kept,
    )


def _as_counted(counted: Moves, price: Price) -> Price:
    """A price of the source's own layouts, by what the file has where that is less: no row of an operator says it."""
    if counted.counts >= (price.transposes, price.reshapes):
        return price
    bytes_moved = price.bytes if counted.transposes else 0
    return replace(price, transposes=counted.transposes, reshapes=counted.reshapes, bytes=bytes_moved, regrouped=0)


def _folds(found: Conversion, source: onnx.ModelProto) -> bool:
    """Whether a model has no constant twice and no more operators than its source, and fewer Transposes of constants,
    or of no kind more and less arithmetic: what changes nothing, or is computed with what is beside it. A Conv more for
    a Mul less is a product by a constant for each channel.
    """
    own, theirs = (Counter(node.op_type for node in running(model.graph)) for model in (found.model, source))
    if found.price.copies or own.total() > theirs.total():
        return False
    products = max(own["Conv"] - theirs["Conv"], 0)
    own.update({"Conv": -products, "Mul": products})
    less = own <= theirs and any(own[operator] < theirs[operator] for operator in ARITHMETIC)
    return less or of_constants(found.model) < of_constants(source)
