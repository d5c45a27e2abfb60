"""Where the program begins: what has to hold before anything else is imported.

A signal to stop ends it at once, wherever it is, without a traceback and without a temporary file left behind. No
exception is raised for that: one that comes while a module is imported, or in a callback, would be printed or lost.
"""

import os
import signal
import sys

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


def main() -> int:
    """Run the program; returns its exit code, which for a signal is 128 and its number, as shells say it."""
    for name in SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _stop)
    from layoutsolve import cli

    try:
        return cli.main()
    finally:
        cli.flush()


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
    sys.exit(main())
