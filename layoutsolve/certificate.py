"""Certificates: what a conversion claims about its price, in a form that can be checked without a search.

A certificate records the chosen row of every operator and, for each independent component of the layout problem, a
lower bound and where it comes from. Checking states the problem again from the source, prices the recorded rows, counts
in the ONNX file, and adds up the bounds. Bounds of components that are small, or minimum cuts, are proven again; those
of others rest on what the solver said. OR-tools is not needed for it.

A certificate has only what a check can refute, and a seal over all of it shows that the text is as it was written.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, cast

from layoutsolve import arguments
from layoutsolve.api import Conversion, reference
from layoutsolve.audit import copied_bytes, recount
from layoutsolve.emit import serialise
from layoutsolve.errors import CertificateError, ConversionError, OptionError
from layoutsolve.files import Output, written
from layoutsolve.frontend import Reading
from layoutsolve.graph import Graph
from layoutsolve.solver import OBJECTIVES, Boundary, Goal, Price
from layoutsolve.solver.proof.restated import Restated, restate
from layoutsolve.solver.search.presolve import Component
from layoutsolve.solver.search.search import ENUMERATED, enumerated
from layoutsolve.solver.statement.boundary import Ends
from layoutsolve.solver.statement.objective import ranked
from layoutsolve.solver.statement.target import Target
from layoutsolve.solver.statement.target_file import SHIPPED, shipped
from layoutsolve.solver.theory.layout import Layout
from layoutsolve.source import Buffer, Content, Source, load
from layoutsolve.stages import Stages
from layoutsolve.wording import printable

FORMAT = "layoutsolve certificate 3"
PROVING = ("cpsat", "mincut")


@dataclass(frozen=True)
class CertifiedPart:
    """What is claimed about one component.

    ``operators`` are titles, ``booleans`` the rows that they have to choose from. ``value`` is the first tier of its
    price, ``bound`` a lower bound on that.
    """

    operators: tuple[str, ...]
    booleans: int
    value: int
    bound: int


@dataclass(frozen=True)
class Certificate:
    """What is claimed about a conversion.

    ``source`` and ``model`` are the SHA-256 of the two files, ``data`` that of the constants beside the model, None
    where there are none. ``target`` is the name of the runtime that the model is for, ``table`` the SHA-256 of what is
    known about it. ``rows`` has for each operator its title and the layouts
    of its ports. ``bound`` is a lower bound on the first tier of the objective: the bounds of ``components`` and
    ``fixed``, which is what parts without a choice cost. ``capped`` says that the candidates were cut off, and the
    bound holds within them only. ``reading`` is how the source was read.
    """

    source: str
    model: str
    data: str | None
    objective: str
    target: str
    table: str
    boundary: Boundary
    rows: tuple[tuple[str, tuple[Layout, ...]], ...]
    price: Price
    bound: int
    fixed: int
    capped: bool
    components: tuple[CertifiedPart, ...]
    reading: Reading

    def to_json(self) -> str:
        """The certificate as text, one line per operator."""
        facts = {"format": FORMAT, **asdict(self)}
        facts["rows"] = [f"{' | '.join(map(_written, layouts))} : {title}" for title, layouts in self.rows]
        return json.dumps({**facts, "seal": _seal(facts)}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Read what :meth:`to_json` writes. Raises :class:`CertificateError` for anything else."""
        said = arguments.text("text", text)
        try:
            return _parsed(json.loads(said))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OptionError) as error:
            raise CertificateError(f"this is no certificate ({error}): write one with --certify FILE") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the certificate. Raises :class:`OutputError` where that is impossible."""
        target = arguments.path("path", path)
        with Stages()("write"), written([self.output(target)]):
            pass

    def output(self, path: str) -> Output:
        """What :meth:`save` writes."""
        content = self.to_json().encode()
        return Output("certificate", path, lambda file: file.write(content))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Certificate:
        """Read a certificate from a file. Raises :class:`CertificateError`."""
        name = arguments.path("path", path)
        try:
            return cls.from_json(Path(name).read_bytes().decode())
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise CertificateError(f"cannot read '{printable(name)}': {reason}") from error


@dataclass(frozen=True)
class Recheck:
    """How far a check went: components whose bound it proved again, by number, and those taken from the record."""

    proven: tuple[int, ...]
    recorded: tuple[int, ...]

    def __str__(self) -> str:
        if not self.recorded:
            return "the bound is proven again without a search"
        numbers = ", ".join(map(str, self.recorded))
        return f"{len(self.proven)} components proven again, the solver's bound for others (number {numbers})"


def certify(source: Source, conversion: Conversion, path: str | os.PathLike[str] | None = None) -> Certificate:
    """The certificate of a conversion, given the source that it was made from, as a path or as bytes.

    ``path`` is where the model is saved, before or after: that matters where its constants are apart, and is in the
    model then. Raises :class:`CertificateError` where the strategy proves nothing.
    """
    asked = arguments.instance("conversion", conversion, Conversion)
    target = None if path is None else arguments.path("path", path)
    content = load(source)
    if asked.external is not None and target is None:
        raise OptionError("the constants of this model are kept apart, so it has the name of their file: give its path")
    with Stages(content)("certify"):
        return _certificate(content, asked, asked.content(target or ""))


def _certificate(source: Content, conversion: Conversion, model: bytes) -> Certificate:
    found = conversion.assignment
    if found.strategy not in PROVING:
        raise CertificateError(
            f"strategy '{found.strategy}' proves nothing that could be certified: use {' or '.join(PROVING)}"
        )
    rows = [found.row(number).layouts for number in range(len(found.rows))]
    try:
        stated = restate(conversion.graph, conversion.boundary, found.goal, rows)
    except CertificateError as error:
        raise CertificateError(
            "the layouts are those of a heuristic, better than what the search found in its time: raise the time limit"
        ) from error
    titles = [operator.title for operator in found.problem.operators]
    parts = tuple(
        CertifiedPart(tuple(titles[number] for number in part.operators), part.booleans, part.values[0], part.bounds[0])
        for part in (found.parts if stated.components else ())
    )
    return Certificate(
        _digest(source.data),
        _digest(model),
        None if conversion.external is None else _digest_of(conversion.external.write),
        found.objective,
        found.goal.target.name,
        found.goal.target.digest,
        conversion.boundary,
        tuple(zip(titles, rows, strict=True)),
        found.price,
        found.bound,
        stated.fixed,
        stated.coarse.capped,
        parts,
        conversion.reading,
    )


def check_certificate(
    source: Source, model: Source, certificate: Certificate, *, target: str | os.PathLike[str] | None = None
) -> Recheck:
    """Check a certificate against the source and the ONNX file, each given as a path or as bytes.

    An ONNX model whose constants are apart is given as a path. ``target`` is the file of a target that does not come
    with layoutsolve. Returns which components' bounds were proven again.
    Raises :class:`CertificateError` where something does not hold.
    """
    claimed = arguments.instance("certificate", certificate, Certificate)
    table = None if target is None else arguments.target("target", target)
    content, file = load(source), load(model, "model")
    with Stages(content)("check"):
        data = None
        if claimed.data is not None:
            if file.path is None:
                raise CertificateError("the constants of this model are apart: give the path of the ONNX file")
            data = _digest(load(f"{file.path}.data").data)
        return check(claimed, content, file.data, data, table)


def check(
    certificate: Certificate, source: Content, model: Buffer, data: str | None, target: Target | None = None
) -> Recheck:
    """Check a certificate against the contents of files; ``data`` is the SHA-256 of the constants beside the model.

    ``target`` is the one that the model is for, by default that of its name which comes with layoutsolve.
    """
    for found, wanted, name in (
        (_digest(source.data), certificate.source, "source"),
        (_digest(model), certificate.model, "ONNX file"),
        (data, certificate.data, "file of constants"),
    ):
        if found != wanted:
            raise CertificateError(f"the {name} is not the one that the certificate is about: its SHA-256 differs")
    goal = Goal(certificate.objective, _target(certificate, target))
    try:
        graph = reference(source, certificate.reading, Stages(source))
        stated = _restated(graph, certificate, goal)
    except CertificateError:
        raise
    except ConversionError as error:
        raise CertificateError(f"the certificate does not fit the source: {error}") from error
    _check_price(stated, graph, bytes(model), certificate)
    return _check_bounds(stated, certificate)


def _target(certificate: Certificate, given: Target | None) -> Target:
    """The target that the certificate is about, with the very table that it was."""
    if given is None and certificate.target not in SHIPPED:
        raise CertificateError(
            f"the certificate is about target '{certificate.target}', which does not come with layoutsolve: "
            "give its file as target"
        )
    found = given or shipped(certificate.target)
    if found.name != certificate.target:
        raise CertificateError(f"the certificate is about target '{certificate.target}', not '{found.name}'")
    if found.digest != certificate.table:
        raise CertificateError(
            f"target '{found.name}' was measured anew: its table is another one than when the certificate was written; "
            "convert and certify again"
        )
    return found


def _restated(graph: Graph, certificate: Certificate, goal: Goal) -> Restated:
    rows = [layouts for _, layouts in certificate.rows]
    stated = restate(graph, certificate.boundary, goal, rows)
    for operator, (title, _) in zip(stated.fine.operators, certificate.rows, strict=True):
        if operator.title != title:
            raise CertificateError(f"the certificate has operator '{title}' where the source has '{operator.title}'")
    return stated


def _check_price(stated: Restated, graph: Graph, model: bytes, certificate: Certificate) -> None:
    """The rows have to cost what is recorded, and the file, recounted, has to show all that a file can show.

    Copies of constants are recounted where the constants are in the file.
    """
    if stated.price != certificate.price:
        raise CertificateError(f"the recorded rows cost {stated.price}, not {certificate.price}")
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    price = certificate.price
    try:
        written = onnx.load_from_string(model)
        found = recount(written)
        copies = price.copies if certificate.data is not None else copied_bytes(written, serialise(graph))
    except DecodeError as error:
        raise CertificateError("the ONNX file cannot be read") from error
    except ValueError as error:
        raise CertificateError(f"the ONNX file cannot be recounted: {error}") from error
    for name, counted, claimed in (
        ("Transpose operators", found.transposes, price.transposes),
        ("Reshape operators", found.reshapes, price.reshapes),
        ("bytes moved by Transposes", found.bytes, price.bytes),
        ("hidden transpositions of Transposes", found.hidden(stated.fine.target.hidden), price.hidden - stated.inside),
        ("bytes of copied constants", copies, price.copies),
    ):
        if counted != claimed:
            raise CertificateError(f"the ONNX file has {counted} {name}, not {claimed}")


def _check_bounds(stated: Restated, certificate: Certificate) -> Recheck:
    """Components and bounds have to be those of the problem, and to add up."""
    if stated.coarse.capped != certificate.capped:
        raise CertificateError("the certificate is wrong about whether the candidates were cut off")
    if len(stated.components) != len(certificate.components):
        raise CertificateError(
            f"the problem has {len(stated.components)} components, the certificate {len(certificate.components)}"
        )
    if stated.fixed != certificate.fixed:
        raise CertificateError(f"parts without a choice cost {stated.fixed}, not {certificate.fixed}")
    total = certificate.fixed + sum(part.bound for part in certificate.components)
    if total != certificate.bound:
        raise CertificateError(f"the bounds of the components add up to {total}, not {certificate.bound}")
    again = [
        _check_part(stated, component, part, number)
        for number, (component, part) in enumerate(zip(stated.components, certificate.components, strict=True))
    ]
    if certificate.bound > ranked(certificate.price, OBJECTIVES[certificate.objective])[0]:
        raise CertificateError(f"a bound of {certificate.bound} is above the price of what it is about")
    proven = tuple(number for number, found in enumerate(again) if found)
    return Recheck(proven, tuple(number for number, found in enumerate(again) if not found))


def _check_part(stated: Restated, component: Component, part: CertifiedPart, number: int) -> bool:
    """Check one component; whether its bound could be proven again."""
    titles = tuple(stated.coarse.operators[operator].title for operator in component.operators)
    booleans = sum(len(stated.domains[operator]) for operator in component.operators)
    value = stated.first_tier(stated.rows, component)
    if (titles, booleans, value) != (part.operators, part.booleans, part.value):
        raise CertificateError(f"component {number} is not the one that the certificate describes, or costs {value}")
    lowest = stated.min_cut(component)
    if prod(len(stated.domains[operator]) for operator in component.operators) <= ENUMERATED:
        best = enumerated(stated.coarse, stated.domains, component, stated.rows, stated.tiers)
        lowest = stated.first_tier(best, component)
    if part.bound > (value if lowest is None else lowest):
        raise CertificateError(f"component {number} can cost less than its bound of {part.bound}")
    return lowest is not None


def _digest(data: Buffer) -> str:
    return hashlib.sha256(data).hexdigest()


class _Digest(io.RawIOBase):
    """A file that is not written, but hashed."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()

    def write(self, data: Any) -> int:
        self.hash.update(data)
        return len(data)


