"""What every operator is: how many inputs and outputs it has, and of which types.

A line is an operator's name, its inputs, ``->`` and its outputs; an operator with several lines is as one of them says.
A port is the kinds of types that it may have, as letters of :data:`KINDS`, or ``=`` and the number of the input whose
type it has, the first if there is none. ``~`` is a port that may be empty, ``?`` one that may be missing as well,
``*`` stands for any number of them, ``xN`` for N of them. The numbers are those that LiteRT's kernels insist on. Types
are stated as the operator's meaning goes: floats of 16 or 64 bits are floats, even where LiteRT computes with 32 bits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from layoutsolve.base.fast_dataclasses import dataclass

KINDS: Mapping[str, tuple[str, ...]] = {
    "F": ("float32", "float16", "float64", "bfloat16"),
    "P": ("float32",),
    "Q": ("int8", "uint8", "int16"),
    "I": ("int32", "int64"),
    "E": ("int8",),
    "H": ("int16",),
    "N": ("int8", "uint8", "int4", "uint4", "int2"),
    "W": ("int32",),
    "L": ("uint32",),
    "M": ("uint64",),
    "U": ("uint8",),
    "Z": (
        "int32", "int64", "int8", "uint8", "int16", "uint16", "uint32", "uint64", "int4", "uint4", "int2",
    ),
    "B": ("bool",),
    "S": ("string",),
    "C": ("complex64",),
    "R": ("resource",),
    "V": ("variant", "complex128"),
}  # fmt: skip
"""The types of each kind: floats, the plain one, numbers that are quantised, indices, signed bytes, short ones, weights
that are quantised, the plain integer, 32 and 64 bits without sign, bytes, integers, truth values, texts, complex
numbers, handles, and types that nothing computes with.
"""

_GATES = "P =2~ PN =2 =2 =2~ =2x3 =2~x3 P~ Px3 =2~ P~"
"""What an LSTM of floats reads before its states: weights are of one type."""

_SHORT_GATES = "E E~ Ex3 E~ Ex3 H~x3 W~x4 E~ W~"
"""The same of integers."""

_TABLE = f"""
ABS                          FZ -> =
ADD                          FZ = -> =
ADD_N                        FZ = =* -> =
ARG_MAX                      FZB I -> I
ARG_MIN                      FZB I -> I
ASSIGN_VARIABLE              R FZBS ->
ATAN2                        F = -> =
AVERAGE_POOL_2D              FQ -> =
BATCH_MATMUL                 FZ FZ -> =
BATCH_MATMUL                 Q Q -> W
BATCH_TO_SPACE_ND            FZB I I -> =
BIDIRECTIONAL_SEQUENCE_LSTM  {_GATES} =2~ =2x3 =2~ =2x3 =2~x3 P~ Px3 =2~ P~ Px4 P~ =2~x8 -> P P?
BIDIRECTIONAL_SEQUENCE_RNN   P PN =1 P P =1 =1 P P P~ =1~ =1~ -> P P?
BITCAST                      FZB -> FZB
BITWISE_XOR                  ZB = -> =
BROADCAST_ARGS               I = -> =
BROADCAST_TO                 FZBS I -> =
BUCKETIZE                    FZ -> I
CALL                         FZBSCR* -> FZBSCR*
CALL_ONCE                    ->
CAST                         FZBC -> FZBC
CEIL                         F -> =
COMPLEX_ABS                  C -> F
CONCATENATION                FZBS FZBS* -> =
CONV_2D                      FQ FN FI? -> =
CONV_3D                      F F F? -> =
CONV_3D_TRANSPOSE            I F F F? -> =2
COS                          F -> =
CUMSUM                       FZ I -> =
DENSIFY                      FZB -> =
DEPTHWISE_CONV_2D            FQ FN FI? -> =
DEPTH_TO_SPACE               FZB -> =
DEQUANTIZE                   FZ -> F
DILATE                       FZB I = -> =
DIV                          FZ = -> =
DYNAMIC_UPDATE_SLICE         FZBS = I -> =
ELU                          FQ -> =
EMBEDDING_LOOKUP             I FZB -> =1
EMBEDDING_LOOKUP             I Z -> F
EMBEDDING_LOOKUP_SPARSE      I I I F FZ -> F
EQUAL                        FZBS = -> B
EXP                          FQ -> =
EXPAND_DIMS                  FZBSC I -> =
FAKE_QUANT                   F -> =
FILL                         I FZBS -> =1
FLOOR                        F -> =
FLOOR_DIV                    FZ = -> =
FLOOR_MOD                    FZ = -> =
FULLY_CONNECTED              FQ FN FI? -> =
FULLY_CONNECTED              H H I? -> =
GATHER                       FZBS IH -> =
GATHER_ND                    FZBS IH -> =
GELU                         FQ -> =
GREATER                      FZ = -> B
GREATER_EQUAL                FZ = -> B
HARD_SWISH                   FQ -> =
HASHTABLE                    -> R
HASHTABLE_FIND               R IS IS -> =2
HASHTABLE_IMPORT             R IS IS ->
HASHTABLE_LOOKUP             I I FZS -> =2 U
HASHTABLE_SIZE               R -> I
IF                           B FZBSCR* -> FZBSCR*
IMAG                         C -> F
L2_NORMALIZATION             FQ -> =
L2_POOL_2D                   F -> =
LEAKY_RELU                   FQ -> =
LESS                         FZ = -> B
LESS_EQUAL                   FZ = -> B
LOCAL_RESPONSE_NORMALIZATION F -> =
LOG                          FQ -> =
LOGICAL_AND                  B B -> B
LOGICAL_NOT                  B -> B
LOGICAL_OR                   B B -> B
LOGISTIC                     FQ -> =
LOG_SOFTMAX                  FQ -> =
LSTM                         {_GATES} P P -> P
LSTM                         {_GATES} P P P~x4 -> P
LSTM                         {_SHORT_GATES} E H -> E
LSTM                         {_SHORT_GATES} E H H~x4 -> E
LSTM                         Px5 -> Px4
LSTM                         U U U W H -> U H U H
MATRIX_DIAG                  FZB -> =
MATRIX_SET_DIAG              FZB = -> =
MAXIMUM                      FZ = -> =
MAX_POOL_2D                  FQ -> =
MEAN                         FZ I -> =
MINIMUM                      FZ = -> =
MIRROR_PAD                   FZB I -> =
MUL                          FZ = -> =
MULTINOMIAL                  F I -> I
NEG                          FZ -> =
NON_MAX_SUPPRESSION_V4       F F I F F -> I I
NON_MAX_SUPPRESSION_V5       F F I F F F -> I F I
NOT_EQUAL                    FZBS = -> B
ONE_HOT                      I I FZB =2 -> =2
PACK                         FZBS =* -> =
PAD                          FZB IH -> =
PADV2                        FZB IH = -> =
POW                          FZ = -> =
PRELU                        FQ = -> =
PRELU                        H E -> =
QUANTIZE                     FZ -> Z
RANDOM_STANDARD_NORMAL       I -> F
RANDOM_UNIFORM               I -> F
RANGE                        FZ = = -> =
RANK                         FZBSCRV -> W
READ_VARIABLE                R -> FZBS
REAL                         C -> F
REDUCE_ALL                   B I -> B
REDUCE_ANY                   B I -> B
REDUCE_MAX                   FZ I -> =
REDUCE_MIN                   FZ I -> =
REDUCE_PROD                  FZ I -> =
REDUCE_WINDOW                FZB = I I I -> =
RELU                         FQ -> =
RELU6                        FQ -> =
RELU_0_TO_1                  FQ -> =
RELU_N1_TO_1                 FQ -> =
RESHAPE                      FZBSC I? -> =
RESIZE_BILINEAR              FQ I -> =
RESIZE_NEAREST_NEIGHBOR      FZB I -> =
REVERSE_SEQUENCE             FZB I -> =
REVERSE_V2                   FZB I -> =
RFFT2D                       F I -> C
RIGHT_SHIFT                  Z = -> =
RNN                          P PN =1 P P -> P
ROUND                        F -> =
RSQRT                        FQ -> =
SCATTER_ND                   I FZB I -> =1
SEGMENT_SUM                  FZ I -> =
SELECT                       B FZBS =1 -> =1
SELECT_V2                    B FZBS =1 -> =1
SHAPE                        FZBSCRV -> I
SIGN                         FZ -> =
SIN                          F -> =
SLICE                        FZBS I I -> =
SOFTMAX                      FQ -> =
SOFTMAX                      Q -> H
SPACE_TO_BATCH_ND            FZB I I -> =
SPACE_TO_DEPTH               FZB -> =
SPARSE_TO_DENSE              I I FZB =2 -> =2
SPLIT                        I FZBS -> =1 =1*
SPLIT_V                      FZBS I I -> = =*
SQRT                         FQ -> =
SQUARE                       F -> =
SQUARED_DIFFERENCE           FZ = -> =
SQUEEZE                      FZBSC -> =
STRIDED_SLICE                FZBS I I I -> =
SUB                          FZ = -> =
SUM                          FZ I -> =
SVDF                         P PN =1 P~ P -> P
SVDF                         E E EH W~ EH -> E
TANH                         FQ -> =
TILE                         FZBS I -> =
TOPK_V2                      FZ IH -> = IH
TRANSPOSE                    FZBSC W -> =
TRANSPOSE_CONV               I FN FQ FI? -> =2
UNIDIRECTIONAL_SEQUENCE_LSTM {_GATES} P P -> P
UNIDIRECTIONAL_SEQUENCE_LSTM {_GATES} P P P~x4 -> P
UNIDIRECTIONAL_SEQUENCE_LSTM {_SHORT_GATES} E H -> E
UNIDIRECTIONAL_SEQUENCE_LSTM {_SHORT_GATES} E H H~x4 -> E
UNIDIRECTIONAL_SEQUENCE_RNN  P PN =1 P P -> P
UNIQUE                       FZ -> = I
UNPACK                       FZBS -> = =*
UNSORTED_SEGMENT_MAX         FZ I I -> =
UNSORTED_SEGMENT_MIN         FZ I I -> =
UNSORTED_SEGMENT_PROD        FZ I I -> =
UNSORTED_SEGMENT_SUM         FZ I I -> =
VAR_HANDLE                   -> R
WHERE                        FZB -> I
WHILE                        FZBSCR* -> FZBSCR*
ZEROS_LIKE                   FZB -> =

