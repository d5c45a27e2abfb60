"""Random comparators of STABLEHLO_SORT: what is converted sorts as the comparator says, by its own evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

import layoutsolve
from layoutsolve.errors import ModelError, UnsupportedError
from layoutsolve.verification.model_inputs import feeds
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.builder import Part
from tests.conformance.cases import Operand
from tests.conformance.sorting import Comparator, chosen, compared, sorting

Number = np.float32
Meaning = Callable[[Sequence[Number]], Any]
"""What a part of a comparator gives for some arguments."""

NUMBERS = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf], np.float32)
NANS = np.array([np.nan, -np.nan], np.float32)


def total(number: Number) -> int:
    """Where a number is in total order."""
    bits = int(np.float32(number).view(np.int32))
    return bits if bits >= 0 else -(bits & 0x7FFFFFFF) - 1


def by(direction: int, in_total: bool, left: Number, right: Number) -> bool:
    a, b = (total(left), total(right)) if in_total else (left, right)
    return bool({0: a == b, 1: a != b, 3: a > b, 5: a < b}[direction])


class Maker:
    """A random comparator of two operands in the making; each part is a tensor and what it means."""

    def __init__(self, part: Part, arguments: Sequence[int], random: np.random.Generator) -> None:
        self.part, self.random = part, random
        self.arguments = [(index, lambda given, at=at: given[at]) for at, index in enumerate(arguments)]
        self.constants = []
        for number in (0.0, -0.0, np.nan, -np.nan, 1.0):
            value = np.float32(number)
            self.constants.append((part.constant(f"c{number}", value), lambda _, value=value: value))

    def element(self, key: int, side: int, steps: Sequence[int]) -> tuple[int, Meaning]:
        """One element of the key, with selections around it: many of them do not change the number."""
        found = self.arguments[2 * key + side]
        for step in steps:
            mine, other = found, self.arguments[2 * key + 1 - side]
            zero, _, nan, *_ = self.constants
            usual = [
                ((mine, zero, 0), zero, mine), ((mine, mine, 1), nan, mine), ((mine, mine, 0), mine, nan),
                ((other, mine, 0), other, mine), ((mine, other, 1), mine, other), ((mine, zero, 1), mine, zero),
                ((mine, mine, 1), other, mine),
            ]  # fmt: skip
            test, one, two = usual[step]
            if self.random.random() < 0.1:  # anything in the place of one part
                anything = [*self.arguments, *self.constants]
                one = anything[int(self.random.integers(len(anything)))]
            found = self.selected(test, one, two)
        return found

    def selected(
        self, test: tuple[Any, Any, int], one: tuple[int, Meaning], two: tuple[int, Meaning]
    ) -> tuple[int, Meaning]:
        (left, of_left), (right, of_right), direction = test
        condition = compared(self.part, left, right, direction)
        result = chosen(self.part, condition, one[0], two[0], "float32")
        return (
            result,
            lambda given: one[1](given) if by(direction, False, of_left(given), of_right(given)) else two[1](given),
        )


def random_comparator(seed: int, meanings: list[Meaning]) -> Comparator:
    """A comparator of two operands by one of them, or nearly so. What it means is added to ``meanings``."""
    random = np.random.default_rng(seed)

    def write(part: Part, arguments: Sequence[int], _: str) -> int:
        maker, key, in_total = Maker(part, arguments, random), int(random.integers(2)), bool(random.integers(2))
        steps = [[int(step) for step in random.integers(7, size=random.integers(4))] for _ in range(2)]
        if random.random() < 0.7:
            steps = [([0, 1], [0, 1]), ([], [3, 6]), (steps[0], steps[0]), ([1, 0], [1, 0])][seed % 4]
        sides = [maker.element(key, side, each) for side, each in enumerate(steps)]
        if random.random() < 0.1:
            sides[1] = maker.element(1 - key, 1, steps[1])
        first, second = sides if random.random() < 0.5 else sides[::-1]
        direction = int(random.choice([3, 5, 5, 3, 1]))
        result = compared(part, first[0], second[0], direction, in_total)
        meanings.append(lambda given: by(direction, in_total, first[1](given), second[1](given)))
        return result

    return write


class Never(np.random.Generator):
    """Draws that leave a comparator as it is usual."""

    def random(self, *more: Any, **told: Any) -> Any:
        """The largest."""
        return 1.0


@pytest.mark.parametrize("in_total", [False, True])
@pytest.mark.parametrize(("left", "right"), [((0, 1), (0, 1)), ((1, 0), (1, 0)), ((), (3, 6)), ((3, 6), ())])
def test_usual_comparators_sort(left: Sequence[int], right: Sequence[int], in_total: bool) -> None:
    """In total order, zeros and NaN having one sign, or the one the other's."""

    def write(part: Part, arguments: Sequence[int], _: str) -> int:
        maker = Maker(part, arguments, Never(np.random.PCG64(0)))
        sides = [maker.element(0, side, steps)[0] for side, steps in enumerate((left, right))]
        return compared(part, *sides, 5, in_total)

    data = NUMBERS[2:]
    runtime = OnnxRuntime(layoutsolve.convert(sorting([Operand(data)], [data], 0, 0, write).source).content(""))
    assert (runtime.run(feeds(runtime, [data], {}))[0] == np.sort(data)).all()


