"""Where a converted model diverges from its source: every operator by itself, on LiteRT's own numbers.

LiteRT keeps all its tensors. In the ONNX model each that is found there becomes an input, fed with what LiteRT has, and
an output beside it that is computed from such inputs alone. So no error is passed on, and what is off was caused where
it is. Tensors within branches and loops are not looked at: an If or a Loop is one operator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import prod
from pathlib import Path

import numpy as np
import onnx

from layoutsolve.base.wording import counted
from layoutsolve.frontend.tflite.reading.model import Operator, Subgraph
from layoutsolve.ir.graph import Array
from layoutsolve.verification.cut_model import CutModel, stored_of
from layoutsolve.verification.layer_table import Closeness, Layer, lines_of
from layoutsolve.verification.litert import Port, Run
from layoutsolve.verification.litert_quirks import reading
from layoutsolve.verification.metrics import Distance, Kind, kind
from layoutsolve.verification.reference_results import exact
from layoutsolve.verification.tensor_locations import Inside, Place, places_of
from layoutsolve.verification.tensor_statistics import LEAST, TINY, Tally
from layoutsolve.verification.undefined_results import NOISE, tie, undefined, vanishes

NOISE_16 = 2.0**-10
"""The same of floats of 16 bits: about a unit in their last place, which smaller parts round away."""

Pair = tuple[Array, Array]


@dataclass(frozen=True)
class Departure:
    """First diverging operator: the first of the source whose outputs differ from LiteRT's on LiteRT's own inputs.

    ``index`` and ``operator`` are its own, ``tensor`` is its output that is off, by ``distance`` where it is farthest,
    and ``reason`` says why that is too far. ``others`` are the operators of the source that were compared together with
    it, because what is between them is in no ONNX model.
    """

    index: int
    operator: str
    tensor: str
    kind: Kind
    distance: Distance
    reason: str
    others: tuple[str, ...] = ()

    def __str__(self) -> str:
        others = f", which is written together with {', '.join(self.others)}," if self.others else ""
        name = f"operator {self.index} {self.operator} (output '{self.tensor}'){others}"
        return f"{name} diverges on LiteRT's inputs: {self.reason}\n     {self.distance}"


@dataclass(frozen=True)
class Inspection:
    """Layer-wise comparison: the number of intermediate tensors ``compared``, and the first diverging operator.
    ``note`` names another possible cause where outputs diverge, ``basis`` is what tensors are computed from. ``layers``
    are the accuracies of all tensors, in the order in which they are computed, where these were asked for.
    """

    compared: int
    departure: Departure | None
    note: str = ""
    layers: tuple[Layer, ...] = ()
    basis: str = "each computed from LiteRT's inputs to it"

    def __str__(self) -> str:
        return "\n".join((self.told, *lines_of(self.layers)) if self.layers else (self.told,))

    @property
    def told(self) -> str:
        """The verdict, without the table."""
        if self.departure is not None:
            return f"FAIL {self.departure}"
        if not self.compared and self.note:
            return f"pass {self.note}"
        compared = counted(self.compared, "intermediate tensor")
        return f"pass {compared}, {self.basis}{self.note and f'; {self.note}'}"


@dataclass(frozen=True, eq=False)
class Compared:
    """What was counted of one tensor, the operator that gives it, and others that are written together with that."""

    operator: Operator
    others: tuple[Operator, ...]
    tally: Tally


@dataclass(frozen=True)
class _Steps:
    """Some runs in a row: LiteRT's, what the ONNX model was fed in each, and what it gave; ``noisy`` is what it gives
    for rounded inputs.
    """

    runs: Sequence[Run]
    fed: Sequence[Mapping[str, Array]]
    results: Sequence[Mapping[str, Array]]
    noisy: Callable[[], Sequence[Mapping[str, Array]]]


class Inspector:
    """Compares every tensor that both models have, one run after the other.

    ``source`` is what LiteRT runs; ``permutations`` say, by their names in the ONNX model, how outputs are stored.
    Operators in ``rounding``, by subgraph and index, round activations, and all do weights if these are ``symmetric``.
    """

    def __init__(
        self,
        source: bytes,
        model: onnx.ModelProto | Path,
        inside: Inside,
        permutations: Mapping[str, Sequence[int]],
        rounding: Collection[tuple[int, int]] = (),
        symmetric: bool = False,
    ) -> None:
        self._subgraph, self._places, self._states = places_of(source, inside)
        self._rounding, self._symmetric = rounding, symmetric
        self._model, self._permutations = model, permutations
        self._cut: CutModel | None = None
        self.unknown = ""
        self._tallies: dict[int, Tally] = {}
        self._written: dict[int, tuple[Operator, tuple[Operator, ...]]] = {}
        self._ends_tallies: dict[int, Tally] = {}
        self._layers: dict[int, Closeness] | None = None

    def measure(self) -> None:
        """Count the accuracy of each tensor as well, from now on."""
        self._layers = {}

    @property
    def tensors(self) -> list[int]:
        """The tensors that LiteRT has to return."""
        return [*self._places, *self._states]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The static shapes of these."""
        return [self._subgraph.tensors[index].shape for index in self._places]

    @property
    def fewest(self) -> int | None:
        """How many elements the smallest quantized tensor has, None where there is none."""
        return min((prod(each.tensor.shape) for each in self._places.values() if each.port.quantized), default=None)

    @property
    def size(self) -> int:
        """How many bytes these have, as far as their shapes are static."""
        tensors = (self._subgraph.tensors[index] for index in self._places)
        return sum(prod(tensor.shape or ()) * (8 if "64" in tensor.dtype else 4) for tensor in tensors)

    def add(self, runs: Sequence[Run], fed: Sequence[Mapping[str, Array]]) -> None:
        """Compare the tensors of some runs in a row, of which the ONNX model is fed the same."""
        if self._cut is None:
            self._cut = self._begun(runs)
        cut = self._cut
        given = [cut.fed(run, inputs) for run, inputs in zip(runs, fed, strict=True)]
        after = [{place.stored.name: stored_of(place, run.tensors) for place in self._states.values()} for run in runs]
        steps = _Steps(runs, given, cut.run(given, after), cache(lambda: cut.run(rounded(given), after)))
        known = frozenset(self._places)
        for index in (each for operator in self._subgraph.operators for each in operator.outputs if each in known):
            if index not in self._tallies:
                self._written[index] = _written(self._subgraph, index, known)
                self._tallies[index] = self._tally(self._places[index].port, *self._written[index], runs[0])
            for number in range(len(runs)):
                self._count(cut, index, steps, number)
        self._ends(cut, steps)
        self._left(cut, steps)

    def _begun(self, runs: Sequence[Run]) -> CutModel:
        """The model with cuts, and no tensors any more but those that can be compared in it."""
        self._places = {index: place for index, place in self._places.items() if _fits(index, place, runs)}
        cut = CutModel.of(self._model, self._places)
        self._states = {
            index: place
            for index, place in self._states.items()
            if place.stored.name in cut.following and _fits(index, place, runs)
        }
        return cut

    def _count(self, cut: CutModel, index: int, steps: _Steps, number: int) -> None:
        """Compare one tensor of one run."""
        place, tally, (operator, others) = self._places[index], self._tallies[index], self._written[index]
        run, inputs, here = steps.runs[number], steps.fed[number], steps.results[number]
        truth = run.tensors[index]
        if self._layers is not None:
            self._layers.setdefault(index, Closeness(place.port)).add(truth, cut.own(place, run.tensors, here))
        if cut.agrees(place, truth, inputs, here):
            tally.equal(truth)
            return
        meant = None if others else exact(self._subgraph, operator, run.tensors)
        one, other = _apart(truth if meant is None else meant[0], cut.own(place, run.tensors, here))
        if meant is not None and one.shape == other.shape:
            tally.exact, like = True, truth.reshape(one.shape)
            floats = one.dtype.kind == "f"
            other = np.where(np.abs(other - one) <= np.abs(like - one) if floats else other == like, one, other)
        if vanishes((operator, *others), run.tensors, one, other):
            return
        real: Callable[[], Array | None] = partial(cut.real, place, run.tensors, {**inputs, **here})
        if meant is not None:
            real = partial(lambda known: known, meant[1])
        ignored = undefined(self._subgraph, operator, run.tensors, one, other, real)
        again = partial(_again, cut, place, steps, number, one)
        _compare(tally, (one, other), real, ignored, again)

    def _tally(self, port: Port, operator: Operator, others: Sequence[Operator], run: Run) -> Tally:
        rounded = self._symmetric or (0, operator.index) in self._rounding
        sizes = [run.tensors[index].size for index in operator.inputs if index in run.tensors]
        made = max(prod(run.tensors[operator.outputs[0]].shape) if operator.outputs[0] in run.tensors else 1, 1)
        length = max([*sizes, 1]) // made
        least = LEAST.get(operator.name, TINY)
        return Tally(port, "" if others else operator.name, rounded, length, tie(self._subgraph, operator), least)

    def _ends(self, cut: CutModel, steps: _Steps) -> None:
        """Compare outputs that are no known tensors, as the model computes them of those that are."""
        for number, (run, here) in enumerate(zip(steps.runs, steps.results, strict=True)):
            for position, (port, name) in enumerate(zip(run.outputs, cut.ports, strict=False)):
                if name not in here:
                    continue
                tally = self._ends_tallies.setdefault(position, Tally(port, ""))
                one, other = _apart(run.results[position], self._turned(name, here[name]))
                again = partial(self._end_again, name, steps, number, one)
                _compare(tally, (one, other), lambda: None, None, again)

    def _left(self, cut: CutModel, steps: _Steps) -> None:
        """Compare the states that each run leaves: the next one is given LiteRT's."""
        readers = {index: operator for operator in self._subgraph.operators for index in operator.inputs}
        for index, place in self._states.items():
            name = cut.following[place.stored.name]
            for number, (run, here) in enumerate(zip(steps.runs, steps.results, strict=True)):
                if index not in readers or name not in here:
                    continue
                if index not in self._tallies:
                    self._written[index] = readers[index], ()
                    self._tallies[index] = self._tally(place.port, readers[index], (), run)
                like = run.tensors[index]
                one, other = _apart(like, place.back(here[name], like))

                def again(name: str = name, number: int = number, place: Place = place, like: Array = like) -> Array:
                    return place.back(steps.noisy()[number][name], like)

                _compare(self._tallies[index], (one, other), lambda: None, None, again)

    def _turned(self, name: str, data: Array) -> Array:
        """An output in the source's order of dimensions."""
        order = self._permutations.get(name)
        return data if order is None else np.transpose(data, np.argsort(order))

    def _end_again(self, name: str, steps: _Steps, number: int, like: Array) -> Array | None:
        found = _apart(like, self._turned(name, steps.noisy()[number][name]))[1]
        return found if found.shape == like.shape else None

    @property
    def complete(self) -> bool:
        """Whether all of the model was compared: each of its outputs is a tensor that was."""
        if self._cut is None:
            return False
        names = {index: place.stored.name for index, place in self._places.items()}
        ports = enumerate(zip(self._subgraph.outputs, self._cut.ports, strict=False))
        return all(names.get(index) == name or position in self._ends_tallies for position, (index, name) in ports)

    @property
    def compared(self) -> list[Compared]:
        """What was compared, in the order in which it is computed, and then outputs that are no known tensors."""
        makers = {index: operator for operator in self._subgraph.operators for index in operator.outputs}
        computed = (index for index in (*makers, *self._states) if index in self._tallies)
        inside = [Compared(*self._written[index], self._tallies[index]) for index in computed]
        outputs = ((makers.get(self._subgraph.outputs[place]), tally) for place, tally in self._ends_tallies.items())
        return [*inside, *(Compared(maker, (), tally) for maker, tally in outputs if maker is not None)]

    def found(self) -> Inspection:
        """What the comparison came to."""
        for each in self.compared:
            operator, tally = each.operator, each.tally
            if not (why := tally.verdict()):
                continue
            if misread := reading(self._subgraph, operator, tally.constant):
                self.unknown = self.unknown or f"LiteRT {misread} (operator {operator.index} {operator.name})"
                continue
            port, others = tally.port, tuple(f"{other.name}#{other.index}" for other in each.others)
            departure = Departure(operator.index, operator.name, port.name, kind(port), tally.found, why, others)
            return Inspection(len(self._tallies), departure, layers=self._measured())
        return Inspection(len(self._tallies), None, layers=self._measured())

    def _measured(self) -> tuple[Layer, ...]:
        """The accuracy of each tensor that was counted."""
        counted = (self._layers or {}).items()
        makers = ((self._written[index][0], closeness) for index, closeness in counted)
        return tuple(closeness.layer(maker.index, maker.name) for maker, closeness in makers)


