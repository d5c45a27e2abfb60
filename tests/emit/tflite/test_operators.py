"""Each operator that is written to TensorFlow Lite, in LiteRT against ONNX Runtime."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from ai_edge_litert.interpreter import Interpreter
from onnx import helper, numpy_helper

import layoutsolve
from layoutsolve.emit.tflite.rows import ROWS
from layoutsolve.errors import UnsupportedError
from layoutsolve.frontend.onnx.constant_folding import KERNELS
from layoutsolve.frontend.onnx.definitions import DEFINITIONS
from layoutsolve.frontend.onnx.inlining import DEFINED
from layoutsolve.frontend.onnx.lower import LOWERINGS
from layoutsolve.ir.graph import CONTROL, Array
from layoutsolve.verification.runtimes import OnnxRuntime, runtime_of
from tests.truth import litert

RANDOM = np.random.default_rng(5)
IMAGE = (1, 4, 6, 8)


def real(*shape: int, low: float = -2.0, high: float = 2.0) -> Array:
    """Random floats."""
    return RANDOM.uniform(low, high, shape).astype(np.float32)


def whole(*values: Any, dtype: str = "int64") -> Array:
    """Whole numbers."""
    return np.array(values, dtype)


class Case:
    """A node: its inputs, of which arrays are constants and those in ``fed`` are given, and its attributes."""

    def __init__(self, *inputs: Array | None, fed: Sequence[int] = (0,), outputs: int = 1, **attributes: Any) -> None:
        self.inputs, self.fed, self.outputs, self.attributes = inputs, fed, outputs, attributes

    def model(self, operator: str) -> tuple[onnx.ModelProto, list[Array]]:
        """The model of one node, and what it is given."""
        names = ["" if each is None else f"x{number}" for number, each in enumerate(self.inputs)]
        node = helper.make_node(operator, names, [f"y{number}" for number in range(self.outputs)], **self.attributes)
        pairs = [(name, each) for name, each in zip(names, self.inputs, strict=True) if each is not None]
        given = [
            (name, each)
            for number, (name, each) in enumerate(zip(names, self.inputs, strict=True))
            if number in self.fed
        ]
        constants = [numpy_helper.from_array(each, name) for name, each in pairs if name not in dict(given)]
        ports = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
            for name, each in given
            if each is not None
        ]
        results = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = helper.make_graph([node], "one", ports, results, constants)
        opset = 24 if operator in ("Attention", "RMSNormalization", "RotaryEmbedding", "Swish") else 20
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
        made = onnx.shape_inference.infer_shapes(made)
        return made, [each for _, each in given if each is not None]


X = real(*IMAGE)
FLAGS = RANDOM.random(IMAGE) < 0.5
UNARY = ("Abs", "Atan", "Ceil", "Cos", "Cosh", "Elu", "Erf", "Exp", "Floor", "HardSigmoid", "HardSwish", "IsNaN",
         "LeakyRelu", "Mish", "Neg", "Reciprocal", "Relu", "Round", "Selu", "Celu", "Sigmoid", "Sign", "Sin", "Sinh",
         "Softplus", "Softsign", "Tan", "Tanh", "ThresholdedRelu", "Identity")  # fmt: skip
BINARY = (
    "Add",
    "Div",
    "Max",
    "Min",
    "Mul",
    "Pow",
    "Sub",
    "Sum",
    "Mean",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
)
REDUCTIONS = ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
              "ReduceProd", "ReduceSum", "ReduceSumSquare")  # fmt: skip
P = real(*IMAGE, low=0.1, high=1.3)
TINY = np.float32(10) ** -np.arange(12, dtype=np.float32).reshape(3, 4)
ENDS = whole(1, np.inf, -np.inf, np.nan, 0, dtype="float32")
LSTM = (real(5, 2, 3), real(2, 16, 3), real(2, 16, 4), real(2, 32), None, real(2, 2, 4), real(2, 2, 4))
LENGTHS, OTHERS = whole(2, 5, dtype="int32"), ["Sigmoid", "Tanh", "Tanh", "Sigmoid", "Tanh", "Relu"]
TWICE = whole(1, 1, 2, 2, dtype="float32")
GRU = real(5, 2, 3), real(1, 12, 3), real(1, 12, 4), real(1, 24)
BITS = [whole([np.iinfo(dtype).min, 7, 0], [1, np.iinfo(dtype).max, 5], dtype=dtype)
        for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32")]  # fmt: skip
SHIFTS = whole([0, 7, 1], [3, 2, 5])
CASES: Mapping[str, Sequence[Case]] = {
    **{operator: [Case(P if operator in ("Reciprocal", "Tan") else X)] for operator in UNARY},
    **{
        operator: [Case(P, P + 0.5, fed=(0, 1)), Case(P, real(8, low=0.5)), Case(P, real(4, 1, 1, low=0.5), fed=(0, 1))]
        for operator in BINARY
    },
    **{operator: [Case(P, whole(1, 3), keepdims=0), Case(P, whole(2)), Case(P)] for operator in REDUCTIONS},
    "And": [Case(FLAGS, FLAGS[:, ::-1], fed=(0, 1))],
    "Or": [Case(FLAGS, FLAGS[:, ::-1], fed=(0, 1))],
    "Xor": [Case(FLAGS, FLAGS[:, ::-1], fed=(0, 1))],
    "Not": [Case(FLAGS)],
    "BitwiseNot": [Case(each) for each in BITS],
    "BitwiseXor": [case for each in BITS for case in (Case(each, each[::-1].copy(), fed=(0, 1)), Case(each, each[1]))],
    **{
        operator: [case for each in BITS for case in (Case(each, each[::-1].copy(), fed=(0, 1)), Case(each, each[1]))]
        for operator in ("BitwiseAnd", "BitwiseOr")
    },
    "BitShift": [
        Case(each, SHIFTS.astype(each.dtype), fed=fed, direction=way)
        for each in BITS[1::4]
        for way in ("LEFT", "RIGHT")
        for fed in ((0,), (0, 1))
    ],
    "Log": [Case(P)],
    "Sqrt": [Case(P)],
    "Gelu": [Case(X), Case(X, approximate="tanh")],
    "Swish": [Case(X), Case(X, alpha=1.5)],
    "PRelu": [
        Case(X, real(4, 1, 1)),
        Case(X, real(1, 4, 1, 8), fed=(0, 1)),
        Case(real(2, 3, 2, 3, 4), real(2, 1, 2, 1, 4)),
    ],
    "Clip": [
        *(Case(X, np.float32(low), np.float32(high)) for low, high in ((0, 6), (-1, 1), (0, 1), (-0.5, 0.7))),
        Case(X, None, np.float32(1)),
        Case(whole(7, -7, 5), np.int64(0), np.int64(6)),
    ],
    "Mod": [
        Case(whole(7, -7, 5), whole(3, 3, -2), fed=(0, 1)),
        Case(real(2, 3, high=9), real(3, low=1), fed=(0, 1), fmod=1),
        *(Case(whole(7, -7, 5, 0, dtype=dtype), whole(3, 3, -2, 4, dtype=dtype), fed=(0, 1), fmod=1)
          for dtype in ("int32", "int64")),
    ],
    "Where": [Case(FLAGS, X, real(8), fed=(0, 1))],
    "Cast": [Case(X, to=onnx.TensorProto.INT32), Case(whole(3, 0, -2), to=onnx.TensorProto.FLOAT)],
    "Conv": [
        Case(X, real(5, 4, 3, 3), real(5), pads=[1, 1, 1, 1]),
        Case(X, real(5, 4, 3, 3), strides=[2, 2], pads=[0, 1, 1, 0]),
        Case(X, real(8, 1, 3, 3), real(8), group=4, dilations=[2, 1], pads=[2, 1, 2, 1]),
        Case(X, real(4, 2, 2, 3), group=2),
        Case(X, real(5, 4, 3, 3), real(5), fed=(0, 1, 2)),
        Case(real(1, 4, 9), real(6, 4, 3), real(6), pads=[1, 1], strides=[2]),
        Case(real(1, 4, 9), real(8, 1, 3), group=4),
        Case(real(1, 2, 4, 5, 6), real(3, 2, 2, 2, 2), real(3), pads=[1, 0, 1, 0, 1, 0]),
    ],
    "ConvTranspose": [
        Case(X, real(4, 5, 3, 3), real(5), strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]),
        Case(X, real(4, 5, 2, 2), strides=[2, 2]),
        Case(X, real(4, 1, 3, 3), group=4, dilations=[2, 2], pads=[1, 0, 0, 2]),
        Case(real(1, 4, 9), real(4, 3, 4), strides=[2], pads=[1, 1]),
        Case(X, real(4, 2, 3, 3), auto_pad="SAME_UPPER", strides=[2, 2]),
    ],
    "MaxPool": [
        Case(X, kernel_shape=[2, 3], strides=[2, 2], pads=[0, 1, 1, 1]),
        Case(X, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
        Case(real(1, 4, 9), kernel_shape=[2], strides=[2]),
    ],
    "AveragePool": [
        Case(X, kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        Case(X, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1),
        Case(X, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 0, 1]),
        Case(X, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
        Case(real(1, 4, 9), kernel_shape=[2]),
    ],
    "MatMul": [
        Case(X, real(8, 5)), Case(real(2, 3, 4), real(2, 4, 5), fed=(0, 1)), Case(real(3, 4), real(4), fed=(0, 1)),
        Case(real(4), real(2, 4, 3), fed=(0, 1)), Case(real(2, 1, 3, 2, 3, 4), real(3, 2, 4, 5), fed=(0, 1)),
    ],
    "Gemm": [
        Case(real(3, 4), real(4, 5), real(5)),
        Case(real(4, 3), real(5, 4), real(3, 5), transA=1, transB=1, alpha=0.5, beta=2.0),
        Case(real(3, 4), real(5, 4), fed=(0, 1), transB=1),
    ],
    "Reshape": [Case(X, whole(4, -1))],
    "Transpose": [Case(X, perm=[0, 2, 3, 1]), Case(real(2, 3, 2, 3, 2, 2, 2), perm=[6, 4, 2, 0, 1, 3, 5])],
    "Concat": [Case(X, X + 1, real(1, 2, 6, 8), fed=(0, 1), axis=1)],
    "Split": [Case(X, whole(1, 3), outputs=2, axis=1), Case(FLAGS, whole(1, 3), outputs=2, axis=1)],
    "IsInf": [Case(ENDS, detect_positive=above, detect_negative=below) for above in (0, 1) for below in (0, 1)],
    "ConstantOfShape": [
        Case(whole(2, 3), fed=(0,)),
        *(Case(whole(2, 3), fed=(0,), value=numpy_helper.from_array(np.array([2], dtype)))
          for dtype in ("float32", "int32", "int64", "int8", "bool")),
    ],
    "Range": [Case(*(np.array(each, dtype) for each in (1, 9, 3)), fed=(0, 1))
              for dtype in ("int32", "int64", "float32")],
    "Shape": [Case(X)],
    "Abs": [Case(X), Case(whole((3, -4, 0)))],
    "Shrink": [Case(X), Case(X, lambd=1.0, bias=0.3), Case(X, lambd=-0.5, bias=0.2)],
    "Slice": [
        Case(X, whole(1, 2), whole(3, 8), whole(1, 3)),
        Case(X, whole(-1, 0), whole(-100, 7), whole(1, 3), whole(-1, 3)),
        Case(real(2, 2, 2, 3, 2, 4), whole(1), whole(3), whole(3)),
    ],
    "Pad": [
        Case(X, whole(0, 0, 1, 2, 0, 0, 0, 1)), Case(X, whole(0, 1, 0, 2, 0, 0, -1, 1), np.float32(3)),
        Case(X, whole(0, 0, 1, 2, 0, 0, 0, 1), mode="reflect"), Case(X, whole(0, 0, 1, 2, 0, 0, 0, 1), mode="edge"),
        Case(real(2, 2, 2, 3, 2, 4), whole(0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2)),
    ],
    "Expand": [Case(real(4, 1, 8), whole(1, 4, 6, 8))],
    "Tile": [Case(X, whole(1, 2, 1, 3))],
    "Gather": [Case(X, whole(1, -1, 0), axis=1), Case(X, whole((1, -2), (0, 3)), fed=(0, 1), axis=3)],
    "GatherND": [Case(X, whole((0, 1, -2), (0, 3, 0)))],
    "GatherElements": [Case(X, RANDOM.integers(-8, 8, (1, 4, 6, 3)), axis=3, fed=fed) for fed in ((0,), (0, 1))],
    "ScatterND": [
        Case(X, whole((0, 1), (0, -1)), real(2, 6, 8), fed=(0, 2)),
        *(Case(X, whole((0, 1), (0, -3)), real(2, 6, 8), fed=fed, reduction="add") for fed in ((0, 2), (0, 1, 2))),
    ],
    "ScatterElements": [
        Case(real(3, 4), whole((1, 0, -1, 1)), real(1, 4), fed=(0, 2)),
        *(Case(real(3, 4), whole((1, 2, 1, -3)), real(1, 4), fed=fed, axis=1, reduction="add")
          for fed in ((0, 2), (0, 1, 2))),
    ],
    "OneHot": [Case(whole(1, -1, 0), whole(4), real(2)), Case(whole((1, 2), (0, 3)), whole(4), real(2), axis=0)],
    "DepthToSpace": [Case(X, blocksize=2), Case(real(1, 8, 2, 3), blocksize=2, mode="CRD")],
    "SpaceToDepth": [Case(X, blocksize=2)],
    "Softmax": [Case(X), Case(X, axis=1), Case(real(2, 3, 2, 3, 4))],
    "LogSoftmax": [Case(X), Case(X, axis=2)],
    "ArgMax": [Case(X, axis=1), Case(X, axis=3, keepdims=0)],
    "ArgMin": [Case(X, axis=2)],
    "CumSum": [Case(X, whole(2)), Case(X, whole(-1), exclusive=1, reverse=1)],
    "TopK": [Case(X, whole(3), outputs=2)],
    "BatchNormalization": [
        Case(X, real(4), real(4), real(4), real(4, low=0.5)),
        Case(X, real(4), real(4), real(4), real(4, low=0.5), fed=(0, 1, 2, 3, 4)),
    ],
    "InstanceNormalization": [Case(X, real(4), real(4))],
    "LayerNormalization": [Case(X, real(8), real(8)), Case(X, real(6, 8), axis=2)],
    "RMSNormalization": [Case(X, real(8))],
    "LpNormalization": [Case(X, axis=1), Case(X, axis=3, p=1)],
    "LRN": [Case(X, size=3)],
    "Trilu": [Case(X, np.int64(1)), Case(X, upper=0)],
    "Resize": [
        Case(X, None, None, whole(1, 4, 12, 16)), Case(X, None, None, whole(1, 4, 9, 5), mode="linear"),
        Case(X, None, TWICE, coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
        Case(X, None, None, whole(1, 4, 9, 11), mode="linear", coordinate_transformation_mode="align_corners"),
        Case(X, None, None, whole(1, 4, 9, 11), mode="cubic"), Case(X, None, None, whole(1, 7, 6, 8), mode="linear"),
    ],
    "LSTM": [
        Case(*LSTM, fed=(0, 5, 6), outputs=3, hidden_size=4, direction="bidirectional"),
        Case(*LSTM[:4], LENGTHS, *LSTM[5:], real(2, 12), fed=(0, 4), outputs=3, hidden_size=4,
             direction="bidirectional", clip=0.4),
        Case(*LSTM, fed=(0,), outputs=3, hidden_size=4, direction="bidirectional", activations=OTHERS, input_forget=1),
    ],
    "GRU": [
        Case(*GRU, outputs=2, hidden_size=4, linear_before_reset=reset, direction=way)
        for reset, way in ((0, "forward"), (1, "reverse"))
    ] + [Case(*GRU, LENGTHS, fed=(0, 4), outputs=2, hidden_size=4, direction="reverse", clip=0.5)],
    "RNN": [
        Case(real(5, 2, 3), real(1, 4, 3), real(1, 4, 4), outputs=2, hidden_size=4),
        Case(*GRU[:1], real(1, 4, 3), real(1, 4, 4), None, LENGTHS, outputs=2, hidden_size=4, activations=["Relu"]),
    ],
    **{operator: [Case(real(*IMAGE, low=-1, high=1))] for operator in ("Acos", "Asin")},
    "Acosh": [Case(1 + real(*IMAGE, low=0, high=2) ** 3), Case(1 + TINY), Case(1 / TINY)],
    "Asinh": [Case(5 * X), Case(TINY), Case(-TINY), Case(1 / TINY)],
    "Det": [Case(real(size, size)) for size in (1, 2, 3)] + [Case(real(2, 3, size, size)) for size in (2, 4, 5)],
    "NonZero": [
        Case((RANDOM.random(shape) < 0.4).astype(dtype))
        for shape in ((7,), (3, 5), (2, 3, 4))
        for dtype in ("float32", "int32", "int64", "bool")
    ],
    "Compress": [
        Case(X, np.array([True, False, True]), fed=fed, axis=axis) for axis in (1, 3, -2) for fed in ((0,), (0, 1))
    ] + [Case(real(3, 4), np.array([False, True, True]), fed=(0, 1))],
    "ReverseSequence": [
        Case(real(4, 5, 3), whole(3, 1, 5, 2), fed=(0, 1), batch_axis=0, time_axis=1),
        Case(real(4, 5, 3), whole(3, 1, 4, 2, 1), fed=(0, 1)),
        Case(X.transpose(1, 0, 2, 3), whole(1), fed=(0, 1)),
    ],
    "Atanh": [Case(real(*IMAGE, low=-0.9, high=0.9))],  # LiteRT's products are finite, also where they are at 1
    "EyeLike": [Case(real(3, 5), k=1), Case(real(4, 4), dtype=6)],
    "Hardmax": [Case(real(3, 5)), Case(whole(1, 2, 2, 0, 0, 0, dtype="float32").reshape(2, 3)), Case(X, axis=1)],
    "GridSample": [
        Case(real(*image), real(image[0], 4, 6, 2), fed=(0, 1), mode=mode, padding_mode=around, align_corners=aligned)
        for number, (mode, around, aligned) in enumerate(
            product(("linear", "nearest"), ("zeros", "border", "reflection"), (0, 1))
        )
        for image in [((2, 3, 5, 7), (1, 8, 1, 6), (2, 1, 4, 1))[number % 3]]
    ],
}  # fmt: skip
ALIASES = {
    "given:Reshape": "Reshape to sizes that are computed",
    "FusedMatMul": "MatMul of transposed matrices, which only ONNX Runtime has",
    "Rsqrt": "Reciprocal of Sqrt",
    "SquaredDifference": "Mul of a Sub by itself",
}


HEADS = tuple(real(2, heads, 6, 8) for heads in (4, 2, 2))
TURNED = real(2, 6, 4, 8), real(20, 4), real(20, 4), RANDOM.integers(0, 20, (2, 6))
SCORED = real(5, 4), whole(0, 3, 1, 1, 2)
OPERATORS: Mapping[str, Sequence[Case]] = {
    "Attention": [
        Case(*HEADS, fed=(0, 1, 2)), Case(*HEADS, fed=(0, 1, 2), is_causal=1, softcap=2.0, scale=0.7),
        Case(*HEADS, real(6, 6), fed=(0, 1, 2, 3)), Case(*HEADS, np.tri(6, dtype=bool), fed=(0, 1, 2, 3)),
        Case(*HEADS, real(6, 10), real(2, 2, 4, 8), real(2, 2, 4, 8), fed=(0, 1, 2, 4, 5), outputs=3),
        Case(real(2, 5, 32), real(2, 7, 16), real(2, 7, 16), fed=(0, 1, 2), q_num_heads=4, kv_num_heads=2),
    ],
    "RotaryEmbedding": [
        Case(TURNED[0].transpose(0, 2, 1, 3), *TURNED[1:], fed=(0, 3)),
        Case(TURNED[0].reshape(2, 6, 32), *TURNED[1:], fed=(0, 3), num_heads=4, interleaved=1),
    ],
    "NegativeLogLikelihoodLoss": [Case(*SCORED, fed=(0, 1)), Case(*SCORED, real(4), fed=(0, 1), reduction="sum")],
    "SoftmaxCrossEntropyLoss": [Case(*SCORED, fed=(0, 1)), Case(*SCORED, fed=(0, 1), reduction="none", ignore_index=3)],
}  # fmt: skip


@pytest.mark.parametrize(
    ("operator", "number"),
    [(operator, number) for operator, cases in OPERATORS.items() for number in range(len(cases))],
)
def test_what_onnx_defines_by_other_operators_is_these(operator: str, number: int) -> None:
    check(*OPERATORS[operator][number].model(operator))


def test_every_operator_has_a_case() -> None:
    assert set(ROWS) == set(CASES) | set(ALIASES)


@pytest.mark.members(126)
@pytest.mark.parametrize(
    ("operator", "number"), [(operator, number) for operator, cases in CASES.items() for number in range(len(cases))]
)
def test_operator(operator: str, number: int) -> None:
    """LiteRT gives what ONNX Runtime does, in its plain kernels and with XNNPACK."""
    model, given = CASES[operator][number].model(operator)
    check(model, given)
    if model.graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
        check(activated(model), given)


def activated(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model with an activation behind its first result, which few operators have as a part of them."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    port = made.graph.output[0]
    made.graph.node.append(helper.make_node("Relu", [port.name], ["active"]))
    port.name = "active"
    return made


def check(model: onnx.ModelProto, given: list[Array]) -> None:
    truth = OnnxRuntime(model.SerializeToString(), level="none")
    expected = truth.run(dict(zip([name for name, _, _ in truth.inputs], given, strict=True)))
    written = layoutsolve.convert(model, to="tflite").content("")
    for delegate in (False, True):
        found = litert().run(written, given, delegate=delegate).results
        for one, other in zip(expected, found, strict=True):
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    "text",
    [
        "e = Erf(s) t = Add(e, one) p = Mul(x, t) y = Mul(p, half)",
        "e = Erf(s) t = Add(one, e) h = Mul(half, x) y = Mul(t, h)",
        "e = Erf(s) y = Add(e, one)",
        "e = Erf(s) t = Add(e, one) y = Sub(t, x)",
        "e = Erf(s) t = Add(e, half) p = Mul(x, t) y = Mul(p, half)",
        "e = Erf(s) t = Add(e, one) p = Mul(x, t) y = Mul(p, one)",
        "e = Erf(s) t = Add(e, one) p = Mul(s, t) y = Mul(p, half)",
        "e = Erf(s) t = Add(e, one) p = Mul(x, t) q = Mul(p, half) y = Sub(q, t)",
        "e = Erf(s) t = Add(e, one) p = Mul(x, t) q = Mul(p, half) y = Sub(q, e)",
    ],
)
def test_gelus_and_what_is_none(text: str) -> None:
    """Two of them are written as GELU; what differs in one place is what it is."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 18]> g (float[3, 5] x) => (float[3, 5] y)
        <float one = {{1}}, float half = {{0.5}}, float root = {{{2**-0.5}}}> {{ s = Mul(x, root) {text} }}"""
    )
    check(model, [real(3, 5)])


DELEGATED = {
    "HardSigmoid": [Case(real(*IMAGE)), Case(real(*IMAGE), alpha=1 / 6)],
    "Pow": [Case(real(*IMAGE), np.float32(each)) for each in (2, 3)],
    "Slice": [
        Case(real(*[3] * rank), whole(1), whole(3), whole(axis)) for rank in range(1, 7) for axis in (0, rank - 1)
    ],
    "Split": [Case(real(*IMAGE), axis=axis, num_outputs=2, outputs=2) for axis in range(1, 4)],
}


@pytest.mark.parametrize(
    "operator, number", [(operator, number) for operator, cases in DELEGATED.items() for number in range(len(cases))]
)
def test_xnnpack_computes_all_of_it(operator: str, number: int) -> None:
    """What XNNPACK has no kernel for cuts a network in two, which takes longer than the operator itself."""
    model, given = DELEGATED[operator][number].model(operator)
    check(model, given)
    written = bytes(layoutsolve.convert(model, to="tflite").data)
    interpreter = Interpreter(model_content=written, num_threads=1)
    interpreter.allocate_tensors()
    (delegate,) = [each for each in interpreter._get_ops_details() if each["op_name"] == "DELEGATE"]
    assert {*delegate["outputs"]} == {each["index"] for each in interpreter.get_output_details()}
    assert {*delegate["inputs"]} >= {each["index"] for each in interpreter.get_input_details()}


@pytest.mark.parametrize("dtype", ["float", "int32"])
def test_scatters_to_places_that_are_computed_of_constants(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes too long to compute beforehand: each place once, or the same several times to one."""
    monkeypatch.delitem(KERNELS, "Mul")
    model = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 18]> g ({dtype}[3, 4] x, {dtype}[2, 4] u) =>
        ({dtype}[3, 4] y, {dtype}[3, 4] z) <float[1] two = {{2}}, float[2, 1] p = {{0, -1}},
        float[1, 4] q = {{0, 1, 0, -1}}, {dtype}[1, 4] v = {{7, 7, 7, 7}}>
        {{ a = Mul(p, two) b = Mul(q, two) i = Cast <to = 7>(a) j = Cast <to = 7>(b)
           y = ScatterND(x, i, u) z = ScatterElements <axis = 1>(x, j, v) }}"""
    )
    kind = np.float32 if dtype == "float" else np.int32
    check(model, [(10 * real(*shape)).astype(kind) for shape in ((3, 4), (2, 4))])


@pytest.mark.parametrize("end", [-np.inf, np.inf])
def test_rows_of_which_nothing_is_seen(end: float) -> None:
    """Masks of attention have infinities, of which kernels with an activation make the last finite number."""
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 18]> g (float[3, 4] x, float[3, 4] m) => (bool[3, 1] y, float[3, 4] z)
        <float[1] end = {0}, int64[1] last = {-1}> {
            s = Add(x, m) t = ReduceMax(s, last) e = CastLike(end, x) y = Equal(t, e) z = Softmax(s) }"""
    )
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.array([end], np.float32), "end"))
    mask = np.zeros((3, 4), np.float32)
    mask[1], mask[2, 1] = end, end
    written = layoutsolve.convert(model, to="tflite").content("")
    for delegate in (False, True):
        seen, _ = litert().run(written, [real(3, 4), mask], delegate=delegate).results
        assert seen[:, 0].tolist() == [False, True, end > 0]


