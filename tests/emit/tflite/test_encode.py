"""Models of TensorFlow Lite that are read and written again."""

from __future__ import annotations

import numpy as np
import pytest

from layoutsolve.emit.tflite import encode
from layoutsolve.emit.tflite.versions import version_of
from layoutsolve.errors import BudgetError, OutputError
from layoutsolve.frontend.tflite.reading.model import Model, Operator, Subgraph, Tensor
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.ir.budget import Budget
from layoutsolve.ir.elements import memory
from tests.conformance.families import every_case
from tests.random_models import network
from tests.truth import litert


def same(one: Model, other: Model) -> None:
    """Raise AssertionError where two models differ in anything but where their constants lie."""
    for first, second in zip(one.subgraphs, other.subgraphs, strict=True):
        assert (first.name, first.inputs, first.outputs) == (second.name, second.inputs, second.outputs)
        for left, right in zip(first.tensors, second.tensors, strict=True):
            assert (left.name, left.dtype, left.shape, left.is_variable) == (
                right.name,
                right.dtype,
                right.shape,
                right.is_variable,
            )
            assert (-1 in left.signature) == (-1 in right.signature) and (left.data is None) == (right.data is None)
            assert (
                left.data is None
                or right.data is None
                or np.array_equal(left.data.reshape(-1).view(np.uint8), right.data.reshape(-1).view(np.uint8))
            )
            assert (left.quant is None) == (right.quant is None)
            if left.quant is not None and right.quant is not None:
                assert np.array_equal(left.quant.scale, right.quant.scale) and left.quant.axis == right.quant.axis
                assert np.array_equal(left.quant.zero_point, right.quant.zero_point)
        for given, written in zip(first.operators, second.operators, strict=True):
            assert (given.name, given.inputs, given.outputs) == (written.name, written.inputs, written.outputs)
            assert (given.options, given.custom_options) == (written.options, written.custom_options)
            assert (given.version, given.intermediates) == (written.version, written.intermediates)
    assert [each.inputs for each in one.signatures] == [each.inputs for each in other.signatures]


@pytest.mark.parametrize("seed", range(12))
def test_a_network_that_is_written_again_gives_the_same(seed: int) -> None:
    made = network(seed)
    source = made.source
    model = parse(source)
    again = encode(model, Budget())
    same(model, parse(again))
    results = [litert().run(each, made.feeds()).results for each in (source, again)]
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_every_kind_of_options_is_written_again() -> None:
    seen: set[str] = set()
    for case in every_case():
        name = case.operator
        if name in seen or name.startswith("CUSTOM"):
            continue
        seen.add(name)
        model = parse(case.make().source)
        plain = (tensor.quant is None or tensor.quant.kind == "affine" for tensor in model.subgraphs[0].tensors)
        if all(plain) and not any(tensor.sparsity for tensor in model.subgraphs[0].tensors):
            same(model, parse(encode(model, Budget())))
    assert len(seen) > 100


def test_constants_count() -> None:
    model = parse(network(0).source)
    with pytest.raises(BudgetError):
        encode(model, Budget(1, 1))


@pytest.mark.parametrize(
    ("name", "dtype", "shape", "version"),
    [
        ("ADD", "float32", (2,), 1),
        ("ADD", "int8", (2,), 2),
        ("BROADCAST_TO", "float32", (2,), 2),
        ("TRANSPOSE", "float32", (1,) * 5, 4),
        ("SLICE", "int8", (1,) * 5, 5),
        ("RESIZE_BILINEAR", "float32", (1,) * 4, 1),
    ],
)
def test_versions_are_the_lowest(name: str, dtype: str, shape: tuple[int, ...], version: int) -> None:
    tensors = [Tensor(number, str(number), dtype, shape, shape) for number in range(2)]
    assert version_of(Operator(0, name, (0, 0), (1,), {}), tensors) == version
    assert version_of(Operator(0, name, (0, 0), (1,), {}, version=9), tensors) == 9


@pytest.mark.parametrize(
    ("dtype", "version", "names"),
    [
        ("int16", 2, "LEAKY_RELU EXP LOG REDUCE_PROD FLOOR_MOD"),
        ("int16", 3, "ADD AVERAGE_POOL_2D MAX_POOL_2D RELU TANH LOGISTIC LESS GREATER_EQUAL SOFTMAX MEAN MIRROR_PAD"),
        ("int16", 3, "REDUCE_MAX REDUCE_MIN RELU6 RSQRT BATCH_MATMUL CONCATENATION PAD PADV2 PACK GATHER_ND TOPK_V2"),
        ("int16", 3, "BROADCAST_TO DEQUANTIZE FLOOR_DIV"),
        ("int16", 4, "MAXIMUM MINIMUM RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR UNPACK SLICE GATHER"),
        ("int16", 5, "SUB TRANSPOSE"),
        ("int8", 2, "ADD SUB MAXIMUM MINIMUM PACK UNPACK SLICE STRIDED_SLICE TRANSPOSE GATHER RELU RELU6 TANH SOFTMAX"),
        ("int8", 2, "SUM MEAN PAD PADV2 CONCATENATION RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR SPACE_TO_DEPTH SPLIT_V"),
        ("int8", 2, "SELECT LESS GREATER EQUAL NOT_EQUAL LOG_SOFTMAX ARG_MAX ARG_MIN DEPTH_TO_SPACE BATCH_MATMUL EXP"),
        ("int8", 3, "TILE REVERSE_V2 BROADCAST_TO FLOOR_DIV"),
        ("bool", 3, "TRANSPOSE STRIDED_SLICE UNPACK GATHER"),
        ("int64", 4, "ADD SUB"),
        ("uint32", 4, "PACK CONCATENATION"),
        ("string", 3, "EQUAL NOT_EQUAL SLICE"),
    ],
)
def test_versions_of_types(dtype: str, version: int, names: str) -> None:
    """As TensorFlow's ``op_version.cc`` gives them."""
    tensors = [Tensor(number, str(number), dtype, (2,), (2,)) for number in range(2)]
    assert {version_of(Operator(0, name, (0, 0), (1,), {}), tensors) for name in names.split()} == {version}


def test_options_are_written_where_none_is_set() -> None:
    """Compilers read them, as vela does."""
    tensors = tuple(Tensor(number, str(number), "int8", (1, 2, 2, 1), (1, 2, 2, 1)) for number in range(2))
    sizes = Tensor(2, "sizes", "int32", (2,), (2,), None, np.array([2, 2], np.int32))
    resize = Operator(0, "RESIZE_NEAREST_NEIGHBOR", (0, 2), (1,), {})
    model = Model((Subgraph("one", (*tensors, sizes), (resize,), (0,), (1,)),), (), {}, {}, "", 0)
    (written,) = parse(encode(model, Budget())).subgraphs[0].operators
    assert written.options["align_corners"] is False


def test_constants_fill_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many bytes as fit, and not one more."""
    model = parse(network(0).source)
    constants = [each.data for subgraph in model.subgraphs for each in subgraph.tensors if each.data is not None]
    size = sum({memory(data): data.nbytes for data in constants}.values())
    monkeypatch.setitem(encode.__globals__, "LIMIT", size)
    assert encode(model, Budget())
    monkeypatch.setitem(encode.__globals__, "LIMIT", size - 1)
    with pytest.raises(OutputError, match=f"the constants have {size} bytes, and a .tflite file can hold {size - 1}"):
        encode(model, Budget())
