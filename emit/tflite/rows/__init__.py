"""What writes the operators of ONNX as those of LiteRT, a function each, by families."""

from layoutsolve.emit.tflite.rows import (
    elementwise,
    indexing,
    movement,
    normalisation,
    products,
    recurrent,
    reduction,
    resize,
    slopes,
    windows,
)
from layoutsolve.emit.tflite.rows.registry import QUANTISED, ROWS

__all__ = [
    "QUANTISED",
    "ROWS",
    "elementwise",
    "indexing",
    "movement",
    "normalisation",
    "products",
    "recurrent",
    "reduction",
    "resize",
    "slopes",
    "windows",
]
