"""Operators that compute every element from the elements at the same place, with broadcasting."""

from __future__ import annotations

from layoutsolve.ir.graph import Shape
from layoutsolve.solver.theory.kind import repeating
from layoutsolve.solver.theory.relation import Arranged, Placed
from layoutsolve.solver.theory.rule import Dims, Rule, Site, Way, numbered, rule

UNARY = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitCast", "BitwiseNot", "Cast", "Ceil", "Celu", "Clip",
    "Cos", "Cosh", "Elu", "Erf", "Exp", "Floor", "Gelu",
    "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Log", "Mish", "Neg", "Not", "Reciprocal",
    "RegexFullMatch", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign",
    "Sqrt", "Swish", "Tan", "Tanh", "ThresholdedRelu",
)  # fmt: skip

BROADCASTING = (
    "Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater", "GreaterOrEqual",
    "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul", "Or", "PRelu", "Pow", "StringConcat", "Sub", "Sum",
    "SwiGLU", "Where", "Xor",
)  # fmt: skip

ELEMENTWISE = frozenset((*BROADCASTING, *UNARY))
"""What runtimes fuse with what gives its input."""

COMPLETE = frozenset(("PRelu", "SwiGLU"))
"""Operators whose operands keep all dimensions: OpenVINO (2026.4) takes a slope of one dimension to be along the second
one, and SwiGLU repeats nothing.
"""


@rule(*UNARY, "ai.onnx.ml:Binarizer", "ai.onnx.ml:CategoryMapper", "ai.onnx.ml:LabelEncoder")
def unary(site: Site) -> Rule:
    """Any layout, the same on both sides; further inputs are scalars."""
    dims = numbered(site.output().shape)
    return Rule((0,), (dims, dims), (Way(Arranged(frame=1), site.unchanged),))


@rule("Dropout")
def dropout(site: Site) -> Rule | None:
    """Any layout, the same at all ports, where nothing is dropped."""
    training = site.constant(2)
    if site.input(2) is not None and (training is None or training.any()):
        return None
    dims = numbered(site.output().shape)
    ports = 1 + sum(map(bool, site.node.outputs))
    return Rule((0,), (dims,) * ports, (Way(Arranged(frame=0), site.unchanged),))


@rule("ai.onnx.ml:Imputer", "ai.onnx.ml:Scaler")
def single_number(site: Site) -> Rule | None:
    """Any layout, where there is one number for all features."""
    numbers = [each for each in site.node.attributes.values() if isinstance(each, tuple)]
    return unary(site) if all(len(each) == 1 for each in numbers) else None


@rule("Size")
def counted(site: Site) -> Rule:
    """Any layout; the result is a single number."""
    return Rule(
        (0,), (numbered(site.required(0).shape), ()), (Way(Arranged(frame=0, pinned=frozenset({1})), site.unchanged),)
    )


@rule("DynamicQuantizeLinear")
def quantizing(site: Site) -> Rule:
    """Any layout, the same on both sides, but for the step and the zero point, which are scalars."""
    dims = numbered(site.output().shape)
    every = tuple(label for labels in dims for label in labels)
    form = Placed(((), (), (), ()), prefix=every, columns=frozenset({2, 3}))
    return Rule((0,), (dims, dims, (), ()), (Way(form, site.unchanged),))


@rule(*BROADCASTING)
def broadcasting(site: Site) -> Rule:
    """Any layout; an operand lacks the dimensions along which it is repeated."""
    shape = site.output().shape
    inputs = tuple(number for number, name in enumerate(site.node.inputs) if name)
    pairs = [aligned(site.required(number).shape, shape) for number in inputs]
    apart = frozenset(label for _, labels in pairs for label in labels)
    complete = frozenset({0, 1} if site.node.op in COMPLETE else ())
    form = Arranged(frame=len(inputs), broadcast=True, alone=apart, complete=complete)
    operands = (operand for operand, _ in pairs)
    kind = repeating([site.required(number).shape for number in inputs], shape, site.output().dtype)
    return Rule(inputs, (*operands, numbered(shape)), (Way(form, site.unchanged, kind),), solid=apart)


def aligned(shape: Shape, output: Shape) -> tuple[Dims, frozenset[str]]:
    """The labels of an operand's dimensions, aligned with the output's last ones. Those of which it is not known
    whether they are repeated come second: they have to stay whole.
    """
    offset = len(output) - len(shape)
    dims: list[tuple[str, ...]] = []
    apart: set[str] = set()
    for axis, dim in enumerate(shape, offset):
        if dim in (1, output[axis]):
            dims.append((f"d{axis}",) if dim != 1 else ())
        else:
            dims.append((f"d{axis}:{dim}",))
            apart.add(f"d{axis}")
    return tuple(dims), frozenset(apart)