def _digest_of(write: Callable[[BinaryIO], object]) -> str:
    found = _Digest()
    write(cast(BinaryIO, found))
    return found.hash.hexdigest()


def _seal(facts: Mapping[str, Any]) -> str:
    """The SHA-256 of all that a certificate says, whatever the order and spacing of its text."""
    said = {name: fact for name, fact in facts.items() if name != "seal"}
    return _digest(json.dumps(said, sort_keys=True, separators=(",", ":")).encode())


def _written(layout: Layout) -> str:
    """A layout as text: stored dimensions apart by spaces, their atoms by points, '-' for a dimension of size 1."""
    return " ".join(".".join(map(str, group)) or "-" for group in layout)


def _row(text: str) -> tuple[str, tuple[Layout, ...]]:
    layouts, _, title = text.partition(" : ")
    return title, tuple(map(_layout, layouts.split(" | ")))


def _layout(text: str) -> Layout:
    return tuple(() if group == "-" else tuple(map(int, group.split("."))) for group in text.split())


def _parsed(facts: Mapping[str, Any]) -> Certificate:
    if facts["format"] != FORMAT:
        raise ValueError(f"its format is not '{FORMAT}'")
    if facts["seal"] != _seal(facts):
        raise ValueError("it was altered: its seal does not fit the rest")
    if facts["objective"] not in OBJECTIVES:
        raise ValueError(f"its objective is not one of {', '.join(OBJECTIVES)}")
    limits = facts["boundary"]
    layouts = {name: (str(source), str(target)) for name, (source, target) in limits["layouts"].items()}
    return Certificate(
        str(facts["source"]),
        str(facts["model"]),
        None if facts["data"] is None else str(facts["data"]),
        facts["objective"],
        str(facts["target"]),
        str(facts["table"]),
        Boundary(_ends(limits["inputs"]), _ends(limits["outputs"]), layouts),
        tuple(_row(text) for text in facts["rows"]),
        Price(**{name: int(count) for name, count in facts["price"].items()}),
        int(facts["bound"]),
        int(facts["fixed"]),
        bool(facts["capped"]),
        tuple(_part(part) for part in facts["components"]),
        _reading(facts["reading"]),
    )


def _reading(facts: Mapping[str, Any]) -> Reading:
    shapes = {str(name): tuple(map(int, shape)) for name, shape in facts["shapes"].items()}
    return Reading(str(facts["custom"]), str(facts["signature"]), shapes, facts.get("max_size"))


def _part(facts: Mapping[str, Any]) -> CertifiedPart:
    numbers = (int(facts[name]) for name in ("booleans", "value", "bound"))
    return CertifiedPart(tuple(map(str, facts["operators"])), *numbers)


def _ends(facts: Any) -> Ends:
    if isinstance(facts, str):
        return facts
    return {name: said if isinstance(said, str) else (str(said[0]), str(said[1])) for name, said in facts.items()}
