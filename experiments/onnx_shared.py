"""What the experiments on ONNX models share: work in processes of their own, inputs that a model takes, and how far
apart results are.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import resource
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, product
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import inliner

from layoutsolve.errors import ConversionError, InternalError
from layoutsolve.ir.graph import Array
from layoutsolve.proto.scopes import graphs_of
from layoutsolve.verification.input_sampling import smooth
from layoutsolve.verification.runtimes import Level

FIRST, OTHERS = (1, 2, 3), (64, 32, 1, 96, 16, 512, 7, 224)
"""Sizes that open dimensions are tried with, the first one of an input and the others."""

TRIES = 400
"""How many assignments of sizes are tried."""

NEAR = 1e-6
"""How far apart, by the range of the numbers, results may be where sums are in another order."""

TRANSPOSE, VIEWS = "Transpose", ("Reshape", "Squeeze", "Unsqueeze", "Flatten")
SIZES = ("Shape", "Size")
"""Operators of whose results only the sizes of what they read decide."""

_FORK = multiprocessing.get_context("fork")
_DTYPES = {"float": "float32", "double": "float64"}
_T = TypeVar("_T")

Feeds = Mapping[str, Any]
"""Inputs by name: an array, or a list of such for a sequence."""


class FailedError(Exception):
    """Why a piece of work gives nothing. ``kind`` is 'refused' for one clear error, 'crash' for any other, 'died' or
    'slow'.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind, text)
        self.kind, self.text = kind, text

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


# -- processes -----------------------------------------------------------------------------------------------------


def apart(work: Callable[[], _T], seconds: float, memory: int = 0) -> _T:
    """What a function gives in a process of its own, which knows all that this one knows; ``memory`` is how many bytes
    more it may take, any number for 0.

    Raises :class:`FailedError` where it raises something, dies or takes too long.
    """
    receiver, sender = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=_serve, args=(work, sender, memory))
    process.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            raise FailedError("slow", f"more than {seconds:g} s")
        found = receiver.recv()
    except EOFError:
        process.join()
        raise FailedError("died", f"its process ended with {process.exitcode}") from None
    finally:
        process.kill()
        process.join()
        receiver.close()
    if isinstance(found, FailedError):
        raise found
    return found  # type: ignore[no-any-return]


def _serve(work: Callable[[], object], sender: Connection, memory: int) -> None:
    if memory:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    faulthandler.disable()  # it writes the stack of what dies to a stream of its own, where pytest has enabled it
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silence, stream)
    try:
        sender.send(work())
    except FailedError as error:
        sender.send(error)
    except Exception as error:  # every kind is told
        clear = isinstance(error, ConversionError) and not isinstance(error, InternalError)
        text = " | ".join(str(error).splitlines())[:300]
        place = "" if clear else _place(error)
        sender.send(FailedError("refused" if clear else "crash", f"{type(error).__name__}: {text}{place}"))


def _place(error: BaseException) -> str:
    """Where an exception was raised, or what it comes from."""
    trace = traceback.extract_tb((error.__cause__ or error).__traceback__)[-3:]
    return " at " + " ".join(f"{Path(each.filename).name}:{each.lineno}" for each in trace)


# -- runs ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """Inputs of a model, and what it makes of them without being optimised. ``sizes`` are those of open dimensions."""

    sizes: Mapping[str, int]
    feeds: Feeds
    results: Sequence[Any]


