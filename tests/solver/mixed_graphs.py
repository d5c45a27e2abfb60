"""Random small graphs of operators whose rows cost differently, between views that tear dimensions apart.

Other graphs for comparing solvers (:mod:`tests.solver.random_graphs`) are networks of few kinds of layers. Here layers
follow each other at random: what is fast along one axis meets what is fast along another, and Transposes of the source
ask for orders that nothing else does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from layoutsolve.ir.graph import Graph, Quant
from tests.graphs import GraphBuilder

Shape = tuple[int, ...]

LARGEST = 3000
"""The most elements of a tensor that is made larger."""

REDUCTIONS = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare", "ReduceL2")


class Mixed:
    """A graph in the making. Each layer adds what it writes to the pool, or nothing where it does not fit."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.builder = GraphBuilder(seed)
        self.quant = Quant(np.array([0.5], np.float32), np.zeros(1, np.int8)) if self.chance(0.15) else None
        self.dtype = "float32" if self.quant is None else "int8"
        self.pool: list[str] = []

    def chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def among(self, *choices: int) -> int:
        return int(self.random.choice(choices))

    def shape(self, name: str) -> Shape:
        return tuple(int(str(dim)) for dim in self.builder.shape(name))

    def write(self, op: str, *inputs: str, shape: Shape, **attributes: object) -> None:
        self.pool.append(self.builder.op(op, *inputs, shape=shape, dtype=self.dtype, quant=self.quant, **attributes))

    def read(self) -> str:
        """One of the last tensors, mostly."""
        pool = self.pool[-4:] if self.chance(0.7) else self.pool
        return pool[int(self.random.integers(len(pool)))]

    def axis(self, shape: Shape) -> int:
        return int(self.random.integers(len(shape)))

    def weights(self, *shape: int) -> str:
        if self.quant is None:
            return self.builder.weights(*shape)
        return self.builder.constant(self.random.integers(-9, 9, shape), "int8", self.quant)

    def vector(self, *numbers: int) -> str:
        return self.builder.constant(list(numbers), "int64")

    def add_input(self) -> None:
        rank = self.among(2, 3, 3, 4, 4, 4)
        shape = tuple(self.among(2, 3, 4, 6) for _ in range(rank))
        shape = (1, *shape[1:]) if rank > 2 and self.chance(0.6) else shape
        self.pool.append(self.builder.input(*shape, dtype=self.dtype, quant=self.quant))

    def window(self) -> None:
        x = self.read()
        shape = self.shape(x)
        if len(shape) != 4 or min(shape[1:3]) < 2 or prod(shape) > LARGEST:
            return
        n, h, w, c = shape
        around = self.builder.transpose(x, 0, 3, 1, 2, pattern=True)
        kind = self.among(0, 0, 1, 2, 3)
        if kind == 3:
            self.write("MaxPool", around, shape=(n, c, h, w), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        else:
            kernel, group = ((1, 3, 3)[kind], c if kind == 2 else 1)
            channels = c if kind == 2 else self.among(2, 4, 6)
            weights = self.weights(channels, c // group, kernel, kernel)
            pads = [kernel // 2] * 4
            self.write("Conv", around, weights, shape=(n, channels, h, w), group=group, pads=pads)
        self.pool.append(self.builder.transpose(self.pool.pop(), 0, 2, 3, 1, pattern=True))

    def dense(self) -> None:
        x = self.read()
        shape = self.shape(x)
        if len(shape) == 2 and prod(shape) <= LARGEST:
            units = self.among(2, 4, 6)
            self.write("Gemm", x, self.weights(units, shape[1]), shape=(shape[0], units), transB=1)

    def product(self) -> None:
        x = self.read()
        shape = self.shape(x)
        if not 2 < len(shape) < 5:
            return
        swap = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
        fitting = [y for y in self.pool if len(self.shape(y)) == len(shape) and self.shape(y)[:-2] == shape[:-2]]
        pairs = [
            (y, turned)
            for y in fitting
            for turned in (False, True)
            if self.shape(y)[-1 if turned else -2] == shape[-1] and self.shape(y)[-2 if turned else -1] < 13
        ]
        if not pairs:
            return
        y, turned = pairs[int(self.random.integers(len(pairs)))]
        y = self.builder.transpose(y, *swap) if turned else y
        self.write("MatMul", x, y, shape=(*shape[:-1], self.shape(y)[-1]))

    def unary(self) -> None:
        x = self.read()
        self.write("Relu", x, shape=self.shape(x))

    def binary(self) -> None:
        x = self.read()
        shape = self.shape(x)
        others = [
            y
            for y in self.pool
            if y != x
            and len(self.shape(y)) <= len(shape)
            and all(dim in (1, full) for dim, full in zip(self.shape(y)[::-1], shape[::-1], strict=False))
        ]
        if self.chance(0.15):
            others = [self.weights(shape[-1])]
        if others:
            self.write("Add", x, others[int(self.random.integers(len(others)))], shape=shape)

    def transpose(self) -> None:
        x = self.read()
        if len(self.shape(x)) > 1:
            self.pool.append(self.builder.transpose(x, *self.random.permutation(len(self.shape(x))).tolist()))

    def reshape(self) -> None:
        x = self.read()
        shape = list(self.shape(x))
        for _ in range(self.among(1, 1, 2)):
            if self.chance(0.5) and len(shape) > 1:
                first = int(self.random.integers(len(shape) - 1))
                shape[first : first + 2] = [shape[first] * shape[first + 1]]
            else:
                cuts = [(at, by) for at, dim in enumerate(shape) for by in (1, 2, 3) if dim % by == 0 and dim > by]
                if cuts and len(shape) < 5:
                    at, by = cuts[int(self.random.integers(len(cuts)))]
                    shape[at : at + 1] = [by, shape[at] // by][:: self.among(1, -1)]
        if shape != list(self.shape(x)):
            self.pool.append(self.builder.reshape(x, *shape))

    def concat(self) -> None:
        x = self.read()
        shape = self.shape(x)
        axis = self.axis(shape)
        alike = [y for y in self.pool if self._but(self.shape(y), axis) == self._but(shape, axis)]
        names = [x, *(alike[int(self.random.integers(len(alike)))] for _ in range(self.among(1, 1, 2)))]
        total = sum(self.shape(name)[axis] for name in names)
        if prod(shape) // shape[axis] * total <= LARGEST:
            self.write("Concat", *names, shape=(*shape[:axis], total, *shape[axis + 1 :]), axis=axis)

    @staticmethod
    def _but(shape: Shape, axis: int) -> tuple[int, ...]:
        """A shape without the size of an axis; never that of one with fewer axes."""
        return tuple(-1 if each == axis else dim for each, dim in enumerate(shape))

    def split(self) -> None:
        x = self.read()
        shape = self.shape(x)
        axis = self.axis(shape)
        if shape[axis] % 2 == 0 and self.quant is None:
            half = (*shape[:axis], shape[axis] // 2, *shape[axis + 1 :])
            sizes = self.vector(half[axis], half[axis])
            self.pool += self.builder.many("Split", x, sizes, shapes=[half] * 2, axis=axis)

    def reduce(self) -> None:
        x = self.read()
        shape = self.shape(x)
        if len(shape) < 2:
            return
        count = int(self.random.integers(1, len(shape)))
        axes = sorted(self.random.choice(len(shape), count, replace=False).tolist())
        keep = self.chance(0.5)
        left = tuple(1 if axis in axes else dim for axis, dim in enumerate(shape) if keep or axis not in axes)
        op = REDUCTIONS[int(self.random.integers(len(REDUCTIONS)))]
        self.write(op, x, self.vector(*axes), shape=left, keepdims=int(keep))

    def softmax(self) -> None:
        x = self.read()
        shape = self.shape(x)
        self.write("Softmax", x, shape=shape, axis=len(shape) - 1 if self.chance(0.7) else self.axis(shape))

    def cumsum(self) -> None:
        x = self.read()
        shape = self.shape(x)
        self.write("CumSum", x, self.builder.constant(self.axis(shape), "int64"), shape=shape)

    def gather(self) -> None:
        x = self.read()
        shape = self.shape(x)
        axis = self.axis(shape)
        picked = self.random.integers(shape[axis], size=self.among(1, 2, 4)).tolist()
        if prod(shape) // shape[axis] * len(picked) <= LARGEST:
            self.write(
                "Gather", x, self.vector(*picked), shape=(*shape[:axis], len(picked), *shape[axis + 1 :]), axis=axis
            )

    def normalise(self) -> None:
        x = self.read()
        shape = self.shape(x)
        if shape[-1] > 1 and self.quant is None:
            self.write("LayerNormalization", x, self.weights(shape[-1]), shape=shape, axis=-1)

    def pad(self) -> None:
        x = self.read()
        shape = self.shape(x)
        axis = self.axis(shape)
        if prod(shape) <= LARGEST:
            widths = [int(each == axis) for each in range(len(shape))]
            padded = tuple(dim + 2 * width for dim, width in zip(shape, widths, strict=True))
            self.write("Pad", x, self.vector(*widths, *widths), shape=padded)

    def resize(self) -> None:
        x = self.read()
        shape = self.shape(x)
        if len(shape) == 4 and prod(shape) <= LARGEST:
            larger = (shape[0], 2 * shape[1], 2 * shape[2], shape[3])
            mode = "nearest" if self.chance(0.5) else "linear"
            self.write("Resize", x, "", "", self.vector(*larger), shape=larger, mode=mode)

    def graph(self, layers: int) -> Graph:
        for _ in range(self.among(1, 1, 2)):
            self.add_input()
        makers: list[Callable[[], None]] = [
            *(self.window, self.window, self.dense, self.product, self.unary, self.binary, self.binary),
            *(self.transpose, self.transpose, self.transpose, self.reshape, self.reshape, self.concat, self.split),
            *(self.reduce, self.reduce, self.softmax, self.softmax, self.cumsum, self.normalise, self.pad, self.resize),
            *(self.gather, self.gather),
        ]
        return self.made(makers, layers)

    def made(self, makers: Sequence[Callable[[], None]], layers: int) -> Graph:
        """The graph with so many layers more, each by one of the makers that fits."""
        for _ in range(layers):
            before = len(self.pool)
            for _ in range(20):
                makers[int(self.random.integers(len(makers)))]()
                if len(self.pool) > before:
                    break
        return self.builder.graph(*self._outputs())

    def _outputs(self) -> list[str]:
        """Every tensor that nothing reads, and sometimes one more."""
        used = {name for node in self.builder.nodes for name in node.inputs}
        written = [name for node in self.builder.nodes for name in node.outputs]
        outputs = [name for name in written if name not in used]
        others = [name for name in written if name in used]
        if others and self.chance(0.3):
            outputs.append(others[int(self.random.integers(len(others)))])
        return outputs


def mixed_graph(seed: int) -> Graph:
    """A graph of three to ten layers."""
    made = Mixed(seed)
    return made.graph(int(made.random.integers(3, 11)))
