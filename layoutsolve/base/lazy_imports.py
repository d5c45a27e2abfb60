"""Parts of a package without the rest of it, in a process that is this program's own.

``import onnx`` loads archives, JSON, e-mail and ml_dtypes as well, which takes as long as a small model does. What is
written and checked needs two modules of it, which need nothing of the others. Where a program imports layoutsolve,
packages are imported whole: it may use them itself. So they are here where something asks for the rest after all, which
then has these very parts.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from types import ModuleType

own = False
"""Whether the process is this program's own; whoever begins such a one says so."""


def part(package: str, name: str) -> ModuleType:
    """A module of a package."""
    whole = f"{package}.{name}"
    if own and whole not in sys.modules:
        _load(package, whole)
    return sys.modules.get(whole) or import_module(whole)


def _load(package: str, whole: str) -> None:
    """Load a module as it is imported, but for the package that it is in; nothing where that has no such file."""
    found = PathFinder.find_spec(package)
    spec = PathFinder.find_spec(whole, found.submodule_search_locations) if found is not None else None
    if spec is not None and spec.loader is not None:
        sys.modules[whole] = module = module_from_spec(spec)
        spec.loader.exec_module(module)
