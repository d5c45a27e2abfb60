"""Small ONNX models, and how long ONNX Runtime's CPU kernels take for them, measured side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import helper, numpy_helper

Array = NDArray[Any]

OPSET, IR_VERSION = 21, 10

SLICE = 1e-3
"""Seconds that a model runs before it is another one's turn; slow models run once."""

ROUNDS = 9
"""Turns that each model gets. A machine's speed changes over time, so only figures of one round are compared."""


@dataclass(frozen=True)
class Node:
    """One operator; ``inputs`` and ``outputs`` are names."""

    op: str
    inputs: Sequence[str]
    outputs: Sequence[str] = ("y",)
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Spec:
    """Type and shape of an input."""

    shape: tuple[int, ...]
    dtype: str = "float32"

    def sample(self) -> Array:
        """Random data, integers over most of their range."""
        generator = np.random.default_rng(0)
        if self.dtype == "float32":
            return generator.standard_normal(self.shape).astype(np.float32)
        info = np.iinfo(self.dtype)
        return generator.integers(info.min // 2, info.max // 2, self.shape).astype(self.dtype)

    def loud(self) -> Array:
        """Integers at both ends of their range; floats as :meth:`sample` has them."""
        if self.dtype == "float32":
            return self.sample()
        info = np.iinfo(self.dtype)
        return np.random.default_rng(0).choice(np.array([info.min, info.max], self.dtype), self.shape)


def _spec(port: onnx.ValueInfoProto) -> Spec:
    tensor = port.type.tensor_type
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
    return Spec(tuple(dim.dim_value for dim in tensor.shape.dim), dtype)


def model(
    nodes: Sequence[Node], inputs: Mapping[str, Spec], constants: Mapping[str, Array] | None = None
) -> onnx.ModelProto:
    """A model whose only output is ``y``; ONNX Runtime infers its type."""
    ports = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(spec.dtype)), spec.shape)
        for name, spec in inputs.items()
    ]
    protos = [helper.make_node(node.op, node.inputs, node.outputs, **node.attributes) for node in nodes]
    initialisers = [numpy_helper.from_array(data, name) for name, data in (constants or {}).items()]
    untyped = onnx.ValueInfoProto(name="y")
    graph = helper.make_graph(protos, "g", ports, [untyped], initialisers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


def transpose(spec: Spec, permutation: Sequence[int]) -> onnx.ModelProto:
    """A Transpose alone."""
    return model([Node("Transpose", ["x"], attributes={"perm": list(permutation)})], {"x": spec})


_shared = False
"""Whether sessions share a pool of threads; else each has one of its own."""

_clock: Callable[[], float] = time.perf_counter
"""What measures seconds: of the only thread, where there is one, so that what else the machine does is not counted."""


class Timed:
    """A model loaded into ONNX Runtime with its inputs bound. Raises what ONNX Runtime raises where it refuses."""

    def __init__(self, made: onnx.ModelProto) -> None:
        self._session = onnxruntime.InferenceSession(
            made.SerializeToString(), _options(), providers=["CPUExecutionProvider"]
        )
        self._binding = self._session.io_binding()
        for port in made.graph.input:
            data = _spec(port).sample()
            self._binding.bind_ortvalue_input(port.name, onnxruntime.OrtValue.ortvalue_from_numpy(data))
        self._binding.bind_output("y")
        for _ in range(2):
            self._session.run_with_iobinding(self._binding)
        self._runs = max(1, int(SLICE / self._of(1)))

    def _of(self, runs: int) -> float:
        start = _clock()
        for _ in range(runs):
            self._session.run_with_iobinding(self._binding)
        return (_clock() - start) / runs

    def seconds(self) -> float:
        """Seconds of one run, measured over one slice."""
        return self._of(self._runs)


def share_threads(count: int) -> None:
    """Make the pool of threads that all models use; to be called once in a process, before a model is loaded.

    Idle threads of a session spin, so sessions with threads of their own would slow each other down.
    """
    global _clock, _shared
    _shared = True
    _clock = time.thread_time if count == 1 else time.perf_counter
    onnxruntime.set_global_thread_pool_sizes(count, 1)


def runtime_version() -> str:
    """The version of ONNX Runtime."""
    return str(onnxruntime.__version__)


def _options() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.use_per_session_threads = not _shared
    if not _shared:
        options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return options


def loaded(made: onnx.ModelProto) -> Timed | str:
    """The model ready to run, or why ONNX Runtime refuses it."""
    try:
        return Timed(made)
    except Exception as error:  # ONNX Runtime has a class of exception for each status
        return " ".join(str(error).split())[:300]


_EMPTY = model([Node("Identity", ["x"])], {"x": Spec((1,))})


def paired(models: Sequence[Timed], rounds: int = ROUNDS) -> Array:
    """Seconds of one run per round and model, in turn, less what it costs to run a session with nothing in it."""
    if not models:
        return np.zeros((rounds, 0))
    everything = [Timed(_EMPTY), *models]
    found = np.array([[each.seconds() for each in everything] for _ in range(rounds)])
    times: Array = np.maximum(found[:, 1:] - np.median(found[:, 0]), 1e-7)
    return times


def results(made: onnx.ModelProto, optimise: bool = True) -> list[Array]:
    """Results of a model on integers at the limits of their range, or on random floats."""
    options = _options()
    if not optimise:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = {port.name: _spec(port).loud() for port in made.graph.input}
    return [np.asarray(each) for each in session.run(None, feeds)]


def optimised(made: onnx.ModelProto) -> list[str]:
    """The operators of the graph that ONNX Runtime really runs."""
    with TemporaryDirectory() as folder:
        options = _options()
        path = Path(folder) / "optimised.onnx"
        options.optimized_model_filepath = str(path)
        onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return [node.op_type for node in onnx.load(path).graph.node]
