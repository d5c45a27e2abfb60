"""Making certificates and checking them, as a program calls it."""

from __future__ import annotations

import os

from layoutsolve.base import gc_pause
from layoutsolve.base.digest import digest
from layoutsolve.certification.certificate import Bound, Certificate, CertifiedRow
from layoutsolve.certification.checker import Recheck, check, digest_of
from layoutsolve.conversion import arguments
from layoutsolve.conversion.stages import Stages
from layoutsolve.errors import CertificateError, OptionError
from layoutsolve.io.source import Content, Source, load
from layoutsolve.result import HELD, Conversion
from layoutsolve.solver.proof.prover import prove
from layoutsolve.solver.proof.restatement import restate
from layoutsolve.solver.statement.objective import coarse_levels, ranked

PROVING = ("cpsat", "mincut")


@gc_pause.paused()
def certify(source: Source, conversion: Conversion, path: str | os.PathLike[str] | None = None) -> Certificate:
    """Make the certificate of a conversion: its layouts, and a proof of a lower bound on each level of the objective.

    ``source`` is the model that was converted, as a path or as bytes. ``path`` is where the model is saved, before or
    after: it matters for external data only, whose name is in the model. Raises :class:`CertificateError` where the
    strategy proves nothing.
    """
    asked = arguments.instance("conversion", conversion, Conversion)
    target = None if path is None else arguments.path("path", path)
    content = load(source)
    if asked.external is not None and target is None:
        raise OptionError("the constants of this model are kept apart, so it has the name of their file: give its path")
    with Stages(content)("certify"):
        return _certificate(content, asked, asked.content(target or ""))


def _check_proving(conversion: Conversion) -> None:
    """Raise :class:`CertificateError` for a conversion of which nothing is proven."""
    if conversion.kept:
        raise CertificateError(
            f"the source is returned unchanged: {conversion.kept}, so there are no rows to certify; without --certify"
            " it is written"
        )
    if conversion.held:
        raise CertificateError(f"{HELD}, so there are no rows to certify; without --certify it is written")
    strategy = conversion.assignment.strategy
    if strategy not in PROVING:
        also = (
            ", with the objective min-transpose where LiteRT takes longer for others" if conversion.to != "onnx" else ""
        )
        raise CertificateError(
            f"strategy '{strategy}' proves nothing that could be certified: use {' or '.join(PROVING)}{also}"
        )


def _certificate(source: Content, conversion: Conversion, model: bytes) -> Certificate:
    _check_proving(conversion)
    found = conversion.assignment
    solved = found.marked or found
    chosen = [solved.row(number) for number in range(len(solved.rows))]
    try:
        layouts = [row.layouts for row in chosen]
        stated = restate(conversion.graph, conversion.boundary, found.goal, layouts, solved.charged, solved.unseen)
        ways = stated.ways(chosen)
    except CertificateError as error:
        raise CertificateError(
            "the layouts are not among those that the search would state for a check: a heuristic's, or those of"
            " a tensor of one element; without --certify the model is converted"
        ) from error
    first = found.tiers[0]  # among the candidates, which its problem has, more may be proven than of all there is
    known = first.bound if first.status == "optimal" or coarse_levels(found.goal.levels) else first.value
    proofs = prove(stated.questions(found.price), ranked(found.price, stated.claimed), known)
    made = conversion.provenance
    titles = [operator.title for operator in solved.problem.operators]
    return Certificate(
        source.digest,
        digest(model),
        None if conversion.external is None else digest_of(conversion.write_constants),
        conversion.graph.name,
        found.objective,
        found.goal.target.name,
        found.goal.target.digest,
        conversion.opset,
        conversion.boundary,
        tuple(CertifiedRow(title, row.layouts, way) for title, row, way in zip(titles, chosen, ways, strict=True)),
        found.price,
        solved.charged,
        solved.unseen,
        tuple(Bound(tier, *proof) for tier, proof in zip(stated.claimed, proofs, strict=True)),
        conversion.reading,
        made.version,
        made.said,
    )


@gc_pause.paused()
def check_certificate(
    source: Source, model: Source, certificate: Certificate, *, target: str | os.PathLike[str] | None = None
) -> Recheck:
    """Check a certificate against the source and the ONNX file, each given as a path or as bytes, without solving.

    An ONNX model with external data is given as a path. ``target`` is the path of a target that does not come with
    layoutsolve. Returns a :class:`Recheck`: what is proven again. Raises :class:`CertificateError` where the
    certificate does not hold.
    """
    claimed = arguments.instance("certificate", certificate, Certificate)
    table = None if target is None else arguments.target("target", target)
    content, file = load(source), load(model, "model")
    with Stages(content)("check"):
        data = None
        if claimed.data is not None:
            if file.path is None:
                raise CertificateError("the constants of this model are apart: give the path of the ONNX file")
            data = load(f"{file.path}.data").digest
        return check(claimed, content, file.data, data, file.path or "", table)
