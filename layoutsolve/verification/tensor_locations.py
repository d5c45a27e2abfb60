"""Where each tensor of a source is in the ONNX model: its name, layout and shape there, and its numbers both ways."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from layoutsolve.emit import Stored
from layoutsolve.frontend.tflite.lowering.draft import tensor_names
from layoutsolve.frontend.tflite.lowering.quantization import quant_of
from layoutsolve.frontend.tflite.reading.model import Subgraph, Tensor
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.ir.graph import PACKED, Array, Quant, Size, Value
from layoutsolve.solver.theory.layout import Layout, order
from layoutsolve.verification.litert import Port

Inside = tuple[Mapping[str, Value], Mapping[str, Stored]]
"""The values of the graph that layouts are of, and where each is found in the ONNX model."""


@dataclass(frozen=True, eq=False)
class Relation:
    """How a result is related to its source. The permutations are, by names in the result, how an input or output is
    stored: ``stored = transpose(original, permutation)``. ``inside`` is where tensors within it are, None where these
    are not known. ``signature`` is the one that was converted, ``rounding`` are the operators, by subgraph and index,
    that round activations in the result as well, and ``symmetric`` says that weights were rounded.
    """

    input_permutations: Mapping[str, Sequence[int]] = field(default_factory=dict)
    output_permutations: Mapping[str, Sequence[int]] = field(default_factory=dict)
    inside: Inside | None = None
    signature: str = ""
    rounding: Collection[tuple[int, int]] = ()
    symmetric: bool = False


SAME = Relation()
"""Inputs and outputs are stored as in the source, and nothing is known of what lies within."""


@dataclass(frozen=True, eq=False)
class Place:
    """A tensor of the source, and what it is in the ONNX model."""

    tensor: Tensor
    value: Value
    stored: Stored

    @property
    def port(self) -> Port:
        """The tensor as it is compared."""
        quant = quant_of(self.tensor)
        parameters = (tuple(map(float, quant.scale)), tuple(map(int, quant.zero_point))) if quant else ((), ())
        name = self.tensor.name or f"tensor_{self.tensor.index}"
        return Port(name, self.tensor.dtype, (), (), *parameters)

    def put(self, data: Array) -> Array | None:
        """LiteRT's tensor as the ONNX model stores it, None where that is unknown."""
        numbers, wide = self._numbers(data), _wide(self.value, data.shape)
        sizes = None if wide is None else _sizes(self.stored, wide)
        if numbers is None or wide is None or sizes is None:
            return None
        more = [(0, size - own) for size, own in zip(wide, data.shape, strict=True)]
        filler = 0 if self.value.quant is None else self.value.quant.zero_point[0]
        whole = np.pad(numbers, more, constant_values=filler) if wide != data.shape else numbers
        return _arranged(whole, self.stored.logical, self.stored.layout, sizes)

    def back(self, data: Array, like: Array) -> Array:
        """What the ONNX model stores, as LiteRT has it. What has another shape there has one more dimension than
        LiteRT's: as it is it might have LiteRT's shape, which only its layout ought to give.
        """
        own = as_in_source(self.value, self.stored, data, like)
        after, before = self.value.quant, quant_of(self.tensor)
        if after is None or before is None or own.dtype.kind == "f" or own is data:
            return own
        shift = int(before.zero_point[0]) - int(after.zero_point[0])
        return own.astype(np.int32) + shift if shift else own

    def _numbers(self, data: Array) -> Array | None:
        after, before, dtype = self.value.quant, quant_of(self.tensor), self.value.dtype
        if dtype in PACKED:
            return None
        if data.dtype.kind == "S":
            return np.char.decode(data, "utf-8").astype(object) if dtype == "string" else None
        if after is None:
            if data.dtype.name == dtype or (data.dtype.kind == "f" and dtype.startswith("float")):
                return data.astype(dtype)
            return before.real(data) if before is not None and dtype == "float32" else None
        if before is None or not _alike(before, after):
            return None
        shift = int(after.zero_point[0]) - int(before.zero_point[0])
        return (data.astype(np.int64) + shift).astype(dtype) if shift or data.dtype.name != dtype else data


