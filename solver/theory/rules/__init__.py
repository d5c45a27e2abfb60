"""The rules, one file per family of operators. Importing this package registers those of all its modules."""

from layoutsolve.base.registration import import_modules
from layoutsolve.solver.theory.rule import RULES

import_modules(__name__, __path__)

__all__ = ["RULES"]
