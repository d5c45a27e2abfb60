"""Out-of-memory errors: detected early enough to be reported."""

from __future__ import annotations

import mmap

NEEDED = 128 << 20
"""A little more than the smallest conversion takes, with the program and its libraries. With less, a library that is
loaded ends the process with words of its own, or none.
"""

_SIGNS = ("failed to map segment", "cannot allocate memory", "cannot enable executable stack", "bad_alloc")
"""What exceptions of other classes say of it: a library that is not loaded for it is an ImportError."""


def is_short(error: BaseException | None) -> bool:
    """Whether an error, or one that led to it, is want of memory."""
    seen = set[int]()
    while error is not None and id(error) not in seen:
        if isinstance(error, MemoryError):
            return True
        if isinstance(error, (ImportError, OSError)) and any(sign in str(error).lower() for sign in _SIGNS):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def check() -> None:
    """Raise :class:`MemoryError` where there is too little to begin with. What is asked for is not used."""
    try:
        mmap.mmap(-1, NEEDED).close()
    except OSError as error:
        raise MemoryError(f"{NEEDED >> 20} MiB are needed to begin with") from error
