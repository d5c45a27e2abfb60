"""Families of single operators whose sizes, padding and bounds come together in ways that runtimes take differently:
what is written, as TensorFlow Lite and as ONNX, gives what ONNX Runtime does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations, product

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import layoutsolve
from layoutsolve.errors import UnsupportedError
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.ir.graph import Array
from layoutsolve.verification.refusals import RefusedError
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.emit.tflite.test_operators import CASES, Case, real, whole
from tests.truth import litert

Family = Iterator[tuple[str, Case]]


def results(model: onnx.ModelProto, given: list[Array]) -> list[Array]:
    """What ONNX Runtime computes."""
    truth = OnnxRuntime(model.SerializeToString(), level="none")
    return list(truth.run(dict(zip([name for name, _, _ in truth.inputs], given, strict=True))))


def transposed() -> Family:
    """Results whose size is given, and the padding follows: it may be odd, or none."""
    for how, size, kernel in product(("", "VALID", "SAME_UPPER", "SAME_LOWER"), (9, 10), (2, 3)):
        told = {"auto_pad": how} if how else {}
        yield "ConvTranspose", Case(real(1, 1, 5), real(1, 2, kernel), strides=[2], output_shape=[size], **told)
    for how, kernel, stride, extra in product(("SAME_UPPER", "SAME_LOWER"), (1, 3, 4), (2, 3), (0, 1)):
        told = {"auto_pad": how, "strides": [stride] * 2, "output_padding": [extra, 0]}
        yield "ConvTranspose", Case(real(1, 2, 4, 3), real(2, 1, kernel, kernel), **told)


def pools() -> Family:
    """Sizes that are rounded up: a window that begins in the padding behind is none."""
    for number, (kernel, stride, ahead, after) in enumerate(product((1, 2, 3), (1, 2, 3), (0, 1), (0, 2))):
        if max(ahead, after) < kernel:
            told = {"kernel_shape": [kernel, 2], "strides": [stride, 3], "pads": [ahead, 0, after, 1], "ceil_mode": 1}
            yield "MaxPool", Case(real(1, 2, 5, 7), **told)
            yield "AveragePool", Case(real(1, 2, 5, 7), count_include_pad=number % 2, **told)
    for operator, how, size in product(("MaxPool", "AveragePool"), ("SAME_UPPER", "SAME_LOWER", "VALID"), (5, 6, 8)):
        told = {"kernel_shape": [2, 2], "strides": [2, 3], "auto_pad": how, "ceil_mode": 1}
        if operator == "AveragePool" or size != 6:  # of which ONNX Runtime's MaxPool refuses to pad by -1
            yield operator, Case(real(1, 2, 5, size), **told)


def slices() -> Family:
    """Bounds far outside, in both directions."""
    for start, end, step in product((-100, -4, -1, 2, 100), (-100, -3, 0, 100), (-2, -1, 1)):
        if np.arange(3)[slice(max(start, -3), end, step)].size:
            yield "Slice", Case(real(3, 2), whole(start), whole(end), whole(0), whole(step))


def squeezed() -> Family:
    """No axes are all that have size 1."""
    for shape in ((2, 1, 3), (1, 1), (2, 3)):
        yield "Squeeze", Case(real(*shape), np.zeros(0, np.int64))


def curves() -> Family:
    """Slopes of either sign, and rows without length."""
    for alpha in (-2.0, -0.5, 0.5):
        yield "Celu", Case(real(3, 5), alpha=alpha)
    for axis, order in product((0, 1), (1, 2)):
        yield "LpNormalization", Case(real(3, 4) * whole(1, 0, 1, 0, dtype="float32"), axis=axis, p=order)
        yield "LpNormalization", Case(np.zeros((3, 4), np.float32), axis=axis, p=order)


def far() -> Family:
    """Numbers where functions have come to their ends, and polynomials that stand for them have left them."""
    numbers = whole(-60, -9, -5, -4.25, -4, -3.75, 3.75, 4, 4.25, 5, 9, 60, dtype="float32")
    for operator in (
        "Elu",
        "Erf",
        "Gelu",
        "HardSigmoid",
        "HardSwish",
        "Mish",
        "Sigmoid",
        "Softplus",
        "Softsign",
        "Tanh",
    ):
        yield operator, Case(numbers)


def plain_bytes() -> Family:
    """Integers that stand for themselves are compared, and interpolated, as such."""
    for operator, dtype in product(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), ("int8", "uint8")):
        one, other = (np.arange(count).astype(dtype) for count in (12, 4))
        yield operator, Case(one.reshape(3, 4), other, fed=(0, 1))
        yield operator, Case(one, np.array(5, dtype))
    for dtype, mode in product(("int8", "uint8"), ("half_pixel", "asymmetric")):
        image = np.random.default_rng(3).integers(0, 100, (1, 2, 3, 4)).astype(dtype)
        told = {"mode": "linear", "coordinate_transformation_mode": mode}
        yield "Resize", Case(image - 40 if dtype == "int8" else image, None, None, whole(1, 2, 6, 8), **told)


def nothing() -> Family:
    """Results without elements."""
    rows = real(3, 0, 2)
    for operator in ("LogSoftmax", "Softmax", "Relu", "Erf"):
        yield operator, Case(rows, **({"axis": 0} if operator.endswith("max") else {}))
    yield "Sum", Case(rows, real(1, 1, 2), rows, fed=(0, 1, 2))
    yield "MatMul", Case(rows, real(2, 4))
    yield "MatMul", Case(real(5), real(1, 5, 0), fed=(0, 1))
    yield "Gather", Case(rows, whole(0, 2), axis=0)
    yield "ReduceSum", Case(rows, whole(0), keepdims=0)
    yield "Concat", Case(rows, rows, fed=(0, 1), axis=0)
    for start, end, step in ((2, -100, -1), (2, 2, 1)):
        yield "Slice", Case(rows, whole(start), whole(end), whole(0), whole(step))
    yield "Resize", Case(real(1, 1, 4, 1), None, whole(1, 1, 1, 0.5, dtype="float32"), mode="linear")


def ranks() -> Family:
    """More dimensions than XNNPACK, a RESHAPE's options and kernels have."""
    for rank, keep in product((7, 8, 9), (0, 1)):
        for operator in ("ReduceMax", "ReduceMean", "ReduceSum"):
            yield operator, Case(real(*[2] * rank), whole(1, 3, 5), keepdims=keep)
    for rank in (7, 9):
        one, sizes = real(*[2] * (rank - 1), 3), [2] * (rank - 1)
        yield "Concat", Case(one, one, fed=(0, 1), axis=3)
        yield "MatMul", Case(one, real(3, 2))
        yield "Relu", Case(one)
        yield "Unsqueeze", Case(real(*sizes), whole(0, 3))
        yield "Min", Case(one, real(*[1] * (rank + 1), 3), fed=(0, 1))
    yield "Expand", Case(real(2, 2), whole(*[1] * 8, 2, 2))
    yield "ScatterND", Case(real(1), whole(0).reshape(1, 1), real(1), fed=(0, 2))


