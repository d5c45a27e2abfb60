"""What conversion makes of models, as a manifest to compare with later: the SHA-256 of each ONNX model, or the error.

Over the cases and random networks of the zoo and, with ``--corpus``, a folder of models. The same models and the same
code give the same manifest, on any machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import layoutsolve
from experiments.corpus import models
from experiments.make.zoo import zoo

Manifest = Mapping[str, str]


def outcome(source: bytes) -> tuple[str, bytes]:
    """The digest of what a model becomes, and its bytes; for one that is refused the kind of error, and none."""
    try:
        content = layoutsolve.convert(source).content("model.onnx")
    except layoutsolve.ConversionError as error:
        return type(error).__name__, b""
    return hashlib.sha256(content).hexdigest(), content


def replay(sources: Iterable[tuple[str, bytes]], keep: Path | None = None) -> dict[str, str]:
    """The manifest of some models; with ``keep`` what they become is written below a folder."""
    found = {}
    for name, source in sources:
        found[name], content = outcome(source)
        if keep is not None and content:
            path = keep / f"{name}.onnx"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return found


def differences(before: Manifest, after: Manifest) -> Iterator[str]:
    """A line for every model that is not the same in two manifests."""
    for name in sorted({*before, *after}):
        old, new = before.get(name, "missing"), after.get(name, "missing")
        if old != new:
            yield f"{name}: {old:.16} -> {new:.16}"


def sources(networks: int, every: int, corpus: Path | None) -> Iterator[tuple[str, bytes]]:
    """The models of the zoo, and those of a folder under ``corpus/``."""
    for name, source in zoo(networks, every):
        yield f"zoo/{name}", source
    for model in models(corpus) if corpus else ():
        yield f"corpus/{model.name}", model.source


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("manifest", type=Path, help="where to write the manifest (JSON)")
    parser.add_argument("--corpus", type=Path, metavar="FOLDER", help="a folder of .tflite files, beside the zoo")
    parser.add_argument("--networks", type=int, default=300, help="how many random networks (default: 300)")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every N-th conformance case (default: 1)")
    parser.add_argument("--against", type=Path, metavar="MANIFEST", help="show what differs from another manifest")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write the ONNX models below a folder")
    options = parser.parse_args(arguments)
    before = json.loads(options.against.read_text()) if options.against else None
    found = replay(sources(options.networks, options.every, options.corpus), options.keep)
    options.manifest.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n")
    print(f"{options.manifest}: {len(found)} models")
    if before is None:
        return 0
    differing = list(differences(before, found))
    print(*differing, f"{len(differing)} differ", sep="\n")
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())
