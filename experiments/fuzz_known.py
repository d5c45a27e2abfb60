"""Failures of mutants whose cause is known and lies elsewhere, or is a limit that the documentation tells."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from layoutsolve.frontend.model import Model, Operator, Subgraph, Tensor
from layoutsolve.frontend.reader import parse

FAR = 2.0**30
"""How far scales of one operator may be apart: LiteRT's multipliers in fixed point have shifts of up to 30 bits."""

TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class Known:
    """A cause, and the failures that it explains: the verdict, a pattern in the detail, one in a fact."""

    cause: str
    verdict: str
    fact: str = ""
    detail: str = ""

    def explains(self, verdict: str, detail: str, facts: Sequence[str]) -> bool:
        """Whether a failure is of this kind. None is where ONNX Runtime's optimiser has a part in it."""
        if "optimiser" in detail:
            return False
        stated = any(re.search(self.fact, fact) for fact in facts) if self.fact else True
        return verdict == self.verdict and re.search(self.detail, detail) is not None and stated


_WRAPS = (
    "MultiplyByQuantizedMultiplier casts its product to 32 bits before it clamps (seen: all that differs is beyond the "
    "range of the type)"
)

KNOWN: tuple[Known, ...] = (
    Known(f"LiteRT: {_WRAPS}", "differs", r"\(.*scales far apart", r"beyond the type"),
    Known(
        f"LiteRT: {_WRAPS}",
        "differs",
        r"^((BATCH_MATMUL|(DEPTHWISE_|)CONV_2D|TRANSPOSE_CONV|FULLY_CONNECTED) int16|LEAKY_RELU .*alpha=-?\S+e\+30)",
        r"beyond the type",
    ),
    Known(
        "LiteRT: scales further apart than the shifts of its fixed point arithmetic reach (30 bits)",
        "differs",
        r"\(.*scales far apart",
        r"quantised",
    ),
    Known(
        "LiteRT: comparisons of scales further apart than its fixed point arithmetic reaches",
        "differs",
        r"^(EQUAL|NOT_EQUAL|GREATER|GREATER_EQUAL|LESS|LESS_EQUAL) u?int8 .*\(.*scales far apart",
        r"exact: max 1,",
    ),
    Known(
        "LiteRT: REDUCE_PROD of quantised numbers rounds, or wraps, after each factor (README)",
        "differs",
        r"^REDUCE_PROD (u?int8|int16) ",
        r"quantised",
    ),
    Known(
        "LiteRT: sums of products wrap at 32 bits, beside a bias that fills them",
        "differs",
        r"^((DEPTHWISE_|)CONV_2D|TRANSPOSE_CONV|FULLY_CONNECTED) .*\(.*biases near 32 bits",
        r"beyond the type|next to zero",
    ),
    Known(
        "LiteRT: FULLY_CONNECTED leaves out what is too much for a whole number of rows, as open sizes may have it",
        "unusable",
        r"^FULLY_CONNECTED .*open sizes",
        r"Reshape node",
    ),
    Known(
        "LiteRT: a bias of 64 bits that is beyond what its multiplication in fixed point holds",
        "differs",
        r"^TRANSPOSE_CONV int32 int8 int16 int64",
        r"beyond the type",
    ),
    Known(
        "bytes without a scale are numbers to some operators of LiteRT and zeros to its TFLite_Detection_PostProcess",
        "differs",
        r"^CUSTOM:TFLite_Detection_PostProcess uint8 uint8 uint8",
        r"float: ",
    ),
    Known(
        "what is no number is clipped to the bounds of its activation by SVDF in LiteRT",
        "differs",
        r"^SVDF .*\(.*constants that are no numbers",
        r"float: max inf",
    ),
    Known(
        "LiteRT: BROADCAST_ARGS keeps the lower 32 bits of sizes",
        "differs",
        r"^BROADCAST_ARGS int64",
        r"exact",
    ),
    Known(
        "LiteRT: scales of weights are those of channels, whatever axis they are stated for (README)",
        "differs",
        r"^((DEPTHWISE_|)CONV_2D|TRANSPOSE_CONV|FULLY_CONNECTED) .*\(.*weights per another axis",
    ),
    Known(
        "LiteRT: TRANSPOSE_CONV of int16 reads a bias of int32 as one of int64",
        "differs",
        r"^TRANSPOSE_CONV int32 int8 int16 int32 -> int16",
        r"quantised",
    ),
    Known(
        "LiteRT: SOFTMAX of int16 looks powers of e up in a table for exponents from -10 to 0: they overflow by a huge "
        "beta (README), and a negative one turns them",
        "differs",
        r"^SOFTMAX int16 .*beta=(-|\S+e\+)",
    ),
    Known(
        "LiteRT: SOFTMAX of uint8 passes over the zero point of its output (README)",
        "differs",
        r"^SOFTMAX uint8 -> uint8 \(.*output offset",
        r"quantised",
    ),
    Known(
        "LiteRT: DIV of bytes loses quotients below a step (README)",
        "differs",
        r"^DIV (u?int8) \1 -> \1",
        r"quantised: .*all next to zero",
    ),
    Known(
        "LiteRT: RESIZE_BILINEAR of int16 rounds positions to 1/1024 of a pixel (README)",
        "differs",
        r"^RESIZE_BILINEAR int16",
        r"(quantised|exact): .*cosine (1\.0|0\.9999)",
    ),
    Known(
        "LiteRT: LOG, RSQRT and GELU of int16 look their results up in coarse tables (README)",
        "differs",
        r"^(GELU|LOG|RSQRT) int16",
        r"quantised: .*cosine (1\.0|0\.99)",
    ),
    Known(
        "LiteRT: EXP of int16 looks its results up in a coarse table (README)",
        "differs",
        r"^EXP int16",
        r"quantised: .*cosine (1\.0|0\.9999)",
    ),
    Known(
        "LiteRT: TANH of int16 looks its results up in a coarse table (README)",
        "differs",
        r"^TANH int16",
        r"quantised: max (\d|1\d|2[0-3]), ",
    ),
    Known(
        "a step of rounding before a logarithm or a reciprocal near 0 is many steps after it",
        "differs",
        r"^(LOG|RSQRT|DIV) u?int8",
        r"quantised: .*cosine 0\.999",
    ),
    Known(
        "LiteRT: HASHTABLE_LOOKUP searches by halves, which misses keys that are not in order (README)",
        "differs",
        r"^HASHTABLE_LOOKUP .*\(.*keys out of order",
    ),
    Known(
        "LiteRT: SOFTMAX subtracts the greatest number, the least of them times a negative beta: powers of e overflow",
        "differs",
        r"^SOFTMAX float32 .*beta=-",
        r"relative inf",
    ),
    Known(
        "LiteRT: infinities become the largest numbers where an operator may have an activation",
        "differs",
        r"^(ADD|SUB|MUL|DIV|FULLY_CONNECTED|(DEPTHWISE_|)CONV_2D|TRANSPOSE_CONV|(AVERAGE|MAX|L2)_POOL_2D) float32",
        r"float: max \S+e\+3[78],",
    ),
    Known(
        "LiteRT: soft suppression sorts scores before they decay, which lifts those below zero (README)",
        "differs",
        r"^NON_MAX_SUPPRESSION_V5 .*\(.*scores below zero",
        r"exact",
    ),
    Known(
        "LSTM of uint8: a step of a gate is as many steps of the state as the state is large",
        "differs",
        r"^LSTM uint8 ",
        r"quantised: max [2-8], .*cosine 1\.0",
    ),
    Known(
        "weights of another sign than activations, whose bytes LiteRT misreads (README)",
        "differs",
        r"^(FULLY_CONNECTED|CONV_2D|DEPTHWISE_CONV_2D) (int8 uint8|uint8 int8) ",
        r"quantised",
    ),
    Known(
        "beside a jump of a function that rounds floats, rounding before it decides",
        "differs",
        r"^(FLOOR|CEIL|ROUND|SIGN|FLOOR_DIV) float32",
        r"float: max 1, ",
    ),
    Known(
        "LiteRT: a SQUEEZE without axes removes open sizes that happen to be 1",
        "differs",
        r"^SQUEEZE \S+ -> \S+ \([^)]*\) *(squeeze_dims=\(\))?$",
        r"shape ",
    ),
    Known(
        "LiteRT: a table of uint8 or int16 is read as int8 by EMBEDDING_LOOKUP (README)",
        "differs",
        r"^EMBEDDING_LOOKUP int32 (uint8|int16) -> float(16|32)",
    ),
    Known(
        "LiteRT: BATCH_MATMUL has no scale for a constant with scales per channel (README)",
        "differs",
        r"^BATCH_MATMUL \w+ int8 -> \w+ \(.*weights per channel",
    ),
    Known(
        "LiteRT: kernels with weights per channel, as all convolutions, pass over zero points of weights (README)",
        "differs",
        r"^((DEPTHWISE_|)CONV_2D|TRANSPOSE_CONV) .*\(.*weights with offsets|\(.*weights with offsets per channel",
    ),
    Known(
        "products beyond 32 bits: LiteRT wraps where ONNX Runtime's ReduceProd, of float64, does not (README)",
        "differs",
        r"^(REDUCE_PROD int(32|64)|REDUCE_WINDOW u?int\d+ .*reduce_function=2|STABLEHLO_REDUCE(_WINDOW)? u?int\d+)",
        r"exact",
    ),
    Known(
        "a shift by a negative number or by more than the bits of the type, which C++ leaves undefined",
        "differs",
        r"^STABLEHLO_SHIFT_LEFT u?int(8|16|32|64)",
        r"all next to zero",
    ),
    Known(
        "LiteRT: only DENSIFY and FULLY_CONNECTED know sparse constants, others read beyond their data",
        "differs",
        r"\(.*sparse constant",
    ),
    Known(
        "LiteRT: aeq.hadamard_rotation leaves its output the shape that is declared",
        "differs",
        r"^CUSTOM:aeq\.hadamard_rotation .*\(.*(declared another shape|open sizes)",
        r"shape",
    ),
    Known(
        "LiteRT: a sigma whose reciprocal is infinite makes scores that are no numbers, which are not selected",
        "differs",
        r"^NON_MAX_SUPPRESSION_V5 .*\(.*constants below all normal numbers",
    ),
    Known(
        "LiteRT: a loop copies what its body hands on one after the other, over what it has yet to copy",
        "differs",
        r"^WHILE .*\(.*hands inputs on",
    ),
    Known(
        "what is no number is clipped to bounds of activations by LSTM in ONNX Runtime, by convolutions in LiteRT",
        "differs",
        r"^(.*LSTM|.*RNN|(DEPTHWISE_|)CONV_2D|CONV_3D) .*\(.*constants that are no numbers",
        r"relative inf",
    ),
    Known(
        "bytes of a constant of bool that are neither 0 nor 1, which C++ leaves undefined",
        "differs",
        r"\(.*bools that are neither",
    ),
    Known(
        "LiteRT: what is no number becomes a bound where LSTM clips its cells",
        "differs",
        r"^\S*LSTM float32 .* cell_clip=(?!0\.0)",
        r"float: max inf, mean inf, relative inf",
    ),
    Known(
        "indices that are computed are taken to be in range (README)",
        "unusable",
        r"^(EMBEDDING_LOOKUP_SPARSE|SPARSE_TO_DENSE|SCATTER_ND|GATHER|GATHER_ND|EMBEDDING_LOOKUP) ",
        r"invalid indice found|indices element out of data bounds|out of range",
    ),
    Known(
        "a computed index beyond an axis that STRIDED_SLICE removes (README), where LiteRT reads beyond its data",
        "unusable",
        r"^STRIDED_SLICE \S+ int32 .*shrink_axis_mask=[1-9]",
        r"input_shape_size == requested_shape",
    ),
)


