"""What two models have of operators, data movement and bytes, and where their inputs and outputs differ."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from layoutsolve.base.processes import process
from layoutsolve.base.wording import aligned, one_line, printable
from layoutsolve.errors import VerifyError
from layoutsolve.frontend import Model, parse
from layoutsolve.frontend.onnx.listing import described
from layoutsolve.frontend.onnx.reading import Source as OnnxSource
from layoutsolve.frontend.tflite.reading.model import VIEWS
from layoutsolve.io.source import Content, load, on_disk
from layoutsolve.measurement.executed_operators import executed
from layoutsolve.proto.messages import DOMAINS
from layoutsolve.proto.scopes import nodes_of
from layoutsolve.verification.refusals import require
from layoutsolve.verification.runtimes import optimised

MOVING = ("Transpose", "TRANSPOSE")
"""The operator that moves data, as both formats call it."""


@dataclass(frozen=True)
class Facts:
    """Figures of a model file.

    They are its format; its operators by name, subgraphs included, and those that move or reshape data while the model
    runs; its size in bytes, external data included; inputs and outputs by name, as text such as
    ``float32[1,3,224,224]``. ``executed`` are the Transposes that ONNX Runtime runs, ``refused`` is why that is not
    known.
    """

    file: str
    format: str
    operators: Mapping[str, int]
    transposes: int
    reshapes: int
    bytes: int
    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    executed: int | None = None
    refused: str = ""


@dataclass(frozen=True)
class Difference:
    """The facts of two models, from the ``first`` to the ``second``."""

    first: Facts
    second: Facts

    def as_json(self) -> str:
        """The facts of both, and the operators of which one has more."""
        changed = {name: list(counts) for name, *counts in self._operators()}
        return json.dumps({"first": asdict(self.first), "second": asdict(self.second), "operators": changed})

    def as_text(self) -> str:
        """A line for each figure, then what differs."""
        return "\n".join(map(printable, self._lines()))

    def _lines(self) -> Iterator[str]:
        one, other = self.first, self.second
        yield f"{one.file} ({one.format}) -> {other.file} ({other.format})"
        figures = [
            ("Transposes", one.transposes, other.transposes),
            ("Transposes once optimized", _shown(one.executed), _shown(other.executed)),
            ("Reshapes", one.reshapes, other.reshapes),
            ("operators", sum(one.operators.values()), sum(other.operators.values())),
            ("bytes", f"{one.bytes:,}", f"{other.bytes:,}"),
        ]
        rows = [(name, str(left), "->", str(right)) for name, left, right in figures]
        rows += [(name, str(left), "->", str(right)) for name, left, right in self._operators()]
        yield from (f"  {line}" for line in aligned(rows, (1, 3)))
        if any(
            each.operators.get(name, each.transposes) != each.transposes for each in (one, other) for name in MOVING
        ):
            yield "  Transposes are counted without those of constants, which move nothing while the model runs"
        for facts in (each for each in (one, other) if each.refused):
            yield f"  executed Transposes of {facts.file} are not known: {facts.refused}"
        for what, left, right in (("input", one.inputs, other.inputs), ("output", one.outputs, other.outputs)):
            for name in dict.fromkeys([*left, *right]):
                if left.get(name) != right.get(name):
                    yield f"  {what} '{name}': {left.get(name, 'absent')} -> {right.get(name, 'absent')}"

    def _operators(self) -> Iterator[tuple[str, int, int]]:
        """The operators of which one has more, those that differ most first; none for files of two formats."""
        one, other = self.first, self.second
        if one.format.partition(",")[0] != other.format.partition(",")[0]:
            return
        names = {**one.operators, **other.operators}
        counts = [(name, one.operators.get(name, 0), other.operators.get(name, 0)) for name in names]
        changed = [each for each in counts if each[1] != each[2]]
        yield from sorted(changed, key=lambda each: (-abs(each[1] - each[2]), each[0]))


def _shown(count: int | None) -> str:
    return "not known" if count is None else str(count)


def difference(first: str, second: str) -> Difference:
    """Compare two files, each an ONNX or a TensorFlow Lite model. Raises :class:`ModelError` where one is neither."""
    return Difference(facts_of(first), facts_of(second))


def facts_of(file: str) -> Facts:
    """The figures of a file. Raises :class:`ModelError` where it is no model."""
    content = load(file)
    model = parse(content.data, content.folder, content.called)
    return _of_tflite(file, content, model) if isinstance(model, Model) else _of_onnx(file, content, model)


def _of_tflite(file: str, content: Content, model: Model) -> Facts:
    operators = [(each, graph) for graph in model.subgraphs for each in graph.operators]
    running = [
        each.name
        for each, graph in operators
        if any(number >= 0 and graph.tensors[number].data is None for number in each.inputs)
    ]
    main = model.subgraphs[0]
    inputs, outputs = (
        {each.name: f"{each.dtype}[{','.join(map(str, each.shape))}]" for each in map(main.tensors.__getitem__, ports)}
        for ports in (main.inputs, main.outputs)
    )
    return Facts(
        file,
        "TensorFlow Lite",
        dict(Counter(each.name for each, _ in operators)),
        running.count("TRANSPOSE"),
        sum(map(running.count, VIEWS)),
        len(content.data),
        inputs,
        outputs,
    )


def _of_onnx(file: str, content: Content, source: OnnxSource) -> Facts:
    model = source.original
    nodes = [node for graph in (model.graph, *model.functions) for node in nodes_of(graph)]
    names = Counter(f"{node.domain}:{node.op_type}" if node.domain not in DOMAINS else node.op_type for node in nodes)
    constants = {each.name for each in model.graph.initializer}
    opset = next((each.version for each in model.opset_import if each.domain in DOMAINS), 0)
    inputs, outputs = (
        {each.name: f"{each.dtype}{each.shape}" for each in (described(port.name, port.type) for port in ports)}
        for ports in (model.graph.input, model.graph.output)
    )
    with on_disk(content) as path:
        count, refused = _executed(str(path))
    return Facts(
        file,
        f"ONNX, opset {opset}",
        dict(names),
        source.figures.transposes,
        source.figures.reshapes,
        source.figures.bytes,
        {name: text for name, text in inputs.items() if name not in constants},
        outputs,
        count,
        refused,
    )


def _executed(file: str) -> tuple[int | None, str]:
    """The Transposes that ONNX Runtime runs of a file, None where that is not known, and why. It is asked in a process
    of its own, which a file that nobody has checked may end.
    """
    try:
        require("onnxruntime")
    except VerifyError as error:
        return None, str(error)
    own, pipe = "layoutsolve.measurement.difference", subprocess.PIPE
    with process(own, file, apart=[Path(file).parent], stdout=pipe, stderr=pipe, text=True) as child:
        printed, errors = child.communicate()
    if child.returncode == 0:
        return int(printed), ""
    last = errors.strip().splitlines()[-1:] or [f"it ended with status {child.returncode}"]
    return None, f"ONNX Runtime refuses the model: {one_line(last[0])}"


def main() -> None:
    """Entry point of the process that loads a model."""
    print(executed(optimised(Path(sys.argv[1]))).transposes)
