"""Which kernels of ONNX Runtime give something else on other processors: operators on integers and in half precision,
each in a model of its own, on processors that are emulated.

A row is a model, a number how far its results are off those on this processor, as a share of their range; `levels` is
how far those of the optimiser's levels are apart on this one. Commands that run another Python, which has ONNX Runtime
for another architecture, are given by name.

    python -m experiments.compare.processor_kernels [--processors Haswell] [--python 'cortex-a53=/arm/run cortex-a53']
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from experiments.compare.processors import PROCESSORS, distance, emulated, results

Made = tuple[str, onnx.ModelProto]

_TYPES = {name: helper.np_dtype_to_tensor_dtype(np.dtype(name)) for name in ("float32", "float16", "uint8", "int8")}
_CHANNELS, _SIDE, _ROWS, _TERMS, _RESULTS = 16, 9, 5, 64, 24
_SAFE = 63
"""Weights of which no two saturate."""


class _Model:
    """One model: constants by their names, and nodes."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.constants: list[onnx.TensorProto] = []
        self.nodes: list[onnx.NodeProto] = []

    def constant(self, name: str, data: object, dtype: str) -> str:
        """Add a constant."""
        self.constants.append(numpy_helper.from_array(np.asarray(data, dtype), name))
        return name

    def weights(self, dtype: str, *shape: int, most: int = 127) -> str:
        """Add weights over the whole range of a type, or up to a number."""
        return self.constant("w", self.random.integers(-most, most + 1, shape) + _middle(dtype), dtype)

    def steps(self, prefix: str, scale: float, zero: int, dtype: str) -> list[str]:
        """Add a scale and a zero."""
        return [self.constant(f"{prefix}s", scale, "float32"), self.constant(f"{prefix}z", zero, dtype)]

    def node(self, op: str, inputs: Sequence[str], output: str = "y", domain: str = "", **attributes: Any) -> str:
        """Add a node."""
        self.nodes.append(helper.make_node(op, inputs, [output], domain=domain, **attributes))
        return output

    def made(self, dtype: str, *shape: int) -> onnx.ModelProto:
        """The model, from x to y."""
        x = helper.make_tensor_value_info("x", _TYPES[dtype], shape)
        y = onnx.ValueInfoProto(name="y")
        graph = helper.make_graph(self.nodes, "kernel", [x], [y], self.constants)
        graph.output[0].CopyFrom(helper.make_tensor_value_info("y", _result(self.nodes[-1], dtype), None))
        imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)


def _middle(dtype: str) -> int:
    """The zero point of what has as many numbers above it as below."""
    return 128 if dtype == "uint8" else 0


def _result(node: onnx.NodeProto, dtype: str) -> int:
    if node.op_type in ("MatMulInteger", "ConvInteger"):
        return int(TensorProto.INT32)
    if node.op_type.startswith("QLinear") or node.op_type in ("QGemm", "QuantizeLinear"):
        return _TYPES[dtype] if dtype in ("uint8", "int8") else int(TensorProto.UINT8)
    return _TYPES["float16" if dtype == "float16" else "float32"]


def _products() -> Iterator[Made]:
    """Products of bytes by bytes, of each pair of signs."""
    signs = [(x, w, 127) for x in ("uint8", "int8") for w in ("uint8", "int8")]
    for x, w, most in [*signs, ("uint8", "int8", _SAFE)]:
        title = f"{x} by {w}{' up to 63' if most == _SAFE else ''}"
        zero = _middle(x)
        m = _Model()
        m.node("MatMulInteger", ["x", m.weights(w, _TERMS, _RESULTS, most=most)])
        yield f"MatMulInteger {title}", m.made(x, _ROWS, _TERMS)
        if (x, w) != ("int8", "uint8"):
            yield f"QLinearConv {title}", _convolution(x, w, most)
            m = _Model()
            given = ["x", *m.steps("x", 0.02, zero, x), m.weights(w, _TERMS, _RESULTS, most=most)]
            m.node(
                "QLinearMatMul",
                [*given, *m.steps("w", 0.01, _middle(w), w), *m.steps("y", 0.5, zero, x)],
            )
            yield f"QLinearMatMul {title}", m.made(x, _ROWS, _TERMS)
            m = _Model()
            given = ["x", *m.steps("x", 0.02, zero, x), m.weights(w, _TERMS, _RESULTS, most=most)]
            given += [*m.steps("w", 0.01, _middle(w), w), "", *m.steps("y", 0.5, zero, x)]
            m.node("QGemm", given, domain="com.microsoft")
            yield f"QGemm {title}", m.made(x, _ROWS, _TERMS)
        yield f"Conv QDQ {title}", _quantized_convolution(x, w, most)


