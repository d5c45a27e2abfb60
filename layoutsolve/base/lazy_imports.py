"""Parts of a package without the rest of it, and packages that others import but that nothing here needs.

``import onnx`` loads archives, JSON, e-mail and ml_dtypes as well, which takes as long as a small model does. What is
written and checked needs two modules of it, which need nothing of the others. Where a program imports layoutsolve,
packages are imported whole: it may use them itself. So they are here where something asks for the rest after all, which
then has these very parts.

OR-tools' interface to CP-SAT imports pandas, for methods that take series: that takes longer, and more memory, than the
solver. It is imported when something of it is asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from types import ModuleType
from typing import Any

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


class _Deferred(ModuleType):
    """Stands for a package, and imports it when something of it is asked for: once ``ready``, since types that
    annotations name are asked for while the module that has them is imported.
    """

    ready = False

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name) if self.ready else type(name, (), {})


@contextmanager
def deferred(name: str) -> Iterator[None]:
    """Within it, modules that are imported get a stand-in for a package, where that is not loaded yet."""
    if name in sys.modules:
        yield
        return
    stand_in = sys.modules[name] = _Deferred(name)
    try:
        yield
    finally:
        del sys.modules[name]
        stand_in.ready = True
