"""Mutants of models in ONNX: each has to become a right model, or one clear error, within bounds of memory and time.

Where they come from: the models in a folder, ONNX's own tests of its operators (``--tests``), or the schemas of all
operators (``--schemas``, :mod:`experiments.fuzz.onnx_schemas`). A mutation of a model changes bytes, or one thing that
the format has a field for, in a graph or in one within it: nodes, what they read or are, attributes, types, sizes,
constants, functions, imports. Mutants are numbered: the same number, source and version give the same mutant again
(``--first N --mutants 1 --keep FOLDER`` writes it down).

Many mutants share a process with limits; one that ends it is named, and another process goes on behind it. What
converts is run and compared, in a process that does nothing else, where ONNX Runtime runs the mutant: so a mutant that
ends ONNX Runtime ends no conversion.

    python -m experiments.fuzz.onnx_mutants FOLDER [--mutants 1000] [--keep FOLDER] [--to tflite]
    python -m experiments.fuzz.onnx_mutants --schemas --every 10
"""

from __future__ import annotations

import argparse
import mmap
import os
import pickle
import resource
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import ml_dtypes
import numpy as np
import onnx

import layoutsolve
from experiments.compare import onnx_nodes
from experiments.fuzz import onnx_schemas
from experiments.fuzz.compare import described, traced
from experiments.onnx_shared import Sample, distance, samples, session
from layoutsolve.errors import ConversionError, InternalError
from layoutsolve.frontend.tflite.reading.model import port_names
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.proto.scopes import graphs_of

SECONDS, MEMORY, MEMORY_PER_BYTE = 20.0, 300 << 20, 20
"""What a conversion may take: seconds of processor time, resident bytes beside those of the process, and so many for
each byte of the model.
"""

ROOM = 4 << 30
"""The address space that a process may take beyond what it has, which ends what asks for far more at once."""

BATCH, RUN_SECONDS, TRIES = 400, 4.0, 6
"""Mutants that share a process, seconds that a mutant may run, and assignments of sizes that are tried for it."""

NUMBERS = (0, 1, -1, 2, 3, 4, 7, 64, 255, 1 << 16, (1 << 31) - 1, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63))
NAMES = ("", "Transpose", "Reshape", "Identity", "Conv", "Add", "Nothing", "Shape", "Concat", "DequantizeLinear")
MOST = 3
"""How many mutations a mutant has at most."""

WRONG, WRONG_IN_HALVES = 1e-4, 2e-2
"""A distance of results that rounding does not explain, and that where results are in 16 bits."""

WRONG_IN_STEPS = 0.1
"""The same of what is quantized and written to TensorFlow Lite: kernels round each operator by a step otherwise."""

HALVES = (np.float16, ml_dtypes.bfloat16)

FAILURES = ("internal", "died", "slow", "memory", "unusable", "differs")
"""What must not happen: an error that is none of the model, the end of the process, more time or memory than the bounds
allow, and where ONNX Runtime runs the mutant a result that it does not run, or another one.
"""

RANDOM = frozenset(("Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
                    "RandomUniformLike"))  # fmt: skip
"""Operators that give something else in each run."""


class Opened:
    """A model taken apart, and what chooses where to change it."""

    def __init__(self, source: bytes, seed: int) -> None:
        self.model = onnx.ModelProto.FromString(source)
        self.random = np.random.default_rng(seed)
        within = list(_within(self.model.graph))
        self.graph = self.one([self.model.graph, self.one(within)]) if within else self.model.graph

    def one(self, choices: Sequence[Any]) -> Any:
        """One of some things. Raises ValueError where there are none."""
        return choices[int(self.random.integers(len(choices)))]

    def node(self) -> onnx.NodeProto:
        """A node."""
        return self.one(self.model.graph.node)  # type: ignore[no-any-return]

    def name(self) -> str:
        """The name of a value."""
        graph = self.graph
        names = [name for node in graph.node for name in (*node.input, *node.output)]
        return str(self.one([*names, *(port.name for port in graph.input), "nowhere", ""]))

    def port(self) -> onnx.ValueInfoProto:
        """An input, an output, or a value of which something is said."""
        graph = self.graph
        return self.one([*graph.input, *graph.output, *graph.value_info])  # type: ignore[no-any-return]

    def number(self) -> int:
        """A number that may fit, or not at all."""
        return int(self.one(NUMBERS)) if self.random.random() < 0.5 else int(self.random.integers(-3, 9))


