"""Small TensorFlow Lite models, built for one test each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

_TYPES = {"float32": 0, "float16": 1, "int32": 2, "uint8": 3, "int64": 4, "bool": 6, "int16": 7, "int8": 9}


@dataclass
class Builder:
    """Adds tensors and operators one by one; ``bytes()`` gives the file."""

    tensors: list[Any] = field(default_factory=list)
    operators: list[Any] = field(default_factory=list)
    codes: list[Any] = field(default_factory=list)
    buffers: list[Any] = field(default_factory=lambda: [schema.BufferT()])

    def tensor(self, shape: tuple[int, ...], dtype: str = "float32", data: Any = None, **more: Any) -> int:
        """A tensor; more: ``name``, ``signature``, ``quant`` = (scales, zero points, axis)."""
        made = schema.TensorT()
        made.shape, made.type, made.buffer = list(shape), _TYPES[dtype], 0
        made.name = more.get("name", f"t{len(self.tensors)}")
        made.shapeSignature = more.get("signature")
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data, dtype).tobytes(), np.uint8)
            self.buffers.append(buffer)
            made.buffer = len(self.buffers) - 1
        if "quant" in more:
            made.quantization = schema.QuantizationParametersT()
            scale, zero, axis = more["quant"]
            made.quantization.scale, made.quantization.zeroPoint = list(scale), list(zero)
            made.quantization.quantizedDimension = axis
        self.tensors.append(made)
        return len(self.tensors) - 1

    def constant(self, data: Any, dtype: str, **more: Any) -> int:
        """A constant tensor."""
        array = np.asarray(data, dtype)
        return self.tensor(array.shape, dtype, array, **more)

    def operator(self, name: str, inputs: list[int], outputs: list[int], kind: str = "", **options: Any) -> None:
        """An operator; ``kind`` is the name of its options, such as ``Conv2DOptions``."""
        code = schema.OperatorCodeT()
        number = getattr(schema.BuiltinOperator, name)
        code.builtinCode, code.deprecatedBuiltinCode = number, min(number, 127)
        self.codes.append(code)
        made = schema.OperatorT()
        made.opcodeIndex, made.inputs, made.outputs = len(self.codes) - 1, inputs, outputs
        if kind:
            made.builtinOptionsType = getattr(schema.BuiltinOptions, kind)
            made.builtinOptions = getattr(schema, kind + "T")()
            for key, value in options.items():
                assert hasattr(made.builtinOptions, key), key
                setattr(made.builtinOptions, key, value)
        self.operators.append(made)

    def bytes(self, inputs: list[int], outputs: list[int]) -> bytes:
        """The file."""
        graph = schema.SubGraphT()
        graph.tensors, graph.operators, graph.name = self.tensors, self.operators, "main"
        graph.inputs, graph.outputs = inputs, outputs
        model = schema.ModelT()
        model.version, model.description = 3, "small"
        model.subgraphs, model.operatorCodes, model.buffers = [graph], self.codes, self.buffers
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def convolution(channels: int = 3, **options: Any) -> bytes:
    """CONV_2D with a fused RELU6, then RESHAPE."""
    builder, rng = Builder(), np.random.default_rng(0)
    x = builder.tensor((1, 6, 6, channels), name="image")
    weights = builder.constant(rng.normal(size=(4, 3, 3, channels)), "float32", name="weights")
    bias = builder.constant(rng.normal(size=4), "float32", name="bias")
    y = builder.tensor((1, 3, 3, 4), name="features")
    settings = {"strideH": 2, "strideW": 2, "fusedActivationFunction": 3, **options}
    builder.operator("CONV_2D", [x, weights, bias], [y], "Conv2DOptions", **settings)
    flat = builder.tensor((1, 36), name="flat")
    shape = builder.constant([1, 36], "int32", name="shape")
    builder.operator("RESHAPE", [y, shape], [flat], "ReshapeOptions")
    return builder.bytes([x], [flat])
