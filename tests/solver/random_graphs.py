"""Random small networks for comparing solvers: convolutions, elementwise operators, joins, views and reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from layoutsolve.ir.graph import Graph
from tests.graphs import GraphBuilder

Layer = Callable[[GraphBuilder, np.random.Generator, list[str]], str]


def _numbers(builder: GraphBuilder, name: str) -> tuple[int, ...]:
    return tuple(int(str(dim)) for dim in builder.shape(name))


def _pick(builder: GraphBuilder, random: np.random.Generator, pool: list[str], rank: int | None = None) -> str:
    fitting = [name for name in pool if rank is None or len(builder.shape(name)) == rank]
    return str(random.choice(fitting or pool))


def _conv(builder: GraphBuilder, random: np.random.Generator, pool: list[str]) -> str:
    x = _pick(builder, random, pool, 4)
    if len(builder.shape(x)) != 4:
        return builder.relu(x)
    channels = _numbers(builder, x)[3]
    group = 2 if channels % 2 == 0 and random.random() < 0.3 else 1
    kernel, dilation = (1, 1) if len(pool) % 3 == 0 else (3, 1 + len(pool) % 2)
    return builder.conv(x, int(random.choice([4, 6])), kernel, group, dilation)


def _unary(builder: GraphBuilder, random: np.random.Generator, pool: list[str]) -> str:
    return builder.relu(_pick(builder, random, pool))


def _add(builder: GraphBuilder, random: np.random.Generator, pool: list[str]) -> str:
    x = _pick(builder, random, pool)
    same = [name for name in pool if builder.shape(name) == builder.shape(x)]
    if random.random() < 0.3:
        return builder.add(x, builder.constant(random.normal(size=_numbers(builder, x)[-1])))
    return builder.add(x, str(random.choice(same)))


def _transpose(builder: GraphBuilder, random: np.random.Generator, pool: list[str]) -> str:
    x = _pick(builder, random, pool)
    return builder.transpose(x, *[int(axis) for axis in random.permutation(len(builder.shape(x)))])


def _reshape(builder: GraphBuilder, random: np.random.Generator, pool: list[str]) -> str:
    x = _pick(builder, random, pool)
    shape = _numbers(builder, x)
    if len(shape) > 2 and random.random() < 0.6:
        cut = int(random.integers(1, len(shape)))
        return builder.reshape(x, int(np.prod(shape[:cut])), int(np.prod(shape[cut:])))
    total = int(np.prod(shape))
    return builder.reshape(x, 1, 2, 2, total // 4) if total % 4 == 0 else builder.relu(x)


def _reduce(builder: GraphBuilder, random: np.random.Generator, pool: list[str]) -> str:
    x = _pick(builder, random, pool)
    shape = _numbers(builder, x)
    axis = int(random.integers(0, len(shape)))
    kept = [1 if index == axis else dim for index, dim in enumerate(shape)]
    return builder.op("ReduceMean", x, builder.constant([axis], "int64"), shape=kept, keepdims=1)


def _softmax(builder: GraphBuilder, random: np.random.Generator, pool: list[str]) -> str:
    x = _pick(builder, random, pool)
    return builder.op("Softmax", x, shape=builder.shape(x), axis=len(builder.shape(x)) - 1)


def _dense(builder: GraphBuilder, random: np.random.Generator, pool: list[str]) -> str:
    x = _pick(builder, random, pool, 2)
    return builder.dense(x, 8) if len(builder.shape(x)) == 2 else builder.relu(x)


def _concat(builder: GraphBuilder, random: np.random.Generator, pool: list[str]) -> str:
    x = _pick(builder, random, pool)
    shape = _numbers(builder, x)
    axis = int(random.integers(0, len(shape)))
    whole = [2 * dim if index == axis else dim for index, dim in enumerate(shape)]
    return builder.op("Concat", x, x, shape=whole, axis=axis)


def _loop(builder: GraphBuilder, random: np.random.Generator, pool: list[str]) -> str:
    """A loop of a few layers that keep the shape; it reads another tensor from around it."""
    x = _pick(builder, random, pool)
    other = _pick(builder, random, pool)

    def body(now: str) -> list[str]:
        inner = [now]
        for _ in range(int(random.integers(1, 3))):
            layer = [_unary, _add, _softmax, _conv][int(random.integers(0, 4))]
            fresh = layer(builder, random, [inner[-1]])
            inner.append(fresh if builder.shape(fresh) == builder.shape(x) else builder.relu(inner[-1]))
        if builder.shape(other) == builder.shape(x):
            inner.append(builder.add(inner[-1], other))
        return [inner[-1]]

    return builder.loop(2, body, x)[0]


def _branch(builder: GraphBuilder, random: np.random.Generator, pool: list[str]) -> str:
    x = _pick(builder, random, pool)
    condition = builder.constant(random.random() < 0.5, "bool")
    return builder.branch(condition, lambda: builder.relu(x), lambda: _softmax(builder, random, [x]))


LAYERS: list[Layer] = [_conv, _conv, _unary, _add, _transpose, _reshape, _reduce, _softmax, _dense, _concat]
CONTROL: list[Layer] = [*LAYERS, _loop, _branch]


def random_graph(seed: int, size: int, layers: Sequence[Layer] = LAYERS) -> Graph:
    """A network of about ``size`` operators; every tensor that nothing reads is an output."""
    random = np.random.default_rng(seed)
    builder = GraphBuilder(seed)
    pool = [builder.input(1, 4, 2, 4)]
    if random.random() < 0.3:
        pool.append(builder.input(1, 4, 2, 4))
    for _ in range(size):
        layer = layers[int(random.integers(0, len(layers)))]
        pool.append(layer(builder, random, pool[-3:]))
    read = {name for node in builder.nodes for name in node.inputs}
    outputs = [name for name in dict.fromkeys(pool) if name not in read and name not in builder.inputs]
    return builder.graph(*outputs[-3:])
