"""Mutants of TensorFlow Lite models: files that are sound as flatbuffers and wrong, or merely unusual, as models.

A mutation changes one thing that the schema has a field for: a shape, a type, an option, which tensor an operator
reads, how a tensor is quantized. Bytes at random seldom get past the reader; these get to what lies behind it.
"""

from __future__ import annotations

import copy
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from flatbuffers import flexbuffers

from layoutsolve.ir.graph import Array
from tests.builder import Buffer

NUMBERS = (0, 1, -1, 2, 3, 4, 5, 7, 8, 127, 128, 255, 256, 1000, 65535, 65536, 1 << 20, (1 << 31) - 1, -(1 << 31))
"""Numbers that sizes, axes and options change to: edges of types, and small ones that may fit."""

SCALES = (0.0, 1.0, 1e-30, 1e30, 0.5, 2.0, -1.0, float("nan"), float("inf"))

TYPES = tuple(sorted(code for name, code in vars(schema.TensorType).items() if name.isupper()))
OPERATORS = tuple(sorted(code for name, code in vars(schema.BuiltinOperator).items() if name.isupper()))

_TOO_LARGE = (struct.error, TypeError, OverflowError)
"""What packing raises where a field cannot hold its number."""

MOST = 3
"""How many mutations a mutant has at most."""


@dataclass(frozen=True)
class Mutant:
    """The bytes of a model and the names of the mutations that led to it."""

    source: bytes
    mutations: tuple[str, ...]


class UnfitError(Exception):
    """A mutation finds nothing in the model that it could change."""


@dataclass
class Opened:
    """A model taken apart, and what chooses where to change it."""

    model: Any
    random: np.random.Generator

    def one(self, choices: Any) -> Any:
        """One of some things. Raises :class:`UnfitError` where there are none."""
        if not len(choices):
            raise UnfitError
        return choices[int(self.random.integers(len(choices)))]

    def number(self, near: int = 0) -> int:
        """A number that a size may change to: an edge, or a neighbour."""
        return int(self.one(NUMBERS)) if self.random.random() < 0.6 else near + int(self.random.integers(-2, 3))

    def graph(self) -> Any:
        """A subgraph, mostly the first."""
        return self.one(self.model.subgraphs) if self.random.random() < 0.3 else self.model.subgraphs[0]

    def tensor(self) -> Any:
        """A tensor."""
        return self.one(self.graph().tensors or [])

    def operator(self) -> tuple[Any, Any]:
        """A subgraph and one of its operators."""
        graph = self.graph()
        return graph, self.one(graph.operators or [])

    def index(self, graph: Any) -> int:
        """The index of a tensor: mostly one that exists."""
        count = len(graph.tensors or [])
        return int(self.random.integers(-1, count + 1)) if self.random.random() < 0.1 else int(self.one(range(count)))

    def content(self, tensor: Any) -> Array:
        """The bytes of a tensor's buffer, a copy. Raises :class:`UnfitError` where it has none."""
        if not 0 < tensor.buffer < len(self.model.buffers):
            raise UnfitError
        data = self.model.buffers[tensor.buffer].data
        if data is None or not len(data):
            raise UnfitError
        return np.array(data, np.uint8)

    def keep(self, data: Array) -> int:
        """The index of a new buffer."""
        made = schema.BufferT()
        made.data = data
        self.model.buffers.append(made)
        return len(self.model.buffers) - 1


Mutation = Callable[[Opened], None]
MUTATIONS: dict[str, Mutation] = {}


def mutation(function: Mutation) -> Mutation:
    """Register a mutation under its name."""
    MUTATIONS[function.__name__] = function
    return function


def mutant(source: bytes, seed: int) -> Mutant:
    """A mutant of a model, the same for the same seed."""
    random = np.random.default_rng(seed)
    while True:
        opened = Opened(schema.ModelT.InitFromPackedBuf(source), random)
        names = [_mutate(opened) for _ in range(1 + int(random.integers(MOST)))]
        with suppress(*_TOO_LARGE):
            return Mutant(packed(opened.model), tuple(names))


