"""Processes of this program, which import nothing from the current folder or from that of a model.

Each runs ``main`` of a module of the very layoutsolve that starts it, with the import path of the process that does,
but for relative entries, the current folder, and those of models. A folder that holds the installation stays.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parents[1]
"""The folder of the package."""

_PATHS = """import sys
sys.path[:] = [each for each in sys.path if each]
import json
from importlib.util import module_from_spec, spec_from_file_location
home, paths, apart, name = json.loads(sys.argv.pop(1))
sys.path[:] = [each for each in paths if each in sys.path or each not in apart]
spec = spec_from_file_location("layoutsolve", home + "/__init__.py", submodule_search_locations=[home])
sys.modules["layoutsolve"] = package = module_from_spec(spec)
spec.loader.exec_module(package)
"""
"""What a process does first. Up to Python 3.10 the current folder is in front of the path, as '', until it is taken
out; from 3.11 on PYTHONSAFEPATH leaves it out.
"""

_RUN = "from importlib import import_module; import_module(name).main()"


def process(
    module: str,
    *arguments: str,
    apart: Iterable[str | os.PathLike[str]] = (),
    cwd: str | None = None,
    **pipes: Any,
) -> subprocess.Popen[Any]:
    """Start a process that runs ``main`` of a module, in this folder or in ``cwd``, with its ``pipes`` (``stdin``,
    ``stdout``, ``stderr`` and ``text``) as Popen takes them.

    Beside the current folder it imports nothing from the folders ``apart``, which are those of models.
    """
    apart = [os.curdir, *([] if cwd is None else [cwd]), *apart]
    paths = [each for each in sys.path if os.path.isabs(each)]  # noqa: PTH117
    told = json.dumps([str(HOME), paths, sorted(set(_among(paths, apart))), module])
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.Popen(
        [sys.executable, *_flags(), "-c", _PATHS + _RUN, told, *arguments],
        env={**environment, "PYTHONSAFEPATH": "1"},
        cwd=cwd,
        **pipes,
    )


def leave_current_folder() -> None:
    """Import nothing from the current folder any more, which ``python -m`` puts in front of the path."""
    if sys.path and any(_among(sys.path[:1], [os.curdir])):
        del sys.path[0]


def _flags() -> list[str]:
    """Options of the interpreter that its processes have as well."""
    flags = sys.flags
    asked = {"-B": flags.dont_write_bytecode, "-E": flags.ignore_environment, "-S": flags.no_site}
    asked["-s"] = flags.no_user_site
    return [name for name, value in asked.items() if value]


def _among(paths: Iterable[str], apart: Iterable[str | os.PathLike[str]]) -> Iterator[str]:
    """Which entries of an import path are folders ``apart`` and do not hold the installation."""
    folders = {os.path.realpath(each) for each in apart} - {str(HOME.parent)}
    return (each for each in paths if os.path.realpath(each) in folders)