STABLEHLO_ABS                  FZ -> =
STABLEHLO_ADD                  FZB = -> =
STABLEHLO_AND                  FZB = -> =
STABLEHLO_BROADCAST_IN_DIM     FZB -> =
STABLEHLO_CBRT                 F -> =
STABLEHLO_CLAMP                FZ = = -> =
STABLEHLO_COMPARE              FZB = -> B
STABLEHLO_COMPOSITE            FZBSCR* -> FZBSCR*
STABLEHLO_CONCATENATE          FZB =* -> =
STABLEHLO_CONVERT              FZB -> FZB
STABLEHLO_CONVOLUTION          FZ FZ -> FZ
STABLEHLO_COSINE               F -> =
STABLEHLO_DIVIDE               FZ = -> =
STABLEHLO_DOT_GENERAL          FZ FZ -> FZ
STABLEHLO_DYNAMIC_SLICE        FZB I* -> =
STABLEHLO_DYNAMIC_UPDATE_SLICE FZB = I* -> =
STABLEHLO_EXPONENTIAL          F -> =
STABLEHLO_FLOOR                F -> =
STABLEHLO_GATHER               FZB I -> =
STABLEHLO_IOTA                 -> FZ
STABLEHLO_LOG                  F -> =
STABLEHLO_LOGISTIC             F -> =
STABLEHLO_MAXIMUM              FZB = -> =
STABLEHLO_MINIMUM              FZB = -> =
STABLEHLO_MULTIPLY             FZB = -> =
STABLEHLO_NEGATE               FZ -> =
STABLEHLO_OR                   FZB = -> =
STABLEHLO_PAD                  FZB = -> =
STABLEHLO_POWER                FZ = -> =
STABLEHLO_REDUCE               FZB = -> =
STABLEHLO_REDUCE_WINDOW        FZB = -> =
STABLEHLO_REMAINDER            FZ = -> =
STABLEHLO_RESHAPE              FZB -> =
STABLEHLO_RSQRT                F -> =
STABLEHLO_SCATTER              FZB I = -> =
STABLEHLO_SELECT               B FZB =1 -> =1
STABLEHLO_SHIFT_LEFT           FZ = -> =
STABLEHLO_SLICE                FZB -> =
STABLEHLO_SORT                 FZB FZB* -> FZB FZB*
STABLEHLO_SUBTRACT             FZ = -> =
STABLEHLO_TANH                 F -> =
STABLEHLO_TRANSPOSE            FZB -> =
STABLEHLO_WHILE                FZBSCR* -> FZBSCR*

