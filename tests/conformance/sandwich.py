"""The models of cases between convolutions, which read and write channels-first: there layout rules are needed.

Each convolution only permutes channels, so that the operator in between is given the data of its case, and its results
come out unchanged. Where a tensor has not the type or the rank of a convolution's, CAST and RESHAPE lead to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from layoutsolve.ir.graph import Array
from tests.builder import TYPES, Builder, Quant
from tests.conformance.cases import Case, Model
from tests.conformance.running import truth_of

_NAMES = {code: name for name, code in TYPES.items()}
_WEIGHTS: Mapping[str, tuple[str, int, int, str]] = {
    "float32": ("float32", 0, 1, "float32"),
    "int8": ("int8", 0, 127, "int32"),
    "int16": ("int8", 0, 127, "int64"),
    "uint8": ("uint8", 128, 255, "int32"),
}
"""By type of the data, the type of the weights, which of them stand for 0 and 1, and the type of the bias."""


class NoSandwichError(Exception):
    """A model cannot be put between convolutions: the text says why."""


@dataclass(frozen=True)
class Kind:
    """What tells the sandwiches of an operator apart: the type of its data and whether all of them have rank 4.

    The type is that of the convolutions, or the kind (as numpy's) of what is cast.
    """

    dtype: str
    image: bool


@dataclass(frozen=True, eq=False)
class _Tensor:
    """A tensor of the model: the shape is that of its content, ``open`` are its dimensions of unknown size."""

    index: int
    dtype: str
    quant: Quant | None
    shape: tuple[int, ...]
    open: tuple[int, ...]

    @property
    def numbers(self) -> str:
        """The type of its numbers: one in which a convolution computes, or another that is cast."""
        return self.dtype if self.dtype in _WEIGHTS and (self.quant is not None or self.dtype == "float32") else "cast"

    @property
    def images(self) -> tuple[int, ...]:
        """The shape of rank 4 in which a convolution reads or writes it."""
        if len(self.shape) == 4:
            return self.shape
        if self.open:
            (axis,) = self.open
            rest = [size for at, size in enumerate(self.shape) if at != axis]
            first = (self.shape[axis], 1) if axis == 0 else (1, self.shape[axis])
            return (*first, prod(rest[:-1]), *(rest[-1:] or [1]))
        return _four(self.shape)

    @property
    def signature(self) -> tuple[int, ...] | None:
        """The shape with -1 for what is unknown, at rank 4."""
        if not self.open:
            return None
        unknown = self.open if len(self.shape) == 4 or self.open == (0,) else (1,)
        return tuple(-1 if axis in unknown else size for axis, size in enumerate(self.images))


def _four(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape of rank 4 with the same elements: dimensions are cut into factors, or the first ones put together."""
    dims = list(shape)
    while len(dims) < 4:
        at = next((axis for axis in reversed(range(len(dims))) if _factor(dims[axis]) < dims[axis]), None)
        if at is None:
            dims.insert(0, 1)
        else:
            factor = _factor(dims[at])
            dims[at : at + 1] = [dims[at] // factor, factor]
    return (prod(dims[:-3]), *dims[-3:])


def _factor(size: int) -> int:
    return next((each for each in range(2, size) if size % each == 0), size)


def _source(channels: int) -> list[int]:
    """From which channel each channel is taken."""
    return [(channel + 1) % channels for channel in range(channels)]


def sandwich(model: Model, others: Collection[Kind] = ()) -> tuple[Kind, Model]:
    """A model between convolutions. Raises :class:`NoSandwichError` where that is impossible, or one of ``others``."""
    build = Builder.reopened(model.source)
    given = [_input(build, index, data) for index, data in zip(build.subgraph.inputs, model.inputs, strict=True)]
    chosen = _chosen(given, model.inputs)
    results = truth_of(model).results
    made = [_output(build, index, data) for index, data in zip(build.subgraph.outputs, results, strict=True)]
    wrapped = [fits(tensor, data) for tensor, data in zip(made, results, strict=True)]
    if not any(wrapped):
        raise NoSandwichError("no output of numbers")
    first = given[chosen[0]]
    dtype = first.numbers if first.numbers != "cast" else np.dtype(first.dtype).kind
    kind = Kind(dtype, len(first.shape) == 4 and all(len(tensor.shape) == 4 for tensor in made))
    if kind in others:
        raise NoSandwichError("there is one of its kind")
    inputs, indices = list(model.inputs), [tensor.index for tensor in given]
    operators, build.subgraph.operators = build.subgraph.operators, []
    for position in chosen:
        indices[position] = _before(build, given[position])
        inputs[position] = _shuffled_back(given[position], model.inputs[position])
    build.subgraph.inputs = indices
    build.subgraph.operators += operators
    outputs = [_after(build, tensor) if fit else tensor.index for tensor, fit in zip(made, wrapped, strict=True)]
    expected = model.expected and tuple(
        _shuffled(tensor, data) if fit else data for tensor, data, fit in zip(made, results, wrapped, strict=True)
    )
    truth = sandwich(replace(model, source=model.truth, truth=b""))[1].source if model.truth else b""
    return kind, Model(build.finish(*outputs), tuple(inputs), expected, truth)


def sandwiches(cases: Sequence[Case]) -> Iterator[tuple[Case, Model]]:
    """For the cases of an operator, the first sandwich of each kind."""
    found: set[Kind] = set()
    for case in cases:
        try:
            kind, model = sandwich(case.make(), found)
        except NoSandwichError:
            continue
        found.add(kind)
        yield case, model


def fits(tensor: _Tensor, data: Array) -> bool:
    """Whether a convolution can lead to a tensor, or from it."""
    if data.dtype.kind not in "fiub" or tensor.dtype == "uint64":
        return False
    if tensor.dtype == "int16" and tensor.quant is not None and tensor.quant.zero_point[0]:
        return False
    if not data.size or (tensor.open and len(tensor.open) > 1 and len(tensor.shape) != 4) or 3 in tensor.open:
        return False
    with np.errstate(all="ignore"):
        return bool(np.array_equal(data.astype("float32").astype(data.dtype), data) and np.isfinite(data).all())


def _chosen(given: Sequence[_Tensor], data: Sequence[Array]) -> list[int]:
    """The inputs that come from convolutions: those of real numbers, or the first one where there are none."""
    able = [at for at, tensor in enumerate(given) if tensor.shape and fits(tensor, data[at])]
    real = [at for at in able if given[at].numbers != "cast" or given[at].dtype.startswith("float")]
    large = [at for at in real if len(given[at].shape) > 1]
    if not able:
        raise NoSandwichError("no input of numbers")
    return large or real or able[:1]


def _input(build: Builder, index: int, data: Array) -> _Tensor:
    tensor = build.subgraph.tensors[index]
    signature = [] if tensor.shapeSignature is None else list(tensor.shapeSignature)
    return _tensor(build, index, data, [axis for axis, size in enumerate(signature) if size == -1])


def _output(build: Builder, index: int, data: Array) -> _Tensor:
    tensor = build.subgraph.tensors[index]
    signature = [] if tensor.shapeSignature is None else list(tensor.shapeSignature)
    stated = [] if tensor.shape is None else list(tensor.shape)
    sizes = zip(data.shape, signature if len(signature) == data.ndim else stated, strict=False)
    return _tensor(build, index, data, [axis for axis, (size, other) in enumerate(sizes) if size != other])


def _tensor(build: Builder, index: int, data: Array, unknown: Sequence[int]) -> _Tensor:
    tensor = build.subgraph.tensors[index]
    found = tensor.quantization
    quant = None
    if found is not None and found.scale is not None and len(found.scale) == 1:
        quant = Quant([float(found.scale[0])], [int(found.zeroPoint[0])])
    return _Tensor(index, _NAMES[tensor.type], quant, data.shape, tuple(unknown))


def _before(build: Builder, tensor: _Tensor) -> int:
    """Write a convolution that leads to an input of the model; the index of the input that takes its place."""
    shape, signature = tensor.images, tensor.signature
    stated = shape if signature is None else tuple(1 if size == -1 else size for size in signature)
    casting = tensor.numbers == "cast"
    dtype, quant = ("float32", None) if casting else (tensor.dtype, tensor.quant)
    given = build.tensor(f"given{tensor.index}", stated, dtype, quant=quant, signature=signature)
    viewing = len(tensor.shape) != 4

    def between(label: str, dims: Sequence[int], marks: Sequence[int] | None) -> int:
        return build.tensor(f"{label}{tensor.index}", dims, dtype, quant=quant, signature=marks)

    seen = between("seen", stated, signature) if viewing or casting else tensor.index
    _convolve(build, given, seen, shape[3], dtype, quant)
    own = build.subgraph.tensors[tensor.index]
    if viewing:
        marks = None if own.shapeSignature is None else list(own.shapeSignature)
        viewed = between("viewed", list(own.shape), marks) if casting else tensor.index
        target = [-1 if axis in tensor.open else size for axis, size in enumerate(tensor.shape)]
        _reshape(build, seen, viewed, target)
        seen = viewed
    if casting:
        _cast(build, seen, tensor.index)
    return given


def _after(build: Builder, tensor: _Tensor) -> int:
    """Write a convolution of an output of the model; the index of the output that takes its place."""
    shape, signature = tensor.images, tensor.signature
    stated = shape if signature is None else tuple(1 if size == -1 else size for size in signature)
    current, dtype, quant = tensor.index, tensor.dtype, tensor.quant
    if tensor.numbers == "cast":
        own = build.subgraph.tensors[tensor.index]
        marks = None if own.shapeSignature is None else list(own.shapeSignature)
        dims = [] if own.shape is None else list(own.shape)
        dtype, quant = "float32", None
        current = build.tensor(f"real{tensor.index}", dims, signature=marks)
        _cast(build, tensor.index, current)
    if len(tensor.shape) != 4:
        viewed = build.tensor(f"seen{tensor.index}", stated, dtype, quant=quant, signature=signature)
        _reshape(build, current, viewed, signature or shape)
        current = viewed
    name = f"result{len(build.subgraph.tensors)}"
    result = build.tensor(name, stated, dtype, quant=quant, signature=signature)
    _convolve(build, current, result, shape[3], dtype, quant)
    return result


def _convolve(build: Builder, source: int, target: int, channels: int, dtype: str, quant: Quant | None) -> None:
    kind, zero, one, wide = _WEIGHTS[dtype]
    kernel: Array = np.full((channels, 3, 3, channels), zero)
    kernel[range(channels), 1, 1, _source(channels)] = one
    scale = 1 / (one - zero)
    weights = build.constant(f"kernel{target}", kernel, kind, quant and Quant([scale], [zero]))
    bias = build.constant(f"bias{target}", [0] * channels, wide, quant and Quant([quant.scale[0] * scale], [0]))
    options: dict[str, Any] = {"padding": "SAME", "stride_h": 1, "stride_w": 1}
    options |= {"dilation_h_factor": 1, "dilation_w_factor": 1}
    build.operator("CONV_2D", [source, weights, bias], [target], options)


def _reshape(build: Builder, source: int, target: int, shape: Sequence[int]) -> None:
    build.operator("RESHAPE", [source, build.constant(f"shape{target}", list(shape), "int32")], [target], {})


def _cast(build: Builder, source: int, target: int) -> None:
    build.operator("CAST", [source], [target], {})


def _shuffled(tensor: _Tensor, data: Array) -> Array:
    images = (data if tensor.numbers != "cast" else data.astype("float32")).reshape(tensor.images)
    return images[..., _source(tensor.images[3])]


def _shuffled_back(tensor: _Tensor, data: Array) -> Array:
    images = (data if tensor.numbers != "cast" else data.astype("float32")).reshape(tensor.images)
    return images[..., np.argsort(_source(tensor.images[3]))]
