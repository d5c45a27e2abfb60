"""The ONNX model, cut at every tensor that the source has as well: each operator computes on LiteRT's own numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx import helper

from layoutsolve.emit import nodes_of
from layoutsolve.emit.subgraphs import following_of
from layoutsolve.frontend.tflite.lowering.quantization import quant_of
from layoutsolve.ir.graph import Array
from layoutsolve.ir.names import Names
from layoutsolve.proto.messages import TYPES
from layoutsolve.verification.litert import Run
from layoutsolve.verification.runtimes import OnnxRuntime, stepped
from layoutsolve.verification.tensor_locations import Place
from layoutsolve.verification.tensor_statistics import near


@dataclass(frozen=True, eq=False)
class CutModel:
    """The ONNX model that reads each known tensor as an input, and gives what it computes in its place.

    ``first`` are the known tensors by their name there, each as the one of the source that is read from it first.
    ``outputs`` are what is computed instead of those that are no inputs anyway, ``reals`` what of it is quantized last.
    ``ports`` are the model's own outputs, in their order; those that are no known tensors are computed as well.
    """

    runtime: OnnxRuntime | None
    first: Mapping[str, Place]
    outputs: Mapping[str, str]
    reals: Mapping[str, str]
    ports: Sequence[str]

    @classmethod
    def of(cls, model: onnx.ModelProto | Path, places: dict[int, Place]) -> CutModel:
        """The model with cuts; where its initializers are external data, it is written beside them. Tensors that it
        does not have are taken out of ``places``.
        """
        made = onnx.ModelProto()
        made.CopyFrom(onnx.load(model, load_external_data=False) if isinstance(model, Path) else model)
        there = {name for node in made.graph.node for name in node.output} | {port.name for port in made.graph.input}
        for index in [index for index, place in places.items() if place.stored.name not in there]:
            del places[index]
        first = {place.stored.name: place for place in reversed(list(places.values()))}
        ports = [port.name for port in made.graph.output]
        outputs, reals = _cut(made, first)
        data = made.SerializeToString()
        runtime = None
        if isinstance(model, Path) and outputs:
            path = model.with_name("cut.onnx")
            path.write_bytes(data)
            runtime = OnnxRuntime(path)
        elif outputs:
            runtime = OnnxRuntime(data)
        return cls(runtime, first, outputs, reals, ports)

    @property
    def following(self) -> Mapping[str, str]:
        """The output that each input which is a state is fed with in the next step."""
        return {} if self.runtime is None else self.runtime.following

    def fed(self, run: Run, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """What the model reads in one step: LiteRT's tensors, beside the model's own inputs."""
        return {**inputs, **{name: stored_of(self.first[name], run.tensors) for name in self.outputs}}

    def run(
        self, steps: Sequence[Mapping[str, Array]], states: Sequence[Mapping[str, Array]]
    ) -> list[Mapping[str, Array]]:
        """What is computed in one step after the other, of which each leaves LiteRT's ``states``."""
        if self.runtime is None:
            return [{} for _ in steps]
        names = self.runtime.outputs
        return [dict(zip(names, each, strict=True)) for each in stepped(self.runtime, steps, states)]

    def agrees(self, place: Place, truth: Array, fed: Mapping[str, Array], results: Mapping[str, Array]) -> bool:
        """Whether a tensor is computed as LiteRT's, as far as that is known without moving its elements."""
        name = place.stored.name
        if name not in self.outputs or self.first[name] is not place or fed[name].size != truth.size:
            return False
        return near(fed[name], results[self.outputs[name]])

    def own(self, place: Place, truth: Mapping[int, Array], results: Mapping[str, Array]) -> Array:
        """A tensor as LiteRT has it: as it was computed, or as it reads what an operator before it has written."""
        name = place.stored.name
        computed = self.first[name] is place and name in self.outputs
        here = results[self.outputs[name]] if computed else stored_of(self.first[name], truth)
        return place.back(here, truth[place.tensor.index])

    def real(self, place: Place, truth: Mapping[int, Array], results: Mapping[str, Array]) -> Array | None:
        """A quantized tensor before it was quantized, as float; None where that is not computed."""
        quant, name = quant_of(place.tensor), place.stored.name
        if quant is None or quant.scale.size != 1 or name not in self.outputs or self.first[name] is not place:
            return None
        like = truth[place.tensor.index]
        own = results[self.outputs[name]]
        if own.dtype.kind != "f" and self.reals.get(name) not in results:
            return None
        found = place.back(own if own.dtype.kind == "f" else results[self.reals[name]], like)
        return found if found.shape == like.shape else None


def _cut(model: onnx.ModelProto, known: Mapping[str, Place]) -> tuple[dict[str, str], dict[str, str]]:
    """Make each known tensor that is computed an input, and name the outputs that are computed instead, and those that
    hold the same before it is quantized.
    """
    graph, own = model.graph, dict[str, str]()
    states = following_of({prop.key: prop.value for prop in model.metadata_props})
    taken = Names({name for node in nodes_of(graph) for name in (*node.input, *node.output)})
    for node in graph.node:
        for position, name in enumerate(node.output):
            if name in known:
                own[name] = node.output[position] = taken.unique(f"{name}/own")
    makers = {name: node for node in graph.node for name in node.output}
    reals = {name: real for name, output in own.items() if (real := _real(makers, output)) is not None}
    kept = [port for port in graph.output if port.name in states.values() or port.name in makers]
    held = {port.name for port in kept}
    infos = [info for info in graph.value_info if info.name not in own]
    del graph.output[:], graph.value_info[:]
    graph.value_info.extend(infos)
    for name, output in own.items():
        code, rank = TYPES[known[name].value.dtype], len(known[name].stored.layout)
        graph.input.append(helper.make_tensor_value_info(name, code, [None] * rank))
        graph.output.append(helper.make_tensor_value_info(output, code, [None] * rank))
    graph.output.extend(kept)
    for real in sorted({*reals.values()}.intersection(makers) - held - {*own.values()}):
        graph.output.append(helper.make_tensor_value_info(real, onnx.TensorProto.FLOAT, None))
    return own, reals


def _real(makers: Mapping[str, onnx.NodeProto], name: str) -> str | None:
    """What is computed and then quantized to give a tensor, maybe twice by the same scale."""
    found = scale = ""
    while name in makers:
        node = makers[name]
        if node.op_type == "QuantizeLinear" and scale in ("", node.input[1]):
            found, scale = node.input[0], node.input[1]
        elif node.op_type not in ("Clip", "Identity") and not (
            node.op_type == "DequantizeLinear" and node.input[1] == scale
        ):
            break
        name = node.input[0]
    return found or None


def stored_of(place: Place, truth: Mapping[int, Array]) -> Array:
    data = place.put(truth[place.tensor.index])
    if data is None:
        raise TypeError(f"'{place.tensor.name}' is stored in a way that is not known")
    return data
