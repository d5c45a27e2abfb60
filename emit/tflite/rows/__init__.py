"""What writes the operators of ONNX as those of LiteRT, a function each, by families. Importing this package registers
those of all its modules.
"""

from layoutsolve.base.registration import import_modules
from layoutsolve.emit.tflite.rows.registry import QUANTIZED, ROWS

import_modules(__name__, __path__)

__all__ = ["QUANTIZED", "ROWS"]
