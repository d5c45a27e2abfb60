"""What models are run on to be compared: data of one's own, read from files of numpy."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from layoutsolve.base.wording import listed, nearest, printable
from layoutsolve.errors import VerifyError
from layoutsolve.ir.graph import Array
from layoutsolve.verification.litert import Port

Data = Mapping[str, Array]
"""Arrays by the names of inputs, each in the source's order of dimensions: one sample, or with one dimension more in
front as many as that says.
"""


@dataclass(frozen=True, eq=False)
class Sampling:
    """What both models are run on: ``data``, of a model with states the steps of one sample, or so many ``samples``
    that are drawn from ``seed``, by default as many as a few seconds allow. A model with states is run so many
    ``steps`` in a row on each sample, by default three. ``shapes`` has that of a dynamic input by its name in the
    result; without it dynamic dimensions have the first sizes that do for LiteRT.
    """

    seed: int = 0
    samples: int | None = None
    steps: int | None = None
    data: Sequence[Data] = ()
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)


DRAWN = Sampling()
"""Inputs that are drawn from the seed 0."""


_ONE = ""
"""What the array of a ``.npy`` file is called: it is that of the only input."""


_TIMES, _SPARE = 64, 1 << 26
"""How many times its size an archive may unpack to, and so many bytes more."""

_BROKEN = (ValueError, EOFError, RuntimeError, MemoryError, TypeError, SyntaxError, zipfile.BadZipFile, zlib.error)
"""What numpy and zipfile raise for files that are none of theirs, are encrypted, or claim to be larger."""


def read(path: str) -> list[Data]:
    """The data of a ``.npz`` file (arrays by names of inputs), a ``.npy`` file, or a folder of either, by their names.

    Raises :class:`VerifyError` where there is nothing of that kind.
    """
    place, shown = Path(path), printable(path)
    if not place.is_dir():
        return [_arrays(place)]
    files = sorted(each for each in place.iterdir() if each.suffix in (".npz", ".npy"))
    if not files:
        raise VerifyError(f"the folder '{shown}' has no .npz and no .npy file: give it some, or name a file")
    return [_arrays(each) for each in files]


def _arrays(path: Path) -> Data:
    shown = printable(str(path))
    try:
        if path.exists() and not path.is_file():
            raise VerifyError(f"cannot read '{shown}': it is no file")
        with path.open("rb") as file:
            packed = zipfile.is_zipfile(file)
        return _unpacked(path) if packed else {_ONE: np.load(path, mmap_mode="r", allow_pickle=False)}
    except OSError as error:
        raise VerifyError(f"cannot read '{shown}': {error.strerror or error}") from error
    except _BROKEN as error:
        raise VerifyError(f"cannot read '{shown}': it is no .npz or .npy file of numeric arrays") from error


def _unpacked(path: Path) -> Data:
    """The arrays of an archive, which has to unpack to some multiple of its size at most."""
    found, left = dict[str, Array](), _SPARE + _TIMES * path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            left -= entry.file_size
            if left < 0:
                most = f"more than {_TIMES} times its size"
                raise VerifyError(f"cannot read '{printable(str(path))}': its arrays unpack to {most}")
            found[entry.filename.removesuffix(".npy")] = np.load(io.BytesIO(archive.read(entry)), allow_pickle=False)
    return found


def samples(data: Sequence[Data], names: Sequence[str], ports: Sequence[Port]) -> list[list[Array]]:
    """The data of each sample by position; an input is called by its name in the ONNX model or in the source.

    Raises :class:`VerifyError` where an array is missing, has no input, or does not fit.
    """
    found = [sample for each in data for sample in _samples(each, names, ports)]
    if not found:
        raise VerifyError("the data have no samples: give one at least")
    return found


def _samples(data: Data, names: Sequence[str], ports: Sequence[Port]) -> list[list[Array]]:
    known = [*names, *(port.name for port in ports)]
    places = {name: known.index(name) % len(names) for name in reversed(known)}
    if len(ports) == 1 and set(data) == {_ONE}:
        places[_ONE] = 0
    found: dict[int, Array] = {}
    for name, array in data.items():
        if name not in places:
            raise VerifyError(f"no input is called '{name}': those are {listed(names)}{nearest(name, known)}")
        found[places[name]] = _fitted(name or names[0], np.asarray(array), ports[places[name]])
    missing = [name for place, name in enumerate(names) if place not in found]
    if missing:
        raise VerifyError(f"the data have nothing for the inputs {listed(missing)}: give them all")
    counts = {len(array) for array in found.values()}
    if not counts:
        raise VerifyError("the model has no inputs: leave the data out")
    if len(counts) > 1:
        raise VerifyError(f"the data have {' and '.join(map(str, sorted(counts)))} samples of different inputs")
    return [[found[place][number] for place in range(len(ports))] for number in range(*counts)]


def _fitted(name: str, array: Array, port: Port) -> Array:
    """The array in the type of an input, with a dimension in front that counts samples."""
    stated = port.signature
    whole = array if array.ndim == len(stated) + 1 else array[np.newaxis]
    shape = whole.shape[1:]
    if len(stated) != len(shape) or any(size not in (-1, own) for size, own in zip(stated, shape, strict=True)):
        wanted = f"[{', '.join('any' if size == -1 else str(size) for size in stated)}]"
        raise VerifyError(f"the data of '{name}' have the shape {list(array.shape)}, where the source has {wanted}")
    if any(size == -1 and not own for size, own in zip(stated, shape, strict=True)):
        raise VerifyError(
            f"the data of '{name}' have the shape {list(array.shape)}, in which there is nothing to compare"
        )
    if port.dtype == "string":
        if array.dtype.kind not in "SU":
            raise VerifyError(f"the data of '{name}' are of type {array.dtype}, where the source has text")
        return np.char.encode(whole, "utf-8") if array.dtype.kind == "U" else whole
    fits = np.can_cast(array.dtype, port.dtype, "same_kind")
    with np.errstate(over="ignore"):  # what is beyond the type is infinite
        cast = whole.astype(port.dtype) if fits else whole
    if not fits or (array.dtype.kind in "iu" and (cast != whole).any()):
        raise VerifyError(f"the data of '{name}' are of type {array.dtype}, where the source has {port.dtype}")
    return cast
