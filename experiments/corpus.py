"""What the experiments share: the models of a corpus folder, their records in its manifest, and the command line."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import layoutsolve
from layoutsolve import api
from layoutsolve.conversion.stages import Stages
from layoutsolve.frontend import Reading
from layoutsolve.io.source import load
from layoutsolve.ir.graph import Graph
from layoutsolve.solver.statement.objective import DEFAULT_OBJECTIVE


@dataclass(frozen=True)
class CorpusModel:
    """A model of the corpus. ``record`` is what the manifest says about it, empty without one."""

    name: str
    path: Path
    record: Mapping[str, Any]

    @property
    def source(self) -> bytes:
        """The bytes of the file."""
        return self.path.read_bytes()

    @property
    def runs(self) -> bool:
        """Whether LiteRT runs it, as far as is known."""
        return bool(self.record.get("litert_runs", True))


def models(folder: Path, only: str = "", ending: str = ".tflite") -> Iterator[CorpusModel]:
    """The models below a folder in the order of their names; ``only`` keeps those whose name contains it."""
    records = manifest(folder)
    for path in sorted(folder.rglob(f"*{ending}")):
        name = path.relative_to(folder).as_posix()
        if only in name:
            yield CorpusModel(name.removesuffix(ending), path, records.get(name, {}))


def graph_of(source: bytes | Graph) -> Graph:
    """The reference graph of a model, or of what is one. Raises :class:`ConversionError`."""
    if isinstance(source, Graph):
        return source
    content = load(source)
    return api.reference(content, Reading(), Stages(content))


def manifest(folder: Path) -> dict[str, Mapping[str, Any]]:
    """The records of ``manifest.json`` by file, where there is one."""
    path = folder / "manifest.json"
    records = json.loads(path.read_text()) if path.is_file() else []
    return {record["file"]: record for record in records}


def arguments(description: str) -> argparse.ArgumentParser:
    """The options that every experiment has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("folder", type=Path, help="a folder with models, and a manifest.json about them or none")
    parser.add_argument("--only", default="", metavar="TEXT", help="only models whose path contains TEXT")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers to FILE")
    return parser


def add_ways(parser: argparse.ArgumentParser) -> None:
    """The options of experiments that compare files: other targets, and other converters' files."""
    parser.add_argument(
        "--target", action="append", metavar="NAME|FILE.json[+symmetric][+min-latency]", help="another one, too"
    )
    parser.add_argument("--with", dest="others", action="append", metavar="NAME=FOLDER", help="others' ONNX files")


def folders(options: argparse.Namespace) -> dict[str, Path]:
    """The folders of other converters' files, by whose they are."""
    return {name: Path(folder) for name, _, folder in (each.partition("=") for each in options.others or ())}


def files_of(model: CorpusModel, targets: Iterable[str], others: Mapping[str, Path], folder: Path) -> dict[str, Path]:
    """The ONNX files of a model by whose they are: one for each target (``NAME+symmetric`` with symmetric weights,
    ``NAME+min-latency`` for that objective), written to a folder, and those of others that there are.

    Raises ConversionError where it cannot be converted.
    """
    found = {}
    for number, target in enumerate(dict.fromkeys(targets)):
        found[target] = folder / f"{number}.onnx"
        name, *given = target.split("+")
        weights = "symmetric" if "symmetric" in given else "source"
        objective = next((each for each in given if each.startswith("min-")), DEFAULT_OBJECTIVE)
        layoutsolve.convert(str(model.path), target=name, weights=weights, objective=objective).save(found[target])
    theirs = {name: place / f"{model.name}.onnx" for name, place in others.items()}
    return {**found, **{name: path for name, path in theirs.items() if path.is_file()}}


def write_json(path: Path | None, found: Any) -> None:
    """Write the numbers of an experiment where they are asked for."""
    if path is not None:
        path.write_text(json.dumps(found, indent=1) + "\n")
