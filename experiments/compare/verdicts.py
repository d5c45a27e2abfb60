"""What ``--verify`` says of right conversions, and of the same with one fault: false alarms, and what is caught.

Models come from folders, or where none is given from :mod:`experiments.make.zoo`, some of them with their constants
behind the flatbuffer. Kinds of faults that were injected least come first. A fault counts where it changes an output by
more than the source's own noise on any of some inputs that the verification does not see: as far as the right
conversion and LiteRT's default path are from LiteRT's plain kernels, and at least one step of quantized numbers, or
1e-4 of the range of floats. With ``--resume`` a run that was ended goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import layoutsolve
from experiments.corpus import models, write_json
from experiments.make.zoo import write
from layoutsolve import Conversion
from layoutsolve.errors import ConversionError, VerifyError
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.ir.graph import Array
from layoutsolve.verification.flatbuffer_repacking import opened, packed
from layoutsolve.verification.input_sampling import drawn, limits
from layoutsolve.verification.litert import LiteRT, Port
from layoutsolve.verification.metrics import kind, numbers
from layoutsolve.verification.model_inputs import feeds
from layoutsolve.verification.runtimes import OnnxRuntime

SAMPLES, SEED = 8, 1000
"""On how many inputs the noise and the faults are measured, and the seed that these are drawn from."""

STEPS = {8: 1.0, 16: 4.0}
"""The least change of a quantized number that counts, in LSB by the bits of its type: LiteRT's tables for 16 bits are
two off. On average half of that counts.
"""

FLOAT = 1e-4
"""The least change of a float that counts, as a share of its range."""


class UnfitError(Exception):
    """A fault finds nothing in the model that it could change."""


@dataclass
class Opened:
    """A written model, and what chooses where it is broken."""

    graph: onnx.GraphProto
    random: np.random.Generator

    def one(self, choices: Sequence[Any]) -> Any:
        """One of some things. Raises :class:`UnfitError` where there are none."""
        if not len(choices):
            raise UnfitError
        return choices[int(self.random.integers(len(choices)))]

    def node(self, *operators: str, where: Callable[[onnx.NodeProto], bool] = lambda node: True) -> onnx.NodeProto:
        """One node of some operators."""
        return self.one([node for node in self.graph.node if node.op_type in operators and where(node)])

    def constants(self) -> dict[str, onnx.TensorProto]:
        """The initializers by name."""
        return {item.name: item for item in self.graph.initializer}

    def change(self, node: onnx.NodeProto, slot: int, change: Callable[[Array], Array]) -> None:
        """Give a node another constant."""
        known = self.constants()
        if slot >= len(node.input) or node.input[slot] not in known:
            raise UnfitError
        before = numpy_helper.to_array(known[node.input[slot]])
        after = np.asarray(change(before.copy()), before.dtype)
        if not before.size or np.array_equal(before, after):
            raise UnfitError
        name = f"{node.input[slot]}/fault"
        self.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(after), name))
        node.input[slot] = name

    def attribute(self, node: onnx.NodeProto, name: str, default: Any = None) -> Any:
        """An attribute, or what it is by default."""
        found = [helper.get_attribute_value(each) for each in node.attribute if each.name == name]
        return found[0] if found else default

    def put(self, node: onnx.NodeProto, name: str, value: Any) -> None:
        """Change an attribute."""
        kept = [each for each in node.attribute if each.name != name]
        del node.attribute[:]
        node.attribute.extend([*kept, helper.make_attribute(name, value)])

    def weights(self) -> tuple[onnx.NodeProto, int]:
        """A node and the input at which it has weights: a product, or what dequantizes them for one."""
        known, makers = self.constants(), {name: node for node in self.graph.node for name in node.output}
        found: list[tuple[onnx.NodeProto, int]] = []
        for node in self.graph.node:
            if node.op_type in PRODUCTS:
                for slot in (0, 1):
                    name = node.input[slot]
                    if name in known:
                        found.append((node, slot))
                    elif (
                        name in makers and makers[name].op_type == "DequantizeLinear" and makers[name].input[0] in known
                    ):
                        found.append((makers[name], 0))
        return self.one(found)


PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
Fault = Callable[[Opened], None]
FAULTS: dict[str, Fault] = {}


def fault(function: Fault) -> Fault:
    """Register a fault under its name."""
    FAULTS[function.__name__.replace("_", " ")] = function
    return function


def _scaled(by: float, one: bool) -> Callable[[Array], Array]:
    def change(data: Array) -> Array:
        if not one or not data.ndim:
            return data * by
        data[len(data) // 2] = data[len(data) // 2] * by
        return data

    return change


@fault
def weight_scaled_by_1_percent(opened: Opened) -> None:
    node, slot = opened.weights()
    opened.change(node, 1 if node.op_type == "DequantizeLinear" else slot, _scaled(1.01, False))


@fault
def weight_of_a_channel_scaled_by_5_percent(opened: Opened) -> None:
    node, slot = opened.weights()
    opened.change(node, 1 if node.op_type == "DequantizeLinear" else slot, _scaled(1.05, True))


@fault
def two_channels_of_a_weight_swapped(opened: Opened) -> None:
    node, slot = opened.weights()

    def change(data: Array) -> Array:
        axis = int(opened.random.integers(data.ndim)) if data.ndim else 0
        if not data.ndim or data.shape[axis] < 2:
            raise UnfitError
        pair = opened.random.choice(data.shape[axis], 2, replace=False)
        order = np.arange(data.shape[axis])
        order[pair] = order[pair[::-1]]
        return np.take(data, order, axis)

    opened.change(node, slot, change)


@fault
def zero_point_off_by_one(opened: Opened) -> None:
    known = opened.constants()
    node = opened.node("QuantizeLinear", "DequantizeLinear", where=lambda node: node.input[0] not in known)
    opened.change(node, 2, lambda data: data + 1 if int(data.max()) < 100 else data - 1)


@fault
def scale_of_an_activation_off_by_2_percent(opened: Opened) -> None:
    known = opened.constants()
    node = opened.node("QuantizeLinear", "DequantizeLinear", where=lambda node: node.input[0] not in known)
    opened.change(node, 1, _scaled(1.02, False))


@fault
def rounded_down(opened: Opened) -> None:
    known = opened.constants()
    node = opened.node("QuantizeLinear", where=lambda node: node.input[1] in known)
    scale = numpy_helper.to_array(known[node.input[1]])
    if scale.size != 1 or scale.dtype != np.float32:
        raise UnfitError
    before, node.input[0] = node.input[0], f"{node.input[0]}/fault"
    opened.graph.initializer.append(numpy_helper.from_array(scale / 2, f"{node.input[0]}/half"))
    made = helper.make_node("Sub", [before, f"{node.input[0]}/half"], [node.input[0]])
    place = list(opened.graph.node).index(node)
    opened.graph.node.insert(place, made)


@fault
def another_axis(opened: Opened) -> None:
    node = opened.node(
        "Softmax", "LogSoftmax", "Gather", "ArgMax", "ArgMin", "CumSum", "Concat", "Split", "LpNormalization"
    )
    axis = opened.attribute(node, "axis", -1)
    opened.put(node, "axis", axis - 1 if axis > 0 else axis + 1 if axis == 0 else axis - 1)


@fault
def another_reduction_axis(opened: Opened) -> None:
    node = opened.node(*REDUCTIONS)
    opened.change(node, 1, lambda axes: np.where(axes > 0, axes - 1, axes + 1))


REDUCTIONS = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd")


@fault
def another_reduction(opened: Opened) -> None:
    node = opened.node(*REDUCTIONS)
    node.op_type = "ReduceMax" if node.op_type != "ReduceMax" else "ReduceMin"


@fault
def dimensions_not_kept(opened: Opened) -> None:
    node = opened.node(*REDUCTIONS, "ArgMax", "ArgMin")
    opened.put(node, "keepdims", 1 - opened.attribute(node, "keepdims", 1))


@fault
def pads_moved(opened: Opened) -> None:
    node = opened.node(
        "Conv", "MaxPool", "AveragePool", "ConvTranspose", where=lambda node: any(opened.attribute(node, "pads", []))
    )
    pads = list(opened.attribute(node, "pads"))
    half = len(pads) // 2
    place = next(place for place, pad in enumerate(pads) if pad)
    pads[place], other = pads[place] - 1, (place + half) % len(pads)
    pads[other] += 1
    opened.put(node, "pads", pads)


@fault
def padding_counted(opened: Opened) -> None:
    node = opened.node("AveragePool", where=lambda node: any(opened.attribute(node, "pads", [])))
    opened.put(node, "count_include_pad", 1 - opened.attribute(node, "count_include_pad", 0))


@fault
def another_padding_value(opened: Opened) -> None:
    opened.change(opened.node("Pad", where=lambda node: len(node.input) > 2), 2, lambda value: value + 1)


@fault
def clamp_moved(opened: Opened) -> None:
    node = opened.node("Clip", where=lambda node: len(node.input) > 1)
    slot = 2 if len(node.input) > 2 and node.input[2] else 1
    opened.change(node, slot, lambda value: value * 0.9 if value.dtype.kind == "f" else value - np.sign(value))


@fault
def another_activation(opened: Opened) -> None:
    node = opened.node(*OTHERS)
    others = OTHERS[node.op_type]
    node.op_type = opened.one(others)
    del node.input[1:]
    del node.attribute[:]


OTHERS: Mapping[str, Sequence[str]] = {
    "Relu": ("LeakyRelu", "Elu"),
    "Sigmoid": ("Tanh", "HardSigmoid"),
    "Tanh": ("Sigmoid", "Softsign"),
    "HardSwish": ("Relu", "Identity"),
    "Clip": ("Relu", "Identity"),
    "Elu": ("Relu", "Selu"),
    "LeakyRelu": ("Relu", "Identity"),
    "Softplus": ("Relu",),
    "Gelu": ("Relu",),
    "Exp": ("Softplus",),
    "Sqrt": ("Abs",),
    "Abs": ("Identity", "Relu"),
    "Floor": ("Round", "Ceil"),
    "Ceil": ("Floor",),
    "Round": ("Floor", "Ceil"),
    "Sin": ("Cos",),
    "Cos": ("Sin",),
    "Neg": ("Identity",),
}


@fault
def another_operator(opened: Opened) -> None:
    node = opened.node(*EXCHANGED)
    node.op_type = EXCHANGED[node.op_type]


EXCHANGED: Mapping[str, str] = {
    "Max": "Min",
    "Min": "Max",
    "Add": "Sub",
    "Sub": "Add",
    "Mul": "Div",
    "And": "Or",
    "Or": "And",
    "Greater": "GreaterOrEqual",
    "GreaterOrEqual": "Greater",
    "Less": "LessOrEqual",
    "LessOrEqual": "Less",
    "Equal": "Less",
    "ArgMax": "ArgMin",
    "ArgMin": "ArgMax",
}


@fault
def another_resize_mode(opened: Opened) -> None:
    node = opened.node("Resize")
    now = opened.attribute(node, "coordinate_transformation_mode", b"half_pixel")
    opened.put(node, "coordinate_transformation_mode", "asymmetric" if now != b"asymmetric" else "half_pixel")


@fault
def another_rounding_mode(opened: Opened) -> None:
    node = opened.node("Resize", where=lambda node: opened.attribute(node, "mode", b"nearest") == b"nearest")
    now = opened.attribute(node, "nearest_mode", b"round_prefer_floor")
    opened.put(node, "nearest_mode", "ceil" if now != b"ceil" else "floor")


@fault
def bias_dropped(opened: Opened) -> None:
    node = opened.node("Conv", "ConvTranspose", "Gemm", where=lambda node: len(node.input) > 2 and bool(node.input[2]))
    del node.input[2:]


@fault
def bias_rolled(opened: Opened) -> None:
    known, makers = opened.constants(), {name: node for node in opened.graph.node for name in node.output}
    node = opened.node("Conv", "ConvTranspose", "Gemm", where=lambda node: len(node.input) > 2)
    slot = 2
    if node.input[2] not in known and node.input[2] in makers:
        node, slot = makers[node.input[2]], 0
    opened.change(node, slot, lambda data: np.roll(data, 1))


@fault
def another_permutation(opened: Opened) -> None:
    node = opened.node("Transpose", where=lambda node: len(opened.attribute(node, "perm", [])) > 1)
    perm = list(opened.attribute(node, "perm"))
    first, second = opened.random.choice(len(perm), 2, replace=False).tolist()
    perm[first], perm[second] = perm[second], perm[first]
    opened.put(node, "perm", perm)


@fault
def another_stride(opened: Opened) -> None:
    node = opened.node("Conv", "MaxPool", "AveragePool", "ConvTranspose")
    strides = list(opened.attribute(node, "strides", [1] * len(opened.attribute(node, "kernel_shape", [1, 1]))))
    opened.put(node, "strides", [strides[0] + 1, *strides[1:]])


@fault
def another_dilation(opened: Opened) -> None:
    node = opened.node(
        "Conv", "MaxPool", where=lambda node: any(each > 1 for each in opened.attribute(node, "kernel_shape", []))
    )
    count = len(opened.attribute(node, "kernel_shape"))
    dilations = list(opened.attribute(node, "dilations", [1] * count))
    opened.put(node, "dilations", [each + 1 for each in dilations])


@fault
def operands_swapped(opened: Opened) -> None:
    node = opened.node("Sub", "Div", "Pow", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Mod")
    first, second = node.input[:2]
    node.input[0], node.input[1] = second, first


@fault
def slice_begins_one_later(opened: Opened) -> None:
    opened.change(opened.node("Slice"), 1, lambda starts: starts + 1)


@fault
def gather_of_another_index(opened: Opened) -> None:
    opened.change(opened.node("Gather", "GatherND"), 1, lambda data: np.where(data > 0, data - 1, data + 1))


@fault
def another_epsilon(opened: Opened) -> None:
    node = opened.node("Add", "LayerNormalization", "InstanceNormalization", "BatchNormalization", "Max")
    if node.op_type not in ("Add", "Max"):
        opened.put(node, "epsilon", opened.attribute(node, "epsilon", 1e-5) * 100)
        return
    known = opened.constants()
    small = [slot for slot, name in enumerate(node.input) if name in known and _is_small(known[name])]
    opened.change(node, opened.one(small), lambda data: data * 100)


def _is_small(item: TensorProto) -> bool:
    data = numpy_helper.to_array(item)
    return data.dtype == np.float32 and data.size == 1 and 0 < float(data.reshape(-1)[0]) < 1e-2


@fault
def concatenated_in_another_order(opened: Opened) -> None:
    node = opened.node("Concat", where=lambda node: len(set(node.input)) > 1)
    first, *rest = node.input
    del node.input[:]
    node.input.extend([*rest, first])


@fault
def constant_changed(opened: Opened) -> None:
    known = opened.constants()
    operators = ("Add", "Mul", "Sub", "Div", "PRelu", "Where", "Pow", "Max", "Min")
    node = opened.node(*operators, where=lambda node: any(name in known for name in node.input))
    slot = next(slot for slot, name in enumerate(node.input) if name in known)

    def change(data: Array) -> Array:
        if data.dtype.kind not in "iuf":
            raise UnfitError
        flat = data.reshape(-1)
        place = int(opened.random.integers(flat.size)) if flat.size else 0
        if flat.size:
            before = float(flat[place])
            flat[place] = before * 1.05 if data.dtype.kind == "f" else before - 1 if before > 0 else before + 1
        return data

    opened.change(node, slot, change)


@fault
def outputs_swapped(opened: Opened) -> None:
    """Two inputs of a node that are of one type and shape in each other's place."""
    node = opened.node("Where", "Gemm", "MatMul")
    first, second = node.input[-2:]
    node.input[len(node.input) - 2], node.input[len(node.input) - 1] = second, first


