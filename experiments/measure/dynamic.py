"""From how many weights on a dense layer of floats by weights of bytes is faster in integers (``--dynamic integer``).

Layers of each number of rows, with symmetric and asymmetric steps: the time in integers, with weights without a sign
and with one, by that in floats, on one thread of ONNX Runtime; and how far each is from LiteRT's own kernels.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import layoutsolve
from layoutsolve.ir.graph import Array
from layoutsolve.measurement.timing import loaded, ratio, rounds_of, timed
from layoutsolve.verification.litert import LiteRT
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.builder import Builder, Quant

ROWS = (1, 4, 16, 128)
SIZES = ((128, 128), (256, 256), (512, 256), (256, 1024), (512, 512), (1024, 1024), (2048, 2048))
WAYS = {"floats": None, "unsigned": "unsigned", "signed": "signed"}


def layer(rows: int, columns: int, outputs: int, asymmetric: bool) -> bytes:
    """A dense layer of random weights."""
    random = np.random.default_rng(0)
    builder = Builder()
    x = builder.input("x", (rows, columns))
    data = random.integers(-127, 128, (outputs, columns)).astype(np.int8)
    weights = builder.tensor("w", data.shape, "int8", data=data, quant=Quant([0.01], [0]))
    bias = builder.tensor("b", (outputs,), data=random.uniform(-1, 1, outputs).astype(np.float32))
    y = builder.tensor("y", (rows, outputs))
    builder.operator("FULLY_CONNECTED", [x, weights, bias], [y], {"asymmetric_quantize_inputs": asymmetric})
    return builder.finish(y)


def converted(source: bytes, folder: Path) -> Mapping[str, bytes]:
    """The layer in each way, whatever its size."""
    files = {}
    for way, weights in WAYS.items():
        path = folder / f"{way}.json"
        facts = {"name": way, "extends": "ort-cpu", "storage": {"weights": weights or "unsigned"}}
        path.write_text(json.dumps({**facts, "dynamic": {"tensor": 0, "rows": 0}}))
        dynamic = "float" if weights is None else "integer"
        files[way] = layoutsolve.convert(source, dynamic=dynamic, target=path).model.SerializeToString()
    return files


def off(expected: Array, file: bytes, x: Array) -> float:
    """How far results are from LiteRT's, by the largest of those."""
    found = OnnxRuntime(file).run({"x": x})[0]
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def main() -> None:
    """The command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, action="append", help="only layers of so many rows")
    parser.add_argument("--most", type=int, default=1 << 40, help="only layers of so many weights at most")
    options = parser.parse_args()
    sizes = [size for size in SIZES if size[0] * size[1] <= options.most]
    print("rows  weights      steps       unsigned  signed    off: floats  unsigned  signed")
    with TemporaryDirectory() as folder, LiteRT() as litert:
        for rows in options.rows or ROWS:
            for columns, outputs in sizes:
                for asymmetric in (False, True):
                    source = layer(rows, columns, outputs, asymmetric)
                    files = converted(source, Path(folder))
                    runners = loaded(files, 1, "floats")
                    times = timed(runners, rounds_of(list(runners.values())))
                    x = np.random.default_rng(1).standard_normal((rows, columns)).astype(np.float32)
                    expected = litert.run(source, [x]).results[0]
                    ratios = "  ".join(f"{ratio(times[way], times['floats']):8.2f}" for way in list(WAYS)[1:])
                    errors = "  ".join(f"{off(expected, files[way], x):8.1e}" for way in WAYS)
                    steps = "asymmetric" if asymmetric else "symmetric "
                    print(f"{rows:4d}  {columns:4d}x{outputs:<4d}  {steps}  {ratios}         {errors}", flush=True)


if __name__ == "__main__":
    main()
