"""Whether a converted model computes what LiteRT's plain kernels compute, and whether LiteRT's results mean anything.

LiteRT runs each model twice, over memory filled with different bytes: what then differs is memory that it reads without
having written it. Open sizes are tried as the file has them, and larger.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import layoutsolve
from layoutsolve.errors import ConversionError
from layoutsolve.frontend.tflite.reading.model import Model
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.ir.graph import Array
from layoutsolve.verification import litert_process
from layoutsolve.verification.dequantized_model import EXACT, WEIGHTS, dequantized
from layoutsolve.verification.input_sampling import smooth
from layoutsolve.verification.litert import Port
from layoutsolve.verification.metrics import distance, kind, passes
from layoutsolve.verification.model_inputs import feeds
from layoutsolve.verification.runtimes import OnnxRuntime
from layoutsolve.verification.tensor_statistics import LAST

FLOAT_TOLERANCE, FLOAT16_TOLERANCE, HYBRID_TOLERANCE = 1e-3, 4e-3, 0.05
"""Relative errors that are no finding; the last where LiteRT rounds activations to 8 bits."""

NOISE = 1e-6
"""An error that is none: what is left where numbers around 1 cancel out."""

MOST = 0.9999
"""The share that counts as all where very many numbers differ."""

GROWN = (0, 1, 5)
"""What is added to open sizes, one run after the other."""

NUDGE = 2.0**-17
"""By how much inputs are moved, of their size, to see how far rounding may move results: 64 steps of a float32."""

FILLS = (0x55, 0xCC)
"""What memory is filled with; as floats they are far apart."""

_M_PERTURB = -6
_UNPRINTABLE = ("utf-8", "No corresponding Numpy type", "can't be converted to MLDataType")
"""What ONNX Runtime says where Python cannot hold a right input or result."""

_REFUSALS = (RuntimeError, ValueError, TypeError, KeyError, MemoryError, OverflowError)


@dataclass(frozen=True)
class Verdict:
    """What a comparison found: one word or two, and the details."""

    verdict: str
    detail: str = ""


@dataclass(frozen=True)
class Answers:
    """What LiteRT computed: its ports, its results, and which elements of these are defined."""

    ports: tuple[Port, ...]
    results: tuple[Array, ...]
    defined: tuple[Array, ...]


def compare(
    source: bytes, conversion: layoutsolve.Conversion, runtime: OnnxRuntime, note: Callable[[str], None]
) -> Verdict:
    """Run a model and its conversion on the same inputs; ``note`` is told each stage."""
    model = parse(source)
    ends = model.subgraphs[0].inputs
    if len(set(ends)) < len(ends):
        return Verdict("not comparable", "a tensor is an input twice")
    note("litert")
    try:
        with fills(0):
            ports = described(source).inputs
    except _REFUSALS as error:
        return Verdict("LiteRT refuses", line(error))
    verdicts = []
    for sizes in _sizes(ports, runtime):
        generator = np.random.default_rng(0)
        inputs = [smooth(port.dtype, shape, generator) for port, shape in zip(ports, sizes, strict=True)]
        verdicts.append(_compare(source, model, conversion, runtime, inputs, note))
        if verdicts[-1].verdict == "differs":
            break
    return next(
        found for name in ("differs", "agrees", "", "not comparable", "unusable", "LiteRT refuses")
        for found in verdicts if found.verdict == name
    )  # fmt: skip


def _compare(
    source: bytes,
    model: Model,
    conversion: layoutsolve.Conversion,
    runtime: OnnxRuntime,
    inputs: Sequence[Array],
    note: Callable[[str], None],
) -> Verdict:
    note("litert")
    try:
        answers = litert(source, inputs)
    except _REFUSALS as error:
        return Verdict("LiteRT refuses", line(error))
    note("run")
    try:
        found = _run(conversion, runtime, inputs)
    except ConversionError as error:
        verdict = "not comparable" if any(each in str(error) for each in _UNPRINTABLE) else "unusable"
        return Verdict(verdict, line(error))
    difference = _first_difference(model, answers, found)
    if not difference:
        return Verdict("agrees")
    if not all(each.all() for each in answers.defined):
        return Verdict("not comparable", f"LiteRT reads memory that it has not written; {difference}")
    twin = dequantized(source)
    if twin is not None:
        note("litert")
        with suppress(*_REFUSALS):
            if not _first_difference(parse(twin), litert(twin, inputs), found):
                return Verdict("agrees")
    note("litert")
    with suppress(*_REFUSALS):
        if _as_close(answers, litert(source, inputs, delegate=True), found):
            return Verdict("agrees")
    note("litert")
    with suppress(*_REFUSALS):
        if _as_rounded(answers, [litert(source, each) for each in _nudged(inputs)], found):
            return Verdict("agrees")
    return Verdict("differs", difference + _blamed(conversion, model, answers, inputs, found))


def _run(conversion: layoutsolve.Conversion, runtime: OnnxRuntime, inputs: Sequence[Array]) -> list[Array]:
    """The results of the conversion in the order of axes of the source."""
    stored = runtime.run(feeds(runtime, inputs, conversion.permutations(inputs=True)))
    moved = conversion.permutations(inputs=False)
    return [
        np.transpose(each, np.argsort(moved[name])) if name in moved else each
        for name, each in zip(runtime.outputs, stored, strict=True)
    ]


def _blamed(
    conversion: layoutsolve.Conversion, model: Model, answers: Answers, inputs: Sequence[Array], found: Sequence[Array]
) -> str:
    """A remark where ONNX Runtime's optimiser makes a difference."""
    try:
        plain = OnnxRuntime(conversion.model.SerializeToString(), threads=1, level="none")
        unchanged = _run(conversion, plain, inputs)
    except ConversionError:
        return ""
    made = _first_difference(model, replace(answers, results=tuple(unchanged)), found)
    return f"; ONNX Runtime's optimiser makes a difference: {made}" if made else ""