def broken(conversion: Conversion, name: str, seed: int) -> Conversion | None:
    """A conversion with a fault, None where there is nothing to break."""
    made = onnx.ModelProto()
    made.CopyFrom(conversion.model)
    try:
        FAULTS[name](Opened(made.graph, np.random.default_rng(seed)))
    except (UnfitError, StopIteration, ValueError, IndexError, OverflowError):
        return None
    return replace(conversion, model=made)


@dataclass(frozen=True, eq=False)
class Bench:
    """A right conversion with what it gives on inputs that the verification does not see, and the noise there."""

    ports: Sequence[Port]
    inputs: Sequence[Mapping[str, Array]]
    results: Sequence[Sequence[Array]]
    noise: Sequence[tuple[float, float]]

    @classmethod
    def of(cls, source: bytes, conversion: Conversion, litert: LiteRT) -> Bench | None:
        """None where LiteRT runs none of the inputs."""
        ports = litert.describe(source)
        allowed = limits(parse(source))
        runtime = OnnxRuntime(conversion.model.SerializeToString(), threads=1)
        inputs, results, truths = list[dict[str, Array]](), list[list[Array]](), list[tuple[Any, Any]]()
        for sample in range(SAMPLES):
            random = np.random.default_rng([SEED, sample])
            sizes = [[1 if each < 0 else each for each in port.signature] for port in ports.inputs]
            each = zip(ports.inputs, sizes, allowed, strict=True)
            given = [drawn(port.dtype, size, random, sample, limit) for port, size, limit in each]
            try:
                truth = litert.run(source, given).results
            except VerifyError:
                continue
            try:
                fast = litert.run(source, given, delegate=True).results
            except VerifyError:
                fast = truth
            inputs.append(feeds(runtime, given, {}))
            results.append(runtime.run(inputs[-1]))
            truths.append((truth, fast))
        noise = []
        for place, port in enumerate(ports.outputs):
            found = [(0.0, 0.0)]
            for (truth, fast), ours in zip(truths, results, strict=True):
                pairs = [(truth[place], ours[place]), (truth[place], fast[place])]
                found += [_change(port, *pair) for pair in pairs if pair[0].shape == pair[1].shape]
            noise.append((max(each[0] for each in found), max(each[1] for each in found)))
        return cls(ports.outputs, inputs, results, noise) if inputs else None

    def changed(self, conversion: Conversion) -> bool:
        """Whether some output is changed by more than the noise, on any input, or not given at all."""
        try:
            runtime = OnnxRuntime(conversion.model.SerializeToString(), threads=1)
            found = [runtime.run(each) for each in self.inputs]
        except VerifyError:
            return True
        for ours, other in zip(self.results, found, strict=True):
            for port, (most, mean), one, two in zip(self.ports, self.noise, ours, other, strict=False):
                if one.shape != two.shape:
                    return True
                least = STEPS[port.bits] if kind(port) == "quantized" else FLOAT if kind(port) == "float" else 0.0
                far = _change(port, one, two)
                if far[0] > max(most, least) or far[1] > max(1.5 * mean, least / 2):
                    return True
        return False


