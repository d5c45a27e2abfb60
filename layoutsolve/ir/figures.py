"""What is counted of a model: operators that move or reshape data, all operators, and bytes."""

from __future__ import annotations

from layoutsolve.base.fast_dataclasses import dataclass


@dataclass(frozen=True)
class Figures:
    """Figures of a source: its Transposes and Reshapes that run, all its operators with those of branches and loops,
    and its bytes with external data, and of ONNX in how many constants int8 weights lie whose sums may saturate.

    Of TensorFlow Lite the Transposes and Reshapes are those of a direct conversion, operator by operator.
    """

    transposes: int = 0
    reshapes: int = 0
    operators: int = 0
    bytes: int = 0
    saturating: int = 0
