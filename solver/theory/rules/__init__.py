"""The rules, one file per family of operators. Importing this package registers all of them."""

from layoutsolve.solver.theory.rule import RULES
from layoutsolve.solver.theory.rules import (
    arrangement,
    blocks,
    contraction,
    control,
    elementwise,
    fused,
    grouped,
    lines,
    normalised,
    phases,
    recurrent,
    reduction,
    resized,
    scattering,
    slicing,
    slopes,
    window,
)

__all__ = [
    "RULES",
    "arrangement",
    "blocks",
    "contraction",
    "control",
    "elementwise",
    "fused",
    "grouped",
    "lines",
    "normalised",
    "phases",
    "recurrent",
    "reduction",
    "resized",
    "scattering",
    "slicing",
    "slopes",
    "window",
]
