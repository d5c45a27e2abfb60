"""Mutants of the ONNX models in a folder: each has to become a right model, or one clear error.

A mutation changes bytes, or one thing that the format has a field for, in a graph or in one within it: what a node
reads or is, an attribute, a type, a size, a constant, an import. Where ONNX Runtime runs the mutant, what layoutsolve
makes of it has to run and to give the same; where it does not, the mutant is refused or converted. Mutants are
numbered: the same number, folder and version give the same mutant again (``--first N --mutants 1 --keep FOLDER`` writes
it down).

    python -m experiments.onnx_fuzz FOLDER [--mutants 1000] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx

import layoutsolve
from experiments.onnx_shared import FailedError, Sample, apart, distance, samples, session
from layoutsolve.scopes import graphs_of

SECONDS, MEMORY, MEMORY_PER_BYTE = 30.0, 1 << 30, 20
"""What a conversion may take: seconds, bytes beside those of the process, and so many for each byte of the model."""

NUMBERS = (0, 1, -1, 2, 3, 4, 7, 64, 255, 1 << 16, (1 << 31) - 1, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63))
NAMES = ("", "Transpose", "Reshape", "Identity", "Conv", "Add", "Nothing", "Shape", "Concat", "DequantizeLinear")
MOST = 3
"""How many mutations a mutant has at most."""

WRONG = 1e-4
"""A distance of results that rounding does not explain."""

FAILURES = ("crash", "died", "slow", "unusable", "differs")
"""What must not happen."""


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
    port = graph.input.add()
    port.CopyFrom(opened.one([*graph.input, *graph.output]))
    port.name = opened.name()


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


def _quantised(opened: Opened) -> None:
    graph = opened.graph
    said = graph.quantization_annotation.add(tensor_name=opened.name())
    said.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value=opened.name())


def _nested(opened: Opened) -> None:
    """A node becomes a branch of an If."""
    node = opened.node()
    branch = onnx.GraphProto(name="branch")
    branch.node.add().CopyFrom(node)
    for name in node.output:
        branch.output.add(name=name)
    node.op_type, node.domain = "If", ""
    del node.attribute[:], node.input[:]
    node.input.append(opened.name())
    for key in ("then_branch", "else_branch"):
        node.attribute.add(name=key, type=onnx.AttributeProto.GRAPH).g.CopyFrom(branch)


MUTATIONS: tuple[Callable[[Opened], None], ...] = (
    _reads, _writes, _fewer, _operator, _domain, _order, _gone, _attribute, _attribute, _size, _size, _rank, _type,
    _unsaid, _constant, _constant, _constant, _input, _output, _import, _header, _quantised, _nested,
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


def examined(source: bytes) -> tuple[str, str]:
    """What becomes of a mutant: a word, and the details."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "mutant.onnx"
        path.write_bytes(source)

        def converted() -> bytes:
            content: bytes = layoutsolve.convert(str(path)).model.SerializeToString()
            return content

        try:
            made = apart(converted, SECONDS, MEMORY + MEMORY_PER_BYTE * len(source))
        except FailedError as error:
            return error.kind, error.text
        try:
            given = apart(lambda: samples(path, {}), SECONDS)
        except FailedError as error:
            return "ONNX Runtime does not run it", error.text
    try:
        return apart(lambda: _compared(made, given), SECONDS)
    except FailedError as error:
        return "unusable", error.text


def _compared(made: bytes, given: Sequence[Sample]) -> tuple[str, str]:
    found = session(made, "none")
    off = max(distance(found.run(None, dict(sample.feeds)), list(sample.results)) for sample in given)
    return ("differs", f"{off:.1e}") if off > WRONG else ("right", "")


def main(given: Sequence[str] | None = None) -> int:
    """The command line; returns 1 where there are failures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a folder with .onnx files")
    parser.add_argument("--only", default="", metavar="TEXT", help="only models whose path contains TEXT")
    parser.add_argument("--mutants", type=int, default=1000, metavar="N", help="how many (default: 1000)")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the number of the first one (default: 0)")
    parser.add_argument("--largest", type=int, default=300_000, metavar="BYTES", help="leave larger models out")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write the mutants that fail to FOLDER")
    options = parser.parse_args(given)
    paths = sorted(path for path in options.folder.rglob("*.onnx") if options.only in str(path))
    paths = [path for path in paths if path.stat().st_size <= options.largest]
    if not paths:
        parser.error("there are no .onnx files in this folder")
    verdicts = Counter[str]()
    for number in range(options.first, options.first + options.mutants):
        path = paths[number % len(paths)]
        source, mutations = mutant(path.read_bytes(), number)
        verdict, detail = examined(source)
        verdicts[verdict] += 1
        if verdict in FAILURES:
            print(f"{verdict}: mutant {number} of {path.name} ({'+'.join(mutations)}): {detail}", flush=True)
            if options.keep:
                options.keep.mkdir(parents=True, exist_ok=True)
                (options.keep / f"{verdict}-{number}.onnx").write_bytes(source)
    print(f"{verdicts.total()} mutants of {len(paths)} models: {dict(verdicts.most_common())}")
    return int(any(verdicts[each] for each in FAILURES))


if __name__ == "__main__":
    sys.exit(main())
