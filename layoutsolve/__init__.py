"""TensorFlow Lite models to ONNX with a proven minimum of Transpose operators.

>>> import layoutsolve
>>> conversion = layoutsolve.convert("model.tflite")  # doctest: +SKIP
>>> conversion.save("model.onnx")  # doctest: +SKIP
"""

import os

from layoutsolve import version

__version__ = version.VERSION

if not os.path.isdir(f"{__path__[0]}/solver"):  # noqa: PTH112 (pathlib takes longer to load than all else here)
    __path__.append(os.path.dirname(__path__[0]))  # noqa: PTH120
"""In a checkout the three stages lie beside this folder, as the user of the project wants to find them; an installation
has them within it.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from layoutsolve.api import Comparison, associated_files, compare, convert, optimize, verify
    from layoutsolve.certification.certificate import Certificate
    from layoutsolve.certification.certify import certify, check_certificate
    from layoutsolve.certification.checker import Recheck
    from layoutsolve.conversion.cut import cut
    from layoutsolve.conversion.provenance import Provenance, provenance
    from layoutsolve.conversion.session import Session
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
    from layoutsolve.frontend import Call, GapError, register
    from layoutsolve.inspection.explanation import Explanation
    from layoutsolve.measurement.profile import Profile
    from layoutsolve.planning.layout_conversion import LayoutCall, convert_layout
    from layoutsolve.planning.plan import Plan
    from layoutsolve.planning.planning import convert_by, plan
    from layoutsolve.reporting.report import report
    from layoutsolve.result import Conversion
    from layoutsolve.solver import Assignment, Boundary, Price, Tier
    from layoutsolve.verification.verdict import Verification

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
    "cut",
    "optimize",
    "plan",
    "provenance",
    "register",
    "report",
    "verify",
]

_HOMES = {
    "api": ("Comparison", "associated_files", "compare", "convert", "optimize", "verify"),
    "certification.certificate": ("Certificate",),
    "certification.certify": ("certify", "check_certificate"),
    "certification.checker": ("Recheck",),
    "inspection.explanation": ("Explanation",),
    "frontend": ("Call", "GapError", "register"),
    "conversion.cut": ("cut",),
    "conversion.provenance": ("Provenance", "provenance"),
    "measurement.profile": ("Profile",),
    "planning.layout_conversion": ("LayoutCall", "convert_layout"),
    "planning.plan": ("Plan",),
    "planning.planning": ("convert_by", "plan"),
    "reporting.report": ("report",),
    "result": ("Conversion",),
    "conversion.session": ("Session",),
    "solver": ("Assignment", "Boundary", "Price", "Tier"),
    "verification.verdict": ("Verification",),
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
