"""The lowerings, by family. Importing this package registers those of all its modules, but for those that are rare
(:data:`layoutsolve.frontend.tflite.lowering.registry.RARE`).
"""

from importlib import import_module

from layoutsolve.base.registration import import_modules
from layoutsolve.frontend.tflite.lowering.registry import RARE

import_modules(__name__, __path__, but={module for modules in RARE.values() for module in modules})
import_module(f"{__name__}.flex.elementwise")  # TensorFlow's operators of single elements, which many models have
