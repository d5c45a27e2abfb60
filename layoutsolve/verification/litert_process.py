"""The process that runs LiteRT: it answers requests on its standard input until that ends.

LiteRT can abort on a model it does not like, so it never runs in the caller's process. It imports nothing else of
layoutsolve; :class:`layoutsolve.verification.litert.LiteRT` is the other end. A message in either direction is twice
eight bytes of lengths, then JSON text (the header, and name, type and shape of each array), then the arrays' elements.

Request: ``header`` = {"delegate": bool, "tensors": [indices], "steps": how many runs, each with the state that the one
before has left, "keep": whether the next request may have the same interpreter, "allocate": whether all operators are
to be prepared where nothing is run}, ``model`` = the bytes of the model, ``input/<step>/<position>`` = the inputs.
Answer: ``header`` =
{"error": text or null, "inputs": [...], "outputs": [...], "float16": whether tensors of that type occur},
``output/<step>/<position>`` and ``tensor/<step>/<index>``, as far as they can be had.

A model that is to be timed is held: {"hold": {"delegate": bool, "threads": N, "processor": whether the time is the
processor's}} with ``model`` and the inputs of step 0 is answered with the "seconds" that loading it took. {"turn": N}
then runs it N times, and is answered with the "seconds" of them all. Both are measured here.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

Arrays = dict[str, npt.NDArray[Any]]


ALIGNMENT = 64
"""What the elements of each array are aligned to, counted from where the first ones begin."""


def write_message(stream: BinaryIO, header: dict[str, Any], arrays: Arrays) -> None:
    """Send one message; the opposite of :func:`read_message`. Raises TypeError for arrays of Python objects."""
    described = [(name, data.dtype.str, data.shape) for name, data in arrays.items()]
    if any(data.dtype.hasobject for data in arrays.values()):
        raise TypeError("arrays of Python objects cannot be sent")
    text = json.dumps([header, described]).encode()
    whole = sum(_aligned(data.nbytes) for data in arrays.values())
    stream.write(struct.pack("<QQ", len(text), whole) + text)
    for data in arrays.values():
        stream.write(np.ascontiguousarray(data).reshape(-1).view(np.uint8).data if data.nbytes else b"")
        stream.write(bytes(_aligned(data.nbytes) - data.nbytes))
    stream.flush()


def read_message(stream: BinaryIO) -> tuple[dict[str, Any], Arrays] | None:
    """Receive one message; None where the stream has ended."""
    lengths = stream.read(16)
    if len(lengths) < 16:
        return None
    length, whole = struct.unpack("<QQ", lengths)
    text, elements = stream.read(length), np.empty(whole, np.uint8)
    if len(text) < length or stream.readinto(elements.data) < whole:  # type: ignore[attr-defined]
        return None
    header, described = json.loads(text)
    arrays, start = Arrays(), 0
    for name, dtype, shape in described:
        data = np.ndarray(shape, dtype, elements, start)
        arrays[name] = data
        start += _aligned(data.nbytes)
    return header, arrays


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True)
class Held:
    """A model that is to be timed, with its input set, and the clock."""

    interpreter: Any
    inputs: list[npt.NDArray[Any]]
    clock: Callable[[], float]

    def turn(self, repeats: int) -> float:
        """The seconds of some runs, with the inputs set for each: a run may write over them."""
        start = self.clock()
        for _ in range(repeats):
            _set(self.interpreter, self.inputs)
            self.interpreter.invoke()
        return self.clock() - start


_HELD: list[Held] = []
"""The model that is held, at most one."""

MOST_KEPT, MOST_BYTES = 4, 1 << 26
"""How many interpreters are kept for the next request, and the largest model of which one is."""

_KEPT: dict[tuple[bytes, bool, bool], Any] = {}
"""Interpreters by model, by whether they have the delegate, and by whether they preserve all tensors."""


def _interpreter(model: bytes, delegate: bool, preserve: bool, threads: int | None = None) -> Any:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    return Interpreter(
        model_content=model,
        experimental_op_resolver_type=OpResolverType.AUTO if delegate else plain,
        experimental_preserve_all_tensors=preserve,
        num_threads=threads,
    )


def _port(details: dict[str, Any]) -> dict[str, Any]:
    dtype = np.dtype(details["dtype"])
    signature = details["shape_signature"] if len(details["shape_signature"]) else details["shape"]
    parameters = details["quantization_parameters"]
    return {
        "name": details["name"],
        "dtype": "string" if dtype.kind in "SO" else dtype.name,
        "shape": [int(size) for size in details["shape"]],
        "signature": [int(size) for size in signature],
        "scale": [float(scale) for scale in parameters["scales"]],
        "zero_point": [int(zero) for zero in parameters["zero_points"]],
    }


def _outputs(interpreter: Any) -> list[dict[str, Any]]:
    """The outputs; real numbers that a DEQUANTIZE makes keep the parameters of what it reads: they come in steps."""
    ports = [_port(details) for details in interpreter.get_output_details()]
    tensors = {details["index"]: details for details in interpreter.get_tensor_details()}
    operators = interpreter._get_ops_details()
    sources = {op["outputs"][0]: op["inputs"][0] for op in operators if op["op_name"] == "DEQUANTIZE"}
    for port, details in zip(ports, interpreter.get_output_details(), strict=True):
        source = tensors.get(sources.get(details["index"], -1))
        if source is not None and source["dtype"] is not np.float16:
            read = _port(source)
            port.update(scale=read["scale"], zero_point=read["zero_point"], steps=read["dtype"])
    return ports


def _plain(value: Any) -> npt.NDArray[Any]:
    """What LiteRT returned, as an array without Python objects (strings become bytes)."""
    array = np.asarray(value)
    return array.astype(np.bytes_) if array.dtype == object else array


def _set(interpreter: Any, inputs: list[npt.NDArray[Any]]) -> None:
    for detail, data in zip(interpreter.get_input_details(), inputs, strict=True):
        if data.size:
            interpreter.set_tensor(detail["index"], data.astype(object) if data.dtype.kind == "S" else data)


def _allocate(interpreter: Any, inputs: list[npt.NDArray[Any]], again: bool = False) -> None:
    """Make room for inputs and clear the states, but where it is done ``again``."""
    details = interpreter.get_input_details()
    if len(details) != len(inputs):
        raise ValueError(f"{len(inputs)} inputs were given, the model has {len(details)}")
    other = [each for each in zip(details, inputs, strict=True) if list(each[0]["shape"]) != list(each[1].shape)]
    for detail, data in other:
        interpreter.resize_tensor_input(detail["index"], list(data.shape))
    if other or not again:
        interpreter.allocate_tensors()
    if not again:
        interpreter.reset_all_variables()


def _inputs(arrays: Arrays, step: int) -> list[npt.NDArray[Any]]:
    count = sum(name.startswith(f"input/{step}/") for name in arrays)
    return [arrays[f"input/{step}/{position}"] for position in range(count)]


def _result(interpreter: Any, details: Any) -> npt.NDArray[Any]:
    """An output; LiteRT hands out none without elements."""
    if 0 in details["shape"] and np.dtype(details["dtype"]).kind in "biuf":
        return np.zeros(details["shape"], details["dtype"])
    return _plain(interpreter.get_tensor(details["index"])).copy()


def _step(interpreter: Any, step: int, inputs: list[npt.NDArray[Any]], tensors: list[int]) -> Arrays:
    """Run once, and read what there is then."""
    _set(interpreter, inputs)
    interpreter.invoke()
    outputs = enumerate(interpreter.get_output_details())
    found = {f"output/{step}/{place}": _result(interpreter, each) for place, each in outputs}
    for index in tensors:
        try:
            found[f"tensor/{step}/{index}"] = _plain(interpreter.get_tensor(index)).copy()
        except (ValueError, RuntimeError):  # never computed, or of a type that has no numpy equivalent
            continue
    return found


def answer(header: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
    """Serve one request."""
    if "hold" in header:
        return {"error": None, "seconds": _hold(header["hold"], arrays)}, {}
    if "turn" in header:
        return {"error": None, "seconds": _HELD[0].turn(header["turn"])}, {}
    asked = (arrays["model"].tobytes(), header["delegate"], bool(header["tensors"]))
    interpreter = _KEPT.pop(asked, None) or _interpreter(*asked)
    if header.get("allocate"):
        interpreter.allocate_tensors()
    reply = {
        "error": None,
        "inputs": [_port(details) for details in interpreter.get_input_details()],
        "outputs": _outputs(interpreter),
        "float16": any(details["dtype"] is np.float16 for details in interpreter.get_tensor_details()),
    }
    results: Arrays = {}
    for step in range(header["steps"]):
        inputs = _inputs(arrays, step)
        _allocate(interpreter, inputs, again=step > 0)
        results.update(_step(interpreter, step, inputs, header["tensors"]))
    if header.get("keep") and len(asked[0]) <= MOST_BYTES:
        _KEPT[asked] = interpreter
        while len(_KEPT) > MOST_KEPT:
            del _KEPT[next(iter(_KEPT))]
    return reply, results


def _hold(asked: dict[str, Any], arrays: Arrays) -> float:
    """Keep a model instead of the one before; the seconds that loading it took."""
    inputs = _inputs(arrays, 0)
    start = time.perf_counter()
    interpreter = _interpreter(arrays["model"].tobytes(), asked["delegate"], False, asked["threads"])
    _allocate(interpreter, inputs)
    spent = time.perf_counter() - start
    _HELD[:] = [Held(interpreter, inputs, time.process_time if asked["processor"] else time.perf_counter)]
    _HELD[0].turn(1)
    return spent


def main() -> None:
    """Serve requests; whatever LiteRT prints goes to standard error."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    while (request := read_message(sys.stdin.buffer)) is not None:
        try:
            reply, results = answer(*request)
        except Exception as error:  # any refusal is an answer, not the end of the process
            refusal = f"{type(error).__name__}: {error}"
            reply, results = {"error": refusal, "inputs": [], "outputs": [], "float16": False}, {}
        write_message(replies, reply, results)
