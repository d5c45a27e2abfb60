"""The accuracy of a conversion: source and result are run on the same data, each in the runtime of its format."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx

from layoutsolve.emit import nodes_of, stored
from layoutsolve.emit.subgraphs import following_of
from layoutsolve.io.files import scratch
from layoutsolve.io.source import Content
from layoutsolve.result import Conversion
from layoutsolve.verification import onnx_source
from layoutsolve.verification.input_files import Sampling
from layoutsolve.verification.refusals import RefusedError
from layoutsolve.verification.signature_model import exchanged, subgraph_of
from layoutsolve.verification.tensor_locations import Relation
from layoutsolve.verification.verdict import Verification, not_run
from layoutsolve.verification.verify import verify

ROUNDED = {
    "quant": "--quant symmetric rounds activations in steps of its own, so that results are not the source's: verify "
    "--quant float, which computes the same without rounding, and measure the accuracy on your own data",
    "weights": "--weights symmetric rounds weights anew, so that results are not the source's: verify --weights "
    "source, which computes the same on the source's weights, and measure the accuracy on your own data",
}
"""Why results differ by design, by the option that rounds."""

UNCOMPARED = "operators are not compared one by one: --weights symmetric rounds their weights"


def measured(source: Content, conversion: Conversion, sampling: Sampling, *, thorough: bool) -> Verification:
    """Compare the outputs of a conversion with those of its source, and what they compute within as far as that is
    known; however large tensors are where it is ``thorough``.
    """
    try:
        found = _compared(source, conversion, sampling, thorough)
    except RefusedError as error:
        error.result = error.result and not _foreign(conversion)
        return not_run(error, sampling.seed)
    return found if conversion.graph.imports or found.refusal else _rounded(conversion, found)


def _compared(source: Content, conversion: Conversion, sampling: Sampling, thorough: bool) -> Verification:
    if conversion.to != "onnx":
        return _in_litert(source, conversion, sampling, thorough)
    if conversion.external is None:
        return _in_onnx_runtime(source, conversion, conversion.model, sampling, thorough)
    with scratch() as folder:
        path = folder / "model.onnx"
        conversion.save(path)
        return _in_onnx_runtime(source, conversion, path, sampling, thorough)


def _rounded(conversion: Conversion, found: Verification) -> Verification:
    """What a comparison comes to where an option rounds numbers in steps of its own. Weights are rounded a little:
    outputs that are near enough pass.
    """
    by = next((name for name in ROUNDED if getattr(conversion.reading, name) == "symmetric"), "")
    if not by or (by == "weights" and found.passed):
        return found
    layers = () if found.inspection is None else found.inspection.layers
    if by == "weights" and all(each.passed for each in found.outputs):
        from layoutsolve.verification.layer_accuracy import Inspection

        return replace(found, inspection=Inspection(0, None, UNCOMPARED, layers))
    return replace(found, inspection=None, refusal=ROUNDED[by], verdict="not verified")


def _foreign(conversion: Conversion) -> bool:
    """Whether a model has operators of domains that no runtime need know."""
    if conversion.to != "onnx":
        return False
    known = {"", "ai.onnx", "ai.onnx.ml", "com.microsoft", *(each.domain for each in conversion.model.functions)}
    return any(node.domain not in known for node in nodes_of(conversion.model.graph))


def _relation(conversion: Conversion, inside: bool) -> Relation:
    """How inputs and outputs of a result are stored, and tensors ``inside`` where these are compared."""
    inputs, outputs = conversion.permutations(inputs=True), conversion.permutations(inputs=False)
    within = (conversion.assignment.graph.values, stored(conversion.assignment)) if inside else None
    return Relation(inputs, outputs, within, conversion.reading.signature)


def _in_litert(source: Content, conversion: Conversion, sampling: Sampling, thorough: bool) -> Verification:
    """Compare a model in TensorFlow Lite with its source, end to end, and the tensors within where these are asked for:
    of a source that is returned unchanged there is nothing to compare.
    """
    onnx_read, data = bool(conversion.graph.imports), conversion.content("")
    relation = _relation(conversion, (thorough or onnx_read) and not conversion.kept)
    if onnx_read:
        return _with_onnx_source(source, conversion, data, sampling, relation, thorough)
    main = exchanged(data, subgraph_of(data, relation.signature))
    return verify(bytes(source.data), main, sampling, relation, thorough=thorough)


def _in_onnx_runtime(
    source: Content, conversion: Conversion, model: onnx.ModelProto | Path, sampling: Sampling, thorough: bool
) -> Verification:
    """Compare a model in ONNX, in memory or as a file with external data, with its source."""
    if conversion.graph.imports:
        relation = _relation(conversion, thorough)
        states = following_of({each.key: each.value for each in conversion.model.metadata_props})
        moved = {states[end.name]: end.permutation for end in conversion.moved_ends if end.name in states}
        own = replace(relation, output_permutations={**relation.output_permutations, **moved})
        given = model if isinstance(model, Path) else model.SerializeToString()
        return _with_onnx_source(source, conversion, given, sampling, own, thorough)
    reading, relation = conversion.reading, _relation(conversion, conversion.reading.quant != "symmetric")
    own = replace(relation, rounding=conversion.rounding, symmetric=reading.weights == "symmetric")
    return verify(bytes(source.data), model, sampling, own, thorough=thorough)


def _with_onnx_source(
    source: Content,
    conversion: Conversion,
    model: bytes | Path,
    sampling: Sampling,
    relation: Relation,
    thorough: bool,
) -> Verification:
    original = bytes(source.data) if source.path is None or source.cut else Path(source.path)
    rounds = any(value.quant is not None for value in conversion.graph.values.values())
    return onnx_source.verify(original, model, sampling, relation, rounds=rounds, thorough=thorough)
