"""Strategies beside the programs that their algorithms come from, on the same models.

Each original runs in the environment that has its package (:mod:`experiments.report.tools`), and its file is counted:
Transposes of what is computed, and inputs and outputs that it turns, each of which is a Transpose where the interface
is kept. A row has both counts, and where they differ the ``cause``: the part of either that is left out, or let in, for
the counts to be equal or to change sides. A difference that no part accounts for is ``not explained``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import onnx

import layoutsolve
from experiments.compare.tflite_writers import RIGHT, distance, written
from experiments.compare.tvm_layouts import beside
from experiments.corpus import graph_of
from experiments.make.collection import Made
from experiments.make.plain_networks import plan
from experiments.onnx_shared import FailedError, moving
from experiments.report.tools import CALL, PATIENCE, interpreter, run_on, truth_of
from layoutsolve.errors import ConversionError
from layoutsolve.frontend import is_tflite
from layoutsolve.frontend.passes import block_moves
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.ir.graph import Graph
from layoutsolve.measurement.timing import feeds_of
from layoutsolve.solver import assign
from layoutsolve.solver.strategies import push_down
from layoutsolve.verification.runtimes import OnnxRuntime

OBJECTIVE = "min-transpose"

UNEXPLAINED = "not explained"


@dataclass(frozen=True)
class Compared:
    """An original's count of Transposes, that of the strategy, and why they differ."""

    theirs: int
    ours: int
    cause: str = ""


def ours(source: bytes, strategy: str) -> int:
    """The Transposes that a strategy leaves in ONNX, with inputs and outputs as they are."""
    return assign(graph_of(source), strategy=strategy, objective=OBJECTIVE).price.transposes


# -- from TensorFlow Lite ------------------------------------------------------------------------------------------

UNOPTIMISED = """import sys, tf2onnx.convert, tf2onnx.optimizer as optimizer
optimizer.optimize_graph = lambda graph, *given, **named: graph
sys.argv = ["tf2onnx", "--tflite", sys.argv[1], "--output", sys.argv[2], "--opset", "18"]
tf2onnx.convert.main()"""
"""What tf2onnx writes before its optimisers see it."""


def _file(command: str, source: bytes, folder: Path, formats: tuple[str, str]) -> Path:
    path = folder / f"model.{formats[0]}"
    path.write_bytes(source)
    return written(command, path, folder, PATIENCE, formats)[0]


def _unoptimised(source: bytes, python: str, folder: Path) -> Compared:
    script = folder / "unoptimised.py"
    script.write_text(UNOPTIMISED)
    file = _file(f"{python} {script} SOURCE OUTPUT", source, folder, ("tflite", "onnx"))
    theirs, own = _transposes(onnx.load(file)), ours(source, "transpose")
    if theirs == own:
        return Compared(theirs, own)
    with patch.object(block_moves, "recognise", lambda graph: graph):
        plain = ours(source, "transpose")
    return Compared(theirs, own, "it keeps views where ours has SpaceToDepth" if plain == theirs else UNEXPLAINED)


def _tflite2onnx(source: bytes, python: str, folder: Path) -> Compared:
    command = CALL.format("tflite2onnx", "convert").replace("PYTHON", python)
    file = _file(command, source, folder, ("tflite", "onnx"))
    model = onnx.load(file)
    theirs, own = _transposes(model) + _turned(source, model), ours(source, "propagate")
    if theirs == own:
        return Compared(theirs, own)
    feeds, truths = truth_of(source, "tflite")
    try:
        wrong = distance(truths, run_on(file, feeds)) > RIGHT
    except (FailedError, ConversionError):
        wrong = True
    return Compared(theirs, own, "its result is wrong" if wrong else UNEXPLAINED)


def _transposes(model: onnx.ModelProto) -> int:
    """Transposes of what depends on inputs."""
    return sum(node.op_type == "Transpose" for node in moving(model.graph))


def _turned(source: bytes, model: onnx.ModelProto) -> int:
    """Inputs and outputs whose sizes are in another order than in the source."""
    graph = graph_of(source)
    before = [graph.values[name].shape for name in (*graph.inputs, *graph.outputs)]
    after = [
        tuple(dim.dim_value for dim in port.type.tensor_type.shape.dim)
        for port in (*model.graph.input, *model.graph.output)
    ]
    return sum(tuple(one) != other for one, other in zip(before, after, strict=True))


