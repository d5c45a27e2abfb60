"""What a Transpose and a Reshape cost in ONNX Runtime: seconds on one thread, fitted per kind of motion.

``seconds = fixed + per_byte * bytes + per_block * blocks``, fitted to relative errors. Blocks count where the
innermost dimensions stay together; elements are blocks too small to count apart. What a session with one operator costs
is taken off every time, so each operator is given the fixed cost of a Reshape, which moves nothing, on top.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnxruntime

from layoutsolve.measurement.kernels import share_threads
from layoutsolve.measurement.transpose_cost import Move, fits, moves, reshape, section
from layoutsolve.solver.targets.target import Cost


def write_target(path: Path, sections: Mapping[str, Any]) -> None:
    """Replace some sections of a target's file, leaving the others as they are."""
    found = json.loads(path.read_text()) if path.is_file() else {"name": path.stem.replace("_", "-")}
    found |= {"runtime": f"ONNX Runtime {onnxruntime.__version__}", **sections}
    path.write_text(json.dumps(found, indent=1) + "\n")


def table(measured: Sequence[Move], costs: Mapping[str, Mapping[str, Cost]]) -> Iterator[str]:
    """One line per Transpose, then one per fit."""
    yield "| shape | permutation | bytes per element | motion | block | measured, us | fitted, us |"
    yield "|---|---|--:|---|--:|--:|--:|"
    for move in measured:
        fit = costs[move.motion][str(move.itemsize)].seconds(move.bytes, move.blocks)
        text = f"{'x'.join(map(str, move.shape))} | {' '.join(map(str, move.permutation))} | {move.itemsize}"
        yield f"| {text} | {move.motion} | {move.block} | {move.seconds * 1e6:.1f} | {fit * 1e6:.1f} |"
    yield ""
    yield "| motion | bytes per element | fixed, us | per byte, ns | per block, ns |"
    yield "|---|--:|--:|--:|--:|"
    for motion, sizes in costs.items():
        for size, cost in sizes.items():
            parts = f"{cost.fixed * 1e6:.2f} | {cost.per_byte * 1e9:.4f} | {cost.per_block * 1e9:.2f}"
            yield f"| {motion} | {size} | {parts} |"


def main() -> None:
    """Measure, print and write what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--target", type=Path, metavar="FILE", help="update the costs in a target's file")
    options = parser.parse_args()
    share_threads(1)
    measured = moves()
    between = reshape()
    costs = fits(measured, between)
    print(*table(measured, costs), f"\nReshape: {between.fixed * 1e6:.2f} us", sep="\n")
    if options.target:
        write_target(options.target, {"latency": section(costs, between)})


if __name__ == "__main__":
    main()
