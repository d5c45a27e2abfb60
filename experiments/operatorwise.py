"""Every operator of every model on LiteRT's own intermediate tensors: what the reference graph makes of each alone.

Errors do not pile up along the network, so what is off here is wrong in the lowering of that operator.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from experiments.corpus import CorpusModel, arguments, models, write_json
from layoutsolve.emit import serialise
from layoutsolve.errors import ConversionError, VerifyError
from layoutsolve.frontend import read
from layoutsolve.frontend.passes.unsigned import HALF, shifted
from layoutsolve.frontend.tflite.lowering.dilated import dilated
from layoutsolve.frontend.tflite.lowering.draft import Draft, Lowering
from layoutsolve.frontend.tflite.lowering.options import Reading
from layoutsolve.frontend.tflite.reading.model import Tensor
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.graph import BYTES, CONTROL, Array, Graph, Size, Value
from layoutsolve.storage import USUAL
from layoutsolve.verification.distance import Distance, Kind, distance, kind, passes
from layoutsolve.verification.drawing import smooth
from layoutsolve.verification.runtimes import LiteRT, OnnxRuntime, Port, Run

STORAGE = replace(USUAL, block=0, groups=0)
"""How bytes are stored, with the channels of the source: blocks have others, so that several operators lie between two
tensors of the source.
"""

TOLERANCE = 1e-4
"""The relative error of a float output from which an operator is listed."""

HYBRID_TOLERANCE = 0.05
"""The same for float operators with quantised weights: LiteRT rounds their input to 8 bits at run time."""


@dataclass(frozen=True)
class Check:
    """One output of one operator.

    ``distance`` is None where ONNX Runtime did not compute it, for the reason in ``error``. ``hybrid`` means float
    activations with quantised constants.
    """

    operator: str
    index: int
    tensor: str
    kind: Kind
    hybrid: bool
    distance: Distance | None
    error: str = ""

    @property
    def tolerance(self) -> float:
        """The relative error that passes."""
        return HYBRID_TOLERANCE if self.hybrid else TOLERANCE

    @property
    def passed(self) -> bool:
        """Whether the output is close enough."""
        return self.distance is not None and passes(self.kind, self.distance, self.tolerance)


def check_model(source: bytes, litert: LiteRT) -> list[Check]:
    """Check all operators of a model's main subgraph that the reference graph has nodes for."""
    graph, model = read(source, reading=Reading(storage=STORAGE)), parse(source)
    draft = Draft(dilated(model), lambda lowering: None)
    indices = {name: index for index, name in enumerate(Lowering(draft).tensor_names)}
    needed = [index for name, index in indices.items() if name in graph.values and graph.values[name].data is None]
    tensors = run_smooth(source, litert, needed).tensors
    stated = model.subgraphs[0].tensors
    known = {name: _before(stated[index], tensors[index]) for name, index in indices.items() if index in tensors}
    known = {name: _as_stored(graph.values[name], data) for name, data in known.items()}
    known = {name: data for name, data in known.items() if _fits(graph.values[name], data)}
    return [check for name in _targets(graph, known) if (check := _check(graph, name, known)) is not None]


def _before(tensor: Tensor, after: Array) -> Array:
    """What operators read of a tensor: a variable holds zeros before the run, and is asked for after it."""
    if not tensor.is_variable:
        return after
    zero = tensor.quant.zero_point if tensor.quant is not None and tensor.dtype == "int8" else np.zeros(1)
    return np.full_like(after, zero[0] if zero.size else 0)


def run_smooth(source: bytes, litert: LiteRT, tensors: Sequence[int]) -> Run:
    """Run a model on smooth input; its dynamic dimensions get the first size that LiteRT accepts."""
    ports = litert.describe(source).inputs
    for size in (1, 64, 4096):
        generator = np.random.default_rng(0)
        shapes = [[size if each < 0 else each for each in port.signature] for port in ports]
        inputs = [smooth(port.dtype, shape, generator) for port, shape in zip(ports, shapes, strict=True)]
        try:
            return litert.run(source, inputs, tensors=tensors)
        except VerifyError:
            if size == 4096 or all(-1 not in port.signature for port in ports):
                raise
    raise AssertionError


def _as_stored(value: Value, data: Array) -> Array:
    """Bytes as the graph stores them, which may be without a sign where the source has one, 128 higher."""
    if {value.dtype, data.dtype.name} != {*BYTES}:
        return data
    return shifted(data, HALF if value.dtype == "uint8" else -HALF, value.dtype)


def _fits(value: Value, data: Array) -> bool:
    """Whether a tensor is the one of the source: the blocks around a dilated convolution are gone."""
    same = zip(value.shape, data.shape, strict=True) if len(value.shape) == data.ndim else [(0, 1)]
    return value.dtype == data.dtype and all(isinstance(dim, Size) or dim == size for dim, size in same)


def _targets(graph: Graph, known: Mapping[str, Array]) -> list[str]:
    """The tensors of the source that nodes of the main subgraph produce."""
    return [name for node in graph.nodes for name in node.outputs if name in known]


