"""Making TensorFlow Lite models in Python: tensors, operators, then the bytes of the file."""

from __future__ import annotations

import pickle
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from layoutsolve.ir.graph import Array

TYPES: Mapping[str, int] = {name.lower(): code for name, code in vars(schema.TensorType).items() if name.isupper()}
"""Code of each tensor type by its name: 'float32', 'int8', 'string', ..."""

_OPTIONS = {name.lower(): (1, name) for name in vars(schema.BuiltinOptions) if name.endswith("Options")}
_OPTIONS.update({name.lower(): (2, name) for name in vars(schema.BuiltinOptions2) if name.endswith("Options")})
_SHARED_OPTIONS = {
    **dict.fromkeys(("MAX_POOL_2D", "AVERAGE_POOL_2D", "L2_POOL_2D"), "Pool2D"),
    **dict.fromkeys(("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL"), "Reducer"),
    **dict.fromkeys(("MAXIMUM", "MINIMUM"), "MaximumMinimum"),
    "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNN",
    **dict.fromkeys(("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL"), "Random"),
    "CONV_3D_TRANSPOSE": "Conv3D",
    "L2_NORMALIZATION": "L2Norm",
    "PADV2": "PadV2",
    "STABLEHLO_COMPOSITE": "StableHLOComposite",
}
_ENUMERATIONS: Mapping[str, Any] = {
    "padding": schema.Padding,
    "fusedActivationFunction": schema.ActivationFunctionType,
    "mode": schema.MirrorPadMode,
    "weightsFormat": schema.FullyConnectedOptionsWeightsFormat,
    "kernelType": schema.LSTMKernelType,
    "reduceFunction": schema.ReduceWindowFunction,
}
_PACKED = {"int4": 4, "uint4": 4, "int2": 2}
"""Bits of the types of which several share a byte, the lowest bits first."""

_FIRST_VERSION = {"BROADCAST_TO": 2}


@dataclass(frozen=True, eq=False)
class Quant:
    """Scales and zero points, one each or one per index of ``axis``.

    With a ``block`` they are those of blocks along the last axis, in the tensor's order; zero points may be left out.
    """

    scale: Sequence[float]
    zero_point: Sequence[int]
    axis: int = 0
    block: int = 0


@dataclass(eq=False)
class Part:
    """A subgraph in the making; tensors and operators are numbered in the order in which they are added."""

    owner: Builder
    subgraph: Any = field(default_factory=lambda: schema.SubGraphT(tensors=[], inputs=[], outputs=[], operators=[]))

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        dtype: str = "float32",
        *,
        data: Any = None,
        quant: Quant | None = None,
        signature: Sequence[int] | None = None,
        variable: bool = False,
    ) -> int:
        """Add a tensor and return its index; with ``data`` it is a constant. Small integers come as one int8 each."""
        blocks = self._blocks(name, quant) if quant and quant.block else None
        tensor = schema.TensorT(name=name, shape=list(shape), type=TYPES[dtype], isVariable=variable, hasRank=True)
        tensor.buffer = self.owner.buffer(b"" if data is None else encode(data, dtype))
        if signature is not None:
            tensor.shapeSignature = list(signature)
        if blocks is not None:
            tensor.quantization = blocks
        elif quant is not None:
            tensor.quantization = schema.QuantizationParametersT(
                scale=list(quant.scale), zeroPoint=list(quant.zero_point), quantizedDimension=quant.axis
            )
        self.subgraph.tensors.append(tensor)
        return len(self.subgraph.tensors) - 1

    def _blocks(self, name: str, quant: Quant) -> Any:
        """Quantization per block: the scales, and the zero points if there are any, are tensors of their own."""
        scales = self.constant(f"{name}/scales", np.array(quant.scale, np.float16))
        zeros = self.constant(f"{name}/zeros", np.array(quant.zero_point, np.int8)) if quant.zero_point else -1
        details = schema.BlockwiseQuantizationT(scales=scales, zeroPoints=zeros, blockSize=quant.block)
        kind = schema.QuantizationDetails.BlockwiseQuantization
        return schema.QuantizationParametersT(detailsType=kind, details=details)

    def input(self, name: str, shape: Sequence[int], dtype: str = "float32", **more: Any) -> int:
        """Add a tensor that is an input of the subgraph."""
        index = self.tensor(name, shape, dtype, **more)
        self.subgraph.inputs.append(index)
        return index

    def constant(self, name: str, data: Any, dtype: str | None = None, quant: Quant | None = None) -> int:
        """Add a constant."""
        array = np.asarray(data)
        return self.tensor(name, array.shape, dtype or array.dtype.name, data=array, quant=quant)

    def operator(
        self,
        name: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: Mapping[str, Any] | None = None,
        *,
        custom_options: bytes = b"",
        intermediates: Sequence[int] = (),
    ) -> None:
        """Add an operator by its TFLite name ('CUSTOM:<code>' for a custom one); -1 is an input left out.

        ``options`` are the fields of its options in snake case, enumerations by name ('SAME', 'RELU').
        """
        operator = schema.OperatorT(opcodeIndex=self.owner.code(name), inputs=list(inputs), outputs=list(outputs))
        operator.intermediates = list(intermediates) or None
        if custom_options:
            operator.customOptions = np.frombuffer(custom_options, np.uint8)
        _set_options(operator, name, {**_WRITTEN.get(name, {}), **(options or {})})
        self.subgraph.operators.append(operator)

    def outputs(self, *indices: int) -> None:
        """Declare the outputs of the subgraph."""
        self.subgraph.outputs = list(indices)


