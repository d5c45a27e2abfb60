"""How much a zone needs at least, by pieces of it.

What a few operators need by themselves, whatever the others do, they need in the whole as well. Pieces that have no
operator in common, and of which no two pay for the same variable, add up. A piece begins where a solution makes a
Reshape, and grows by what is around it until it is seen that the Reshape is needed. All groupings of so few operators
can mostly be stated where those of the whole zone cannot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import field, replace

from layoutsolve.records import dataclass
from layoutsolve.solver.limit import Limit
from layoutsolve.solver.search.known import Known
from layoutsolve.solver.search.search import Solution, solve
from layoutsolve.solver.search.zone import Zone, Zones, zone_of
from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.statement.objective import Tiers, searched_tiers
from layoutsolve.solver.statement.price import price_of_variable
from layoutsolve.solver.statement.problem import LayoutProblem, Operator
from layoutsolve.solver.statement.statement import Statement
from layoutsolve.solver.theory.row import FREE, Row

Rows = tuple[Row, ...]

ROWS = 15_000
"""The most rows of a problem of all groupings that is solved."""

STATED = 0.6
"""The most of what is left of a limit that stating one piece may take."""


@dataclass(frozen=True)
class Scope:
    """Which assignments are in question, beside one that was ``found``: those whose operators have the orders of the
    rows that are ``kept``, where only the variables that are ``moved`` change their order.
    """

    statement: Statement
    found: Assignment
    kept: Sequence[Sequence[Row]]
    moved: Collection[int]
    paid: dict[Hashable, tuple[Rows, Rows]] = field(default_factory=dict)

    def zone(self) -> Zone:
        """The zone of the Reshapes that are made."""
        return zone_of(self.statement.entries, self.found.problem, self.found.rows, self.kept)

    def rows(self, numbers: Iterable[int]) -> dict[int, Sequence[Row]]:
        """The rows of some operators that have a choice."""
        return {number: self.kept[number] for number in numbers}

    def fixed(self, numbers: Iterable[int]) -> dict[int, Row]:
        """The rows of some borders."""
        return {number: self.found.row(number) for number in numbers}

    def groupings(self, zone: Zone, limit: Limit) -> LayoutProblem | None:
        """The problem of a zone, or a part of one, over all groupings; None where these are too many."""
        if limit.over:
            return None
        stated = self.statement.groupings(self.rows(zone.free), self.fixed(zone.fixed), self.moved, limit, ROWS)
        rows = [len(operator.rows) for operator in stated.operators]
        return None if stated.capped or limit.over or sum(rows) > ROWS or not all(rows) else stated

    def paying(self, problem: LayoutProblem, zone: Zone) -> LayoutProblem:
        """The problem of a zone in which nothing is paid but at its variables and by operators that have a choice."""
        variables, free = set(zone.variables), frozenset(zone.free)
        operators = []
        for number, operator in zip(zone.operators, problem.operators, strict=True):
            home = zip(self.statement.entries[number].ports, operator.ports, strict=True)
            paid = [each in variables or problem.variables[here].constant for each, here in home]
            operators.append(self._at(operator, [port for port, pays in enumerate(paid) if pays], number in free))
        return replace(problem, operators=tuple(operators))

    def _at(self, operator: Operator, ports: Sequence[int], free: bool) -> Operator:
        """An operator at some of its ports alone; one that is not free has no price. Its rows are the very same for all
        that are alike.
        """
        key = (id(operator.rows), *ports, free)
        if key not in self.paid:
            rows = (
                Row(
                    tuple([row.layouts[port] for port in ports]), row.form, row.arrangement, row.price if free else FREE
                )
                for row in operator.rows
            )
            self.paid[key] = operator.rows, tuple(rows)
        return operator.at(ports, self.paid[key][1])


def fewest(scope: Scope, part: Zone, limit: Limit, known: Known) -> Solution | None:
    """The fewest Reshapes of a part of the zone that borders alone lead out of; None where that is not found out."""
    stated = scope.groupings(part, limit.part(STATED))
    if stated is None:
        return None
    solution = solve(scope.paying(stated, part), scope.found.goal.tiers, limit, known)
    return replace(solution, problem=stated) if solution.optimal else None


def needed(scope: Scope, part: Zone, free: bool, limit: Limit, known: Known) -> int:
    """What a part of a zone needs at least, as far as a limit allows to find out: mostly what is made there.

    ``free`` says that there Transposes and all else that comes before Reshapes cost nothing.
    """
    return _Pieces(scope, part, searched_tiers(scope.found.goal.tiers) if free else (), limit, known).least()


@dataclass
class _Piece:
    """Operators, the variables beside what they produce that are paid for, how many Reshapes a solution ``made``
    there, and what is needed at ``least``.
    """

    operators: set[int]
    variables: set[int]
    made: int
    least: int = 0


class _Pieces:
    """The pieces of a zone: each operator is in one of them at the most."""

    def __init__(self, scope: Scope, part: Zone, before: Tiers, limit: Limit, known: Known) -> None:
        """The tiers ``before`` Reshapes are those that all assignments in question have at the least of each piece."""
        self.scope, self.part, self.limit, self.known = scope, part, limit, known
        self.tiers: Tiers = (*before, ("reshapes",))
        self.problem = scope.found.problem
        self.zones = Zones(scope.statement.entries, self.problem, scope.kept)
        self.free, self.fixed = frozenset(part.free), frozenset(part.fixed)
        self.home: dict[int, _Piece] = {}
        self.paid: set[int] = set()
        self.among = frozenset(part.variables)

    def least(self) -> int:
        """What all pieces together need."""
        pieces = self._begun()
        waiting = deque(piece for piece in pieces if piece.made)
        while waiting and not self.limit.over:
            piece = waiting.popleft()
            if piece.made and self._open(piece) and self._grown(piece):
                waiting.append(piece)
        return sum(piece.least for piece in pieces)

    def _begun(self) -> list[_Piece]:
        """A piece around each Reshape that is made."""
        pieces, found = list[_Piece](), self.scope.found
        for number in self.part.free:
            if made := found.row(number).price.reshapes:
                pieces.append(self._begin([number], made))
        for variable in self.part.variables:
            if made := price_of_variable(self.problem, found.rows, variable).reshapes:
                at = sorted({number for number, _ in self.problem.places(variable)} & self.free)
                pieces.append(self._begin(at, made))
                if variable not in self.paid:
                    self._pay(pieces[-1], variable)
        return pieces

    def _begin(self, operators: Iterable[int], made: int) -> _Piece:
        piece = _Piece(set(), set(), made)
        self._take(piece, operators)
        return piece

    def _take(self, piece: _Piece, operators: Iterable[int]) -> None:
        """Add operators to a piece, with the pieces that have them, and what they read from borders."""
        for number in operators:
            other = self.home.get(number)
            if other is None:
                self.home[number] = piece
                piece.operators.add(number)
                for variable in self.problem.operators[number].ports:
                    writer = self.problem.writers[variable]
                    if writer and writer[0] in self.fixed and variable in self.among and variable not in self.paid:
                        self._pay(piece, variable)
            elif other is not piece:
                self._merge(piece, other)

    def _pay(self, piece: _Piece, variable: int) -> None:
        piece.variables.add(variable)
        self.paid.add(variable)

    def _merge(self, piece: _Piece, other: _Piece) -> None:
        """Make one of two pieces; nothing is left of the other."""
        self.home.update(dict.fromkeys(other.operators, piece))
        piece.operators |= other.operators
        piece.variables |= other.variables
        piece.made, piece.least = piece.made + other.made, piece.least + other.least
        other.operators, other.variables, other.made, other.least = set(), set(), 0, 0

    def _around(self, piece: _Piece) -> set[int]:
        near = set[int]().union(*(self.zones.neighbours(number) for number in piece.operators))
        return (near & self.free) - piece.operators

    def _grown(self, piece: _Piece) -> bool:
        """Add to a piece what is around it and in no other one, or, where there is nothing, the pieces around it."""
        around = self._around(piece)
        self._take(piece, sorted({number for number in around if number not in self.home} or around))
        return bool(around)

    def _open(self, piece: _Piece) -> bool:
        """Find out what a piece needs; whether that is less than what is made, and a larger piece may need more."""
        zone = self._zone(piece)
        stated = self.scope.groupings(zone, self.limit.part(STATED))
        if stated is None:
            return False
        solution = solve(self.scope.paying(stated, zone), self.tiers, self.limit, self.known)
        if solution.values[:-1] == solution.bounds[:-1]:
            piece.least = max(piece.least, solution.bounds[-1])
        return piece.least < piece.made

    def _zone(self, piece: _Piece) -> Zone:
        """A piece as a zone of what it pays for; all else that its operators are at is free."""
        paid = set(piece.variables)
        for number in piece.operators:
            operator = self.problem.operators[number]
            paid.update(self.among.intersection(operator.ports[operator.inputs :]))
        at = {number for variable in paid for number, _ in self.problem.places(variable)} & self.fixed
        return Zone(tuple(sorted(piece.operators)), tuple(sorted(at)), tuple(sorted(paid)))
