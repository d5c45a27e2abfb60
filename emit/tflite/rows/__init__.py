"""What writes the operators of ONNX as those of LiteRT, a function each, by families. Importing this package registers
those of all its modules.
"""

from importlib import import_module
from pkgutil import iter_modules

from layoutsolve.emit.tflite.rows.registry import QUANTISED, ROWS

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)

__all__ = ["QUANTISED", "ROWS"]
