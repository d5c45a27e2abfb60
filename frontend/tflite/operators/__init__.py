"""The lowerings, by family. Importing this package registers them, but for those that are rare
(:data:`layoutsolve.frontend.tflite.lowering.registry.RARE`).
"""

from layoutsolve.frontend.tflite.operators import (
    activation,
    arrangement,
    comparison,
    contraction,
    control,
    convolution,
    elementwise,
    filling,
    gathering,
    normalisation,
    padding,
    pooling,
    quantise,
    reduction,
    resize,
    slicing,
    space,
)
from layoutsolve.frontend.tflite.operators.flex import elementwise as flex

__all__ = [
    "activation",
    "arrangement",
    "comparison",
    "contraction",
    "control",
    "convolution",
    "elementwise",
    "filling",
    "flex",
    "gathering",
    "normalisation",
    "padding",
    "pooling",
    "quantise",
    "reduction",
    "resize",
    "slicing",
    "space",
]
