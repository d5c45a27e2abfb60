"""The versions that decide what is written: processes that convert, here or elsewhere, have to agree in them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path

from layoutsolve.version import VERSION

PACKAGES = ("numpy", "onnx", "ortools")
"""The packages that compute, write and search, beside layoutsolve itself."""

Versions = Mapping[str, str]


def versions() -> dict[str, str]:
    """The version of layoutsolve and of each of :data:`PACKAGES`, in this process."""
    return {"layoutsolve": VERSION, **{name: _version(name) for name in PACKAGES}}


def differences(wanted: Versions, found: Versions) -> str:
    """In what versions differ, for people; '' where they agree."""
    names = [name for name in wanted if wanted[name] != found.get(name)]
    return ", ".join(f"{name} {found.get(name, '')} instead of {wanted[name]}" for name in names)


def refusal(who: str, wanted: Versions, found: Versions) -> str:
    """Why what converts with the versions that are ``found`` does not convert; '' where it may."""
    told = differences(wanted, found)
    return told and f"{who} has {told}: what it writes may differ; install the same versions there as here"


def _version(name: str) -> str:
    """The version of a package: as it says itself where it is loaded, else as its installer says beside it, which takes
    less time than to load it.
    """
    if name not in sys.modules:
        spec = PathFinder.find_spec(name)
        for place in (spec.submodule_search_locations if spec is not None else None) or ():
            for told in Path(place).parent.glob(f"{name}-*.dist-info"):
                return told.name.removesuffix(".dist-info").removeprefix(f"{name}-")
    return str(getattr(import_module(name), "__version__", ""))
