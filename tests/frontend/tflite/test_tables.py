"""Every field of the other tables, written by LiteRT's object API, is read as written, or named as passed over."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as litert

from layoutsolve.errors import ModelError, UnsupportedError
from layoutsolve.frontend import read
from layoutsolve.frontend.tflite.reading.model import SparseDimension, Sparsity, Tensor
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.frontend.tflite.reading.sparse import dense
from tests.frontend.tflite.tables import OPERATORS, PASSED_OVER, fields, only_tensor, packed, small

_TENSOR: dict[str, tuple[Any, Callable[[Tensor], Any], Any]] = {
    "shape": ([2, 3], lambda found: found.shape, (2, 3)),
    "type": (litert.TensorType.INT8, lambda found: found.dtype, "int8"),
    "buffer": (1, lambda found: None if found.data is None else found.data.tolist(), 1.0),
    "name": ("größe", lambda found: found.name, "größe"),
    "isVariable": (True, lambda found: found.is_variable, True),
    "externalBuffer": (2**32 - 1, lambda found: found.external, 2**32 - 1),
}
_APART = {"quantization", "sparsity", "shapeSignature"}


def test_tensor() -> None:
    assert set(fields("Tensor")) == {*_TENSOR, *PASSED_OVER["Tensor"], *_APART}
    for field, (value, seen, expected) in _TENSOR.items():
        model = small([litert.TensorT(shape=[])])
        model.buffers.append(litert.BufferT(data=np.array([1.0], np.float32).view(np.uint8)))
        assert seen(only_tensor(model)) != expected
        setattr(model.subgraphs[0].tensors[0], field, value)
        assert seen(only_tensor(model)) == expected


def test_signature_of_a_shape() -> None:
    assert only_tensor(small([litert.TensorT(shape=[1, 3], shapeSignature=[-1, 3])])).signature == (-1, 3)
    assert only_tensor(small([litert.TensorT(shape=[1, 3])])).signature == ()


def external(number: int) -> Any:
    """ADD of the input and a constant whose data are elsewhere."""
    tensors = [litert.TensorT(shape=[2], name=name) for name in ("x", "weights", "y")]
    tensors[1].externalBuffer = number
    model = small(tensors, [litert.OperatorT(inputs=[0, 1], outputs=[2])], "ADD")
    model.subgraphs[0].inputs, model.subgraphs[0].outputs = [0], [2]
    model.externalBufferGroups = [litert.ExternalBufferGroupT(name="weights.bin")]
    model.externalBuffers = [litert.ExternalBufferT(id=number, group=0, offset=0, length=8, packing="raw")]
    return model


def test_data_outside_of_the_file() -> None:
    with pytest.raises(UnsupportedError, match=r"tensor 'weights' has its data in the external buffer 7, outside"):
        read(packed(external(7)))


@pytest.mark.parametrize("name", ["FLOAT8_E4M3FN", "FLOAT8_E5M2"])
def test_types_without_a_reader(name: str) -> None:
    number = getattr(litert.TensorType, name)
    with pytest.raises(ModelError, match=f"tensor 0 'x' has the unknown type {number}"):
        parse(packed(small([litert.TensorT(shape=[], name="x", type=number)])))


def test_buffers() -> None:
    """Data inside come first; those behind the flatbuffer have an offset above 1; buffer 0 is always empty."""
    assert set(fields("Buffer")) == {"data", "offset", "size"}
    inside, behind = np.array([1.0], np.float32), np.array([2.0], np.float32)

    def stated(index: int, offset: int, data: bool) -> bytes:
        model = small([litert.TensorT(shape=[1], buffer=index)])
        buffer = litert.BufferT(data=inside.view(np.uint8) if data else None, offset=offset, size=4)
        model.buffers = [buffer, buffer]
        length = len(packed(model)) + 16
        buffer.offset = length if offset > 1 else offset
        return packed(model).ljust(length, b"\0") + behind.tobytes()

    def held(*given: Any) -> float | None:
        data = parse(stated(*given)).subgraphs[0].tensors[0].data
        return None if data is None else float(data[0])

    assert held(1, 9999, False) == 2.0
    assert held(1, 9999, True) == held(1, 0, True) == held(1, 1, True) == 1.0
    assert held(1, 1, False) is None
    assert held(0, 9999, True) is held(0, 9999, False) is None


@pytest.mark.parametrize(("offset", "size"), [(2**32 + 8, 4), (2**63, 4), (16, 2**63), (16, 2**32)])
def test_offsets_of_64_bits(offset: int, size: int) -> None:
    model = small([litert.TensorT(shape=[1], buffer=1)])
    model.buffers.append(litert.BufferT(offset=offset, size=size))
    with pytest.raises(ModelError, match=f"a buffer at {offset} with {size} bytes ends after the file"):
        parse(packed(model))


# -- quantization and sparsity -----------------------------------------------------------------------------------------


def quantized(**given: Any) -> Any:
    return small([litert.TensorT(shape=[2, 3], type=9, quantization=litert.QuantizationParametersT(**given))])


def test_quantization() -> None:
    tried = {"scale", "zeroPoint", "quantizedDimension", "details", "detailsType"}
    assert set(fields("QuantizationParameters")) == tried | PASSED_OVER["QuantizationParameters"]
    given = {"scale": [0.5, 0.25, 2.0**-40], "zeroPoint": [0, -(2**62), 7], "quantizedDimension": 1}
    for details in (None, litert.CustomQuantizationT(custom=[1])):
        model = quantized(**given, min=[-1.0], max=[1.0], details=details, detailsType=int(details is not None))
        found = only_tensor(model).quant
        assert found is not None
        assert (found.scale.tolist(), found.zero_point.tolist(), found.axis) == tuple(given.values())
        assert found.kind == "affine"
    assert only_tensor(quantized(min=[-1.0], max=[1.0])).quant is None
    assert only_tensor(quantized(scale=[1.0], zeroPoint=[0], quantizedDimension=-5)).quant.axis == -5  # type: ignore[union-attr]


def test_quantization_along_several_axes() -> None:
    details = litert.MultiAxisQuantizationT(scales=0, quantizedDimensions=[0, 1])
    found = only_tensor(quantized(details=details, detailsType=litert.QuantizationDetails.MultiAxisQuantization)).quant
    assert found is not None
    assert found.kind == "unknown"


def test_all_kinds_of_details() -> None:
    known = {name for name, code in vars(litert.QuantizationDetails).items() if name[0].isupper() and code}
    assert known == {"CustomQuantization", "BlockwiseQuantization", "MultiAxisQuantization"}


@pytest.mark.parametrize(
    ("given", "zeros", "axis", "block"),
    [
        ({"scales": 1, "zeroPoints": 2, "blockSize": 2}, [3, 4], 1, 2),
        ({"scales": 1, "zeroPoints": -1, "blockSize": 2}, [], 1, 2),
        ({"scales": 1, "blockSize": 2}, [], 1, 2),
        ({"scales": 1, "zeroPoints": 2, "blockSize": 9, "blockShape": [1, 2]}, [3, 4], 1, 2),
        ({"scales": 1, "zeroPoints": 2, "blockSize": 9, "blockShape": [2, 1]}, [3, 4], 0, 2),
    ],
)
def test_blocks(given: dict[str, Any], zeros: list[int], axis: int, block: int) -> None:
    assert set(fields("BlockwiseQuantization")) == {"scales", "zeroPoints", "blockSize", "blockShape"}
    model = quantized(
        details=litert.BlockwiseQuantizationT(**given), detailsType=litert.QuantizationDetails.BlockwiseQuantization
    )
    model.buffers += [litert.BufferT(data=np.array(data).view(np.uint8)) for data in _HELD]
    held = [litert.TensorT(shape=[2], type=kind, buffer=at + 1) for at, kind in enumerate((0, 9))]
    model.subgraphs[0].tensors = [litert.TensorT(shape=[2]), *held, model.subgraphs[0].tensors[0]]
    found = only_tensor(model).quant
    assert found is not None
    assert (found.scale.tolist(), found.zero_point.tolist(), found.axis, found.block) == (
        [0.5, 0.25],
        zeros,
        axis,
        block,
    )


_HELD = (np.array([0.5, 0.25], np.float32), np.array([3, 4], np.int8))


def test_zero_points_of_blocks_in_the_first_tensor() -> None:
    """Its index is the default, which says that there are none unless the tensor can hold them."""
    kind = litert.QuantizationDetails.BlockwiseQuantization
    for data, expected in ((np.array([3, 4], np.int8), [3, 4]), (np.array([3, 4, 5], np.int8), [])):
        model = quantized(details=litert.BlockwiseQuantizationT(scales=1, blockSize=2), detailsType=kind)
        model.buffers += [litert.BufferT(data=each.view(np.uint8)) for each in (data, _HELD[0])]
        first = litert.TensorT(shape=[len(data)], type=9, buffer=1)
        model.subgraphs[0].tensors = [first, litert.TensorT(shape=[2], buffer=2), *model.subgraphs[0].tensors]
        found = only_tensor(model).quant
        assert found is not None
        assert found.zero_point.tolist() == expected


_VECTORS = {"Int32Vector": [0, 2**31 - 1], "Uint16Vector": [0, 2**16 - 1], "Uint8Vector": [0, 255]}


@pytest.mark.parametrize("segments", _VECTORS)
@pytest.mark.parametrize("indices", _VECTORS)
def test_sparsity(segments: str, indices: str) -> None:
    assert set(fields("SparsityParameters")) == {"traversalOrder", "blockMap", "dimMetadata"}
    sides = {"arraySegments": segments, "arrayIndices": indices}
    assert set(fields("DimensionMetadata")) == {"format", "denseSize", *sides, *(f"{side}Type" for side in sides)}
    compressed = litert.DimensionMetadataT(format=litert.DimensionType.SPARSE_CSR)
    for side, kind in sides.items():
        setattr(compressed, side, getattr(litert, kind + "T")(values=np.array(_VECTORS[kind], _width(kind))))
        setattr(compressed, side + "Type", getattr(litert.SparseIndexVector, kind))
    dense = litert.DimensionMetadataT(format=litert.DimensionType.DENSE, denseSize=2**31 - 1)
    stated = litert.SparsityParametersT(traversalOrder=[1, 0], blockMap=[0], dimMetadata=[dense, compressed])
    model = small([litert.TensorT(shape=[2, 3], type=9, buffer=1, sparsity=stated)])
    model.buffers.append(litert.BufferT(data=[1, 2]))
    found = only_tensor(model).sparsity
    assert found is not None
    assert (found.order, found.block_map) == ((1, 0), (0,))
    assert [each.dense for each in found.dimensions] == [True, False]
    assert found.dimensions[0].size == 2**31 - 1
    for read_back, kind in ((found.dimensions[1].segments, segments), (found.dimensions[1].indices, indices)):
        assert read_back is not None
        assert read_back.tolist() == _VECTORS[kind]
    model.subgraphs[0].tensors[0].buffer = 0
    assert only_tensor(model).sparsity is None, "LiteRT passes over the sparsity of what is not constant"
    model.subgraphs[0].tensors[0].buffer, compressed.format = 1, 2
    with pytest.raises(ModelError, match="unknown format 2"):
        only_tensor(model)


@pytest.mark.parametrize(
    ("order", "blocks", "levels", "message"),
    [
        ((0,), (), 2, "traversal order"), ((0, 0), (), 2, "traversal order"), ((0, 1), (), 1, "traversal order"),
        ((0, 1), (), 3, "traversal order"), ((0, 1), (0,), 3, "traversal order"),
        ((0, 1, 2), (2,), 3, "traversal order"), ((0, 1, 2), (-1,), 3, "blocks outside"),
        ((0, 2, 1), (0,), 3, "blocks outside"),
    ],
)  # fmt: skip
def test_each_part_of_the_sparsity_fits_the_shape(
    order: tuple[int, ...], blocks: tuple[int, ...], levels: int, message: str
) -> None:
    stated = Sparsity(order, blocks, (SparseDimension(True, 1),) * levels)
    with pytest.raises(ModelError, match=message):
        dense(Tensor(0, "x", "float32", (2, 3), (), data=np.ones(6, np.float32), sparsity=stated))


def _width(kind: str) -> str:
    return kind.removesuffix("Vector").lower()


# -- the model ---------------------------------------------------------------------------------------------------------


def test_model() -> None:
    model = small([litert.TensorT(shape=[2], name=name) for name in ("x", "y")])
    graph = model.subgraphs[0]
    assert set(fields("SubGraph")) == {
        *("tensors", "operators", "inputs", "outputs", "name"),
        *PASSED_OVER["SubGraph"],
    }
    graph.inputs, graph.outputs, graph.name = [0], [1], "größe"
    graph.operators, model.operatorCodes[0].builtinCode = [litert.OperatorT(inputs=[0], outputs=[1])], OPERATORS["ABS"]
    model.subgraphs = [graph, graph]
    model.description = "beschreibung"
    model.buffers.append(litert.BufferT(data=np.frombuffer(b"1.2.3\0", np.uint8)))
    model.metadata = [litert.MetadataT(name="min_runtime_version", buffer=1), litert.MetadataT(name="else", buffer=1)]
    ports = [litert.TensorMapT(name="given", tensorIndex=0)], [litert.TensorMapT(name="made", tensorIndex=1)]
    unnamed = litert.TensorMapT(tensorIndex=0)
    model.signatureDefs = [
        litert.SignatureDefT(inputs=[*ports[0], unnamed], outputs=ports[1], signatureKey="key", subgraphIndex=1)
    ]
    assert set(fields("SignatureDef")) == {"inputs", "outputs", "signatureKey", "subgraphIndex"}
    assert set(fields("TensorMap")) == {"name", "tensorIndex"}
    assert set(fields("Metadata")) == {"name", "buffer"}
    read_fields = {"operatorCodes", "subgraphs", "description", "buffers", "metadata", "signatureDefs"}
    assert set(fields("Model")) == read_fields | PASSED_OVER["Model"]
    found = parse(packed(model))
    (signature,) = found.signatures
    assert (signature.key, signature.subgraph) == ("key", 1)
    assert (signature.inputs, signature.outputs) == ({"given": 0}, {"made": 1})
    assert found.description == "beschreibung"
    assert found.metadata == {"min_runtime_version": b"1.2.3\0", "else": b"1.2.3\0"}
    assert [part.name for part in found.subgraphs] == ["größe", "größe"]
    assert (found.subgraphs[1].inputs, found.subgraphs[1].outputs) == ((0,), (1,))


def test_no_table_is_forgotten() -> None:
    """Every table of the schema is an option class, or tried above."""
    tables = {name for name, kind in vars(litert).items() if inspect.isclass(kind) and hasattr(kind, "GetRootAs")}
    tried = {
        *("Model", "SubGraph", "Tensor", "Operator", "OperatorCode", "Buffer", "Metadata", "SignatureDef", "TensorMap"),
        *("QuantizationParameters", "CustomQuantization", "BlockwiseQuantization", "MultiAxisQuantization"),
        *("SparsityParameters", "DimensionMetadata", *_VECTORS, "ExternalBuffer", "ExternalBufferGroup"),
    }
    assert tables - {name for name in tables if name.endswith("Options")} == tried | {"VariantSubType"}
    assert set(fields("OperatorCode")) == {"deprecatedBuiltinCode", "customCode", "builtinCode", "version"}
