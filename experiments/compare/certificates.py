"""Certificates over a corpus: what is proven again, what forging comes to, and what it takes.

Every model is converted for each objective, certified and checked. A row of the table has the models, those of which
every recorded bound reaches the value (that of Reshapes in the recorded orders, where these come first), among those
that are called optimal, the certificates with rows struck out or cases told apart, the processor's seconds of
converting, certifying and checking, and kilobytes on average and at most. Then follow the models that are called
optimal, of which some level rests on the search. With ``--progress`` each model has a line.

Each certificate is also forged: for a file whose nodes read what nothing writes, one whose constants are zero, and with
each bound raised by one, always with digests that fit. The last column says how many of these are refused.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from time import process_time

import onnx

import layoutsolve
from experiments.corpus import CorpusModel, arguments, models, write_json
from layoutsolve import Certificate, CertificateError, ConversionError
from layoutsolve.solver import OBJECTIVES
from layoutsolve.solver.proof.tree import Branch, Tree


@dataclass(frozen=True)
class Result:
    """One model under one objective: levels with their value and the bound that is proven again, how many steps their
    proofs have, seconds and bytes, and how many forged certificates were refused and accepted.
    """

    model: str
    objective: str
    status: str
    tiers: dict[str, tuple[int, int]]
    proven: bool
    steps: int
    seconds: tuple[float, float, float]
    size: int
    refused: int
    accepted: int


def steps(tree: Tree | None) -> int:
    """How many times offers are made in a proof."""
    if isinstance(tree, Branch):
        return steps(tree.inside) + steps(tree.outside)
    return 0 if tree is None else 1 + steps(tree.rest)


def unconnected(model: onnx.ModelProto) -> None:
    """Nodes read what nothing writes, so that all operators are counted as they were."""
    constants = {each.name for each in model.graph.initializer}
    for number, node in enumerate(model.graph.node):
        for place, name in enumerate(node.input):
            if node.op_type != "Transpose" and name not in constants:
                node.input[place] = f"loose{number}.{place}"


def zeroed(model: onnx.ModelProto) -> None:
    """All constants are zero."""
    for constant in model.graph.initializer:
        constant.raw_data = bytes(len(constant.raw_data))


def forged(model: bytes, certificate: Certificate) -> Iterator[tuple[bytes, Certificate]]:
    """Other files and certificates, with digests that fit."""
    changes: tuple[Callable[[onnx.ModelProto], None], ...] = (unconnected, zeroed)
    for change in changes:
        other = onnx.load_from_string(model)
        change(other)
        data = other.SerializeToString(deterministic=True)
        if data != model:
            yield data, replace(certificate, model=hashlib.sha256(data).hexdigest())
    for number, each in enumerate(certificate.bounds):
        raised = replace(each, bound=each.bound + 1)
        yield (
            model,
            replace(certificate, bounds=(*certificate.bounds[:number], raised, *certificate.bounds[number + 1 :])),
        )


def refused(source: bytes, model: bytes, certificate: Certificate) -> bool:
    """Whether a certificate is refused."""
    try:
        layoutsolve.check_certificate(source, model, certificate)
    except CertificateError:
        return True
    return False


def measure(model: CorpusModel, objective: str) -> Result:
    """Convert, certify, check and forge. Raises ConversionError where the model cannot be converted or certified."""
    times, source = [process_time()], model.source
    conversion = layoutsolve.convert(source, objective=objective)
    times.append(process_time())
    certificate = layoutsolve.certify(source, conversion)
    text = certificate.to_json()
    times.append(process_time())
    content = conversion.content("")
    found = layoutsolve.check_certificate(source, content, Certificate.from_json(text))
    times.append(process_time())
    pairs = zip(found.tiers, certificate.bounds, strict=True)
    reached = {"+".join(each.tier): (each.value, claimed.bound) for each, claimed in pairs}
    outcomes = [refused(source, *each) for each in forged(content, certificate)]
    return Result(
        model.name,
        objective,
        str(conversion.report["status"]),
        reached,
        all(value == bound for value, bound in reached.values()) and not any(each.capped for each in found.tiers),
        max(steps(each.proof) for each in certificate.bounds),
        (times[1] - times[0], times[2] - times[1], times[3] - times[2]),
        len(text),
        sum(outcomes),
        len(outcomes) - sum(outcomes),
    )


def row(objective: str, results: Sequence[Result]) -> str:
    """A row of the table."""
    optimal = [each for each in results if each.status == "optimal"]
    seconds = " | ".join(f"{sum(each.seconds[stage] for each in results):.1f}" for stage in range(3))
    sizes = [each.size / 1000 for each in results]
    forgeries = sum(each.refused + each.accepted for each in results)
    return (
        f"| {objective} | {len(results)} | {sum(each.proven for each in results)} | {len(optimal)} | "
        f"{sum(each.proven for each in optimal)} | {sum(each.steps > 1 for each in results)} | {seconds} | "
        f"{sum(sizes) / len(sizes):.1f} | {max(sizes):.0f} | {sum(each.refused for each in results)} of {forgeries} |"
    )


def main(given: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--objective", choices=list(OBJECTIVES), help="one objective (default: all)")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every N-th model (default: 1)")
    parser.add_argument("--progress", action="store_true", help="tell the seconds of each model as it is done")
    options = parser.parse_args(given)
    found: list[Result] = []
    print("| objective | models | proven | optimal | proven | in steps | convert s | certify s | check s", end=" ")
    print("| kB | largest kB | refused |\n|---|---|---|---|---|---|---|---|---|---|---|---|")
    for objective in [options.objective] if options.objective else OBJECTIVES:
        results = []
        for model in list(models(options.folder, options.only))[:: options.every]:
            try:
                results.append(measure(model, objective))
                if options.progress:
                    print(f"{objective} {model.name}: {sum(results[-1].seconds):.2f} s", file=sys.stderr, flush=True)
            except ConversionError as error:
                if isinstance(error, CertificateError):
                    print(f"{objective} {model.name}: {error}")
        found += results
        print(row(objective, results), flush=True)
    for each in found:
        if each.status == "optimal" and not each.proven:
            open_ones = [
                f"{tier} {value} (at least {bound})" for tier, (value, bound) in each.tiers.items() if value > bound
            ]
            print(f"{each.objective} {each.model}: {', '.join(open_ones)}")
    write_json(options.json, [asdict(each) for each in found])


if __name__ == "__main__":
    main()
