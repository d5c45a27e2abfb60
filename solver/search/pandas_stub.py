"""Packages that others import, but that nothing of what is done here needs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any


class _Deferred(ModuleType):
    """Stands for a package, and imports it when something of it is asked for: once ``ready``, since types that
    annotations name are asked for while the module that has them is imported.
    """

    ready = False

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name) if self.ready else type(name, (), {})


@contextmanager
def deferred(name: str) -> Iterator[None]:
    """Within it, modules that are imported get a stand-in for a package, where that is not loaded yet.

    OR-tools' interface to CP-SAT imports pandas, for methods that take series: that takes longer, and more memory, than
    the solver.
    """
    if name in sys.modules:
        yield
        return
    stand_in = sys.modules[name] = _Deferred(name)
    try:
        yield
    finally:
        del sys.modules[name]
        stand_in.ready = True
