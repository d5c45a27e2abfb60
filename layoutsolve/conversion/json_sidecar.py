"""What is written about a model beside it, plans and certificates: JSON in a file, read within bounds."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, TypeVar

from layoutsolve.base.wording import printable
from layoutsolve.conversion import arguments
from layoutsolve.conversion.stages import Stages
from layoutsolve.errors import ConversionError, OptionError
from layoutsolve.io.files import Output, written

LARGEST = 1 << 28
"""The most bytes of a document that is read: a plan has about 2 kB for each operator. JSON takes up to 25 times as much
memory as its text has bytes.
"""

PIECE = 1 << 20
"""How many bytes are read at once."""

Own = TypeVar("Own", bound="Document")


class Document(ABC):
    """JSON file that is written beside a model and read again. Subclasses define its name (``kind``), the error for an
    invalid one (``error``), and how to make one (``remedy``).
    """

    kind: ClassVar[str]
    error: ClassVar[type[ConversionError]]
    remedy: ClassVar[str]

    @abstractmethod
    def to_json(self) -> str:
        """It as text."""

    @classmethod
    @abstractmethod
    def _of(cls: type[Own], facts: Any) -> Own:
        """What JSON says, as one. Raises what Python raises for facts of other kinds, or ValueError."""

    @classmethod
    def from_json(cls: type[Own], text: str) -> Own:
        """Read what :meth:`to_json` writes. Raises its ``error`` for anything else."""
        said = arguments.text("text", text)
        try:
            return cls._of(json.loads(said))
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            OptionError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            reason = printable(str(error) or type(error).__name__)
            raise cls.error(f"this is no {cls.kind}: {reason}{cls.remedy}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it. Raises :class:`OutputError` where that is impossible."""
        target = arguments.path("path", path)
        with Stages()("write"), written([self.output(target)]):
            pass

    def output(self, path: str) -> Output:
        """What :meth:`save` writes."""
        content = self.to_json().encode()
        return Output(self.kind, path, lambda file: file.write(content))

    @classmethod
    def load(cls: type[Own], path: str | os.PathLike[str]) -> Own:
        """Read one from a file. Raises its ``error``."""
        name = arguments.path("path", path)
        try:
            with Path(name).open("rb") as file:
                text = _within(file, LARGEST).decode()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise cls.error(f"cannot read '{printable(name)}': {reason}") from error
        return cls.from_json(text)


def _within(file: BinaryIO, most: int) -> bytes:
    """What is left of a file, piece by piece: nothing is kept free for what is not there. Raises :class:`ValueError`
    where that is more than so many bytes.
    """
    found = bytearray()
    while piece := file.read(PIECE):
        found += piece
        if len(found) > most:
            raise ValueError(f"it has more than {most} bytes")
    return bytes(found)
