"""Comparing a converted model with its source: LiteRT's plain kernels against ONNX Runtime on the same input."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import TypeVar, overload

import numpy as np
import onnx

from layoutsolve.errors import VerifyError
from layoutsolve.graph import Array
from layoutsolve.verification.data import Data
from layoutsolve.verification.data import samples as given_samples
from layoutsolve.verification.departure import Inside, Inspection, inspect
from layoutsolve.verification.dequantised import dequantised
from layoutsolve.verification.distance import (
    FLOAT16_TOLERANCE,
    FLOAT_TOLERANCE,
    Distance,
    Kind,
    distance,
    kind,
    passes,
    reason,
)
from layoutsolve.verification.runtimes import LiteRT, OnnxRuntime, Port, Run, element, stepped
from layoutsolve.verification.signatures import exchanged, subgraph_of

T = TypeVar("T")

Results = tuple[Array, Array, Array | None]
"""One output on one input: LiteRT's plain result, the converted model's in the same axis order, and XNNPACK's."""

PLAIN, TWIN = "LiteRT's plain kernels", "LiteRT's plain kernels with dequantised weights"
"""What a model is judged by. LiteRT rounds the activations of operators with float results and quantised weights at run
time, more than the ONNX model does, which keeps them as they are; it does not where the weights are floats.
"""

ELEMENTS, MOST = 10_000, 30
"""To be compared with XNNPACK, an output needs so many elements: models run on more inputs, up to the second number."""

OPTIMISER = "outputs agree where ONNX Runtime's optimiser is off, so that it is what departs"
TOGETHER = "what is off in the outputs is what errors, or roundings, of many operators come to"
"""What is said where outputs do not pass and no operator departs."""

STEPS = 3
"""How many times a model with states is run in turn, each with what the one before has left."""


@dataclass(frozen=True)
class OutputComparison:
    """One output: its ONNX name, the kind of its numbers, how far it is from the ``truth``, and the verdict.

    ``xnnpack`` is how far LiteRT's own default path (XNNPACK) is from the truth, None where that does not run. Where
    the truth is :data:`TWIN`, ``rounded`` is how far the output is from what LiteRT makes of the model itself.
    An output passes within the tolerance, and if it is about as far off as XNNPACK on average.
    """

    name: str
    kind: Kind
    distance: Distance
    xnnpack: Distance | None
    tolerance: float
    truth: str = PLAIN
    rounded: Distance | None = None
    agrees: bool = field(init=False)
    passed: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "agrees", passes(self.kind, self.distance, self.tolerance))
        object.__setattr__(self, "passed", self.agrees or self.no_further_than_xnnpack)

    @property
    def no_further_than_xnnpack(self) -> bool:
        """Whether the converted model is about as close to the truth as LiteRT's own default path is."""
        return self.xnnpack is not None and self.distance.no_further_than(self.xnnpack)

    @property
    def reason(self) -> str:
        """Why it passes, or does not, in words."""
        beside = (
            ", on average about as far off as LiteRT's own default path is" if self.passed and not self.agrees else ""
        )
        found = reason(self.kind, self.distance, self.tolerance, beside)
        return found if self.truth in (PLAIN, TWIN) else found.replace("LiteRT's", "the source's")

    def __str__(self) -> str:
        lines = [
            f"{'pass' if self.passed else 'FAIL'} {self.name} ({self.kind}): {self.reason}",
            f"     {self.distance}",
        ]
        if self.xnnpack is not None and (self.kind == "quantised" or not self.agrees):
            lines.append(f"     LiteRT with XNNPACK: {self.xnnpack}")
        if self.rounded is not None:
            lines.append(f"     by {self.truth}; from LiteRT as it is, which rounds activations: {self.rounded}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Verification:
    """The comparison of all outputs, over ``samples`` inputs drawn from ``seed``, or given, each of so many ``steps``.

    ``inspection`` is that of the tensors inside, where it was asked for.
    """

    outputs: tuple[OutputComparison, ...]
    seed: int
    samples: int
    steps: int = 1
    inspection: Inspection | None = None
    agrees: bool = field(init=False)
    passed: bool = field(init=False)

    def __post_init__(self) -> None:
        departs = self.inspection is not None and self.inspection.departure is not None
        object.__setattr__(self, "agrees", all(output.agrees for output in self.outputs))
        object.__setattr__(self, "passed", all(output.passed for output in self.outputs) and not departs)

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.outputs, self.inspection) if self.inspection is not None else self.outputs))