def _change(port: Port, one: Array, two: Array) -> tuple[float, float]:
    """The largest and the mean difference: in steps, or in shares of the range."""
    first, second = numbers(one, port), numbers(two, port)
    if first.dtype.kind == "U":
        return float((first != second).any()), float((first != second).mean())
    with np.errstate(invalid="ignore"):
        error = np.where((first == second) | (np.isnan(first) & np.isnan(second)), 0, np.abs(first - second))
    error = np.where(np.isnan(error), np.inf, error)
    usable = first[np.isfinite(first)]
    unit = 1.0
    if kind(port) == "float" and usable.size:
        unit = float(np.ptp(usable)) or float(np.abs(usable).max()) or 1.0
    return float(error.max(initial=0)) / unit, float(error.mean()) / unit if error.size else 0.0


@dataclass(frozen=True)
class Judged:
    """A model with a fault, or with none: whether that counts, and what the verification says."""

    model: str
    fault: str
    counts: bool
    verdict: str
    told: str
    seconds: float


def judged(
    name: str, source: bytes, litert: LiteRT, options: argparse.Namespace, done: Counter[str]
) -> Iterator[Judged]:
    """The right conversion, and some with a fault: first of the kinds of which fewest are ``done``."""
    try:
        conversion = layoutsolve.convert(source)
    except ConversionError:
        return
    right, seconds = _verified(source, conversion)
    yield Judged(name, "", False, right.verdict, str(right), seconds)
    if right.verdict != "pass" or not options.faults:
        return
    try:
        bench = Bench.of(source, conversion, litert)
    except VerifyError:
        return
    if bench is None:
        return
    random, start = np.random.default_rng([options.seed, *name.encode()]), time.monotonic()
    kinds, count = sorted(random.permutation(list(FAULTS)).tolist(), key=lambda kind: done[kind]), 0
    for fault in kinds:
        wrong = broken(conversion, fault, int(random.integers(1 << 30)))
        if wrong is None:
            continue
        found, seconds = _verified(source, wrong)
        counts = bench.changed(wrong)
        yield Judged(name, fault, counts, found.verdict, str(found), seconds)
        done[fault] += 1
        count += 1
        if count == options.faults or time.monotonic() - start > options.most:
            return


