"""Operators that ONNX has no function for, as others that give the same: for runtimes that have none of them. Importing
this package registers those of all its modules.
"""

from layoutsolve.base.registration import import_modules
from layoutsolve.frontend.onnx.definitions.definition import DEFINITIONS, is_defined, written

import_modules(__name__, __path__)

__all__ = ["DEFINITIONS", "is_defined", "written"]
