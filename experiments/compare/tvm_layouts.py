"""TVM's ConvertLayout beside ours, on the same models: how many conversions each leaves.

Each model of a folder is written for ``onnx``, in planes. TVM imports that, converts convolutions to NHWC with OHWI,
which pools follow, and folds constants; ours is ``layoutsolve.convert_layout`` of the same file, with pools in NHWC
too, and ends restored. Counted are Transposes (``permute_dims``, ``layout_transform``) of tensors that are computed.
TVM may live in an environment of its own (``pip install apache-tvm onnx``), whose interpreter is given then.

    python -m experiments.compare.tvm_layouts FOLDER [--python /path/to/python] [--only TEXT] [--json FILE]
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import layoutsolve
from experiments.corpus import arguments, models, write_json

DESIRED = {"Conv": ["NHWC", "OHWI"], "ConvTranspose": ["NHWC", "IHWO"], "MaxPool": ["NHWC"], "AveragePool": ["NHWC"]}

PATIENCE = 300
"""How many seconds TVM has for a model."""

THEIRS = """
import json, sys
import onnx
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

def moves(module):
    found = 0
    def visit(expression):
        nonlocal found
        if isinstance(expression, relax.Call) and getattr(expression.op, "name", "") in MOVES:
            found += type(expression.args[0]).__name__ != "Constant"
    for function in module.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, visit)
    return found

MOVES = ("relax.permute_dims", "relax.layout_transform")
module = relax.transform.Normalize()(from_onnx(onnx.load(sys.argv[1]), keep_params_in_input=False))
wanted = {"relax.nn.conv2d": ["NHWC", "OHWI"], "relax.nn.conv2d_transpose": ["NHWC", "IHWO"]}
made = relax.transform.FoldConstant()(relax.transform.ConvertLayout(wanted)(module))
print(json.dumps([moves(module), moves(made)]))
"""
"""What runs beside TVM: the moves before and after its ConvertLayout."""


@dataclass(frozen=True)
class Beside:
    """A model: Transposes of the file, those that TVM's module has before and after (None where TVM refuses it, for a
    ``reason``), and ours, with what is proven of them.
    """

    model: str
    given: int
    before: int | None
    theirs: int | None
    ours: int
    status: str
    reason: str = ""


def beside(name: str, source: bytes, python: str, folder: Path) -> Beside | None:
    """Both counts of a model; None where it cannot be written."""
    try:
        made = layoutsolve.convert(source, target="onnx")
    except layoutsolve.ConversionError:
        return None
    path = folder / "model.onnx"
    made.save(path)
    ours = layoutsolve.convert_layout(str(path), DESIRED)
    count = sum(node.op_type == "Transpose" for node in ours.model.graph.node)
    try:
        done = subprocess.run(
            [python, "-c", THEIRS, str(path)], capture_output=True, text=True, check=False, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        return Beside(name, made.price.transposes, None, None, count, ours.assignment.status, f"over {PATIENCE} s")
    told = (
        made.price.transposes,
        *(json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else (None, None)),
    )
    lines = done.stderr.strip().splitlines() or ["no reason"]
    reason = "" if done.returncode == 0 else next((line for line in reversed(lines) if "Error" in line), lines[-1])
    return Beside(name, *told, count, ours.assignment.status, reason)


def main(given: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = arguments(__doc__)
    parser.add_argument("--python", default=sys.executable, metavar="FILE", help="one that has apache-tvm and onnx")
    options = parser.parse_args(given)
    found = []
    with TemporaryDirectory() as folder:
        for model in models(options.folder, options.only):
            each = beside(model.name, model.source, options.python, Path(folder))
            if each is None:
                continue
            found.append(each)
            theirs = (
                f"TVM {each.theirs} (of {each.before})" if each.theirs is not None else f"TVM refuses: {each.reason}"
            )
            print(
                f"* {each.model}: {each.given} in the file, {theirs}, ours {each.ours} ({each.status})"[:200],
                flush=True,
            )
            write_json(options.json, [asdict(each) for each in found])  # as far as it has come
    both = [each for each in found if each.theirs is not None]
    sums = sum(each.theirs or 0 for each in both), sum(each.ours for each in both)
    before = sum(each.before or 0 for each in both)
    print(f"{len(found)} models, {len(both)} in both: before {before}, TVM {sums[0]}, ours {sums[1]}")


if __name__ == "__main__":
    main()
