"""Converters and optimisers of others, each in an environment of its own: what they make of a model, and whether it is
right.

An environment is the interpreter that has the package: ``--tool tf2onnx=/path/to/python``. The one that runs this is
asked for what is not given, so that ``pip install onnxslim`` is enough; a tool that is nowhere is reported as absent.
"""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

import numpy as np
import onnx

from experiments.compare.onnx_models import bytes_moved
from experiments.compare.tflite_writers import RIGHT, distance, fed, written
from experiments.corpus import graph_of
from experiments.onnx_shared import FailedError, Sample, samples
from layoutsolve.emit import nodes_of
from layoutsolve.errors import ConversionError
from layoutsolve.frontend import is_tflite
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.ir.graph import Array
from layoutsolve.measurement.executed_operators import executed
from layoutsolve.verification.input_sampling import smooth
from layoutsolve.verification.litert import LiteRT, Port
from layoutsolve.verification.runtimes import OnnxRuntime, element, optimised

PATIENCE = 120.0
"""Seconds that a tool has for a model."""


ROUNDED = 0.02
"""The share of an output's range that a model with quantized tensors may be off: steps are rounded in other places."""


WIDTHS: Mapping[str, int] = {"FP64": 8, "I64": 8, "FP16": 2, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
"""The bytes of an element by OpenVINO's name of its type, where they are not 4."""


@dataclass(frozen=True)
class Tool:
    """A command of a package: it reads and writes a format, as ``tflite to onnx``; PYTHON is the interpreter."""

    package: str
    formats: str
    command: str


def interpreter(package: str, given: Mapping[str, str]) -> str | None:
    """The interpreter that has a package, None where none is known."""
    if package in given:
        return given[package]
    return sys.executable if importlib.util.find_spec(package) is not None else None


CALL = "PYTHON -c 'import sys, {0} as tool; tool.{1}(sys.argv[1], sys.argv[2])' SOURCE OUTPUT"

_OPTIMISED = (
    "PYTHON -c 'import sys, onnxruntime as ort; options = ort.SessionOptions(); "
    "options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_{0}; "
    "options.optimized_model_filepath = sys.argv[2]; "
    'ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])\' SOURCE OUTPUT'
)
_ONNX2TF = (
    "PYTHON -c 'import sys, numpy; "
    'numpy.save("calibration_image_sample_data_20x128x128x3_float32.npy", numpy.zeros((20, 128, 128, 3), "f4")); '
    "import onnx2tf; onnx2tf.convert(input_onnx_file_path=sys.argv[1], output_folder_path=sys.argv[2], "
    "non_verbose=True)' SOURCE FOLDER"
)
"""It downloads images for a calibration that is not asked for, unless a file of that name is there."""

_OPENVINO = (
    "PYTHON -c 'import sys, layoutsolve, openvino; file = sys.argv[1]; {0}"
    "openvino.save_model(openvino.convert_model(file), sys.argv[2], compress_to_fp16=False)' SOURCE OUTPUT"
)
_BY_ONNX = _OPENVINO.format('file += ".onnx"; layoutsolve.convert(sys.argv[1], target="openvino-cpu").save(file); ')

TOOLS: Mapping[str, Tool] = {
    "layoutsolve": Tool("layoutsolve", "tflite to onnx", "PYTHON -m layoutsolve SOURCE -o OUTPUT"),
    "layoutsolve, min-transpose": Tool(
        "layoutsolve", "tflite to onnx", "PYTHON -m layoutsolve SOURCE -o OUTPUT --objective min-transpose"
    ),
    "tf2onnx": Tool(
        "tf2onnx", "tflite to onnx", "PYTHON -m tf2onnx.convert --tflite SOURCE --output OUTPUT --opset 18"
    ),
    "tflite2onnx": Tool("tflite2onnx", "tflite to onnx", CALL.format("tflite2onnx", "convert")),
    "layoutsolve, onnx": Tool("layoutsolve", "onnx to onnx", "PYTHON -m layoutsolve SOURCE -o OUTPUT"),
    "onnxslim": Tool("onnxslim", "onnx to onnx", "PYTHON -m onnxslim SOURCE OUTPUT"),
    "onnxsim": Tool("onnxsim", "onnx to onnx", "PYTHON -m onnxsim SOURCE OUTPUT"),
    **{
        f"ONNX Runtime, {level}": Tool("onnxruntime", "onnx to onnx", _OPTIMISED.format(level.upper()))
        for level in ("basic", "extended", "all")
    },
    "layoutsolve, tflite": Tool("layoutsolve", "onnx to tflite", "PYTHON -m layoutsolve SOURCE -o OUTPUT"),
    "onnx2tf": Tool("onnx2tf", "onnx to tflite", _ONNX2TF),
    "layoutsolve, OpenVINO": Tool("openvino", "tflite to xml", _BY_ONNX),
    "OpenVINO": Tool("openvino", "tflite to xml", _OPENVINO.format("")),
    "layoutsolve, onnx, OpenVINO": Tool("openvino", "onnx to xml", _BY_ONNX),
    "OpenVINO, onnx": Tool("openvino", "onnx to xml", _OPENVINO.format("")),
}
"""The tools by name. Those of one pair of formats are compared with each other."""


def tools(source: bytes, interpreters: Mapping[str, str]) -> list[Mapping[str, Any]]:
    """A model by every tool that takes its format. Raises :class:`VerifyError` or :class:`FailedError` where the source
    itself does not run.
    """
    format_ = "tflite" if is_tflite(source) else "onnx"
    feeds, truths = truth_of(source, format_)
    quantized = any(value.quant is not None for value in graph_of(source).values.values())
    found = []
    for name, tool in TOOLS.items():
        python = interpreter(tool.package, interpreters)
        reads, writes = tool.formats.split(" to ")
        if reads == format_:
            command = tool.command.replace("PYTHON", python or "")
            facts = _tried(command, source, (reads, writes), feeds, truths) if python else {"error": "not installed"}
            allowed = ROUNDED if quantized else RIGHT
            found.append({"tool": name, "formats": tool.formats, "allowed": allowed, **facts})
    return found


def _tried(
    command: str, source: bytes, formats: tuple[str, str], feeds: Mapping[str, Array], truths: Sequence[Array]
) -> dict[str, Any]:
    """What one command makes of a model: an ``error``, or how far it is ``off`` by the range of an output."""
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        path = folder / f"model.{formats[0]}"
        path.write_bytes(source)
        try:
            file, seconds, megabytes = written(command, path, folder, PATIENCE, formats)
        except FailedError as error:
            return {"error": str(error)[:120]}
        spent = {"seconds": round(seconds, 3), "megabytes": round(megabytes, 1)}
        try:
            names = _operators(file)
            off = distance(truths, run_on(file, feeds))
        except (FailedError, ConversionError) as error:
            return {**spent, "error": f"does not run: {error}"[:120]}
        counts = Counter(names)
        return {
            **spent,
            "off": float(f"{off:.2e}") if off < inf else inf,
            "operators": len(names),
            "transposes": counts["Transpose"] + counts["TRANSPOSE"],
            "reshapes": counts["Reshape"] + counts["RESHAPE"],
            "executed": _executed(file),
            "moved": _moved(file, feeds),
        }


def _operators(file: Path) -> list[str]:
    if file.suffix == ".onnx":
        return [node.op_type for node in nodes_of(onnx.load(file).graph)]
    if file.suffix == ".xml":
        return [layer.attrib["type"] for layer in ElementTree.parse(file).iter("layer")]
    return [each.name for graph in parse(file.read_bytes()).subgraphs for each in graph.operators]


def _moved(file: Path, feeds: Mapping[str, Array]) -> int:
    """The bytes that its Transposes write, those in branches and loops left out."""
    if file.suffix == ".onnx":
        ports = _ports(OnnxRuntime(file, level="none"))
        given = dict(zip([port.name for port in ports], fed(ports, feeds), strict=True))
        return bytes_moved(onnx.load(file), Sample({}, given, ()))
    if file.suffix == ".xml":
        layers = [each for each in ElementTree.parse(file).iter("layer") if each.attrib["type"] == "Transpose"]
        ports = [port for each in layers for port in each.iterfind("output/port")]
        return sum(
            WIDTHS.get(port.attrib["precision"], 4) * prod(max(int(dim.text or 1), 1) for dim in port.iter("dim"))
            for port in ports
        )
    main = parse(file.read_bytes()).subgraphs[0]
    moved = [main.tensors[each.outputs[0]] for each in main.operators if each.name == "TRANSPOSE"]
    return sum(np.dtype(tensor.dtype).itemsize * prod(tensor.shape) for tensor in moved)


def _executed(file: Path) -> int | None:
    """The Transposes that ONNX Runtime's optimiser or OpenVINO's leaves; of TensorFlow Lite it is not known."""
    if file.suffix == ".xml":
        runtime = _compiled(file).get_runtime_model()
        return sum(str(node.get_rt_info()["layerType"].astype(str)) == "Transpose" for node in runtime.get_ops())
    return executed(optimised(file)).transposes if file.suffix == ".onnx" else None


def truth_of(source: bytes, format_: str) -> tuple[Mapping[str, Array], Sequence[Array]]:
    """Inputs by name, and what reference kernels make of them."""
    if format_ == "onnx":
        sample = samples(source, {})[0]
        return sample.feeds, sample.results
    generator = np.random.default_rng(0)
    with LiteRT(PATIENCE) as litert:
        ports = litert.describe(source).inputs
        arrays = [smooth(port.dtype, port.shape, generator) for port in ports]
        return dict(zip([port.name for port in ports], arrays, strict=True)), litert.run(source, arrays).results


def _compiled(file: Path) -> Any:
    """A file of OpenVINO, to be computed in float32."""
    import openvino

    try:
        return openvino.Core().compile_model(file, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    except RuntimeError as error:
        raise FailedError("refused", str(error)) from error


def _in_openvino(file: Path, feeds: Mapping[str, Array]) -> Sequence[Array]:
    model = _compiled(file)
    names = [port.get_any_name() for port in model.inputs]
    shapes = [tuple(dim.get_length() if dim.is_static else 1 for dim in each.partial_shape) for each in model.inputs]
    kinds = [each.element_type.to_dtype() for each in model.inputs]
    ports = [Port(name, kind, shape, (), (), ()) for name, kind, shape in zip(names, kinds, shapes, strict=True)]
    return [found.copy() for found in model(dict(zip(names, fed(ports, feeds), strict=True))).values()]


def run_on(file: Path, feeds: Mapping[str, Array]) -> Sequence[Array]:
    """What a written file makes of the inputs, without being optimised."""
    source = file.read_bytes()
    if file.suffix == ".tflite":
        with LiteRT(PATIENCE) as litert:
            return litert.run(source, fed(litert.describe(source).inputs, feeds)).results
    if file.suffix == ".xml":
        return _in_openvino(file, feeds)
    runtime = OnnxRuntime(file, level="none")
    ports = _ports(runtime)
    return runtime.run(dict(zip([port.name for port in ports], fed(ports, feeds), strict=True)))


def _ports(runtime: OnnxRuntime) -> list[Port]:
    return [
        Port(name, element(kind), tuple(size if isinstance(size, int) else 1 for size in shape), (), (), ())
        for name, kind, shape in runtime.inputs
    ]
