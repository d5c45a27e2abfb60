"""The lowerings, by family. Importing this package registers those of all its modules, but for those that are rare
(:data:`layoutsolve.frontend.tflite.lowering.registry.RARE`).
"""

from importlib import import_module
from pkgutil import iter_modules

from layoutsolve.frontend.tflite.lowering.registry import RARE

_rare = {module for modules in RARE.values() for module in modules}
for _module in iter_modules(__path__):
    if not _module.ispkg and _module.name not in _rare:
        import_module(f"{__name__}.{_module.name}")
import_module(f"{__name__}.flex.elementwise")  # TensorFlow's operators of single elements, which many models have
