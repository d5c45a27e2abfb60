"""A coverage-guided search for bytes that the conversion does not expect: mutants are kept where they reach new code.

It needs atheris (``pip install atheris``), and takes libFuzzer's options behind a folder that it may write to:

    python -m experiments.make.zoo seeds --every 20
    python -m experiments.fuzz.coverage found seeds -max_total_time=3600 -rss_limit_mb=2000
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import numpy as np

LARGEST = 1 << 20
"""Bytes of the largest input."""


def try_one(data: bytes) -> None:
    """Convert some bytes. Whatever is no :class:`ConversionError` is a finding."""
    import layoutsolve
    from layoutsolve.errors import ConversionError

    with suppress(ConversionError):
        layoutsolve.convert(data)


def mutate(data: bytes, largest: int, seed: int) -> bytes:
    """Another input: a mutant of the model that the bytes are, else a change of single bytes."""
    import atheris

    from experiments.fuzz.mutation import mutant

    if np.random.default_rng(seed).random() < 0.7:
        with suppress(Exception):  # bytes that are no flatbuffer raise anything
            found = mutant(data, seed).source
            if len(found) <= largest:
                return found
    changed: bytes = atheris.Mutate(data, largest)
    return changed


def seeds(folders: list[Path], corpus: Path) -> None:
    """Copy small models into the corpus folder under flat names, which libFuzzer reads."""
    corpus.mkdir(parents=True, exist_ok=True)
    for folder in folders:
        for path in sorted(folder.rglob("*.tflite")):
            if path.stat().st_size <= LARGEST:
                (corpus / path.relative_to(folder).as_posix().replace("/", "-")).write_bytes(path.read_bytes())


def main() -> None:
    """The command line: the corpus folder, folders with models to begin with, libFuzzer's options."""
    try:
        import atheris
    except ImportError:
        sys.exit("this experiment needs atheris: pip install atheris")
    folders = [Path(each) for each in sys.argv[1:] if not each.startswith("-")]
    if not folders:
        sys.exit(__doc__)
    corpus, *given = folders
    seeds(given, corpus)
    with atheris.instrument_imports(include=["layoutsolve"]):  # before anything else imports a part of it
        import layoutsolve.api
        import layoutsolve.solver.search.cpsat  # noqa: F401
    options = [each for each in sys.argv[1:] if each.startswith("-")]
    atheris.Setup([sys.argv[0], str(corpus), f"-max_len={LARGEST}", *options], try_one, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
