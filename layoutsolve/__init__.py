"""TensorFlow Lite models to ONNX with a proven minimum of Transpose operators.

>>> import layoutsolve
>>> conversion = layoutsolve.convert("model.tflite")  # doctest: +SKIP
>>> conversion.save("model.onnx")  # doctest: +SKIP
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from layoutsolve.api import Comparison, Conversion, associated_files, compare, convert, verify
    from layoutsolve.certificate import Certificate
    from layoutsolve.certifying import certify, check_certificate
    from layoutsolve.checker import Recheck
    from layoutsolve.errors import (
        BudgetError,
        CertificateError,
        ConversionError,
        Gap,
        InternalError,
        LayoutError,
        LoweringError,
        MeasureError,
        ModelError,
        OptionError,
        OutputError,
        PlanError,
        SessionError,
        StrategyError,
        UnsupportedError,
        VerifyError,
    )
    from layoutsolve.explanation import Explanation
    from layoutsolve.frontend import Call, GapError, register
    from layoutsolve.made import Provenance, provenance
    from layoutsolve.measurement.profile import Profile
    from layoutsolve.planning.converting import LayoutCall, convert_layout
    from layoutsolve.planning.plan import Plan
    from layoutsolve.planning.planning import convert_by, plan
    from layoutsolve.reporting.report import report
    from layoutsolve.session import Session
    from layoutsolve.solver import Assignment, Boundary, Price, Tier
    from layoutsolve.verification.verify import Verification

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
    "InternalError",
    "LayoutCall",
    "LayoutError",
    "LoweringError",
    "MeasureError",
    "ModelError",
    "OptionError",
    "OutputError",
    "Plan",
    "PlanError",
    "Price",
    "Profile",
    "Provenance",
    "Recheck",
    "Session",
    "SessionError",
    "StrategyError",
    "Tier",
    "UnsupportedError",
    "Verification",
    "VerifyError",
    "associated_files",
    "certify",
    "check_certificate",
    "compare",
    "convert",
    "convert_by",
    "convert_layout",
    "plan",
    "provenance",
    "register",
    "report",
    "verify",
]

_HOMES = {
    "api": ("Comparison", "Conversion", "associated_files", "compare", "convert", "verify"),
    "certificate": ("Certificate",),
    "certifying": ("certify", "check_certificate"),
    "checker": ("Recheck",),
    "explanation": ("Explanation",),
    "frontend": ("Call", "GapError", "register"),
    "made": ("Provenance", "provenance"),
    "measurement.profile": ("Profile",),
    "planning.converting": ("LayoutCall", "convert_layout"),
    "planning.plan": ("Plan",),
    "planning.planning": ("convert_by", "plan"),
    "reporting.report": ("report",),
    "session": ("Session",),
    "solver": ("Assignment", "Boundary", "Price", "Tier"),
    "verification.verify": ("Verification",),
}
"""Where each name is defined, but for errors. That is imported when the name is first asked for: the command line has
to be ready for signals before it loads anything that takes time.
"""


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module 'layoutsolve' has no attribute '{name}'")
    module = next((module for module, names in _HOMES.items() if name in names), "errors")
    found: object = getattr(import_module(f"layoutsolve.{module}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
