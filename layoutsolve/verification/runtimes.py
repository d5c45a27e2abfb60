"""Running models: LiteRT in a process of its own, ONNX Runtime in this one.

Neither runtime is needed to convert; a missing one raises :class:`VerifyError` with the remedy.
"""

from __future__ import annotations

import importlib.util
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast, get_args
from weakref import finalize

import numpy as np

from layoutsolve.base.processes import process
from layoutsolve.base.wording import one_line
from layoutsolve.emit.subgraphs import following_of
from layoutsolve.errors import VerifyError
from layoutsolve.frontend import is_tflite
from layoutsolve.frontend.tflite.reading.model import port_names
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.ir.graph import Array
from layoutsolve.verification import litert_process

if TYPE_CHECKING:
    import onnx

_REMEDY = "install the runtimes with: pip install 'layoutsolve[verify]'"


@dataclass(frozen=True)
class Port:
    """An input or output of the source model.

    A dynamic dimension is -1 in ``signature``. ``scale`` is empty unless the numbers come in steps: quantized ones, and
    real ones that the last operator makes of quantized ones, whose type is ``steps``.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    steps: str = ""

    @property
    def bits(self) -> int:
        """How many bits a quantized number has."""
        return 16 if "int16" in (self.dtype, self.steps) else 8

    @property
    def quantized(self) -> bool:
        """Whether the tensor's numbers come in steps of one size."""
        return len(self.scale) == 1 and self.scale[0] != 0 and self.dtype in ("int8", "uint8", "int16", "float32")