def _again(cut: CutModel, place: Place, steps: _Steps, number: int, like: Array) -> Array | None:
    """A tensor of one run as rounded inputs give it."""
    found = _apart(like, cut.own(place, steps.runs[number].tensors, steps.noisy()[number]))[1]
    return found if found.shape == like.shape else None


def _fits(index: int, place: Place, runs: Sequence[Run]) -> bool:
    """Whether a tensor of the source can be stored as the ONNX model does, in every run."""
    given = (run.tensors.get(index) for run in runs)
    return all(data is not None and place.put(data) is not None for data in given)


def _compare(
    tally: Tally,
    pair: Pair,
    real: Callable[[], Array | None],
    ignored: Array | None,
    again: Callable[[], Array | None],
) -> None:
    """Count one tensor of one run; where it is off, rounded inputs show what may be."""
    one, other = pair
    if one.shape != other.shape or kind(tally.port) == "quantized":
        tally.add(one, other, real, ignored)
    elif kind(tally.port) == "float":
        tally.add_floats(one, other, ignored, again)
    else:
        if not np.array_equal(one, other) and (noisy := again()) is not None:
            changed = noisy != other
            ignored = changed if ignored is None else ignored | changed
        tally.add(one, other, ignored=ignored)


def _apart(one: Array, other: Array) -> Pair:
    """Two results without what is infinite, or the largest number, in both: a model may have the one for the other
    where it is added to something, and distances are measured against all that there is.
    """
    if one.dtype.kind != "f" or one.dtype != other.dtype or one.shape != other.shape:
        return one, other
    largest = np.finfo(one.dtype).max
    if all(not data.size or max(data.max(), -data.min()) < largest for data in (one, other)):
        return one, other
    same = (np.abs(one) >= largest) & (np.abs(other) >= largest) & (np.sign(one) == np.sign(other))
    return (np.where(same, 0, one), np.where(same, 0, other)) if same.any() else (one, other)


