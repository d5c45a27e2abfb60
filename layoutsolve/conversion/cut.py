"""A part of a model: from some of its tensors on, up to others, as a model of the same format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any

from layoutsolve.base.wording import brief, listed, nearest
from layoutsolve.conversion.provenance import KEYS
from layoutsolve.errors import OptionError
from layoutsolve.frontend import Model, parse
from layoutsolve.frontend.onnx.listing import inferred
from layoutsolve.frontend.onnx.reading import Source as OnnxSource
from layoutsolve.frontend.tflite.lowering.draft import tensor_names
from layoutsolve.io.source import Content, Cut, Source, load
from layoutsolve.ir.names import Names
from layoutsolve.proto.messages import GraphProto, ModelProto, NodeProto, ValueInfoProto
from layoutsolve.proto.scopes import captures
from layoutsolve.verification.flatbuffer_repacking import opened, packed
from layoutsolve.verification.refusals import require


def cut(source: Source, *, start: Sequence[str] = (), end: Sequence[str] = ()) -> bytes:
    """The part of a model from some tensors on, up to others: a model of the same format.

    Names, types, shapes and quantization stay as they are. What the part needs beside ``start`` stays an input;
    operators that no output needs are left out.

    :param source: a path, the bytes of a model, or a model in memory, TensorFlow Lite or ONNX. Of several subgraphs the
        main one is cut.
    :param start: the names of the tensors that become inputs, or the one, by default the model's inputs. Of several in
        a row, as TensorFlow Lite joins them by semicolons, the first is enough where it is no other's.
    :param end: the names of the tensors that become outputs, or the one, by default the model's outputs.
    :raises OptionError: for names that the model has not, and tensors that do not depend on each other.
    :raises ModelError: for a file that is no model.
    :raises VerifyError: for a TensorFlow Lite model where LiteRT, which writes it, is not installed.
    """
    first, last = ([each] if isinstance(each, str) else each for each in (start, end))
    return bytes(cut_content(load(source), first, last).data)


def cut_content(content: Content, start: Sequence[str], end: Sequence[str]) -> Content:
    """The same for a file that was read: what is cut has its name and its folder."""
    model = parse(content.data, content.folder, content.called)
    known = _tensors(model)
    start, end = _named(start, known, "--from"), _named(end, known, "--to")
    made = _of_tflite(content, model, start, end) if isinstance(model, Model) else _of_onnx(model, start, end)
    data, others = made
    if not start and not end:
        return content
    cut = Cut(tuple(start), tuple(end), content.whole, tuple(others) if start else ())
    return replace(content, data=memoryview(data), own=None, cut=cut)


class _Needed:
    """The operators that some results depend on, of those in topological order, each by what it ``reads`` and
    ``gives``, where the tensors at the start are known.
    """

    def __init__(
        self, reads: Sequence[Collection[str]], gives: Sequence[Collection[str]], start: Collection[str]
    ) -> None:
        self.reads, self.gives, self.start = reads, gives, {*start}

    @cached_property
    def behind(self) -> set[str]:
        """The tensors that depend on those at the start, themselves included."""
        found = {*self.start}
        for read, given in zip(self.reads, self.gives, strict=True):
            if not found.isdisjoint(read):
                found.update(given)
        return found

    def of(self, end: Iterable[str]) -> tuple[list[int], set[str]]:
        """The numbers of the operators, and all tensors that these read or that are at the end."""
        wanted, numbers = {*end}, list[int]()
        for number in reversed(range(len(self.reads))):
            if not wanted.isdisjoint({*self.gives[number]} - self.start):
                numbers.append(number)
                wanted.update(self.reads[number])
        return numbers[::-1], wanted


def _tensors(model: Model | OnnxSource) -> Collection[str]:
    """The tensors at which a model may be cut: all that are computed or given."""
    if isinstance(model, Model):
        return _numbers(model)
    graph = model.original.graph
    constants = {each.name for each in graph.initializer} | {each.values.name for each in graph.sparse_initializer}
    given = (port.name for port in graph.input if port.name not in constants)
    return dict.fromkeys([*given, *(name for node in graph.node for name in node.output if name)])


def _numbers(model: Model) -> dict[str, int]:
    """The numbers of the tensors of the main subgraph that are no constants, by all names that messages have."""
    tensors, found = model.subgraphs[0].tensors, dict[str, int]()
    for called in ([tensor.name for tensor in tensors], tensor_names(model)):
        for number, name in enumerate(called):
            if tensors[number].data is None:
                found.setdefault(name, number)
    return found


def _named(names: Sequence[str], known: Collection[str], option: str) -> list[str]:
    """The whole names of tensors, which may be cut off at the first semicolon as messages do it.

    Raises :class:`OptionError` for a name that is given twice, or that the model has not.
    """
    found = list[str]()
    for given in names:
        begun = given.partition(";")[0]
        longer = [each for each in known if each.partition(";")[0] == begun] if given not in known else [given]
        if len(longer) != 1 or given not in (longer[0], begun, f"{begun};..."):
            raise OptionError(
                f"{option} {brief(given)}: the model has no such tensor{_hint(given, known, longer, option)}"
            )
        if longer[0] in found:
            raise OptionError(f"{option} {brief(given)}: it is given twice")
        found += longer
    return found


def _hint(given: str, known: Collection[str], longer: Sequence[str], option: str) -> str:
    """What may have been meant by a name that is none."""
    if {*given.split(",")} <= {*known}:
        return f"; give {option} once for each of several"
    if longer:
        return f": give the whole name, one of {listed(longer)}"
    if option == "--to" and given in ("tflite", "onnx"):
        return f"; the format is that of the output's name: -o model.{given}"
    if near := nearest(given, known):
        return near
    if within := [each for each in known if given and given in each]:
        return f": it is a part of {listed(within)}"
    return "; --print graph lists them (with --custom passthrough, if need be)"


def _check_order(
    needed: _Needed,
    part: tuple[Collection[int], Collection[str]],
    given: Collection[str],
    start: Sequence[str],
    end: Sequence[str],
) -> None:
    """Raise :class:`OptionError` where a start leads to no end, an end comes before every start, or is ``given``: an
    input of the model, or where nothing is left behind a start.
    """
    numbers, wanted = part
    for name in end:
        if name in given:
            raise OptionError(
                f"--to {brief(name)}: it is an input of the model: nothing computes it; name one behind it"
            )
    for name in start:
        if name in end:
            raise OptionError(f"--from and --to {brief(name)}: nothing is left between a tensor and itself")
        if name not in wanted:
            raise OptionError(
                f"--from {brief(name)}: no output depends on it: name a tensor before them, or other outputs"
            )
    if start and not numbers:
        raise OptionError(f"--from {brief(start[0])}: nothing is computed from it: name a tensor before it")
    for name in end if start else ():
        if name not in needed.behind:
            raise OptionError(f"--to {brief(name)}: it depends on no tensor of --from: name one behind them")


def _of_onnx(source: OnnxSource, start: Sequence[str], end: Sequence[str]) -> tuple[bytes, list[str]]:
    """The part, and its inputs beside those at the start."""
    model, graph = ModelProto(), source.original.graph
    model.CopyFrom(source.original)
    ports = _ports(source)
    constants = {each.name for each in graph.initializer} | {each.values.name for each in graph.sparse_initializer}
    computed = [name for node in graph.node for name in node.output if name]
    given = [port.name for port in graph.input if port.name not in constants]
    needed = _Needed(
        [_read(node) for node in graph.node], [list(filter(None, node.output)) for node in graph.node], start
    )
    outputs = list(end) or [port.name for port in graph.output]
    numbers, wanted = needed.of(outputs)
    _check_order(needed, (numbers, wanted), given, start, end)
    made = model.graph
    del made.node[:], made.input[:], made.output[:], made.initializer[:], made.sparse_initializer[:], made.value_info[:]
    made.node.extend(graph.node[number] for number in numbers)
    names = Names({*computed, *given, *constants})
    for node in made.node:  # one of several outputs may be a start, and is computed all the same
        node.output[:] = [names.unique(name) if name in start else name for name in node.output]
    made.input.extend(_port(ports, name, "--from") for name in start if name not in given)
    made.input.extend(port for port in graph.input if port.name in wanted)
    made.initializer.extend(each for each in graph.initializer if each.name in wanted)
    made.sparse_initializer.extend(each for each in graph.sparse_initializer if each.values.name in wanted)
    made.output.extend(_port(ports, name, "--to") for name in outputs)
    told = [(each.key, each.value) for each in model.metadata_props if each.key not in KEYS]  # which tell of the whole
    del model.metadata_props[:]
    for key, value in told:
        model.metadata_props.add(key=key, value=value)
    inner = {name for number in numbers for name in graph.node[number].output} - {*outputs, *start}
    made.value_info.extend(each for each in graph.value_info if each.name in inner)
    others = [port.name for port in made.input if port.name not in {*start, *constants}]
    return bytes(model.SerializeToString()), others


def _read(node: NodeProto) -> list[str]:
    return [name for name in (*node.input, *captures(node)) if name]


def _ports(source: OnnxSource) -> Mapping[str, ValueInfoProto]:
    """What is known of the tensors of a model, as the file says it or as ONNX infers it."""
    graphs: tuple[GraphProto, ...] = (inferred(source.proto).graph, source.original.graph)
    return {each.name: each for graph in graphs for each in (*graph.value_info, *graph.input, *graph.output)}


def _port(ports: Mapping[str, ValueInfoProto], name: str, option: str) -> ValueInfoProto:
    port = ports.get(name)
    if port is None or not port.type.WhichOneof("value"):
        raise OptionError(f"{option} {brief(name)}: its type is not known: name a tensor beside it")
    return port


def _of_tflite(content: Content, parsed: Model, start: Sequence[str], end: Sequence[str]) -> tuple[bytes, list[str]]:
    """The part, and its inputs beside those at the start."""
    require("ai_edge_litert")
    data, main = bytes(content.data), parsed.subgraphs[0]
    numbers = _numbers(parsed)
    asked = {numbers[name]: name for name in (*start, *end)}
    first = {number: name for name, number in reversed(numbers.items())} | asked  # a name that is asked for stays
    names = [first.get(number, f"#{number}") for number in range(len(main.tensors))]
    reads = [[names[each] for each in operator.inputs if each >= 0] for operator in main.operators]
    gives = [[names[each] for each in operator.outputs if each >= 0] for operator in main.operators]
    needed, outputs = _Needed(reads, gives, start), list(end) or [names[each] for each in main.outputs]
    kept, wanted = needed.of(outputs)
    _check_order(needed, (kept, wanted), {names[each] for each in main.inputs}, start, end)
    model = opened(data)
    graph: Any = model.subgraphs[0]
    rest = [each for each in main.inputs if names[each] in wanted and names[each] not in start]
    graph.operators = [graph.operators[number] for number in kept]
    for operator in graph.operators:  # one of several outputs may be a start, and is computed all the same
        again = [each for each in operator.outputs if each >= 0 and names[each] in start]
        places = {each: len(graph.tensors) + number for number, each in enumerate(again)}
        graph.tensors += (copy(graph.tensors[each]) for each in again)
        operator.outputs = [places.get(each, each) for each in operator.outputs]
    graph.inputs = [*(numbers[name] for name in start), *rest]
    graph.outputs = [names.index(name) for name in outputs]
    _drop_unused(model, _told(parsed))
    model.signatureDefs = None  # these and the metadata name inputs and outputs that may be gone
    model.metadata = [each for each in model.metadata or () if each.name != b"TFLITE_METADATA"]
    return packed(model, data), [names[each] for each in rest]


def _told(model: Model) -> dict[int, str]:
    """By their numbers the tensors of the main subgraph that have no name of their own, and what messages call them."""
    names = [tensor.name for tensor in model.subgraphs[0].tensors]
    shared = {name for name, count in Counter(names).items() if count > 1 or not name}
    return {number: name for number, name in enumerate(tensor_names(model)) if names[number] in shared}


def _drop_unused(model: Any, told: Mapping[int, str]) -> None:
    """Drop tensors of the main subgraph that no operator of it has left, and data that nothing uses. Names that follow
    from numbers, or from those of other tensors, are ``told``.
    """
    graph = model.subgraphs[0]
    owners = [*graph.operators, graph]
    sides = [(each, side) for each in owners for side in ("inputs", "outputs", "intermediates") if hasattr(each, side)]
    used = sorted({int(index) for each, side in sides for index in _indices(each, side) if index >= 0})
    places = {index: number for number, index in enumerate(used)}
    for each, side in sides:
        setattr(each, side, [places.get(int(index), -1) for index in _indices(each, side)])
    for index in filter(told.__contains__, used):
        graph.tensors[index].name = told[index]
    graph.tensors = [graph.tensors[index] for index in used]
    held = {tensor.buffer for subgraph in model.subgraphs for tensor in subgraph.tensors or ()}
    held.update(entry.buffer for entry in model.metadata or ())
    for number, buffer in enumerate(model.buffers or ()):
        if number not in held:
            buffer.data, buffer.offset, buffer.size = None, 0, 0


def _indices(owner: Any, side: str) -> Sequence[int]:
    found = getattr(owner, side)
    return () if found is None else found
