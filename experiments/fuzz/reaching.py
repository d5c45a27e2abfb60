"""Mutants of tests' models that execute what no test executes, for their files ``reaching.txt``.

    python -m experiments.fuzz.reaching REACHED

What all tests execute is noted before, by ``python -m pytest -p experiments.fuzz.reached --reached=REACHED``. Without
REACHED what becomes of the mutants in both files is written there anew.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from experiments.fuzz import instrumented
from experiments.fuzz.reached import read

Attempt = tuple[str, Callable[[], str]]
"""What a line says of a mutant, and what becomes of that."""

Tried = tuple[str, list[Attempt]]
"""An operator, and its mutants."""


def in_tensorflow_lite() -> Iterator[Tried]:
    """Mutants of conformance cases."""
    from layoutsolve.frontend.tflite.exact.registry import EXACT as WITH_EXACT
    from layoutsolve.frontend.tflite.lowering.registry import every_lowering
    from layoutsolve.frontend.tflite.reading.reader import parse
    from tests.conformance import families
    from tests.conformance.reaching import EXACT, changes, outcome, place_of

    by_operator = defaultdict(dict)
    for case in families.every_case():
        if case.operator in every_lowering():
            by_operator[case.operator].setdefault(re.sub(r"\d+", "", case.label), case)
    for operator, cases in by_operator.items():
        attempts = list[Tried]()
        for case in cases.values():
            source = case.make().source
            if operator not in [each.name for each in parse(source).subgraphs[0].operators]:
                continue
            for label, made in changes(source, place_of(case, source), case.make().inputs):
                for prefix in ("", EXACT) if operator in WITH_EXACT else ("",):
                    line = f"{case.name} | {prefix}{label}"
                    attempts.append((line, lambda m=made, exact=prefix: outcome(m(), bool(exact))[0]))
        yield operator, attempts


def in_onnx() -> Iterator[Tried]:
    """Mutants of nodes that are written to TensorFlow Lite."""
    from tests.emit.tflite.reaching import CASES, changes, outcome

    for operator, cases in CASES.items():
        yield (
            operator,
            [
                (f"{operator} {number} | {label}", lambda m=made: outcome(m()[0])[0])
                for number in range(len(cases))
                for label, made in changes(operator, number)
            ],
        )


def again() -> None:
    """Write anew what becomes of the mutants in both files."""
    from tests.conformance import families, reaching
    from tests.emit.tflite import reaching as nodes

    cases = {case.name: case for case in families.every_case()}

    def of_case(name: str, change: str) -> str:
        model = cases[name].make()
        mutants = dict(reaching.changes(model.source, reaching.place_of(cases[name], model.source), model.inputs))
        exact = change.startswith(reaching.EXACT)
        return reaching.outcome(mutants[change.removeprefix(reaching.EXACT)](), exact)[0]

    def of_node(name: str, change: str) -> str:
        operator, _, number = name.partition(" ")
        return nodes.outcome(dict(nodes.changes(operator, int(number)))[change]()[0])[0]

    for path, found in ((reaching.LINES, of_case), (nodes.LINES, of_node)):
        lines = (line.split(" | ", 2)[:2] for line in path.read_text(encoding="utf-8").splitlines())
        made = [f"{name} | {change} | {found(name, change)}\n" for name, change in lines]
        path.write_text("".join(made), encoding="utf-8")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reached", type=Path, nargs="?")
    parser.add_argument("--of", choices=("tflite", "onnx"), default="tflite")
    parser.add_argument(
        "--patience", type=int, default=120, help="mutants of an operator in a row that execute nothing new"
    )
    parser.add_argument("--seconds", type=float, default=600)
    options = parser.parse_args()
    if options.reached is None:
        again()
        return
    known: dict[str, int] = defaultdict(int)
    for reach in read(options.reached).values():
        for path, blocks in reach.blocks.items():
            known[path] |= blocks
    instrumented.probe()
    end = time.monotonic() + options.seconds
    groups = in_tensorflow_lite() if options.of == "tflite" else in_onnx()
    for operator, attempts in groups:
        random.Random(operator).shuffle(attempts)
        since = 0
        for line, attempt in attempts:
            instrumented.taken()
            try:
                found = attempt()
            except Exception as error:
                found = f"INTERNAL {type(error).__name__}: {error}".replace("\n", " / ")
            blocks = {path: int(bits, 16) for path, bits in instrumented.taken().items()}
            new = {path: bits & ~known[path] for path, bits in blocks.items() if bits & ~known[path]}
            since = 0 if new else since + 1
            for path, bits in new.items():
                known[path] |= bits
            if new:
                print(f"{line} | {found}", flush=True)
            if since > options.patience or time.monotonic() > end:
                break
        print(operator, len(attempts), round(end - time.monotonic()), file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
