"""Comparing a converted model with its source: LiteRT's reference kernels against ONNX Runtime on the same input."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import prod
from pathlib import Path

import numpy as np
import onnx

from layoutsolve.errors import VerifyError
from layoutsolve.frontend.tflite.reading.model import Model
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.ir.graph import Array
from layoutsolve.verification.dequantized_model import dequantised
from layoutsolve.verification.input_files import Data
from layoutsolve.verification.input_files import samples as given_samples
from layoutsolve.verification.input_sampling import DISTRIBUTIONS, Limits, Samples, drawn, limits
from layoutsolve.verification.layer_accuracy import Compared, Inspection, Inspector
from layoutsolve.verification.litert_tensors import BASIS, layers
from layoutsolve.verification.metrics import (
    FLOAT16_TOLERANCE,
    FLOAT_TOLERANCE,
    distance,
    kind,
)
from layoutsolve.verification.partial_model import partial_of
from layoutsolve.verification.runtimes import (
    LiteRT,
    OnnxRuntime,
    Port,
    RefusedError,
    Run,
    Runtime,
    element,
    of_result,
    runtime_of,
    stepped,
)
from layoutsolve.verification.signature_model import exchanged, subgraph_of
from layoutsolve.verification.tensor_locations import Inside
from layoutsolve.verification.verdict import TWIN, OutputComparison, Verification, not_run

Results = tuple[Array, Array, Array | None]
"""One output on one input: LiteRT's plain result, the converted model's in the same axis order, and XNNPACK's."""

OPTIMISER = "outputs agree without ONNX Runtime's graph optimizations, so that these diverge"
UNSEEN = "intermediate tensors are not compared: they have more than {} MB in all (--verify-tensors compares them)"
"""What is said of the tensors inside."""

SAMPLES, SECONDS = 4, 10.0
"""On how many inputs models are run where no number is given, one of each distribution; no other one is begun after so
many seconds.
"""

MOST, ELEMENTS = 128, 1 << 15
"""On how many inputs at most small models are run, in which few numbers are compared, and how many those are to be."""

FEW, BRIEF = 256, 2.0
"""How many numbers of each quantised tensor inside are to be compared, and for how many seconds inputs are added only
for that: the fewer there are, the larger a part of them may be off by chance.
"""

MOST_BYTES = 1 << 29
"""The most that all tensors inside of a model may have to be compared where that is not asked for."""

SIZES, LARGEST = ((1, 1), (1, 64), (1, 4096), (64, 64)), 1 << 22
"""What dynamic dimensions are tried as, in turn until LiteRT computes anything: those that come first in an input, as
batches do, and others; and how many elements an input may have.
"""

STEPS = 3
"""How many times a model with states is run in turn, each with what the one before has left."""


@dataclass(frozen=True)
class Asked:
    """Arguments of :func:`verify`."""

    seed: int
    samples: int | None
    steps: int | None
    data: Sequence[Data]
    shapes: Mapping[str, Sequence[int]]
    rounding: Collection[tuple[int, int]]
    thorough: bool
    symmetric: bool
    told: Callable[[list[Compared]], None] | None