REFUSED: Mapping[str, Callable[[], Case]] = {
    "Conv": lambda: Case(whole([3, 4], dtype="int32"), whole([3, 4], dtype="int32")),
    "Slice": lambda: Case(real(4, 4), whole([0], [0]), whole([2], [3]), fed=(0, 1)),
    "Det": lambda: Case(real(7, 7)),
    "NonZero": lambda: Case(np.float32(3)),
    "ScatterElements": lambda: Case(real(3), whole(3), real(1), fed=(0, 2)),
    "ScatterND": lambda: Case(real(3, 4), whole((-4,)), real(1, 4), fed=(0, 2)),
}


@pytest.mark.parametrize("operator", REFUSED)
def test_what_litert_does_not_express_is_refused(operator: str) -> None:
    model, _ = REFUSED[operator]().model(operator)
    with pytest.raises(UnsupportedError, match=operator):
        layoutsolve.convert(model, to="tflite")


READ = ("Constant", "GroupNormalization", "Size")
"""What is something else once a model is read."""

GROUPS = re.compile(r"Random|Multinomial|Sequence|(Concat|SplitTo).*Sequence|Optional|String|Regex")
"""What the page names together: random numbers, sequences and optionals, text."""


def test_the_page_lists_what_nothing_is_written_for() -> None:
    """All operators of ONNX that have neither a row nor a lowering."""
    page = (Path(__file__).parents[3] / "docs" / "tflite_out.md").read_text(encoding="utf-8")
    listed = re.search(r"nothing is written for: (.*?), TreeEnsemble,", page, re.DOTALL)
    assert listed is not None
    operators = {each.name for each in onnx.defs.get_all_schemas() if not each.domain and not each.deprecated}
    defined = {*DEFINED, *(name for domain, name in DEFINITIONS if not domain)}
    lacking = {each for each in operators - {*ROWS, *LOWERINGS, *CONTROL, *READ, *defined} if not GROUPS.match(each)}
    assert "TreeEnsemble" not in ROWS
    names = listed[1].replace("\n", " ").split(", ")
    assert [each.strip() for each in names] == sorted(lacking, key=str.lower)


