"""Runs the models in a folder in ONNX Runtime on made-up inputs, and keeps what they give.

``experiments.compare.processors`` starts it on processors that are emulated, where each import takes time.

    python -I experiments/compare/emulated.py FOLDER RESULTS [LEVEL] [INPUTS]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnxruntime

_LEVELS = {
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "none": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
}
_TYPES = {"float": "float32", "double": "float64", "float16": "float16"}


def made_up(kind: str, shape: list[int], seed: int) -> np.ndarray:
    """An input of a type: all bytes, small indices, or numbers from -1 to 1."""
    rng = np.random.default_rng(seed)
    if kind in ("uint8", "int8"):
        limits = np.iinfo(kind)
        return rng.integers(limits.min, limits.max + 1, shape).astype(kind)
    if kind == "string":
        return np.full(shape, "text", object)
    if kind not in _TYPES:
        return rng.integers(0, 2, shape).astype(kind)
    return rng.uniform(-1, 1, shape).astype(_TYPES[kind])


def run(path: Path, level: str, inputs: int = 1) -> list[np.ndarray]:
    """The outputs of a model for some inputs, one after another; sizes that are open are 1."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level, options.intra_op_num_threads = _LEVELS[level], 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    outputs: list[np.ndarray] = []
    for number in range(inputs):
        feeds = {}
        for seed, port in enumerate(session.get_inputs()):
            shape = [size if isinstance(size, int) else 1 for size in port.shape]
            kind = port.type.removeprefix("tensor(").removesuffix(")")
            feeds[port.name] = made_up(kind, shape, 100 * number + seed)
        outputs += session.run(None, feeds)
    return outputs


def main(folder: str, results: str, level: str = "all", inputs: str = "1") -> None:
    """Run each model that has no result yet; one that fails has none, and is told of."""
    for path in sorted(Path(folder).glob("*.onnx")):
        target = Path(results) / f"{path.stem}.npz"
        if target.exists():
            continue
        try:
            outputs = run(path, level, int(inputs))
        except Exception as error:
            print(f"{path.stem}: {str(error)[:160]}", flush=True)
            continue
        np.savez(target, *(each for each in outputs if each.dtype != object))


if __name__ == "__main__":
    main(*sys.argv[1:])
