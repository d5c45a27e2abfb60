"""The lowerings, by family. Importing this package registers them all."""

from layoutsolve.frontend.operators import (
    activation,
    arrangement,
    comparison,
    contraction,
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

__all__ = [
    "activation",
    "arrangement",
    "comparison",
    "contraction",
    "convolution",
    "elementwise",
    "filling",
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
