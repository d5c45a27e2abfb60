"""``--quant exact``: int8 operators whose results are LiteRT's, bit for bit.

Every node that is written so reads and gives stored integers or plain numbers. Operators that only move what is stored
are lowered as usual; what computes with quantized numbers and has no lowering here is refused.
"""

from __future__ import annotations

from collections.abc import Callable

from layoutsolve.base.registration import import_modules
from layoutsolve.frontend.tflite.exact.builder import REMEDY
from layoutsolve.frontend.tflite.exact.registry import EXACT
from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.quantization import quant_of
from layoutsolve.frontend.tflite.lowering.unsupported import GapError
from layoutsolve.ir.graph import Node

import_modules(__name__, __path__)

__all__ = ["lower_exactly"]

FLOATS = ("EXP",)
"""Operators that are lowered exactly on floats as well: those of which runtimes have approximations."""


def lower_exactly(call: Call, usual: Callable[[], None]) -> None:
    """Lower an operator exactly. Raises :class:`GapError` where that is not covered; the outputs are written all the
    same, as usual, so that others that are not covered are found as well.
    """
    function = EXACT.get(call.operator.name)
    try:
        if function is not None and (_quantized(call) or call.operator.name in FLOATS):
            function(call)
            return
    except GapError:
        usual()
        raise
    start = len(call.draft.nodes)
    usual()
    if any(_computes(call, node) for node in call.draft.nodes[start:]):
        raise GapError("--quant exact does not cover it on quantized tensors", REMEDY)


def _quantized(call: Call) -> bool:
    """Whether the operator reads or gives quantized numbers."""
    tensors = call.lowering.subgraph.tensors
    ports = [index for index in (*call.operator.inputs, *call.operator.outputs) if index != -1]
    return any(quant_of(tensors[index]) is not None for index in ports)


def _computes(call: Call, node: Node) -> bool:
    """Whether a node computes on what stored integers mean."""
    names = (name for name in (*node.inputs, *node.outputs) if name)
    return not node.storage and any(call.draft.values[name].quant is not None for name in names)
