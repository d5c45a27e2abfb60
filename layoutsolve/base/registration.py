"""Packages whose modules register what they have where they are imported."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from importlib import import_module
from pkgutil import iter_modules


def import_modules(package: str, path: Iterable[str], but: Collection[str] = ()) -> None:
    """Import all modules of a package, which lies in the folders of ``path``, ``but`` those of some names; packages in
    it are not imported.
    """
    for module in iter_modules(path):
        if not module.ispkg and module.name not in but:
            import_module(f"{package}.{module.name}")
