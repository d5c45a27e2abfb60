"""Writes a folder of small models, for experiments that take one: every conformance case, and random networks."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from layoutsolve.errors import VerifyError
from tests.conformance.families import every_case
from tests.random_models import network


def zoo(networks: int, every: int = 1) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of ``every``-th conformance case and of random networks; models without bytes are left out."""
    for number, case in enumerate(every_case()):
        if number % every == 0:
            try:
                source = case.make().source
            except VerifyError:  # this LiteRT does not run it
                continue
            yield f"{case.operator.replace(':', '_')}/{number:05}", source
    for seed in range(networks):
        yield f"network/{seed:05}", network(seed).source


def write(folder: Path, networks: int, every: int = 1) -> int:
    """Write the models below a folder; returns how many there are."""
    count = 0
    for name, source in zoo(networks, every):
        path = folder / f"{name}.tflite"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source)
        count += 1
    return count


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where to write")
    parser.add_argument("--networks", type=int, default=300, help="how many random networks (default: 300)")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every N-th conformance case (default: 1)")
    options = parser.parse_args(arguments)
    print(f"{options.folder}: {write(options.folder, options.networks, options.every)} models")


if __name__ == "__main__":
    main()