def _convolution(x: str, w: str, most: int) -> onnx.ModelProto:
    m = _Model()
    zero = _middle(x)
    given = ["x", *m.steps("x", 0.02, zero, x), m.weights(w, _RESULTS, _CHANNELS, 3, 3, most=most)]
    m.node("QLinearConv", [*given, *m.steps("w", 0.01, _middle(w), w), *m.steps("y", 0.5, zero, x)])
    return m.made(x, 1, _CHANNELS, _SIDE, _SIDE)


def _quantized_convolution(x: str, w: str, most: int, quantized: str | None = None) -> onnx.ModelProto:
    """A Conv between DequantizeLinear and QuantizeLinear of ``x``, or of other integers."""
    m = _Model()
    inner, real = quantized or x, "x"
    zero = _middle(inner)
    first, last = m.steps("x", 0.02 if quantized is None else 1e-4, zero, inner), m.steps("y", 0.5, zero, inner)
    if quantized is not None:
        real = m.node("QuantizeLinear", ["x", *first], "q")
    data = m.node("DequantizeLinear", [real, *first], "xr")
    weights = m.weights(w, _RESULTS, _CHANNELS, 3, 3, most=most)
    m.node("DequantizeLinear", [weights, *m.steps("w", 0.01, _middle(w), w)], "wr")
    stored = m.node("QuantizeLinear", [m.node("Conv", [data, "wr"], "c"), *last], "y" if quantized is None else "s")
    if quantized is not None:
        m.node("DequantizeLinear", [stored, *last])
    return m.made("float32" if quantized is not None else x, 1, _CHANNELS, _SIDE, _SIDE)


def _own() -> Iterator[Made]:
    """Operators on bytes that ONNX Runtime alone has."""
    image = 1, _CHANNELS, _SIDE, _SIDE
    pools: Sequence[tuple[str, dict[str, Any]]] = (
        ("QLinearAveragePool", {"kernel_shape": [3, 3], "strides": [2, 2]}),
        ("QLinearGlobalAveragePool", {}),
        ("QLinearLeakyRelu", {"alpha": 0.1}),
        ("QLinearSigmoid", {}),
        ("QLinearSoftmax", {"axis": 1, "opset": 13}),
    )
    for name, attributes in pools:
        for last in (False, True) if "Pool" in name else (False,):
            m = _Model()
            also: dict[str, Any] = {"channels_last": 1} if last else {}
            given = [
                "x",
                *m.steps("x", 0.02, 128, "uint8"),
                *m.steps("y", 0.015 if "S" not in name[7:] else 1 / 256, 100, "uint8"),
            ]
            m.node(name, given, domain="com.microsoft", **attributes, **also)
            shape = (1, _SIDE, _SIDE, _CHANNELS) if last else image
            yield f"{name}{' channels-last' if last else ''}", m.made("uint8", *shape)
    for name in ("QLinearAdd", "QLinearMul"):
        m = _Model()
        other = m.weights("uint8", *image)
        given = ["x", *m.steps("x", 0.02, 128, "uint8"), other, *m.steps("w", 0.03, 120, "uint8")]
        m.node(name, [*given, *m.steps("y", 0.05, 100, "uint8")], domain="com.microsoft")
        yield name, m.made("uint8", *image)
    for x, w in (("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8")):
        m = _Model()
        most = _SAFE if (x, w) == ("uint8", "int8") else 127
        given = ["x", m.weights(w, _TERMS, _RESULTS, most=most)]
        given += [m.constant("xs", 0.02, "float32"), m.constant("ws", 0.01, "float32")]
        m.node("MatMulIntegerToFloat", given, domain="com.microsoft")
        yield f"MatMulIntegerToFloat {x} by {w}", m.made(x, _ROWS, _TERMS)
    for w in ("uint8", "int8"):
        m = _Model()
        given = ["x", m.weights(w, _TERMS, _RESULTS, most=_SAFE), m.constant("ws", 0.01, "float32")]
        m.node("DynamicQuantizeMatMul", [*given, m.constant("wz", _middle(w), w)], domain="com.microsoft")
        yield f"DynamicQuantizeMatMul by {w}", m.made("float32", _ROWS, _TERMS)


