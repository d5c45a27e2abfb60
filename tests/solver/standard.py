"""Cases of the rest of ONNX's operators: few networks have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tests.graphs import GraphBuilder
from tests.solver.cases import RELATED, Random, case, dims, result, tensor, vector
from tests.solver.siblings import PRIVATE, own

ML = "ai.onnx.ml:"


def matrix(random: Random, *last: int) -> list[int]:
    """A shape of a few dimensions before the last ones."""
    return [*dims(random, int(random.integers(0, 3)), (1, 2, 3, 4)), *last]


@case("Hardmax", "LpNormalization", "CumProd", among=RELATED)
def along(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(1, 5)))
    axis, x = int(random.integers(0, len(shape))), tensor(builder, random, shape)
    if op == "CumProd":
        how = {"reverse": int(random.integers(0, 2)), "exclusive": int(random.integers(0, 2))}
        return [result(builder, random, builder.op(op, x, builder.constant(axis, "int64"), shape=shape, **how))]
    how = {"p": int(random.integers(1, 3))} if op.startswith("Lp") else {}
    return [result(builder, random, builder.op(op, x, shape=shape, axis=axis, **how))]


@case("ReduceLogSum", among=RELATED)
def reduced(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(1, 5)))
    axes = sorted(random.choice(len(shape), int(random.integers(1, len(shape) + 1)), replace=False).tolist())
    x = tensor(builder, random, shape)
    x = builder.op("Exp", x, shape=shape)
    out = [1 if axis in axes else dim for axis, dim in enumerate(shape)]
    return [result(builder, random, builder.op(op, x, builder.constant(axes, "int64"), shape=out))]


@case("MeanVarianceNormalization", among=RELATED)
def mean_variance(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(1, 5)), (2, 3, 4))
    axes = sorted(random.permutation(len(shape))[: random.integers(1, len(shape) + 1)].tolist())
    return [result(builder, random, builder.op(op, tensor(builder, random, shape), shape=shape, axes=axes))]


@case("RMSNormalization", among=RELATED)
def root_mean_square(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(2, 5)), (1, 2, 4))
    axis, x = int(random.integers(1, len(shape))), tensor(builder, random, shape)
    scale = builder.constant(random.normal(size=shape[axis:]))
    return [result(builder, random, builder.op(op, x, scale, shape=shape, axis=axis - len(shape), epsilon=1e-3))]


@case("GroupNormalization", among=RELATED)
def group_normalization(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    groups, each = int(random.choice([1, 2, 3])), int(random.choice([1, 2, 4]))
    shape = [int(random.choice([1, 2])), groups * each, *dims(random, int(random.integers(1, 3)), (2, 3, 4))]
    numbers = [builder.weights(groups * each), builder.weights(groups * each)]
    if random.random() < 0.3:
        numbers[0] = tensor(builder, random, [groups * each])
    x = tensor(builder, random, shape)
    return [result(builder, random, builder.op(op, x, *numbers, shape=shape, num_groups=groups))]


@case("Einsum", among=RELATED)
def einsum(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    equations = (
        "bij,bjk->bik",
        "bqhd,bkhd->bhqk",
        "ij,jk",
        "ii->i",
        "...ij,...jk->...ki",
        "ab,ac,ad->bcd",
        "abc->ca",
        "ab,ab->",
    )
    equation, sizes = str(random.choice(equations)), dict(zip("abcdhijkq.", dims(random, 10, (1, 2, 3)), strict=True))
    left, arrow, right = equation.replace("...", ".").partition("->")
    right = right if arrow else "ik"
    given = [[sizes[letter] for letter in term] for term in left.split(",")]
    names = [tensor(builder, random, shape) for shape in given]
    if len(names) > 1 and random.random() < 0.4:
        names[-1] = builder.weights(*given[-1])
    out = [sizes[letter] for letter in right]
    made = builder.op(op, *names, shape=out, equation=equation)
    return [result(builder, random, made) if out else made]


@case("GatherElements", among=RELATED)
def gather_elements(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(1, 4)), (2, 4, 6))
    axis = int(random.integers(0, len(shape)))
    part = [3 if at == axis else dim - int(random.random() < 0.2) for at, dim in enumerate(shape)]
    x = tensor(builder, random, shape)
    if random.random() < 0.5:
        places = builder.constant(random.integers(0, 2, part), "int64")
    else:
        places = tensor(builder, random, part, "int64")
    return [result(builder, random, builder.op(op, x, places, shape=part, axis=axis))]


@case("TensorScatter", among=RELATED)
def cache(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = [2, *dims(random, 3, (2, 3, 4))]
    axis = int(random.integers(1, 4))
    shape[axis] = 5
    part = [2 if at == axis else dim for at, dim in enumerate(shape)]
    rest = [builder.input(2, dtype="int64")] if random.random() < 0.7 else []
    x, update = tensor(builder, random, shape), tensor(builder, random, part)
    return [result(builder, random, builder.op(op, x, update, *rest, shape=shape, axis=axis))]


@case("Compress", among=RELATED)
def compress(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(1, 5)), (2, 3, 4))
    axis = int(random.integers(0, len(shape)))
    chosen = builder.constant([True, False, *[True] * (shape[axis] - 2)], "bool")
    out = [dim - 1 if at == axis else dim for at, dim in enumerate(shape)]
    return [result(builder, random, builder.op(op, tensor(builder, random, shape), chosen, shape=out, axis=axis))]


@case("CenterCropPad", among=RELATED)
def center(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(1, 5)), (2, 3, 4))
    axes = [int(axis) for axis in random.permutation(len(shape))[: int(random.integers(1, len(shape) + 1))]]
    sizes = [int(random.choice([1, 2, 5])) for _ in axes]
    out = list(shape)
    for axis, size in zip(axes, sizes, strict=True):
        out[axis] = size
    x = tensor(builder, random, shape)
    return [result(builder, random, builder.op(op, x, vector(builder, random, sizes), shape=out, axes=axes))]


@case("Unique", among=RELATED)
def unique(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(1, 4)), (2, 3, 4))
    x = builder.op("Mul", tensor(builder, random, shape), builder.constant(0.0), shape=shape)
    x = builder.op("Add", x, builder.constant(np.arange(np.prod(shape)).reshape(shape) % 2), shape=shape)
    if random.random() < 0.5:
        return [builder.op(op, x, shape=[2])]
    axis = int(random.integers(0, len(shape)))
    step = builder.constant(3 * np.arange(shape[axis]).reshape([-1 if at == axis else 1 for at in range(len(shape))]))
    x = builder.op("Add", x, step, shape=shape)
    return [result(builder, random, builder.op(op, x, shape=shape, axis=axis, sorted=0))]


@case("OneHot", among=RELATED)
def one_hot(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(1, 4)))
    axis, x = int(random.integers(0, len(shape) + 1)), tensor(builder, random, shape, "int64")
    pair = builder.constant([0.5, 2.0]) if random.random() < 0.7 else builder.input(2)
    out = [*shape[:axis], 3, *shape[axis:]]
    return [result(builder, random, builder.op(op, x, builder.constant(3, "int64"), pair, shape=out, axis=axis))]


@case("ConstantOfShape", among=RELATED)
def filled(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(1, 5)))
    y = builder.op(op, vector(builder, random, shape), shape=shape)
    return [result(builder, random, builder.add(y, tensor(builder, random, shape)))]


@case("QuantizeLinear", "DequantizeLinear", among=RELATED)
def quantized(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape, kind = dims(random, int(random.integers(1, 5)), (2, 4, 6)), int(random.integers(0, 3))
    axis = int(random.integers(0, len(shape)))
    sizes: list[list[int]] = [[], [shape[axis]], [dim // 2 if at == axis else dim for at, dim in enumerate(shape)]]
    scale = builder.constant(np.exp2(-random.integers(1, 4, sizes[kind])))
    if kind and random.random() < 0.4:
        scale = builder.op("Abs", tensor(builder, random, sizes[kind]), shape=sizes[kind])
        scale = builder.op("Add", scale, builder.constant(0.5), shape=sizes[kind])
    zero = builder.constant(random.integers(-3, 3, sizes[kind]), "int8")
    before, after = ("float32", "int8") if op == "QuantizeLinear" else ("int8", "float32")
    how = {"axis": axis, **({"block_size": 2} if kind == 2 else {})} if kind else {}
    x = tensor(builder, random, shape, before)
    return [result(builder, random, builder.op(op, x, scale, zero, shape=shape, dtype=after, **how))]


@case("Size", "Dropout", "SwiGLU", "StringConcat", "RegexFullMatch", among=RELATED)
def plain(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(1, 5)))
    if op in ("StringConcat", "RegexFullMatch"):
        x, y = (
            builder.op("Cast", tensor(builder, random, shape, "int64"), shape=shape, dtype="string", to="string")
            for _ in range(2)
        )
        if op == "StringConcat":
            made = builder.op(op, x, y, shape=shape, dtype="string")
            made = builder.op("Cast", made, shape=shape, dtype="int64", to="int64")
            return [result(builder, random, made)]
        return [result(builder, random, builder.op(op, x, shape=shape, dtype="bool", pattern="[0]"))]
    x = tensor(builder, random, shape)
    if op == "Size":
        return [builder.op(op, x, shape=[], dtype="int64")]
    if op == "SwiGLU":
        return [result(builder, random, builder.op(op, x, tensor(builder, random, shape), shape=shape))]
    y, mask = builder.many(op, x, shapes=[shape, shape])
    builder.retype(mask, "bool")
    return [result(builder, random, y), result(builder, random, mask)]


@case("Det", "EyeLike", "Trilu", f"{PRIVATE}Inverse", f"{PRIVATE}Trilu", among=RELATED)
def matrices(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    rows = int(random.choice([1, 2, 3]))
    if op == "EyeLike":
        shape = [rows, int(random.choice([1, 2, 3]))]
        x = tensor(builder, random, shape)
        return [result(builder, random, builder.op(op, x, shape=shape, k=int(random.integers(-1, 2))))]
    shape = matrix(random, rows, rows)
    x = tensor(builder, random, shape)
    if op == "Det":
        made = builder.op(op, x, shape=shape[:-2])
        return [result(builder, random, made) if shape[:-2] else made]
    if op.endswith("Inverse"):
        x = builder.add(x, builder.constant(5 * np.eye(rows)))
        return [result(builder, random, own(builder, op, x, shape=shape, dtype="float32"))]
    k = [] if random.random() < 0.3 else [builder.constant(1, "int64")]
    if random.random() < 0.3:
        k = [builder.input(dtype="int64")]
    made = own(builder, op, x, *k, shape=shape, dtype="float32", upper=int(random.integers(0, 2)))
    return [result(builder, random, made)]


@case("GlobalLpPool", among=RELATED)
def pooled(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, 4, (1, 2, 4))
    x = tensor(builder, random, shape)
    return [result(builder, random, builder.op(op, x, shape=[*shape[:2], 1, 1], p=int(random.choice([1, 2, 3]))))]


@case("MaxRoiPool", "RoiAlign", f"{PRIVATE}CropAndResize", among=RELATED)
def regions(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    batch, channels, count = dims(random, 3, (1, 2, 4))
    x = tensor(builder, random, [batch, channels, 6, 5])
    boxes = np.tile([0.0, 0.0, 3.0, 4.0], (count, 1)) + random.integers(0, 2, (count, 4))
    if op == "MaxRoiPool":
        rois = builder.constant(np.concatenate([np.zeros((count, 1)), boxes], 1))
        return [result(builder, random, builder.op(op, x, rois, shape=[count, channels, 2, 3], pooled_shape=[2, 3]))]
    if op.endswith("Resize"):
        rois, which = builder.constant(boxes / 9), builder.constant([0] * count, "int32")
        size = builder.constant([2, 3], "int32")
        return [
            result(
                builder, random, own(builder, op, x, rois, which, size, shape=[count, channels, 2, 3], dtype="float32")
            )
        ]
    rois, which = builder.constant(boxes), builder.constant([0] * count, "int64")
    if random.random() < 0.4:
        rois = builder.op("Abs", tensor(builder, random, [count, 4]), shape=[count, 4])
    how = {"output_height": 2, "output_width": 3, "sampling_ratio": 2}
    return [result(builder, random, builder.op(op, x, rois, which, shape=[count, channels, 2, 3], **how))]


@case("Col2Im", among=RELATED)
def columns(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    """Blocks that are as high as wide or not, apart or not; sometimes of lines or volumes."""
    (batch, channels), rank = dims(random, 2, (1, 2, 4)), int(random.choice([1, 2, 2, 2, 3]))
    kernel, strides, gaps = (random.integers(1, 3, rank) for _ in range(3))
    pads, places = random.integers(0, 2, (2, rank)), random.integers(1, 4, rank)
    space = (places - 1) * strides + gaps * (kernel - 1) + 1 - pads.sum(0)
    if (space < 1).any():
        pads, space = 0 * pads, space + pads.sum(0)
    x = tensor(builder, random, [batch, channels * int(kernel.prod()), int(places.prod())])
    given = builder.constant(space.tolist(), "int64"), builder.constant(kernel.tolist(), "int64")
    how = {"strides": strides.tolist(), "dilations": gaps.tolist(), "pads": pads.reshape(-1).tolist()}
    shape = [batch, channels, *space.tolist()]
    return [result(builder, random, builder.op(op, x, *given, shape=shape, **how))]


@case("AffineGrid", among=RELATED)
def grid(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    """Points of images or of volumes, by matrices that are computed or constant."""
    batch, space = int(random.choice([1, 2, 4])), [4, 5] if random.random() < 0.7 else [2, 4, 3]
    sizes, theta = builder.constant([batch, 3, *space], "int64"), [batch, len(space), len(space) + 1]
    x = tensor(builder, random, theta)
    shape = [batch, *space, len(space)]
    made = builder.op(op, x, sizes, shape=shape, align_corners=int(random.integers(2)))
    return [result(builder, random, made)]


@case("DeformConv", among=RELATED)
def deformed(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    batch, known = int(random.choice([1, 2, 4])), random.random() < 0.6
    x, kernel = tensor(builder, random, [batch, 3, 5, 4]), [2, int(random.choice([1, 2]))]
    space, taps = [5 + 2 - kernel[0] + 1, 4 - kernel[1] + 1], kernel[0] * kernel[1]
    other = builder.weights if known else lambda *shape: tensor(builder, random, list(shape))
    offset = other(batch, 2 * taps, *space)
    rest = [builder.weights(4), other(batch, taps, *space)] if random.random() < 0.5 else []
    how = {"kernel_shape": kernel, "pads": [1, 0, 1, 0]}
    y = builder.op(op, x, builder.weights(4, 3, *kernel), offset, *rest, shape=[batch, 4, *space], **how)
    return [result(builder, random, y)]


@case("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", among=RELATED)
def loss(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    batch, *space = dims(random, int(random.integers(1, 4)), (1, 2, 3))
    x, target = tensor(builder, random, [batch, 2, *space]), tensor(builder, random, [batch, *space], "int64")
    rest = [builder.constant([0.5, 2.0])] if random.random() < 0.5 else []
    reduction = str(random.choice(["none", "mean", "sum"]))
    out = [batch, *space] if reduction == "none" else []
    made = builder.op(op, x, target, *rest, shape=out, reduction=reduction)
    return [result(builder, random, made) if out else made]


@case("STFT", among=RELATED)
def spectrum(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    batch = int(random.choice([1, 2, 4]))
    x, window = tensor(builder, random, [batch, 16, 1]), builder.constant(np.hanning(8))
    step, length = builder.constant(4, "int64"), builder.constant(8, "int64")
    return [result(builder, random, builder.op(op, x, step, window, length, shape=[batch, 3, 5, 2], onesided=1))]


@case("TfIdfVectorizer", among=RELATED)
def counted(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    batch = int(random.choice([1, 2, 4]))
    how: dict[str, Any] = {"max_gram_length": 1, "max_skip_count": 0, "min_gram_length": 1, "mode": "TF"}
    how |= {"ngram_counts": (0,), "ngram_indexes": (0, 1), "pool_int64s": (0, 1)}
    x = tensor(builder, random, [batch, 6], "int64")
    return [result(builder, random, builder.op(op, x, shape=[batch, 2], **how))]


@case("StringSplit", among=RELATED)
def pieces(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(1, 4)), (1, 2, 3))
    x = builder.op("Cast", tensor(builder, random, shape, "int64"), shape=shape, dtype="string", to="string")
    y, count = builder.many(op, x, shapes=[[*shape, 1], shape], dtype="string", delimiter="x")
    builder.retype(count, "int64")
    y = builder.op("Cast", y, shape=[*shape, 1], dtype="int64", to="int64")
    return [result(builder, random, y), result(builder, random, count)]


@case("CausalConvWithState", among=RELATED)
def causal(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    batch, channels, length = dims(random, 3, (1, 2, 4))
    x, weights = tensor(builder, random, [batch, channels, length]), builder.weights(channels, 1, 3)
    past = tensor(builder, random, [batch, channels, 2])
    y, state = builder.many(
        op, x, weights, builder.weights(channels), past, shapes=[[batch, channels, length], [batch, channels, 2]]
    )
    return [result(builder, random, y), result(builder, random, state)]


@case("Attention", among=RELATED)
def attention(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    batch, heads, queries, keys, size, value = dims(random, 6, (1, 2, 4))
    apart, past = bool(random.integers(0, 2)), int(random.choice([0, 2]))
    shapes = [[batch, heads, queries, size], [batch, heads, keys, size], [batch, heads, keys, value]]
    out = [batch, heads, queries, value]
    how: dict[str, Any] = {"is_causal": int(random.integers(0, 2)) if not past else 0}
    if not apart:
        shapes, out = [[b, s, h * d] for b, h, s, d in shapes], [batch, queries, heads * value]
        how |= {"q_num_heads": heads, "kv_num_heads": heads}
    given = [tensor(builder, random, shape) for shape in shapes]
    if random.random() < 0.4 or past:
        mask = [heads, queries, keys + past][int(random.integers(0, 2)) :]
        given.append(tensor(builder, random, mask))
    results = [out]
    if past:
        given += [tensor(builder, random, [batch, heads, past, each]) for each in (size, value)]
        results += [[batch, heads, keys + past, each] for each in (size, value)]
    made = builder.many(op, *given, shapes=results, **how)
    return [result(builder, random, name) for name in made]


@case(f"{PRIVATE}MultiHeadAttention", among=RELATED)
def heads(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    batch, count, queries, keys, size = dims(random, 5, (1, 2, 4))
    given = [tensor(builder, random, [batch, length, count * size]) for length in (queries, keys, keys)]
    out = [batch, queries, count * size]
    return [result(builder, random, own(builder, op, *given, shape=out, dtype="float32", num_heads=count))]


@case("RotaryEmbedding", f"{PRIVATE}RotaryEmbedding", among=RELATED)
def rotary(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    batch, count, length = dims(random, 3, (1, 2, 4))
    size, apart = int(random.choice([2, 4])), bool(random.integers(0, 2))
    shape = [batch, count, length, size] if apart else [batch, length, count * size]
    x, how = tensor(builder, random, shape), {} if apart and op == "RotaryEmbedding" else {"num_heads": count}
    tables = [builder.weights(8, size // 2) for _ in range(2)]
    places = tensor(builder, random, [batch, length], "int64")
    if op != "RotaryEmbedding":
        given = [places if random.random() < 0.6 else builder.constant([1], "int64"), *tables]
    elif random.random() < 0.5:
        given = [*tables, places]
    else:
        given = [tensor(builder, random, [batch, length, size // 2]) for _ in range(2)]
    return [result(builder, random, own(builder, op, x, *given, shape=shape, dtype="float32", **how))]


@case(
    f"{ML}Binarizer",
    f"{ML}CategoryMapper",
    f"{ML}Imputer",
    f"{ML}Scaler",
    f"{ML}OneHotEncoder",
    f"{ML}ArrayFeatureExtractor",
    among=RELATED,
)
def features(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, 2 if op.endswith(("Scaler", "Imputer")) else int(random.integers(2, 5)))
    x = tensor(builder, random, shape, "int64" if op.endswith("Encoder") else "float32")
    if op.endswith("Extractor"):
        out = [*shape[:-1], 2]
        places = builder.constant(np.zeros((1, 2)), "int64")
        return [result(builder, random, own(builder, op, x, places, shape=out, dtype="float32"))]
    if op.endswith("Encoder"):
        out = [*shape, 2]
        return [result(builder, random, own(builder, op, x, shape=out, dtype="float32", cats_int64s=(0, 1)))]
    if op.endswith("Mapper"):
        x = builder.op("Cast", x, shape=shape, dtype="int64", to="int64")
        x = own(
            builder, op, x, shape=shape, dtype="string", cats_int64s=(0, 1), cats_strings=("7", "8"), default_string="9"
        )
        return [result(builder, random, builder.op("Cast", x, shape=shape, dtype="int64", to="int64"))]
    how: dict[str, Any] = {
        "Binarizer": {"threshold": 0.25}, "Imputer": {"imputed_value_floats": (1.5,), "replaced_value_float": 0.0},
        "Scaler": {"offset": (0.5,), "scale": (2.0,)},
    }[op.removeprefix(ML)]  # fmt: skip
    return [result(builder, random, own(builder, op, x, shape=shape, dtype="float32", **how))]


@case(f"{PRIVATE}CDist", among=RELATED)
def distances(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    m, n, k = dims(random, 3, (2, 4, 6))
    x, y = tensor(builder, random, [m, k]), tensor(builder, random, [n, k])
    return [result(builder, random, own(builder, op, x, y, shape=[m, n], dtype="float32", metric="sqeuclidean"))]


@case(*(PRIVATE + op for op in ("GatedAdd", "MurmurHash3", "SampleOp", "ScaledSiLU")), among=RELATED)
def elementwise(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = dims(random, int(random.integers(1, 5)))
    if op.endswith("Hash3"):
        x = tensor(builder, random, shape, "int32")
        return [result(builder, random, own(builder, op, x, shape=shape, dtype="uint32", positive=1))]
    given = [tensor(builder, random, shape)]
    if op.endswith("Add"):
        given += [tensor(builder, random, shape), tensor(builder, random, [*shape[:-1], 1])]
    return [result(builder, random, own(builder, op, *given, shape=shape, dtype="float32"))]


@case(f"{PRIVATE}Attention", f"{PRIVATE}QAttention", among=RELATED)
def packed_attention(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    batch, length, heads = dims(random, 3, (1, 2, 4))
    shape, width = [batch, length, 6], 2 * heads
    bias, out = builder.weights(3 * width), [batch, length, width]
    if op.endswith("QAttention"):
        x = tensor(builder, random, shape, "uint8")
        data = builder.constant(random.integers(-9, 9, (6, 3 * width)), "int8")
        given = [x, data, bias, builder.constant(0.1), builder.constant(0.1), "", builder.constant(2, "uint8")]
        given.append(builder.constant(0, "int8"))
    else:
        given = [tensor(builder, random, shape), builder.weights(6, 3 * width), bias]
    return [result(builder, random, own(builder, op, *given, shape=out, dtype="float32", num_heads=heads))]


@case(f"{PRIVATE}EmbedLayerNormalization", among=RELATED)
def embedded(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    batch, length = dims(random, 2, (1, 2, 4))
    ids = tensor(builder, random, [batch, length], "int32")
    tables = [builder.weights(5, 6), builder.weights(8, 6)]
    given = [ids, "", *tables, "", builder.weights(6), builder.weights(6)]
    made, counts = builder.many("EmbedLayerNormalization", *given, shapes=[[batch, length, 6], [batch]], epsilon=1e-3)
    builder.nodes[-1] = replace(builder.nodes[-1], domain=PRIVATE[:-1])
    builder.retype(counts, "int32")
    return [result(builder, random, made), counts]


@case(f"{PRIVATE}GatherND", f"{PRIVATE}GridSample", f"{PRIVATE}MatMulInteger16", f"{PRIVATE}Pad", among=RELATED)
def others(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    if op.endswith("GatherND"):
        shape = dims(random, 3, (2, 4, 6))
        x, places = tensor(builder, random, shape), builder.constant(random.integers(0, 2, (3, 1)), "int64")
        return [result(builder, random, own(builder, op, x, places, shape=[3, *shape[1:]], dtype="float32"))]
    if op.endswith("GridSample"):
        n, c, h, w, rows, columns = dims(random, 6, (1, 2, 4))
        x, where = tensor(builder, random, [n, c, h, w]), tensor(builder, random, [n, rows, columns, 2])
        return [result(builder, random, own(builder, op, x, where, shape=[n, c, rows, columns], dtype="float32"))]
    if op.endswith("Pad"):
        shape = dims(random, 3, (1, 2, 4))
        pads = [int(each) for each in random.integers(0, 3, 6)]
        out = [dim + pads[at] + pads[at + 3] for at, dim in enumerate(shape)]
        given = [tensor(builder, random, shape), builder.constant(pads, "int64"), builder.constant(0.5)]
        return [result(builder, random, own(builder, op, *given, shape=out, dtype="float32"))]
    m, k, n = dims(random, 3, (2, 4))
    x, y = tensor(builder, random, [m, k], "int16"), tensor(builder, random, [k, n], "int16")
    return [result(builder, random, own(builder, op, x, y, shape=[m, n], dtype="int32"))]


@case(f"{PRIVATE}MatMulBnb4", among=RELATED)
def four_bits(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    shape = [*dims(random, 2, (1, 2, 3, 6)), 32]
    data = builder.constant(random.integers(0, 255, 64), "uint8")
    scales, how = builder.constant(random.uniform(0.1, 1, 8)), {"K": 32, "N": 4, "block_size": 16, "quant_type": 1}
    x = tensor(builder, random, shape)
    return [result(builder, random, own(builder, op, x, data, scales, shape=[*shape[:2], 4], dtype="float32", **how))]


@case(f"{PRIVATE}MaxpoolWithMask", f"{PRIVATE}ConvTransposeWithDynamicPads", among=RELATED)
def windows(builder: GraphBuilder, random: Random, op: str) -> Sequence[str]:
    batch, channels = dims(random, 2, (1, 2, 4))
    x = tensor(builder, random, [batch, channels, 4, 4])
    if op.endswith("Mask"):
        mask, out = tensor(builder, random, [batch, 1, 4, 4], "int32"), [batch, channels, 3, 3]
        return [result(builder, random, own(builder, op, x, mask, shape=out, dtype="float32", kernel_shape=[2, 2]))]
    given = [builder.weights(channels, 3, 2, 2), builder.constant([0, 0, 0, 0], "int64"), builder.weights(3)]
    how = {"kernel_shape": [2, 2], "strides": [1, 1]}
    return [result(builder, random, own(builder, op, x, *given, shape=[batch, 3, 5, 5], dtype="float32", **how))]
