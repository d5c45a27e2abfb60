"""From a reference graph and an assignment of layouts to an ONNX model. The only room that knows ONNX's file format."""

from layoutsolve.emit.apply import Stored, apply, located, meant, stored
from layoutsolve.emit.external import LIMIT, External, constant_bytes, place
from layoutsolve.emit.serialise import serialise
from layoutsolve.emit.streamed_proto import pieces
from layoutsolve.emit.writer import Kernels, QuantForm
from layoutsolve.proto.scopes import nodes_of

__all__ = [
    "LIMIT",
    "External",
    "Kernels",
    "QuantForm",
    "Stored",
    "apply",
    "constant_bytes",
    "located",
    "meant",
    "nodes_of",
    "pieces",
    "place",
    "serialise",
    "stored",
]