CUSTOM:AudioSpectrogram             P -> P
CUSTOM:Convolution2DTransposeBias   F F F -> =
CUSTOM:Landmarks2TransformMatrix    F -> =
CUSTOM:LiteRtMaxUnpooling2D         F FI -> =
CUSTOM:Mfcc                         P W -> P
CUSTOM:NumericVerify                FQ P -> P?
CUSTOM:MaxPoolingWithArgmax2D       F -> = FI
CUSTOM:MaxUnpooling2D               F FI -> =
CUSTOM:SignalDelay                  H -> =
CUSTOM:SignalEnergy                 H -> L
CUSTOM:SignalFftAutoScale           H -> = W
CUSTOM:SignalFilterBank             L H H H H H -> M
CUSTOM:SignalFilterBankLog          L -> H
CUSTOM:SignalFilterBankSpectralSubtraction L -> L L
CUSTOM:SignalFilterBankSquareRoot   M W -> L
CUSTOM:SignalFramer                 H -> = B
CUSTOM:SignalIrfft                  HWP -> =
CUSTOM:SignalOverlapAdd             HP -> =
CUSTOM:SignalPCAN                   L L H -> L
CUSTOM:SignalRfft                   HWP -> =
CUSTOM:SignalStacker                H -> = B
CUSTOM:SignalWindow                 H H -> =
CUSTOM:PosenetDecoderOp             PU PU PU -> P P P P
CUSTOM:PosenetDecoderOp             PU PU PU PU -> P P P P P
CUSTOM:FlexAvgPool                  F -> =
CUSTOM:FlexAvgPool3D                F -> =
CUSTOM:FlexBitwiseAnd               Z = -> =
CUSTOM:FlexBitwiseOr                Z = -> =
CUSTOM:FlexBitwiseXor               Z = -> =
CUSTOM:FlexDivNoNan                 F = -> =
CUSTOM:FlexEinsum                   FZ =* -> =
CUSTOM:FlexExtractImagePatches      FZ -> =
CUSTOM:FlexInvert                   Z -> =
CUSTOM:FlexIsFinite                 F -> B
CUSTOM:FlexLeftShift                Z = -> =
CUSTOM:FlexMatrixBandPart           FZB I I -> =
CUSTOM:FlexMatrixDeterminant        F -> =
CUSTOM:FlexMaxPool                  F -> =
CUSTOM:FlexMaxPool3D                F -> =
CUSTOM:FlexMaxPoolWithArgmax        F -> = I
CUSTOM:FlexMulNoNan                 F = -> =
CUSTOM:FlexResizeBicubic            F I -> P
CUSTOM:FlexRightShift               Z = -> =
CUSTOM:FlexRoll                     FZB I I -> =
CUSTOM:FlexTruncateDiv              Z = -> =
CUSTOM:FlexTruncateMod              Z = -> =
CUSTOM:FlexXdivy                    F = -> =
CUSTOM:FlexXlogy                    F = -> =
CUSTOM:FlexRaggedTensorToTensor     I FZBS =1 I I* -> =1
CUSTOM:RaggedTensorToTensor         I FZBS =1 I I* -> =1
CUSTOM:TFLite_Detection_PostProcess PU PU = -> P P P P
CUSTOM:TransformLandmarks           F F -> =
CUSTOM:TransformTensor              F F -> =
CUSTOM:TransformTensorBilinear      F F -> =
CUSTOM:aeq.hadamard_rotation        F -> =
"""

_PORT = re.compile(r"(?:(?P<kinds>[A-Z]+)|=(?P<like>\d*))(?P<mark>[~?*]?)(?:x(?P<count>\d+))?")


@dataclass(frozen=True)
class Port:
    """One input or output: the types it may have, or the number of the input (``like``) whose type it has.

    ``mark`` says whether it may be empty, missing, or there any number of times.
    """

    types: tuple[str, ...]
    like: int
    mark: str


@dataclass(frozen=True)
class Ports:
    """The inputs or the outputs of an operator; the last one may stand for any number of them."""

    ports: tuple[Port, ...]

    @property
    def least(self) -> int:
        """The smallest number of them."""
        return sum(port.mark not in ("?", "*") for port in self.ports)

    @property
    def most(self) -> int | None:
        """The greatest number of them, None where there is no limit."""
        return None if self.ports and self.ports[-1].mark == "*" else len(self.ports)

    def at(self, position: int) -> Port:
        """The port at a position."""
        return self.ports[min(position, len(self.ports) - 1)]

    def admit(self, count: int) -> bool:
        """Whether there can be so many of them."""
        return self.least <= count and (self.most is None or count <= self.most)

    def __str__(self) -> str:
        if self.most is None:
            return f"{self.least} or more"
        return f"{self.least}" if self.least == self.most else f"{self.least} to {self.most}"


@dataclass(frozen=True)
class Definition:
    """What an operator is given and gives."""

    inputs: Ports
    outputs: Ports


@cache
def definitions(operator: str) -> tuple[Definition, ...]:
    """What an operator may be like; empty where nothing is known about it."""
    return tuple(definition(line) for line in _lines().get(operator, ()))


@cache
def _lines() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in _TABLE.splitlines():
        if line:
            name, ports = line.split(maxsplit=1)
            found.setdefault(name, []).append(ports)
    return found


@cache
def definition(line: str) -> Definition:
    """The definition that a line of the table states, given without the operator's name."""
    inputs, outputs = line.split("->")
    return Definition(_read(inputs), _read(outputs))


def _read(side: str) -> Ports:
    return Ports(tuple(port for word in side.split() for port in _ports(word)))


def _ports(word: str) -> tuple[Port, ...]:
    found = _PORT.fullmatch(word)
    if found is None:
        raise ValueError(f"'{word}' is no port")
    types = tuple(name for kind in found["kinds"] or "" for name in KINDS[kind])
    return (Port(types, int(found["like"] or 0), found["mark"]),) * int(found["count"] or 1)
