"""TensorFlow Lite models to ONNX with a proven minimum of Transpose operators.

>>> import layoutsolve
>>> conversion = layoutsolve.convert("model.tflite")  # doctest: +SKIP
>>> conversion.save("model.onnx")  # doctest: +SKIP
"""

from layoutsolve.api import Comparison, Conversion, compare, convert, verify
from layoutsolve.errors import (
    ConversionError,
    Gap,
    LayoutError,
    ModelError,
    OptionError,
    OutputError,
    UnsupportedError,
    VerifyError,
)
from layoutsolve.solver import Assignment, Boundary, Price

__all__ = [
    "Assignment",
    "Boundary",
    "Comparison",
    "Conversion",
    "ConversionError",
    "Gap",
    "LayoutError",
    "ModelError",
    "OptionError",
    "OutputError",
    "Price",
    "UnsupportedError",
    "VerifyError",
    "compare",
    "convert",
    "verify",
]
