"""Failures of mutants whose cause is known and lies elsewhere, or is a limit that the documentation tells."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from layoutsolve.frontend.tflite.lowering.data_movement import MOVING
from layoutsolve.frontend.tflite.reading.model import Model, Operator, Subgraph, Tensor
from layoutsolve.frontend.tflite.reading.reader import parse

FAR = 2.0**30
"""How far scales of one operator may be apart: LiteRT's multipliers in fixed point have shifts of up to 30 bits."""

TINY = float(np.finfo(np.float32).tiny)

_PRODUCTS = ("BATCH_MATMUL", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")


@dataclass(frozen=True)
class Known:
    """A cause, and the failures that it explains: the verdict, a pattern in the detail, one in a fact.

    There may have to be another fact (``also``). ``optimised``: ONNX Runtime's optimiser may have a part in it.
    """

    cause: str
    verdict: str
    fact: str = ""
    detail: str = ""
    also: str = ""
    optimised: bool = False

    def explains(self, verdict: str, detail: str, facts: Sequence[str]) -> bool:
        """Whether a failure is of this kind."""
        if "optimiser" in detail and not self.optimised:
            return False
        stated = all(any(re.search(each, fact) for fact in facts) for each in (self.fact, self.also) if each)
        return verdict == self.verdict and re.search(self.detail, detail) is not None and stated


_WRAPS = (
    "MultiplyByQuantizedMultiplier casts its product to 32 bits before it clamps (seen: all that differs is beyond the "
    "range of the type)"
)

_SCALING = rf"^(?!({'|'.join(MOVING)}|DILATE|RESHAPE|SQUEEZE|TRANSPOSE) )"
"""Operators that may look at scales at all."""

KNOWN: tuple[Known, ...] = (
    Known(f"LiteRT: {_WRAPS}", "differs", rf"{_SCALING}.*\(.*scales far apart", r"beyond the type"),
    Known(
        f"LiteRT: {_WRAPS}",
        "differs",
        r"^((BATCH_MATMUL|(DEPTHWISE_|)CONV_2D|TRANSPOSE_CONV|FULLY_CONNECTED) int16|LEAKY_RELU .*alpha=-?\S+e\+30)",
        r"beyond the type",
    ),
    Known(
        "LiteRT: scales further apart than the shifts of its fixed point arithmetic reach (30 bits)",
        "differs",
        rf"{_SCALING}.*\(.*scales far apart",
        r"quantized",
    ),
    Known(
        "LiteRT: comparisons of scales further apart than its fixed point arithmetic reaches, or from 1 on (limits.md)",
        "differs",
        r"^(EQUAL|NOT_EQUAL|GREATER|GREATER_EQUAL|LESS|LESS_EQUAL) u?int8 .*\(.*scales (far apart|from 1 on)",
        r"exact: max 1,",
    ),
    Known(
        "LiteRT: REDUCE_PROD of quantized numbers rounds, or wraps, after each factor (limits.md)",
        "differs",
        r"^REDUCE_PROD (u?int8|int16) ",
        r"quantized",
    ),
    Known(
        "LiteRT: sums of products wrap at 32 bits, beside a bias that fills them",
        "differs",
        r"^((DEPTHWISE_|)CONV_2D|TRANSPOSE_CONV|FULLY_CONNECTED) .*\(.*biases near 32 bits",
        r"quantized",
    ),
    Known(
        "LiteRT: FULLY_CONNECTED leaves out what is too much for a whole number of rows, as open sizes may have it",
        "unusable",
        r"^FULLY_CONNECTED .*open sizes",
        r"Reshape node",
    ),
    Known(
        "LiteRT: a bias of 64 bits that is beyond the 47 bits that its multiplication in fixed point holds",
        "differs",
        r"^((DEPTHWISE_|)CONV_2D|TRANSPOSE_CONV|FULLY_CONNECTED) .*\(.*biases beyond 47 bits",
        r"quantized",
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
        "LiteRT: scales of weights are those of channels, whatever axis they are stated for (limits.md)",
        "differs",
        r"^((DEPTHWISE_|)CONV_2D|TRANSPOSE_CONV|FULLY_CONNECTED) .*\(.*weights per another axis",
    ),
    Known(
        "LiteRT: TRANSPOSE_CONV of int16 reads a bias of int32 as one of int64",
        "differs",
        r"^TRANSPOSE_CONV int32 int8 int16 int32 -> int16",
        r"quantized",
    ),
    Known(
        "LiteRT: SOFTMAX of int16 looks powers of e up in a table for exponents from -10 to 0: they overflow by a huge "
        "beta (limits.md), and a negative one turns them",
        "differs",
        r"^SOFTMAX int16 .*beta=(-|\S+e\+)",
    ),
    Known(
        "LiteRT: SOFTMAX of uint8 passes over the zero point of its output (limits.md)",
        "differs",
        r"^SOFTMAX uint8 -> uint8 \(.*output offset",
        r"quantized",
    ),
    Known(
        "LiteRT: DIV of bytes loses quotients below a step (limits.md)",
        "differs",
        r"^DIV (u?int8) \1 -> \1",
        r"quantized: .*all next to zero",
    ),
    Known(
        "LiteRT: DIV of int16 shifts quotients far below a step by more than the bits that there are (limits.md)",
        "differs",
        r"^DIV int16 int16 -> int16",
        r"quantized: .*all next to zero",
    ),
    Known(
        "LiteRT: RESIZE_BILINEAR of int16 rounds positions to 1/1024 of a pixel (limits.md)",
        "differs",
        r"^RESIZE_BILINEAR int16",
        r"(quantized|exact): .*cosine (1\.0|0\.9999)",
    ),
    Known(
        "LiteRT: LOG, RSQRT and GELU of int16 look their results up in coarse tables (limits.md)",
        "differs",
        r"^(GELU|LOG|RSQRT) int16",
        r"quantized: .*cosine (1\.0|0\.99)",
    ),
    Known(
        "LiteRT: LOG and RSQRT of int16 near 0, where their tables are the coarsest (limits.md)",
        "differs",
        r"^(LOG|RSQRT) int16 .*\(.*coarse exponents",
        r"quantized",
    ),
    Known(
        "LiteRT: CONCATENATION of uint8 counts in 32 bits what scales far apart take beyond",
        "differs",
        r"^CONCATENATION uint8 .*\(.*scales far apart",
        r"quantized",
    ),
    Known(
        "LiteRT: bounds of activations count in 32 bits what scales far apart take beyond",
        "differs",
        r"^(AVERAGE|MAX)_POOL_2D .*\(.*scales far apart.*fused_activation_function=[1-3]",
        r"quantized",
    ),
    Known(
        "LiteRT: EXP of int16 looks its results up in a coarse table (limits.md)",
        "differs",
        r"^EXP int16",
        r"quantized: .*cosine (1\.0|0\.9999)",
    ),
    Known(
        "LiteRT: TANH of int16 looks its results up in a coarse table (limits.md)",
        "differs",
        r"^TANH int16",
        r"quantized: max (\d|1\d|2[0-3]), ",
    ),
    Known(
        "a step of rounding before a logarithm, a root or a reciprocal near 0 is many steps after it",
        "differs",
        r"^(LOG|SQRT|RSQRT|DIV) (u?int8|int16)",
        r"quantized: .*cosine 0\.999",
        also=r"^(?!(LOG|SQRT|RSQRT|DIV) )\w+ .*-> (u?int8|int16) ",
    ),
    Known(
        "LiteRT: HASHTABLE_LOOKUP searches by halves, which misses keys that are not in order (limits.md)",
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
        "LiteRT: infinities become the largest numbers where an operator may have an activation",
        "differs",
        r"^(ADD|SUB|MUL|DIV|FULLY_CONNECTED|(DEPTHWISE_|)CONV_2D|CONV_3D(_TRANSPOSE|)|TRANSPOSE_CONV) float32",
        r"float: max inf, mean inf, relative inf",
        also=r"^(LOG|RSQRT|DIV|POW) float32",
    ),
    Known(
        "LiteRT: soft suppression sorts scores before they decay, which lifts those below zero (limits.md)",
        "differs",
        r"^NON_MAX_SUPPRESSION_V5 .*\(.*scores below zero",
        r"exact",
    ),
    Known(
        "LSTM of uint8: a step of a gate is as many steps of the state as the state is large",
        "differs",
        r"^LSTM uint8 ",
        r"quantized: max [2-8], .*cosine 1\.0",
    ),
    Known(
        "integer LSTM: its normalisation rounds otherwise (limits.md), which its state adds up",
        "differs",
        r"^UNIDIRECTIONAL_SEQUENCE_LSTM int8 .* int16 int16 int16 int16 -> int8",
        r"quantized: max [23], .*cosine (1\.0|0\.999)",
    ),
    Known(
        "weights of another sign than activations, whose bytes LiteRT misreads (limits.md)",
        "differs",
        r"^(FULLY_CONNECTED|CONV_2D|DEPTHWISE_CONV_2D) (int8 uint8|uint8 int8) ",
        r"quantized",
    ),
    Known(
        "beside a jump of a function that rounds floats, rounding before it decides",
        "differs",
        r"^(FLOOR|CEIL|ROUND|SIGN|FLOOR_DIV) float32",
        r"float: (max 1, |.*cosine (1\.0|0\.9999))",
        optimised=True,
    ),
    Known(
        "LiteRT: a SQUEEZE without axes removes open sizes that happen to be 1",
        "differs",
        r"^SQUEEZE \S+ -> \S+ \([^)]*\) *(squeeze_dims=\(\))?$",
        r"shape ",
    ),
    Known(
        "LiteRT: a table of uint8, uint4 or int16 is misread by EMBEDDING_LOOKUP (limits.md)",
        "differs",
        r"^EMBEDDING_LOOKUP int32 (uint8|int16|uint4) -> float(16|32)",
    ),
    Known(
        "LiteRT: BATCH_MATMUL has no scale for a constant with scales per channel (limits.md)",
        "differs",
        r"^BATCH_MATMUL \w+ int8 -> \w+ \(.*weights per channel",
    ),
    Known(
        "LiteRT: kernels with weights per channel, as all convolutions, pass over zero points of weights (limits.md)",
        "differs",
        r"^((DEPTHWISE_|)CONV_2D|TRANSPOSE_CONV) .*\(.*weights with offsets|\(.*weights with offsets per channel",
    ),
    Known(
        "products beyond 32 bits: LiteRT wraps where ONNX Runtime's ReduceProd, of float64, does not (limits.md)",
        "differs",
        r"^(REDUCE_PROD int(32|64)|REDUCE_WINDOW u?int\d+ .*reduce_function=2)",
        r"exact",
    ),
    Known(
        "products beyond 32 bits: LiteRT wraps where ONNX Runtime's ReduceProd, of float64, does not (limits.md)",
        "differs",
        r"^STABLEHLO_REDUCE(_WINDOW)? u?int\d+",
        r"exact",
        also=r"^STABLEHLO_MULTIPLY u?int\d+",
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
        "what is no number is clipped to bounds of activations by LSTM in ONNX Runtime, by products in LiteRT",
        "differs",
        r"^(.*LSTM|.*RNN|(DEPTHWISE_|)CONV_2D|CONV_3D|FULLY_CONNECTED) .*\(.*constants that are no numbers",
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
        "indices that are computed are taken to be in range (limits.md)",
        "unusable",
        r"^(EMBEDDING_LOOKUP_SPARSE|SPARSE_TO_DENSE|SCATTER_ND|GATHER|GATHER_ND|EMBEDDING_LOOKUP) ",
        r"invalid indice found|indices element out of data bounds|out of range",
    ),
    Known(
        "a computed index beyond an axis that STRIDED_SLICE removes (limits.md), where LiteRT reads beyond its data",
        "unusable",
        r"^STRIDED_SLICE \S+ int32 .*shrink_axis_mask=[1-9]",
        r"input_shape_size == requested_shape",
    ),
    Known(
        "LiteRT: sums of 16-bit numbers wrap at 32 bits (limits.md)",
        "differs",
        r"^(MEAN|SUM) int16 .*\(.*more than 65536 numbers in one",
        r"quantized",
    ),
    Known(
        "LiteRT: numbers are shifted to the left before they are scaled, beyond 32 bits",
        "differs",
        r"^(QUANTIZE int16 -> int32|ABS int16 -> int16) .*\(.*scaled beyond 16 bits",
        r"exact: max [34]\.\S+e\+09, .*cosine 0\.99|beyond the type",
    ),
    Known(
        "LiteRT: floats by bytes that are computed are rounded to 8 bits, and multiplied by -128 wrongly (limits.md)",
        "differs",
        r"^FULLY_CONNECTED float32 u?int8 .*\(.*computed weights",
        r"float: ",
    ),
    Known(
        "LiteRT: floats by bytes that are computed are rounded to 8 bits (limits.md)",
        "differs",
        r"^((DEPTHWISE_|)CONV_2D|BATCH_MATMUL) float32 int8 .*\(.*computed weights",
        r"float: .*cosine (1\.0|0\.99)",
    ),
    Known(
        "LiteRT: EMBEDDING_LOOKUP passes over zero points of a table that it gives as float16 (limits.md)",
        "differs",
        r"^EMBEDDING_LOOKUP int32 int[48] -> float16 \(.*weights with offsets",
        r"float: ",
    ),
    Known(
        "LiteRT: EXP of int16 looks its results up in a table, whose entries are powers of e above 1 apart (limits.md)",
        "differs",
        r"^EXP int16 .*\(.*coarse exponents",
        r"quantized",
    ),
    Known(
        "LiteRT: SOFTMAX of int16 looks powers of e and the reciprocal up in tables (limits.md)",
        "differs",
        r"^SOFTMAX int16",
        r"quantized: max (\d|1\d), .*cosine (1\.0|0\.9999)",
    ),
    Known(
        "ONNX Runtime: e^x - 1 of tiny numbers is 0 by its Elu",
        "differs",
        r"^ELU int8 .*\(.*tiny scales",
        r"all next to zero",
    ),
    Known(
        "LiteRT: MUL of int8 keeps 16 bits of what it limits to 8 (limits.md)",
        "differs",
        r"^MUL int8 .*\(.*products beyond 16 bits",
        r"quantized",
    ),
    Known(
        "ONNX Runtime: products in integer kernels overflow 32 bits by scales far apart",
        "differs",
        r"^MUL u?int8 .*\(.*scales far apart",
        r"^[^;]*; all beyond the type",
        optimised=True,
    ),
    Known(
        "what is no number meets zeros that fill up blocks of channels in ONNX Runtime's convolution",
        "differs",
        r"^(DEPTHWISE_|)CONV_2D float32 .*\(.*constants that are no numbers",
        r"relative inf",
        optimised=True,
    ),
    Known(
        "what is no number loses against a number in extremes of LiteRT",
        "differs",
        r"^(STABLEHLO_REDUCE(_WINDOW|)|REDUCE_WINDOW) float32 .*\(.*constants that are no numbers",
        r"relative inf",
    ),
    Known(
        "ONNX Runtime: integers cast to float16 are not rounded to it before what computes in float32 (runtimes.md)",
        "differs",
        r"^[A-Z_]+ float16 -> float16",
        r"float: max inf",
        also=r"^CAST u?int\d+ -> float16",
    ),
    Known(
        "LiteRT: MAX_POOL_2D passes over what is no number",
        "differs",
        r"^MAX_POOL_2D float32",
        r"float: max inf, mean inf, relative inf",
        also=r"^(RSQRT|SQRT|LOG|POW|DIV) float32",
    ),
    Known(
        "what is no number is clipped to bounds of activations by LSTM in ONNX Runtime",
        "differs",
        r"^.*(LSTM|RNN) float32",
        r"relative inf",
        also=r"^DEQUANTIZE float16 .*\(.*constants that are no numbers",
    ),
    Known(
        "LiteRT: recurrent operators write their states over what other operators have computed",
        "differs",
        r"^\S*(LSTM|RNN) .*\(.*states that others write",
        r"float: ",
    ),
    Known(
        "beside the pole of a logarithm or root: what a Fourier transform leaves of zero differs",
        "differs",
        r"^(LOG|RSQRT) float32",
        r"float: max inf",
        also=r"^RFFT2D",
    ),
    Known(
        "zeros below zero: LiteRT rounds to one without a sign, of which the reciprocal is another infinity",
        "differs",
        r"^(RSQRT|DIV) float32",
        r"float: max \S+e\+38",
        also=r"^ROUND float32",
    ),
    Known(
        "beside the pole of a root: what a rotation leaves of zero differs",
        "differs",
        r"^RSQRT float32",
        r"float: .*cosine (1\.0|0\.999)",
        also=r"^CUSTOM:aeq\.hadamard_rotation",
    ),
    Known(
        "the mean of no numbers: 0 or the zero point",
        "differs",
        r"^MEAN u?int8 .*\(.*no numbers",
        r"all next to zero",
    ),
    Known(
        "differences of huge numbers, of which rounding leaves anything",
        "differs",
        r"^\S+ float32 .*\(.*huge constants",
        r"float: ",
        also=r"^(MEAN|SUB|SQUARED_DIFFERENCE) float32",
    ),
    Known(
        "positions along thousands of elements, computed as floats of 32 bits from another side",
        "differs",
        r"^RESIZE_BILINEAR float32 .*\(.*long axes",
        r"float: .*cosine (1\.0|0\.999)",
    ),
    Known(
        "a window without padding that is larger than a dynamic size (limits.md)",
        "differs",
        r"^(AVERAGE|MAX|L2)_POOL_2D .*\(.*open sizes.*padding=1",
        r"shape \([\d, ]*\b1\b[\d, ]*\) instead of \([\d, ]*\b0\b",
    ),
    Known(
        "a window without padding that is larger than a dynamic size (limits.md)",
        "unusable",
        r"^((AVERAGE|MAX|L2)_POOL_2D|(DEPTHWISE_|)CONV_2D) .*\(.*open sizes.*padding=1",
        r"Invalid input shape",
    ),
    Known(
        "indices that are computed are taken to be in range (limits.md): what is beyond is written over by LiteRT",
        "died",
        r"^(EMBEDDING_LOOKUP_SPARSE|SPARSE_TO_DENSE|SCATTER_ND) ",
        r"SIG(SEGV|ABRT|BUS) in run",
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
    between = [graph.tensors[index] for index in operator.intermediates if index >= 0]
    traits = [
        *_traits(operator.name, read, made, between),
        *_handed_on(model, operator),
        *_overwritten(graph, operator),
    ]
    return f"{operator.name} {types} ({', '.join(traits)}) {options}"


def _traits(name: str, read: Sequence[Tensor], made: Sequence[Tensor], between: Sequence[Tensor]) -> list[str]:
    """What is unusual about the parameters and constants of an operator; ``between`` are its intermediates."""
    quants = [each.quant for each in (*read, *made, *between) if each.quant is not None and each.quant.kind == "affine"]
    scales = np.concatenate([np.asarray(each.scale, np.float64).reshape(-1) for each in quants] or [np.ones(1)])
    scales = scales[scales > 0]  # an infinite one among them, of which no multiplier in fixed point is defined
    given = _scale(read[:1])
    computed = name in _PRODUCTS and len(read) > 1 and read[1].data is None
    weights = [
        each.quant for place, each in enumerate(read)
        if (each.data is not None or (computed and place == 1)) and each.dtype in ("int8", "int4")
    ]  # fmt: skip
    apart = [each for each in weights if each is not None and each.scale.size > 1]
    floats = [each.data for each in read if each.data is not None and each.dtype in ("float32", "float16")]
    biases = [each.data for each in read[2:] if each.data is not None and each.dtype in ("int32", "int64")]
    bools = [each.data for each in read if each.data is not None and each.dtype == "bool"]
    keys = [each.data for each in read[1:2] if each.data is not None and each.dtype == "int32"]
    told = {
        "scales far apart": scales.size > 0 and max(scales.max() / scales.min(), scales.max()) > FAR,
        "scales from 1 on": bool(quants) and scales.size > 0 and scales.max() >= 1,
        "weights per channel": bool(apart),
        "weights with offsets": any(each is not None and each.zero_point.any() for each in weights),
        "weights with offsets per channel": any(each.zero_point.any() for each in apart),
        "output offset": any(each.quant is not None and each.quant.zero_point.any() for each in made[:1]),
        "constants below all normal numbers": any(each.size == 1 and 0 < abs(each.item()) < TINY for each in floats),
        "keys out of order": any((np.diff(each.reshape(-1)) <= 0).any() for each in keys),
        "scores below zero": len(floats) > 2 and name == "NON_MAX_SUPPRESSION_V5" and bool(floats[1] < 0 < floats[2]),
        "sparse constant": name != "DENSIFY"
        and any(each.sparsity is not None and (name, at) != ("FULLY_CONNECTED", 1) for at, each in enumerate(read)),
        "biases near 32 bits": any(
            (np.abs(each.astype(np.int64)) > 1 << 30).any() for each in biases if each.dtype == np.int32
        ),
        "biases beyond 47 bits": any((np.abs(each.astype(np.float64)) > 2.0**46).any() for each in biases),
        "computed weights": computed and read[1].dtype in ("int8", "uint8"),
        "more than 65536 numbers in one": bool(made) and prod(read[0].shape) > prod(made[0].shape) << 16
        if read
        else False,
        "scaled beyond 16 bits": given >= _scale(made[:1]) * 2.0**15 > 0,
        "products beyond 16 bits": name == "MUL" and given * _scale(read[1:2]) >= _scale(made[:1]) / 2.0 > 0,
        "coarse exponents": given > 1 / 512,
        "tiny scales": scales.size > 0 and scales.max() < 1e-6,
        "no numbers": any(0 in each.shape for each in read[:1]),
        "huge constants": any((np.abs(each) > 1e18).any() for each in floats),
        "long axes": bool(read) and max(read[0].shape, default=0) > 1 << 16,
        "weights per another axis": any(
            each is not None and each.axis != (3 if name == "DEPTHWISE_CONV_2D" else 0) for each in apart
        ),
        "open sizes": any(-1 in each.signature for each in read),
        "bools that are neither": any((each.view(np.uint8) > 1).any() for each in bools),
        "declared another shape": bool(made) and bool(read) and made[0].shape != read[0].shape,
        "constants that are no numbers": any(not np.isfinite(each).all() for each in floats),
    }
    return [trait for trait, holds in told.items() if holds]


def _scale(tensors: Sequence[Tensor]) -> float:
    """The scale of the only tensor that there is, 0 where it has none."""
    found = [each.quant.scale for each in tensors if each.quant is not None and each.quant.kind == "affine"]
    return float(found[0][0]) if found and found[0].size else 0.0


def _overwritten(graph: Subgraph, operator: Operator) -> list[str]:
    """Whether a recurrent operator keeps its states in tensors that are no variables, or that others write."""
    name = operator.name.removeprefix("UNIDIRECTIONAL_SEQUENCE_").removeprefix("BIDIRECTIONAL_SEQUENCE_")
    places = {"LSTM": (18, 19, 35, 36, 37, 38), "RNN": (4,), "SVDF": (4,)}.get(name, ())
    states = [operator.inputs[at] for at in places if at < len(operator.inputs)]
    variables = {tensor.index for tensor in graph.tensors if tensor.is_variable}
    variables -= {index for each in graph.operators for index in each.outputs}
    return ["states that others write"] if any(at >= 0 and at not in variables for at in states) else []


def _handed_on(model: Model, operator: Operator) -> list[str]:
    """Whether the body of a loop gives an input of its own back, at another place."""
    number = operator.options.get("body_subgraph_index", -1)
    if operator.name != "WHILE" or not 0 <= number < len(model.subgraphs):
        return []
    body = model.subgraphs[number]
    pairs = zip(body.inputs, body.outputs, strict=False)
    return ["hands inputs on"] if any(given != made and made in body.inputs for given, made in pairs) else []
