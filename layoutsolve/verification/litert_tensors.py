"""The tensors within a model in TensorFlow Lite beside those of its source, in LiteRT's reference kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from layoutsolve.frontend.tflite.lowering.quantization import quant_of
from layoutsolve.frontend.tflite.reading.model import Subgraph
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.ir.graph import Array, Quant
from layoutsolve.verification.layer_table import Closeness, Layer
from layoutsolve.verification.litert import LiteRT
from layoutsolve.verification.runtimes import runtime_of
from layoutsolve.verification.tensor_locations import Inside, places_of

BASIS = "computed from the first input, in LiteRT's reference kernels"
"""What tensors within a model are."""


def layers(
    litert: LiteRT, source: bytes, model: bytes, inside: Inside, given: tuple[Sequence[Array], Sequence[Array]]
) -> tuple[Layer, ...]:
    """The accuracy of each tensor that a model has in common with its source, in the order of the source's operators.
    ``given`` are the inputs of both, by position.
    """
    subgraph, places, _ = places_of(source, inside)
    there = numbers(parse(model).subgraphs[0])
    makers = {index: (operator.index, operator.name) for operator in subgraph.operators for index in operator.outputs}
    known = {index: there[each.stored.name] for index, each in places.items() if each.stored.name in there}
    wanted = {index: other for index, other in known.items() if index in makers}
    first = litert.run(source, given[0], tensors=[*wanted]).tensors
    second = litert.run(model, given[1], tensors=[*wanted.values()]).tensors
    found = []
    for index, other in sorted(wanted.items(), key=lambda pair: makers[pair[0]][0]):
        if index in first and other in second:
            closeness = Closeness(places[index].port)
            closeness.add(first[index], places[index].back(second[other], first[index]))
            found.append(closeness.layer(*makers[index]))
    return tuple(found)


def numbers(subgraph: Subgraph) -> dict[str, int]:
    """The tensors that operators give, by name."""
    made = [index for operator in subgraph.operators for index in operator.outputs]
    return {subgraph.tensors[index].name: index for index in made}


class Within:
    """A model that gives tensors within it, by ``names``: what it has in common with ONNX Runtime."""

    def __init__(self, model: bytes, names: Sequence[str]) -> None:
        self._model, self._names, self._runtime = model, names, runtime_of(model)
        self._subgraph = parse(model).subgraphs[0]
        self._numbers = numbers(self._subgraph)

    @property
    def inputs(self) -> list[tuple[str, str, list[int | str]]]:
        """Name, type and shape of each input."""
        return self._runtime.inputs

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """The tensors for inputs by name: what is quantized as the floats that it means, others as they are."""
        given = [inputs[name] for name, _, _ in self.inputs]
        wanted = [self._numbers[name] for name in self._names]
        with LiteRT() as litert:
            found = litert.run(self._model, given, tensors=wanted).tensors
        return [self._meant(found[index], quant_of(self._subgraph.tensors[index])) for index in wanted]

    def _meant(self, data: Array, quant: Quant | None) -> Array:
        return data if quant is None else quant.real(data)