# -- LiteRT --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Described:
    """The ports of a model, and what LiteRT computes at its outputs where it was run."""

    inputs: Sequence[Port]
    outputs: Sequence[Port]
    results: tuple[Array, ...] = ()


def described(source: bytes, given: Sequence[Array] | None = None, delegate: bool = False) -> Described:
    """A model in LiteRT, in this process, which is run where inputs are ``given``, by its plain kernels or
    (``delegate``) by XNNPACK. Raises what its interpreter raises.
    """
    header = {"delegate": delegate, "tensors": [], "steps": 0 if given is None else 1}
    inputs = {f"input/0/{position}": each for position, each in enumerate(given or ())}
    reply, found = litert_process.answer(header, {"model": np.frombuffer(source, np.uint8), **inputs})
    results = () if given is None else tuple(found[f"output/0/{position}"] for position in range(len(reply["outputs"])))
    return Described(_ports(reply["inputs"]), _ports(reply["outputs"]), results)


def litert(source: bytes, inputs: Sequence[Array], delegate: bool = False) -> Answers:
    """What LiteRT computes, and which of that is defined, as :func:`described` runs it."""
    runs = []
    for fill in FILLS:
        with fills(fill):
            runs.append(described(source, inputs, delegate))
    defined = tuple(_same(one, other) for one, other in zip(*(run.results for run in runs), strict=True))
    return Answers(tuple(runs[-1].outputs), runs[0].results, defined)


@contextmanager
def fills(byte: int) -> Iterator[None]:
    """Let the allocator fill new memory, where it is glibc's."""
    tune = getattr(ctypes.CDLL(None), "mallopt", lambda *_: 0)
    tune(_M_PERTURB, byte)
    try:
        yield
    finally:
        tune(_M_PERTURB, 0)


def _same(one: Array, other: Array) -> Array:
    """Which elements are equal in two runs."""
    if one.shape != other.shape:
        return np.zeros(one.shape, bool)
    same: Array = np.asarray(one == other)
    return same | ((one != one) & (other != other)) if one.dtype.kind in "fc" else same