def verify(
    source: bytes,
    model: onnx.ModelProto | bytes | Path,
    *,
    seed: int = 0,
    samples: int | None = None,
    steps: int | None = None,
    data: Sequence[Data] = (),
    shapes: Mapping[str, Sequence[int]] | None = None,
    input_permutations: Mapping[str, Sequence[int]] | None = None,
    output_permutations: Mapping[str, Sequence[int]] | None = None,
    rounding: Collection[tuple[int, int]] = (),
    signature: str = "",
    inside: Inside | None = None,
    thorough: bool = False,
    symmetric: bool = False,
    timeout: float = 300.0,
    told: Callable[[list[Compared]], None] | None = None,
) -> Verification:
    """Run both models on the same inputs and compare their outputs by position.

    The truth is LiteRT's plain kernels. A model that does not agree is held against its float twin where it has one
    (see :data:`TWIN`). One that has states runs ``steps`` times in a row on each sample, by default :data:`STEPS`.
    Inputs that LiteRT refuses are left out.

    ``data`` are what both are run on instead of drawn inputs; for a model with states the steps of one sample.
    A model with external data is given as the path of its file. ``shapes`` gives the shape of a dynamic input by its
    name in the ONNX model; dynamic dimensions otherwise have the first of :data:`SIZES` that do for LiteRT. The
    permutations say, by the same names, how an input or output is stored: ``stored = transpose(original,
    permutation)``. ``rounding`` are the operators, by subgraph and index, that round activations in the ONNX model as
    well. ``signature`` is the one that was converted, ``symmetric`` says that weights were rounded. With what is
    ``inside`` the ONNX model, given as a proto or a path, the tensors in it are compared as well, however large they
    are if it is ``thorough``. ``timeout`` (seconds) holds for each run of LiteRT, and ``told`` is given
    what was compared inside. Raises :class:`RefusedError` where a runtime refuses its model, and :class:`VerifyError`
    where a runtime is
    missing, and where the models or the data do not fit together.
    """
    place = subgraph_of(source, signature)
    main, kept = exchanged(source, place), _exchanged(rounding, place)
    moved = input_permutations or {}, output_permutations or {}
    asked = Asked(seed, samples, steps, data, shapes or {}, kept, thorough, symmetric, told)
    with LiteRT(timeout) as litert:
        try:
            return _verified(litert, main, model, inside, moved, asked)
        except RefusedError as error:
            found = None if data else _partly(litert, main, model, inside, moved, asked)
            if found is None:
                raise
            if isinstance(found, VerifyError):
                raise error from None
            return found


def _partly(
    litert: LiteRT,
    main: bytes,
    model: onnx.ModelProto | bytes | Path,
    inside: Inside | None,
    moved: tuple[Mapping[str, Sequence[int]], Mapping[str, Sequence[int]]],
    asked: Asked,
) -> Verification | VerifyError | None:
    """The comparison of the part of a model that LiteRT runs, or why there is none; None where it runs no part."""
    partial = None if inside is None or isinstance(model, bytes) else partial_of(litert, main, inside)
    if partial is None or isinstance(model, bytes):
        return None
    both = {**moved[0], **partial.moved}, {**moved[1], **partial.moved}
    try:
        found = _verified(litert, partial.source, partial.cut(model), inside, both, asked)
    except VerifyError as error:
        wrong = isinstance(error, RefusedError) and error.result and not (error.running and partial.counting)
        return not_run(error, asked.seed) if wrong and isinstance(error, RefusedError) else _unlike(error)
    if not partial.lacking or not found.passed:
        return found
    tensors = 0 if found.inspection is None else found.inspection.compared
    return replace(found, refusal=partial.told(tensors, len(found.outputs)), verdict="not verified")


def _unlike(error: VerifyError) -> VerifyError:
    """An error of which a result is not the cause: numbers that are drawn for what an operator gives may be none that
    it would give.
    """
    if isinstance(error, RefusedError):
        error.result = False
    return error


