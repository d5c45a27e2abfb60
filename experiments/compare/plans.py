"""Whether plans of all layout systems run: each model as planned against the same model with nothing chosen.

Every model of a folder is planned for every target that has forms of its own, and run in ONNX Runtime without
optimisation, like the model that the strategy ``transpose`` writes of it. Told is, by target: how many there are, how
many are proven minimal, what they have of conversions, how far results are apart (floats by their range; what is
quantized has to be the same), and how long planning takes. Where floats are further apart than their last bits, both
are held against the model in numbers of 64 bits (:mod:`experiments.compare.doubles`): sums in another order are as near
to it. The Transposes of a file have to be those that its plan says (conversions, and views of the source that stay
operators), and its price; and what is written from the plan again has to be the same bytes.

    python -m experiments.compare.plans FOLDER [--only TEXT] [--target acl] [--zoo] [--json FILE]
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

import layoutsolve
from experiments.compare.doubles import exact, off
from experiments.corpus import arguments, models, write_json
from experiments.make.zoo import zoo
from layoutsolve.ir.graph import Array
from layoutsolve.solver.targets.target_file import SYSTEMS
from layoutsolve.verification.input_sampling import smooth
from layoutsolve.verification.runtimes import OnnxRuntime, element

SIZE = 2
"""What sizes that have names alone are."""

NEAR, FAR = 1e-6, 1e-4
"""How far floats are apart, by their range, where nothing but their last bits differs; and how far they may be, where
sums are in another order and what follows amplifies that, and nothing tells the exact result.
"""

ALIKE, SAMPLES = 2, 4
"""How many times as far as the direct result a plan's may be from the exact one, where the two are not near; and for
how many inputs the largest of these distances is taken, as they are chance.
"""


@dataclass(frozen=True)
class Found:
    """A plan: its target, what is proven, its conversions (Transposes, Reshapes), what the price has hidden, how far
    results are apart (None where the source does not run either), what is wrong with it, and the seconds it took.
    ``exact`` is how far the direct result and that of the plan are from the exact one, where they are not near.
    """

    model: str
    target: str
    status: str = ""
    transposes: int = 0
    reshapes: int = 0
    hidden: int = 0
    distance: float | None = None
    exact: tuple[float, float] | None = None
    wrong: str = ""
    seconds: float = 0.0


def fed(runtime: OnnxRuntime, seed: int = 0) -> dict[str, Array]:
    """Smooth inputs."""
    generator = np.random.default_rng(seed)
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


class Direct:
    """A model with nothing chosen: what it gives for smooth inputs, some of them where asked for, and what is exact."""

    def __init__(self, source: bytes) -> None:
        self.made = layoutsolve.convert(source, strategy="transpose", target="onnx")
        self.names = [port.name for port in self.made.model.graph.output]
        self.names = self.names[: len(self.made.graph.outputs)]  # states lie as it is best
        self.runtime: OnnxRuntime | None = None
        self.inputs: list[dict[str, Array]] = []
        self.results: list[list[Array]] = []
        self.wide: list[list[Array]] = []
        try:
            self.runtime = OnnxRuntime(self.made.content("model.onnx"), level="none")
            self._sampled(0)
        except layoutsolve.VerifyError:  # it is planned all the same
            self.runtime = None

    def _sampled(self, number: int) -> None:
        """Have so many results and one more."""
        while self.runtime is not None and len(self.results) <= number:
            self.inputs.append(fed(self.runtime, len(self.inputs)))
            self.results.append(self.runtime.run(self.inputs[-1]))

    def beside(self, found: layoutsolve.Conversion) -> tuple[float | None, tuple[float, float] | None, str]:
        """How far the results of a plan are from the direct ones, how far both are from the exact ones where they are
        not near, and what is wrong with them.
        """
        if self.runtime is None:
            return None, None, ""
        planned = OnnxRuntime(found.content("model.onnx"), level="none")
        results = self._given(planned, 0)
        far = [apart(*pair) for pair in zip(self.results[0], results, strict=False)][: len(self.names)]
        worst = max(range(len(far)), key=far.__getitem__)
        if far[worst] <= NEAR or far[worst] == float("inf"):
            return far[worst], None, f"'{self.names[worst]}' differs" if far[worst] > NEAR else ""
        pairs = [each for number in range(SAMPLES) if (each := self._pair(planned, number, worst)) is not None]
        exactly = (max(each[0] for each in pairs), max(each[1] for each in pairs)) if pairs else None
        right = far[worst] <= FAR if exactly is None else exactly[1] <= max(ALIKE * exactly[0], NEAR)
        return far[worst], exactly, "" if right else f"'{self.names[worst]}' is {far[worst]:.2e} off"

    def _given(self, planned: OnnxRuntime, number: int) -> list[Array]:
        """What a plan gives for the same inputs."""
        names = (name for name, _, _ in planned.inputs)
        return planned.run(dict(zip(names, self.inputs[number].values(), strict=True)))

    def _pair(self, planned: OnnxRuntime, number: int, place: int) -> tuple[float, float] | None:
        """How far a result of both is from the exact one; None where the reference does not have the operators."""
        self._sampled(number)
        try:
            while len(self.wide) <= number:
                self.wide.append(exact(self.made.model, self.inputs[len(self.wide)]))
        except (ArithmeticError, LookupError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
            print(f"  no exact result: {type(error).__name__}: {str(error)[:80]}", flush=True)
            return None
        truth = self.wide[number][place]
        return off(self.results[number][place], truth), off(self._given(planned, number)[place], truth)


def planned(name: str, source: bytes, targets: Sequence[str]) -> Iterator[Found]:
    """The plans of a model for some targets; none where it cannot be converted at all."""
    try:
        direct = Direct(source)
    except layoutsolve.ConversionError:
        return
    for target in targets:
        start = time.process_time()
        try:
            found = layoutsolve.convert(source, target=target)
            plan = layoutsolve.plan(source, found)
        except layoutsolve.ConversionError as error:
            yield Found(name, target, wrong=str(error))
            continue
        spent = time.process_time() - start
        distance, exactly, wrong = direct.beside(found)
        wrong = _counted(found, plan) or _again(source, found, plan, target) or wrong
        price, status = found.price, found.assignment.status
        counts = price.transposes, price.reshapes, price.hidden
        yield Found(name, target, status, *counts, distance, exactly, wrong, spent)


def _again(source: bytes, found: layoutsolve.Conversion, plan: layoutsolve.Plan, target: str) -> str:
    """What is wrong with the model that is written from a plan."""
    try:
        made = layoutsolve.convert_by(source, layoutsolve.Plan.from_json(plan.to_json()), target=target)
    except layoutsolve.ConversionError as error:
        return f"its plan is refused: {error}"
    return "" if made.content("model.onnx") == found.content("model.onnx") else "its plan gives other bytes"


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
    far = [each for each in ran if each > NEAR]
    pairs = [each.exact for each in plans if each.exact is not None]
    told = (
        f" ({sum(own <= direct for direct, own in pairs)} of {len(pairs)} nearer to the exact result)" if pairs else ""
    )
    return (
        f"{target}: {len(plans)} plans of {len(found)} models, {proven} proven, "
        f"{sum(each.transposes for each in plans)} Transposes, {sum(each.reshapes for each in plans)} Reshapes, "
        f"hidden {sum(each.hidden for each in plans)}; {len(ran)} run, {len(far)} further off than {NEAR:g}{told}, "
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
            if each.status not in ("", "optimal"):
                print(f"  {each.model}, {each.target}: {each.status}", flush=True)
            if each.wrong:
                print(f"* {each.model}, {each.target}: {each.wrong}", flush=True)
            if each.exact is not None:
                told = f"{each.distance:.1e} apart, from the exact result {each.exact[0]:.1e} directly"
                print(f"  {each.model}, {each.target}: {told}, {each.exact[1]:.1e} as planned", flush=True)
    write_json(options.json, [asdict(each) for each in found])
    for target in targets:
        print(summary(target, [each for each in found if each.target == target]))
    return int(any(each.wrong for each in found))


if __name__ == "__main__":
    raise SystemExit(main())
