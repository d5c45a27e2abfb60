"""Reading bytes that are no model, or hardly one: a ModelError or success, never anything else."""

from __future__ import annotations

import re
import struct
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutsolve.errors import ConversionError, ModelError
from layoutsolve.frontend import read
from layoutsolve.frontend.tflite.reading.reader import parse
from tests.builder import Builder
from tests.frontend.tflite.small_models import convolution

MODEL = convolution()


def survives(data: bytes) -> None:
    with suppress(ConversionError):
        read(data)


@pytest.mark.parametrize("data", [b"", b"TFL3", b"\0" * 64, b"\x08\0\0\0TFL3", b"\xff\xff\xff\xffTFL3" + b"\xff" * 64])
def test_garbage(data: bytes) -> None:
    with pytest.raises(ModelError):
        read(data)


def test_truncated_anywhere() -> None:
    for length in range(0, len(MODEL), 7):
        survives(MODEL[:length])


def test_what_is_no_model() -> None:
    with pytest.raises(ModelError, match="the model is neither a TensorFlow Lite nor an ONNX model"):
        read(b"x" * 1000)


def test_what_is_damaged_is_said_in_plain_words() -> None:
    """Wherever a model is cut off, none of what reads it speaks for itself."""
    for length in range(8, len(MODEL), 3):
        with suppress(ConversionError):
            try:
                read(MODEL[:length])
            except ModelError as error:
                assert not re.search(r"unpack|buffer of|Error|0x", str(error)), length
                raise


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(8, len(MODEL) - 1), st.integers(0, 255)), min_size=1, max_size=6))
def test_flipped_bytes(changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(MODEL)
    for position, byte in changes:
        damaged[position] = byte
    survives(bytes(damaged))


@settings(max_examples=200, deadline=None)
@given(
    st.integers(2, len(MODEL) // 4 - 1), st.sampled_from([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFF, 1 << 20])
)
def test_wild_offsets(position: int, number: int) -> None:
    damaged = bytearray(MODEL)
    struct.pack_into("<I", damaged, 4 * position, number)
    survives(bytes(damaged))


def test_every_word_flipped_once() -> None:
    for position in range(8, len(MODEL) - 4, 4):
        damaged = bytearray(MODEL)
        struct.pack_into("<I", damaged, position, struct.unpack_from("<I", damaged, position)[0] ^ 0x00010101)
        survives(bytes(damaged))


def test_contents() -> None:
    model = parse(memoryview(MODEL))
    (subgraph,) = model.subgraphs
    first = subgraph.operators[0]
    assert first.name == "CONV_2D"
    assert first.options["stride_h"] == 2
    assert first.options["dilation_w_factor"] == 1
    assert model.description == "built"


def test_constants_are_views() -> None:
    data = parse(MODEL).subgraphs[0].tensors[1].data
    assert data is not None
    assert np.shares_memory(data, np.frombuffer(MODEL, np.uint8))


def test_buffer_of_wrong_size() -> None:
    builder = Builder()
    x = builder.tensor("t0", (4,))
    constant = builder.tensor("t1", (5,), data=np.zeros(4, np.float32))
    y = builder.tensor("t2", (4,))
    builder.operator("ADD", [x, constant], [y])
    with pytest.raises(ModelError, match="needs 20 bytes, its buffer has 16"):
        read(builder.finish(y, inputs=[x]))


def test_read_before_written() -> None:
    builder = Builder()
    x, y, z = (builder.tensor("t0", (4,)) for _ in range(3))
    builder.operator("ABS", [y], [z])
    builder.operator("ABS", [x], [y])
    with pytest.raises(ModelError, match="before anything computes it"):
        read(builder.finish(z, inputs=[x]))


def test_written_twice() -> None:
    builder = Builder()
    x, y = builder.tensor("t0", (4,)), builder.tensor("t1", (4,))
    builder.operator("ABS", [x], [y])
    builder.operator("NEG", [x], [y])
    with pytest.raises(ModelError, match="has a source already"):
        read(builder.finish(y, inputs=[x]))


def test_tensor_out_of_range() -> None:
    builder = Builder()
    x, y = builder.tensor("t0", (4,)), builder.tensor("t1", (4,))
    builder.operator("ABS", [7], [y])
    with pytest.raises(ModelError, match="name tensor 7"):
        read(builder.finish(y, inputs=[x]))


def test_stated_shape_is_stale() -> None:
    """LiteRT computes it anew."""
    builder = Builder()
    x, y = builder.tensor("t0", (4, 4)), builder.tensor("wrong", (4, 5))
    builder.operator("ABS", [x], [y])
    graph = read(builder.finish(y, inputs=[x]))
    assert graph.values[graph.outputs[0]].shape == (4, 4)
