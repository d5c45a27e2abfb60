"""Functions of a model: operators in forms that ONNX does not have."""

from __future__ import annotations

from layoutsolve.base.fast_dataclasses import dataclass

PLAN = "layoutsolve.plan"
"""The domain of functions of a model: operators in forms that ONNX does not have."""


@dataclass(frozen=True, slots=True)
class Recast:
    """How a stored tensor becomes that of an operator of ONNX: ``parts`` has for each dimension of the operator the
    stored ones that it is a product of, outermost first. ``blocks`` has the size of each stored dimension that is a
    block, 0 for all others.
    """

    parts: tuple[tuple[int, ...], ...]
    blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """An operator ``op`` of ``domain`` in a form that ONNX does not have: what it reads is recast, and what it writes
    is cast back. None stands for what is as ONNX has it.
    """

    name: str
    op: str
    domain: str
    inputs: tuple[Recast | None, ...]
    outputs: tuple[Recast | None, ...]

    def joined(self, other: Function) -> Function | None:
        """The function that two calls are of, with all inputs that one of them has; None where they are not of one."""
        longer, shorter = sorted((self, other), key=lambda each: -len(each.inputs))
        recasts = longer.inputs[: len(shorter.inputs)], longer.outputs
        alike = (self.op, self.domain) == (other.op, other.domain)
        return longer if alike and recasts == (shorter.inputs, shorter.outputs) else None
