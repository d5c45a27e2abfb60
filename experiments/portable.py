"""The target ``portable``: what is fast in every runtime that was measured, each way at its cost in the worst of them.

    python -m experiments.portable           prints it
    python -m experiments.portable --write   puts it in its place

What no two files say of the same thing is measured, and stands here: idioms, and Resize, whose fast layout in OpenVINO
is one with an idiom that ONNX Runtime refuses. Storage is that of ``ort-cpu``: whole blocks of channels take up to 1.19
times as long in wasm, and no blocks 1.37 times in ONNX Runtime.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from math import inf
from typing import Any, TypeVar

from layoutsolve.solver.statement.kinds import Key, entry
from layoutsolve.solver.statement.target import Cost, Target
from layoutsolve.solver.statement.target_file import FOLDER, shipped
from layoutsolve.solver.theory.motion import Motion

T = TypeVar("T", bool, float)

BASE, OTHERS = "ort-cpu", ("openvino-cpu", "ort-web")
"""The file extends the first; the others are merged into it."""

FILE = FOLDER / "portable.json"

IDIOMS: Mapping[tuple[str, str], tuple[float, float]] = {
    ("Mul", "depthwise"): (1.12, 1.1),
    ("Pad", "pointwise"): (1.06, 1.25),
    ("PRelu", "depthwise"): (1.39, 3.2),
    ("PRelu", "limits"): (1.1, 5.0),
    ("ReduceMean", "pool"): (1.03, 1.04),
    ("Resize", "axes"): (inf, 19.0),
}
"""Of idioms that some targets alone want: the time with it where it is not wanted, and without it where it is, by the
other's; infinite where it is refused (``docs/runtimes.md``).
"""

RESIZED: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "KKRR": {BASE: (2.4, 4.4, 4.4, 5.6), "openvino-cpu": (1.0, 1.0, 1.0, 1.0)},
    "KRRK": {BASE: (1.0, 1.0, 1.0, 1.0), "openvino-cpu": (7.4, 21.1, 3.6, 32.8)},
}
"""Linear interpolation to twice the size, channels-first and channels-last, without that idiom: times by that of the
faster one, of 16x28x28, 64x28x28, 64x56x56 and 256x14x14 floats (ONNX Runtime 1.31.1, OpenVINO 2026.4.1, one thread).
"""

LOST = 1.19e-08
"""Seconds that channels-last then loses in OpenVINO for each byte, in the median over those."""


def merged() -> dict[str, Any]:
    """The content of the file."""
    base, targets = shipped(BASE), [shipped(BASE), *map(shipped, OTHERS)]
    hidden = {**_worst(targets, lambda each: each.hidden, 0, max), **_resized(base, 2)}
    extra = {**_worst(targets, lambda each: each.latency.extra, 0.0, max), **_resized(base, LOST)}
    return {
        "name": "portable",
        "runtime": ", ".join((BASE, *OTHERS)) + ": the worst of them",
        "extends": BASE,
        "idioms": _idioms(targets),
        "dynamic": None,
        "qoperator": all(target.qoperator for target in targets),
        "hidden": _nested(_changed(hidden, base.hidden)),
        "unsupported": _refused(targets, base),
        "kernels": _nested(_changed(_worst(targets, lambda each: each.kernels, True, min), base.kernels)),
        "classes": _classes(targets, base),
        "extra": _nested(_changed(extra, base.latency.extra)),
        "latency": _latency(targets),
    }


def _worst(
    targets: list[Target], table: Callable[[Target], Mapping[Key, T]], default: T, worst: Callable[[list[T]], T]
) -> dict[Key, T]:
    """For everything that some target has an entry for, the worst that any says of it."""
    keys = sorted({key for target in targets for key in table(target)})
    return {key: worst([entry(table(target), *key, default) for target in targets]) for key in keys}


def _resized(base: Target, lost: float) -> dict[Key, float]:
    """The layout in which interpolation is slower at its worst loses so much, the other nothing."""
    slowest = {form: max(map(max, runtimes.values())) for form, runtimes in RESIZED.items()}
    slow = max(slowest, key=lambda form: slowest[form])
    kinds = [key for key in base.hidden if key[0] == "Resize" and key[1].startswith("linear ")]
    return {key: lost * (key[1].split()[1].rstrip(",") == slow) for key in kinds}


def _idioms(targets: list[Target]) -> dict[str, list[str]]:
    """Those that all targets want, or that lose less where they are not wanted than they gain where they are."""
    wanted = [(operator, name) for target in targets for operator, names in target.idioms.items() for name in names]
    found: dict[str, list[str]] = {operator: [] for target in targets for operator in target.idioms}
    for operator, name in dict.fromkeys(wanted):
        everywhere = all(name in target.idioms.get(operator, ()) for target in targets)
        unwanted, missing = (1.0, inf) if everywhere else IDIOMS[operator, name]
        if unwanted < missing:
            found[operator].append(name)
    return found


def _refused(targets: list[Target], base: Target) -> dict[str, list[str]]:
    """For operators of which some target refuses more than the base does, all that any refuses."""
    every = frozenset(key for target in targets for key in target.unsupported)
    more = {operator for operator, _ in every - base.unsupported}
    return {name: sorted(kind for operator, kind in every if operator == name) for name in sorted(more)}


def _classes(targets: list[Target], base: Target) -> dict[str, Any]:
    """A class is what is one for every target: the strictest bounds."""
    found: dict[str, Any] = {}
    for operator, classes in base.classes.items():
        for each in classes:
            same = [other for target in targets for other in target.classes[operator] if other.name == each.name]
            least = {size: max(one.least.get(size, 0) for one in same) for one in same for size in one.least}
            most = {size: min(one.most[size] for one in same if size in one.most) for one in same for size in one.most}
            bounds = {"least": least} if least != each.least else {}
            bounds |= {"most": most} if most != each.most else {}
            if bounds:
                found.setdefault(operator, {})[each.name] = bounds
    return found


def _latency(targets: list[Target]) -> dict[str, Any]:
    """Each part of each cost at its largest."""
    transpose: dict[str, dict[str, Any]] = {}
    for motion, size in targets[0].latency.transpose:
        costs = [target.latency.transpose[motion, size] for target in targets]
        transpose.setdefault(Motion(motion).name.lower(), {})[str(size)] = _largest(costs)
    return {"transpose": transpose, "reshape": _largest([target.latency.reshape for target in targets])}


def _largest(costs: list[Cost]) -> dict[str, float]:
    return {part: max(getattr(cost, part) for cost in costs) for part in ("fixed", "per_byte", "per_block")}


def _changed(table: Mapping[Key, T], base: Mapping[Key, T]) -> dict[Key, T]:
    return {key: value for key, value in table.items() if base.get(key) != value}


def _nested(table: Mapping[Key, T]) -> dict[str, dict[str, T]]:
    found: dict[str, dict[str, T]] = {}
    for (operator, kind), value in table.items():
        found.setdefault(operator, {})[kind] = value
    return found


def text() -> str:
    """The file."""
    return json.dumps(merged(), indent=1) + "\n"


def main() -> None:
    """The command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the file of the target")
    if parser.parse_args().write:
        FILE.write_text(text())
    else:
        print(text(), end="")


if __name__ == "__main__":
    main()