def _mutate(opened: Opened) -> str:
    """Change one thing; returns the name of the mutation."""
    while True:
        name = str(opened.one(tuple(MUTATIONS)))
        with suppress(UnfitError):
            MUTATIONS[name](opened)
            return name


def packed(model: Any) -> bytes:
    """The bytes of a model that was taken apart, its buffers aligned as LiteRT wants them."""
    model = copy.copy(model)
    model.buffers = [
        Buffer(b"" if each.data is None else np.asarray(each.data, np.uint8).tobytes()) for each in model.buffers
    ]
    builder = flatbuffers.Builder(4096)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


# -- tensors -------------------------------------------------------------------------------------------------------


@mutation
def change_size(opened: Opened) -> None:
    """One dimension of a tensor."""
    tensor = opened.tensor()
    shape = _list(tensor.shape)
    axis = opened.one(range(len(shape)))
    shape[axis] = _int32(opened.number(shape[axis]))
    tensor.shape = shape


@mutation
def change_rank(opened: Opened) -> None:
    """A dimension more or fewer; a shape that is left out; two that change places."""
    tensor = opened.tensor()
    shape = _list(tensor.shape)
    way = opened.random.integers(4)
    if way == 0:
        shape.insert(int(opened.random.integers(len(shape) + 1)), int(opened.one((1, 1, 1, 2, 0))))
    elif way == 1 and shape:
        del shape[int(opened.one(range(len(shape))))]
    elif way == 2:
        shape = []
    elif len(shape) > 1:
        first, second = (int(each) for each in opened.random.choice(len(shape), 2, replace=False))
        shape[first], shape[second] = shape[second], shape[first]
    tensor.shape = shape


@mutation
def make_dynamic(opened: Opened) -> None:
    """A shape signature with open dimensions, or with other contents."""
    tensor = opened.tensor()
    shape = _list(tensor.shape)
    signature = [-1 if opened.random.random() < 0.5 else size for size in shape]
    if opened.random.random() < 0.1:
        signature.append(_int32(opened.number()))
    tensor.shapeSignature = signature


@mutation
def change_type(opened: Opened) -> None:
    """The type of a tensor's elements."""
    opened.tensor().type = opened.one(TYPES)


@mutation
def change_scale(opened: Opened) -> None:
    """The scales of a tensor: another number, a different count, none at all."""
    tensor = opened.tensor()
    quantization = tensor.quantization or schema.QuantizationParametersT()
    scales = np.array(quantization.scale if quantization.scale is not None else [0.1], np.float32)
    way = opened.random.integers(4)
    if way == 0:
        scales = scales * np.float32(opened.one((0.5, 2.0, 1.1, 0.9)))
    elif way == 1 and scales.size:
        scales[int(opened.one(range(scales.size)))] = opened.one(SCALES)
    elif way == 2:
        scales = scales[:-1]
    else:
        scales = np.append(scales, np.float32(0.25))
    quantization.scale = scales.tolist()
    tensor.quantization = quantization


@mutation
def change_zero_point(opened: Opened) -> None:
    """The zero points of a tensor."""
    tensor = opened.tensor()
    quantization = tensor.quantization or schema.QuantizationParametersT()
    zeros = _list(quantization.zeroPoint)
    if zeros and opened.random.random() < 0.7:
        place = int(opened.one(range(len(zeros))))
        zeros[place] = opened.number(zeros[place])
    else:
        zeros = zeros[:-1] if zeros and opened.random.random() < 0.5 else [*zeros, opened.number()]
    quantization.zeroPoint = zeros
    tensor.quantization = quantization


@mutation
def change_quantized_axis(opened: Opened) -> None:
    """Which axis the scales belong to."""
    tensor = opened.tensor()
    if tensor.quantization is None:
        raise UnfitError
    tensor.quantization.quantizedDimension = _int32(opened.number())


