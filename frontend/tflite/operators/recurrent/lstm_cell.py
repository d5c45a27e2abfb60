"""What a cell of long short-term memory is: its gates, weights and options, and how its numbers are stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from layoutsolve.frontend.tflite.lowering.builder import Call
from layoutsolve.frontend.tflite.lowering.writer import Slot
from layoutsolve.frontend.tflite.operators.recurrent.weights import Matrix
from layoutsolve.ir.graph import Array, Quant

INPUT, FORGET, CELL, OUTPUT = range(4)
"""The gates in TFLite's order."""

ORDER = (INPUT, OUTPUT, FORGET, CELL)
"""The gates in ONNX's order."""

SUMS = 3
"""The bits before the point of the sums that the integer kernel's gates are opened by."""

TANH, RELU = 4, 1
"""The activations of a cell that ONNX's operator has."""


@dataclass(frozen=True, eq=False)
class Stored:
    """How numbers are stored: the type and what its integers mean."""

    dtype: str = "float32"
    quant: Quant | None = None

    def slot(self, call: Call, label: str) -> Slot:
        """A slot for a value in between that is stored so."""
        return call.temporary(label, self.dtype, self.quant)


@dataclass(frozen=True, eq=False)
class Formats:
    """How a cell stores sums before a gate, what is between -1 and 1, the cell's state, and what it gives.

    ``hidden`` is what a projection reads. ``one`` is the 1 from which the coupled gate is subtracted. ``bare`` cells
    have a scale for which LiteRT has no tanh: it finds the input gate where that would have been written.
    """

    gates: Mapping[int, Stored]
    normal: Stored = Stored()
    unit: Stored = Stored()
    cell: Stored = Stored()
    hidden: Stored = Stored()
    output: Stored = Stored()
    one: float = 1.0
    bare: bool = False

    @property
    def integer(self) -> bool:
        """Whether these are the formats of the integer kernel."""
        return self.unit.quant is not None


@dataclass(frozen=True, eq=False)
class Cell:
    """One direction: weights of all gates in ONNX's order (without the input gate where it is coupled), and options.

    Clips are bounds of real numbers.
    """

    gates: tuple[int, ...]
    weights: Matrix
    recurrent: Matrix
    biases: Mapping[int, Array]
    peepholes: Mapping[int, Array]
    norms: Mapping[int, Array]
    projection: Matrix | None
    projection_bias: Array | None
    formats: Formats
    activation: int
    cell_clip: tuple[float, float] | None
    projection_clip: tuple[float, float] | None

    @property
    def coupled(self) -> bool:
        """Whether the input gate is 1 minus the forget gate."""
        return INPUT not in self.gates

    @property
    def units(self) -> int:
        """The size of the cell's state."""
        return int(self.biases[OUTPUT].size)


def bits_before(quant: Quant) -> int:
    """How many of 16 bits are before the point, beside the sign, where the scale is a power of two."""
    return int(np.frexp(quant.scale[0])[1]) + 14


FLOATS = Formats(dict.fromkeys(ORDER, Stored()))


def fixed_point(bits: int) -> Stored:
    """int16 with this many bits after the point."""
    return Stored("int16", Quant(np.array([2.0**-bits], np.float32), np.zeros(1, np.int16)))