def _ports(described: Sequence[dict[str, object]]) -> list[Port]:
    return [Port(*(tuple(v) if isinstance(v, list) else v for v in each.values())) for each in described]  # type: ignore[arg-type]


def _sizes(ports: Sequence[Port], runtime: OnnxRuntime) -> Iterator[list[list[int]]]:
    """Shapes of LiteRT's inputs to be tried, one after the other. Sizes that are one in the ONNX model stay one."""
    stated = [shape for _, _, shape in runtime.inputs]
    is_open = any(size < 0 for port in ports for size in port.signature)
    for more in GROWN if is_open else (0,):
        chosen: dict[str, int] = {}
        shapes = []
        for position, port in enumerate(ports):
            names = stated[position] if position < len(stated) else port.shape
            shape = list(port.shape)
            for axis, size in enumerate(port.signature):
                if size < 0:
                    name = names[axis] if axis < len(names) else shape[axis]
                    larger = max(shape[axis], 1) + more
                    shape[axis] = name if isinstance(name, int) else chosen.setdefault(name, larger)
            shapes.append(shape)
        yield shapes


# -- results -------------------------------------------------------------------------------------------------------


def _first_difference(model: Model, answers: Answers, found: Sequence[Array]) -> str:
    """How the first output that differs does, '' where all agree."""
    if len(found) < len(answers.ports):
        return f"{len(found)} outputs instead of {len(answers.ports)}"
    tolerance, steps = _tolerance(model), _steps(model)
    for port, wanted, actual, defined in zip(answers.ports, answers.results, found, answers.defined, strict=False):
        if not any(port.scale) and steps and port.dtype in ("int8", "uint8", "int16"):
            port = replace(port, scale=(1.0,), zero_point=(0,))
        difference = _difference(port, wanted, actual, defined, tolerance, steps)
        if difference:
            return f"{port.name}: {difference}"
    return ""


def _as_close(plain: Answers, fast: Answers, found: Sequence[Array]) -> bool:
    """Whether quantized results are no further off than those of XNNPACK, which rounds in its own way, are."""
    for port, wanted, other, actual in zip(plain.ports, plain.results, fast.results, found, strict=False):
        mine, its = (distance(port, [(wanted, each)]) for each in (actual, other))
        if mine.maximum > 0 and (not port.quantized or mine.mean > its.mean):
            return False
    return True


def _nudged(inputs: Sequence[Array]) -> list[list[Array]]:
    """The inputs with each float a little larger or smaller, a few times; nothing where no input is float."""
    generator = np.random.default_rng(0)
    if not any(each.dtype.kind == "f" for each in inputs):
        return []
    return [
        [
            np.asarray(each * (1 + generator.choice((-NUDGE, NUDGE), each.shape)), each.dtype)
            if each.dtype.kind == "f" else each
            for each in inputs
        ]
        for _ in range(3)
    ]  # fmt: skip


def _as_rounded(plain: Answers, nudged: Sequence[Answers], found: Sequence[Array]) -> bool:
    """Whether float results are no further off than LiteRT's own of inputs that differ by rounding, as 1 / sqrt(x) of
    differences that cancel out.
    """
    if not nudged:
        return False
    for position, (port, wanted, actual) in enumerate(zip(plain.ports, plain.results, found, strict=False)):
        mine = distance(port, [(wanted, actual)])
        moved = [distance(port, [(wanted, other.results[position])]) for other in nudged]
        if mine.maximum > 0 and (
            kind(port) != "float"
            or not mine.maximum <= max(each.maximum for each in moved)
            or not mine.mean <= max(each.mean for each in moved)
        ):
            return False
    return True