def _verified(
    litert: LiteRT,
    main: bytes,
    model: onnx.ModelProto | bytes | Path,
    inside: Inside | None,
    moved: tuple[Mapping[str, Sequence[int]], Mapping[str, Sequence[int]]],
    asked: Asked,
) -> Verification:
    """The comparison of a model whose main subgraph was converted, as it is told in :func:`verify`."""
    ports = litert.describe(main)
    with of_result():
        runtime = runtime_of(model.SerializeToString() if isinstance(model, onnx.ModelProto) else model)
    parsed = parse(main)
    allowed, keep = limits(parsed), _keeps(parsed)
    chosen = asked.seed, asked.steps, asked.data, asked.shapes
    bench = _Bench(litert, runtime, ports, allowed, *chosen, *moved, keep, _detections(parsed))
    judged = dequantised(main, asked.rounding) or main
    bench = replace(bench, open=bench.size(main))
    bench = replace(bench, other=bench.another(main))
    inspector = _inspector(judged, model, inside, moved[1], asked)
    large = inspector is not None and inspector.size > MOST_BYTES and not asked.thorough
    found = bench.judged(main, judged, asked.samples, None if large else inspector)
    if isinstance(model, bytes) and inside is not None and asked.thorough:
        step = bench.inputs(1)[0][0]
        named = bench.fed([step])[0]
        fed = [named[name] for name, _, _ in bench.runtime.inputs]
        compared = layers(litert, main, model, inside, (step, fed))
        return replace(found, inspection=Inspection(len(compared), None, "", compared, BASIS))
    if large and found.passed:
        return replace(found, inspection=Inspection(0, None, UNSEEN.format(MOST_BYTES >> 20)))
    if inspector is None:
        return found
    if large:  # operators tell whether an output is off by what roundings come to
        bench.used.clear()
        found = bench.judged(main, judged, asked.samples, inspector)
    inspection = inspector.found()
    if asked.told is not None:
        asked.told(inspector.compared)
    if inspection.departure is None and inspector.unknown:
        raise RefusedError(inspector.unknown)
    if not found.passed and inspection.departure is None and inspector.complete:
        assert not isinstance(model, bytes)
        found, optimised = _unoptimised(bench, main, judged, model, found)
        inspection = replace(inspection, note=OPTIMISER) if optimised else inspection
    return replace(found, inspection=inspection)


def _inspector(
    judged: bytes,
    model: onnx.ModelProto | bytes | Path,
    inside: Inside | None,
    permutations: Mapping[str, Sequence[int]],
    asked: Asked,
) -> Inspector | None:
    """What compares the tensors inside of a model, None where that is not asked for or cannot be."""
    if inside is None or isinstance(model, bytes):
        return None
    found = Inspector(judged, model, inside, permutations, asked.rounding, asked.symmetric)
    if asked.thorough:
        found.measure()
    return found


def _unoptimised(
    bench: _Bench, main: bytes, judged: bytes, model: onnx.ModelProto | Path, found: Verification
) -> tuple[Verification, bool]:
    """A comparison with the distances that the model has without graph optimizations, and whether an output agrees
    without them that does not with them.
    """
    with of_result():
        plain = OnnxRuntime(model if isinstance(model, Path) else model.SerializeToString(), level="none")
    unoptimised = replace(bench, runtime=plain).again(main, judged, found)
    pairs = [*zip(found.outputs, unoptimised, strict=True)]
    outputs = tuple(replace(each, accumulated=other.distance) for each, other in pairs)
    optimised = any(not each.passed and other.agrees for each, other in zip(outputs, unoptimised, strict=True))
    return replace(found, outputs=outputs), optimised


def _keeps(model: Model) -> bool:
    """Whether LiteRT's interpreter may run one sample after the other: all states that it has are variables."""
    tensors = (tensor for subgraph in model.subgraphs for tensor in subgraph.tensors)
    names = {operator.name for subgraph in model.subgraphs for operator in subgraph.operators}
    random = any(name.startswith(("RANDOM_", "MULTINOMIAL", "CUSTOM:")) for name in names)
    return not random and not any(tensor.dtype in ("resource", "variant") for tensor in tensors)


def _detections(model: Model) -> list[list[int]]:
    """The places of outputs that are boxes, classes, scores and the number of detections."""
    graph = model.subgraphs[0]
    found = (each.outputs for each in graph.operators if each.name == "CUSTOM:TFLite_Detection_PostProcess")
    return [[graph.outputs.index(index) for index in each[:4]] for each in found if {*each[:4]} <= {*graph.outputs}]


def _exchanged(rounding: Collection[tuple[int, int]], place: int) -> set[tuple[int, int]]:
    """The same operators by subgraph and index, where a subgraph and the main one have changed places."""
    numbers = {0: place, place: 0}
    return {(numbers.get(subgraph, subgraph), index) for subgraph, index in rounding}


