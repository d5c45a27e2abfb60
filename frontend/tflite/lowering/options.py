"""Options on how a model is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.errors import OptionError
from layoutsolve.ir.storage_options import USUAL, Dynamic, Storage

CUSTOM = ("error", "passthrough")
"""What may become of custom operators without a lowering."""

QUANT = ("qdq", "qoperator", "symmetric", "float", "exact")
"""How operators on quantized numbers may be written."""

KEEPING = ("symmetric", "float", "exact")
"""The ways of :data:`QUANT` in which no kernel is used that minds where the zero of weights is, or none is left."""

WEIGHTS = ("source", "symmetric")
"""How weights of bytes of convolutions may be stored: as they are, or as the nearest ones whose zero is 0."""

INITIALIZER_INPUTS = ("drop", "keep")
"""What may become of inputs of a source in ONNX that are initializers as well, which whoever runs it may override."""

DYNAMIC = ("float", "integer")
"""How floats may be multiplied by weights of bytes: as they are, or rounded at run time as LiteRT does it."""


@dataclass(frozen=True)
class Reading:
    """How a model is read.

    ``custom`` is one of :data:`CUSTOM`. ``signature`` is the key of the signature that is converted, '' for the main
    subgraph. ``shapes`` gives the shapes of inputs by name, -1 for a dimension that is dynamic.
    ``max_size`` are the most bytes that the ONNX model may have, None for what the size of the source allows.
    ``storage`` is how numbers are stored, by default as ONNX Runtime wants them on most processors. ``quant`` is one of
    :data:`QUANT`: operators on real numbers between QuantizeLinear and DequantizeLinear, runtimes' kernels on bytes in
    their place, the former in steps around zero, operators on real numbers that saturate, or on integers. ``dynamic``
    says which products of floats by weights of bytes are computed in integers, by default none. ``weights`` is one of
    :data:`WEIGHTS`, ``initializer_inputs`` of :data:`INITIALIZER_INPUTS`. Raises :class:`OptionError` for values that
    mean nothing.
    """

    custom: str = "error"
    signature: str = ""
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    max_size: int | None = None
    storage: Storage = USUAL
    quant: str = "qdq"
    dynamic: Dynamic | None = None
    weights: str = "source"
    initializer_inputs: str = "drop"

    @property
    def exact(self) -> bool:
        """Whether bytes are computed as integers."""
        return self.quant == "exact"

    def __post_init__(self) -> None:
        if self.custom not in CUSTOM:
            known = ", ".join(CUSTOM)
            raise OptionError(f"custom operators cannot be treated as '{self.custom}': choose one of {known}")
        if self.quant not in QUANT:
            raise OptionError(
                f"quantized operators cannot be written as '{self.quant}': choose one of {', '.join(QUANT)}"
            )
        if self.weights not in WEIGHTS:
            raise OptionError(f"weights cannot be '{self.weights}': choose one of {', '.join(WEIGHTS)}")
        if self.weights == "symmetric" and self.quant in KEEPING:
            raise OptionError(
                f"weights: --quant {self.quant} gains nothing by symmetric ones; leave one of the two out"
            )
        if self.max_size is not None and not (type(self.max_size) is int and self.max_size > 0):
            raise OptionError(f"a largest size of {self.max_size!r} bytes is none: give a whole number above 0")
        for name, shape in self.shapes.items():
            if any(size < -1 for size in shape):
                raise OptionError(f"shape {list(shape)} of input '{name}' has a size below -1")
            if 0 in shape:
                raise OptionError(f"shape {list(shape)} of input '{name}' has a size of 0: give -1 where it stays open")
