"""What ``--quant qoperator`` is worth: how long quantized models take to load and to run, by those written as ``qdq``.

Of each model and way, at two levels of ONNX Runtime's optimiser, the time to load it and the time of a run, each by
that of ``qdq`` at the level all, on one thread, and the size of the file. All files run in turn, and only times of one
round are compared. Models of which nothing becomes a kernel on bytes are left out. With a target, by the file for that
one instead: what the default takes longer to load, as with int8 weights alone that it selects none of; and what of that
is left where both forms of all weights are stored, so that none is converted, and where those of one layer alone are
selected, which is the least that any file takes that selects.

    python -m experiments.measure.loading FOLDER [--only int8] [--target signed.json]
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import onnx
from onnx import numpy_helper

import layoutsolve
from experiments.corpus import CorpusModel, arguments, models, write_json
from experiments.measure.runtime import mean
from layoutsolve.errors import VerifyError
from layoutsolve.measurement.timing import FEWEST, Runner, Session, feeds_of, ratio, rounds_of, timed, warm
from layoutsolve.proto.weight_selection import NAME
from layoutsolve.verification.runtimes import Level, OnnxRuntime

WAYS: Mapping[str, Mapping[str, object]] = {
    "qdq": {},
    "qoperator": {"quant": "qoperator"},
    "qoperator, contrib": {"quant": "qoperator", "contrib": True},
}
"""The options of each way; the first is what the others are compared with."""

LEVELS: Sequence[Level] = ("all", "basic")

PLAIN, DEFAULT, STORED, ONE = "the target", "the default", "both forms stored", "one layer selected"
"""The ways by a target."""

LOADS = 10
"""How often each file is loaded."""

SHARE, SECONDS = 1.15, 0.005
"""What the default may take to load by another target's file, or longer than it, whichever is more."""


@dataclass(frozen=True)
class Found:
    """A model in one way at one level: times by those of the first at the first level, the size of the file, and the
    least milliseconds that it takes to load.
    """

    model: str
    way: str
    level: str
    load: float
    run: float
    size: float
    milliseconds: float


@dataclass(frozen=True)
class _Loading:
    """A file that is loaded again and again."""

    file: bytes
    level: Level

    def turn(self, repeats: int) -> float:
        start = time.process_time()
        for _ in range(repeats):
            OnnxRuntime(self.file, threads=1, level=self.level)
        return time.process_time() - start


def measure(
    model: CorpusModel, ways: Mapping[str, Mapping[str, object]] = WAYS, levels: Sequence[Level] = LEVELS
) -> list[Found]:
    """A model in all ways. Raises ConversionError where it cannot be converted, VerifyError where it does not run."""
    source = model.source
    files = {
        way: layoutsolve.convert(source, **given).model.SerializeToString(deterministic=True)  # type: ignore[arg-type]
        for way, given in ways.items()
    }
    if len(set(files.values())) < len(files):
        return []
    if DEFAULT in files:
        files |= parts_of(files[DEFAULT])
    places = [(way, level) for way in files for level in levels]
    loads = timed({place: Runner(_Loading(files[place[0]], place[1])) for place in places}, LOADS)
    sessions = {place: OnnxRuntime(files[place[0]], threads=1, level=place[1]) for place in places}
    feeds = feeds_of(sessions[places[0]])
    runners = {place: warm(Session(session, feeds, time.process_time)) for place, session in sessions.items()}
    runs = timed(runners, FEWEST if DEFAULT in files else rounds_of(list(runners.values())))
    first = places[0]
    return [
        Found(
            model.name,
            *place,
            round(ratio(loads[place], loads[first]), 4),
            round(ratio(runs[place], runs[first]), 4),
            round(len(files[place[0]]) / len(files[first[0]]), 4),
            round(1000 * min(loads[place]), 2),
        )
        for place in places
    ]


def parts_of(file: bytes) -> dict[str, bytes]:
    """A file that selects all weights at once with both forms of them stored, and with those of the first layer alone
    selected; nothing for other files.
    """
    model = onnx.ModelProto.FromString(file)
    selections = [node for node in model.graph.node if node.name == NAME and len(node.output) > 1]
    if len(selections) != 1:
        return {}
    return {STORED: _stored_twice(model), ONE: _of_one_layer(onnx.ModelProto.FromString(file))}


