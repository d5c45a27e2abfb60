"""Writing a graph as an ONNX model: quantisation annotations become QuantizeLinear and DequantizeLinear.

The quant pattern is ``op -> QuantizeLinear -> stored tensor -> DequantizeLinear -> op``. A stored tensor has one of
each at most, however many operators read it, so a graph of O operators over T quantised tensors has at most O + 2T
nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from layoutsolve.errors import OptionError
from layoutsolve.graph import Array, Dim, Graph, Node, Quant, Value

LOWEST_OPSET = 18
"""The oldest operator set that is written: the one in which all Reduce operators take their axes as input."""

HIGHEST_OPSET = 24

_TYPES: Mapping[str, int] = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "int4": TensorProto.INT4,
    "uint4": TensorProto.UINT4,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
    "int16": TensorProto.INT16,
    "uint16": TensorProto.UINT16,
    "int32": TensorProto.INT32,
    "uint32": TensorProto.UINT32,
    "int64": TensorProto.INT64,
    "uint64": TensorProto.UINT64,
    "bool": TensorProto.BOOL,
    "string": TensorProto.STRING,
    "complex64": TensorProto.COMPLEX64,
}

_OPSET_OF_OPERATOR = {"DFT": 20, "Gelu": 20}
_OPSET_OF_STORAGE = {"int16": 21, "uint16": 21, "int4": 21, "uint4": 21}


def required_opset(graph: Graph) -> int:
    """The lowest operator set, from :data:`LOWEST_OPSET` on, that carries the graph."""
    operators = (_OPSET_OF_OPERATOR.get(node.op, LOWEST_OPSET) for node in graph.nodes)
    stored = (_OPSET_OF_STORAGE.get(value.dtype, LOWEST_OPSET) for value in graph.values.values() if value.quant)
    return max([LOWEST_OPSET, *operators, *stored])


def serialise(graph: Graph, opset: int | None = None) -> onnx.ModelProto:
    """The ONNX model of a graph.

    ``opset`` defaults to the lowest one that carries the graph. Raises :class:`OptionError` where ``opset`` is too
    low for the graph or outside of what is written at all.
    """
    lowest = required_opset(graph)
    version = lowest if opset is None else opset
    if not lowest <= version <= HIGHEST_OPSET:
        raise OptionError(f"opset {version} cannot carry this model: use one from {lowest} to {HIGHEST_OPSET}")
    return _Writer(graph).model(version)


class _Writer:
    """One model in the making. Names of new tensors derive from the stored tensor's and are made unique."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.taken = set(graph.values) | set(graph.names.values())
        self.public = self._public_names()
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, onnx.TensorProto] = {}
        self.real: dict[str, str] = {}

    def _public_names(self) -> dict[str, str]:
        """What each graph input or output is called in the file; a tensor that is both keeps its input name."""
        names = self.graph.names
        public = {name: names.get(name, name) for name in self.graph.outputs}
        public.update({name: names.get(name, name) for name in self.graph.inputs})
        return public

    def model(self, version: int) -> onnx.ModelProto:
        for node in self.graph.nodes:
            self._write(node)
        inputs = [self._info(self.graph.values[name], self._name(name)) for name in self.graph.inputs]
        outputs = self._outputs()
        graph = helper.make_graph(
            self.nodes,
            self.graph.name,
            inputs,
            outputs,
            list(self.initializers.values()),
            value_info=self._value_infos(),
        )
        opsets = [helper.make_opsetid("", version)]
        model = helper.make_model(
            graph,
            opset_imports=opsets,
            producer_name="layoutsolve",
            ir_version=helper.find_min_ir_version_for(opsets),
        )
        helper.set_model_props(model, dict(sorted(self.graph.metadata.items())))
        return model

    def _outputs(self) -> list[onnx.ValueInfoProto]:
        """The outputs; one that is a constant, an input, or listed twice is copied, since each needs a name of its
        own.
        """
        produced = set(self.graph.producers)
        seen: set[str] = set()
        infos = []
        for name in self.graph.outputs:
            value = self.graph.values[name]
            public = self.graph.names.get(name, name)
            if name not in produced or name in seen:
                source = self._stored(name)
                public = self._fresh(public) if public in self.taken and public in (source, *seen) else public
                self._node("Identity", [source], [public])
            seen.add(name)
            infos.append(self._info(value, public))
        return infos

    def _value_infos(self) -> list[onnx.ValueInfoProto]:
        skipped = set(self.graph.inputs) | set(self.graph.outputs)
        outputs = (output for node in self.graph.nodes for output in node.outputs if output and output not in skipped)
        return [self._info(self.graph.values[name], name) for name in outputs]

    @staticmethod
    def _info(value: Value, name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, _TYPES[value.dtype], [_dimension(dim) for dim in value.shape])

    def _name(self, name: str) -> str:
        return self.public.get(name, name)

    def _fresh(self, name: str) -> str:
        unique, count = name, 1
        while unique in self.taken:
            unique, count = f"{name}_{count}", count + 1
        self.taken.add(unique)
        return unique

    def _node(
        self, op: str, inputs: list[str], outputs: list[str], attributes: Mapping[str, Any] | None = None
    ) -> None:
        proto = onnx.NodeProto(op_type=op, name=self._fresh(f"{op}:{outputs[0]}"), input=inputs, output=outputs)
        for key, value in sorted((attributes or {}).items()):
            proto.attribute.append(helper.make_attribute(key, _attribute(key, value)))
        self.nodes.append(proto)

    def _initializer(self, name: str, dtype: str, data: Array) -> str:
        self.initializers[name] = tensor(name, dtype, data)
        return name

    def _stored(self, name: str) -> str:
        """The name under which the stored tensor is found in the file."""
        value = self.graph.values[name]
        if value.data is None:
            return self._name(name)
        if name not in self.initializers:
            self._initializer(name, value.dtype, value.data)
        return name

    def _real(self, name: str) -> str:
        """The name under which the real numbers of a tensor are found; written once, read by all."""
        value = self.graph.values[name]
        if value.quant is None:
            return self._stored(name)
        if name not in self.real:
            real = self._fresh(f"{name}/real")
            self._dequantize(name, value.quant, real)
            self.real[name] = real
        return self.real[name]

    def _parameters(self, name: str, dtype: str, quant: Quant) -> tuple[list[str], dict[str, int]]:
        scalar = quant.axis is None
        scale = quant.scale.reshape(()) if scalar else quant.scale
        inputs = [self._initializer(self._fresh(f"{name}/scale"), "float32", scale)]
        if dtype != "int32":
            zero = np.asarray(quant.zero_point).reshape(scale.shape)
            inputs.append(self._initializer(self._fresh(f"{name}/zero_point"), dtype, zero))
        return inputs, ({} if quant.axis is None else {"axis": quant.axis})

    def _dequantize(self, name: str, quant: Quant, real: str) -> None:
        parameters, attributes = self._parameters(name, self.graph.values[name].dtype, quant)
        self._node("DequantizeLinear", [self._stored(name), *parameters], [real], attributes)

    def _quantize(self, real: str, name: str, quant: Quant) -> None:
        parameters, attributes = self._parameters(name, self.graph.values[name].dtype, quant)
        self._node("QuantizeLinear", [real, *parameters], [self._name(name)], attributes)

    def _write(self, node: Node) -> None:
        if node.op == "Identity" and not node.storage and self._convert(node.inputs[0], node.outputs[0]):
            return
        read = self._stored if node.storage else self._real
        inputs = [read(name) if name else "" for name in node.inputs]
        quantised = [(name, self._quant(name, node)) for name in node.outputs]
        outputs = [self._fresh(f"{name}/real") if quant else self._name(name) for name, quant in quantised]
        self._node(node.op, inputs, outputs, node.attributes)
        for real, (name, quant) in zip(outputs, quantised, strict=True):
            if quant:
                self._quantize(real, name, quant)

    def _quant(self, name: str, node: Node) -> Quant | None:
        """The parameters with which an output has to be quantised; None where the node writes it as it is."""
        return self.graph.values[name].quant if name and not node.storage else None

    def _convert(self, source: str, target: str) -> bool:
        """Write an Identity between differently stored tensors as quantisation alone; False where both are plain."""
        before, after = self.graph.values[source].quant, self.graph.values[target].quant
        if after is not None:
            self._quantize(self._real(source), target, after)
            return True
        if before is not None:
            self._dequantize(source, before, self._name(target))
            return True
        return False


def tensor(name: str, dtype: str, data: Array) -> onnx.TensorProto:
    """A TensorProto of an array that holds elements of ``dtype``."""
    if dtype in ("int4", "uint4", "string"):
        values = np.asarray(data).reshape(-1).tolist()
        return helper.make_tensor(name, _TYPES[dtype], list(data.shape), values)
    stored = np.ascontiguousarray(data).astype(np.dtype(dtype).newbyteorder("<"), copy=False)
    return onnx.TensorProto(name=name, data_type=_TYPES[dtype], dims=data.shape, raw_data=stored.tobytes())


def _dimension(dim: Dim) -> int | str:
    return dim if isinstance(dim, int) else str(dim)


def _attribute(key: str, value: object) -> object:
    if key == "to" and isinstance(value, str):
        return _TYPES[value]
    if isinstance(value, Iterable) and not isinstance(value, (str, np.ndarray)):
        return list(value)
    return tensor("", str(value.dtype), value) if isinstance(value, np.ndarray) else value
