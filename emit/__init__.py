"""From a reference graph and an assignment of layouts to an ONNX model. The only room that knows ONNX's file format."""

from layoutsolve.emit.apply import apply
from layoutsolve.emit.serialise import nodes_of, serialise

__all__ = ["apply", "nodes_of", "serialise"]