def verify(
    source: bytes,
    model: onnx.ModelProto | bytes | Path,
    *,
    seed: int = 0,
    samples: int = 1,
    steps: int | None = None,
    data: Sequence[Data] = (),
    shapes: Mapping[str, Sequence[int]] | None = None,
    input_permutations: Mapping[str, Sequence[int]] | None = None,
    output_permutations: Mapping[str, Sequence[int]] | None = None,
    rounding: Collection[tuple[int, int]] = (),
    signature: str = "",
    inside: Inside | None = None,
    timeout: float = 300.0,
) -> Verification:
    """Run both models on the same inputs and compare their outputs by position.

    The truth is LiteRT's plain kernels. A model that does not agree is held against its float twin where it has one
    (see :data:`TWIN`), and run on more inputs where XNNPACK is off as well, so that the two distances tell something.
    One that has states runs ``steps`` times in a row on each sample, by default :data:`STEPS`.

    ``data`` are what both are run on instead of smooth data; for a model with states the steps of one sample.
    A model with external data is given as the path of its file. ``shapes`` gives the shape of a dynamic input by its
    name in the ONNX model; dynamic dimensions are 1 otherwise. The permutations say, by the same names, how an input or
    output is stored: ``stored = transpose(original, permutation)``. ``rounding`` are the operators, by subgraph and
    index, that round activations in the ONNX model as well. ``signature`` is the one that was converted. With what is
    ``inside`` the ONNX model, given as a proto or a path, the tensors in it are compared as well. ``timeout`` (in
    seconds) holds for each run of LiteRT. Raises :class:`VerifyError` where a runtime is missing or refuses its model,
    and where the models or the data do not fit together.
    """
    runtime = OnnxRuntime(model.SerializeToString() if isinstance(model, onnx.ModelProto) else model)
    place = subgraph_of(source, signature)
    main, kept = exchanged(source, place), _exchanged(rounding, place)
    with LiteRT(timeout) as litert:
        moved = (input_permutations or {}, output_permutations or {})
        bench = _Bench(litert, runtime, seed, steps, data, shapes or {}, *moved)
        found, inspection = bench.judged(main, kept, samples), None
        if inside is not None and not isinstance(model, bytes):
            judged = dequantised(main, kept) or main
            inspection = bench.inspected(judged, model, inside, samples)
            if not found.passed and inspection.departure is None:
                plain = OnnxRuntime(model if isinstance(model, Path) else model.SerializeToString(), level="none")
                agrees = all(output.agrees for output in replace(bench, runtime=plain).compared(judged, samples))
                inspection = replace(inspection, note=OPTIMISER if agrees else TOGETHER)
    return replace(found, inspection=inspection)


def _exchanged(rounding: Collection[tuple[int, int]], place: int) -> set[tuple[int, int]]:
    """The same operators by subgraph and index, where a subgraph and the main one have changed places."""
    numbers = {0: place, place: 0}
    return {(numbers.get(subgraph, subgraph), index) for subgraph, index in rounding}


class _Made(Sequence[T]):
    """So many things, each of which is made anew when it is asked for."""

    def __init__(self, count: int, make: Callable[[int], T]) -> None:
        self._numbers, self._make = range(count), make

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> list[T]: ...

    def __getitem__(self, index: int | slice) -> T | list[T]:
        found = self._numbers[index]
        return self._make(found) if isinstance(found, int) else [*map(self._make, found)]


