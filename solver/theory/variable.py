"""Variables: pieces of data that some operator produces, each a tensor together with all views of it."""

from __future__ import annotations

from collections.abc import Mapping

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.ir.graph import Dim, Size
from layoutsolve.solver.theory.layout import Layout


@dataclass(frozen=True, slots=True)
class Variable:
    """Data that lies in memory in some layout. ``readings`` maps each of its tensors to that tensor's own, logical
    layout.

    ``bytes`` counts those of all ``turns``, which are how often it is taken to be produced. ``constant`` data is
    rearranged while converting, which costs nothing; each reader has a variable of its own. Where the target has all
    Transposes ``alike`` it makes no difference whether a runtime sees what is simple about one. Where operators are
    ``counted`` before time it is not worth a Reshape. What is ``joined`` is better not moved, where that costs as much
    elsewhere: a runtime may fuse the operators on both sides, or it is a step of a concatenation.
    """

    title: str
    sizes: tuple[Dim, ...]
    bytes: int
    readings: Mapping[str, Layout]
    constant: bool = False
    turns: int = 1
    alike: bool = False
    counted: bool = False
    joined: bool = False

    @property
    def rigid(self) -> bool:
        """Whether no Reshape is made that only makes a Transpose simpler."""
        return self.counted or self.unhindered

    @property
    def unhindered(self) -> bool:
        """Whether dimensions of size 1 make no Transpose slower, or that is unknown: all take as long, or several sizes
        are symbolic, so that a Reshape cannot state them all.
        """
        return self.alike or sum(isinstance(size, Size) for size in self.sizes) > 1