def _within(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graphs in a graph, and those in them."""
    for node in graph.node:
        for inner in graphs_of(node):
            yield inner
            yield from _within(inner)


def _reads(opened: Opened) -> None:
    node = opened.node()
    node.input[int(opened.random.integers(len(node.input)))] = opened.name()


def _writes(opened: Opened) -> None:
    node = opened.node()
    node.output[int(opened.random.integers(len(node.output)))] = opened.name()


def _fewer(opened: Opened) -> None:
    node = opened.node()
    opened.one([node.input, node.output, node.attribute]).pop()


def _operator(opened: Opened) -> None:
    opened.node().op_type = opened.one([*NAMES, opened.node().op_type])


def _domain(opened: Opened) -> None:
    opened.node().domain = opened.one(["", "ai.onnx", "com.microsoft", "ai.onnx.ml", "nobody"])


def _order(opened: Opened) -> None:
    nodes = list(opened.graph.node)
    first, second = (int(opened.random.integers(len(nodes))) for _ in range(2))
    nodes[first], nodes[second] = nodes[second], nodes[first]
    del opened.graph.node[:]
    opened.graph.node.extend(nodes)


def _gone(opened: Opened) -> None:
    del opened.graph.node[int(opened.random.integers(len(opened.graph.node)))]


def _attribute(opened: Opened) -> None:
    attribute = opened.one([each for node in opened.graph.node for each in node.attribute])
    if attribute.ints:
        attribute.ints[int(opened.random.integers(len(attribute.ints)))] = opened.number()
    elif opened.random.random() < 0.3:
        attribute.type = int(opened.random.integers(0, 15))
    elif opened.random.random() < 0.3:
        attribute.name = opened.one(["axis", "perm", "axes", "to", "value", "nothing"])
    else:
        attribute.i, attribute.f, attribute.s = opened.number(), float(opened.number()), b"\xff\x00"


def _size(opened: Opened) -> None:
    dims = opened.port().type.tensor_type.shape.dim
    dim = opened.one(list(dims))
    if opened.random.random() < 0.3:
        dim.dim_param = opened.one(["n", "?", "", "2*n", "-1", "n m", "unk__1", "\u00fc"])
    else:
        dim.dim_value = opened.number()


def _rank(opened: Opened) -> None:
    shape = opened.port().type.tensor_type.shape
    if opened.random.random() < 0.5:
        shape.dim.add().dim_value = 1
    else:
        shape.dim.pop()


def _type(opened: Opened) -> None:
    opened.port().type.tensor_type.elem_type = int(opened.random.integers(0, 27))


def _unsaid(opened: Opened) -> None:
    opened.port().ClearField("type")


def _constant(opened: Opened) -> None:
    tensor = opened.one(opened.graph.initializer)
    change = int(opened.random.integers(6))
    if change == 0:
        tensor.data_type = int(opened.random.integers(0, 27))
    elif change == 1 and tensor.dims:
        tensor.dims[int(opened.random.integers(len(tensor.dims)))] = opened.number()
    elif change == 2:
        tensor.raw_data = tensor.raw_data[: int(opened.random.integers(len(tensor.raw_data) + 1))]
    elif change == 3:
        tensor.name = opened.name()
    elif change == 4 and tensor.raw_data:
        data = bytearray(tensor.raw_data)
        data[int(opened.random.integers(len(data)))] = int(opened.random.integers(256))
        tensor.raw_data = bytes(data)
    else:
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", opened.one(["../secret", "/etc/passwd", "none.bin", ""])), ("offset", "-1")):
            tensor.external_data.add(key=key, value=value)


def _input(opened: Opened) -> None:
    graph = opened.graph
    port = _copy(opened.one([*graph.input, *graph.output]))
    port.name = opened.name()
    graph.input.append(port)


def _output(opened: Opened) -> None:
    opened.graph.output.add().name = opened.name()


def _import(opened: Opened) -> None:
    opened.one(opened.model.opset_import).version = opened.one([0, 1, 6, 7, 9, 11, 13, 17, 21, 24, 99, -1, 1 << 40])


def _header(opened: Opened) -> None:
    model = opened.model
    change = int(opened.random.integers(4))
    if change == 0:
        model.ir_version = opened.number()
    elif change == 1:
        model.opset_import.add(domain=opened.one(["", "ai.onnx", "nobody"]), version=opened.one([1, 13, 18]))
    elif change == 2:
        model.graph.name = ""
    else:
        del model.opset_import[:]


def _quantized(opened: Opened) -> None:
    graph = opened.graph
    said = graph.quantization_annotation.add(tensor_name=opened.name())
    said.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value=opened.name())


def _copy(message: Any) -> Any:
    """A message of its own: protobuf may end the process where one is copied within what it is part of."""
    return type(message).FromString(message.SerializeToString())


def _node_twice(opened: Opened) -> None:
    opened.graph.node.append(_copy(opened.node()))


def _more(opened: Opened) -> None:
    """A node reads or gives one more thing, or has an attribute of another node."""
    node = opened.node()
    change = int(opened.random.integers(3))
    if change == 0:
        node.input.append(opened.name())
    elif change == 1:
        node.output.append(f"more{int(opened.random.integers(9))}")
    else:
        node.attribute.append(_copy(opened.one([each for other in opened.graph.node for each in other.attribute])))


def _port_gone(opened: Opened) -> None:
    graph = opened.graph
    ports = opened.one([graph.input, graph.output, graph.value_info, graph.initializer])
    del ports[int(opened.random.integers(len(ports)))]


def _kind(opened: Opened) -> None:
    """A value is none of tensors of a type."""
    kind = opened.port().type
    held = opened.one(["sequence_type", "optional_type", "map_type", "sparse_tensor_type", "opaque_type"])
    getattr(kind, held).SetInParent()


def _graph(opened: Opened) -> None:
    """A graph within loses or gets ends, or stands for another one."""
    within = list(_within(opened.model.graph))
    graph, change = opened.one(within), int(opened.random.integers(4))
    if change == 0:
        graph.input.pop()
    elif change == 1:
        graph.output.pop()
    elif change == 2:
        graph.input.add(name=f"more{int(opened.random.integers(9))}")
    else:
        graph.CopyFrom(_copy(opened.one(within)))


def _function(opened: Opened) -> None:
    """A node becomes a function, or a function is changed."""
    model = opened.model
    if model.functions and opened.random.random() < 0.5:
        function, change = opened.one(model.functions), int(opened.random.integers(5))
        if change == 0:
            function.input.pop()
        elif change == 1:
            function.output.pop()
        elif change == 2:
            opened.one(function.node).op_type, opened.one(function.node).domain = function.name, function.domain
        elif change == 3:
            del function.opset_import[:]
        else:
            function.attribute.append(opened.name() or "a")
        return
    node = opened.node()
    function = model.functions.add(name=f"f{len(model.functions)}", domain="local", input=filter(None, node.input))
    function.output.extend(filter(None, node.output))
    function.opset_import.extend(map(_copy, model.opset_import))
    function.node.append(_copy(node))
    model.opset_import.add(domain="local", version=1)
    node.op_type, node.domain = function.name, "local"
    if opened.random.random() < 0.7:
        del node.attribute[:]


def _nested(opened: Opened) -> None:
    """A node becomes a branch of an If."""
    node = opened.node()
    branch = onnx.GraphProto(name="branch")
    branch.node.append(_copy(node))
    for name in node.output:
        branch.output.add(name=name)
    node.op_type, node.domain = "If", ""
    del node.attribute[:], node.input[:]
    node.input.append(opened.name())
    for key in ("then_branch", "else_branch"):
        node.attribute.add(name=key, type=onnx.AttributeProto.GRAPH).g.CopyFrom(branch)


MUTATIONS: tuple[Callable[[Opened], None], ...] = (
    _reads, _writes, _fewer, _operator, _domain, _order, _gone, _attribute, _attribute, _size, _size, _rank, _type,
    _unsaid, _constant, _constant, _constant, _input, _output, _import, _header, _quantized, _nested, _node_twice,
    _more, _more, _port_gone, _kind, _graph, _function,
)  # fmt: skip


def mutant(source: bytes, number: int) -> tuple[bytes, tuple[str, ...]]:
    """A mutant of a model and the names of the mutations: of its bytes for every eighth, else of its fields."""
    opened = Opened(source, number)
    if number % 8 == 0:
        data = bytearray(source)
        if number % 16 == 0:
            return bytes(data[: int(opened.random.integers(len(data)))]), ("truncated",)
        for _ in range(int(opened.random.integers(1, 9))):
            data[int(opened.random.integers(min(len(data), 2000) if number % 3 else len(data)))] ^= 1 << int(
                opened.random.integers(8)
            )
        return bytes(data), ("flipped",)
    done = []
    for _ in range(int(opened.random.integers(1, MOST + 1))):
        mutation = opened.one(MUTATIONS)
        with suppress(ValueError, IndexError, TypeError):  # there is nothing that it could change
            mutation(opened)
            done.append(mutation.__name__.strip("_"))
    return opened.model.SerializeToString(deterministic=True), tuple(done)


# -- where mutants come from ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mutant:
    """The bytes of a mutant, the name of what it was made of, and what was changed."""

    number: int
    source: bytes
    name: str
    changed: str


def of_models(models: Mapping[str, bytes], numbers: Sequence[int]) -> Iterator[Mutant]:
    """Mutants of models by name."""
    names = sorted(models)
    for number in numbers:
        name = names[number % len(names)]
        source, changed = mutant(models[name], number)
        yield Mutant(number, source, name, "+".join(changed))


def of_schemas(numbers: Sequence[int], only: str = "", every: int = 1, phase: int = 0) -> Iterator[Mutant]:
    """Models of one operator each, of every schema whose name contains a text; the numbers have to ascend. ``phase`` is
    where the first of ``every`` lies, so that as many runs as that are of all models.
    """
    chosen = [each for each in onnx_schemas.schemas() if only in each.name]
    every_case = (case for each in chosen for case in onnx_schemas.cases(each))
    wanted, first = iter(numbers), numbers.start if isinstance(numbers, range) else numbers[0]
    for number, case in zip(wanted, islice(every_case, first * every + phase, None, every), strict=False):
        yield Mutant(number, case.model().SerializeToString(deterministic=True), case.name, "schema")


# -- what becomes of them ------------------------------------------------------------------------------------------


@dataclass
class Verdict:
    """What became of a mutant: a word, the details, and what it was converted to."""

    word: str
    detail: str = ""
    made: bytes = b""


def converted(source: bytes, to: Literal["onnx", "tflite"] = "onnx") -> Verdict:
    """The conversion of a mutant in this process."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    try:
        found = Verdict("converted", made=layoutsolve.convert(source, to=to).content(""))
    except InternalError as error:
        short = isinstance(error.__cause__, MemoryError)
        found = Verdict("memory" if short else "internal", traced(error.__cause__ or error))
    except ConversionError as error:
        found = Verdict("refused", traced(error)[:300])
    except MemoryError as error:
        found = Verdict("memory", traced(error))
    except Exception as error:  # what is looked for
        found = Verdict("internal", traced(error))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) - before
    if grown > MEMORY + MEMORY_PER_BYTE * len(source):
        return Verdict("memory", f"{grown >> 20} MB more for {len(source)} bytes")
    return found


