"""Provenance of an ONNX model, in its metadata: version, source digest and options."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from layoutsolve.base.digest import digest
from layoutsolve.errors import ModelError
from layoutsolve.frontend import is_tflite
from layoutsolve.frontend.tflite.reading import reader
from layoutsolve.io.source import Content, Source, load
from layoutsolve.ir.graph import LOWERINGS

if TYPE_CHECKING:
    import onnx

PRODUCER = "layoutsolve"
DIGEST, OPTIONS, TARGET = "layoutsolve.source.sha256", "layoutsolve.options", "layoutsolve.target.sha256"
CUT = "layoutsolve.cut"
RETURNED, WRITTEN = "layoutsolve.version", "layoutsolve.written.sha256"
"""The keys of the metadata. What is written of a source in ONNX says what it does (:func:`outline`), so that it is
known when it comes again; one that is written as it stands has another producer, and the version in the metadata.
"""

KEYS = (DIGEST, OPTIONS, TARGET, CUT, LOWERINGS, RETURNED, WRITTEN)

_OPTIONS = {"to": "format"}
"""The options whose names on the command line are others."""

_SMALL = 1024
"""Bytes of a constant up to which it may be a shape or an axis, which says what an operator does."""


@dataclass(frozen=True)
class Provenance:
    """Provenance of an ONNX model, from its metadata.

    ``version`` is that of layoutsolve, ``source`` the SHA-256 of the source model, ``said`` the options that determine
    the file and are not the default, as JSON. ``target`` is the SHA-256 of the fields of a user's target, '' for those
    that come with layoutsolve. ``cut`` has, as JSON, the tensors that the converted part of the source begins
    (``from``) and ends with (``to``), '' for the whole. ``lowered`` has, as JSON, the file with its SHA-256 that
    registered the lowering of each operator that a user's own lowers, '' for none.
    """

    version: str
    source: str
    said: str
    target: str = ""
    cut: str = ""
    lowered: str = ""

    @classmethod
    def of(cls, source: Content, version: str, said: str, target: str) -> Provenance:
        """Provenance of what a version makes of a source by the options that are ``said``."""
        part = source.cut
        cut = "" if part is None else json.dumps({"from": part.start, "to": part.end}, separators=(",", ":"))
        return cls(version, source.whole, said, target, cut)

    @cached_property
    def options(self) -> Mapping[str, object]:
        """Options as :func:`layoutsolve.convert` takes them.

        With the same source and version they give the same bytes, unless a time limit ended the search. A user's target
        is named, and has to be given by its file.
        """
        found: dict[str, object] = json.loads(self.said)
        return found

    @property
    def metadata(self) -> dict[str, str]:
        """Entries of the metadata; the version is the model's own field."""
        own = {TARGET: self.target, CUT: self.cut, LOWERINGS: self.lowered}
        return {DIGEST: self.source, OPTIONS: self.said, **{key: text for key, text in own.items() if text}}

    @cached_property
    def part(self) -> Mapping[str, list[str]]:
        """The tensors that the part begins with, by ``from``, and ends with, by ``to``; empty for the whole."""
        found: dict[str, list[str]] = json.loads(self.cut or "{}")
        return {key: [str(name) for name in found[key]] for key in ("from", "to") if found.get(key)}

    @cached_property
    def lowerings(self) -> Mapping[str, tuple[str, str]]:
        """The file that registered the lowering of an operator, and its SHA-256, by operator; both are '' where it was
        none.
        """
        found: dict[str, list[str]] = json.loads(self.lowered or "{}")
        return {str(operator): (str(name), str(text)) for operator, (name, text) in found.items()}

    @property
    def facts(self) -> dict[str, str]:
        """Entries of the metadata of a model whose format has no field for the version."""
        return {RETURNED: self.version, **self.metadata}

    @property
    def command(self) -> str:
        """Command that makes the model again, of a source that it calls MODEL."""
        from shlex import join

        return join(["layoutsolve", "MODEL", *self._words()])

    def __str__(self) -> str:
        lines = [f"made by layoutsolve {self.version}: {self.command}", f"MODEL has the SHA-256 {self.source}"]
        if self.target:
            lines.append(f"target '{self.options.get('target')}' is a file whose fields have the SHA-256 {self.target}")
        for operator, (name, text) in self.lowerings.items():
            of_file = f"'{name}', which has the SHA-256 {text}" if name else "a program"
            lines.append(f"the lowering of '{operator}' is registered by {of_file}")
        return "\n".join(lines)

    def _words(self) -> Iterator[str]:
        for name, value in self.options.items():
            option = option_name(name)
            if name in ("inputs", "outputs", "layouts", "shapes"):
                yield from _named(option, value)
            elif name == "target" and self.target:
                yield f"{option}={value}.json"
            else:
                yield option if value is True else f"{option}={value}"
        for end, names in self.part.items():
            yield from (f"--{end}={name}" for name in names)
        yield from (f"--lowering={name}" for name in dict.fromkeys(name for name, _ in self.lowerings.values()) if name)


