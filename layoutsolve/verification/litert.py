"""LiteRT in a process of its own."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Timer
from types import TracebackType
from typing import Any, BinaryIO, cast

import numpy as np

from layoutsolve.base.processes import process
from layoutsolve.base.wording import one_line
from layoutsolve.ir.graph import Array
from layoutsolve.verification import litert_process
from layoutsolve.verification.refusals import RefusedError, require


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
