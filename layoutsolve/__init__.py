"""TensorFlow Lite models to ONNX with a proven minimum of Transpose operators.

>>> import layoutsolve
>>> conversion = layoutsolve.convert("model.tflite")  # doctest: +SKIP
>>> conversion.save("model.onnx")  # doctest: +SKIP
"""

from layoutsolve.api import Comparison, Conversion, compare, convert, verify
from layoutsolve.certificate import Certificate, Recheck, certify, check_certificate
from layoutsolve.errors import (
    BudgetError,
    CertificateError,
    ConversionError,
    Gap,
    LayoutError,
    ModelError,
    OptionError,
    OutputError,
    StrategyError,
    UnsupportedError,
    VerifyError,
)
from layoutsolve.explanation import Explanation
from layoutsolve.frontend import Call, GapError, register
from layoutsolve.solver import Assignment, Boundary, Price

__all__ = [
    "Assignment",
    "Boundary",
    "BudgetError",
    "Call",
    "Certificate",
    "CertificateError",
    "Comparison",
    "Conversion",
    "ConversionError",
    "Explanation",
    "Gap",
    "GapError",
    "LayoutError",
    "ModelError",
    "OptionError",
    "OutputError",
    "Price",
    "Recheck",
    "StrategyError",
    "UnsupportedError",
    "VerifyError",
    "certify",
    "check_certificate",
    "compare",
    "convert",
    "register",
    "verify",
]
