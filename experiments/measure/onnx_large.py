"""A large model in ONNX: how long it takes and how much memory, beside reading and writing it with onnx alone.

The model is a chain of products with two Transposes before each, which are too many. Each way has a process of its own.

    python -m experiments.measure.onnx_large FOLDER [--layers 16] [--width 4096] [--beside] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_CHILD = """
import json, resource, sys, time
start = time.perf_counter()
{work}
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps([time.perf_counter() - start, time.process_time(), peak]))
"""

_WORK = {
    "onnx": "import onnx\n"
    "onnx.save(onnx.load(sys.argv[1]), sys.argv[2], save_as_external_data={beside}, location='written.onnx.data')",
    "layoutsolve": "import layoutsolve; layoutsolve.convert(sys.argv[1], external_data={beside}).save(sys.argv[2])",
}


def write(path: Path, layers: int, width: int, beside: bool) -> None:
    """Write the model, with its constants in it or in a file of their own."""
    nodes, constants, x = [], [], "x"
    for layer in range(layers):
        weights = np.random.default_rng(layer).standard_normal((width, width), np.float32)
        constants.append(numpy_helper.from_array(weights / np.float32(np.sqrt(width)), f"w{layer}"))
        for read, written in ((x, f"a{layer}"), (f"a{layer}", f"b{layer}")):
            nodes.append(helper.make_node("Transpose", [read], [written], perm=[0, 2, 1]))
        x = f"y{layer}"
        nodes.append(helper.make_node("MatMul", [f"b{layer}", f"w{layer}"], [x]))
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8, width]) for name in ("x", x)]
    graph = helper.make_graph(nodes, "large", ports[:1], ports[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(model, path, save_as_external_data=beside, location=f"{path.name}.data")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--beside", action="store_true", help="constants in a file of their own")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    source, target = options.folder / "large.onnx", options.folder / "written.onnx"
    with ProcessPoolExecutor(1) as writer:  # a process's memory counts for those that it starts
        writer.submit(write, source, options.layers, options.width, options.beside).result()
    found: dict[str, list[list[float]]] = {name: [] for name in _WORK}
    for _ in range(options.rounds):
        for name, work in _WORK.items():
            for old in options.folder.glob("written.onnx*"):
                old.unlink()
            code = _CHILD.format(work=work.format(beside=options.beside))
            command = [sys.executable, "-I", "-c", code, str(source), str(target)]
            found[name].append(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))
    left = sum(node.op_type == "Transpose" for node in onnx.load(target, load_external_data=False).graph.node)
    print(f"{4e-9 * options.layers * options.width**2:.2f} GB, {left} Transposes left")
    for name, rounds in found.items():
        wall, processor, peak = (median(each) for each in zip(*rounds, strict=True))
        print(f"{name}: {wall:.1f} s, {processor:.1f} s of processor time, {peak / 1e9:.1f} GB of memory")


if __name__ == "__main__":
    main()