class Builder(Part):
    """A model in the making. It is its own first subgraph; :meth:`part` adds more."""

    def __init__(self) -> None:
        self.model = schema.ModelT(version=3, operatorCodes=[], subgraphs=[], description="built", buffers=[])
        self.model.signatureDefs = []
        self.codes: dict[str, int] = {}
        self.buffer(b"")
        super().__init__(self)
        self.model.subgraphs.append(self.subgraph)

    @classmethod
    def reopened(cls, source: bytes) -> Builder:
        """A model to go on with; it loses its signatures."""
        made = cls()
        made.model = pickle.loads(_opened(source))
        made.subgraph = made.model.subgraphs[0]
        return made

    def part(self) -> Part:
        """Add a subgraph."""
        part = Part(self)
        self.model.subgraphs.append(part.subgraph)
        return part

    def code(self, name: str) -> int:
        """The index of an operator code, added where it is new."""
        if name not in self.codes:
            custom = name.startswith("CUSTOM:")
            number = schema.BuiltinOperator.CUSTOM if custom else getattr(schema.BuiltinOperator, name)
            code = schema.OperatorCodeT(deprecatedBuiltinCode=min(number, 127), builtinCode=number)
            code.version = _FIRST_VERSION.get(name, 1)
            code.customCode = name[7:] if custom else None
            self.model.operatorCodes.append(code)
            self.codes[name] = len(self.model.operatorCodes) - 1
        return self.codes[name]

    def buffer(self, data: bytes) -> int:
        """The index of a buffer; 0 is the empty one."""
        if data or not self.model.buffers:
            self.model.buffers.append(Buffer(data))
            return len(self.model.buffers) - 1
        return 0

    def metadata(self, name: str, data: bytes) -> None:
        """Add an entry of metadata."""
        self.model.metadata = [*(self.model.metadata or []), schema.MetadataT(name=name, buffer=self.buffer(data))]

    def signature(
        self, inputs: Mapping[str, int], outputs: Mapping[str, int], key: str = "serving_default", position: int = 0
    ) -> None:
        """Add a signature: names of tensors of a subgraph, by default the first."""
        maps = [
            [schema.TensorMapT(name=name, tensorIndex=index) for name, index in ports.items()]
            for ports in (inputs, outputs)
        ]
        self.model.signatureDefs.append(
            schema.SignatureDefT(inputs=maps[0], outputs=maps[1], signatureKey=key, subgraphIndex=position)
        )

    def finish(self, *outputs: int, inputs: Sequence[int] | None = None) -> bytes:
        """The bytes of the model with these outputs, and these inputs where they were not added as such."""
        if outputs:
            self.outputs(*outputs)
        if inputs is not None:
            self.subgraph.inputs = list(inputs)
        builder = flatbuffers.Builder(4096)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