@dataclass(frozen=True, eq=False)
class Run:
    """What LiteRT answered: the ports, the outputs by position, and the tensors of subgraph 0 that were asked for.

    ``float16`` says whether the model has tensors of that type.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    float16: bool
    results: tuple[Array, ...]
    tensors: Mapping[int, Array]


class RefusedError(VerifyError):
    """A runtime refuses a model, aborts on it or takes too long: the source, or the ``result`` of its conversion; the
    model itself, or ``running`` it on some inputs.
    """

    result: bool = False
    running: bool = False


@contextmanager
def of_result() -> Iterator[None]:
    """What is refused within is the result of a conversion."""
    try:
        yield
    except RefusedError as error:
        error.result = True
        raise


def require(package: str) -> None:
    """Raise :class:`VerifyError` unless ``package`` is installed."""
    if importlib.util.find_spec(package) is None:
        raise VerifyError(f"the package '{package}' is missing; {_REMEDY}")


class LiteRT:
    """LiteRT in a process that serves many models, and that is started again when a model aborts it.

    A context manager; ``timeout`` is in seconds and holds for each request.
    """

    def __init__(self, timeout: float = 300.0) -> None:
        require("ai_edge_litert")
        self._timeout = timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (closed in close())

    def __enter__(self) -> LiteRT:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def describe(self, source: bytes) -> Run:
        """The inputs and outputs of a model, without running it: ``results`` is empty."""
        answer, _ = self._answered({"delegate": False, "tensors": [], "steps": 0}, self._arrays(source, []))
        return _run(answer, {}, 0, 0)

    def refusal(self, source: bytes) -> str:
        """Why LiteRT does not prepare a model to be run, '' where it does."""
        header = {"delegate": False, "tensors": [], "steps": 0, "allocate": True}
        try:
            self._answered(header, self._arrays(source, []))
        except RefusedError as error:
            return str(error)
        return ""

    def run(
        self,
        source: bytes,
        inputs: Sequence[Array],
        *,
        delegate: bool = False,
        tensors: Sequence[int] = (),
        runs: int = 1,
    ) -> Run:
        """Run a model on inputs given by position; a dynamic input is resized to what it is given.

        ``delegate`` runs it as LiteRT does by default (XNNPACK), otherwise the plain kernels are used. ``tensors``
        lists tensors of subgraph 0 to return as well; those that were never computed are left out. With ``runs`` it is
        run several times on the same inputs, each time with the state that the run before has left. Raises
        :class:`VerifyError` where LiteRT refuses, aborts or exceeds the timeout.
        """
        return self.steps(source, [inputs] * runs, delegate=delegate, tensors=tensors)[-1]

    def steps(
        self,
        source: bytes,
        inputs: Sequence[Sequence[Array]],
        *,
        delegate: bool = False,
        tensors: Sequence[int] = (),
        keep: bool = False,
    ) -> list[Run]:
        """Run a model on one set of inputs after the other, each time with the state that the run before has left.

        The rest is as for :meth:`run`. With ``keep`` the process keeps the interpreter for the next run of the same
        model, which begins with its variables reset: for models without any other state.
        """
        header = {"delegate": delegate, "tensors": list(tensors), "steps": len(inputs), "keep": keep}
        answer, results = self._answered(header, self._arrays(source, inputs))
        return [_run(answer, results, step, len(answer["outputs"])) for step in range(len(inputs))]

    def hold(self, source: bytes, inputs: Sequence[Array], *, threads: int, delegate: bool, processor: bool) -> float:
        """Load a model into the process, to be timed on inputs given by position; the seconds that loading took.

        ``processor`` tells later times by the processor, else by the clock. Raises :class:`VerifyError` as :meth:`run`.
        """
        asked = {"delegate": delegate, "threads": threads, "processor": processor}
        answer, _ = self._answered({"hold": asked}, self._arrays(source, [inputs]))
        return float(answer["seconds"])

    def turn(self, repeats: int) -> float:
        """Run the model that is held some times; the seconds that took, measured in the process."""
        answer, _ = self._answered({"turn": repeats}, {})
        return float(answer["seconds"])

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
        self._log.close()

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            pipe = subprocess.PIPE
            self._process = process(litert_process.__name__, stdin=pipe, stdout=pipe, stderr=self._log)
        return self._process

    def _arrays(self, source: bytes, steps: Sequence[Sequence[Array]]) -> litert_process.Arrays:
        arrays = {
            f"input/{step}/{position}": np.asarray(data)
            for step, inputs in enumerate(steps)
            for position, data in enumerate(inputs)
        }
        return {**arrays, "model": np.frombuffer(source, np.uint8)}

    def _answered(
        self, header: dict[str, Any], arrays: litert_process.Arrays
    ) -> tuple[dict[str, Any], litert_process.Arrays]:
        reply = self._exchange(header, arrays)
        if reply is None:
            raise RefusedError(
                f"LiteRT aborted on this model or took more than {self._timeout:g} s{self._last_words()}"
            )
        if reply[0]["error"]:
            raise RefusedError(f"LiteRT refuses this model: {one_line(reply[0]['error'])}")
        return reply

    def _exchange(
        self, header: dict[str, Any], arrays: litert_process.Arrays
    ) -> tuple[dict[str, Any], litert_process.Arrays] | None:
        running = self._start()
        requests, replies = cast("tuple[BinaryIO, BinaryIO]", (running.stdin, running.stdout))
        self._log.seek(0)
        self._log.truncate()
        timer = Timer(self._timeout, running.kill)
        timer.start()
        try:
            litert_process.write_message(requests, header, arrays)
            reply = litert_process.read_message(replies)
        except BrokenPipeError:
            reply = None
        finally:
            timer.cancel()
        if reply is None:
            running.kill()
            running.wait()
            replies.close()
            self._process = None
        return reply

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return f": {lines[-1][:300]}" if lines else ""


def _run(answer: Mapping[str, Any], results: litert_process.Arrays, step: int, outputs: int) -> Run:
    """One step of what LiteRT answered."""
    start = f"tensor/{step}/"
    found = tuple(results[f"output/{step}/{position}"] for position in range(outputs))
    tensors = {int(key[len(start) :]): data for key, data in results.items() if key.startswith(start)}
    return Run(_ports(answer["inputs"]), _ports(answer["outputs"]), answer["float16"], found, tensors)


def _ports(described: list[dict[str, Any]]) -> tuple[Port, ...]:
    def port(fields: dict[str, Any]) -> Port:
        shape, signature, scale, zero = (tuple(fields[key]) for key in ("shape", "signature", "scale", "zero_point"))
        return Port(fields["name"], fields["dtype"], shape, signature, scale, zero, fields.get("steps", ""))

    return tuple(port(fields) for fields in described)


Level = Literal["none", "basic", "extended", "all"]
"""How far ONNX Runtime optimises a model before it runs it; 'all' is its default."""

LEVELS: tuple[Level, ...] = get_args(Level)


def _options(level: Level) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    names = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = {
        "none": names.ORT_DISABLE_ALL,
        "basic": names.ORT_ENABLE_BASIC,
        "extended": names.ORT_ENABLE_EXTENDED,
        "all": names.ORT_ENABLE_ALL,
    }[level]
    return options


def optimised(model: bytes | Path, level: Level = "all") -> onnx.ModelProto:
    """The graph that ONNX Runtime really runs at a level of optimisation. Whatever it raises is raised."""
    require("onnxruntime")
    import onnx
    import onnxruntime

    options = _options(level)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "optimised.onnx"
        options.optimized_model_filepath = str(path)
        given = model if isinstance(model, bytes) else str(model)
        onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])
        return onnx.load(path)


_ELEMENTS = {"tensor(float)": "float32", "tensor(double)": "float64"}


def element(kind: str) -> str:
    """The name that NumPy has for the elements of an ONNX Runtime type such as ``tensor(float)``."""
    return _ELEMENTS.get(kind, kind[7:-1])


Pinned = Mapping[str, Mapping[str, int]]
"""The sizes of dimensions of inputs, by name and by number in decimal digits."""


class OnnxRuntime:
    """A model loaded into ONNX Runtime on the CPU; ``threads`` = 0 lets it choose, and has these sleep between runs.
    With ``profile`` it notes what takes how long, in a file whose name begins so. Dynamic dimensions of inputs may be
    ``pinned`` to sizes, by input and dimension: as such its ``inputs`` have them.
    """

    def __init__(
        self,
        model: bytes | Path,
        *,
        threads: int = 0,
        level: Level = "all",
        profile: Path | None = None,
        pinned: Pinned = MappingProxyType({}),
    ) -> None:
        self._pinned = pinned
        require("onnxruntime")
        import onnxruntime

        options = _options(level)
        options.intra_op_num_threads = threads
        if not threads:  # where they spin instead they take the processor from LiteRT's process
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        if profile is not None:
            options.enable_profiling, options.profile_file_prefix = True, str(profile)
        try:
            self._session = onnxruntime.InferenceSession(
                model if isinstance(model, bytes) else str(model), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # ONNX Runtime has a class of exception for each status
            raise RefusedError(f"ONNX Runtime refuses the model: {one_line(error)}") from error

    @property
    def inputs(self) -> list[tuple[str, str, list[int | str]]]:
        """Name, type (such as ``tensor(float)``) and shape of each input."""
        pinned = {port.name: self._pinned.get(port.name, {}) for port in self._session.get_inputs()}
        return [
            (port.name, port.type, [pinned[port.name].get(str(axis), size) for axis, size in enumerate(port.shape)])
            for port in self._session.get_inputs()
        ]

    @property
    def states(self) -> list[str]:
        """Names of the inputs that may be left out, as the model has their initial values."""
        return [port.name for port in self._session.get_overridable_initializers()]

    @property
    def outputs(self) -> list[str]:
        """The names of the outputs."""
        return [port.name for port in self._session.get_outputs()]

    @property
    def metadata(self) -> dict[str, str]:
        """Metadata of the model."""
        return dict(self._session.get_modelmeta().custom_metadata_map)

    @property
    def following(self) -> dict[str, str]:
        """The names of the states, each with that of the output that replaces it."""
        return following_of(self.metadata)

    def end_profiling(self) -> Path:
        """The file in which everything is noted that has run."""
        return Path(self._session.end_profiling())

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """The outputs for inputs by name."""
        try:
            results = self._session.run(None, dict(inputs))
        except Exception as error:  # as above
            failed = RefusedError(f"ONNX Runtime fails to run the model: {one_line(error)}")
            failed.running = True
            raise failed from error
        return [np.asarray(result) for result in results]


class LiteRTModel:
    """A model in TensorFlow Lite that was made of another one, run by LiteRT's reference kernels: what it has in common
    with :class:`OnnxRuntime`. ``names`` are those of its inputs and outputs, ``state`` is what runs it.
    """

    following: Mapping[str, str] = MappingProxyType({})

    def __init__(self, model: bytes, names: tuple[Sequence[str], Sequence[str]], timeout: float = 300.0) -> None:
        self._model, self._names = model, names
        self._litert = LiteRT(timeout)
        finalize(self, self._litert.close)  # which ends its process
        self._described = self._litert.describe(model)

    @property
    def inputs(self) -> list[tuple[str, str, list[int | str]]]:
        """Name, type (such as ``tensor(float)``) and shape of each input."""
        ports = zip(self._names[0], self._described.inputs, strict=True)
        return [(name, _told(port.dtype), _sizes(port)) for name, port in ports]

    @property
    def outputs(self) -> list[str]:
        """The names of the outputs."""
        return list(self._names[1])

    @property
    def ports(self) -> Sequence[Port]:
        """The outputs, with the steps that they come in."""
        return self._described.outputs

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """The outputs for inputs by name."""
        return self.steps([inputs])[0]

    def steps(self, steps: Sequence[Mapping[str, Array]]) -> list[list[Array]]:
        """The outputs for one set of inputs after the other, each with the states that the one before has left."""
        given = [[inputs[name] for name in self._names[0]] for inputs in steps]
        return [list(run.results) for run in self._litert.steps(self._model, given)]


def _told(dtype: str) -> str:
    names = {kind: name for name, kind in _ELEMENTS.items()}
    return names.get(dtype, f"tensor({dtype})")


def _sizes(port: Port) -> list[int | str]:
    return [f"{port.name}_{axis}" if size == -1 else size for axis, size in enumerate(port.signature or port.shape)]


Runtime = OnnxRuntime | LiteRTModel
"""What runs the result of a conversion."""


def runtime_of(model: bytes | Path, *, level: Level = "all") -> Runtime:
    """The result of a conversion, loaded into the runtime of its format."""
    if isinstance(model, Path) or not is_tflite(model):
        return OnnxRuntime(model, level=level)
    return LiteRTModel(model, tuple(port_names(parse(model), inputs) for inputs in (True, False)))  # type: ignore[arg-type]


def stepped(
    runtime: Runtime, steps: Sequence[Mapping[str, Array]], given: Sequence[Mapping[str, Array]] = ()
) -> list[list[Array]]:
    """The outputs for one set of inputs after the other, each time with the states that the run before has left, or
    with those that are ``given`` after each.
    """
    if isinstance(runtime, LiteRTModel):
        return runtime.steps(steps)
    states: dict[str, Array] = {}
    found = []
    for step, inputs in enumerate(steps):
        found.append(runtime.run({**inputs, **states}))
        after = dict(zip(runtime.outputs, found[-1], strict=True))
        own = {name: after[output] for name, output in runtime.following.items()}
        states = {**own, **given[step]} if given else own
    return found
