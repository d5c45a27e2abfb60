"""A model beyond two gigabytes: how long its conversion takes, and how much memory.

The model is a chain of dense layers whose weights lie behind the flatbuffer. It is made, converted in a process of its
own, and run in ONNX Runtime against numpy.

    python -m experiments.measure.large FOLDER [--layers 12] [--width 7000]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

PAGE = 4096
_CHILD = """
import json, resource, sys, time
from layoutsolve.cli.command_line import main
start = time.perf_counter()
code = main([sys.argv[1], "-o", sys.argv[2]])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"code": code, "seconds": time.perf_counter() - start, "peak": peak}))
"""


def weights(layer: int, width: int) -> np.ndarray:
    """The weights of one layer, which keep the size of what they multiply."""
    return np.random.default_rng(layer).standard_normal((width, width), np.float32) / np.float32(np.sqrt(width))


def write(path: Path, layers: int, width: int) -> None:
    """Write the model, one layer at a time."""
    size = -(-4 * width * width // PAGE) * PAGE
    start = -(-len(_head([PAGE] * layers, width)) // PAGE) * PAGE
    with path.open("wb") as file:
        file.write(_head([start + layer * size for layer in range(layers)], width))
        for layer in range(layers):
            file.seek(start + layer * size)
            file.write(weights(layer, width).data)
        file.truncate(start + layers * size)


def _head(offsets: list[int], width: int) -> bytes:
    code = schema.BuiltinOperator.FULLY_CONNECTED
    model = schema.ModelT(version=3, description="large", subgraphs=[schema.SubGraphT(inputs=[0])])
    model.operatorCodes = [schema.OperatorCodeT(deprecatedBuiltinCode=code, builtinCode=code, version=1)]
    model.buffers = [schema.BufferT(), *(schema.BufferT(offset=each, size=4 * width * width) for each in offsets)]
    (graph,) = model.subgraphs
    graph.tensors = [schema.TensorT(name="x0", shape=[1, width], hasRank=True)]
    graph.operators = []
    for layer in range(len(offsets)):
        graph.tensors.append(schema.TensorT(name=f"w{layer}", shape=[width, width], buffer=layer + 1, hasRank=True))
        graph.tensors.append(schema.TensorT(name=f"x{layer + 1}", shape=[1, width], hasRank=True))
        options = {"builtinOptionsType": 8, "builtinOptions": schema.FullyConnectedOptionsT()}
        last = len(graph.tensors) - 1
        graph.operators.append(
            schema.OperatorT(opcodeIndex=0, inputs=[max(last - 2, 0), last - 1, -1], outputs=[last], **options)
        )
    graph.outputs = [len(graph.tensors) - 1]
    builder = flatbuffers.Builder(PAGE)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def error(path: Path, layers: int, width: int) -> float:
    """The largest error of the converted model, relative to its largest output."""
    import onnxruntime

    x = np.random.default_rng(layers).standard_normal((1, width), np.float32)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x0": x})
    for layer in range(layers):
        x = x @ weights(layer, width).T
    return float(np.abs(found - x).max() / np.abs(x).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=7000)
    options = parser.parse_args()
    source, target = options.folder / "large.tflite", options.folder / "large.onnx"
    write(source, options.layers, options.width)
    command = [sys.executable, "-I", "-c", _CHILD, str(source), str(target)]
    child = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(child.stdout.splitlines()[-1])
    print(child.stdout.splitlines()[0])
    size = source.stat().st_size
    print(
        f"{size / 1e9:.2f} GB in {found['seconds']:.1f} s, at most {found['peak'] / size:.2f} times the file in memory"
    )
    print(f"largest error {error(target, options.layers, options.width):.1e}")


if __name__ == "__main__":
    main()