def moved() -> Family:
    """Types of which little more than data movement is known."""
    for dtype in ("float16", "float64", "uint16", "uint32", "uint64"):
        data = np.arange(24).reshape(2, 3, 4).astype(dtype)
        for perm in ((2, 0, 1), (0, 2, 1)):
            yield "Transpose", Case(data, perm=perm)
        yield "Tile", Case(data, whole(1, 2, 1))
        yield "Expand", Case(data[:, :1], whole(2, 3, 4))
        yield "Slice", Case(data, whole(1, 0), whole(3, 2), whole(1, 2))
        yield "Slice", Case(data, whole(0), whole(3), whole(1), whole(2))
        yield "Flatten", Case(data)
    half = np.arange(24).reshape(2, 3, 4).astype("float16")
    yield "Concat", Case(half, half, fed=(0, 1), axis=1)
    yield "Gather", Case(half, whole(2, 0), axis=1)
    yield "Slice", Case(half, whole(-1), whole(-9), whole(1), whole(-1))


def resized() -> Family:
    """Factors whose products are rounded, and sizes that stay."""
    modes = {"nearest": {"nearest_mode": "floor"}, "linear": {}, "cubic": {}}
    corners = "align_corners", "asymmetric", "half_pixel", "pytorch_half_pixel"
    for (mode, told), how, factors in product(modes.items(), corners, ((0.7, 1.3), (1.5, 0.7), (1.5, 1.5))):
        by = whole(1, 1, *factors, dtype="float32")
        yield "Resize", Case(real(1, 2, 10, 10), None, by, mode=mode, coordinate_transformation_mode=how, **told)
    for how, near, (one, other) in product(
        ("asymmetric", "half_pixel"), ("ceil", "floor"), ((7, 8), (14, 19), (20, 6))
    ):
        told = {"nearest_mode": f"round_prefer_{near}", "coordinate_transformation_mode": how}
        yield "Resize", Case(real(1, 1, one, 3), None, None, whole(1, 1, other, 3), **told)
    for mode, factor in product(modes, (1.1, 1.3)):
        yield "Resize", Case(real(1, 2, 3, 3), None, whole(1, 1, factor, factor, dtype="float32"), mode=mode)


def chosen() -> Family:
    """The largest and the smallest along any axis, and the last of equal ones."""
    equal, count = np.random.default_rng(5).integers(0, 4, (3, 4, 5)), whole(2)
    for axis, largest, dtype in product((0, 1, -1), (0, 1), ("float32", "int32", "int64")):
        yield "TopK", Case(equal.astype(dtype), count, outputs=2, axis=axis, largest=largest)
        yield "TopK", Case(equal[:, :1].astype(dtype), count, outputs=2, axis=0, largest=largest)
    yield "TopK", Case(real(2, 5, 1, 1), count, outputs=2, axis=1)
    lowest = np.array([[5, np.iinfo(np.int32).min, np.iinfo(np.int32).max]], np.int32)
    yield "TopK", Case(lowest, count, outputs=2, largest=0)
    for operator, axis, keep in product(("ArgMax", "ArgMin"), (0, 1, -1), (0, 1)):
        told = {"axis": axis, "keepdims": keep, "select_last_index": 1}
        yield operator, Case(equal.astype("float32"), **told)


