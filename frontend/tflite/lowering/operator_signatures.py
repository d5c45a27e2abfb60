"""Signatures: how many inputs and outputs an operator has, and of which types.

A signature is an operator's inputs, ``->`` and its outputs; an operator with several is as one of them says. A port is
the kinds of types that it may have, as letters of :data:`KINDS`, or ``=`` and the number of the input whose type it
has, the first if there is none. ``~`` is a port that may be empty, ``?`` one that may be missing as well, ``*`` stands
for any number of them, ``xN`` for N of them. The numbers are those that LiteRT's kernels insist on. Types are stated as
the operator's meaning goes: floats of 16 or 64 bits are floats, even where LiteRT computes with 32 bits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from layoutsolve.base.fast_dataclasses import dataclass

KINDS: Mapping[str, tuple[str, ...]] = {
    "F": ("float32", "float16", "float64", "bfloat16"),
    "P": ("float32",),
    "Q": ("int8", "uint8", "int16"),
    "I": ("int32", "int64"),
    "E": ("int8",),
    "H": ("int16",),
    "N": ("int8", "uint8", "int4", "uint4", "int2"),
    "W": ("int32",),
    "L": ("uint32",),
    "M": ("uint64",),
    "U": ("uint8",),
    "Z": (
        "int32", "int64", "int8", "uint8", "int16", "uint16", "uint32", "uint64", "int4", "uint4", "int2",
    ),
    "B": ("bool",),
    "S": ("string",),
    "C": ("complex64",),
    "R": ("resource",),
    "T": ("variant",),
    "V": ("variant", "complex128"),
}  # fmt: skip
"""The types of each kind: floats, the plain one, numbers that are quantized, indices, signed bytes, short ones, weights
that are quantized, the plain integer, 32 and 64 bits without sign, bytes, integers, truth values, texts, complex
numbers, handles, lists of tensors, and types that nothing computes with.
"""

_PORT = re.compile(r"(?:(?P<kinds>[A-Z]+)|=(?P<like>\d*))(?P<mark>[~?*]?)(?:x(?P<count>\d+))?")


@dataclass(frozen=True)
class Port:
    """One input or output: the types it may have, or the number of the input (``like``) whose type it has.

    ``mark`` says whether it may be empty, missing, or there any number of times.
    """

    types: tuple[str, ...]
    like: int
    mark: str


@dataclass(frozen=True)
class Ports:
    """The inputs or the outputs of an operator; the last one may stand for any number of them."""

    ports: tuple[Port, ...]

    @property
    def least(self) -> int:
        """The smallest number of them."""
        return sum(port.mark not in ("?", "*") for port in self.ports)

    @property
    def most(self) -> int | None:
        """The greatest number of them, None where there is no limit."""
        return None if self.ports and self.ports[-1].mark == "*" else len(self.ports)

    def at(self, position: int) -> Port:
        """The port at a position."""
        return self.ports[min(position, len(self.ports) - 1)]

    def admit(self, count: int) -> bool:
        """Whether there can be so many of them."""
        return self.least <= count and (self.most is None or count <= self.most)

    def __str__(self) -> str:
        if self.most is None:
            return f"{self.least} or more"
        return f"{self.least}" if self.least == self.most else f"{self.least} to {self.most}"


@dataclass(frozen=True)
class Definition:
    """What an operator is given and gives."""

    inputs: Ports
    outputs: Ports


@cache
def definition(line: str) -> Definition:
    """The definition that a signature states."""
    inputs, outputs = line.split("->")
    return Definition(_read(inputs), _read(outputs))


def _read(side: str) -> Ports:
    return Ports(tuple(port for word in side.split() for port in _ports(word)))


def _ports(word: str) -> tuple[Port, ...]:
    found = _PORT.fullmatch(word)
    if found is None:
        raise ValueError(f"'{word}' is no port")
    types = tuple(name for kind in found["kinds"] or "" for name in KINDS[kind])
    return (Port(types, int(found["like"] or 0), found["mark"]),) * int(found["count"] or 1)
