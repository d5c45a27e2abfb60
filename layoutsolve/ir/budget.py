"""What one conversion may compute and write: a multiple of the file's size, so that tiny files stay tiny."""

from __future__ import annotations

from collections.abc import Sequence

from layoutsolve.errors import BudgetError
from layoutsolve.ir.elements import memory, owner
from layoutsolve.ir.graph import Array

GROWTH, SPARE = 4, 16 << 20
"""The model that is written has at most so many times the bytes of the source, and so many more."""

_COMPUTED, _COMPUTED_SPARE = 2, 32 << 20
"""The same for constants in memory, against the largest model that may be written."""

_SMALL = 1 << 15
"""Bytes of a result that is worth to be computed while converting, as long as all of these have room: shapes, indices,
parameters.
"""

_WORK, _SPARE_WORK = 4, 1 << 24
"""How many numbers may be computed while converting, against the bytes of the source: of a few a result stays."""

SIMPLE = 8
"""How many numbers are added, compared or copied in the time in which one of those is computed."""

_ENTRIES, _SPARE_ENTRIES = 16, 1 << 13
"""How many operators and tensors may be written, against those of the source: a subgraph is written wherever it is
called, and some operators have to be written out.
"""

_SPARE_PORTS = 1 << 16
"""How many more inputs and outputs of operators than operators and tensors a source may have: a tensor that an operator
reads again and again takes 4 bytes of the file each time, and far more in memory.
"""

_SPARE_OUTPUTS, _BYTES_PER_OUTPUT = 25_000, 400
"""How many outputs a model may have, and how many bytes of its file there have to be for each one more: what becomes of
an output takes 8 kB of memory.
"""

_BYTES_PER_ENTRY = 1 << 11
"""What a larger model may be takes this for each operator and tensor that it has more."""

REMEDY = "allow a larger model (--max-size)"


class Budget:
    """Counts what a conversion computes and writes. Raises :class:`BudgetError` where that is too much.

    ``size`` is that of the source in bytes, ``most`` the size of the largest model that may be written.
    """

    def __init__(self, size: int = 1 << 40, max_size: int | None = None) -> None:
        self._size, self._max_size = 0, max_size
        self.extend(size)

    def extend(self, size: int) -> None:
        """Account for a file of the source, before anything else."""
        self._size += size
        size, usual = self._size, GROWTH * self._size + SPARE
        self.most = usual if self._max_size is None else self._max_size
        self._room = max(self.most, usual)
        self._computed = _COMPUTED * self._room + _COMPUTED_SPARE
        self._folded = self._room - self._room // GROWTH
        self._little = self._room
        self._extra = (self._room - usual) // _BYTES_PER_ENTRY
        self._most_outputs = _SPARE_OUTPUTS + size // _BYTES_PER_OUTPUT + self._extra
        self._entries = self._most_entries = 0
        self._written = 0
        self._work = _WORK * size + _SPARE_WORK
        self._owners: dict[int, Array] = {}
        self._known: dict[tuple[object, ...], Array] = {}

    def fresh(self) -> Budget:
        """One for the same source, of which nothing is spent."""
        return Budget(self._size, self._max_size)

    @property
    def left(self) -> int:
        """Bytes of initializers that may still be computed."""
        return self._computed

    # -- computing -------------------------------------------------------------------------------------------------

    def ask(self, size: int) -> None:
        """Make sure that a constant of so many bytes may be computed."""
        if size > self._computed:
            raise BudgetError(
                f"its constants grow far beyond the size of the file: {size} bytes, where {self._computed} are left",
                REMEDY,
            )

    def spend(self, size: int) -> None:
        """Account for bytes that were computed."""
        self.ask(size)
        self._computed -= size

    def keep(self, data: Array) -> None:
        """Account for a constant: for the memory that it lies in, once, and for none where that is the source's."""
        whole = owner(data)
        if whole.base is None and whole.nbytes and id(whole) not in self._owners:
            self.spend(whole.nbytes)
            self._owners[id(whole)] = whole

    def folds(self, results: Sequence[Array]) -> bool:
        """Whether these results are computed rather than written as an operator; accounts for them then."""
        fresh = {memory(each): each for each in results if memory(each) not in self._known}
        if not self.affords(sum(each.nbytes for each in fresh.values())):
            return False
        self._known.update(fresh)
        return True

    def computes(self, numbers: int) -> bool:
        """Whether so many numbers may be computed, whatever becomes of them; accounts for them then."""
        if numbers > self._work:
            return False
        self._work -= numbers
        return True

    def affords(self, size: int) -> bool:
        """Whether constants of so many bytes may stand for operators that compute them; accounts for them then."""
        if not self.would_afford(size):
            return False
        if size > _SMALL:
            self._folded -= size
        else:
            self._little -= size
        return True

    def would_afford(self, size: int) -> bool:
        """Whether constants of so many bytes may stand for operators that compute them."""
        return size <= self._computed and size <= (self._folded if size > _SMALL else self._little)

    def open(self, entries: int, ports: int = 0) -> None:
        """Account for the operators and tensors of the source, and for the inputs and outputs of its operators."""
        most = _ENTRIES * entries + _SPARE_PORTS + self._extra
        if ports > most:
            raise BudgetError(
                f"its operators have {ports} inputs and outputs, where those of {entries} operators and tensors may"
                f" have {most}",
                REMEDY,
            )
        self._most_entries = _ENTRIES * entries + _SPARE_ENTRIES + self._extra
        self._entries = self._most_entries

    def enter(self, entries: int) -> None:
        """Account for operators and tensors about to be written."""
        self._entries -= entries
        if self._entries < 0:
            raise BudgetError(
                f"its operators grow far beyond the size of the file: more than {self._most_entries} are to be written",
                REMEDY,
            )

    def end(self, outputs: int, different: int) -> None:
        """Account for the outputs of the model, of which those that repeat another one are operators of their own."""
        if outputs > self._most_outputs:
            raise BudgetError(f"it has {outputs} outputs, where {self._most_outputs} are the most", REMEDY)
        self.enter(outputs - different)

    # -- writing ---------------------------------------------------------------------------------------------------

    def write(self, size: int, what: str) -> None:
        """Account for a part of the model that is about to be written."""
        self._written += size
        if self._written > self.most:
            raise BudgetError(
                f"the model grows beyond {self.most} bytes with {what}, which takes {size}",
                f"{REMEDY}, or make what it repeats smaller",
            )
