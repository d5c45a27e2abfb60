"""From a graph and an assignment of layouts to a TensorFlow Lite model."""

from layoutsolve.emit.tflite.copies import Origins
from layoutsolve.emit.tflite.encode import encode
from layoutsolve.emit.tflite.writer import Written, written

__all__ = ["Origins", "Written", "encode", "written"]