# -- ONNX Runtime --------------------------------------------------------------------------------------------------

MERGING = ("MatmulTransposeFusion", "GemmTransposeFusion")
"""Optimisers of ONNX Runtime that take Transposes into the operator that reads them."""


def _pushed(source: bytes, _: str, folder: Path) -> Compared:
    """Both begin with the file of strategy ``transpose``."""
    start = layoutsolve.convert(source, strategy="transpose", objective=OBJECTIVE).model.SerializeToString()
    theirs, own = extended(start, folder, ()), ours(start, "push")
    if theirs == own:
        return Compared(theirs, own)
    unmerged, causes = extended(start, folder, MERGING), []
    with reshapes(stop=True):
        stopped = ours(start, "push")
    with reshapes(stop=False):
        passed = ours(start, "push")
    if unmerged != theirs:
        causes.append("it merges Transposes into MatMul")
    if own < unmerged <= stopped:
        causes.append("Reshapes that keep the sequence of dimensions do not stop ours")
    elif passed <= unmerged < own:
        causes.append("it goes through Reshapes")
    explained = unmerged == own or len(causes) > (unmerged != theirs)
    return Compared(theirs, own, "; ".join(causes) if explained else UNEXPLAINED)


@contextmanager
def reshapes(stop: bool) -> Iterator[None]:
    """Strategy ``push`` where all Reshapes stop it, or none does."""
    with patch.object(push_down, "_keeps_dimensions", lambda *_: not stop):
        yield


def extended(model: bytes, folder: Path, without: Sequence[str]) -> int:
    """The Transposes that ONNX Runtime's optimisers leave at level extended, but for those that move nothing, as they
    turn dimensions of size 1 alone.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"], disabled_optimizers=list(without))
    found = onnx.load(options.optimized_model_filepath)
    turned = [node for node in moving(found.graph) if node.op_type == "Transpose"]
    own = {name for node in found.graph.node for name in node.output}
    asked = [node for node in turned if node.output[0] in own]
    known = {port.name for port in found.graph.output}
    found.graph.output.extend(onnx.ValueInfoProto(name=node.output[0]) for node in asked if node.output[0] not in known)
    runtime = OnnxRuntime(found.SerializeToString(), level="none")
    names = [port.name for port in found.graph.output]
    results = dict(zip(names, runtime.run(feeds_of(runtime)), strict=True))
    still = sum(_moves_nothing(node, results[node.output[0]].shape) for node in asked)
    return len(turned) - still


def _moves_nothing(node: onnx.NodeProto, shape: Sequence[int]) -> bool:
    perm = next((tuple(each.ints) for each in node.attribute), tuple(reversed(range(len(shape)))))
    kept = [axis for axis, size in zip(perm, shape, strict=True) if size != 1]
    return kept == sorted(kept)


# -- litert-torch --------------------------------------------------------------------------------------------------

THEIR_CUT = """
import json, sys
import litert_torch, torch
from torch import nn
from torch.nn import functional as F

STEPS = json.load(open(sys.argv[1]))
OPS = {
    "pool": lambda x: F.max_pool2d(x, 2),
    "resize": lambda x: F.interpolate(x, scale_factor=2, mode="nearest"),
    "mean": lambda x: x.mean((2, 3), keepdim=True),
    "softmax": lambda x: x.softmax(1),
    "relu": F.relu,
    "sigmoid": torch.sigmoid,
    "add": torch.add,
    "mul": torch.mul,
    "concat": lambda *x: torch.cat(x, 1),
    "pixels": lambda x: x.permute(0, 2, 3, 1).reshape(-1, x.shape[1]),
    "image": lambda x: x.reshape(1, *2 * [int(len(x) ** 0.5)], x.shape[1]).permute(0, 3, 1, 2),
}