def placed() -> Family:
    """Indices in a batch, computed or not, triangles, and borders from the other side."""
    random = np.random.default_rng(6)
    for batch, count, fed in ((0, 2, (0, 1)), (1, 1, (0,)), (1, 2, (0, 1)), (2, 1, (0, 1))):
        shape = (3, 4, 5)[:batch]
        indices = random.integers(-2, 2, (*shape, 2, count))
        yield "GatherND", Case(real(3, 4, 5), indices, fed=fed, batch_dims=batch)
    for upper, diagonal in product((0, 1), (-2, 0, 1, 9)):
        yield "Trilu", Case(real(2, 3, 4), np.int64(diagonal), upper=upper)
    for before, behind in ((1, 2), (0, 5), (7, 0)):
        yield "Pad", Case(real(2, 3), whole(0, before, 1, behind), mode="wrap")
    ends = np.iinfo(np.int64)
    beyond = whole((-7, -4, -3, -1), (0, 2, 3, 7), (ends.min, ends.max, 1, -2))
    for axis in (-1, 0, 1):
        yield "OneHot", Case(beyond, whole(3), real(2), axis=axis)


def ended() -> Family:
    """Sequences of all lengths, also of none, that begin with states of their own."""
    sizes, steps = {"GRU": 3, "LSTM": 4, "RNN": 1}, real(3, 3, 2)
    for (operator, gates), way, fed in product(sizes.items(), ("forward", "reverse"), ((0, 4, 5), (0, 5))):
        states = [real(1, 3, 2)] * (2 if operator == "LSTM" else 1)
        weights = real(1, gates * 2, 2), real(1, gates * 2, 2), None, whole(0, 2, 3, dtype="int32")
        told = {"hidden_size": 2, "direction": way}
        yield operator, Case(steps, *weights, *states, fed=fed, outputs=len(states) + 1, **told)


