"""Checking certificates without a search, and without anything that searches.

What is proven again, given the files and the certificate:

* The source is read and stated as a layout problem anew, by the rules and by closure.
* Each operator can run in the row that is recorded, and the rows cost what is recorded.
* The file is what the rows say: it is written again, byte by byte. What one in ONNX costs is counted in it once more;
  operators of TensorFlow Lite are no such measure, as some contain what others are written for. The options that it
  names are those of the certificate.
* No level of the price can be below its bound: the dual values of the proof are added up in whole numbers, over the
  problem as it was stated, so that nothing depends on how the rows were found. Levels without such a bound are counted,
  and said to be no more than that.

What is trusted beside this is reading, the rules with closure, and the writer: they are those of the conversion.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, cast

from layoutsolve.base.digest import Buffer, digest
from layoutsolve.base.wording import kept_as_is, level_name, one_line
from layoutsolve.certification.audit import copied_bytes, recount
from layoutsolve.certification.certificate import Certificate
from layoutsolve.conversion.arguments import Options
from layoutsolve.conversion.provenance import Provenance
from layoutsolve.conversion.stages import Stages
from layoutsolve.conversion.translation import FileOptions, content_of, emitted, kernels_of, reference
from layoutsolve.emit import QuantForm, meant, serialise
from layoutsolve.errors import CertificateError, ConversionError
from layoutsolve.io.source import Content
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.graph import KEPT, Graph
from layoutsolve.solver.proof.restatement import Restated, restate
from layoutsolve.solver.statement.assignment import Assignment
from layoutsolve.solver.statement.objective import Goal, coarse_levels, ranked
from layoutsolve.solver.targets.target import Target
from layoutsolve.solver.targets.target_file import KNOWN, shipped

_FILES = {"onnx": "ONNX file", "tflite": "TensorFlow Lite file"}

TRUSTED = "trusted: reading the source, the rules and candidate generation, the writer"
"""What a check relies on, for people."""


@dataclass(frozen=True)
class CheckedTier:
    """A level of the price: its ``value``, which was counted again, and the lower ``bound`` that was proven again.

    It is ``proven`` that no other layouts are below the value, where those of all levels before it are proven as well;
    a value of 0 is. A bound that is ``capped`` holds within the candidates only, as there were too many, or as
    groupings that are decided with orders are never all. A level that is ``counted`` has no bound, as Reshapes where
    orders come first: their recorded bound is one for the recorded orders.
    """

    tier: tuple[str, ...]
    value: int
    bound: int
    capped: bool
    counted: bool
    proven: bool

    @property
    def standing(self) -> str:
        """What its value rests on, for people."""
        if self.proven:
            return _STANDINGS[0]
        return _STANDINGS[1] if self.counted else _STANDINGS[3 if self.capped else 2]

    def __str__(self) -> str:
        least = "" if self.bound == self.value or self.counted else f" (at least {self.bound})"
        return f"{level_name(self.tier)} {self.value}{least}"


_STANDINGS = ("proven minimal again", "counted, not proven", "resting on the search", "among the candidates alone")


@dataclass(frozen=True)
class Recheck:
    """Result of checking a certificate: the objective levels that are proven again.

    The last level, ``copies``, are bytes of duplicated initializers, which are counted: only 0 is proven minimal.
    ``kept_operators`` counts by name the operators that are kept in their own layout: proofs are relative to these.
    """

    tiers: tuple[CheckedTier, ...]
    copies: int
    kept_operators: Mapping[str, int] = field(default_factory=dict)

    @property
    def proven(self) -> bool:
        """Whether all levels are proven minimal."""
        return not self.copies and all(each.proven for each in self.tiers)

    @property
    def lines(self) -> list[str]:
        """Lines of the result, for people."""
        last = CheckedTier(("copies",), self.copies, 0, False, counted=self.copies > 0, proven=not self.copies)
        tiers = (*self.tiers, last)
        found = {standing: [str(each) for each in tiers if each.standing == standing] for standing in _STANDINGS}
        kept = {_STANDINGS[0]: kept_as_is(self.kept_operators)}
        said = [f"{standing}{kept.get(standing, '')}: {', '.join(each)}" for standing, each in found.items() if each]
        return ["the file is what its alternatives describe", *said]

    def __str__(self) -> str:
        return "; ".join(self.lines)


def check(
    certificate: Certificate,
    source: Content,
    model: Buffer,
    data: str | None,
    path: str = "",
    target: Target | None = None,
) -> Recheck:
    """Check a certificate against the contents of files; ``data`` is the SHA-256 of the constants beside the model.

    ``path`` is that of the model, which it has in it where its constants are apart. ``target`` is the one that the
    model is for, by default that of its name which comes with layoutsolve. Raises :class:`CertificateError` where
    something does not hold.
    """
    _check_digests(certificate, source, model, data)
    goal = Goal(certificate.objective, _target(certificate, target))
    try:
        options = _options(certificate, goal)
        budget = Budget(len(source.data), certificate.reading.max_size)
        named = replace(source, name=certificate.name)
        graph = reference(named, certificate.reading, Stages(source), options.opset, budget)
        layouts = [row.layouts for row in certificate.rows]
        stated = restate(graph, certificate.boundary, goal, layouts, certificate.charged, certificate.unseen)
        assignment = _assignment(stated, certificate)
        made = Provenance.of(source, certificate.version, certificate.options, options.own_target)
        if options.to == "tflite":
            from layoutsolve.conversion.tflite_file import tflite_file  # which few certificates need

            asked = certificate.boundary, assignment, certificate.reading, made
            written = tflite_file(source, graph, *asked, budget).data
        else:
            written = _written(graph, assignment, certificate, made, path, budget)
    except CertificateError:
        raise
    except ConversionError as error:
        raise CertificateError(f"the certificate does not fit the source: {one_line(error)}") from error
    if written != model:
        raise CertificateError(f"the {_FILES[options.to]} is not what the recorded rows are written as")
    _check_options(options, goal, certificate)
    if options.to == "onnx":
        _check_count(stated, assignment, graph, written, certificate)
    return replace(_check_bounds(stated, certificate), kept_operators=assignment.kept)


def _check_digests(certificate: Certificate, source: Content, model: Buffer, data: str | None) -> None:
    for found, wanted, name in (
        (source.digest, certificate.source, "source"),
        (digest(model), certificate.model, _FILES["onnx" if certificate.opset else "tflite"]),
        (data, certificate.data, "file of constants"),
    ):
        if found != wanted:
            raise CertificateError(f"the {name} is not the one that the certificate is about: its SHA-256 differs")


def _target(certificate: Certificate, given: Target | None) -> Target:
    """The target that the certificate is about, with the very table that it was."""
    if given is None and certificate.target not in KNOWN:
        raise CertificateError(
            f"the certificate is about target '{certificate.target}', which does not come with layoutsolve: "
            "give its file as target"
        )
    found = given or shipped(certificate.target)
    if found.name != certificate.target:
        raise CertificateError(f"the certificate is about target '{certificate.target}', not '{found.name}'")
    if found.digest != certificate.table:
        raise CertificateError(
            f"target '{found.name}' has changed since the certificate was written: convert and certify again"
        )
    return found


def _assignment(stated: Restated, certificate: Certificate) -> Assignment:
    """The recorded assignment, which has to be one of the source's operators and to cost what is recorded."""
    for operator, row in zip(stated.fine.operators, certificate.rows, strict=True):
        if operator.title != row.title:
            raise CertificateError(
                f"the certificate has operator '{row.title}' where the source has '{operator.title}'"
            )
    found = stated.assignment([row.way for row in certificate.rows])
    if found.price != certificate.price:
        raise CertificateError(f"the recorded alternatives cost {found.price}, not {certificate.price}")
    return found


