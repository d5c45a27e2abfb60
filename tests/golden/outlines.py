"""What networks of all families become, a line for each: the operators of the written file, and the bytes of its
constants. ``python -m tests.golden`` writes ``outlines/*.txt`` anew. The difference is for a person to read: it says
for which networks a change of a pass, a rule or a lowering is one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import onnx

import layoutsolve
from experiments.make import exporter_networks, plain_networks
from layoutsolve.errors import ConversionError
from layoutsolve.frontend import is_tflite
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.proto.scopes import nodes_of
from tests import dynamic_networks, random_models, random_onnx, random_quirks

Source = bytes | onnx.ModelProto
Family = Iterator[tuple[str, Source]]

FOLDER = Path(__file__).parent / "outlines"

IN_TFLITE: tuple[Mapping[str, Any], ...] = (
    {}, {"to": "tflite"}, {"quant": "qoperator"}, {"quant": "float"}, {"quant": "symmetric"}, {"quant": "exact"},
    {"target": "portable"}, {"objective": "min-transpose"}, {"objective": "min-latency"},
)  # fmt: skip
IN_ONNX: tuple[Mapping[str, Any], ...] = (
    {}, {"to": "tflite"}, {"target": "portable"}, {"objective": "min-transpose"}, {"contrib": True},
)  # fmt: skip
"""Options, which networks take in turn."""


def random() -> Family:
    """Random networks in TensorFlow Lite."""
    for seed in range(54):
        yield f"{seed}", random_models.network(seed).source


def dynamic() -> Family:
    """Networks of open sizes."""
    for seed in range(9):
        yield f"image {seed}", dynamic_networks.image_network(seed)[0]
        yield f"sequence {seed}", dynamic_networks.sequence_network(seed)[0]


def plain() -> Family:
    """Networks of convolutions and dense layers, the same in both formats."""
    for seed in range(9):
        yield f"tflite {seed}", plain_networks.as_tflite(seed)
        yield f"onnx {seed}", plain_networks.as_onnx(seed)


def exported() -> Family:
    """What exporters write of networks."""
    for family in exporter_networks.FAMILIES:
        for seed in range(1):
            yield f"{family.__name__} {seed}", exporter_networks.network(family, seed)


def quirks() -> Family:
    """Random networks in ONNX, of floats, of bytes, and with what exporters seldom write."""
    for seed in range(9):
        yield f"floats {seed}", random_onnx.random_model(seed, dynamic=seed % 3 == 2)[1]
        yield f"bytes {seed}", random_quirks.random_stored(seed)[1]
        yield f"quirks {seed}", random_quirks.quirky(random_onnx.random_model(seed)[1], seed)


FAMILIES: Mapping[str, Callable[[], Family]] = {
    each.__name__: each for each in (random, dynamic, plain, exported, quirks)
}


def outlines(family: str) -> Iterator[str]:
    """The lines of a family."""
    for number, (name, source) in enumerate(FAMILIES[family]()):
        ways = IN_TFLITE if isinstance(source, bytes) and is_tflite(source) else IN_ONNX
        way = ways[number % len(ways)]
        told = " ".join(map(str, way.values()))
        yield f"{name} {told}: {outline(source, way)}"


def outline(source: Source, way: Mapping[str, Any]) -> str:
    """The operators of what is written, and the bytes of its constants, or why it is refused."""
    try:
        made = layoutsolve.convert(source, **way)
    except ConversionError as error:
        return f"{error}".replace("\n", " / ")
    if made.to == "tflite":
        model = parse(made.content(""))
        operators = Counter(each.name for subgraph in model.subgraphs for each in subgraph.operators)
        held = [each.data.nbytes for part in model.subgraphs for each in part.tensors if each.data is not None]
    else:
        operators = Counter(node.op_type for node in nodes_of(made.model.graph))
        held = [onnx.numpy_helper.to_array(each).nbytes for each in made.model.graph.initializer]
    counts = ", ".join(f"{name} {count}" for name, count in sorted(operators.items()))
    return f"{counts}; {sum(held)} bytes in {len(held)}"
