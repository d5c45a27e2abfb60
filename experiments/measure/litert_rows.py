"""Layout penalties of the target ``litert``, and what ``layoutsolve/conversion/small_moves.py`` compares: tensors that
are joined or cut where few elements of a part lie in a row, operands that are repeated for few elements in a row, and
Transposes that move few elements at a time, in LiteRT with XNNPACK, in Transposes of as many elements.

    python -m experiments.measure.litert_rows
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from statistics import median

import numpy as np

import layoutsolve
from experiments.report.runtimes import in_litert
from layoutsolve.conversion.small_moves import BLOCKS, LINES, TILES
from layoutsolve.measurement.kernels import Node, Spec, model, transpose
from layoutsolve.measurement.timing import rounds_of, timed
from layoutsolve.proto.messages import ModelProto
from layoutsolve.solver.theory.kind import SHORT

ROWS = 1 << 8
"""Rows, and columns, of the Transpose that is the unit."""

SECONDS = 0.3
"""The most that one file runs in all."""

WHOLE = ROWS * ROWS // 2
"""The elements of a part that lie in a row where parts are whole tensors."""


def files(dtype: str) -> Mapping[str, bytes]:
    """One for each row, by its name; ``turn`` is what the others are measured in."""
    made = {"turn": transpose(Spec((ROWS, ROWS), dtype), (1, 0)), "call": transpose(Spec((2, 2), dtype), (1, 0))}
    for few in (*SHORT, 2 * SHORT[-1], WHOLE):
        part, whole = Spec((WHOLE // few, few), dtype), Spec((WHOLE // few, 2 * few), dtype)
        joined, cut = (
            Node("Concat", ["x", "z"], attributes={"axis": 1}),
            Node("Split", ["x"], ["y", "z"], {"axis": 1, "num_outputs": 2}),
        )
        made[f"Concat pieces of {few}"] = model([joined], {"x": part, "z": part})
        made[f"Split pieces of {few}"] = model([cut], {"x": whole})
    for few in (*SHORT[1:], 2 * SHORT[-1], ROWS):
        for operator in ("Add", "Mul"):
            made[f"{operator} repeats of {few}"] = _repeating(operator, dtype, few)
    for few in BLOCKS:
        made[f"Transpose blocks of {few}"] = transpose(Spec((ROWS, ROWS // few, few), dtype), (1, 0, 2))
    for few in TILES:
        made[f"Transpose tiles of {few}"] = transpose(Spec((ROWS * ROWS // few, few // 2, 2), dtype), (0, 2, 1))
    for few in LINES:
        made[f"Transpose lines of {few}"] = transpose(Spec((few, ROWS * ROWS // few), dtype), (1, 0))
    return {
        name: bytes(layoutsolve.convert(each, to="tflite", strategy="transpose").data) for name, each in made.items()
    }


def _repeating(operator: str, dtype: str, few: int) -> ModelProto:
    """An operator of two tensors, of which the second one has one element for so many of the first."""
    sizes = {"x": Spec((ROWS * ROWS // few, few), dtype), "z": Spec((ROWS * ROWS // few, 1), dtype)}
    if dtype == "float32":
        return model([Node(operator, ["x", "z"])], sizes)
    nodes = [Node("DequantizeLinear", [name, "s"], [f"{name}r"]) for name in sizes]
    nodes += [Node(operator, ["xr", "zr"], ["yr"]), Node("QuantizeLinear", ["yr", "s", "zero"])]
    return model(nodes, sizes, {"s": np.ones((), np.float32), "zero": np.zeros((), np.int8)})


def table(dtype: str) -> Iterator[str]:
    """A line for each row: its microseconds, and what it takes longer than whole tensors, in Transposes without what a
    call takes.
    """
    with ExitStack() as stack:
        runners = in_litert(files(dtype), stack)
        times = timed(runners, rounds_of(list(runners.values()), SECONDS))
    seconds = {name: median(each) for name, each in times.items()}
    for name, each in seconds.items():
        few = WHOLE if "pieces" in name else ROWS
        least = seconds.get(f"{name.rpartition(' ')[0]} {few}", seconds["turn"])
        lost = (each - least) / (seconds["turn"] - seconds["call"])
        yield f"| {name} | {1e6 * each:.1f} | {lost:.1f} |"


def main() -> None:
    """Print a table for floats and one for bytes."""
    for dtype in ("float32", "int8"):
        print(f"\n| {dtype} | us | lost, in Transposes |\n|---|--:|--:|")
        print(*table(dtype), sep="\n", flush=True)


if __name__ == "__main__":
    main()