def cause_of(verdict: str, detail: str, facts: Sequence[str]) -> str:
    """The known cause of a failure, '' where there is none."""
    return next((known.cause for known in KNOWN if known.explains(verdict, detail, facts)), "")


def facts(source: bytes) -> tuple[str, ...]:
    """What patterns are matched with: a line per operator, with its types, its traits and its options.

    There is one for each output that is a sparse constant as well.
    """
    model = parse(source)
    found = {_fact(model, graph, each) for graph in model.subgraphs for each in graph.operators}
    ends = [graph.tensors[index] for graph in model.subgraphs for index in graph.outputs]
    return tuple(
        sorted(found | {f"OUTPUT {each.dtype} (sparse constant)" for each in ends if each.sparsity is not None})
    )


def _fact(model: Model, graph: Subgraph, operator: Operator) -> str:
    read = [graph.tensors[index] for index in operator.inputs if index >= 0]
    made = [graph.tensors[index] for index in operator.outputs]
    types = f"{' '.join(each.dtype for each in read)} -> {' '.join(each.dtype for each in made)}"
    options = " ".join(f"{key}={value}" for key, value in operator.options.items())
    traits = [*_traits(operator.name, read, made), *_handed_on(model, operator)]
    return f"{operator.name} {types} ({', '.join(traits)}) {options}"


