"""Where the program begins: what has to hold before anything else is imported.

A signal to stop ends it at once, wherever it is, without a traceback and without a temporary file left behind. No
exception is raised for that: one that comes while a module is imported, or in a callback, would be printed or lost.
"""

import gc
import os
import signal
import sys

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


def main() -> None:
    """Run the program and end it with its exit code, which for a signal is 128 and its number, as shells say it.

    The interpreter is not taken apart: that takes a tenth of a second, in which a signal would be nobody's. Nor is
    garbage collected while modules are loaded, which takes as long as a small model.
    """
    gc.disable()
    listen()
    occupy()
    alone()
    from layoutsolve import cli, console

    try:
        code = cli.main()
    except SystemExit as end:  # of argparse, which has printed what was asked for
        code = end.code if isinstance(end.code, int) else 0
    os._exit(console.finish(code))


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
    from layoutsolve import lean

    lean.own = True
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _stop(number: int, frame: object) -> None:
    signal.signal(number, signal.SIG_IGN)
    files = sys.modules.get("layoutsolve.files")
    abandon = getattr(files, "abandon", None)
    try:
        if abandon is not None:
            abandon()
    finally:
        os._exit(128 + number)


if __name__ == "__main__":
    main()