def _check(graph: Graph, name: str, known: Mapping[str, Array]) -> Check | None:
    part = extracted(graph, name, known)
    origin = next((node.origin for node in reversed(part.nodes) if node.origin is not None), None)
    if origin is None or origin.subgraph != 0:  # the first gives an input another sign, the last one an output
        return None
    if any(node.op in CONTROL for node in part.nodes):
        return None
    port = _port(graph.values[name])
    described = (origin.operator, origin.index, name, kind(port), _hybrid(part, name))
    try:
        runtime = OnnxRuntime(serialise(part).SerializeToString(), threads=1)
        result = runtime.run({each: _fed(known[each]) for each in part.inputs})[0]
    except ConversionError as error:
        return Check(*described, None, str(error)[:200])
    found = distance(port, [(known[name], result)])
    return Check(*described, found, "" if result.shape == known[name].shape else f"shape {result.shape}")


def extracted(graph: Graph, name: str, known: Mapping[str, Array]) -> Graph:
    """The part of a graph that computes one tensor from tensors of the source."""
    needed, kept, inputs = {name}, [], []
    for node in reversed(graph.nodes[: graph.producers[name] + 1]):
        if needed.intersection(node.outputs):
            kept.append(node)
            needed.update(each for each in node.inputs if each and (each not in known or each == name))
            inputs += [each for each in node.inputs if each in known]
    inputs += [each for each in graph.inputs if each in needed and each not in inputs]
    used = {each for node in kept for each in (*node.inputs, *node.outputs) if each} | set(inputs)
    fed = tuple(each for each in dict.fromkeys(inputs) if graph.values[each].data is None)
    values = {each: value for each, value in graph.values.items() if each in used}
    return Graph("part", values, tuple(reversed(kept)), fed, (name,))


def _hybrid(part: Graph, name: str) -> bool:
    activations = [part.values[each] for each in (*part.inputs, name)]
    return any(each.quant and each.data is not None for each in part.values.values()) and all(
        each.quant is None for each in activations
    )


def _port(value: Value) -> Port:
    quant = value.quant
    scale = tuple(float(each) for each in quant.scale) if quant is not None else ()
    zero = tuple(int(each) for each in quant.zero_point) if quant is not None else ()
    return Port(value.name, value.dtype, (), (), scale, zero)


def _fed(data: Array) -> Array:
    return data.astype(str).astype(object) if data.dtype.kind == "S" else data


def summary(checks: Sequence[Check]) -> str:
    """Operators checked, the worst float error, and the histogram of integer steps."""
    parts = [f"{len(checks):4d} checked", f"{sum(not check.passed for check in checks):3d} off"]
    for label, hybrid in (("float", False), ("hybrid", True)):
        chosen = [check for check in checks if check.distance and check.kind == "float" and check.hybrid is hybrid]
        errors = {f"{check.operator}#{check.index}": check.distance.relative for check in chosen if check.distance}
        if errors:
            worst = max(errors, key=lambda operator: errors[operator])
            parts.append(f"worst {label} {errors[worst]:.1e} {worst}")
    steps = _steps(checks)
    return ", ".join([*parts, f"steps {'/'.join(map(str, steps))}"] if any(steps) else parts)


def _steps(checks: Sequence[Check]) -> list[int]:
    rows = [check.distance.steps for check in checks if check.distance is not None and check.distance.steps]
    return [sum(column) for column in zip(*rows, strict=True)] if rows else [0] * 5


def operator_table(results: Mapping[str, Sequence[Check]]) -> Iterator[str]:
    """One line per kind of operator."""
    by_operator: defaultdict[str, list[Check]] = defaultdict(list)
    for checks in results.values():
        for check in checks:
            by_operator[check.operator].append(check)
    for operator, checks in sorted(by_operator.items()):
        yield f"{operator:32s} {summary(checks)}"


def off(results: Mapping[str, Sequence[Check]]) -> Iterator[str]:
    """One line per operator that is off."""
    for model, checks in results.items():
        for check in checks:
            if not check.passed:
                place = f"{model}: {check.operator}#{check.index} '{check.tensor[-60:]}'"
                yield f"{place} {check.distance or ''} {check.error}"


def main() -> None:
    """Run over a corpus and print a line per model, a line per operator that is off, and a table per kind."""
    options = arguments(__doc__.splitlines()[0] if __doc__ else "").parse_args()
    results: dict[str, list[Check]] = {}
    errors: dict[str, str] = {}
    with LiteRT(120) as litert:
        for model in models(options.folder, options.only):
            _measure(model, litert, results, errors)
    print("\noff:", *off(results), sep="\n  ")
    print("\nper operator:", *operator_table(results), sep="\n  ")
    reasons = Counter(error.split(":")[0] for error in errors.values())
    print(
        f"\n{len(results)} models checked, {len(errors)} not:",
        *(f"{count} {reason}" for reason, count in reasons.items()),
    )
    write_json(
        options.json,
        {"errors": errors, "models": {name: [asdict(each) for each in checks] for name, checks in results.items()}},
    )


def _measure(model: CorpusModel, litert: LiteRT, results: dict[str, list[Check]], errors: dict[str, str]) -> None:
    if not model.runs:
        errors[model.name] = "LiteRT does not run it"
        return
    try:
        results[model.name] = check_model(model.source, litert)
        print(f"{model.name:60s} {summary(results[model.name])}", flush=True)
    except ConversionError as error:
        errors[model.name] = f"{type(error).__name__}: {error}"
        print(f"{model.name:60s} {errors[model.name][:300]}", flush=True)


if __name__ == "__main__":
    main()
