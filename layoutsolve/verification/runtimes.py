"""Running the results of conversions: ONNX Runtime in this process, LiteRT in one of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args
from weakref import finalize

import numpy as np

from layoutsolve.base.wording import one_line
from layoutsolve.emit.subgraphs import following_of
from layoutsolve.frontend import is_tflite
from layoutsolve.frontend.tflite.reading.model import port_names
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.ir.graph import Array
from layoutsolve.verification.litert import LiteRT, Port
from layoutsolve.verification.refusals import RefusedError, require

if TYPE_CHECKING:
    import onnx


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