def _stored_twice(model: onnx.ModelProto) -> bytes:
    graph, held = model.graph, {each.name: each for each in model.graph.initializer}
    casts = {node.output[0]: node for node in graph.node if node.op_type == "Cast"}
    for node in [node for node in graph.node if node.op_type == "BitwiseXor" and node.input[0] in casts]:
        cast = casts[node.input[0]]
        weights = numpy_helper.to_array(held[cast.input[0]]).view("uint8") ^ 128
        graph.initializer.append(numpy_helper.from_array(weights, node.output[0]))
        graph.node.remove(cast)
        graph.node.remove(node)
    return model.SerializeToString()


def _of_one_layer(model: onnx.ModelProto) -> bytes:
    """The other layers have their int8 weights; what would convert them is left out."""
    graph = model.graph
    place, selection = next((place, node) for place, node in enumerate(graph.node) if node.name == NAME)
    signed, unsigned = sorted((each.g for each in selection.attribute), key=lambda branch: branch.name)
    others = {node.output[0]: node for node in signed.node[1:]}
    others = {name: others[port.name] for name, port in zip(selection.output[1:], signed.output[1:], strict=True)}
    kept = {name for node in unsigned.node[:1] for name in node.input}
    for name, node in others.items():
        node.output[0] = name
        graph.node.insert(place + 1, node)
    for branch in (signed, unsigned):
        del branch.node[1:], branch.output[1:]
    del selection.output[1:]
    for node in [node for node in graph.node if node.op_type == "BitwiseXor" and node.output[0] not in kept]:
        cast = next((each for each in graph.node if each.op_type == "Cast" and each.output[0] == node.input[0]), None)
        if cast is not None:
            graph.node.remove(cast)
            graph.node.remove(node)
    return model.SerializeToString()


def summary(found: Sequence[Found]) -> str:
    """The geometric means of all ways."""
    lines = ["| way | level | load | run | file |", "|---|---|--:|--:|--:|"]
    for way in WAYS:
        for level in LEVELS:
            rows = [each for each in found if (each.way, each.level) == (way, level)]
            values = (mean([getattr(each, name) for each in rows]) for name in ("load", "run", "size"))
            lines.append(f"| {way} | {level} | {' | '.join(f'{value:.2f}' for value in values)} |")
    return "\n".join(lines)


def late(found: Sequence[Found]) -> str:
    """How many models take longer to load in each way than they may by the first one, the milliseconds that all take
    more in the mean, and the models whose default does.
    """
    plain = {each.model: each.milliseconds for each in found if each.way == PLAIN}
    lines = []
    for way in dict.fromkeys(each.way for each in found if each.way != PLAIN):
        rows = [(each.model, plain[each.model], each.milliseconds) for each in found if each.way == way]
        missed = [each for each in rows if each[2] > max(SHARE * each[1], each[1] + 1000 * SECONDS)]
        more = sum(each[2] - each[1] for each in rows) / len(rows)
        lines.append(
            f"{way}: {len(missed)} of {len(rows)} take longer than they may, all {more:.1f} ms more in the mean"
        )
        if way == DEFAULT:
            lines += [
                f"* {name}: {one:.1f} ms, by default {two:.1f}, {two - one:.1f} more" for name, one, two in missed
            ]
    return "\n".join(lines)


def main() -> None:
    """Print a row for each model, way and level, and the means."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--target", metavar="NAME|FILE.json", help="compare the default with this one instead")
    options = parser.parse_args()
    ways = {PLAIN: {"target": options.target}, DEFAULT: {}} if options.target else WAYS
    levels = LEVELS[:1] if options.target else LEVELS
    found: list[Found] = []
    print("| model | way | level | load | run | file |\n|---|---|---|--:|--:|--:|")
    for model in models(options.folder, options.only):
        try:
            rows = measure(model, ways, levels)
        except (layoutsolve.ConversionError, VerifyError):
            continue
        found += rows
        for each in rows:
            line = f"| {each.model} | {each.way} | {each.level} | {each.load:.2f} | {each.run:.2f} | {each.size:.2f} |"
            print(line, flush=True)
    print(f"\n{len({each.model for each in found})} models\n{late(found) if options.target else summary(found)}")
    write_json(options.json, [asdict(each) for each in found])


if __name__ == "__main__":
    main()
