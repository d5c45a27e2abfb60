"""Products with Transposes in front that ONNX Runtime does not execute: its own optimised graph has as many as the
price says.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import layoutsolve
from layoutsolve.measurement.executed_operators import executed
from layoutsolve.verification.runtimes import LEVELS, OnnxRuntime, optimised
from tests.random_onnx import Writer


def attention(seed: int) -> onnx.ModelProto:
    """Queries, keys and values that come in parts of one tensor, in one of the orders that networks have them in: rows
    and columns of each as they are, or the other way round.
    """
    writer = Writer(seed)
    count, length, size = (int(writer.random.choice(sizes)) for sizes in ((2, 3), (5, 7), (4, 8)))
    parts = []
    for keeps in writer.random.integers(2, size=3):
        shape = (2, count, *((length, size) if keeps else (size, length)))
        part = writer.op("Tanh", writer.input(*shape), shape=shape)
        parts.append(part if keeps else writer.transpose(part, (0, 1, 3, 2)))
    query, key, value = parts
    scores = writer.op("MatMul", query, writer.transpose(key, (0, 1, 3, 2)), shape=(2, count, length, length))
    weights = writer.op("Softmax", scores, shape=(2, count, length, length), axis=-1)
    return writer.model(writer.op("MatMul", weights, value, shape=(2, count, length, size)))


def given(model: onnx.ModelProto, seed: int) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    random = np.random.default_rng(seed)
    sizes = {port.name: [dim.dim_value for dim in port.type.tensor_type.shape.dim] for port in model.graph.input}
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in sizes.items()}


@pytest.mark.parametrize("seed", range(16))
def test_what_is_priced_is_executed(seed: int) -> None:
    """No Transpose, as in the source, and the same results at all levels."""
    source = attention(seed)
    conversion = layoutsolve.convert(source)
    own, before = (executed(optimised(each.SerializeToString())).transposes for each in (conversion.model, source))
    assert own == before == conversion.price.transposes + conversion.price.hidden == 0
    feeds = given(source, seed)
    truth = OnnxRuntime(source.SerializeToString(), level="none").run(feeds)
    for level in LEVELS:
        results = OnnxRuntime(conversion.model.SerializeToString(), level=level).run(feeds)
        for result, expected in zip(results, truth, strict=True):
            np.testing.assert_allclose(result, expected, atol=1e-5)


def test_where_transposes_count_by_themselves() -> None:
    """Nothing is taken off them, nor for runtimes of which that is not known."""
    for seed in range(3):
        assert layoutsolve.convert(attention(seed), objective="min-transpose").price.hidden >= 0
        assert layoutsolve.convert(attention(seed), target="portable").price.hidden >= 0
