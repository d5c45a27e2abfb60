"""Whether ONNX Runtime gives the same results however far it optimises: every model of a folder at all four levels.

Each level is compared with 'none', which runs the model as it is written. ``--opset``, ``--strategy``, ``--objective``
and ``--contrib`` convert in another way; ``python -m experiments.compare.levels --only TEXT FOLDER`` takes part of a
folder. ``--trace`` says for each model that differs which of the optimiser's nodes do, at the first level that differs:
each is fed what 'none' computes, so that differences do not add up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

import layoutsolve
from experiments.corpus import CorpusModel, arguments, models, write_json
from layoutsolve.errors import ConversionError, VerifyError
from layoutsolve.ir.graph import Array, Size
from layoutsolve.solver import DEFAULT_OBJECTIVE, STRATEGIES
from layoutsolve.verification.input_sampling import smooth
from layoutsolve.verification.litert import Port
from layoutsolve.verification.metrics import Distance, distance, passes
from layoutsolve.verification.runtimes import LEVELS, Level, OnnxRuntime, optimised

FLOAT, STEPPED = 1e-5, 0.02
"""How far float outputs may be apart, relative to their range: of models that are real throughout, and of others, where
another rounding of a quantized tensor becomes a step.
"""


@dataclass(frozen=True)
class Gap:
    """An output that one level computes otherwise than 'none' does, or why a level does not run at all."""

    model: str
    level: Level
    output: str
    apart: Distance | None
    error: str = ""

    def __str__(self) -> str:
        return f"{self.model} at {self.level}: {self.output} {self.error or self.apart}"


def gaps(name: str, model: bytes, given: Mapping[str, Array]) -> list[Gap]:
    """What the levels compute otherwise than 'none' does. Raises :class:`VerifyError` where that does not run."""
    found: list[Gap] = []
    runtime = OnnxRuntime(model, threads=1, level=LEVELS[0])
    truth = runtime.run(given)
    stepped = b"QuantizeLinear" in model
    for level in LEVELS[1:]:
        try:
            results = OnnxRuntime(model, threads=1, level=level).run(given)
        except VerifyError as error:
            found.append(Gap(name, level, "", None, str(error)))
            continue
        for output, expected, actual in zip(runtime.outputs, truth, results, strict=True):
            apart, close = compared(expected, actual, stepped)
            if not close:
                found.append(Gap(name, level, output, apart))
    return found


def compared(expected: Array, actual: Array, stepped: bool) -> tuple[Distance, bool]:
    """How far apart two results are, and whether that is no more than another order of operations explains."""
    quantized = stepped and expected.dtype in (np.int8, np.uint8, np.int16)
    scale = (1.0,) if quantized else ()
    port = Port("", expected.dtype.name, expected.shape, expected.shape, scale, (0,))
    found = distance(port, [(expected, actual)])
    if quantized:
        return found, passes("quantized", found, 0)
    real = expected.dtype.kind == "f"
    return found, passes("float" if real else "exact", found, STEPPED if stepped else FLOAT)


def traced(model: bytes, given: Mapping[str, Array], level: Level) -> dict[str, float]:
    """How far the nodes that a level makes of a model are from 'none' at most, by operator, fed what that computes.

    In steps where numbers are integers, or are dequantized at once, else relative to their range. Only nodes that give
    what 'none' computes as well are compared; what is between them is computed on the way.
    """
    known = {**given, **_everything(onnx.load_from_string(model), given)}
    graph = optimised(model, level)
    constants = {each.name: each for each in graph.graph.initializer}
    makers = {name: node.op_type for node in graph.graph.node for name in node.output}
    apart: dict[str, float] = {}
    between: set[str] = set()
    for node in graph.graph.node:
        if not all(name in known or name in constants for name in node.input if name):
            continue
        for name, result in _results(node, graph, constants, known).items():
            if name not in known:
                known[name] = result
                between.add(name)
            elif result.dtype.kind in "fiu" and result.size:
                operator, unit = node.op_type, 1.0
                if node.op_type == "DequantizeLinear":
                    operator = makers.get(node.input[0], operator) if node.input[0] in between else operator
                    unit = float(numpy_helper.to_array(constants[node.input[1]]).max())
                elif result.dtype.kind == "f":
                    unit = float(np.ptp(known[name])) or 1.0
                gap = np.abs(known[name].astype(np.float64) - result.astype(np.float64)).max() / unit
                apart[operator] = max(apart.get(operator, 0.0), float(gap))
    return {operator: gap for operator, gap in apart.items() if gap}


def _everything(model: onnx.ModelProto, given: Mapping[str, Array]) -> dict[str, Array]:
    """All that the nodes of a graph compute, by name."""
    names = [name for node in model.graph.node for name in node.output if name]
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    runtime = OnnxRuntime(model.SerializeToString(), threads=1, level="none")
    return dict(zip(runtime.outputs, runtime.run(given), strict=True))


def _results(
    node: onnx.NodeProto, model: onnx.ModelProto, constants: Mapping[str, onnx.TensorProto], known: Mapping[str, Array]
) -> dict[str, Array]:
    """What one node computes, by name; nothing where it has graphs of its own, which may read what is around it."""
    if any(attribute.type == onnx.AttributeProto.GRAPH for attribute in node.attribute):
        return {}
    graph = onnx.GraphProto(name="node", node=[node])
    given = {name: known[name] for name in dict.fromkeys(node.input) if name and name not in constants}
    for name, data in given.items():
        dtype = onnx.helper.np_dtype_to_tensor_dtype(data.dtype)
        graph.input.append(onnx.helper.make_tensor_value_info(name, dtype, data.shape))
    graph.initializer.extend(constants[name] for name in dict.fromkeys(node.input) if name in constants)
    alone = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, graph=graph)
    return _everything(alone, given)


def _given(conversion: layoutsolve.Conversion) -> dict[str, Array]:
    """Smooth input; a symbolic size is 1."""
    graph, generator = conversion.graph, np.random.default_rng(0)
    moved = conversion.permutations(inputs=True)
    given = {}
    for key in graph.inputs:
        value, name = graph.values[key], graph.names.get(key, key)
        shape = [1 if isinstance(size, Size) else size for size in value.shape]
        data = smooth(value.dtype, shape, generator)
        data = np.char.decode(data, "utf-8").astype(object) if data.dtype.kind == "S" else data
        given[name] = np.transpose(data, moved[name]) if name in moved else data
    return given


def examined(model: CorpusModel, way: Mapping[str, Any]) -> tuple[str, Sequence[Gap]]:
    """What became of one model: 'agrees', 'differs', 'refused' or 'cannot run'."""
    try:
        conversion = layoutsolve.convert(model.source, **way)
    except ConversionError:
        return "refused", ()
    try:
        found = gaps(model.name, conversion.model.SerializeToString(), _given(conversion))
    except VerifyError:
        return "cannot run", ()
    return ("differs" if found else "agrees"), found


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--opset", type=int, help="the operator set of the ONNX models")
    parser.add_argument("--strategy", choices=STRATEGIES, default="cpsat")
    parser.add_argument("--objective", default=DEFAULT_OBJECTIVE)
    parser.add_argument("--contrib", action="store_true", help="operators that only ONNX Runtime has")
    parser.add_argument("--trace", action="store_true", help="which nodes of the optimiser round otherwise")
    options = parser.parse_args()
    way = {key: getattr(options, key) for key in ("opset", "strategy", "objective", "contrib")}
    verdicts: Counter[str] = Counter()
    different: list[Gap] = []
    for model in models(options.folder, options.only):
        verdict, found = examined(model, way)
        verdicts[verdict] += 1
        different += found
        for gap in found:
            print(gap)
        if options.trace and found:
            conversion = layoutsolve.convert(model.source, **way)
            for level in [gap.level for gap in found if not gap.error][:1]:
                nodes = traced(conversion.model.SerializeToString(), _given(conversion), level)
                print(f"  {level}: " + ", ".join(f"{name} {apart:.2g}" for name, apart in nodes.items()))
    print(", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common()))
    write_json(options.json, [asdict(gap) for gap in different])


if __name__ == "__main__":
    main()