def volumes() -> Family:
    """Convolutions and pools of three dimensions, in groups, transposed, with padding and weights that are computed."""
    image = real(1, 4, 5, 6, 7)
    ways: list[dict[str, object]] = [
        {}, {"strides": [2, 1, 2], "pads": [1, 0, 1, 0, 1, 1]}, {"pads": [1] * 6}, {"auto_pad": "SAME_UPPER"},
    ]  # fmt: skip
    for groups, told in product((1, 2, 4), ways):
        yield "Conv", Case(image, real(8, 4 // groups, 2, 3, 2), real(8), group=groups, **told)
    for told in (*ways, {"strides": [2, 2, 2], "ceil_mode": 1}, {"pads": [1] * 6, "strides": [1, 2, 3]}):
        yield "MaxPool", Case(image, kernel_shape=[2, 3, 3], **told)
        for counted in (0, 1):
            yield "AveragePool", Case(image, kernel_shape=[2, 3, 3], count_include_pad=counted, **told)
    yield "Conv", Case(image, real(3, 4, 2, 3, 2), real(3), fed=(0, 1, 2))
    yield "ConvTranspose", Case(image, real(4, 3, 3, 3, 2), real(3), strides=[2, 1, 2], pads=[1, 1, 0, 1, 0, 1])
    yield "ConvTranspose", Case(image, real(4, 1, 3, 3, 2), group=4, strides=[2, 1, 1], dilations=[1, 2, 1])
    for rank in (1, 2, 3):
        sizes, kernel, strides = ([4, 5, 6][:rank], [3, 2, 2][:rank], [2, 1, 3][:rank])
        yield "ConvTranspose", Case(real(1, 4, *sizes), real(4, 3, *kernel), fed=(0, 1), strides=strides)


def quotients() -> Family:
    """Quotients of whole numbers of all sizes, rounded towards zero, and with what they leave."""
    random = np.random.default_rng(7)
    for dtype, most in (("int32", 31), ("int64", 63)):
        for exactly in (False, True):
            signs = random.choice([-1, 1], (2, 4, 500))
            one, other = ((random.integers(1, 1 << most - 1, (4, 500)) >> random.integers(0, most, (4, 500))) | 1
                          for _ in range(2))  # fmt: skip
            one, other = (one // other * other if exactly else one) * signs[0], other * signs[1]
            one[:, :9], other[:, ::5] = np.iinfo(dtype).max, signs[1][:, ::5]
            yield "Div", Case(one.astype(dtype), other.astype(dtype), fed=(0, 1))
            yield "Div", Case(one.astype(dtype), other[:, :1].astype(dtype))
            for fmod in (0, 1):
                yield "Mod", Case(one.astype(dtype), other.astype(dtype), fed=(0, 1), fmod=fmod)


FAMILIES: Mapping[str, Callable[[], Family]] = {
    each.__name__: each
    for each in (
        *(transposed, pools, slices, squeezed, curves, far, plain_bytes, nothing, ranks, moved),
        *(resized, chosen, placed, ended, volumes, quotients),
    )
}


@pytest.mark.parametrize("name", FAMILIES)
def test_family(name: str) -> None:
    for number, (operator, case) in enumerate(FAMILIES[name]()):
        model, given = case.model(operator)
        expected = results(model, given)
        written = layoutsolve.convert(model, to="tflite").content("")
        found = [litert().run(written, given, delegate=delegate).results for delegate in (False, True)]
        if not number % 4:
            found.append(results(onnx.load_from_string(layoutsolve.convert(model).content("")), given))
        for one, *others in zip(expected, *found, strict=True):
            for other in others:
                assert (one.shape, one.dtype) == (other.shape, other.dtype), (operator, case.attributes)
                np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("operator", ["GRU", "LSTM", "RNN"])
def test_many_steps(operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are counted give what the same steps do one by one."""
    for case in CASES[operator]:
        model, given = case.model(operator)
        expected = results(model, given)
        monkeypatch.setattr("layoutsolve.emit.tflite.rows.recurrent.MOST_STEPS", 0)
        written = layoutsolve.convert(model, to="tflite").content("")
        monkeypatch.undo()
        assert "WHILE" in {each.name for each in parse(written).subgraphs[0].operators}
        for delegate in (False, True):
            found = litert().run(written, given, delegate=delegate).results
            for one, other in zip(expected, found, strict=True):
                assert (one.shape, one.dtype) == (other.shape, other.dtype)
                np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


def test_steps_that_are_too_many_to_write() -> None:
    model, given = Case(real(520, 2, 3), real(1, 4, 3), real(1, 4, 4), outputs=2, hidden_size=4).model("RNN")
    written = layoutsolve.convert(model, to="tflite").content("")
    assert sum(len(each.operators) for each in parse(written).subgraphs) < 20
    for one, other in zip(results(model, given), litert().run(written, given).results, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-3)


WINDOWS: list[dict[str, object]] = [
    {}, {"pads": [1] * 4}, {"pads": [1] * 4, "strides": [2, 2]}, {"pads": [0, 1, 1, 2], "strides": [2, 1]},
    {"auto_pad": "SAME_UPPER"}, {"auto_pad": "SAME_LOWER"}, {"auto_pad": "VALID", "strides": [1, 3]},
]  # fmt: skip


@pytest.mark.parametrize("operator", ["Conv", "depthwise", "MaxPool", "AveragePool", "counted"])
def test_images_of_dynamic_sizes(operator: str) -> None:
    """Windows go over images of any size, where they pad as much whatever it is, and means are of whole windows."""
    weights = {"Conv": [real(5, 4, 3, 3), real(5)], "depthwise": [real(8, 1, 3, 3)]}.get(operator, [])
    own: dict[str, object] = {"group": 4} if operator == "depthwise" else {"count_include_pad": 1}
    own = {} if operator in ("Conv", "MaxPool", "AveragePool") else own
    name = {"depthwise": "Conv", "counted": "AveragePool"}.get(operator, operator)
    for told in WINDOWS:
        model = dynamic(name, [["N", 4, "H", "W"]], weights, kernel_shape=[3, 3], **own, **told)
        try:
            written = layoutsolve.convert(model, to="tflite").content("")
        except UnsupportedError as error:
            assert operator == "AveragePool" and "strides" in told and "is dynamic" in str(error)
            continue
        for shape in ((1, 4, 5, 6), (1, 4, 6, 6), (2, 4, 7, 9)):
            given = [real(*shape)]
            (expected,) = results(model, given)
            for delegate in (False, True):
                (found,) = litert().run(written, given, delegate=delegate).results
                assert found.shape == expected.shape
                np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def between(operator: str, case: Case, version: int) -> tuple[onnx.ModelProto, list[Array]]:
    """A node whose image, and result, has its channels last, in a file that states all sizes as ONNX infers them."""
    model, given = case.model(operator)
    (image,), (made,), (node,) = model.graph.input, model.graph.output, model.graph.node
    shape = [given[0].shape[axis] for axis in (0, 2, 3, 1)]
    before = helper.make_node("Transpose", [image.name], ["before"], perm=[0, 3, 1, 2])
    behind = helper.make_node("Transpose", [made.name], ["result"], perm=[0, 2, 3, 1])
    port, result = helper.make_tensor_value_info(image.name, 1, shape), onnx.ValueInfoProto(name="result")
    node.input[0] = "before"
    graph = helper.make_graph([before, node, behind], "g", [port], [result], model.graph.initializer)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=9)
    return onnx.shape_inference.infer_shapes(made), [np.ascontiguousarray(given[0].transpose(0, 2, 3, 1))]


def passed_over() -> Family:
    """Strides of SAME that leave elements out."""
    ways = product(("Conv", "AveragePool"), ("SAME_UPPER", "SAME_LOWER"), (6, 7, 8), ((1, 4), (2, 4)))
    for operator, how, size, (kernel, stride) in ways:
        told = {"kernel_shape": [kernel, 1], "strides": [stride, 1], "auto_pad": how}
        weights = [real(2, 2, kernel, 1)] if operator == "Conv" else []
        yield operator, Case(real(1, 2, size, 3), *weights, **told)


def longer() -> Family:
    """Results that are shorter than ONNX infers."""
    for how, kernel, stride in product(("SAME_UPPER", "SAME_LOWER"), (1, 3, 4), (2, 3)):
        told = {"auto_pad": how, "strides": [stride] * 2, "output_padding": [1, 0]}
        yield "ConvTranspose", Case(real(1, 2, 4, 3), real(2, 1, kernel, kernel), **told)


def cropped() -> Family:
    """Parts of images that reach beyond them, which ONNX Runtime does not extrapolate in all layouts."""
    part, how = whole(0, 0, -0.2, 0.1, 1, 1, 0.7, 1.2, dtype="float32"), "tf_crop_and_resize"
    for (mode, smooth), sizes in product((("linear", 0), ("linear", 1), ("cubic", 0), ("cubic", 1)), ((9, 13), (3, 4))):
        told = {"mode": mode, "antialias": smooth, "coordinate_transformation_mode": how, "extrapolation_value": 3.5}
        yield "Resize", Case(real(2, 3, 5, 6), part, None, whole(2, 3, *sizes), **told)


@pytest.mark.parametrize("family", [passed_over, longer, cropped], ids=lambda each: each.__name__)
def test_family_with_channels_last(family: Callable[[], Family]) -> None:
    """It gives what ONNX Runtime does, or is refused."""
    for number, (operator, case) in enumerate(family()):
        model, given = between(operator, case, 17 + number % 2 if operator == "ConvTranspose" else 19)
        (expected,) = results(model, given)
        (found,) = results(onnx.load_from_string(layoutsolve.convert(model).content("")), given)
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)
        try:
            written = layoutsolve.convert(model, to="tflite").content("")
        except UnsupportedError:
            continue
        (found,) = litert().run(written, given).results
        assert found.shape == expected.shape, case.attributes
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


ENDING = {"GRU", "LSTM", "RNN"}
"""Operators without elements that end ONNX Runtime's process."""


def emptied(case: Case) -> Iterator[Case]:
    """A case with a dimension of size 0 in turn: in what is given or constant, and in what has that size there too."""
    shapes = dict[str, Case]()
    for one in (each for each in case.inputs if each is not None):
        for axis, size in enumerate(one.shape[::-1], 1):
            cut = [
                np.take(each, [], each.ndim - axis)
                if each is not None and (each is one or (each.ndim >= axis and each.shape[-axis] == size))
                else each
                for each in case.inputs
            ]
            made = Case(*cut, fed=case.fed, outputs=case.outputs, **case.attributes)
            shapes.setdefault(str([None if each is None else each.shape for each in cut]), made)
    yield from shapes.values()


@pytest.mark.members(20)
@pytest.mark.parametrize("operator", sorted(CASES.keys() - ENDING))
def test_sizes_of_zero(operator: str) -> None:
    """What has no elements is written right, or refused."""
    for case in emptied(CASES[operator][0]):
        model, given = case.model(operator)
        try:
            expected = results(model, given)
        except RefusedError:
            continue
        try:
            written = layoutsolve.convert(model, to="tflite").content("")
        except UnsupportedError:
            continue
        for delegate in (False, True):
            found = litert().run(written, given, delegate=delegate).results
            for one, other in zip(expected, found, strict=True):
                assert (one.shape, one.dtype) == (other.shape, other.dtype)
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def dynamic(
    operator: str, shapes: list[list[int | str]], constants: list[Array], indices: str = "", **told: object
) -> onnx.ModelProto:
    """A node whose operands have dynamic sizes, all but the first of a type of ``indices`` where one is stated."""
    names = [f"x{number}" for number in range(len(shapes))]
    held = [numpy_helper.from_array(each, f"c{number}") for number, each in enumerate(constants)]
    node = helper.make_node(operator, [*names, *(each.name for each in held)], ["y"], **told)
    others = helper.np_dtype_to_tensor_dtype(np.dtype(indices or "float32"))
    ports = [
        helper.make_tensor_value_info(name, others if number else 1, shape)
        for number, (name, shape) in enumerate(zip(names, shapes, strict=True))
    ]
    graph = helper.make_graph([node], "one", ports, [onnx.ValueInfoProto(name="y")], held)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return onnx.shape_inference.infer_shapes(made)


@pytest.mark.parametrize("operator", ["Max", "Mean", "Min", "Sum"])
def test_operands_of_dynamic_sizes(operator: str) -> None:
    """Several are broadcast one after the other, whichever of them has the size."""
    for shapes in permutations((["N", 3], [1, 3], ["N", 1])):
        model = dynamic(operator, [*shapes], [])
        given = [real(*(4 if size == "N" else int(size) for size in shape)) for shape in shapes]
        (found,) = litert().run(layoutsolve.convert(model, to="tflite").content(""), given).results
        np.testing.assert_allclose(found, results(model, given)[0], rtol=1e-6)


@pytest.mark.parametrize("operator", ["Max", "Mean", "Min", "Sum"])
def test_one_operand_alone(operator: str) -> None:
    model, given = dynamic(operator, [["N", 3]], []), [real(4, 3)]
    (found,) = litert().run(layoutsolve.convert(model, to="tflite").content(""), given).results
    np.testing.assert_array_equal(found, results(model, given)[0])


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_a_dynamic_size_is_cut(mode: str) -> None:
    """At its beginning; its end is not known."""
    for pads in ((-1, 0, 0, 0), (-2, 1, 0, 1), (0, -1, 0, 1)):
        model, given = dynamic("Pad", [["N", 4]], [whole(*pads)], mode=mode), [real(5, 4)]
        try:
            written = layoutsolve.convert(model, to="tflite").content("")
        except UnsupportedError as error:
            assert "dynamic size" in str(error) and mode == "edge"
            continue
        (found,) = litert().run(written, given).results
        np.testing.assert_array_equal(found, results(model, given)[0])
    with pytest.raises(UnsupportedError, match="cuts off the end of a dynamic size"):
        layoutsolve.convert(dynamic("Pad", [["N", 4]], [whole(0, 0, -1, 0)], mode=mode), to="tflite")


OPEN: Mapping[str, tuple[str, list[Array], Mapping[str, object], list[int | str]]] = {
    "an upsampling": ("Resize", [np.zeros(0, np.float32), whole(1, 1, 2, 2, dtype="float32")], {}, ["N", 2, 4, 3]),
    "a transposed convolution": ("ConvTranspose", [real(2, 3, 3, 3)], {"strides": [2, 2]}, ["N", 2, 4, 3]),
    "one that is cut": ("ConvTranspose", [real(2, 3, 3, 3)], {"pads": [1, 0, 0, 1]}, ["N", 2, 4, 3]),
    "one of a line": ("ConvTranspose", [real(2, 3, 3)], {"strides": [2]}, ["N", 2, 4]),
    "groups": ("GroupNormalization", [real(4), real(4)], {"num_groups": 2}, ["N", 4, 3, 5]),
    "a product": ("Einsum", [real(2, 3)], {"equation": "nhk,ko->nho"}, ["N", 4, 2]),
    **{
        f"{operator} {way}": (
            operator,
            [real(count, gates * 4, 3), real(count, gates * 4, 4)],
            {"hidden_size": 4, "direction": way},
            [5, "N", 3],
        )
        for operator, gates in (("GRU", 3), ("LSTM", 4), ("RNN", 1))
        for way, count in (("forward", 1), ("bidirectional", 2))
    },
}
"""Operators behind the shapes of their operands, one size of which is open: their constants and attributes."""


@pytest.mark.parametrize("name", OPEN)
def test_an_open_batch(name: str) -> None:
    """It is that of the result, and states the sizes that operators want."""
    operator, constants, told, shape = OPEN[name]
    model = dynamic(operator, [shape], constants, **told)
    if operator == "GroupNormalization":
        model.opset_import[0].version = 21
    written = layoutsolve.convert(model, to="tflite").content("")
    for batch in (1, 3):
        given = [real(*(batch if size == "N" else int(size) for size in shape))]
        for delegate in (False, True):
            (found,) = litert().run(written, given, delegate=delegate).results
            np.testing.assert_allclose(found, results(model, given)[0], rtol=2e-5, atol=2e-5)


BOUNDS = (0, 1, 3, -1, -2, -7, 7, 1 << 40, -(1 << 40))
"""Where parts of a dimension begin and end: at, between and beyond its ends."""


@pytest.mark.members(3)
@pytest.mark.parametrize("step", [1, 2, -1, -2])
def test_parts_of_dynamic_sizes(step: int) -> None:
    """Parts count from either end, of as many elements as there are; those that go backwards are all, or refused."""
    for start, end in product(BOUNDS, BOUNDS):
        model = dynamic("Slice", [["N", 3, "M"]], [whole(start, 0), whole(end, 2), whole(2, 1), whole(step, 1)])
        try:
            written = layoutsolve.convert(model, to="tflite").content("")
        except UnsupportedError as error:
            assert step < 0 and "goes backwards along a part of a dynamic size" in str(error)
            continue
        assert step > 0 or (step == -1 and start in (-1, 1 << 40) and end == -(1 << 40))
        for size in (4, 5):
            given = [real(2, 3, size)]
            (expected,) = results(model, given)
            if expected.size:
                np.testing.assert_array_equal(litert().run(written, given).results[0], expected)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("step", [1, 2])
def test_parts_between_computed_bounds(step: int, dtype: str) -> None:
    """Bounds count from either end, and may be beyond."""
    constants = [whole(2, 1).astype(dtype), whole(step, 1).astype(dtype)]
    model = dynamic("Slice", [["N", 3, "M"], [2], [2]], constants, dtype)
    written, far = layoutsolve.convert(model, to="tflite").content(""), np.iinfo(dtype).max
    for start, end in product((*BOUNDS[:-2], -far), (*BOUNDS[:-2], far)):
        given = [real(2, 3, 5), np.array([start, -1], dtype), np.array([end, far], dtype)]
        (expected,) = results(model, given)
        if expected.size:
            np.testing.assert_array_equal(litert().run(written, given).results[0], expected)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_elements_along_dynamic_sizes(dtype: str) -> None:
    """Indices count from either end, stated or computed."""
    for indices in (whole(2), whole(0, -1, 1), whole((-2, 1), (0, -3))):
        held = indices.astype(dtype)
        for case in (held, held.reshape(()) if held.size == 1 else held):
            stated = dynamic("Gather", [["N", "M"]], [case], axis=1)
            written, given = layoutsolve.convert(stated, to="tflite").content(""), real(2, 5)
            (expected,) = results(stated, [given])
            np.testing.assert_array_equal(litert().run(written, [given]).results[0], expected)
            computed = dynamic("Gather", [["N", "M"], list(case.shape)], [], dtype, axis=1)
            written = layoutsolve.convert(computed, to="tflite").content("")
            np.testing.assert_array_equal(litert().run(written, [given, case]).results[0], expected)


INDICES: Mapping[str, tuple[list[int | str], Array]] = {
    "GatherElements": ([2, "M"], whole((0, -1, 3), (1, -2, 0))),
    "GatherND": (["N", "M"], whole((0, 0), (-1, -1), (1, -2))),
}


@pytest.mark.parametrize("operator", INDICES)
def test_places_in_dynamic_sizes(operator: str) -> None:
    """Computed indices count from either end of as many elements as there are."""
    shape, indices = INDICES[operator]
    model = dynamic(
        operator, [shape, list(indices.shape)], [], "int64", **({"axis": 1} if "Elements" in operator else {})
    )
    written = layoutsolve.convert(model, to="tflite").content("")
    for size in (4, 5):
        given = [real(2, size), indices]
        np.testing.assert_array_equal(litert().run(written, given).results[0], results(model, given)[0])


@pytest.mark.parametrize("stated", [(4, 6), (0, -1), (2, 0, 6), (1, 0, -1, 2), (24,)])
@pytest.mark.parametrize("allowzero", [0, 1])
def test_computed_views(stated: Sequence[int], allowzero: int) -> None:
    """A size of 0 is that of the operand, where it is not allowed."""
    model = dynamic("Reshape", [["N", 3, 4], [len(stated)]], [], "int64", allowzero=allowzero)
    given = [real(2, 3, 4), whole(*stated)]
    written = layoutsolve.convert(model, to="tflite").content("")
    try:
        (expected,) = results(model, given)
    except RefusedError:
        return
    np.testing.assert_array_equal(litert().run(written, given).results[0], expected)


def test_views_of_several_dynamic_sizes() -> None:
    """Sizes are those of inputs, and one is what is left."""
    ports = [helper.make_tensor_value_info("x", 1, ["N", "M", 4])]
    nodes = [
        helper.make_node("Softmax", ["x"], ["y"], axis=1),
        helper.make_node("Unsqueeze", ["x", "first"], ["wide"]),
        helper.make_node("Softmax", ["wide"], ["z"], axis=2),
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in ("y", "z")]
    graph = helper.make_graph(nodes, "one", ports, outputs, [numpy_helper.from_array(whole(0, 1), "first")])
    model = onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    )
    written = layoutsolve.convert(model, to="tflite").content("")
    for shape in ((2, 3, 4), (5, 1, 4)):
        given = [real(*shape)]
        for one, other in zip(results(model, given), litert().run(written, given).results, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize(("start", "end"), [(0, None), (1, None), (0, 1), (-2, -1)])
def test_sizes_that_are_dynamic(start: int, end: int | None) -> None:
    """Which are results, or state what others become."""
    told = {"start": start} | ({} if end is None else {"end": end})
    model = dynamic("Shape", [["N", 3, "M"]], [], **told)
    for given in (real(1, 3, 4), real(2, 3, 1)):
        (found,) = litert().run(layoutsolve.convert(model, to="tflite").content(""), [given]).results
        np.testing.assert_array_equal(found, results(model, [given])[0])


@pytest.mark.parametrize("stated", [(1, 4), (5, 1, 1), (5, 3, 4), (1, 1)])
def test_expansions_to_sizes_that_are_given(stated: Sequence[int]) -> None:
    """Either side of an Expand may have ones."""
    model = dynamic("Expand", [["N", "M"], [len(stated)]], [], "int64")
    written = layoutsolve.convert(model, to="tflite").content("")
    for given in (real(3, 1), real(3, 4), real(1, 4)):
        try:
            expected = results(model, [given, whole(*stated)])
        except RefusedError:
            continue
        (found,) = litert().run(written, [given, whole(*stated)]).results
        np.testing.assert_array_equal(found, expected[0])


@pytest.mark.parametrize("way", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("operator", "gates"), [("GRU", 3), ("LSTM", 4), ("RNN", 1)])
def test_dynamic_steps(operator: str, gates: int, way: str) -> None:
    """As many as there are in a run, of a batch that is dynamic, too, or whose sequences end earlier."""
    count = 2 if way == "bidirectional" else 1
    weights = [real(count, gates * 4, 3), real(count, gates * 4, 4), real(count, gates * 8)]
    told = {"hidden_size": 4, "direction": way}
    for batch, more in (("N", []), (3, [whole(2, 1, 3, dtype="int32")])):
        model = dynamic(operator, [["T", batch, 3]], [*weights, *more], **told)
        written = layoutsolve.convert(model, to="tflite").content("")
        main = parse(written).subgraphs[0]
        products = [each for each in main.operators if each.name == "FULLY_CONNECTED"]
        assert all(main.tensors[each.outputs[0]].signature[0] == -1 for each in products)
        for steps in (3, 5):
            given = [real(steps, 3, 3)]
            for delegate in (False, True):
                (found,) = litert().run(written, given, delegate=delegate).results
                np.testing.assert_allclose(found, results(model, given)[0], rtol=2e-5, atol=2e-5)
    many = dynamic(operator, [[600, "N", 3]], weights, **told)
    written, given = layoutsolve.convert(many, to="tflite").content(""), [real(600, 2, 3)]
    np.testing.assert_allclose(litert().run(written, given).results[0], results(many, given)[0], rtol=1e-4, atol=1e-4)


REFUSED: Mapping[str, tuple[str, Callable[[], Case]]] = {
    "a product of float64": (
        "MatMul",
        lambda: Case(real(2, 3).astype("float64"), real(3, 2).astype("float64"), fed=(0, 1)),
    ),
    "a scatter to places that are given": (
        "ScatterElements",
        lambda: Case(real(3, 4), whole((1, 0, -1, 1)), real(1, 4), fed=(0, 1, 2)),
    ),
    "bytes without scales": ("Abs", lambda: Case(whole(1, -2, dtype="int8"))),
    "int16 with a zero point": (
        "DequantizeLinear",
        lambda: Case(whole(1, 2, dtype="int16"), np.float32(0.1), np.int16(7)),
    ),
    "padding of float64": (
        "MaxPool",
        lambda: Case(real(1, 1, 3, 3).astype("float64"), kernel_shape=[2, 2], pads=[0, 1, 0, 1]),
    ),
    "no slope": ("Celu", lambda: Case(real(3), alpha=0.0)),
    "sizes that are rounded otherwise": (
        "Resize",
        lambda: Case(real(1, 1, 10, 8), None, whole(1, 1, 0.7, 1.1, dtype="float32"), mode="linear"),
    ),
    "a sequence without batches": ("RNN", lambda: Case(real(5, 3), real(1, 4, 3), real(1, 4, 4), hidden_size=4)),
    "a state of another size": (
        "RNN",
        lambda: Case(real(5, 2, 3), real(1, 4, 3), real(1, 4, 4), None, None, real(1, 2, 3), hidden_size=4),
    ),
    "one side of a diagonal of a vector": ("Trilu", lambda: Case(real(3))),
    "a limit beyond the type": (
        "MaxPool",
        lambda: Case(np.zeros((1, 1, 4, 4), np.uint8), kernel_shape=[1, 1], pads=[0, 0, 1 << 40, 0]),
    ),
    "an addend of nothing": ("LayerNormalization", lambda: Case(real(2, 3), real(3), real(0))),
    "a sum of nothing": ("ReduceSum", lambda: Case(real(2, 0), whole(1))),
    **{
        f"{operator} along every other of many dimensions": (
            operator,
            lambda: Case(real(*[2] * 14), real(*[2, 1] * 7), fed=(0, 1)),
        )
        for operator in ("Min", "PRelu", "Sub")
    },
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_kernel_is_refused(name: str) -> None:
    operator, make = REFUSED[name]
    model, _ = make().model(operator)
    if operator == "DequantizeLinear":
        model.opset_import[0].version = 21
    with pytest.raises(UnsupportedError, match=operator):
        layoutsolve.convert(model, to="tflite")


REASONS: Mapping[str, tuple[str, Callable[[], Case]]] = {
    "it gives its mean or deviation; compute them with ReduceMean": (
        "LayerNormalization",
        lambda: Case(real(2, 3), real(3), outputs=2),
    ),
    "it gives a mean and a variance; export the model for inference": (
        "BatchNormalization",
        lambda: Case(real(1, 4, 2, 2), *[real(4) ** 2] * 4, training_mode=1, outputs=3),
    ),
    "its batch comes first; use layout=0": (
        "RNN",
        lambda: Case(real(2, 5, 3), real(1, 4, 3), real(1, 4, 4), hidden_size=4, layout=1),
    ),
    "its activation is ScaledTanh; use Relu, Sigmoid, Tanh": (
        "RNN",
        lambda: Case(real(5, 2, 3), real(1, 4, 3), real(1, 4, 4), hidden_size=4, activations=["ScaledTanh"]),
    ),
    "the input with its weights is computed; make it a constant": (
        "GRU",
        lambda: Case(real(5, 2, 3), real(1, 12, 3), real(1, 12, 4), fed=(0, 1), hidden_size=4),
    ),
    "it is a convolution of volumes in many groups; split it into one for each group": (
        "Conv",
        lambda: Case(real(1, 64, 1, 33, 33), real(64, 1, 1, 33, 33), group=64),
    ),
    "its weights are computed, and it has groups or dilations; make them constants": (
        "ConvTranspose",
        lambda: Case(real(1, 4, 3, 3), real(4, 1, 2, 2), fed=(0, 1), group=4),
    ),
    "its windows are dilated; use windows without dilations": (
        "MaxPool",
        lambda: Case(real(1, 2, 5, 5), kernel_shape=[2, 2], dilations=[2, 2]),
    ),
    "it gives the places of what it takes; compute them with ArgMax": (
        "MaxPool",
        lambda: Case(real(1, 2, 5, 5), kernel_shape=[2, 2], outputs=2),
    ),
    "it takes parts of a tensor of more than 5 dimensions; merge some": (
        "Slice",
        lambda: Case(real(*[3] * 11), whole(*[1] * 6), whole(*[3] * 6), whole(*range(0, 11, 2))),
    ),
    "it pads a tensor of more than 5 dimensions; merge some": (
        "Pad",
        lambda: Case(real(*[2] * 11), whole(*[1, 0] * 11)),
    ),
    "it is on 3 dimensions, not on images of 4; reshape its input to 4 dimensions": (
        "LRN",
        lambda: Case(real(1, 4, 5), size=3),
    ),
    "it is not over an odd number of channels; use an odd size": ("LRN", lambda: Case(real(1, 4, 5, 5), size=2)),
    "it converts text; cut the model with --from or --to": (
        "Cast",
        lambda: Case(real(3), to=onnx.TensorProto.STRING),
    ),
    "the input with its depth is computed; make it a constant": (
        "OneHot",
        lambda: Case(whole(1, -1, 0), whole(4), real(2), fed=(0, 1)),
    ),
    "DEPTH_TO_SPACE has no kernel for float64; cast it to float32 or int32": (
        "DepthToSpace",
        lambda: Case(real(1, 8, 2, 3).astype("float64"), blocksize=2),
    ),
}
"""Why LiteRT does not express a node, and what to do about it."""


@pytest.mark.parametrize("reason", REASONS)
def test_reasons_name_operator_and_tensor(reason: str) -> None:
    operator, make = REASONS[reason]
    with pytest.raises(UnsupportedError) as error:
        layoutsolve.convert(make().model(operator)[0], to="tflite")
    assert [str(gap) for gap in error.value.gaps] == [f"operator 0 {operator} (output 'y0'): in LiteRT {reason}"]