def as_in_source(value: Value, stored: Stored, data: Array, like: Array) -> Array:
    """A tensor of the ONNX model in the source's layout and shape, which are those of ``like``; ``data`` itself where
    that is unknown, or with one more dimension where its shape is like the source's and ought not to be.
    """
    wide = _wide(value, like.shape)
    sizes = None if wide is None else _sizes(stored, wide)
    if sizes is None or wide is None:
        return data
    if list(data.shape) != _shape(stored.layout, sizes):
        return data[np.newaxis] if data.shape == like.shape else data
    whole = _arranged(data, stored.layout, stored.logical, sizes).reshape(wide)
    return whole[tuple(slice(size) for size in like.shape)]


def _alike(one: Quant, other: Quant) -> bool:
    """Whether steps are of one size, which is the same."""
    return one.scale.size == other.scale.size == 1 and bool(one.scale[0] == other.scale[0])


def _wide(value: Value, shape: Sequence[int]) -> tuple[int, ...] | None:
    """The shape of a value where the source's is this: it may have more channels, which are zeros."""
    if len(value.shape) != len(shape):
        return None
    wide = tuple(size if isinstance(dim, Size) else dim for dim, size in zip(value.shape, shape, strict=True))
    return wide if all(more >= own for more, own in zip(wide, shape, strict=True)) else None


def _sizes(stored: Stored, shape: Sequence[int]) -> list[int] | None:
    """How large each atom is in a tensor of this shape, None where that does not follow."""
    known: dict[int, int] = {atom: size for atom, size in enumerate(stored.sizes) if not isinstance(size, Size)}
    for group, size in zip(stored.logical, shape, strict=True):
        unknown = [atom for atom in group if atom not in known]
        rest = prod(known[atom] for atom in group if atom in known)
        if len(unknown) > 1 or (unknown and (rest == 0 or size % rest)) or (not unknown and rest != size):
            return None
        known.update(dict.fromkeys(unknown, size // max(rest, 1)))
    whole = sorted(order(stored.logical)) == sorted(order(stored.layout))
    return [known.get(atom, 1) for atom in range(len(stored.sizes))] if whole else None


def _arranged(data: Array, source: Layout, target: Layout, sizes: Sequence[int]) -> Array:
    """The elements of a tensor in another layout."""
    atoms = order(source)
    moved = data.reshape([sizes[atom] for atom in atoms]).transpose([atoms.index(atom) for atom in order(target)])
    return np.asarray(moved.reshape(_shape(target, sizes)), order="C")


def _shape(layout: Layout, sizes: Sequence[int]) -> list[int]:
    return [prod(sizes[atom] for atom in group) for group in layout]


def places_of(source: bytes, inside: Inside) -> tuple[Subgraph, dict[int, Place], dict[int, Place]]:
    """The main subgraph, and the tensors in it that are found in the ONNX model, by number; its states apart."""
    values, stored = inside
    model = parse(source)
    subgraph = model.subgraphs[0]
    names = tensor_names(model)
    read = {*subgraph.outputs, *(index for operator in subgraph.operators for index in operator.inputs)}
    made = (index for operator in subgraph.operators for index in operator.outputs if index in read)
    given = (*subgraph.inputs, *made)
    held = [subgraph.tensors[index] for index in dict.fromkeys(given)]
    known = {
        each.index: Place(each, values[name], stored[name])
        for each in subgraph.tensors
        if each.data is None and (name := names[each.index]) in values and name in stored
    }
    named = [each.index for each in held if not each.is_variable]
    states = [each.index for each in subgraph.tensors if each.is_variable and not _gathers(each)]
    first, second = ({index: known[index] for index in some if index in known} for some in (named, states))
    return subgraph, first, second


def _gathers(tensor: Tensor) -> bool:
    """Whether a state is a cell, or holds sums, of 16 bits, in which roundings come together that no real number is
    known of: the outputs of later runs tell whether it is right.
    """
    return tensor.dtype == "int16" and quant_of(tensor) is not None
