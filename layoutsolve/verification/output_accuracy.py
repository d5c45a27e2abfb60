"""Both models on the same inputs, end to end: the outputs of LiteRT against those of the converted model."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import prod

import numpy as np

from layoutsolve.errors import VerifyError
from layoutsolve.ir.graph import Array
from layoutsolve.verification.input_files import Sampling
from layoutsolve.verification.input_files import samples as given_samples
from layoutsolve.verification.input_sampling import DISTRIBUTIONS, Limits, Samples, drawn
from layoutsolve.verification.layer_accuracy import Inspector
from layoutsolve.verification.litert import LiteRT, Port, Run
from layoutsolve.verification.metrics import FLOAT16_TOLERANCE, FLOAT_TOLERANCE, distance, kind
from layoutsolve.verification.model_inputs import as_converted, feeds, sizes_of
from layoutsolve.verification.refusals import RefusedError, of_result
from layoutsolve.verification.runtimes import Runtime, stepped
from layoutsolve.verification.tensor_locations import Relation
from layoutsolve.verification.verdict import TWIN, OutputComparison, Verification

Results = tuple[Array, Array, Array | None]
"""One output on one input: LiteRT's plain result, the converted model's in the same axis order, and XNNPACK's."""

SAMPLES, SECONDS = 4, 10.0
"""On how many inputs models are run where no number is given, one of each distribution; no other one is begun after so
many seconds.
"""

MOST, ELEMENTS = 128, 1 << 15
"""On how many inputs at most small models are run, in which few numbers are compared, and how many those are to be."""

FEW, BRIEF = 256, 2.0
"""How many numbers of each quantized tensor inside are to be compared, and for how many seconds inputs are added only
for that: the fewer there are, the larger a part of them may be off by chance.
"""

SIZES, LARGEST = ((1, 1), (1, 64), (1, 4096), (64, 64)), 1 << 22
"""What dynamic dimensions are tried as, in turn until LiteRT computes anything: those that come first in an input, as
batches do, and others; and how many elements an input may have.
"""

_NO_NUMBERS = (
    "LiteRT gives no numbers with the sizes that were tried: fix those of inputs (--shape), or give --verify-data"
)
"""Why nothing is said of a result that does not run."""

STEPS = 3
"""How many times a model with states is run in turn, each with what the one before has left."""