def _verified(source: bytes, conversion: Conversion) -> tuple[layoutsolve.Verification, float]:
    start = time.perf_counter()
    found = layoutsolve.verify(source, conversion)
    return found, time.perf_counter() - start


def table(results: Sequence[Judged]) -> Iterator[str]:
    """A line for each kind of fault."""
    yield "| fault | injected | above noise | caught | below noise, caught too |"
    yield "|---|--:|--:|--:|--:|"
    broken = [each for each in results if each.fault]
    for name in [*sorted({each.fault for each in broken}), ""]:
        rows = [each for each in broken if name in ("", each.fault)]
        counted = [each for each in rows if each.counts]
        caught, more = (
            sum(each.verdict == "FAIL" for each in some)
            for some in (counted, [each for each in rows if not each.counts])
        )
        yield f"| {name or '**all**'} | {len(rows)} | {len(counted)} | {caught} | {more} |"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="*", help="folders with models (default: the zoo)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only models whose path contains TEXT")
    parser.add_argument("--faults", type=int, default=20, metavar="N", help="faults in each model (default: 20)")
    parser.add_argument(
        "--most", type=float, default=20.0, metavar="S", help="no other one after so many seconds (default: 20)"
    )
    parser.add_argument(
        "--behind", type=int, default=5, metavar="N", help="constants of every N-th model are moved (default: 5)"
    )
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every N-th model (default: 1)")
    parser.add_argument(
        "--networks", type=int, default=100, metavar="N", help="random networks of the zoo (default: 100)"
    )
    parser.add_argument(
        "--largest", type=int, default=8 << 20, metavar="BYTES", help="no larger models (default: 8 MB)"
    )
    parser.add_argument("--seconds", type=float, default=None, metavar="S", help="begin no model after so long")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="what is broken where (default: 0)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all verdicts to FILE")
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="FILE",
        help="add each model's verdicts to JSON Lines, and leave out what is there",
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made, LiteRT(120) as litert:
        if not options.folder:
            write(Path(made), options.networks, every=options.every)
            options.folder, options.every = [Path(made)], 1
        results = list(_all(options, litert))
    print("", *table(results), sep="\n")
    verdicts = Counter(each.verdict for each in results if not each.fault)
    print(f"\nright conversions: {', '.join(f'{count} {verdict}' for verdict, count in verdicts.items())}")
    write_json(options.json, [each.__dict__ for each in results])