def _difference(port: Port, expected: Array, actual: Array, defined: Array, tolerance: float, steps: int) -> str:
    """How two results differ beyond what rounding explains, '' where they do not."""
    if expected.shape != actual.shape:
        return f"shape {actual.shape} instead of {expected.shape}"
    if expected.dtype.kind != "S" and expected.dtype != actual.dtype:
        return f"{actual.dtype} instead of {expected.dtype}"
    expected, actual = expected[defined], actual[defined]
    if expected.dtype.kind == "f":  # LiteRT clips infinities where an operator may have an activation
        expected, actual = (np.nan_to_num(each, nan=np.nan) for each in (expected, actual))
    compared = kind(port)
    found = distance(port, [(expected, actual)])
    if (
        passes(compared, found, tolerance)
        or (compared == "float" and found.maximum <= NOISE)
        or (expected.dtype == np.float16 and _are_neighbours(expected, actual))
        or (compared == "quantized" and found.maximum <= 1 + steps)
    ):
        return ""
    return f"{compared}: {found}{_remark(port, expected, actual, steps if compared == 'quantized' else -1)}"


def _are_neighbours(expected: Array, actual: Array) -> bool:
    """Whether all elements are as near as rounding within an operator leaves them."""
    with np.errstate(invalid="ignore"):
        off = np.abs(expected.astype(np.float64) - actual)
        return bool((off <= LAST * np.spacing(np.abs(expected)).astype(np.float64)).all())


def _remark(port: Port, expected: Array, actual: Array, steps: int) -> str:
    """A remark where all that differs is at an end of its type in the converted model, as what lies beyond it, or next
    to zero. Where sums cancel out beside what lies far beyond, rounding decides about a few more.
    """
    if actual.dtype.kind not in "iu":
        return ""
    limits, zero = np.iinfo(actual.dtype), port.zero_point[0] if port.zero_point else 0
    differing = actual[np.abs(expected.astype(np.int64) - actual) > 1 + steps].astype(np.int64)
    if np.isin(differing, (limits.min, limits.max)).mean() > MOST:
        return "; all beyond the type"
    return "; all next to zero" if ((differing == 0) | (np.abs(differing - zero) <= 1)).all() else ""


def _tolerance(model: Model) -> float:
    """The relative error that rounding explains."""
    tensors = [tensor for graph in model.subgraphs for tensor in graph.tensors]
    half = any(tensor.dtype == "float16" for tensor in tensors)
    computed = any(tensor.quant is not None and tensor.data is None for tensor in tensors)
    hybrid = any(
        _is_hybrid(model, number, index)
        for number, graph in enumerate(model.subgraphs)
        for index in range(len(graph.operators))
    )
    return HYBRID_TOLERANCE if hybrid or computed else FLOAT16_TOLERANCE if half else FLOAT_TOLERANCE


def _is_hybrid(model: Model, graph: int, index: int) -> bool:
    """Whether LiteRT rounds the activations of an operator: it multiplies floats by small integers."""
    tensors, operator = model.subgraphs[graph].tensors, model.subgraphs[graph].operators[index]
    read = [tensors[each] for each in operator.inputs if each >= 0]
    made = [tensors[each].dtype for each in operator.outputs]
    scaled = any(each.dtype in WEIGHTS and each.quant is not None for each in read)
    return operator.name not in EXACT and "float32" in made and scaled and any(e.dtype == "float32" for e in read)


def _steps(model: Model) -> int:
    """How many operators round, one step each: all where numbers are quantized."""
    graphs = model.subgraphs
    averaging = any(each.name in ("AVERAGE_POOL_2D", "RESIZE_BILINEAR") for graph in graphs for each in graph.operators)
    quantized = any(tensor.quant is not None for graph in graphs for tensor in graph.tensors)
    return sum(len(graph.operators) for graph in graphs) if averaging or quantized else 0


def line(error: BaseException) -> str:
    """An error on one line."""
    return f"{type(error).__name__}: {' | '.join(str(error).splitlines())}"[:400]


def traced(error: BaseException) -> str:
    """An error on one line, and where it was raised."""
    places, trace = [], error.__traceback__
    while trace is not None:
        places.append(f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}")
        trace = trace.tb_next
    return f"{line(error)} at {' '.join(places[-3:])}"
