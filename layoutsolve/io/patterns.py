"""Names of models on the command line: a file, standard input, a folder, or a pattern."""

from __future__ import annotations

import os

ENDINGS = (".tflite", ".onnx")
"""How the names of models end."""

ARCHIVES = (".task", ".litertlm", ".zip", ".tar", ".gz", ".tgz")
"""How the names of archives end that are looked into in a folder."""

WILD = "*?["
"""What a pattern has in it."""

STANDARD_INPUT = "-"
"""The name of a model that is read from there."""


def is_many(name: str) -> bool:
    """Whether a name stands for many models: that of a folder, or a pattern and no file."""
    return os.path.isdir(name) or (any(mark in name for mark in WILD) and not os.path.exists(name))  # noqa: PTH110, PTH112


def format_of(asked: str | None, name: str | None) -> str:
    """The format that is written: the one that is asked for, else that of the ending of the file's name."""
    return asked or ("tflite" if (name or "").endswith(".tflite") else "onnx")
