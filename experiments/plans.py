"""Whether plans of all layout systems run: each model as planned against the same model with nothing chosen.

Every model of a folder is planned for every target that has forms of its own, and run in ONNX Runtime without
optimisation, like the model that the strategy ``transpose`` writes of it. Told is, by target: how many there are,
how many are proven minimal, what they have of conversions, how far results are apart (floats by their range; what is
quantised has to be the same), and how long planning takes. The Transposes of a file have to be those that its plan
says (conversions, and views of the source that stay operators), and its price.

    python -m experiments.plans FOLDER [--only TEXT] [--target acl] [--zoo] [--json FILE]
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

import layoutsolve
from experiments.corpus import arguments, models, write_json
from experiments.zoo import zoo
from layoutsolve.graph import Array
from layoutsolve.solver.statement.target_file import SYSTEMS
from layoutsolve.verification.runtimes import OnnxRuntime, element
from layoutsolve.verification.verify import smooth

SIZE = 2
"""What sizes that have names alone are."""

NEAR, FAR = 1e-6, 1e-4
"""How far floats are apart, by their range, where nothing but their last bits differs; and how far they may be, where
sums are in another order and what follows amplifies that.
"""


@dataclass(frozen=True)
class Found:
    """A plan: its target, what is proven, its conversions (Transposes, Reshapes), what the price has hidden, how far
    results are apart (None where the source does not run either), what is wrong with it, and the seconds it took.
    """

    model: str
    target: str
    status: str = ""
    transposes: int = 0
    reshapes: int = 0
    hidden: int = 0
    distance: float | None = None
    wrong: str = ""
    seconds: float = 0.0


def fed(runtime: OnnxRuntime) -> dict[str, Array]:
    """Smooth inputs."""
    generator = np.random.default_rng(0)
    return {
        name: smooth(element(kind), [dim if isinstance(dim, int) else SIZE for dim in shape], generator)
        for name, kind, shape in runtime.inputs
    }


def apart(one: Array, other: Array) -> float:
    """How far two results are from each other: floats by their range, infinite where they have to be the same."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return float("inf")
    if one.dtype.kind != "f":
        return 0.0 if np.array_equal(one, other) else float("inf")
    if np.array_equal(one, other, equal_nan=True):
        return 0.0
    finite = np.isfinite(one)
    if not np.array_equal(one[~finite], other[~finite], equal_nan=True):
        return float("inf")
    span = max(float(np.abs(one[finite]).max(initial=0.0)), 1e-6)
    return float(np.abs(one[finite] - other[finite]).max(initial=0.0)) / span


def planned(name: str, source: bytes, targets: Sequence[str]) -> Iterator[Found]:
    """The plans of a model for some targets; none where it cannot be converted at all."""
    try:
        direct = layoutsolve.convert(source, strategy="transpose", target="onnx")
    except layoutsolve.ConversionError:
        return
    truth: list[Array] = []
    inputs: dict[str, Array] = {}
    try:
        runtime = OnnxRuntime(direct.content("model.onnx"), level="none")
        inputs = fed(runtime)
        truth = runtime.run(inputs)
    except layoutsolve.VerifyError:
        pass  # it is planned all the same
    names = [port.name for port in direct.model.graph.output][: len(direct.graph.outputs)]  # states lie as it is best
    for target in targets:
        start = time.process_time()
        try:
            found = layoutsolve.convert(source, target=target)
            plan = layoutsolve.plan(source, found)
        except layoutsolve.ConversionError as error:
            yield Found(name, target, wrong=str(error))
            continue
        spent = time.process_time() - start
        wrong, distance = _counted(found, plan), None
        if truth:
            runtime = OnnxRuntime(found.content("model.onnx"), level="none")
            given = dict(zip((each for each, _, _ in runtime.inputs), inputs.values(), strict=True))
            results = runtime.run(given)
            far = {name: apart(*pair) for name, *pair in zip(names, truth, results, strict=False)}
            worst = max(far, key=far.__getitem__)
            distance = far[worst]
            wrong = wrong or (f"'{worst}' is {distance:.2e} off" if distance > FAR else "")
        price, status = found.price, found.assignment.status
        counts = price.transposes, price.reshapes, price.hidden
        yield Found(name, target, status, *counts, distance, wrong, spent)


def _counted(found: layoutsolve.Conversion, plan: layoutsolve.Plan) -> str:
    """What is wrong with the numbers of a plan."""
    written = sum(node.op_type == "Transpose" for node in found.model.graph.node)
    kept = (step for each in plan.facts["operators"] for step in each.get("written", ()))  # views that stay operators
    said = sum(each["transposes"] for each in plan.facts["conversions"])
    said += sum(step["operator"] == "Transpose" for step in kept)
    looped = any(node.op_type in ("If", "Loop", "Scan") for node in found.model.graph.node)
    if not looped and not written == said == found.price.transposes:
        return f"{written} Transposes in the file, {said} in the plan, {found.price.transposes} in the price"
    return ""


def summary(target: str, found: Sequence[Found]) -> str:
    """What came of a target, in words."""
    plans = [each for each in found if each.status]
    proven = sum(each.status == "optimal" for each in plans)
    ran = [each.distance for each in plans if each.distance is not None]
    off = [each for each in ran if each > NEAR]
    return (
        f"{target}: {len(plans)} plans of {len(found)} models, {proven} proven, "
        f"{sum(each.transposes for each in plans)} Transposes, {sum(each.reshapes for each in plans)} Reshapes, "
        f"hidden {sum(each.hidden for each in plans)}; {len(ran)} run, {len(off)} further off than {NEAR:g}, "
        f"at most {max(ran, default=0.0):.1e}; "
        f"{sum(each.seconds for each in plans):.1f} s"
    )


def main(given: Sequence[str] | None = None) -> int:
    """The command line; 1 where something is wrong with a plan."""
    parser = arguments(__doc__)
    parser.add_argument("--target", action="append", metavar="NAME|FILE", help="one target, instead of all")
    parser.add_argument("--zoo", action="store_true", help="the cases and random networks of the zoo as well")
    parser.add_argument("--networks", type=int, default=300, help="how many random networks (default: 300)")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every N-th conformance case (default: 1)")
    options = parser.parse_args(given)
    targets = options.target or [name for name in SYSTEMS if name != "onnx"]
    sources = [(model.name, model.source) for model in models(options.folder, options.only)]
    sources += zoo(options.networks, options.every) if options.zoo else []
    found: list[Found] = []
    for name, source in sources:
        for each in planned(name, source, targets):
            found.append(each)
            if each.wrong:
                print(f"* {each.model}, {each.target}: {each.wrong}", flush=True)
        write_json(options.json, [asdict(each) for each in found])  # as far as it has come
    for target in targets:
        print(summary(target, [each for each in found if each.target == target]))
    return int(any(each.wrong for each in found))


if __name__ == "__main__":
    raise SystemExit(main())
