"""What is written to TensorFlow Lite of a quantized source in ONNX, operator by operator, on LiteRT's own numbers.

Of the source each tensor that is stored in steps, and that LiteRT has too, becomes an input, fed with what LiteRT has,
and an output beside it that is computed from such inputs alone. LiteRT's integer kernels round by a step otherwise than
ONNX Runtime does, and what normalises makes many of one: no such error is passed on here, so that what is off was
caused where it is. Tensors within branches and loops are not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from layoutsolve.frontend.tflite.lowering.quantization import quant_of
from layoutsolve.frontend.tflite.reading.model import Subgraph
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.ir.graph import Array, Quant
from layoutsolve.proto.messages import TYPES
from layoutsolve.verification.layer_accuracy import Departure, Inspection
from layoutsolve.verification.litert_tensors import numbers
from layoutsolve.verification.metrics import FLOAT_TOLERANCE, distance, kind, passes, reason
from layoutsolve.verification.runtimes import LiteRT, OnnxRuntime, Pinned, Port
from layoutsolve.verification.tensor_locations import Inside, as_in_source

_FED = "{}/of LiteRT"
"""The name of an input that stands for a tensor."""


@dataclass(frozen=True, eq=False)
class _Known:
    """A tensor in steps: the node of the source that gives it, by its number, the operator whose result that stores,
    what the integers mean, and its number in the model.
    """

    name: str
    node: int
    operator: str
    dtype: str
    quant: Quant
    index: int

    @property
    def port(self) -> Port:
        """The tensor as it is compared."""
        return Port(self.name, self.dtype, (), (), (float(self.quant.scale[0]),), (int(self.quant.zero_point[0]),))

    def stored(self, data: Array) -> Array:
        """Floats as the integers of the source."""
        limits = np.iinfo(self.dtype)
        steps = np.rint(data.astype(np.float64) / float(self.quant.scale[0])) + int(self.quant.zero_point[0])
        return np.asarray(np.clip(steps, limits.min, limits.max).astype(self.dtype))


class Operators:
    """A source, cut where tensors are known, beside what is written of it, ``model``. Raises :class:`VerifyError` where
    ONNX Runtime refuses either.
    """

    def __init__(self, source: onnx.ModelProto, model: bytes, inside: Inside, pinned: Pinned) -> None:
        self._model, self._inside, self._subgraph = model, inside, parse(model).subgraphs[0]
        self._known = _known(source, self._subgraph, inside)
        whole = onnx.ModelProto()
        whole.CopyFrom(source)
        del whole.graph.output[:]
        whole.graph.output.extend(onnx.ValueInfoProto(name=each.name) for each in self._known)
        self._whole = OnnxRuntime(whole.SerializeToString(), level="none", pinned=pinned)
        self._cut = OnnxRuntime(_cut(source, self._known).SerializeToString(), level="none", pinned=pinned)
        self._pairs: dict[str, list[tuple[Array, Array]]] = {each.name: [] for each in self._known}

    def run(self, litert: LiteRT, given: Sequence[Array], fed: Mapping[str, Array]) -> list[Array]:
        """The source's outputs as they are computed of LiteRT's tensors. ``given`` are the inputs of the model by
        position, and ``fed`` those of the source by name; what is known inside is compared.
        """
        tensors = litert.run(self._model, given, tensors=[each.index for each in self._known]).tensors
        values, places = self._inside
        here = {}
        for each, like in zip(self._known, self._whole.run(fed) if self._known else (), strict=True):
            quant = quant_of(self._subgraph.tensors[each.index])
            data = as_in_source(values[each.name], places[each.name], tensors[each.index], like)
            here[each.name] = data if quant is None else each.stored(quant.real(data))
        made = self._cut.run({**fed, **{_FED.format(name): data for name, data in here.items()}})
        for (name, data), computed in zip(here.items(), made, strict=False):
            self._pairs[name].append((data, computed))
        return made[len(here) :]

    def inspection(self) -> Inspection:
        """What was compared inside, and the first tensor that is off by itself."""
        for each in sorted(self._known, key=lambda known: known.node):
            compared, found = kind(each.port), distance(each.port, self._pairs[each.name])
            if not passes(compared, found, FLOAT_TOLERANCE):
                told = reason(compared, found, FLOAT_TOLERANCE)
                departure = Departure(each.node, each.operator, each.name, compared, found, told)
                return Inspection(len(self._known), departure)
        return Inspection(len(self._known), None)


def _known(source: onnx.ModelProto, subgraph: Subgraph, inside: Inside) -> list[_Known]:
    """The tensors in steps that both have."""
    values, places = inside
    there, found = numbers(subgraph), list[_Known]()
    makers = {name: node.op_type for node in source.graph.node for name in node.output}
    for number, node in enumerate(source.graph.node):
        name = node.output[0] if node.output else ""
        if name not in values or name not in places or places[name].name not in there:
            continue
        value, index = values[name], there[places[name].name]
        quant = value.quant
        if quant is None or quant.axis is not None or value.dtype not in ("int8", "uint8", "int16", "uint16"):
            continue
        if quant_of(subgraph.tensors[index]) is None:
            continue
        stores = node.op_type == "QuantizeLinear"
        operator = makers.get(node.input[0], node.op_type) if stores else node.op_type
        found.append(_Known(name, number, operator, value.dtype, quant, index))
    return found


def _cut(source: onnx.ModelProto, known: Sequence[_Known]) -> onnx.ModelProto:
    """The source with an input in the place of each known tensor, and these and its outputs as outputs."""
    made = onnx.ModelProto()
    made.CopyFrom(source)
    names = {each.name: _FED.format(each.name) for each in known}
    for node in made.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
    for each in known:
        made.graph.input.append(helper.make_tensor_value_info(names[each.name], TYPES[each.dtype], None))
    outputs = [*made.graph.output]
    del made.graph.output[:]
    made.graph.output.extend([*(onnx.ValueInfoProto(name=each.name) for each in known), *outputs])
    return made