@dataclass(frozen=True, eq=False)
class _Bench:
    """The converted model, and LiteRT beside it."""

    litert: LiteRT
    runtime: Runtime
    ports: Run
    allowed: Sequence[Limits]
    seed: int
    steps: int | None
    data: Sequence[Data]
    shapes: Mapping[str, Sequence[int]]
    input_permutations: Mapping[str, Sequence[int]]
    output_permutations: Mapping[str, Sequence[int]]
    keep: bool = False
    detections: Sequence[Sequence[int]] = ()
    open: tuple[int, int] = SIZES[0]
    other: tuple[int, int] | None = None
    used: list[int] = field(default_factory=list)

    def judged(self, main: bytes, judged: bytes, samples: int | None, inspector: Inspector | None) -> Verification:
        """All outputs, by the truth that fits and on as many inputs as tell something."""
        _check_counts(self.runtime, self.ports)
        usual, most = self.enough(inspector)
        wanted = self.inputs(most if samples is None else samples)
        began, runs = time.monotonic(), list[_Ran]()
        for sample, steps in enumerate(wanted):
            try:
                runs.append(self._ran(main, judged, steps, inspector))
            except RefusedError as error:
                if error.result or self.data or (sample == len(wanted) - 1 and not runs):
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
        kinds = () if self.data else tuple(DISTRIBUTIONS[each] for each in self.used if each < len(DISTRIBUTIONS))
        sizes = self.said_sizes() if not self.data else ()
        return Verification(found, self.seed, len(self.used), len(wanted[0]), distributions=kinds, sizes=sizes)

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
        """On how many inputs a model is run: the fewer numbers it has, the more inputs tell how many are off. The other
        one includes those that are run only while little time has passed.
        """
        shapes = [port.shape for port in self.ports.outputs] if inspector is None else inspector.shapes
        usual = min(max(SAMPLES, ELEMENTS // max(sum(map(prod, shapes)), 1)), MOST)
        few = 0 if inspector is None or inspector.fewest is None else -(-FEW // max(inspector.fewest, 1))
        return usual, max(usual, min(few, MOST))

    def size(self, main: bytes) -> tuple[int, int]:
        """The first of the sizes of dynamic dimensions with which LiteRT computes anything."""
        tried = () if self.data or self.sizes(SIZES[0]) == self.sizes(SIZES[-1]) else SIZES
        return next((size for size in tried if self._computes(main, size)), SIZES[0])

    def another(self, main: bytes) -> tuple[int, int] | None:
        """Other sizes of dynamic dimensions with which LiteRT computes as well: what holds for a batch of one may hold
        for no other.
        """
        first, others = self.open
        tried = () if self.data else ((first + 1, others + 1), (first + 1, others), (first, others + 1))
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
        return any(result.size for run in runs for result in run.results)

    def _open(self, sample: int) -> tuple[int, int]:
        """The sizes of dynamic dimensions in a sample."""
        return self.open if self.other is None or sample % 2 == 0 else self.other

    def inputs(self, samples: int) -> Sequence[list[list[Array]]]:
        """The inputs by position, in each sample and in each of its steps. Those of a sample are drawn when it is asked
        for: all of them may take more memory than there is.
        """
        names = [name for name, _, _ in self.runtime.inputs[: len(self.ports.inputs)]]
        states = bool(self.runtime.following)
        if self.data:
            moved = map(self.input_permutations.get, names)
            ports = [*map(_as_converted, self.ports.inputs, self.runtime.inputs, moved)]
            found = given_samples(self.data, names, ports)
            return [found] if states else [[each] for each in found]
        if not self.ports.inputs and not states:
            samples = 1
        steps = (STEPS if states else 1) if self.steps is None else self.steps
        return Samples(samples, lambda sample: [self._drawn(sample, step) for step in range(steps)])

    def _drawn(self, sample: int, step: int) -> list[Array]:
        """Inputs of a sample; those of its first step do not depend on there being others."""
        generator = np.random.default_rng([self.seed, sample, step] if step else [self.seed, sample])
        each = zip(self.ports.inputs, self.sizes(self._open(sample)), self.allowed, strict=True)
        return [drawn(port.dtype, size, generator, sample, allowed) for port, size, allowed in each]

    def sizes(self, size: tuple[int, int]) -> list[tuple[int, ...]]:
        """The shapes of inputs, whose dynamic dimensions have a size."""
        return [
            _shape(port, self.shapes.get(name), stored, self.input_permutations.get(name), size)
            for (name, _, stored), port in zip(self.runtime.inputs, self.ports.inputs, strict=False)
        ]

    def _ran(self, main: bytes, judged: bytes, steps: list[list[Array]], inspector: Inspector | None) -> _Ran:
        """Both models on one sample, and the tensors inside."""
        litert, tensors = self.litert, [] if inspector is None else inspector.tensors
        truth = litert.steps(judged, steps, tensors=tensors, keep=self.keep)
        plain = truth if judged is main else litert.steps(main, steps, keep=self.keep)
        fed = self.fed(steps)
        with of_result():
            results = stepped(self.runtime, fed)
            if inspector is not None:
                inspector.add(truth, fed)
        for run in (*truth, *plain):
            self._clear(run)
        names, moved = self.runtime.outputs, self.output_permutations

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
        return [feeds(self.runtime, inputs, self.input_permutations) for inputs in steps]


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


def _as_converted(port: Port, own: tuple[str, str, Sequence[int | str]], moved: Sequence[int] | None) -> Port:
    """An input with the sizes that the ONNX model was given, which may be others than its source states."""
    stored = own[2]
    if len(stored) != len(port.signature):
        return port
    places = range(len(stored)) if moved is None else moved
    sizes = {axis: size if isinstance(size, int) else -1 for axis, size in zip(places, stored, strict=True)}
    return replace(port, signature=tuple(sizes[axis] for axis in range(len(stored))))


def _shape(
    port: Port,
    given: Sequence[int] | None,
    stored: Sequence[int | str],
    moved: Sequence[int] | None,
    free: tuple[int, int],
) -> tuple[int, ...]:
    """The shape of an input: as it is given, else as the ONNX model states it, else as its source does, else
    as it is ``free`` where it comes first and where it does not.

    The ONNX model may have been given other sizes than its source states, whose input is then resized. Sizes that it
    leaves open and its source states begin with these: they are larger by as much as those that are free are above 1.
    """
    if given is not None:
        return tuple(given)
    places = range(len(stored)) if moved is None else moved
    pinned = {axis: own for axis, own in zip(places, stored, strict=True) if isinstance(own, int)}
    first, other = free if len(port.signature) > 1 else free[1:] * 2
    sizes = (max(own, 1) - 1 + (other if axis else first) for axis, own in enumerate(port.signature))
    return tuple(pinned.get(axis, size) for axis, size in enumerate(sizes))


def feeds(runtime: Runtime, inputs: Sequence[Array], permutations: Mapping[str, Sequence[int]]) -> dict[str, Array]:
    """The inputs by name as the ONNX model stores them; zeros for the state that the source model keeps inside."""
    names = [name for name, _, _ in runtime.inputs]
    given = {name: stored(data, permutations.get(name)) for name, data in zip(names, inputs, strict=False)}
    return {**given, **{name: zeros(dtype, shape) for name, dtype, shape in runtime.inputs[len(inputs) :]}}


def zeros(dtype: str, shape: Sequence[int | str | None]) -> Array:
    """Zeros for an input of an ONNX Runtime type such as ``tensor(float)``; 1 for each symbolic dimension."""
    return np.zeros([size if isinstance(size, int) else 1 for size in shape], element(dtype))


def stored(data: Array, permutation: Sequence[int] | None) -> Array:
    """An input as ONNX Runtime takes it: texts as objects, in the order of a permutation."""
    data = np.char.decode(data, "utf-8").astype(object) if data.dtype.kind == "S" else data
    return data if permutation is None else np.ascontiguousarray(np.transpose(data, permutation))


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
