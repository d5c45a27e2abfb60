"""Sizes with which ONNX Runtime runs a model, where some have names alone.

They are tried in another process, as a kernel that divides by what it computes from sizes ends its own. That runs
:func:`main`, with the arguments MODEL LEVEL SEED PINNED FIRST LAST: it prints the number of each choice before it is
tried, and ends with status 0 where the last one runs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, product
from pathlib import Path

import numpy as np

from layoutsolve.base.processes import process
from layoutsolve.errors import VerifyError
from layoutsolve.io.files import scratch
from layoutsolve.ir.graph import Array
from layoutsolve.verification.input_sampling import ANY, drawn
from layoutsolve.verification.model_inputs import stored
from layoutsolve.verification.refusals import RefusedError
from layoutsolve.verification.runtimes import Level, OnnxRuntime, Pinned, element

FIRST, SIZES = (2, 1, 3), (2, 1, 3, 8, 32, 64, 128, 256, 512)
"""What sizes that have names alone are tried as, until the source runs: those that are first in an input, and
others.
"""

TRIES, MORE = 300, 6
"""How many choices of sizes are tried, and how many for another one than a model is known to run with."""


def choices(model: bytes | Path, level: Level, seed: int, pinned: Pinned) -> tuple[int, ...]:
    """The numbers of a choice of sizes with which a model runs, and of another one if there is one near; sizes that
    are ``pinned`` are all the same.

    Raises :class:`RefusedError` where there is none, with what ONNX Runtime says of the last one.
    """
    first = surviving(model, level, seed, pinned)
    try:
        return first, surviving(model, level, seed, pinned, first + 1, first + 1 + MORE)
    except RefusedError:
        return (first,)


def surviving(model: bytes | Path, level: Level, seed: int, pinned: Pinned, first: int = 0, last: int = TRIES) -> int:
    """The number of the first choice of sizes with which a model runs, of those from ``first`` on before ``last``.

    Raises :class:`RefusedError` where there is none, with what ONNX Runtime says of the last one.
    """
    with scratch() as folder:
        path = model if isinstance(model, Path) else folder / "model.onnx"
        if isinstance(model, bytes):
            path.write_bytes(model)
        said = ""
        while True:
            code, printed, errors = _tried(path, level, str(seed), json.dumps(pinned), str(first), str(last))
            tried = [int(line) for line in printed.split()]
            if tried and code == 0:
                return tried[-1]
            said = errors.strip().splitlines()[-1] if code > 0 and errors.strip() else said
            if code >= 0 or not tried:
                raise no_data(said)
            said, first = f"ONNX Runtime ended with signal {-code}", tried[-1] + 1


def _tried(path: Path, *arguments: str) -> tuple[int, str, str]:
    """The exit code of the process, what it printed, and its errors."""
    pipe, own = subprocess.PIPE, "layoutsolve.verification.runnable_sizes"
    with process(own, str(path), *arguments, apart=[path.parent], stdout=pipe, stderr=pipe, text=True) as running:
        printed, errors = running.communicate()
    return running.returncode, printed, errors


def no_data(said: str) -> RefusedError:
    """Error where a source does not run on drawn data, with ONNX Runtime's reason."""
    return RefusedError(f"no data are found with which the source runs: give some (--verify-data). {said}")


def dtype_of(name: str, told: str) -> str:
    """Element type of an input, from ONNX Runtime's description. Raises :class:`VerifyError` for anything but a
    tensor.
    """
    if not told.startswith("tensor("):
        raise VerifyError(f"input '{name}' is {told}, no tensor: compare the models in a program of your own")
    return element(told)


def made_up(runtime: OnnxRuntime, sizes: Mapping[str, int], seed: Sequence[int], sample: int = 0) -> dict[str, Array]:
    """Drawn data for all inputs of a sample, whose dimensions without a size have one of these."""
    generator = np.random.default_rng(seed)
    return {
        name: stored(drawn(dtype_of(name, told), shape_of(name, shape, sizes), generator, sample, ANY), None)
        for name, told, shape in runtime.inputs
    }


def tries(inputs: Sequence[tuple[str, str, Sequence[int | str | None]]]) -> Iterator[dict[str, int]]:
    """Sizes of dimensions that have none, a few hundred choices at most: one for those that are first and one for all
    others, as a small batch; then with one dimension apart from these.
    """
    axes: dict[str, int] = {}
    for name, _, shape in inputs:
        for axis, each in enumerate(shape):
            if not isinstance(each, int):
                axes.setdefault(called(name, axis, each), axis)
    pairs = [(min(size, 2), size) for size in SIZES] + list(product(FIRST, SIZES))
    bases = [{name: other if axis else first for name, axis in axes.items()} for first, other in dict.fromkeys(pairs)]
    apart = product(bases if len(axes) > 1 else (), axes, SIZES)
    more = ({**base, name: size} for base, name, size in apart if size != base[name])
    yield from islice(chain(bases if axes else bases[:1], more), TRIES)


def called(name: str, axis: int, size: str | None) -> str:
    """The name of a dimension; those without one are all different."""
    return size or f"{name}[{axis}]"


def shape_of(name: str, shape: Sequence[int | str | None], sizes: Mapping[str, int]) -> list[int]:
    """The shape of an input in which dimensions without a size have one of these."""
    return [each if isinstance(each, int) else sizes[called(name, axis, each)] for axis, each in enumerate(shape)]


def main() -> None:
    """Entry point of the process."""
    path, level, seed, pinned, first, last = sys.argv[1:]
    runtime = OnnxRuntime(Path(path), level=level, pinned=json.loads(pinned))  # type: ignore[arg-type]
    refused = ""
    for number, sizes in islice(enumerate(tries(runtime.inputs)), int(first), int(last)):
        print(number, flush=True)
        try:
            runtime.run(made_up(runtime, sizes, [int(seed), 0]))
        except VerifyError as error:
            refused = str(error)
        else:
            return
    sys.exit(refused or "all choices of sizes are tried")