def compared(source: bytes, made: bytes) -> Verdict:
    """The results of a mutant, and of what it was converted to, in this process."""
    given = ran(source)
    if isinstance(given, Verdict):
        return given
    try:
        found = session(made, "none")
        off = max(distance(found.run(None, dict(each.feeds)), list(each.results)) for each in given)
    except Exception as error:  # as above
        return Verdict("unusable", traced(error))
    halves = any(getattr(each, "dtype", None) in HALVES for sample in given for each in sample.results)
    return Verdict("differs", f"{off:.1e}") if off > (WRONG_IN_HALVES if halves else WRONG) else Verdict("right")


def compared_in_litert(source: bytes, made: bytes) -> Verdict:
    """The results of a mutant, and in LiteRT's reference kernels of what was written of it, in this process."""
    try:
        described(made)
    except Exception as error:  # LiteRT has no class of its own
        return Verdict("unusable", traced(error))
    given = ran(source)
    if isinstance(given, Verdict):
        return given
    names, off = port_names(parse(made), inputs=True), 0.0
    for each in given:
        try:
            found = described(made, [np.asarray(each.feeds[name]) for name in names])
        except Exception as error:  # as above
            return Verdict("unusable", traced(error))
        off = max(off, distance(found.results[: len(each.results)], list(each.results)))
    steps = any(tensor.quant is not None for graph in parse(made).subgraphs for tensor in graph.tensors)
    return Verdict("differs", f"{off:.1e}") if off > (WRONG_IN_STEPS if steps else WRONG) else Verdict("right")


