"""How operators of ONNX are written in the reference graph. Importing this package registers all that are not written
as they stand, of all its modules.
"""

from layoutsolve.base.registration import import_modules
from layoutsolve.frontend.onnx.operators.registry import LOWERINGS

import_modules(__name__, __path__)

__all__ = ["LOWERINGS"]
