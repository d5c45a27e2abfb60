"""What a runtime refuses, and runtimes that are not installed.

Neither is needed to convert; a missing one raises :class:`VerifyError` with the remedy.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager

from layoutsolve.errors import VerifyError

_REMEDY = "install the runtimes with: pip install 'layoutsolve[verify]'"


class RefusedError(VerifyError):
    """A runtime refuses a model, aborts on it or takes too long: the source, or the ``result`` of its conversion; the
    model itself, or ``running`` it on some inputs.
    """

    result: bool = False
    running: bool = False


@contextmanager
def of_result() -> Iterator[None]:
    """What is refused within is the result of a conversion."""
    try:
        yield
    except RefusedError as error:
        error.result = True
        raise


def require(package: str) -> None:
    """Raise :class:`VerifyError` unless ``package`` is installed."""
    if importlib.util.find_spec(package) is None:
        raise VerifyError(f"the package '{package}' is missing; {_REMEDY}")