def ran(source: bytes) -> list[Sample] | Verdict:
    """Inputs and results of a mutant itself, in this process, or why there are none."""
    try:
        given = samples(source, {}, TRIES)
        again = session(source, "none")
        steady = all(distance(again.run(None, dict(each.feeds)), list(each.results)) == 0 for each in given)
    except Exception:  # ONNX Runtime has a class of exception for each status
        return Verdict("converted, not run by ONNX Runtime")
    return given if steady else Verdict("converted, gives something else each time")


def survives(each: Mutant) -> Verdict:
    """Whether a mutant itself ends no process."""
    ran(each.source)
    return Verdict("survives")


def steps(mutants: Sequence[Mutant], work: Callable[[Mutant], Verdict], seconds: float) -> dict[int, Verdict]:
    """What some work gives for each mutant, in processes that go on behind one that ends them."""
    found: dict[int, Verdict] = {}
    place = mmap.mmap(-1, 8)
    left = list(mutants)
    while left:
        source, target = os.pipe()
        place[:8] = (0).to_bytes(8, "little")
        pid = os.fork()
        if pid == 0:
            os.close(source)
            _serve(left, work, seconds, place, target)
        os.close(target)
        with os.fdopen(source, "rb") as pipe, suppress(EOFError):
            while True:
                number, verdict = pickle.load(pipe)
                found[number] = verdict
        _, status = os.waitpid(pid, 0)
        if status == 0:
            return found
        current = left[int.from_bytes(place[:8], "little")]
        slow = status & 127 in (signal.SIGPROF, signal.SIGALRM)
        name = signal.Signals(status & 127).name if status & 127 else f"exit {status >> 8}"
        found[current.number] = Verdict("slow" if slow else "died", name)
        left = left[left.index(current) + 1 :]
    return found


