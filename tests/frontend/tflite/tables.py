"""What the tests of tables share: small models by LiteRT's own object API, and what the reader makes of them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import flatbuffers
from ai_edge_litert import schema_py_generated as litert

from layoutsolve.frontend.tflite.reading.model import Operator, Tensor
from layoutsolve.frontend.tflite.reading.reader import parse

OPERATORS = {name: code for name, code in vars(litert.BuiltinOperator).items() if name[0].isupper()}

PASSED_OVER: Mapping[str, set[str]] = {
    "Model": {"version", "metadataBuffer", "externalBufferGroups", "externalBuffers"},
    "SubGraph": {"debugMetadataIndex"},
    "Tensor": {"hasRank", "variantTensors"},
    "Operator": {"mutatingVariableInputs", "customOptionsFormat", "debugMetadataIndex"},
    "OperatorCode": {"version"},
    "QuantizationParameters": {"min", "max"},
    "CustomQuantization": {"custom"},
    "MultiAxisQuantization": {"scales", "zeroPoints", "blockSize", "quantizedDimensions"},
}
"""Fields that mean nothing to LiteRT's kernels, or tell more of what is refused (data elsewhere, several axes)."""


def packed(model: Any) -> bytes:
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def small(tensors: list[Any] | None = None, operators: list[Any] | None = None, code: str = "CUSTOM") -> Any:
    """A model of one subgraph with an empty first buffer; its operators are of one code."""
    graph = litert.SubGraphT(tensors=tensors or [], operators=operators or [], inputs=[], outputs=[], name="main")
    number = OPERATORS[code]
    codes = [litert.OperatorCodeT(builtinCode=number, customCode="own" if code == "CUSTOM" else None)]
    return litert.ModelT(version=3, operatorCodes=codes, subgraphs=[graph], buffers=[litert.BufferT()])


def only_tensor(model: Any) -> Tensor:
    return parse(packed(model)).subgraphs[0].tensors[-1]


def only_operator(model: Any) -> Operator:
    return parse(packed(model)).subgraphs[0].operators[0]


def fields(name: str) -> dict[str, Any]:
    """The fields of a table and their defaults."""
    parameters = inspect.signature(getattr(litert, name + "T").__init__).parameters.values()
    return {each.name: each.default for each in parameters if each.name != "self"}
