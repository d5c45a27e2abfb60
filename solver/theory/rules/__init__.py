"""The rules, one file per family of operators. Importing this package registers those of all its modules."""

from importlib import import_module
from pkgutil import iter_modules

from layoutsolve.solver.theory.rule import RULES

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)

__all__ = ["RULES"]