def _traits(name: str, read: Sequence[Tensor], made: Sequence[Tensor]) -> list[str]:
    """What is unusual about the parameters and constants of an operator."""
    quants = [each.quant for each in (*read, *made) if each.quant is not None and each.quant.kind == "affine"]
    scales = np.concatenate([np.asarray(each.scale, np.float64).reshape(-1) for each in quants] or [np.ones(1)])
    scales = scales[np.isfinite(scales) & (scales > 0)]
    weights = [each.quant for each in read if each.data is not None and each.dtype in ("int8", "int4")]
    apart = [each for each in weights if each is not None and each.scale.size > 1]
    floats = [each.data for each in read if each.data is not None and each.dtype == "float32"]
    biases = [each.data for each in read[2:] if each.data is not None and each.dtype == "int32"]
    bools = [each.data for each in read if each.data is not None and each.dtype == "bool"]
    keys = [each.data for each in read[1:2] if each.data is not None and each.dtype == "int32"]
    told = {
        "scales far apart": scales.size > 0 and max(scales.max() / scales.min(), scales.max()) > FAR,
        "weights per channel": bool(apart),
        "weights with offsets": any(each is not None and each.zero_point.any() for each in weights),
        "weights with offsets per channel": any(each.zero_point.any() for each in apart),
        "output offset": any(each.quant is not None and each.quant.zero_point.any() for each in made[:1]),
        "constants below all normal numbers": any(each.size == 1 and 0 < abs(each.item()) < TINY for each in floats),
        "keys out of order": any((np.diff(each.reshape(-1)) <= 0).any() for each in keys),
        "scores below zero": len(floats) > 2 and name == "NON_MAX_SUPPRESSION_V5" and bool(floats[1] < 0 < floats[2]),
        "sparse constant": any(each.sparsity is not None for each in read)
        and name not in ("DENSIFY", "FULLY_CONNECTED"),
        "biases near 32 bits": any((np.abs(each.astype(np.int64)) > 1 << 30).any() for each in biases),
        "weights per another axis": any(
            each is not None and each.axis != (3 if name == "DEPTHWISE_CONV_2D" else 0) for each in apart
        ),
        "open sizes": any(-1 in each.signature for each in read),
        "bools that are neither": any((each.view(np.uint8) > 1).any() for each in bools),
        "declared another shape": bool(made) and bool(read) and made[0].shape != read[0].shape,
        "constants that are no numbers": any(not np.isfinite(each).all() for each in floats),
    }
    return [trait for trait, holds in told.items() if holds]


def _handed_on(model: Model, operator: Operator) -> list[str]:
    """Whether the body of a loop gives an input of its own back, at another place."""
    number = operator.options.get("body_subgraph_index", -1)
    if operator.name != "WHILE" or not 0 <= number < len(model.subgraphs):
        return []
    body = model.subgraphs[number]
    pairs = zip(body.inputs, body.outputs, strict=False)
    return ["hands inputs on"] if any(given != made and made in body.inputs for given, made in pairs) else []