def option_name(name: str) -> str:
    """What an argument of :func:`layoutsolve.convert` is called on the command line."""
    return f"--{_OPTIONS.get(name, name).replace('_', '-')}"


def _named(option: str, value: object) -> Iterator[str]:
    """An option with a value for all, or with values by name."""
    if not isinstance(value, Mapping):
        yield f"{option}={value}"
        return
    mark = "," if option == "--shapes" else ":"
    for name, each in value.items():
        text = mark.join(map(str, each)) if isinstance(each, list) else str(each)
        yield f"{option}={text}" if name == "*" else f"{option[:-1]}={name}={text}"


def outline(model: onnx.ModelProto) -> str:
    """The SHA-256 of what a model does, whatever its weights are."""
    return digest(b"".join(_outline(model)))


def _outline(model: onnx.ModelProto) -> Iterator[bytes]:
    graph = model.graph
    for each in (*model.opset_import, *graph.input, *graph.output, *graph.node):
        yield each.SerializeToString()
    for proto in graph.initializer:
        yield repr((proto.name, proto.data_type, tuple(proto.dims))).encode()
        if proto.data_location != proto.EXTERNAL and proto.ByteSize() <= _SMALL:
            yield proto.SerializeToString()


def provenance(model: Source) -> Provenance:
    """Provenance of a model that layoutsolve has written, given its path or its bytes.

    Raises :class:`ModelError` for anything but an ONNX or TensorFlow Lite model, and for one without provenance in its
    metadata.
    """
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    content = load(model, "model")
    if is_tflite(content.data):
        told = reader.parse(content.data, content.called).metadata
        return of_facts({key: bytes(value).decode("utf-8", "replace") for key, value in told.items()}, content.called)
    try:
        found = onnx.ModelProto.FromString(bytes(content.data))
    except DecodeError as error:
        raise ModelError(f"{content.called} is no ONNX model") from error
    return of_model(found, content.called)


def of_model(model: onnx.ModelProto, called: str = "the model") -> Provenance:
    """Provenance of a model. Raises :class:`ModelError` where it has none."""
    own = model.producer_version if model.producer_name == PRODUCER else None
    return of_facts({entry.key: entry.value for entry in model.metadata_props}, called, own)


def of_facts(facts: Mapping[str, str], called: str = "the model", version: str | None = None) -> Provenance:
    """Provenance among the metadata of a model, of a ``version`` where they have none. Raises
    :class:`ModelError` where there is none.
    """
    known = facts.get(RETURNED, version)
    made = Provenance(known or "", *(facts.get(key, "") for key in (DIGEST, OPTIONS, TARGET, CUT, LOWERINGS)))
    try:
        told = known is not None and isinstance(made.options, dict)
        told = told and made.part is not None and made.lowerings is not None
    except (ValueError, TypeError, AttributeError, RecursionError):
        told = False
    if not told:
        raise ModelError(
            f"{called} has no provenance in its metadata: layoutsolve has not written it, or it was changed since"
        )
    return made
