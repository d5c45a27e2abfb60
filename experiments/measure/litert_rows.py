"""Layout penalties of the target ``litert``: joining and cutting tensors where few elements of a part lie in a row, and
Transposes that move single elements, in LiteRT with XNNPACK, in Transposes of as many elements.

    python -m experiments.measure.litert_rows
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import onnx
from onnx import helper

import layoutsolve
from layoutsolve.measurement.bench import RUNTIMES, held
from layoutsolve.measurement.timing import rounds_of, timed
from layoutsolve.solver.theory.kind import SHORT
from layoutsolve.verification.runtimes import LiteRT

ELEMENTS = 1 << 16
"""Elements of each tensor."""

SECONDS = 0.3
"""The most that one file runs in all."""

TURN, GENERAL = ((256, 256), (1, 0)), ((16, 16, 16, 16), (3, 1, 2, 0))
"""Sizes and permutation of the Transpose that is the unit, and of one that moves single elements."""


def model(
    op: str, reads: Sequence[Sequence[int]], gives: Sequence[Sequence[int]], dtype: int, **attributes: object
) -> bytes:
    """A model of one operator."""
    names = [f"x{number}" for number in range(len(reads))], [f"y{number}" for number in range(len(gives))]
    ports = [
        [helper.make_tensor_value_info(name, dtype, shape) for name, shape in zip(each, shapes, strict=True)]
        for each, shapes in zip(names, (reads, gives), strict=True)
    ]
    graph = helper.make_graph([helper.make_node(op, *names, **attributes)], op, *ports)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return bytes(layoutsolve.convert(made, to="tflite", strategy="transpose").data)


def files(dtype: int) -> Mapping[str, bytes]:
    """One for each row, by its name; ``turn`` is what the others are measured in."""
    found = {}
    for name, (shape, perm) in {"turn": TURN, "Transpose general": GENERAL}.items():
        found[name] = model("Transpose", [shape], [[shape[axis] for axis in perm]], dtype, perm=perm)
    for few in (*SHORT, 2 * SHORT[-1], ELEMENTS // 2):
        part, whole = [ELEMENTS // (2 * few), few], [ELEMENTS // (2 * few), 2 * few]
        found[f"Concat pieces of {few}"] = model("Concat", [part] * 2, [whole], dtype, axis=1)
        found[f"Split pieces of {few}"] = model("Split", [whole], [part] * 2, dtype, axis=1, num_outputs=2)
    return found


def table(dtype: int) -> Iterator[str]:
    """A line for each row: its microseconds, and what it takes longer than whole tensors, in Transposes."""
    with ExitStack() as stack:
        folder, runners = Path(stack.enter_context(TemporaryDirectory())), {}
        for name, file in files(dtype).items():
            path = folder / f"{name}.tflite"
            path.write_bytes(file)
            runners[name] = held(str(path), RUNTIMES[1], 1, True, stack.enter_context(LiteRT())).runner
        times = timed(runners, rounds_of(list(runners.values()), SECONDS))
    seconds = {name: median(each) for name, each in times.items()}
    for name, each in seconds.items():
        least = seconds.get(f"{name.split()[0]} pieces of {ELEMENTS // 2}", seconds["turn"])
        yield f"| {name} | {1e6 * each:.1f} | {(each - least) / seconds['turn']:.1f} |"


def main() -> None:
    """Print a table for floats and one for bytes."""
    for dtype in (onnx.TensorProto.FLOAT, onnx.TensorProto.INT8):
        print(f"\n| {onnx.TensorProto.DataType.Name(dtype)} | us | lost, in Transposes |\n|---|--:|--:|")
        print(*table(dtype), sep="\n", flush=True)


if __name__ == "__main__":
    main()
