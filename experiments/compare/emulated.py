"""Runs the models in a folder in ONNX Runtime on made-up inputs, and keeps what they give; in another runtime where
that is said for the level.

``experiments.compare.processors`` starts it on processors that are emulated, where each import takes time.

    python -I experiments/compare/emulated.py FOLDER RESULTS [LEVEL] [INPUTS]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

_LEVELS = {
    "all": "ORT_ENABLE_ALL",
    "extended": "ORT_ENABLE_EXTENDED",
    "basic": "ORT_ENABLE_BASIC",
    "none": "ORT_DISABLE_ALL",
}
_TYPES = {"float": "float32", "double": "float64", "float16": "float16"}


_Loaded = tuple[
    dict[str, tuple[str, list[int]]], Callable[[dict[str, np.ndarray]], list[np.ndarray]]
]  # types and shapes of the inputs by name, and what runs


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
    ports, infer = _RUNTIMES[level](path) if level in _RUNTIMES else _in_onnxruntime(path, level)
    outputs: list[np.ndarray] = []
    for number in range(inputs):
        given = enumerate(ports.items())
        outputs += infer({name: made_up(kind, shape, 100 * number + seed) for seed, (name, (kind, shape)) in given})
    return outputs


def _in_onnxruntime(path: Path, level: str) -> _Loaded:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, _LEVELS[level])
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    ports = {
        port.name: (
            port.type.removeprefix("tensor(").removesuffix(")"),
            [size if isinstance(size, int) else 1 for size in port.shape],
        )
        for port in session.get_inputs()
    }
    return ports, lambda feeds: session.run(None, feeds)


def _in_openvino(path: Path) -> _Loaded:
    import openvino

    hints = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}
    model = openvino.Core().compile_model(str(path), "CPU", hints)
    ports = {
        port.any_name: (
            np.dtype(port.element_type.to_dtype()).name.replace("float32", "float").replace("float64", "double"),
            [size.get_length() if size.is_static else 1 for size in port.partial_shape],
        )
        for port in model.inputs
    }
    return ports, lambda feeds: [np.array(each) for each in model(feeds).values()]


def _in_opencv(path: Path) -> _Loaded:
    import cv2
    import onnx

    graph, net = onnx.load(path).graph, cv2.dnn.readNetFromONNX(str(path))
    ports = {}
    for port in graph.input:
        kind = port.type.tensor_type
        name = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name
        ports[port.name] = name.replace("float32", "float"), [dim.dim_value or 1 for dim in kind.shape.dim]
    names = [port.name for port in graph.output]

    def infer(feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        for name, array in feeds.items():
            net.setInput(array, name)
        return [np.array(each) for each in net.forward(names)]

    return ports, infer


_RUNTIMES = {"openvino": _in_openvino, "opencv": _in_opencv}


def main(folder: str, results: str, level: str = "all", inputs: str = "1") -> None:
    """Run each model that was not tried yet; one that fails has no result, and is told of."""
    for path in sorted(Path(folder).glob("*.onnx")):
        target, tried = (Path(results) / f"{path.stem}{ending}" for ending in (".npz", ".tried"))
        if tried.exists():
            continue
        tried.touch()
        try:
            outputs = run(path, level, int(inputs))
        except Exception as error:
            print(f"{path.stem}: {str(error)[:160]}", flush=True)
            continue
        np.savez(target, *(each for each in outputs if each.dtype != object))


if __name__ == "__main__":
    main(*sys.argv[1:])
