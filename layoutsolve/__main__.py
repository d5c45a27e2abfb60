"""Where the program begins: what has to hold before anything else is imported.

A signal to stop ends it at once, wherever it is, without a traceback and without a temporary file left behind. No
exception is raised for that: one that comes while a module is imported, or in a callback, would be printed or lost.
"""

import gc
import os
import signal
import sys
from contextlib import suppress

_INTERNAL = 70
"""The exit code for what nobody expected, here for when the module that has it cannot be loaded."""

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


def main() -> None:
    """Run the program and exit with its code, 128 plus its number for a signal, as in shells.

    The interpreter is not taken apart: that takes a tenth of a second, in which a signal would be nobody's. Nor is
    garbage collected while modules are loaded, which takes as long as a small model.
    """
    gc.disable()
    listen()
    occupy()
    alone()
    try:
        code = _run()
    except Exception as error:  # before or behind what takes care of it, mostly for want of memory
        code = _lost(error)
    os._exit(code)


def _run() -> int:
    from layoutsolve.base import out_of_memory

    out_of_memory.check()
    from layoutsolve.cli import command_line, console

    try:
        code = command_line.main()
    except SystemExit as end:  # of argparse, which has printed what was asked for
        code = end.code if isinstance(end.code, int) else 0
    return console.finish(code)


def _lost(error: Exception) -> int:
    """The exit code for what nothing else has told of, when a line has been said that needs nothing to be loaded."""
    from layoutsolve.base import out_of_memory

    debug = os.environ.get("LAYOUTSOLVE_DEBUG", "0") not in ("", "0")
    if debug:
        sys.excepthook(type(error), error, error.__traceback__)
    what = type(error).__name__
    if out_of_memory.is_short(error):
        told = f"the memory does not suffice ({what}): give the program more, or convert a smaller model"
    else:
        told = (
            f"unexpected error: {what}: {error}; please report it with the traceback, which LAYOUTSOLVE_DEBUG=1 shows"
        )
    with suppress(OSError):
        os.write(2, f"layoutsolve: {' '.join(told.split())}\n".encode())
    return _INTERNAL


def listen() -> None:
    """Take over the signals to stop, but for those that the program was started without."""
    for name in SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _stop)


def occupy() -> None:
    """Open what of the standard streams is closed, lest a file takes its place and a message is written into it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def alone() -> None:
    """Say that the process is this program's own: it loads the less. NumPy gets no threads: to begin and to end them
    takes longer than all that is multiplied here.
    """
    from layoutsolve.base import lazy_imports

    lazy_imports.own = True
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _stop(number: int, frame: object) -> None:
    signal.signal(number, signal.SIG_IGN)
    files = sys.modules.get("layoutsolve.io.files")
    abandon = getattr(files, "abandon", None)
    try:
        if abandon is not None:
            abandon()
    finally:
        os._exit(128 + number)


if __name__ == "__main__":
    from layoutsolve.base.processes import leave_current_folder

    leave_current_folder()
    main()