def rounded(steps: Sequence[Mapping[str, Array]]) -> list[Mapping[str, Array]]:
    """The same inputs with floats that are rounded more."""
    noise = np.random.default_rng(0)

    def one(data: Array) -> Array:
        if data.dtype.kind != "f":
            return data
        part = NOISE if data.itemsize > 2 else NOISE_16
        with np.errstate(over="ignore"):
            found = np.asarray(data * (1 + noise.uniform(-part, part, data.shape)), data.dtype)
        return np.where(np.abs(data) < np.finfo(data.dtype).max, found, data)  # the largest are infinite ones

    return [{name: one(data) for name, data in each.items()} for each in steps]


def _written(subgraph: Subgraph, index: int, known: frozenset[int]) -> tuple[Operator, tuple[Operator, ...]]:
    """The operator that gives a tensor, and those before it of which no tensor is known."""
    makers = {each: operator for operator in subgraph.operators for each in operator.outputs}
    found: dict[int, Operator] = {makers[index].index: makers[index]}
    waiting = list(makers[index].inputs)
    while waiting:
        each = waiting.pop()
        if each in makers and each not in known and makers[each].index not in found:
            found[makers[each].index] = makers[each]
            waiting += makers[each].inputs
    return makers[index], tuple(found[each] for each in sorted(found) if each != makers[index].index)