def test_what_has_no_known_rank_is_refused_for_that() -> None:
    """The operator that makes it is refused by name, those that read it by the rank, as each has a form of its own."""
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 18, "com.acme" : 1]> g (float[1, 4, 4, 3] x) => (float[1, 4, 4, 3] z)
        { a = com.acme.Mine(x) b = Transpose <perm = [0, 2, 1, 3]>(a) z = Relu(b) }"""
    )
    with pytest.raises(UnsupportedError) as error:
        layoutsolve.convert(model, to="tflite")
    reasons = {gap.operator: gap.reason for gap in error.value.gaps}
    assert "it has no operator for Mine" in reasons.pop("com.acme.Mine" if "com.acme.Mine" in reasons else "Mine")
    assert reasons and all("the rank of '" in reason for reason in reasons.values())


def test_inputs_have_their_names() -> None:
    model, _ = CASES["Add"][0].model("Add")
    written = layoutsolve.convert(model, to="tflite").content("")
    assert [name for name, _, _ in runtime_of(written).inputs] == ["x0", "x1"]


@pytest.mark.parametrize(("operator", "low"), [("Asinh", 0.0), ("Acosh", 1.0)])
def test_small_numbers_keep_their_digits(operator: str, low: float) -> None:
    """Next to 0, where the logarithm of a rounded sum has few of them."""
    x = np.float32(low) + np.float32(2) ** -np.arange(22, dtype=np.float32)
    model, given = Case(x).model(operator)
    written = layoutsolve.convert(model, to="tflite").content("")
    expected = (np.arcsinh if operator == "Asinh" else np.arccosh)(x.astype(np.float64))
    np.testing.assert_allclose(litert().run(written, given).results[0], expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32"])
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("known", [True, False])
def test_all_bits_are_shifted_away(known: bool, direction: str, dtype: str) -> None:
    """By as many as there are, of which runtimes make other things."""
    bits = np.iinfo(dtype).bits
    x, count = np.full(4, np.iinfo(dtype).max, dtype), whole(1, bits - 1, bits, bits + 3, dtype=dtype)
    model, given = Case(x, count, fed=(0,) if known else (0, 1), direction=direction).model("BitShift")
    shifted = [
        (int(one) << int(by) if direction == "LEFT" else int(one) >> int(by)) for one, by in zip(x, count, strict=True)
    ]
    written = layoutsolve.convert(model, to="tflite").content("")
    for delegate in (False, True):
        found = litert().run(written, given, delegate=delegate).results[0]
        assert found.tolist() == [each % (1 << bits) for each in shifted]