@dataclass(frozen=True, eq=False)
class _Bench:
    """The converted model, and LiteRT beside it."""

    litert: LiteRT
    runtime: OnnxRuntime
    seed: int
    steps: int | None
    data: Sequence[Data]
    shapes: Mapping[str, Sequence[int]]
    input_permutations: Mapping[str, Sequence[int]]
    output_permutations: Mapping[str, Sequence[int]]

    def judged(self, source: bytes, rounding: Collection[tuple[int, int]], samples: int) -> Verification:
        """All outputs, by the truth that fits and on as many inputs as tell something."""
        found = self.compared(source, samples)
        if all(output.agrees for output in found):
            return self._verification(source, found, samples)
        judged = source
        if (twin := dequantised(source, rounding)) is not None:
            judged, rounded = twin, found
            found = self.compared(judged, samples)
        if not self.data and (more := needed(found, samples)) > samples:
            samples, found = more, self.compared(judged, more)
        if twin is not None:
            pairs = zip(found, rounded, strict=True)
            found = tuple(replace(each, truth=TWIN, rounded=other.distance) for each, other in pairs)
        return self._verification(source, found, samples)

    def _verification(self, source: bytes, found: tuple[OutputComparison, ...], samples: int) -> Verification:
        inputs = self.inputs(self.litert.describe(source), samples)
        return Verification(found, self.seed, len(inputs), len(inputs[0]))

    def inputs(self, ports: Run, samples: int) -> Sequence[list[list[Array]]]:
        """The inputs by position, in each sample and in each of its steps. Those of a sample are drawn when it is asked
        for: all of them may take more memory than there is.
        """
        names, states = [name for name, _, _ in self.runtime.inputs[: len(ports.inputs)]], bool(self.runtime.following)
        if self.data:
            found = given_samples(self.data, names, ports.inputs)
            return [found] if states else [[each] for each in found]
        steps = (STEPS if states else 1) if self.steps is None else self.steps
        return _Made(samples, lambda sample: [self._drawn(ports, sample, step) for step in range(steps)])

    def _drawn(self, ports: Run, sample: int, step: int) -> list[Array]:
        """Smooth inputs of a sample; those of its first step do not depend on there being others."""
        generator = np.random.default_rng([self.seed, sample, step] if step else [self.seed, sample])
        sizes = [
            _shape(port, self.shapes.get(name), stored, self.input_permutations.get(name))
            for (name, _, stored), port in zip(self.runtime.inputs, ports.inputs, strict=False)
        ]
        return [smooth(port.dtype, size, generator) for port, size in zip(ports.inputs, sizes, strict=True)]

    def compared(self, source: bytes, samples: int) -> tuple[OutputComparison, ...]:
        """All outputs, by what LiteRT makes of ``source``."""
        litert, runtime = self.litert, self.runtime
        ports = litert.describe(source)
        _check_counts(runtime, ports)
        found, sequences = [], self.inputs(ports, samples)
        for steps in sequences:
            results = stepped(runtime, self._fed(steps))
            truth, fast = litert.steps(source, steps), _delegated(litert, source, steps)
            for step, outputs in enumerate(results):
                other = None if fast is None else fast[step]
                found.append(_paired(truth[step], other, runtime.outputs, outputs, self.output_permutations))
        compared = zip(ports.outputs, runtime.outputs, zip(*found, strict=True), strict=False)
        steps_each = len(found) // len(sequences)
        return tuple(_compare(*output, steps_each, _tolerance(ports)) for output in compared)

    def inspected(self, source: bytes, model: onnx.ModelProto | Path, inside: Inside, samples: int) -> Inspection:
        """The tensors inside, by what LiteRT makes of ``source``."""
        ports = self.litert.describe(source)
        inputs = self.inputs(ports, samples)
        fed = _Made(len(inputs), lambda sample: self._fed(inputs[sample]))
        return inspect(self.litert, source, model, inside, inputs, fed, _tolerance(ports))

    def _fed(self, steps: Sequence[Sequence[Array]]) -> list[dict[str, Array]]:
        """The inputs of a sample as the ONNX model takes them."""
        return [feeds(self.runtime, inputs, self.input_permutations) for inputs in steps]


