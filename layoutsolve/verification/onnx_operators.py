"""What is written to TensorFlow Lite of a source in ONNX, operator by operator, on LiteRT's own numbers.

Of the source each tensor that is stored in steps, or of floats of 32 bits, and that LiteRT has too, becomes an input,
fed with what LiteRT has, and an output beside it that is computed from such inputs alone. LiteRT's integer kernels
round by a step otherwise than ONNX Runtime does, and its float kernels by the last bits; what normalises makes many of
one. No such error is passed on here, so that what is off was caused where it is. Tensors within branches and loops are
not looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import onnx
from onnx import helper

from layoutsolve.frontend.tflite.lowering.quantization import quant_of
from layoutsolve.frontend.tflite.reading.model import Subgraph
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.ir.graph import Array, Quant
from layoutsolve.proto.messages import TYPES
from layoutsolve.verification.layer_accuracy import Departure, Inspection, rounded
from layoutsolve.verification.litert import LiteRT, Port
from layoutsolve.verification.litert_tensors import numbers
from layoutsolve.verification.metrics import FLOAT_TOLERANCE, distance, kind, passes, reason
from layoutsolve.verification.runtimes import OnnxRuntime, Pinned
from layoutsolve.verification.tensor_locations import Inside, as_in_source
from layoutsolve.verification.tensor_statistics import Tally
from layoutsolve.verification.undefined_results import NOISE

_FED = "{}/of LiteRT"
"""The name of an input that stands for a tensor."""

_OWN = "{}/{}"


@dataclass(frozen=True, eq=False)
class _Known:
    """A tensor that both have: the node of the source that gives it, by its number, the operator whose result that is,
    what its integers mean, None where it is of floats, and its number in the model.
    """

    name: str
    node: int
    operator: str
    dtype: str
    quant: Quant | None
    index: int

    @property
    def port(self) -> Port:
        """The tensor as it is compared."""
        if self.quant is None:
            return Port(self.name, self.dtype, (), (), (), ())
        return Port(self.name, self.dtype, (), (), (float(self.quant.scale[0]),), (int(self.quant.zero_point[0]),))

    def stored(self, data: Array) -> Array:
        """Floats as the source has them."""
        if self.quant is None:
            return data
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
        made = whole, _cut(source, self._known), _noisy(source, [each.name for each in self._known if not each.quant])
        self._whole, self._cut, self._noisy = (
            OnnxRuntime(each.SerializeToString(), level="none", pinned=pinned) for each in made
        )
        self._pairs: dict[str, list[tuple[Array, Array]]] = {each.name: [] for each in self._known if each.quant}
        self._tallies = {each.name: Tally(each.port, each.operator) for each in self._known if not each.quant}

    @property
    def names(self) -> Collection[str]:
        """The tensors that are compared."""
        return {each.name for each in self._known}

    def run(self, litert: LiteRT, given: Sequence[Array], fed: Mapping[str, Array]) -> list[Array]:
        """The source's outputs as they are computed of LiteRT's tensors. ``given`` are the inputs of the model by
        position, and ``fed`` those of the source by name; what is known inside is compared.
        """
        tensors = litert.run(self._model, given, tensors=[each.index for each in self._known]).tensors
        values, places = self._inside
        here = {}
        for each, like in zip(self._known, self._whole.run(fed) if self._known else (), strict=True):
            if each.index not in tensors:
                here[each.name] = like
                continue
            quant = quant_of(self._subgraph.tensors[each.index])
            data = as_in_source(values[each.name], places[each.name], tensors[each.index], like)
            here[each.name] = each.stored(data if quant is None else quant.real(data)) if each.quant else data
        steps = {**fed, **{_FED.format(name): data for name, data in here.items()}}
        made, again = self._computed(steps), cache(lambda: self._computed(rounded([steps])[0]))
        for name, data in here.items():
            if name in self._pairs:
                self._pairs[name].append((data, made[name]))
            elif data.shape != made[name].shape:
                self._tallies[name].add(data, made[name])
            else:
                self._tallies[name].add_floats(data, made[name], None, partial(lambda key: again()[key], name))
        return [made[name] for name in self._noisy.outputs]

    def _computed(self, fed: Mapping[str, Array]) -> Mapping[str, Array]:
        return dict(zip(self._cut.outputs, self._cut.run(fed), strict=True))

    def noisy(self, fed: Mapping[str, Array]) -> list[Array]:
        """The source's outputs where each float that is known within it is rounded once more."""
        return self._noisy.run(fed)

    def inspection(self) -> Inspection:
        """What was compared inside, and the first tensor that is off by itself."""
        for each in sorted(self._known, key=lambda known: known.node):
            compared, told = kind(each.port), ""
            if each.name in self._tallies:
                told = self._tallies[each.name].verdict()
                found = self._tallies[each.name].found if told else None
            else:
                found = distance(each.port, self._pairs[each.name])
                told = "" if passes(compared, found, FLOAT_TOLERANCE) else reason(compared, found, FLOAT_TOLERANCE)
            if told and found is not None:
                departure = Departure(each.node, each.operator, each.name, compared, found, told)
                return Inspection(len(self._known), departure)
        return Inspection(len(self._known), None)


def _known(source: onnx.ModelProto, subgraph: Subgraph, inside: Inside) -> list[_Known]:
    """The tensors in steps, and those of floats, that both have."""
    values, places = inside
    there, found = numbers(subgraph), list[_Known]()
    makers = {name: node.op_type for node in source.graph.node for name in node.output}
    for number, node in enumerate(source.graph.node):
        name = node.output[0] if node.output else ""
        if name not in values or name not in places or places[name].name not in there:
            continue
        value, index = values[name], there[places[name].name]
        if value.in_floats and quant_of(subgraph.tensors[index]) is None:
            found.append(_Known(name, number, node.op_type, value.dtype, None, index))
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
    outputs = [each for each in made.graph.output if each.name not in names]
    del made.graph.output[:]
    made.graph.output.extend([*(onnx.ValueInfoProto(name=each.name) for each in known), *outputs])
    return made


def _noisy(source: onnx.ModelProto, names: Collection[str]) -> onnx.ModelProto:
    """The source, in which some tensors of floats are made others by chance as far as rounding may."""
    made, found = onnx.ModelProto(), list[onnx.NodeProto]()
    made.CopyFrom(source)
    for number, node in enumerate(source.graph.node):
        found.append(node)
        for name in (each for each in node.output if each in names):
            own, part, noise = (_OWN.format(name, each) for each in ("own", "part", "noise"))
            found[-1] = onnx.NodeProto()
            found[-1].CopyFrom(node)
            found[-1].output[:] = [own if each == name else each for each in node.output]
            found += [
                helper.make_node("RandomUniformLike", [own], [part], low=-NOISE, high=NOISE, seed=float(number)),
                helper.make_node("Mul", [own, part], [noise]),
                helper.make_node("Add", [own, noise], [name]),
            ]
    del made.graph.node[:]
    made.graph.node.extend(found)
    return made