@mutation
def drop_quantization(opened: Opened) -> None:
    """A tensor that is quantized no longer, or as another one is."""
    graph = opened.graph()
    tensor, other = opened.one(graph.tensors or []), opened.one(graph.tensors or [])
    tensor.quantization = None if opened.random.random() < 0.5 else copy.deepcopy(other.quantization)


@mutation
def toggle_variable(opened: Opened) -> None:
    """A variable that is none, or the other way round."""
    tensor = opened.tensor()
    tensor.isVariable = not tensor.isVariable


@mutation
def rename(opened: Opened) -> None:
    """The name of a tensor: empty, odd, long, or another's."""
    graph = opened.graph()
    tensor = opened.one(graph.tensors or [])
    names = ("", "a", "a/b:0", "é\n\"'", "x" * 5000, "\0", opened.one(graph.tensors).name)
    tensor.name = opened.one(names)


# -- constants -----------------------------------------------------------------------------------------------------


@mutation
def change_buffer(opened: Opened) -> None:
    """Which buffer a tensor has: none, another's, one that does not exist."""
    tensor = opened.tensor()
    count = len(opened.model.buffers)
    tensor.buffer = int(opened.one((0, opened.one(range(count)), opened.one(range(count)), count)))


@mutation
def change_constant(opened: Opened) -> None:
    """A number in a constant of integers: an axis, a size, an index, a weight."""
    tensor = opened.tensor()
    data = opened.content(tensor)
    width = {schema.TensorType.INT64: 8, schema.TensorType.INT32: 4}.get(tensor.type, 0)
    if not width or len(data) % width:
        data[int(opened.one(range(len(data))))] = int(opened.random.integers(256))
    else:
        numbers = data.view(np.int64 if width == 8 else np.int32)
        place = int(opened.one(range(len(numbers))))
        numbers[place] = opened.number(int(np.clip(numbers[place], -1 << 30, 1 << 30)))
    tensor.buffer = opened.keep(data)


