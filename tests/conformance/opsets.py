"""Models in older operator sets: what is written is of that set, and computes what the newer one does."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx

from layoutsolve.emit import serialise
from layoutsolve.emit.opset import LOWEST_OPSET, OLDEST_OPSET
from layoutsolve.errors import ConversionError, OptionError
from layoutsolve.frontend import read
from layoutsolve.ir.graph import Array, Graph
from layoutsolve.proto.scopes import nodes_of
from layoutsolve.verification.model_inputs import feeds
from layoutsolve.verification.refusals import RefusedError
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.conformance.cases import Case

OPSETS = range(OLDEST_OPSET, LOWEST_OPSET)

TOLERANCE = 1e-5
"""The largest error of floats where an operator is written as others, relative to the range."""


def graph_of(case: Case) -> tuple[Graph, list[Array]] | None:
    """The reference graph of a case and what it is run on, None where it is refused."""
    made = case.make()
    try:
        return read(made.source, "case"), [*made.inputs]
    except ConversionError:
        return None


def older(graph: Graph, inputs: list[Array], opsets: range = OPSETS) -> Iterator[tuple[int, str]]:
    """Each set with the reason why the model is not written in it, '' where it is and computes the same.

    Raises :class:`AssertionError` where what is written is not of the set, or computes something else.
    """
    try:
        whole = _run(serialise(graph), inputs)
    except ConversionError:
        return
    for version in opsets:
        try:
            model = serialise(graph, version)
        except OptionError as error:
            assert f"opset {version} cannot carry this model: " in str(error) and " needs opset " in str(error)
            yield version, str(error)
            continue
        check_set(model, version)
        try:
            found = _run(model, inputs)
        except RefusedError as error:
            assert "NOT_IMPLEMENTED" in str(error), error
            yield version, f"ONNX Runtime: {error}"
            continue
        for one, other in zip(whole, found, strict=True):
            same(one, other)
        yield version, ""


def check_set(model: onnx.ModelProto, version: int) -> None:
    """Raise :class:`AssertionError` unless a model is of an operator set, by the schemas of its operators."""
    assert {each.domain: each.version for each in model.opset_import}[""] == version
    for node in nodes_of(model.graph):
        if not node.domain:
            schema = onnx.defs.get_schema(node.op_type, version, "")
            assert not schema.deprecated and {each.name for each in node.attribute} <= schema.attributes.keys()
            assert schema.min_input <= len(node.input) <= schema.max_input, node
    foreign = any(node.domain not in ("", "ai.onnx.ml") for node in nodes_of(model.graph))
    if not foreign:
        onnx.checker.check_model(model, full_check=True)


def same(one: Array, other: Array) -> None:
    """Raise :class:`AssertionError` unless two results are equal, floats but for roundings."""
    assert one.shape == other.shape and one.dtype == other.dtype
    if one.dtype.kind != "f":
        np.testing.assert_array_equal(other, one)
        return
    finite = one[np.isfinite(one)]
    scale = max(float(np.abs(finite).max()) if finite.size else 0.0, 1.0)
    np.testing.assert_allclose(other, one, rtol=TOLERANCE, atol=TOLERANCE * scale)


def _run(model: onnx.ModelProto, inputs: list[Array]) -> list[Array]:
    runtime = OnnxRuntime(model.SerializeToString(), level="none")
    given = feeds(runtime, inputs, {})
    return runtime.run(given)