def _tolerance(ports: Run) -> float:
    return FLOAT16_TOLERANCE if ports.float16 else FLOAT_TOLERANCE


def needed(outputs: Sequence[OutputComparison], samples: int) -> int:
    """How many inputs give the smallest output that is off enough elements, where XNNPACK is off as well."""
    off = [output for output in outputs if not output.agrees]
    if not any(output.xnnpack is not None and output.xnnpack.mean > 0 for output in off):
        return samples
    counts = [output.distance.count // samples for output in off]
    fewest = max(min((count for count in counts if count), default=ELEMENTS), 1)
    return max(min(-(-ELEMENTS // fewest), MOST), samples)


def smooth(dtype: str, shape: Sequence[int], generator: np.random.Generator) -> Array:
    """Image-like data of low frequency: floats in [-1, 1], 8 and 16 bit integers over their range, others small."""
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    if dtype == "string":
        return np.array([b"a", b"b c"])[generator.integers(0, 2, shape)]
    if dtype in ("int32", "int64", "uint32", "uint64"):
        return generator.integers(0, 4, shape).astype(dtype)
    waves = [_waves(shape, generator) for _ in range(3)]
    wave = reduce(np.add, waves) / 3 + generator.uniform(-0.05, 0.05, shape)
    wave = np.clip(wave / max(float(np.abs(wave).max(initial=0)), 1e-6), -1, 1)
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        wave = np.rint((wave + 1) / 2 * (int(limits.max) - int(limits.min)) + int(limits.min))
    return np.asarray(wave).astype(dtype)


def _waves(shape: Sequence[int], generator: np.random.Generator) -> Array:
    """The outer product of one slow wave along each axis."""
    result = np.ones(tuple(shape))
    for axis, size in enumerate(shape):
        phase = generator.uniform(0, 2 * np.pi) + generator.uniform(0.5, 3) * np.linspace(0, np.pi, size)
        result = result * np.cos(phase).reshape([-1 if other == axis else 1 for other in range(len(shape))])
    return result


def _check_counts(runtime: OnnxRuntime, ports: Run) -> None:
    converted, original = (len(runtime.inputs), len(runtime.outputs)), (len(ports.inputs), len(ports.outputs))
    if converted[0] < original[0] or converted[1] < original[1]:
        counts = "the ONNX model has {} inputs and {} outputs, its source {} and {}".format(*converted, *original)
        raise VerifyError(f"{counts}: verify a model against the file that it was converted from")


def _shape(
    port: Port, given: Sequence[int] | None, stored: Sequence[int | str], moved: Sequence[int] | None
) -> tuple[int, ...]:
    """The shape of an input: as it is given, else as the ONNX model states it, else as its source does, else 1.

    The ONNX model may have been given other sizes than its source states, whose input is then resized.
    """
    if given is not None:
        return tuple(given)
    places = range(len(stored)) if moved is None else moved
    pinned = {axis: size for axis, size in zip(places, stored, strict=True) if isinstance(size, int)}
    return tuple(pinned.get(axis, 1 if size < 0 else size) for axis, size in enumerate(port.signature))


def feeds(runtime: OnnxRuntime, inputs: Sequence[Array], permutations: Mapping[str, Sequence[int]]) -> dict[str, Array]:
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


def _delegated(litert: LiteRT, source: bytes, steps: Sequence[Sequence[Array]]) -> list[Run] | None:
    try:
        return litert.steps(source, steps, delegate=True)
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
