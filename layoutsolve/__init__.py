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

__all__ = [
    "Comparison",
    "Conversion",
    "ConversionError",
    "Gap",
    "LayoutError",
    "ModelError",
    "OptionError",
    "OutputError",
    "UnsupportedError",
    "VerifyError",
    "compare",
    "convert",
    "verify",
]
