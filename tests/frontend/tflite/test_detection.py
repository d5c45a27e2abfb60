"""Suppression of boxes that ONNX cannot express, or that no kernel accepts."""

from __future__ import annotations

from typing import Any

import pytest

import layoutsolve
from layoutsolve.errors import ModelError, UnsupportedError
from tests.builder import Builder


def suppression(
    shape: tuple[int, ...] = (6, 4), most: Any = 3, overlap: Any = 0.5, score: Any = 0.1, sigma: Any = 0.0
) -> bytes:
    """A NON_MAX_SUPPRESSION_V5; None is a number that is computed."""
    builder = Builder()
    inputs = [builder.input("boxes", shape), builder.input("scores", (shape[0],))]
    for name, number, dtype in (
        ("most", most, "int32"),
        ("overlap", overlap, "float32"),
        ("score", score, "float32"),
        ("sigma", sigma, "float32"),
    ):
        computed = number is None
        inputs.append(builder.input(name, (), dtype) if computed else builder.constant(name, number, dtype))
    kinds = (("indices", (3,), "int32"), ("found", (3,), "float32"), ("count", (), "int32"))
    outputs = [builder.tensor(name, size, dtype) for name, size, dtype in kinds]
    builder.operator("NON_MAX_SUPPRESSION_V5", inputs, outputs)
    return builder.finish(*outputs)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (suppression(shape=(6, 5)), "suppresses boxes"),
        (suppression(shape=(6, 4, 1)), "rank 2"),
        (suppression(most=-1), "selects -1 boxes"),
        (suppression(most=None), "number of boxes is computed"),
        (suppression(overlap=1.5), "above 1"),
        (suppression(overlap=None), "threshold of overlaps is computed"),
        (suppression(overlap=float("nan")), "nan"),
        (suppression(overlap=[0.5, 0.5]), "2 numbers"),
        (suppression(sigma=None), "sigma is computed"),
        (suppression(sigma=-0.5), "sigma -0.5"),
        (suppression(most=300, sigma=0.5), "above 256"),
    ],
)
def test_refused(source: bytes, message: str) -> None:
    with pytest.raises((ModelError, UnsupportedError), match=message):
        layoutsolve.convert(source)


def test_hard_suppression_is_one_operator() -> None:
    nodes = layoutsolve.convert(suppression()).model.graph.node
    assert sum(node.op_type == "NonMaxSuppression" for node in nodes) == 1


@pytest.mark.parametrize(("boxes", "times"), [(6, 1), (256, 1), (257, 2)])
def test_overlaps_of_few_boxes_are_computed_at_once(boxes: int, times: int) -> None:
    """Of each with each, where there are not too many; else with the one that is chosen, in each round but the last."""
    written = layoutsolve.convert(suppression(shape=(boxes, 4), sigma=0.5)).model.graph.node
    assert [node.op_type for node in written].count("Exp") == times
