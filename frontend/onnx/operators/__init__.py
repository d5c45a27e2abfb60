"""How operators of ONNX are written in the reference graph. Importing this package registers all that are not written
as they stand, of all its modules.
"""

from importlib import import_module
from pkgutil import iter_modules

from layoutsolve.frontend.onnx.operators.registry import LOWERINGS

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)

__all__ = ["LOWERINGS"]