def _written(
    graph: Graph, assignment: Assignment, certificate: Certificate, made: Provenance, path: str, budget: Budget
) -> bytes:
    """The ONNX file that the assignment is written as; constants beside it have to be those that are recorded."""
    asked = FileOptions(certificate.opset, certificate.data is not None)
    model, external, _ = emitted(graph, certificate.boundary, assignment, certificate.reading, made, asked, budget)
    if external is not None and digest_of(external.write) != certificate.data:
        raise CertificateError("the file of constants is not what the recorded rows are written as")
    return content_of(model, external, path)


def _options(certificate: Certificate, goal: Goal) -> Options:
    """The options that the certificate names."""
    try:
        return Options.parsed(certificate.options, goal.target)
    except (TypeError, ValueError, AttributeError, RecursionError) as error:
        raise CertificateError(f"the certificate names no options ({error})") from error


def _check_options(options: Options, goal: Goal, certificate: Certificate) -> None:
    """The options that the file names have to be those that the rest of the certificate is about."""
    about = goal, certificate.boundary, certificate.reading
    same = options.text == certificate.options and (options.goal, options.boundary, options.reading) == about
    apart = certificate.data is not None
    if not (same and options.opset in (None, certificate.opset) and options.external_data in (None, apart)):
        raise CertificateError("the options that the file names are not those that the certificate is about")