@dataclass(frozen=True, eq=False)
class Bench:
    """The converted model, and LiteRT beside it."""

    litert: LiteRT
    runtime: Runtime
    ports: Run
    allowed: Sequence[Limits]
    sampling: Sampling
    relation: Relation
    keep: bool = False
    detections: Sequence[Sequence[int]] = ()
    open: tuple[int, int] = SIZES[0]
    other: tuple[int, int] | None = None
    used: list[int] = field(default_factory=list)

    def judged(self, main: bytes, judged: bytes, inspector: Inspector | None) -> Verification:
        """All outputs, by the truth that fits and on as many inputs as make a difference."""
        _check_counts(self.runtime, self.ports)
        (usual, most), samples = self.enough(inspector), self.sampling.samples
        wanted = self.inputs(most if samples is None else samples)
        began, runs = time.monotonic(), list[_Ran]()
        for sample, steps in enumerate(wanted):
            try:
                runs.append(self._ran(main, judged, steps, inspector))
            except RefusedError as error:
                if error.result or self.sampling.data or (sample == len(wanted) - 1 and not runs):
                    raise
                continue
            self.used.append(sample)
            longest = SECONDS if sample + 1 < usual else BRIEF
            if samples is None and time.monotonic() - began > longest:
                break
        found = self._outputs([each.plain for each in runs])
        if judged is not main and not all(output.agrees for output in found):
            twins = self._outputs([each.twin for each in runs if each.twin is not None])
            pairs = zip(twins, found, strict=True)
            found = tuple(replace(each, truth=TWIN, rounded=other.distance) for each, other in pairs)
        return self._verification(found, wanted)

    def again(self, main: bytes, judged: bytes, found: Verification) -> tuple[OutputComparison, ...]:
        """The outputs on the same inputs, by the truth that they were judged by."""
        source = judged if any(output.truth == TWIN for output in found.outputs) else main
        wanted = self.inputs(max(self.used) + 1)
        runs = [self._ran(source, source, wanted[sample], None) for sample in self.used]
        return self._outputs([each.plain for each in runs])

    def _verification(self, found: tuple[OutputComparison, ...], wanted: Sequence[list[list[Array]]]) -> Verification:
        seed, drawn = self.sampling.seed, not self.sampling.data
        kinds = tuple(DISTRIBUTIONS[each] for each in self.used if drawn and each < len(DISTRIBUTIONS))
        sizes = self.said_sizes() if drawn else ()
        return Verification(found, seed, len(self.used), len(wanted[0]), distributions=kinds, sizes=sizes)

    def said_sizes(self) -> tuple[str, ...]:
        """The sizes that dynamic dimensions had, for people; none where there are no such dimensions."""
        if self.sizes((1, 1)) == self.sizes((2, 2)):
            return ()
        had = dict.fromkeys(self._open(sample) for sample in self.used)
        return tuple(", ".join(self._said_size(size)) for size in had)

    def _said_size(self, size: tuple[int, int]) -> Iterator[str]:
        """What the dynamic dimensions are that come first in an input, and what others are."""
        for name, more in (("first", (size[0] + 1, size[1])), ("others", (size[0], size[1] + 1))):
            pairs = zip(chain(*self.sizes(size)), chain(*self.sizes(more)), strict=True)
            found = dict.fromkeys(str(own) for own, larger in pairs if own != larger)
            if found:
                yield f"{name} {' and '.join(found)}"

    def enough(self, inspector: Inspector | None) -> tuple[int, int]:
        """On how many inputs a model is run: the fewer numbers it has, the more inputs show how many are off. The other
        one includes those that are run only while little time has passed.
        """
        shapes = [port.shape for port in self.ports.outputs] if inspector is None else inspector.shapes
        usual = min(max(SAMPLES, ELEMENTS // max(sum(map(prod, shapes)), 1)), MOST)
        few = 0 if inspector is None or inspector.fewest is None else -(-FEW // max(inspector.fewest, 1))
        return usual, max(usual, min(few, MOST))

    def size(self, main: bytes) -> tuple[int, int]:
        """The first of the sizes of dynamic dimensions with which LiteRT computes anything."""
        tried = () if self.sampling.data or self.sizes(SIZES[0]) == self.sizes(SIZES[-1]) else SIZES
        return next((size for size in tried if self._computes(main, size)), SIZES[0])

    def another(self, main: bytes) -> tuple[int, int] | None:
        """Other sizes of dynamic dimensions with which LiteRT computes as well: what holds for a batch of one may hold
        for no other.
        """
        first, others = self.open
        tried = () if self.sampling.data else ((first + 1, others + 1), (first + 1, others), (first, others + 1))
        new = (size for size in tried if self.sizes(size) != self.sizes(self.open))
        return next((size for size in new if self._computes(main, size)), None)

    def _computes(self, main: bytes, size: tuple[int, int]) -> bool:
        """Whether LiteRT computes anything with some sizes of dynamic dimensions."""
        if any(prod(shape) > LARGEST for shape in self.sizes(size)):
            return False
        try:
            runs = self.litert.steps(main, replace(self, open=size).inputs(1)[0], keep=self.keep)
        except RefusedError:
            return False
        return _gives_numbers(runs)

    def _open(self, sample: int) -> tuple[int, int]:
        """The sizes of dynamic dimensions in a sample."""
        return self.open if self.other is None or sample % 2 == 0 else self.other

    def inputs(self, samples: int) -> Sequence[list[list[Array]]]:
        """The inputs by position, in each sample and in each of its steps. Those of a sample are drawn when it is asked
        for: all of them may take more memory than there is.
        """
        names = [name for name, _, _ in self.runtime.inputs[: len(self.ports.inputs)]]
        states = bool(self.runtime.following)
        if self.sampling.data:
            moved = map(self.relation.input_permutations.get, names)
            ports = [*map(as_converted, self.ports.inputs, self.runtime.inputs, moved)]
            found = given_samples(self.sampling.data, names, ports)
            return [found] if states else [[each] for each in found]
        if not self.ports.inputs and not states:
            samples = 1
        steps = (STEPS if states else 1) if self.sampling.steps is None else self.sampling.steps
        return Samples(samples, lambda sample: [self._drawn(sample, step) for step in range(steps)])

    def _drawn(self, sample: int, step: int) -> list[Array]:
        """Inputs of a sample; those of its first step do not depend on there being others."""
        generator = np.random.default_rng([self.sampling.seed, sample, *([step] if step else [])])
        each = zip(self.ports.inputs, self.sizes(self._open(sample)), self.allowed, strict=True)
        return [drawn(port.dtype, size, generator, sample, allowed) for port, size, allowed in each]

    def sizes(self, size: tuple[int, int]) -> list[tuple[int, ...]]:
        """The shapes of inputs, whose dynamic dimensions have a size."""
        return [
            sizes_of(port, self.sampling.shapes.get(name), stored, self.relation.input_permutations.get(name), size)
            for (name, _, stored), port in zip(self.runtime.inputs, self.ports.inputs, strict=False)
        ]

    def _ran(self, main: bytes, judged: bytes, steps: list[list[Array]], inspector: Inspector | None) -> _Ran:
        """Both models on one sample, and the tensors inside."""
        litert, tensors = self.litert, [] if inspector is None else inspector.tensors
        truth = litert.steps(judged, steps, tensors=tensors, keep=self.keep)
        plain = truth if judged is main else litert.steps(main, steps, keep=self.keep)
        fed = self.fed(steps)
        try:
            with of_result():
                results = stepped(self.runtime, fed)
                if inspector is not None:
                    inspector.add(truth, fed)
        except RefusedError as error:
            if error.running and not _gives_numbers(truth):
                raise RefusedError(f"{_NO_NUMBERS}. {error}") from error
            raise
        for run in (*truth, *plain):
            self._clear(run)
        names, moved = self.runtime.outputs, self.relation.output_permutations

        def paired(runs: list[Run], source: bytes) -> list[list[Results]]:
            fast = _delegated(litert, source, steps, self.keep)
            for run in fast or ():
                self._clear(run)
            others = [None] * len(runs) if fast is None else fast
            each = zip(runs, others, results, strict=True)
            return [_paired(run, other, names, outputs, moved) for run, other, outputs in each]

        return _Ran(paired(plain, main), None if judged is main else paired(truth, judged))

    def _clear(self, run: Run) -> None:
        """Make zeros of what lies behind detections, which LiteRT leaves as memory was."""
        for *rows, count in self.detections:
            for place in rows:
                run.results[place][:, int(run.results[count].reshape(-1)[0]) :] = 0

    def _outputs(self, runs: Sequence[list[list[Results]]]) -> tuple[OutputComparison, ...]:
        """All outputs, over all runs."""
        found = [step for steps in runs for step in steps]
        compared = zip(self.ports.outputs, self.runtime.outputs, zip(*found, strict=True), strict=False)
        return tuple(_compare(*output, len(runs[0]), _tolerance(self.ports)) for output in compared)

    def fed(self, steps: Sequence[Sequence[Array]]) -> list[dict[str, Array]]:
        """The inputs of a sample as the ONNX model takes them."""
        return [feeds(self.runtime, inputs, self.relation.input_permutations) for inputs in steps]


def _gives_numbers(runs: Sequence[Run]) -> bool:
    """Whether LiteRT gives any number that is one."""
    results = [result for run in runs for result in run.results]
    return any(result.size and not (result.dtype.kind == "f" and np.isnan(result).all()) for result in results)


@dataclass(frozen=True, eq=False)
class _Ran:
    """The outputs on one sample, in each of its steps: by LiteRT's truth, and by the float twin where there is one."""

    plain: list[list[Results]]
    twin: list[list[Results]] | None


def _tolerance(ports: Run) -> float:
    return FLOAT16_TOLERANCE if ports.float16 else FLOAT_TOLERANCE


def _check_counts(runtime: Runtime, ports: Run) -> None:
    converted, original = (len(runtime.inputs), len(runtime.outputs)), (len(ports.inputs), len(ports.outputs))
    if converted[0] < original[0] or converted[1] < original[1]:
        counts = "the ONNX model has {} inputs and {} outputs, its source {} and {}".format(*converted, *original)
        raise VerifyError(f"{counts}: verify a model against the file that it was converted from")


def _delegated(litert: LiteRT, source: bytes, steps: Sequence[Sequence[Array]], keep: bool) -> list[Run] | None:
    try:
        return litert.steps(source, steps, delegate=True, keep=keep)
    except VerifyError:
        return None


def _paired(
    truth: Run,
    fast: Run | None,
    names: Sequence[str],
    results: Sequence[Array],
    permutations: Mapping[str, Sequence[int]],
) -> list[Results]:
    pairs: list[Results] = []
    for position, reference in enumerate(truth.results):
        result, permutation = results[position], permutations.get(names[position])
        original = result if permutation is None else np.transpose(result, np.argsort(permutation))
        pairs.append((reference, original, None if fast is None else fast.results[position]))
    return pairs


def _compare(port: Port, name: str, runs: Sequence[Results], steps: int, tolerance: float) -> OutputComparison:
    found = distance(port, [(reference, result) for reference, result, _ in runs], steps)
    fast = [(reference, result) for reference, _, result in runs if result is not None]
    xnnpack = distance(port, fast, steps) if len(fast) == len(runs) else None
    return OutputComparison(name, kind(port), found, xnnpack, tolerance)
