"""A model in pieces is the model at once."""

import random

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from layoutsolve.emit import pieces, streamed_proto
from layoutsolve.errors import OutputError


def model(seed: int) -> onnx.ModelProto:
    """Some nodes, with constants of sizes around those at which a length takes one byte more."""
    random.seed(seed)
    sizes = random.choices([0, 1, 100, 110, 120, 127, 128, 16_370, 16_384, 70_000], k=seed)
    constants = [numpy_helper.from_array(np.zeros(size, np.uint8), f"constant{size}") for size in sizes]
    for constant in constants[::2]:
        constant.doc_string = "what stands behind the elements"
    nodes = [helper.make_node("Identity", [f"n{place}"], [f"n{place + 1}"], n=[place]) for place in range(40 * seed)]
    ports = [helper.make_tensor_value_info(name, 1, [2, "n"]) for name in ("n0", "n1")]
    graph = helper.make_graph(
        nodes, "g" * seed, ports[:1], ports[1:], constants, value_info=ports if seed % 2 else None
    )
    made = helper.make_model(graph, producer_name="p" * seed, opset_imports=[helper.make_opsetid("", 18)] * seed)
    helper.set_model_props(made, {str(number): "v" for number in range(seed)})
    return made


@pytest.mark.parametrize("seed", range(12))
def test_pieces(seed: int) -> None:
    made = model(seed)
    found = list(pieces(made))
    assert b"".join(found) == made.SerializeToString(deterministic=True)


def test_more_than_a_message_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    made = model(3)
    size = len(made.graph.SerializeToString())
    monkeypatch.setattr(streamed_proto, "MOST", size)
    assert b"".join(pieces(made))
    monkeypatch.setattr(streamed_proto, "MOST", size - 1)
    with pytest.raises(OutputError, match=f"the {size} bytes"):
        list(pieces(made))