@lru_cache(64)
def _opened(source: bytes) -> bytes:
    """A model without its signatures, as pickle keeps it: that is read six times as fast as the file."""
    model = schema.ModelT.InitFromPackedBuf(source)
    model.signatureDefs = []
    model.buffers = [Buffer(b"" if each.data is None else bytes(each.data)) for each in model.buffers]
    return pickle.dumps(model, pickle.HIGHEST_PROTOCOL)


class Buffer(schema.BufferT):  # type: ignore[misc]
    """A buffer whose bytes are aligned, as LiteRT's kernels expect them."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.bytes = data

    def Pack(self, builder: Any) -> Any:  # noqa: N802  (the name is flatbuffers')
        if self.bytes:
            builder.StartVector(1, len(self.bytes), 16)
            builder.head = builder.head - len(self.bytes)
            builder.Bytes[builder.Head() : builder.Head() + len(self.bytes)] = self.bytes
            vector = builder.EndVector()
        schema.BufferStart(builder)
        if self.bytes:
            schema.BufferAddData(builder, vector)
        return schema.BufferEnd(builder)


def encode(data: Any, dtype: str) -> bytes:
    """The bytes of a constant: little-endian numbers, packed int4, or TFLite's table of strings."""
    if dtype == "string":
        items = [item if isinstance(item, bytes) else str(item).encode() for item in np.ravel(data).tolist()]
        starts = np.cumsum([4 * (len(items) + 2), *map(len, items)]).tolist()
        return struct.pack(f"<{len(items) + 2}i", len(items), *starts) + b"".join(items)
    array: Array = np.asarray(data)
    if dtype in _PACKED:
        bits = _PACKED[dtype]
        count = 8 // bits
        parts = np.append(array.reshape(-1), [0] * (-array.size % count)).astype(np.uint8) & ((1 << bits) - 1)
        shifted = parts.reshape(-1, count) << np.arange(0, 8, bits, dtype=np.uint8)
        return np.bitwise_or.reduce(shifted, axis=1).astype(np.uint8).tobytes()
    return array.astype(np.dtype(dtype).newbyteorder("<")).tobytes()


_WRITTEN: Mapping[str, Mapping[str, Any]] = {"RESHAPE": {"new_shape": []}, "SQUEEZE": {"squeeze_dims": []}}
"""Options that converters of TensorFlow always write, for readers that fail without them, as tf2onnx."""


def _set_options(operator: Any, name: str, options: Mapping[str, Any] | None) -> None:
    found = _OPTIONS.get(_SHARED_OPTIONS.get(name, name.replace("_", "")).lower() + "options")
    if found is None:
        if options:
            raise KeyError(f"{name} has no options")
        return
    union, kind = found
    table = getattr(schema, f"{kind}T")()
    for key, value in (options or {}).items():
        attribute = re.sub(r"_(\w)", lambda match: match[1].upper(), key)
        if not hasattr(table, attribute):
            raise KeyError(f"{kind} has no field {attribute}")
        setattr(table, attribute, _option(attribute, value))
    suffix = "2" if union == 2 else ""
    setattr(operator, f"builtinOptions{suffix}Type", getattr(getattr(schema, f"BuiltinOptions{suffix}"), kind))
    setattr(operator, f"builtinOptions{suffix}", table)


def _option(attribute: str, value: Any) -> Any:
    if isinstance(value, str) and attribute in _ENUMERATIONS:
        return getattr(_ENUMERATIONS[attribute], value)
    return TYPES.get(value, value) if isinstance(value, str) else value
