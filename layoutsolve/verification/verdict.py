"""The verdict on a conversion: how far each output is from the truth, and whether that passes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from layoutsolve.base.wording import counted
from layoutsolve.errors import DIFFERENT, UNVERIFIED
from layoutsolve.verification.layer_accuracy import Inspection
from layoutsolve.verification.layer_table import lines_of
from layoutsolve.verification.metrics import (
    FACTOR,
    Distance,
    Kind,
    passes,
    reason,
)
from layoutsolve.verification.refusals import RefusedError

PLAIN, TWIN = "LiteRT's reference kernels", "LiteRT's reference kernels with dequantized weights"
"""What a model is judged by. LiteRT rounds the activations of operators with float results and quantized weights at run
time, more than the ONNX model does, which keeps them as they are; it does not where the weights are floats.
"""


ROUNDING = "the source's own results move as far by it"
"""Why an output of a source in ONNX passes that is off by more."""


@dataclass(frozen=True)
class OutputComparison:
    """One output: its ONNX name, the kind of its numbers, how far it is from the ``truth``, and the verdict.

    ``xnnpack`` is how far LiteRT's own default path (XNNPACK) is from the truth, None where that does not run. Where
    the truth is :data:`TWIN`, ``rounded`` is how far the output is from what LiteRT makes of the model itself.
    ``accumulated`` is, where every operator by itself is right, how far all of them are in a row without ONNX
    Runtime's optimiser. An output passes within the tolerance, and if it is about as far off as XNNPACK on average, or
    as what roundings of operators accumulate to.
    """

    name: str
    kind: Kind
    distance: Distance
    xnnpack: Distance | None
    tolerance: float
    truth: str = PLAIN
    rounded: Distance | None = None
    accumulated: Distance | None = None
    agrees: bool = field(init=False)
    passed: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "agrees", passes(self.kind, self.distance, self.tolerance))
        passed = self.agrees or self.no_further_than_xnnpack or self.no_further_than_accumulated
        object.__setattr__(self, "passed", passed)

    @property
    def no_further_than_xnnpack(self) -> bool:
        """Whether the converted model is about as close to the truth as LiteRT's own default path is."""
        return self.xnnpack is not None and self.distance.no_further_than(self.xnnpack)

    @property
    def no_further_than_accumulated(self) -> bool:
        """Whether the output is off by what roundings of operators accumulate to, each of which is right alone. No
        rounding gives another shape.
        """
        within = self.accumulated is not None and self.distance.mean <= 2 * self.accumulated.mean
        return within and self.distance.of_shape

    @property
    def reason(self) -> str:
        """Why it passes, or does not, in words."""
        beside = ""
        if not self.agrees and self.xnnpack is not None and self.no_further_than_xnnpack:
            chance = self.distance.mean > self.xnnpack.mean * FACTOR
            beside = f", mean error within {FACTOR:g}x of XNNPACK's{' and deviation by chance' * chance}"
        elif not self.agrees and self.passed:
            by = "every operator agrees with LiteRT's by itself" if self.truth in (PLAIN, TWIN) else ROUNDING
            beside = f", accumulated rounding: {by}"
        found = reason(self.kind, self.distance, self.tolerance, beside)
        return found if self.truth in (PLAIN, TWIN) else found.replace("LiteRT's", "the source's")

    def __str__(self) -> str:
        lines = [
            f"{'pass' if self.passed else 'FAIL'} {self.name} ({self.kind}): {self.reason}",
            f"     {self.distance}",
        ]
        if self.xnnpack is not None and (self.kind == "quantized" or not self.agrees):
            lines.append(f"     LiteRT with XNNPACK: {self.xnnpack}")
        if self.rounded is not None:
            lines.append(f"     by {self.truth}; from LiteRT as it is, which rounds activations: {self.rounded}")
        return "\n".join(lines)


Verdict = Literal["pass", "FAIL", "not verified"]


@dataclass(frozen=True)
class Verification:
    """Accuracy of a conversion: the comparison of all outputs with the source's.

    ``samples`` inputs were drawn from ``seed``, or given, and each was run ``steps`` times in a row. ``inspection`` is
    the layer-wise comparison, None where there was none, and ``distributions`` are those of the inputs, ``sizes`` the
    sizes that dynamic dimensions had in turn. ``refusal`` is the reason why nothing was compared, or why results differ
    by design: where a runtime refuses the source the conversion is 'not verified', where it refuses the result that is
    wrong.
    """

    outputs: tuple[OutputComparison, ...]
    seed: int
    samples: int
    steps: int = 1
    inspection: Inspection | None = None
    distributions: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    refusal: str = ""
    verdict: Verdict = "pass"
    agrees: bool = field(init=False)
    passed: bool = field(init=False)

    def __post_init__(self) -> None:
        departs = self.inspection is not None and self.inspection.departure is not None
        passed = all(output.passed for output in self.outputs) and not departs and not self.refusal
        verdict = self.verdict if self.refusal else "pass" if passed else "FAIL"
        object.__setattr__(self, "agrees", all(output.agrees for output in self.outputs) and not self.refusal)
        object.__setattr__(self, "passed", passed)
        object.__setattr__(self, "verdict", verdict)

    @property
    def code(self) -> int:
        """Exit code of the command line."""
        return {"pass": 0, "FAIL": DIFFERENT, "not verified": UNVERIFIED}[self.verdict]

    def __str__(self) -> str:
        if self.refusal:
            layers = () if self.inspection is None else self.inspection.layers
            return "\n".join((*self.refused, *(lines_of(layers) if layers else ())))
        steps = f", {self.steps} steps each" if self.steps > 1 else ""
        kinds = f" ({', '.join(self.distributions)})" if self.distributions else ""
        compared = f"compared on {counted(self.samples, 'input')}{kinds}{steps}"
        if self.sizes:
            compared += f", dynamic dimensions: {'; '.join(self.sizes)}"
        inside = () if self.inspection is None else (self.inspection,)
        return "\n".join(map(str, (*self.outputs, *inside, compared)))

    @property
    def refused(self) -> tuple[str, ...]:
        """Lines that give the reason why nothing is verified, or not all, without the table of tensors."""
        distances = self.outputs if self.inspection is None else ()
        return f"{self.verdict}: {self.refusal}", *(f"     {each.name}: {each.distance}" for each in distances)


def not_run(error: RefusedError, seed: int = 0) -> Verification:
    """Result where a runtime refuses a model."""
    return Verification((), seed, 0, refusal=str(error), verdict="FAIL" if error.result else "not verified")