def _check_count(
    stated: Restated, assignment: Assignment, graph: Graph, model: bytes, certificate: Certificate
) -> None:
    """The file, recounted, has to show all that a file can show of the price.

    Copies of constants are recounted where the constants are in the file.
    """
    import onnx

    price, written = certificate.price, onnx.load_from_string(model)
    kernels = kernels_of(certificate.reading, stated.goal.target)
    try:
        given = {name for node in graph.nodes if node.op.startswith(KEPT) for name in node.outputs}
        found = recount(written, given, meant(assignment))
        again = serialise(graph, quant=QuantForm(kernels)) if certificate.data is None else None
        copies = price.copies if again is None else copied_bytes(written, again)
    except ValueError as error:
        raise CertificateError(f"the ONNX file cannot be recounted: {error}") from error
    inside = stated.inside(assignment)
    for name, counted, claimed in (
        ("Transpose operators", found.transposes, price.transposes),
        ("Reshape operators", found.reshapes, price.reshapes),
        ("bytes moved by Transposes", found.bytes, price.bytes),
        ("units of layout penalty of Transposes", found.hidden(stated.goal.target.hidden), price.hidden - inside),
        ("bytes of duplicated initializers", copies, price.copies),
    ):
        if counted != claimed:
            raise CertificateError(f"the ONNX file has {counted} {name}, not {claimed}")


def _check_bounds(stated: Restated, certificate: Certificate) -> Recheck:
    """The proof of every bound has to prove it, over the problem as it was stated.

    What is proven of a level is proven beside the recorded values of those before it. So it says that the value is
    least only where theirs are.
    """
    if tuple(each.tier for each in certificate.bounds) != stated.claimed:
        raise CertificateError("the certificate has bounds of other levels than the objective's")
    found: list[CheckedTier] = []
    values, coarse = ranked(certificate.price, stated.claimed), coarse_levels(stated.goal.levels)
    some = coarse is None and certificate.price.reshapes > 0
    for question, value, claimed in zip(stated.questions(certificate.price), values, certificate.bounds, strict=True):
        name = "+".join(claimed.tier)
        try:
            proven = claimed.bound >= 0 and question.proves(claimed.proof, claimed.bound)
        except RecursionError as error:
            raise CertificateError(f"the proof of the bound on {name} has too many steps and cases") from error
        except ValueError as error:
            raise CertificateError(f"the proof of the bound on {name} is none: {error}") from error
        if not proven:
            raise CertificateError(f"the bound of {claimed.bound} on {name} does not follow from its proof")
        if claimed.bound > value:
            raise CertificateError(f"a bound of {claimed.bound} on {name} is above the price of what it is about")
        counted = coarse is not None and len(found) >= len(coarse) and value > 0
        capped = (question.problem.capped or some) and value > 0 and not counted
        bound = 0 if counted else claimed.bound
        least = bound == value and not capped and all(each.proven for each in found)
        found.append(CheckedTier(claimed.tier, value, bound, capped, counted, value == 0 or least))
    return Recheck(tuple(found), certificate.price.copies)


class Digest(io.RawIOBase):
    """A file that is not written, but hashed and measured."""

    def __init__(self) -> None:
        self.hash, self.size = hashlib.sha256(), 0

    def write(self, data: Any) -> int:
        self.hash.update(data)
        self.size += len(data)
        return len(data)


def digest_of(write: Callable[[BinaryIO], object]) -> str:
    """The SHA-256 of what is written."""
    found = Digest()
    write(cast(BinaryIO, found))
    return found.hash.hexdigest()