def _all(options: argparse.Namespace, litert: LiteRT) -> Iterator[Judged]:
    known = _known(options.resume)
    start, done = time.monotonic(), Counter(each.fault for each in known if each.fault)
    tried = {each.model for each in known}
    yield from known
    for number, model in enumerate(chain(*(models(folder, options.only) for folder in options.folder))):
        late = options.seconds is not None and time.monotonic() - start > options.seconds
        if number % options.every or late or model.path.stat().st_size > options.largest:
            continue
        source, name = model.source, model.name
        if number // options.every % options.behind == 0:
            source, name = packed(opened(source), source), f"{name} (constants behind)"
        if name in tried:
            continue
        rows = list[Judged]()
        try:
            for found in judged(name, source, litert, options, done):
                rows.append(found)
                if (found.verdict != "pass") != bool(found.fault) and (found.counts or not found.fault):
                    told = "\n    ".join(found.told.splitlines()[-4:])
                    print(
                        f"{name}: {found.fault or 'right'}: {found.verdict} {found.seconds:.2f} s\n    {told}",
                        flush=True,
                    )
        except ConversionError as error:
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
        if options.resume is not None:
            with options.resume.open("a") as file:
                file.writelines(json.dumps(each.__dict__) + "\n" for each in rows)
        yield from rows


def _known(path: Path | None) -> list[Judged]:
    """The verdicts that an earlier run has written."""
    if path is None or not path.exists():
        return []
    return [Judged(**json.loads(line)) for line in path.read_text().splitlines()]


if __name__ == "__main__":
    main()
