"""Operators that compute every element from the elements at the same place, with broadcasting."""

from __future__ import annotations

from itertools import chain

from layoutsolve.graph import Shape, Size
from layoutsolve.solver.problem import Row
from layoutsolve.solver.rule import Arranged, Dims, Rule, Site, numbered, rule

UNARY = (
    "Abs", "Acos", "Asin", "Atan", "BitwiseNot", "Cast", "Ceil", "Clip", "Cos", "Elu", "Erf", "Exp", "Floor", "Gelu",
    "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Log", "Mish", "Neg", "Not", "Reciprocal",
    "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh",
    "ThresholdedRelu",
)  # fmt: skip

BROADCASTING = (
    "Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater", "GreaterOrEqual",
    "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul", "Or", "PRelu", "Pow", "Sub", "Sum", "Where", "Xor",
)  # fmt: skip


@rule(*UNARY)
def unary(site: Site) -> Rule:
    """Any layout, the same on both sides; further inputs are scalars."""
    dims = numbered(site.output().shape)
    return Rule((0,), (dims, dims), (Arranged(frame=1),), lambda row, shapes: site.same())


@rule(*BROADCASTING)
def broadcasting(site: Site) -> Rule:
    """Any layout; an operand lacks the dimensions along which it is repeated."""
    shape = site.output().shape
    inputs = tuple(number for number, name in enumerate(site.node.inputs) if name)
    operands = tuple(aligned(site.required(number).shape, shape) for number in inputs)
    form, dims = Arranged(frame=len(inputs), broadcast=True), (*operands, numbered(shape))
    repeated = any({*chain(*operand)} not in (set(), {*chain(*dims[-1])}) for operand in operands)
    return Rule(inputs, dims, (form,), lambda row, shapes: site.same(), kind=run_length if repeated else None)


RUNS = (24, 64)
"""From how many elements on runs are no longer the shortest, and from how many on they are long."""


def run_length(row: Row, shapes: tuple[Shape, ...]) -> str:
    """The kind of an operator with broadcasting: how long the runs are in which each operand either goes along with the
    result or stays, the inner loops of kernels.
    """
    *operands, result = shapes
    length, innermost = 1, None
    for place in range(1, len(result) + 1):
        size = result[-place]
        if size == 1:
            continue
        if isinstance(size, Size):
            return "long runs"
        along = [place <= len(operand) and operand[-place] != 1 for operand in operands]
        if innermost not in (None, along):
            return next((f"runs below {limit}" for limit in RUNS if length < limit), "long runs")
        length, innermost = length * size, along
    return "long runs"


def aligned(shape: Shape, output: Shape) -> Dims:
    """The labels of an operand's dimensions, aligned with the output's last ones."""
    offset = len(output) - len(shape)
    return tuple((f"d{offset + axis}",) if dim != 1 else () for axis, dim in enumerate(shape))