def _others() -> Iterator[Made]:
    """Integers of 16 and of 4 bits, blocks, half precision, and ranges that are taken when a model runs."""
    yield "Conv QDQ int16 by int8", _quantized_convolution("float32", "int8", 127, "int16")
    yield "Conv QDQ uint16 by int8", _quantized_convolution("float32", "int8", 127, "uint16")
    for bits in (4, 8):
        for level in (0, 1, 4):
            m = _Model()
            packed = m.random.integers(0, 256, (_RESULTS, _TERMS // 32, 32 * bits // 8))
            given = ["x", m.constant("w", packed, "uint8")]
            given.append(m.constant("ws", m.random.uniform(0.01, 0.02, _RESULTS * _TERMS // 32), "float32"))
            sizes: dict[str, Any] = {"K": _TERMS, "N": _RESULTS, "bits": bits, "block_size": 32}
            m.node("MatMulNBits", given, domain="com.microsoft", accuracy_level=level, **sizes)
            yield f"MatMulNBits {bits} bits, accuracy level {level}", m.made("float32", _ROWS, _TERMS)
    for kind, block in ((TensorProto.INT4, 0), (TensorProto.INT4, 32), (TensorProto.UINT4, 32)):
        m = _Model()
        data = m.random.integers(-7, 8, (_TERMS, _RESULTS)) + (8 if kind == TensorProto.UINT4 else 0)
        m.constants.append(helper.make_tensor("w", kind, data.shape, data.ravel().tolist()))
        scales = m.random.uniform(0.01, 0.02, (_TERMS // block, _RESULTS) if block else ())
        zeros = np.full(scales.shape, 8 if kind == TensorProto.UINT4 else 0)
        m.constants.append(helper.make_tensor("wz", kind, zeros.shape, zeros.ravel().tolist()))
        blocks: dict[str, Any] = {"block_size": block, "axis": 0} if block else {}
        m.node("DequantizeLinear", ["w", m.constant("ws", scales, "float32"), "wz"], "wr", **blocks)
        m.node("MatMul", ["x", "wr"])
        name = "int4" if kind == TensorProto.INT4 else "uint4"
        yield f"MatMul by {name}{' in blocks' if block else ''}", m.made("float32", _ROWS, _TERMS)
    m = _Model()
    m.nodes.append(helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]))
    m.node("DequantizeLinear", ["q", "s", "z"])
    yield "DynamicQuantizeLinear", m.made("float32", _ROWS, _TERMS)
    for dtype in ("float32", "float16"):
        m = _Model()
        m.node("MatMul", ["x", m.constant("w", m.random.standard_normal((_TERMS, _RESULTS)), dtype)])
        yield f"MatMul {dtype}", m.made(dtype, _ROWS, _TERMS)
        m = _Model()
        m.node("Conv", ["x", m.constant("w", m.random.standard_normal((_RESULTS, _CHANNELS, 3, 3)), dtype)])
        yield f"Conv {dtype}", m.made(dtype, 1, _CHANNELS, _SIDE, _SIDE)
        for op in ("Softmax", "Sigmoid", "Exp", "Tanh"):
            m = _Model()
            m.node(op, ["x"])
            yield f"{op} {dtype}", m.made(dtype, _ROWS, _TERMS)


def _cell(here: Sequence[object], there: Sequence[object] | None) -> str:
    if there is None:
        return "does not run"
    off = distance(here, there)
    return "-" if not off else f"{off:.1e}"


def main(given: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processors", nargs="*", default=PROCESSORS, metavar="NAME")
    parser.add_argument("--python", nargs="*", default=[], metavar="NAME=COMMAND")
    options = parser.parse_args(given)
    pythons = {name: emulated(name) for name in options.processors}
    pythons |= {name: shlex.split(command) for name, command in (each.split("=", 1) for each in options.python)}
    made = dict([*_products(), *_own(), *_others()])
    with TemporaryDirectory() as root:
        names = {f"{number:03}": title for number, title in enumerate(made)}
        for name, title in names.items():
            onnx.save(made[title], Path(root) / f"{name}.onnx")
        here, plain = results(Path(root)), results(Path(root), "none")
        there = {name: results(Path(root), python=python) for name, python in pythons.items()}
    print(f"| kernel | levels | {' | '.join(there)} |\n|---|--:|{'--:|' * len(there)}")
    for name, title in names.items():
        if name in here:
            cells = [_cell(here[name], each.get(name)) for each in (plain, *there.values())]
            print(f"| {title} | {' | '.join(cells)} |")
    print(f"\n{len(here)} of {len(names)} models run here")


if __name__ == "__main__":
    main()
