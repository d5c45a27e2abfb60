"""Models in operator sets before the one that all is written in: for compilers of devices that ask for such."""

from layoutsolve.emit.older_opsets.bringing import bring, keep, needed
from layoutsolve.emit.older_opsets.rewrites import REWRITES

__all__ = ["REWRITES", "bring", "keep", "needed"]