def _serve(left: Sequence[Mutant], work: Callable[[Mutant], Verdict], seconds: float, place: Any, target: int) -> None:
    """Work on mutants one after the other, in a process that ends here."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silence, stream)
    with os.fdopen(target, "wb") as pipe:
        for index, each in enumerate(left):
            place[:8] = index.to_bytes(8, "little")
            signal.setitimer(signal.ITIMER_PROF, seconds)
            signal.alarm(int(seconds * 6))
            verdict = work(each)
            signal.setitimer(signal.ITIMER_PROF, 0)
            pipe.write(pickle.dumps((each.number, verdict)))
            pipe.flush()
    os._exit(0)


def examined(mutants: Sequence[Mutant], to: Literal["onnx", "tflite"] = "onnx") -> dict[int, Verdict]:
    """What becomes of mutants, by their numbers."""
    found = steps(mutants, lambda each: converted(each.source, to), SECONDS)
    beside = compared if to == "onnx" else compared_in_litert
    made = {number: verdict.made for number, verdict in found.items() if verdict.word == "converted"}
    compare = [each for each in mutants if each.number in made and not _is_random(each.source)]
    results = steps(compare, lambda each: beside(each.source, made[each.number]), RUN_SECONDS)
    for number, verdict in results.items():
        dead = verdict.word in ("died", "slow")
        found[number] = Verdict(f"converted, ONNX Runtime {verdict.word}") if dead else verdict
    died = [each for each in compare if results[each.number].word == "died"]
    for number, verdict in steps(died, survives, RUN_SECONDS).items():
        if verdict.word == "survives":
            found[number] = Verdict("unusable", "ONNX Runtime dies of what was written, not of the mutant")
    return found


def _is_random(source: bytes) -> bool:
    graph = onnx.ModelProto.FromString(source).graph
    nodes = [node for each in (graph, *_within(graph)) for node in each.node]
    return not RANDOM.isdisjoint(node.op_type for node in nodes)


def main(given: Sequence[str] | None = None) -> int:
    """The command line; returns 1 where there are failures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="a folder with .onnx files")
    parser.add_argument("--tests", action="store_true", help="mutants of ONNX's own tests of its operators")
    parser.add_argument("--schemas", action="store_true", help="models of the schemas of all operators")
    parser.add_argument("--only", default="", metavar="TEXT", help="only models or operators whose name contains TEXT")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every N-th of the schemas' models")
    parser.add_argument("--phase", type=int, default=0, metavar="K", help="which of these N (default: 0)")
    parser.add_argument("--mutants", type=int, default=1000, metavar="N", help="how many (default: 1000)")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the number of the first one (default: 0)")
    parser.add_argument("--seconds", type=float, default=1e9, metavar="S", help="begin no more after so long")
    parser.add_argument("--largest", type=int, default=300_000, metavar="BYTES", help="leave larger models out")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write the mutants that fail to FOLDER")
    parser.add_argument("--to", choices=("onnx", "tflite"), default="onnx", help="what is written (default: onnx)")
    options = parser.parse_args(given)
    numbers = range(options.first, options.first + options.mutants)
    if options.schemas:
        mutants = of_schemas(numbers, options.only, options.every, options.phase)
    else:
        models = _models(options.folder, options.only, options.largest)
        if options.tests:
            models |= {each.name: each.model.SerializeToString() for each in onnx_nodes.tests(options.only, 1)}
        if not models:
            parser.error("there are no models: name a folder with .onnx files, or --tests or --schemas")
        mutants = of_models(models, numbers)
    verdicts, start, last = Counter[str](), time.monotonic(), options.first
    while time.monotonic() - start < options.seconds and (batch := list(islice(mutants, BATCH))):
        for number, verdict in sorted(examined(batch, options.to).items()):
            verdicts[verdict.word] += 1
            if verdict.word in FAILURES:
                _tell(batch[number - batch[0].number], verdict, options.keep)
        last = batch[-1].number + 1
    passed = time.monotonic() - start
    print(f"{verdicts.total()} mutants up to number {last} in {passed:.0f} s: {dict(verdicts.most_common())}")
    return int(any(verdicts[each] for each in FAILURES))


def _models(folder: Path | None, only: str, largest: int) -> dict[str, bytes]:
    paths = sorted(folder.rglob("*.onnx")) if folder is not None else []
    return {str(path): path.read_bytes() for path in paths if only in str(path) and path.stat().st_size <= largest}


def _tell(each: Mutant, verdict: Verdict, keep: Path | None) -> None:
    print(f"{verdict.word}: mutant {each.number} of {each.name} ({each.changed}): {verdict.detail}", flush=True)
    if keep:
        keep.mkdir(parents=True, exist_ok=True)
        (keep / f"{verdict.word}-{each.number}.onnx").write_bytes(each.source)


if __name__ == "__main__":
    sys.exit(main())