@mutation
def rearrange_constant(opened: Opened) -> None:
    """A vector of integers (axes, sizes, paddings, an order) with its numbers in another order, or of other signs."""
    tensor = opened.one(
        [each for each in opened.graph().tensors or [] if each.type in _WHOLE and len(_list(each.shape))]
    )
    data = opened.content(tensor)
    numbers = data[: len(data) // 4 * 4].view(np.int32) if tensor.type == schema.TensorType.INT32 else _longs(data)
    if len(numbers) > 1 and opened.random.random() < 0.7:
        numbers[:] = opened.random.permutation(numbers)
    elif len(numbers):
        place = int(opened.one(range(len(numbers))))
        numbers[place] = int(opened.one((-numbers[place], numbers[place] - 1, numbers[place] + 1)))
    tensor.buffer = opened.keep(data)


_WHOLE = (schema.TensorType.INT32, schema.TensorType.INT64)


def _longs(data: Array) -> Array:
    return data[: len(data) // 8 * 8].view(np.int64)


@mutation
def change_sparsity(opened: Opened) -> None:
    """How a sparse constant is packed: the order of its dimensions, a size, a format, an index."""
    tensor = opened.one([each for each in opened.graph().tensors or [] if each.sparsity is not None])
    sparsity = tensor.sparsity
    way = opened.random.integers(4)
    dimension = opened.one(sparsity.dimMetadata or [])
    if way == 0:
        field = opened.one(("traversalOrder", "blockMap"))
        setattr(
            sparsity, field, [int(each) for each in opened.random.permutation([*_list(getattr(sparsity, field)), 0])]
        )
    elif way == 1:
        dimension.denseSize = _int32(opened.number(dimension.denseSize))
    elif way == 2:
        dimension.format = 1 - dimension.format
    else:
        vector = opened.one([each for each in (dimension.arraySegments, dimension.arrayIndices) if each is not None])
        values = _list(vector.values)
        place = int(opened.one(range(len(values))))
        values[place] = max(0, values[place] + int(opened.one((-1, 1, 100))))
        vector.values = values


@mutation
def change_real_constant(opened: Opened) -> None:
    """A float of a constant becomes an edge: zero, huge, tiny, infinite, no number."""
    tensor = opened.tensor()
    if tensor.type != schema.TensorType.FLOAT32:
        raise UnfitError
    data = opened.content(tensor)
    numbers = data[: len(data) // 4 * 4].view(np.float32)
    numbers[int(opened.one(range(len(numbers))))] = opened.one((*SCALES, -0.0, 1e20, -1e-20))
    tensor.buffer = opened.keep(data)


@mutation
def cut_buffer(opened: Opened) -> None:
    """A buffer that is too short or too long for its tensor."""
    tensor = opened.tensor()
    data = opened.content(tensor)
    change = int(opened.one((-1, -4, 1, 4, -len(data) // 2, len(data))))
    tensor.buffer = opened.keep(np.resize(data, max(len(data) + change, 0)))


@mutation
def make_constant(opened: Opened) -> None:
    """A tensor that was computed gets contents of its own."""
    tensor = opened.tensor()
    shape = _list(tensor.shape)
    if any(size < 0 or size > 64 for size in shape) or tensor.type == schema.TensorType.STRING:
        raise UnfitError
    width = {schema.TensorType.INT64: 8, schema.TensorType.FLOAT64: 8, schema.TensorType.INT8: 1}.get(tensor.type, 4)
    length = min(int(np.prod(shape)) * width, 1 << 16)
    tensor.buffer = opened.keep(opened.random.integers(0, 3, length).astype(np.uint8))


@mutation
def make_input(opened: Opened) -> None:
    """A constant becomes an input."""
    graph = opened.model.subgraphs[0]
    index = int(opened.one(range(len(graph.tensors or []))))
    graph.tensors[index].buffer = 0
    graph.inputs = [*_list(graph.inputs), index]


# -- operators -----------------------------------------------------------------------------------------------------


@mutation
def change_input(opened: Opened) -> None:
    """Which tensor an operator reads: another, none."""
    _change_port(opened, "inputs")


@mutation
def change_output(opened: Opened) -> None:
    """Which tensor an operator writes."""
    _change_port(opened, "outputs")


def _change_port(opened: Opened, field: str) -> None:
    graph, operator = opened.operator()
    ports = _list(getattr(operator, field))
    ports[int(opened.one(range(len(ports))))] = opened.index(graph)
    setattr(operator, field, ports)


@mutation
def change_arity(opened: Opened) -> None:
    """An input or output more or fewer, or two that change places."""
    graph, operator = opened.operator()
    field = opened.one(("inputs", "inputs", "outputs"))
    ports = _list(getattr(operator, field))
    way = opened.random.integers(3)
    if way == 0:
        ports.append(opened.index(graph))
    elif way == 1 and ports:
        del ports[int(opened.one(range(len(ports))))]
    elif len(ports) > 1:
        first, second = (int(each) for each in opened.random.choice(len(ports), 2, replace=False))
        ports[first], ports[second] = ports[second], ports[first]
    setattr(operator, field, ports)


@mutation
def change_option(opened: Opened) -> None:
    """A field of an operator's options."""
    _, operator = opened.operator()
    options = opened.one([each for each in (operator.builtinOptions, operator.builtinOptions2) if each is not None])
    field = opened.one(sorted(vars(options)))
    value = getattr(options, field)
    if isinstance(value, bool):
        setattr(options, field, not value)
    elif isinstance(value, int):
        small = opened.random.random() < 0.7
        # most options are enumerations of a byte, or sizes
        setattr(options, field, int(opened.random.integers(-1, 6)) if small else _int32(opened.number(value)))
    elif isinstance(value, float):
        setattr(options, field, float(opened.one((*SCALES, value * 2, -value))))
    elif value is None or isinstance(value, (list, np.ndarray)):
        numbers = _list(value)
        if numbers and opened.random.random() < 0.7:
            place = int(opened.one(range(len(numbers))))
            numbers[place] = _int32(opened.number(int(numbers[place])))
        else:
            numbers = (
                numbers[:-1] if numbers and opened.random.random() < 0.5 else [*numbers, int(opened.one((0, 1, -1)))]
            )
        setattr(options, field, numbers)


@mutation
def drop_options(opened: Opened) -> None:
    """An operator without its options."""
    _, operator = opened.operator()
    operator.builtinOptions, operator.builtinOptionsType = None, 0


@mutation
def change_custom_options(opened: Opened) -> None:
    """A byte of a custom operator's options."""
    _, operator = opened.operator()
    data = operator.customOptions
    if data is None or not len(data):
        raise UnfitError
    changed = np.array(data, np.uint8)
    changed[int(opened.one(range(len(changed))))] = int(opened.random.integers(256))
    operator.customOptions = changed


@mutation
def change_custom_setting(opened: Opened) -> None:
    """A setting of a custom operator whose options are a map."""
    _, operator = opened.operator()
    data = operator.customOptions
    if data is None or not len(data):
        raise UnfitError
    try:
        settings = flexbuffers.Loads(bytes(np.asarray(data, np.uint8)))
    except (struct.error, LookupError, ValueError, TypeError, AttributeError):
        raise UnfitError from None
    if not isinstance(settings, dict):
        raise UnfitError
    key = opened.one(sorted(settings))
    value = settings[key]
    if isinstance(value, bool):
        settings[key] = not value
    elif isinstance(value, int):
        settings[key] = opened.number(value)
    elif isinstance(value, float):
        settings[key] = float(opened.one((*SCALES, value * 2, -value)))
    else:
        del settings[key]
    operator.customOptions = np.frombuffer(bytes(flexbuffers.Dumps(settings)), np.uint8)


@mutation
def change_operator(opened: Opened) -> None:
    """An operator becomes another one, with the options that it had."""
    _, operator = opened.operator()
    _become(opened, operator, int(opened.one(OPERATORS)))


@mutation
def change_code(opened: Opened) -> None:
    """All operators of one kind become those of another that the model has."""
    _, operator = opened.operator()
    operator.opcodeIndex = int(opened.random.integers(len(opened.model.operatorCodes)))


@mutation
def move_operator(opened: Opened) -> None:
    """Operators in another order: one at another place, twice, or not at all."""
    graph, operator = opened.operator()
    way = opened.random.integers(3)
    if way != 1:
        graph.operators.remove(operator)
    if way != 2:
        again = copy.copy(operator) if way == 1 else operator
        graph.operators.insert(int(opened.random.integers(len(graph.operators) + 1)), again)


ALIKE = (
    ("ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "GELU", "HARD_SWISH", "LEAKY_RELU", "LOG", "LOGISTIC", "LOG_SOFTMAX",
     "NEG", "RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "ROUND", "RSQRT", "SIGN", "SIN", "SOFTMAX", "SQRT",
     "SQUARE", "TANH"),
    ("ADD", "ATAN2", "DIV", "FLOOR_DIV", "FLOOR_MOD", "MAXIMUM", "MINIMUM", "MUL", "POW", "SQUARED_DIFFERENCE", "SUB"),
    ("EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL"),
    ("MEAN", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "SUM"),
    ("AVERAGE_POOL_2D", "L2_POOL_2D", "MAX_POOL_2D"),
    ("ARG_MAX", "ARG_MIN"),
    ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"),
    ("LOGICAL_AND", "LOGICAL_OR"),
    ("SPACE_TO_DEPTH", "DEPTH_TO_SPACE"),
)  # fmt: skip
"""Operators that can stand in each other's place."""


@mutation
def change_for_alike(opened: Opened) -> None:
    """An operator becomes one that takes and gives the same."""
    _, operator = opened.operator()
    code = opened.model.operatorCodes[operator.opcodeIndex]
    number = max(code.builtinCode, code.deprecatedBuiltinCode)
    alike = opened.one([group for group in ALIKE if number in _numbers(group)])
    _become(opened, operator, int(opened.one(_numbers(alike))))


@mutation
def insert_operator(opened: Opened) -> None:
    """One more operator of a tensor, which some or all of those that read it read instead."""
    graph, before = opened.operator()
    index = opened.one([each for each in _list(before.outputs) if 0 <= each < len(graph.tensors)])
    made = copy.deepcopy(graph.tensors[index])
    made.name = f"inserted{len(graph.tensors)}".encode()
    graph.tensors.append(made)
    added = schema.OperatorT(inputs=[index], outputs=[len(graph.tensors) - 1])
    _become(opened, added, int(opened.one(_numbers(ALIKE[0]))))
    place = graph.operators.index(before) + 1
    for operator in graph.operators[place:]:
        if opened.random.random() < 0.7:
            operator.inputs = [added.outputs[0] if each == index else each for each in _list(operator.inputs)]
    graph.operators.insert(place, added)
    if index in _list(graph.outputs):
        graph.outputs = [added.outputs[0] if each == index else each for each in _list(graph.outputs)]


@mutation
def rewire(opened: Opened) -> None:
    """An operator reads another tensor of the same type and shape."""
    graph, operator = opened.operator()
    inputs = _list(operator.inputs)
    place = opened.one([place for place, index in enumerate(inputs) if 0 <= index < len(graph.tensors)])
    old = graph.tensors[inputs[place]]
    inputs[place] = opened.one(
        [
            index
            for index, each in enumerate(graph.tensors)
            if each is not old and each.type == old.type and _list(each.shape) == _list(old.shape)
        ]
    )
    operator.inputs = inputs


def _numbers(names: tuple[str, ...]) -> list[int]:
    return [int(getattr(schema.BuiltinOperator, name)) for name in names]


def _become(opened: Opened, operator: Any, number: int) -> None:
    """Give an operator the code of a built-in one."""
    opened.model.operatorCodes.append(
        schema.OperatorCodeT(deprecatedBuiltinCode=min(number, 127), builtinCode=number, version=1)
    )
    operator.opcodeIndex = len(opened.model.operatorCodes) - 1


# -- graphs --------------------------------------------------------------------------------------------------------


@mutation
def change_ends(opened: Opened) -> None:
    """Inputs and outputs of a subgraph: one more, one fewer, one twice."""
    graph = opened.graph()
    field = opened.one(("inputs", "outputs"))
    ends = _list(getattr(graph, field))
    way = opened.random.integers(3)
    if way == 0:
        ends.append(opened.index(graph))
    elif way == 1 and ends:
        del ends[int(opened.one(range(len(ends))))]
    elif ends:
        ends.append(opened.one(ends))
    setattr(graph, field, ends)


@mutation
def show_inside(opened: Opened) -> None:
    """Every tensor between becomes an output as well."""
    graph = opened.model.subgraphs[0]
    written = [index for operator in graph.operators or [] for index in _list(operator.outputs) if index >= 0]
    graph.outputs = list(dict.fromkeys([*_list(graph.outputs), *written[:16]]))


@mutation
def change_signature(opened: Opened) -> None:
    """The names and tensors of a signature."""
    signature = opened.one(opened.model.signatureDefs or [])
    ports = opened.one([each for each in (signature.inputs, signature.outputs) if each] or [[]])
    port = opened.one(ports)
    if opened.random.random() < 0.5:
        port.name = opened.one(("", "x", "é", opened.one(ports).name))
    else:
        port.tensorIndex = opened.index(opened.model.subgraphs[0])


@mutation
def drop_subgraph(opened: Opened) -> None:
    """A subgraph fewer, or one twice."""
    graphs = opened.model.subgraphs
    if len(graphs) > 1 and opened.random.random() < 0.5:
        graphs.pop()
    else:
        graphs.append(opened.one(graphs))


def _list(numbers: Any) -> list[int]:
    return [] if numbers is None else [int(each) for each in numbers]


def _int32(number: int) -> int:
    return max(min(number, (1 << 31) - 1), -(1 << 31))
