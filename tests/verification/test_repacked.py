"""Sources whose constants lie behind the flatbuffer are compared as those that have them inside."""

from __future__ import annotations

import numpy as np
import pytest

import layoutsolve
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.verification.dequantized_model import dequantized
from layoutsolve.verification.flatbuffer_repacking import opened, packed
from layoutsolve.verification.signature_model import exchanged, subgraph_of
from tests.random_models import network
from tests.truth import litert
from tests.verification.test_inputs import as_signature, with_subgraphs
from tests.verification.test_verify import contraction


def outside(source: bytes) -> bytes:
    """The same model with all constants behind the flatbuffer."""
    found = packed(opened(source), source)
    held = [buffer for buffer in opened(found).buffers if buffer.offset > 1]
    inside = [buffer for buffer in opened(source).buffers if buffer.data is not None and len(buffer.data)]
    assert len(held) == len(inside) and all(buffer.offset % 16 == 0 for buffer in held)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_packed_again_it_computes_the_same(seed: int) -> None:
    made = network(seed)
    once = outside(made.source)
    twice = packed(opened(once), once)
    for one in (once, twice):
        found = litert().run(one, made.feeds(1)).results
        for expected, actual in zip(litert().run(made.source, made.feeds(1)).results, found, strict=True):
            np.testing.assert_array_equal(expected, actual)
    for one, other in zip(parse(made.source).subgraphs, parse(twice).subgraphs, strict=True):
        for first, second in zip(one.tensors, other.tensors, strict=True):
            assert (first.data is None) == (second.data is None)
            assert first.data is None or np.array_equal(first.data, second.data)


def test_float_twin() -> None:
    """Weights of a dynamic-range model are dequantized from behind the flatbuffer, and lie there."""
    source = contraction("float32")
    one, other = dequantized(source), dequantized(outside(source))
    assert one is not None and other is not None
    data = [np.random.default_rng(0).normal(size=(40, 32)).astype(np.float32)]
    np.testing.assert_array_equal(litert().run(one, data).results[0], litert().run(other, data).results[0])
    found = layoutsolve.verify(outside(source), layoutsolve.convert(outside(source)))
    assert found.passed and found.outputs[0].rounded is not None


def test_signatures() -> None:
    """A subgraph that a signature names changes places with the main one, and constants stay where they are read."""
    made = network(with_subgraphs()[0])
    source = as_signature(made.source)
    assert any(buffer.offset > 1 for buffer in opened(source).buffers)
    again = exchanged(source, subgraph_of(source, "last"))
    expected = litert().run(made.source, made.feeds(1)).results
    for one, other in zip(expected, litert().run(again, made.feeds(1)).results, strict=True):
        np.testing.assert_array_equal(one, other)
    assert layoutsolve.verify(source, layoutsolve.convert(source, signature="last")).passed