class Plan(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, widths = nn.ModuleDict(), []
        for number, (word, reads, channels) in enumerate(STEPS):
            read = [widths[each] for each in reads]
            if word == "conv":
                self.layers[str(number)] = nn.Conv2d(read[0], channels, 3, padding=1)
            elif word == "dense":
                self.layers[str(number)] = nn.Linear(read[0], channels)
            widths.append(sum(read) if word == "concat" else channels or read[0])

    def forward(self, image):
        found = [image]
        for number, (word, reads, _) in enumerate(STEPS[1:], 1):
            read = [found[each] for each in reads]
            layer = str(number)
            found.append(self.layers[layer](*read) if layer in self.layers else OPS[word](*read))
        return found[-1]

litert_torch.convert(Plan().eval(), (torch.zeros(1, 4, 8, 8),)).export(sys.argv[2])
"""
"""The network of a plan of :mod:`experiments.make.plain_networks`, from PyTorch to TensorFlow Lite."""


def _cut(source: bytes, python: str, folder: Path, seed: int) -> Compared:
    script, given = folder / "cut.py", json.dumps(plan(seed)).encode()
    script.write_text(THEIR_CUT)
    file = _file(f"{python} {script} SOURCE OUTPUT", given, folder, ("json", "tflite"))
    counts = Counter(each.name for graph in parse(file.read_bytes()).subgraphs for each in graph.operators)

    def own(strategy: str) -> int:
        made = layoutsolve.convert(source, to="tflite", strategy=strategy, objective=OBJECTIVE)  # type: ignore[arg-type]
        return made.price.transposes

    theirs, cut = counts["TRANSPOSE"], own("mincut")
    cause = "" if theirs == cut else "ours is the proven optimum" if own("cpsat") == cut < theirs else UNEXPLAINED
    return Compared(theirs, cut, cause)


# -- TVM -----------------------------------------------------------------------------------------------------------


def _converted(source: bytes, python: str, folder: Path) -> Compared:
    found = beside("", source, python, folder)
    if found is None or found.theirs is None:
        raise FailedError("refused", found.reason if found is not None else "it cannot be written in planes")
    cause = "" if found.theirs == found.ours else UNEXPLAINED
    if found.ours < found.theirs and found.status == "optimal":
        cause = "it converts in one pass forward, ours is the proven optimum"
    return Compared(found.theirs, found.ours, cause)


# -- all -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Original:
    """The package of an original, the strategy that is its algorithm, the formats that it reads, and what compares
    them.
    """

    package: str
    strategy: str
    reads: Sequence[str]
    compare: Callable[..., Compared]


ORIGINALS: Mapping[str, Original] = {
    "tf2onnx, not optimised": Original("tf2onnx", "transpose", ("tflite",), _unoptimised),
    "tflite2onnx": Original("tflite2onnx", "propagate", ("tflite",), _tflite2onnx),
    "ONNX Runtime, extended": Original("onnxruntime", "push", ("tflite", "onnx"), _pushed),
    "litert-torch": Original("litert_torch", "mincut", ("plan",), _cut),
    "TVM, ConvertLayout": Original("tvm", "convert_layout", ("onnx",), _converted),
}
"""The originals by name."""

PLANS = "plain onnx"
"""The family whose models exist for PyTorch as well: the number in a name is its seed."""


def originals(model: Made, source: bytes | Graph, interpreters: Mapping[str, str]) -> list[Mapping[str, Any]]:
    """A model by all originals that read it."""
    if isinstance(source, Graph):
        return []
    reads = ["tflite" if is_tflite(source) else "onnx", *(["plan"] if model.family == PLANS else [])]
    found = []
    for name, original in ORIGINALS.items():
        if not set(original.reads).intersection(reads):
            continue
        python = interpreter(original.package, interpreters)
        head = {"original": name, "strategy": original.strategy}
        seed = [int(model.name.rsplit("-", 1)[1])] if original.reads == ("plan",) else []
        with TemporaryDirectory() as folder:
            try:
                if python is None:
                    raise FailedError("absent", "not installed")
                told = original.compare(source, python, Path(folder), *seed)
            except Exception as error:  # one that fails is a row
                found.append({**head, "refused": (str(error).strip() or repr(error)).splitlines()[-1][:120]})
                continue
        found.append({**head, "theirs": told.theirs, "ours": told.ours, "cause": told.cause})
    return found
