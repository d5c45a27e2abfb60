"""How operators of ONNX are written in the reference graph. Importing this package registers all that are not written
as they stand.
"""

from layoutsolve.frontend.onnx.operators import default_attributes, normal_forms, quantisation, views
from layoutsolve.frontend.onnx.operators.registry import LOWERINGS

__all__ = ["LOWERINGS", "default_attributes", "normal_forms", "quantisation", "views"]
