"""Running a converted model as its source was run: by its names, in its order of dimensions, with its memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from layoutsolve.base.wording import listed, nearest, one_line
from layoutsolve.conversion import arguments
from layoutsolve.emit.subgraphs import following_of
from layoutsolve.errors import SessionError
from layoutsolve.io.source import load
from layoutsolve.ir.graph import LAYOUT, Array

if TYPE_CHECKING:
    import numpy.typing as npt

_TYPES = {"float": "float32", "double": "float64"}
"""What ONNX Runtime calls otherwise than numpy."""


@dataclass(frozen=True)
class _Port:
    """An input: its type and shape as the ONNX model has them, and how it is stored of the source's dimensions."""

    name: str
    dtype: str
    shape: tuple[int | str | None, ...]
    permutation: tuple[int, ...]

    @property
    def own(self) -> tuple[int | str | None, ...]:
        """The shape in the source's order of dimensions."""
        return tuple(self.shape[self.permutation.index(axis)] for axis in range(len(self.shape)))

    def stored(self, value: npt.ArrayLike) -> Array:
        """An array as the ONNX model takes it. Raises :class:`SessionError` where it does not fit."""
        given = np.asarray(value)
        fixed = [(size, own) for size, own in zip(given.shape, self.own, strict=False) if isinstance(own, int)]
        if given.ndim != len(self.shape) or any(size != own for size, own in fixed):
            wanted = ", ".join(str(own) if isinstance(own, int) else "any" for own in self.own)
            raise SessionError(f"'{self.name}' is given the shape {list(given.shape)}, where the model has [{wanted}]")
        return np.asarray(np.transpose(self._typed(given), self.permutation), order="C")

    def _typed(self, given: Array) -> Array:
        if self.dtype == "string":
            if given.dtype.kind in "SUO":
                return (
                    np.char.decode(given, "utf-8").astype(object) if given.dtype.kind == "S" else given.astype(object)
                )
        elif np.can_cast(given.dtype, self.dtype, "same_kind"):
            cast = given.astype(self.dtype)
            if given.dtype.kind not in "iu" or np.array_equal(cast, given):
                return cast
        raise SessionError(f"'{self.name}' is given {given.dtype}, where the model has {self.dtype}")


class Session:
    """Inference session: a converted model in ONNX Runtime's CPU execution provider.

    Arrays are read and returned by the source's names (those of the signature, where it has one), in the source's
    dimension order, however the ONNX model stores them. States are fed back from run to run, until :meth:`reset`.

    >>> session = layoutsolve.Session("model.onnx")  # doctest: +SKIP
    >>> scores = session.run({"image": image})["scores"]  # doctest: +SKIP
    """

    def __init__(self, model: str | os.PathLike[str] | bytes | bytearray | memoryview, *, threads: int = 0) -> None:
        """``model`` is the path of an ONNX model, or its bytes; ``threads`` = 0 lets ONNX Runtime choose.

        Raises :class:`SessionError` where ONNX Runtime is missing or refuses the model.
        """
        count = arguments.whole("threads", threads, 0, arguments.MOST_THREADS)
        given = os.fspath(model) if isinstance(model, (str, os.PathLike)) else bytes(load(model, "model").data)
        self._session = _loaded(given, count)
        facts = dict(self._session.get_modelmeta().custom_metadata_map)
        self._moved = {
            name[len(LAYOUT) :]: tuple(int(each) if each.isdecimal() else -1 for each in numbers.split())
            for name, numbers in facts.items()
            if name.startswith(LAYOUT)
        }
        self._after = following_of(facts)
        inputs = self._session.get_inputs()
        self._inputs = {port.name: self._port(port) for port in inputs if port.name not in self._after}
        states = (*inputs, *self._session.get_overridable_initializers())
        self._states = {port.name: self._port(port) for port in states if port.name in self._after}
        self._needed = {port.name for port in inputs} - set(self._inputs)
        self._outputs = [self._port(port).name for port in self._session.get_outputs()]
        self._memory: dict[str, Array] = {}

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs."""
        return tuple(self._inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs."""
        return tuple(name for name in self._outputs if name not in self._after.values())

    @property
    def states(self) -> dict[str, Array]:
        """States after the last run, by name; empty where there was none since the last reset."""
        return {name: self._own(name, data) for name, data in self._memory.items()}

    def reset(self, states: Mapping[str, npt.ArrayLike] | None = None) -> None:
        """Reset the states to their initial values, or to given ones.

        Raises :class:`SessionError` for states that the model does not have, or that do not fit.
        """
        given = arguments.arrays("states", {} if states is None else states)
        self._memory = {name: self._known(name, self._states, "state").stored(data) for name, data in given.items()}

    def run(self, inputs: Mapping[str, npt.ArrayLike]) -> dict[str, Array]:
        """Run the model once: outputs by name, for inputs by name.

        Raises :class:`SessionError` where inputs do not fit.
        """
        given = arguments.arrays("inputs", inputs)
        fed = {name: self._known(name, self._inputs, "input").stored(data) for name, data in given.items()}
        for what, needed, known in (("input", self._inputs, fed), ("state", self._needed, self._memory)):
            missing = [name for name in needed if name not in known]
            if missing:
                remedy = "; the model has no initial value for it: give it to reset()" if what == "state" else ""
                raise SessionError(f"no {what} is given for {listed(missing)}{remedy}")
        try:
            results = self._session.run(None, {**fed, **self._memory})
        except Exception as error:  # ONNX Runtime has a class of exception for each status
            raise SessionError(f"ONNX Runtime fails to run the model: {one_line(error)}") from error
        found = dict(zip(self._outputs, map(np.asarray, results), strict=True))
        self._memory = {name: found[output] for name, output in self._after.items()}
        return {name: self._own(name, found[name]) for name in self.outputs}

    def _port(self, port: Any) -> _Port:
        kind = port.type.removeprefix("tensor(").removesuffix(")")
        moved = self._moved.get(port.name, tuple(range(len(port.shape))))
        if sorted(moved) != [*range(len(port.shape))]:
            raise SessionError(
                f"the metadata of the model have no valid permutation of the dimensions of '{port.name}'"
            )
        return _Port(port.name, _TYPES.get(kind, kind), tuple(port.shape), moved)

    def _own(self, name: str, data: Array) -> Array:
        """An array of the ONNX model in the source's order of dimensions."""
        return np.transpose(data, np.argsort(self._moved[name])) if name in self._moved else data

    @staticmethod
    def _known(name: str, ports: Mapping[str, _Port], what: str) -> _Port:
        if name not in ports:
            raise SessionError(f"no {what} is called '{name}': those are {listed(ports)}{nearest(name, ports)}")
        return ports[name]


def _loaded(model: str | bytes, threads: int) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise SessionError("the package 'onnxruntime' is missing; install it with: pip install onnxruntime") from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what is wrong is raised
    options.intra_op_num_threads = threads
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # as above
        raise SessionError(f"ONNX Runtime refuses the model: {one_line(error)}") from error