def session(model: bytes | Path, level: Level) -> Any:
    """A model in ONNX Runtime on one thread. Whatever it raises is raised: it has a class for each status."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    names = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = names.ORT_DISABLE_ALL if level == "none" else names.ORT_ENABLE_ALL
    given = model if isinstance(model, bytes) else str(model)
    return onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])


def samples(path: bytes | Path, fixed: Mapping[str, float], most: int = TRIES) -> list[Sample]:
    """Inputs that a model takes, found by trying: two that differ in as many open sizes as can be, or in their numbers
    where no size is open; ``most`` assignments of sizes are tried. ``fixed`` are numbers of inputs by name.

    Whatever ONNX Runtime raises last is raised.
    """
    found = session(path, "none")
    tries = list(islice(_tries(found), most))
    first = _first(found, tries, fixed, 0)
    rest = sorted(tries, key=lambda sizes: sum(first.sizes[name] == size for name, size in sizes.items()))
    rest = [sizes for sizes in rest if sizes != first.sizes] or tries
    with suppress(Exception):  # it runs with one size only
        return [first, _first(found, rest, fixed, 1)]
    return [first]


def _first(found: Any, tries: Sequence[Mapping[str, int]], fixed: Mapping[str, float], seed: int) -> Sample:
    """The first sizes that a session runs with."""
    for number, sizes in enumerate(tries):
        feeds = _feeds(found, sizes, fixed, seed)
        try:
            return Sample(sizes, feeds, found.run(None, feeds))
        except Exception:  # as above
            if number == len(tries) - 1:
                raise
    raise FailedError("refused", "there is no size to try")


def _tries(found: Any) -> Iterator[dict[str, int]]:
    """Assignments of sizes to open dimensions: first with two sizes, then with one dimension apart from those."""
    ports = ((port.name, axis, size) for port in found.get_inputs() for axis, size in enumerate(port.shape))
    axes: dict[str, int] = {}
    for name, axis, size in ports:
        if not isinstance(size, int):
            axes.setdefault(_symbol(name, axis, size), axis)
    bases = [{name: other if axis else first for name, axis in axes.items()} for other, first in product(OTHERS, FIRST)]
    yield from (bases if axes else bases[:1])
    for base, name in product(bases, axes):
        for size in (*FIRST, *OTHERS):
            yield {**base, name: size}


def _symbol(port: str, axis: int, size: str | None) -> str:
    """The name of an open dimension; those without one are all different."""
    return size if size else f"{port}[{axis}]"


def _feeds(found: Any, sizes: Mapping[str, int], fixed: Mapping[str, float], seed: int) -> dict[str, Array]:
    generator = np.random.default_rng(seed)
    feeds = {}
    for port in found.get_inputs():
        shape = [
            size if isinstance(size, int) else sizes[_symbol(port.name, axis, size)]
            for axis, size in enumerate(port.shape)
        ]
        if not port.type.startswith("tensor("):
            raise FailedError("refused", f"there is no random input of type {port.type}")
        dtype = port.type[7:-1]
        data = smooth(_DTYPES.get(dtype, dtype), shape, generator)
        if port.name in fixed:
            data = np.full(shape, fixed[port.name], data.dtype)
        feeds[port.name] = data.astype(str).astype(object) if data.dtype.kind == "S" else data
    return feeds


# -- models --------------------------------------------------------------------------------------------------------


def whole(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model whose functions are written out."""
    return inliner.inline_local_functions(model) if model.functions else model


def moving(graph: onnx.GraphProto, outer: frozenset[str] = frozenset()) -> Iterator[onnx.NodeProto]:
    """The Transposes and views of a graph, and of the graphs in it, of what depends on inputs; ``outer`` are names that
    do.
    """
    constants = {each.name for each in graph.initializer}
    depending = outer.union({port.name for port in graph.input} - constants)
    for node in graph.node:
        inner = list(graphs_of(node))
        if not inner and not depending.intersection(node.input):
            continue
        if node.op_type not in SIZES:
            depending = depending.union(filter(None, node.output))
        for each in inner:
            yield from moving(each, depending)
        if node.op_type in (TRANSPOSE, *VIEWS) and node.input[0] in depending:
            yield node


# -- results -------------------------------------------------------------------------------------------------------


def distance(found: Any, wanted: Any) -> float:
    """How far apart results are: 0 for the same, else the largest error by the range of what is wanted; infinity where
    types, shapes or what is no number differ. Sequences are as far apart as their items.
    """
    if isinstance(wanted, (list, tuple)):
        if not isinstance(found, (list, tuple)) or len(found) != len(wanted):
            return np.inf
        return max((distance(*pair) for pair in zip(found, wanted, strict=True)), default=0.0)
    if isinstance(wanted, dict):
        same = isinstance(found, dict) and found.keys() == wanted.keys()
        return distance([found[key] for key in wanted], list(wanted.values())) if same else np.inf
    return _apart(np.asarray(found), np.asarray(wanted))


def _apart(found: Array, wanted: Array) -> float:
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return np.inf
    if wanted.dtype.kind not in "fiuc":
        return 0.0 if np.array_equal(found, wanted) else np.inf
    same = (found == wanted) | ((found != found) & (wanted != wanted))
    if same.all():
        return 0.0
    kind = complex if wanted.dtype.kind == "c" else float
    one, other = found[~same].astype(kind), wanted[~same].astype(kind)
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        return np.inf
    numbers = np.abs(wanted[np.isfinite(wanted)]) if kind is complex else wanted[np.isfinite(wanted)].astype(float)
    span = float(numbers.max() - numbers.min()) or float(np.abs(numbers).max()) or 1.0
    return float(np.abs(one - other).max()) / span
