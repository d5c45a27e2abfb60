"""The target ``portable``: what is fast in every runtime that was measured, each way at its cost in the worst of them.

    python -m experiments.measure.portable                 prints it
    python -m experiments.measure.portable --write         puts it in its place
    python -m experiments.measure.portable --measure FORMS.json ... --write
        measures first what no file of a target says

That is what idioms are worth beside each other: it comes from ``python -m experiments.measure.forms FOLDER --openvino
--web --json FORMS.json``, and is kept in ``portable.json`` beside this file.

Storage is that of ``ort-cpu``: whole blocks of channels take up to 1.19 times as long in wasm, and no blocks 1.37 times
in ONNX Runtime.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from experiments.measure.forms import ONNX_RUNTIME, OPENVINO, WEB, measured_on, read
from experiments.measure.runtime import mean
from layoutsolve.solver.targets.kind_lookup import Key, entry
from layoutsolve.solver.targets.target import Cost, Target
from layoutsolve.solver.targets.target_file import FOLDER, shipped
from layoutsolve.solver.theory.motion import Motion
from layoutsolve.solver.theory.offer import IDIOMS

T = TypeVar("T", bool, float)

RUNTIMES: Mapping[str, str] = {ONNX_RUNTIME: "ort-cpu", OPENVINO: "openvino-cpu", WEB: "ort-web"}
"""The target of each runtime. The file extends the first; the others are merged into it."""

FILE = FOLDER / "portable.json"

MEASURED = Path(__file__).with_name("portable.json")


def measured() -> Mapping[str, Any]:
    """What was measured, as :func:`measure` gives it."""
    found: Mapping[str, Any] = json.loads(MEASURED.read_text())
    return found


def measure(files: Iterable[Path]) -> dict[str, Any]:
    """Measure what no two files of targets say of the same thing.

    ``idioms`` has for each, by runtime, the time with it by that without it, in the geometric mean over models; null
    where one is refused.
    """
    worth = [each for file in files for each in read(file)["worth"]]
    return {"measured": measured_on((ONNX_RUNTIME, OPENVINO, WEB)), "idioms": _factors(worth)}


def _factors(worth: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float | None]]:
    found: dict[str, dict[str, list[float]]] = {}
    for each in worth:
        for runtime, time in each["ratios"].items():
            found.setdefault(each["form"], {}).setdefault(runtime, []).append(time)
    return {
        form: {runtime: None if inf in times else round(mean(times), 3) for runtime, times in sorted(runtimes.items())}
        for form, runtimes in sorted(found.items())
        if tuple(form.split()) in IDIOMS
    }


def merged(found: Mapping[str, Any]) -> dict[str, Any]:
    """The content of the file, given what was measured."""
    targets = [*map(shipped, RUNTIMES.values())]
    base = targets[0]
    hidden = _worst(targets, lambda each: each.hidden, 0, max)
    extra = _worst(targets, lambda each: each.latency.extra, 0.0, max)
    return {
        "name": "portable",
        "runtime": ", ".join(RUNTIMES.values()) + ": the worst of them",
        "extends": base.name,
        "storage": {
            "weights": "uint8",  # some runtimes would keep the If that selects them, OpenCV has wrong kernels for int8
            **{name: min(getattr(each.storage, name) for each in targets) for name in ("narrow", "pixel", "groups")},
        },
        "idioms": _idioms(targets, found["idioms"]),
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


def _idioms(targets: list[Target], factors: Mapping[str, Mapping[str, float | None]]) -> dict[str, list[str]]:
    """Those that all targets want, or that lose less in the worst runtime that does not want them than they gain in the
    best that does; of what no target wants those that gain in some.
    """
    found: dict[str, list[str]] = {operator: [] for target in targets for operator in target.idioms}
    for operator, name in IDIOMS:
        asking = {runtime for runtime, target in RUNTIMES.items() if name in shipped(target).idioms.get(operator, ())}
        if len(asking) < len(targets):
            times = factors[f"{operator} {name}"]
            asking = asking or {runtime for runtime, time in times.items() if time and time < 1}
            loss = max(time or inf for runtime, time in times.items() if runtime not in asking)
            gain = max(1 / time for runtime, time in times.items() if runtime in asking and time)
            if loss >= gain:
                continue
        found[operator].append(name)
    first = targets[0].idioms
    return {
        operator: sorted(names, key=lambda name: _place(first.get(operator, ()), name))
        for operator, names in found.items()
    }


def _place(names: Sequence[str], name: str) -> int:
    """Where a name is among others, before them if it is none of them."""
    return names.index(name) if name in names else -1


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


def text(found: Mapping[str, Any]) -> str:
    """The file, given what was measured."""
    return json.dumps(merged(found), indent=1) + "\n"


def main() -> None:
    """The command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the file of the target, and what was measured")
    parser.add_argument("--measure", nargs="*", type=Path, metavar="FORMS.json", help="measure first")
    options = parser.parse_args()
    found = measured() if options.measure is None else measure(options.measure)
    if options.write:
        MEASURED.write_text(json.dumps(found, indent=1) + "\n")
        FILE.write_text(text(found))
    elif options.measure is not None:
        print(json.dumps(found, indent=1))
    else:
        print(text(found), end="")


if __name__ == "__main__":
    main()