def is_weak_order(comes_before: Callable[[Any, Any], bool], elements: Sequence[Any]) -> bool:
    """Whether a comparison sorts some elements: StableHLO says nothing of what others do."""
    before = {(a, b): comes_before(elements[a], elements[b]) for a, b in product(range(len(elements)), repeat=2)}
    if any(before[a, b] and before[b, a] for a, b in before):
        return False
    for a, b, c in product(range(len(elements)), repeat=3):
        if before[a, b] and not (before[a, c] or before[c, b]):
            return False
    return True


def check(seed: int) -> str:
    """What becomes of a random comparator."""
    random, meanings = np.random.default_rng(seed), list[Meaning]()
    comparator, kinds = random_comparator(seed, meanings), [NUMBERS, np.concatenate([NUMBERS, NANS])]
    data = [random.choice(kinds[1], 24) for _ in range(2)]
    operands = [Operand(each) for each in data]
    source = sorting(operands, data, 0, 0, comparator).source
    (meaning,) = meanings
    try:
        converted = layoutsolve.convert(source).model
    except UnsupportedError as error:
        assert "sorts by" in str(error)
        return "refused"
    runtime, found = OnnxRuntime(converted.SerializeToString(), threads=1), "numbers"

    def comes_before(one: tuple[Number, Number], two: tuple[Number, Number]) -> bool:
        return bool(meaning([one[0], two[0], one[1], two[1]]))

    for kind in kinds:
        rows = [tuple(row) for row in product(kind, [Number(2), Number(3)])]
        rows += [(other, key) for key, other in rows]
        if not is_weak_order(comes_before, rows):
            assert kind is not NUMBERS, "it is no order"
            continue
        given = [random.choice(kind, 24) for _ in range(2)]
        first, second = runtime.run(feeds(runtime, given, {}))
        expected = stably_sorted(list(zip(*given, strict=True)), comes_before)
        for at, result in enumerate((first, second)):
            assert result.tobytes() == np.array([row[at] for row in expected], np.float32).tobytes()
        found = "all" if kind is not NUMBERS else found
    return found


def stably_sorted(rows: list[Any], comes_before: Callable[[Any, Any], bool]) -> list[Any]:
    """Rows put in, one after the other, behind all that they do not come before."""
    found: list[Any] = []
    for row in rows:
        place = next((at for at, other in enumerate(found) if comes_before(row, other)), len(found))
        found.insert(place, row)
    return found


def test_random_comparators() -> None:
    """Of every kind there are some: those that are refused, that sort numbers, and NaN as well."""
    found = [check(seed) for seed in range(100)]
    assert all(found.count(kind) >= 10 for kind in ("refused", "numbers", "all")), found


def _two_keys(part: Part, arguments: Sequence[int], _: str) -> int:
    first = compared(part, *arguments[:2], 5)
    return chosen(part, compared(part, *arguments[:2], 0), compared(part, *arguments[2:], 5), first, "bool")


def _one_operand(part: Part, arguments: Sequence[int], _: str, direction: int, total: bool) -> int:
    return compared(part, *arguments[:2], direction, total)


def _of_two(part: Part, arguments: Sequence[int], _: str) -> int:
    return compared(part, arguments[0], arguments[2], 5)


@pytest.mark.parametrize(
    ("comparator", "reason"),
    [
        (_two_keys, "a function of its own"),
        (partial(_one_operand, direction=4, total=False), "no order"),
        (partial(_one_operand, direction=0, total=False), "no order"),
        (partial(_one_operand, direction=5, total=True), "signs of zeros and NaN"),
        (_of_two, "several operands"),
        (lambda part, arguments, _: arguments[0], "a function of its own"),
    ],
)
def test_what_is_refused(comparator: Comparator, reason: str) -> None:
    data = [np.zeros((2, 3), np.float32)] * 2
    with pytest.raises(UnsupportedError, match=reason):
        layoutsolve.convert(sorting([Operand(each) for each in data], data, 1, 0, comparator).source)


def test_keys_that_no_kernel_sorts() -> None:
    data = [np.zeros(3, np.uint64)]
    less = partial(_one_operand, direction=5, total=False)
    with pytest.raises(UnsupportedError, match="sorts by uint64"):
        layoutsolve.convert(sorting([Operand(data[0], "uint64")], data, 0, 0, less).source)


def test_what_contradicts_itself() -> None:
    """A subgraph of another number of elements, or of elements of another type, and an axis that there is not."""
    less, (x, y) = partial(_one_operand, direction=5, total=False), (np.zeros(3, np.float32), np.zeros(3, np.int32))

    def other_type(part: Part, arguments: Sequence[int], dtype: str) -> int:
        part.subgraph.tensors[arguments[1]].type = 2
        return less(part, arguments, dtype)

    def fewer(part: Part, arguments: Sequence[int], dtype: str) -> int:
        part.subgraph.inputs = part.subgraph.inputs[:3]
        return less(part, arguments, dtype)

    def twice(part: Part, arguments: Sequence[int], dtype: str) -> int:
        part.subgraph.inputs = [arguments[0], *arguments[:1], *arguments[2:]]
        return less(part, arguments, dtype)

    operands = [Operand(x), Operand(y, "int32")]
    for axis, comparator in ((0, other_type), (0, fewer), (0, twice), (3, less)):
        with pytest.raises(ModelError):
            layoutsolve.convert(sorting(operands, [x, y], axis, 0, comparator).source)
