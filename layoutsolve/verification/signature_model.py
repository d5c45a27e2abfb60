"""A model whose main subgraph is the one of a signature: what runs main subgraphs then runs any."""

from __future__ import annotations

from typing import Any

from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.verification.flatbuffer_repacking import opened, packed


def subgraph_of(source: bytes, key: str) -> int:
    """The number of the subgraph that a signature names, 0 for none."""
    signatures = parse(source).signatures if key else ()
    return next((signature.subgraph for signature in signatures if signature.key == key), 0)


def exchanged(source: bytes, place: int) -> bytes:
    """The same model with a subgraph and the main one in each other's place."""
    if place == 0:
        return source
    model = opened(source)
    numbers = {0: place, place: 0}
    model.subgraphs[0], model.subgraphs[place] = model.subgraphs[place], model.subgraphs[0]
    for operator in (operator for subgraph in model.subgraphs for operator in subgraph.operators or ()):
        for options in (operator.builtinOptions, operator.builtinOptions2):
            _renumber(options, numbers)
    for signature in model.signatureDefs or ():
        signature.subgraphIndex = numbers.get(signature.subgraphIndex, signature.subgraphIndex)
    return packed(model, source)


def _renumber(options: Any, numbers: dict[int, int]) -> None:
    """Follow the exchange in the options of an operator that names subgraphs: all such fields say so in their names."""
    for name, value in vars(options).items() if options is not None else ():
        if "subgraph" in name.lower() and value is not None:
            one = isinstance(value, int)
            setattr(options, name, numbers.get(value, value) if one else [numbers.get(int(i), int(i)) for i in value])
