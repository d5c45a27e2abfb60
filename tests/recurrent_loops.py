"""Recurrent networks as converters write them: a loop over their steps, which fills in a list of what they give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from layoutsolve.ir.graph import Array
from tests.builder import TYPES, Builder, Part, Quant

CELLS = ("GRU", "LSTM", "RNN")
GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}

OTHER_GATE, HARD_GATES = "other gate", "hard gates"

ODD = (
    "masked", "stopped early", "listed twice", "list is read", "starts later", "list is longer", "gate is given",
    "counter is given", "part is read", "handed twice", "shared", "two at once", OTHER_GATE, HARD_GATES,
)  # fmt: skip
"""What makes a loop more than the steps of a cell."""

ONLY = {OTHER_GATE: ("GRU",), HARD_GATES: ("GRU", "LSTM")}
"""What only cells of some kinds can have."""


@dataclass(eq=False)
class Network:
    """A random network of one of :data:`CELLS`, and what is ``odd`` about its loop. ``sizes`` are its batch, steps,
    features and units. Its body runs in as many ``loops``. With ``flex`` the list is one of TensorFlow's, by the
    operators that a converter leaves to it; then the batch may be ``loose``, and the states begin with numbers that
    fill as many rows.
    """

    op: str
    seed: int
    odd: str = ""
    hybrid: bool = False
    sizes: Sequence[int] = ()
    loops: int = 1
    flex: bool = False
    loose: bool = False
    part: Part = field(init=False)

    def __post_init__(self) -> None:
        self.random = random = np.random.default_rng(self.seed)
        sizes = [int(random.choice(some)) for some in ((1, 3), (1, 2, 6), (2, 5), (1, 4))]
        self.batch, self.steps, self.features, self.units = self.sizes or sizes
        if self.odd:
            self.steps, self.batch = 6, 3
        self.last_only = self.odd == "" and random.random() < 0.25
        self.before_reset, self.separate = random.random() < 0.5, random.random() < 0.3
        self.activation = str(random.choice(["TANH", "RELU"]))
        self.builder = Builder()

    # -- small parts -----------------------------------------------------------------------------------------------

    def write(
        self, op: str, inputs: Sequence[int], shape: Sequence[int], dtype: str = "float32", **options: object
    ) -> int:
        signature = [-1, *shape[1:]] if op in ("SLICE", "CONCATENATION") and len(shape) == 3 else None
        result = self.part.tensor(f"t{len(self.part.subgraph.tensors)}", shape, dtype, signature=signature)
        self.part.operator(op, inputs, [result], options)
        return result

    def constant(self, data: Array, dtype: str | None = None, quant: Quant | None = None) -> int:
        return self.part.constant(f"c{len(self.part.subgraph.tensors)}", data, dtype, quant)

    def numbers(self, *numbers: int) -> int:
        return self.constant(np.array(numbers, np.int32))

    def either(self, op: str, one: int, other: int) -> int:
        """An operator on two, either way round."""
        inputs = [one, other] if self.random.random() < 0.5 else [other, one]
        return self.write(op, inputs, (self.batch, self.units))

    def unary(self, op: str, x: int) -> int:
        return self.write(op, [x], (self.batch, self.units))

    def opened(self, x: int) -> int:
        """A gate: a sigmoid, or a hard one as it is written out."""
        if self.odd != HARD_GATES:
            return self.unary("LOGISTIC", x)
        shape, three = (self.batch, self.units), self.constant(np.array(3, np.float32))
        ramp = self.write("ADD", [x, three], shape, fused_activation_function="RELU6")
        return self.write("MUL", [ramp, self.constant(np.array(1 / 6, np.float32))], shape)

    def dense(self, x: int, features: int, units: int, bias: bool) -> int:
        weights = (self.random.normal(size=(units, features)) / max(2, features**0.5)).astype(np.float32)
        quant = Quant([float(np.abs(weights).max()) / 127], [0]) if self.hybrid else None
        if quant is not None:
            weights = np.rint(weights / quant.scale[0]).astype(np.int8)
        stored = self.constant(weights, "int8" if self.hybrid else None, quant)
        biases = self.constant(self.random.normal(size=units).astype(np.float32)) if bias else -1
        shape = (self.rows(x), units)
        return self.write("FULLY_CONNECTED", [x, stored, biases], shape, asymmetric_quantize_inputs=True)

    def rows(self, x: int) -> int:
        return int(self.part.subgraph.tensors[x].shape[0])

    def parts(self, x: int, features: int, count: int, bias: bool) -> list[int]:
        """A product for each gate, or parts of one."""
        if self.separate:
            return [self.dense(x, features, self.units, bias) for _ in range(count)]
        whole = self.dense(x, features, count * self.units, bias)
        shape = (self.rows(x), self.units)
        if count > 1 and self.random.random() < 0.5:
            results = [self.part.tensor(f"p{at}_{len(self.part.subgraph.tensors)}", shape) for at in range(count)]
            self.part.operator("SPLIT", [self.numbers(1), whole], results, {"num_splits": count})
            return results
        size = self.numbers(-1 if self.loose else shape[0], shape[1])
        return [self.write("SLICE", [whole, self.numbers(0, at * self.units), size], shape) for at in range(count)]

    # -- cells -----------------------------------------------------------------------------------------------------

    def gates(self, x: int, h: int) -> list[int]:
        """The sums of all gates, with their biases on one side or both, or added by themselves."""
        count, alone = GATES[self.op], self.random.random() < 0.3
        sides = [
            self.parts(each, size, count, not alone and bool(self.random.integers(2) or each == x))
            for each, size in ((x, self.features), (h, self.units))
        ]
        sums = [self.either("ADD", one, other) for one, other in zip(*sides, strict=True)]
        if alone:
            biases = [self.constant(self.random.normal(size=self.units).astype(np.float32)) for _ in sums]
            sums = [
                self.write("ADD", [each, bias], (self.batch, self.units))
                for each, bias in zip(sums, biases, strict=True)
            ]
        return sums

    def cell(self, x: int, states: Sequence[int]) -> list[int]:
        """The states after a step."""
        h = states[0]
        if self.op == "RNN":
            return [self.unary(self.activation, self.gates(x, h)[0])]
        if self.op == "LSTM":
            i, f, g, o = self.gates(x, h)
            i, f, o = (self.opened(each) for each in (i, f, o))
            c = self.either(
                "ADD", self.either("MUL", f, states[1]), self.either("MUL", i, self.unary(self.activation, g))
            )
            return [self.either("MUL", o, self.unary("TANH", c)), c]
        return [self.gated(x, h)]

    def gated(self, x: int, h: int) -> int:
        xs = self.parts(x, self.features, 3, True)
        hs = self.parts(h, self.units, 2 if self.before_reset else 3, bool(self.random.integers(2)))
        z, r = (self.opened(self.either("ADD", xs[at], hs[at])) for at in range(2))
        if self.before_reset:
            kept = self.dense(self.either("MUL", r, h), self.units, self.units, bool(self.random.integers(2)))
        else:
            kept = self.either("MUL", r, hs[2])
        n = self.unary(self.activation, self.either("ADD", xs[2], kept))
        rest = self.write(
            "SUB",
            [self.constant(np.array(1, np.float32)), r if self.odd == OTHER_GATE else z],
            (self.batch, self.units),
        )
        return self.either("ADD", self.either("MUL", z, h), self.either("MUL", rest, n))

    # -- loops -----------------------------------------------------------------------------------------------------

    def model(self) -> tuple[bytes, list[Array]]:
        """The model, and data for its inputs."""
        shape, random = (self.batch, self.units), self.random
        self.read = 1 if self.odd == "shared" else self.batch
        given = [random.normal(size=(self.steps, self.read, self.features)).astype(np.float32)]
        self.part = builder = self.builder
        x = builder.input("x", given[0].shape, signature=[self.steps, -1, self.features] if self.loose else None)
        count = self.steps + (self.odd == "list is longer")
        length = 1 if self.last_only else count
        listed = self._reserved(length, shape) if self.flex else self.constant(np.zeros((length, *shape), np.float32))
        states = list[int]()
        for number in range(2 if self.op == "LSTM" else 1):
            if self.loose:
                states.append(self._rows(x, float(random.integers(2))))
                continue
            kind = random.integers(3)
            data = (random.normal(size=shape) * (kind > 0)).astype(np.float32)
            if kind == 2:
                given.append(data)
            states.append(builder.input(f"state{number}", shape) if kind == 2 else self.constant(data))
        first, lists = int(self.odd == "starts later"), list[int]()
        other = [listed] if self.odd == "handed twice" else []
        inputs = [self.numbers(first), self.constant(np.array(first, np.int32)), listed, x, *states, *other]
        for number in range(self.loops):
            ports = enumerate(inputs)
            results = [builder.tensor(f"out{number}_{at}", self._shape(each), self._dtype(each)) for at, each in ports]
            builder.operator("WHILE", inputs, results, {"cond_subgraph_index": 1, "body_subgraph_index": 2})
            lists.append(results[2])
        described = [(self._shape(each), self._dtype(each)) for each in inputs]
        self._subgraph(self._more, described)
        self._subgraph(self._turn, described)
        self.part = builder
        if self.flex:
            sizes = self.numbers(*shape)
            lists = [self.write("CUSTOM:FlexTensorListStack", [each, sizes], (length, *shape)) for each in lists]
        ends = [*lists, *(end for end in results[4:] if random.random() < 0.5)]
        ends += [results[0]] if self.odd == "counter is given" else []
        ends += [results[-1]] if other and results[-1] not in ends else []
        return builder.finish(*ends), given

    def _rows(self, x: int, number: float) -> int:
        """A state of one number, of as many rows as the data have."""
        sizes, axis = self.write("SHAPE", [x], (3,), "int32"), self.constant(np.array(1, np.int32))
        rows = self.write("GATHER", [sizes, axis], (), "int32")
        shape = self.write("PACK", [rows, self.constant(np.array(self.units, np.int32))], (2,), "int32", values_count=2)
        value = self.constant(np.array(number, np.float32))
        return self.write("FILL", [shape, value], (self.batch, self.units))

    def _reserved(self, length: int, shape: Sequence[int]) -> int:
        """A list of TensorFlow, as it begins."""
        inputs = [self.numbers(*shape), self.constant(np.array(length, np.int32))]
        return self.write("CUSTOM:FlexTensorListReserve", inputs, (), "variant")

    def _shape(self, tensor: int) -> Sequence[int]:
        return list(self.builder.subgraph.tensors[tensor].shape)

    def _dtype(self, tensor: int) -> str:
        return next(name for name, code in TYPES.items() if code == self.builder.subgraph.tensors[tensor].type)

    def _subgraph(
        self, write: Callable[[list[int]], list[int]], described: Sequence[tuple[Sequence[int], str]]
    ) -> None:
        self.part = self.builder.part()
        given = [self.part.input(f"given{at}", shape, dtype) for at, (shape, dtype) in enumerate(described)]
        self.part.outputs(*write(given))

    def _more(self, given: list[int]) -> list[int]:
        """Whether there is another turn: as converters write it, by two numbers."""
        steps = self.steps - (self.odd == "stopped early")
        limit = self.constant(np.array(steps, np.int32))
        one = self.write("LESS", [given[0], limit], (1,), "bool")
        other = self.write("GREATER", [limit, given[1]], (), "bool")
        if self.random.random() < 0.3:
            return [one]
        return [self.write("LOGICAL_AND", [one, other], (1,), "bool")]

    def _turn(self, given: list[int]) -> list[int]:
        turn, number, listed, x, *states = given
        other = [states.pop()] if self.odd == "handed twice" else []
        one = self.constant(np.array(1, np.int32))
        following = [self.write("ADD", [turn, one], (1,), "int32"), self.write("ADD", [number, one], (), "int32")]
        step = self.write("GATHER", [x, number], (self.read, self.features), axis=0)
        after = self.cell(step, states)
        if self.odd == "masked":
            truth = self.write(
                "GREATER", [after[0], self.constant(np.array(0.1, np.float32))], (self.batch, self.units), "bool"
            )
            after = [
                self.write("SELECT", [truth, each, state], (self.batch, self.units))
                for each, state in zip(after, states, strict=True)
            ]
        if self.odd == "list is read":
            after[0] = self.either(
                "ADD", after[0], self.write("GATHER", [listed, number], (self.batch, self.units), axis=0)
            )
        element = after[0]
        if self.odd == "gate is given":
            element = self.write("ADD", [element, self.constant(np.array(1, np.float32))], (self.batch, self.units))
        if self.flex:
            place = self.constant(np.array(0, np.int32)) if self.last_only else number
            filled = self.write("CUSTOM:FlexTensorListSetItem", [listed, place, element], (), "variant")
            return [*following, filled, x, *after]
        before, filled = self._filled(listed, turn, following[0], element)
        if self.odd == "part is read":
            sum_ = self.write("SUM", [before, self.numbers(0)], (self.batch, self.units), keep_dims=False)
            after[0] = self.either("ADD", after[0], sum_)
        return [*following, filled, x, *after, *(filled for _ in other)]

    def _filled(self, listed: int, turn: int, following: int, element: int) -> tuple[int, int]:
        """What is before another element in the list, and the list with it."""
        shape = (self.batch, self.units)
        element = self.write("RESHAPE", [element, self.numbers(1, *shape)], (1, *shape), new_shape=(1, *shape))
        if self.last_only:
            return element, element
        count = self._length(listed)
        size = self.write("CONCATENATION", [turn, self.numbers(-1, -1)], (3,), "int32", axis=0)
        before = self.write("SLICE", [listed, self.numbers(0, 0, 0), size], (count, *shape))
        begin = self.write("CONCATENATION", [following, self.numbers(0, 0)], (3,), "int32", axis=0)
        after = self.write("SLICE", [listed, begin, self.numbers(-1, -1, -1)], (count, *shape))
        parts = [before, element, after]
        if self.odd == "two at once":
            parts = [before, element, element, after]
        whole = self.write("CONCATENATION", parts, (count, *shape), axis=0)
        if self.odd == "listed twice":
            whole = self.write("ADD", [whole, whole], (count, *shape))
        return before, whole

    def _length(self, listed: int) -> int:
        return int(self.part.subgraph.tensors[listed].shape[0])
