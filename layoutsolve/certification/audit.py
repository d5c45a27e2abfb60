"""What a written ONNX model costs, counted in its file alone.

Nothing here is shared with the code that states, prices or searches layouts: operators are counted as they stand, with
the types and shapes that the file itself gives its tensors.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

TURNS = 10
"""How often the body of a loop is taken to run."""

COMPARED = 1024
"""The fewest bytes of a constant of which copies are counted."""

_BITS: dict[int, int] = {TensorProto.INT4: 4, TensorProto.UINT4: 4, TensorProto.STRING: 64}
"""The bits of an element where numpy does not tell them."""

_FLOAT: int = TensorProto.FLOAT

_VIEWS = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})
"""The operators that change nothing but a shape."""

_CHUNK = 1 << 20
"""How many elements are looked at together."""

_Array = npt.NDArray[np.generic]
_Types = ChainMap[str, onnx.TypeProto.Tensor]
_Kind = tuple[int, int]
_Elements = tuple[_Kind, int, int]


@dataclass(frozen=True)
class Recount:
    """What the operators of a file come to.

    ``motions`` counts the ``transposes`` by what they do: 'swap' where two neighbouring blocks change places, the
    innermost dimension among them, 'rows' where innermost dimensions stay innermost, 'general' where single elements
    move in no simple order; one that moves nothing is none of these. ``reshapes`` are all operators that only change a
    shape. ``bytes`` are what the Transposes move, in the body of a loop :data:`TURNS`
    times, with a size that is known by name only as 1.
    """

    transposes: int
    motions: Mapping[str, int]
    reshapes: int
    bytes: int

    def hidden(self, worth: Mapping[tuple[str, str], int]) -> int:
        """Layout penalty of the Transposes, given that of one by operator and class of permutation, 0 by default."""
        return sum(worth.get(("Transpose", motion), 0) * count for motion, count in self.motions.items())


def recount(model: onnx.ModelProto, kept: Collection[str] = (), meant: Collection[str] = ()) -> Recount:
    """Count in a model, its branches and loops included, but for operators that compute one of ``kept``. A Transpose
    that gives one of ``meant`` counts as one of the bytes that are dequantized for it: runtimes move those.

    Raises :class:`ValueError` where the file does not tell what a Transpose moves.
    """
    found = [*_nodes(model.graph, ChainMap(), 1, kept)]
    made = {name: node for node, *_ in found for name in node.output}
    transposes = reshapes = moved = 0
    motions: Counter[str] = Counter()
    for node, types, turns in found:
        if node.op_type in _VIEWS:
            reshapes += 1
        elif node.op_type == "Transpose":
            bits, shape, permutation = _moved(node, types)
            if node.output[0] in meant:
                bits = _dequantized(node, types, made) or bits
            transposes += 1
            motions.update(_motions([size for size, _ in shape], permutation))
            moved += turns * (bits * prod(number for _, number in shape) // 8)
    return Recount(transposes, motions, reshapes, moved)


def copied_bytes(model: onnx.ModelProto, source: onnx.ModelProto) -> int:
    """Bytes of initializers that a model has more often than another one that computes the same.

    Two constants are copies of each other where they have the same elements, in whatever order and shape. Constants of
    fewer than :data:`COMPARED` bytes are left out, and so are those that the other model does not have at all, and
    those that lie in a file of their own. What is stored as float16 and cast to float32 counts as it is loaded.
    """
    constants = [_constants(each.graph) for each in (model, source)]
    most = [Counter(kind for _, kind in each) for each in constants]
    several = {kind for kind, count in most[0].items() if count > 1 and kind in most[1]}
    found, known = (Counter(_elements(each, several)) for each in constants)
    return sum((found[each] - known[each]) * _bytes(each[0]) for each in found if 0 < known[each] < found[each])


def _nodes(
    graph: onnx.GraphProto, around: _Types, turns: int, kept: Collection[str]
) -> Iterator[tuple[onnx.NodeProto, _Types, int]]:
    """Every node, with the types of all tensors that it can see and how often it runs."""
    types = around.new_child()
    for described in (graph.value_info, graph.input, graph.output):
        types.update((item.name, item.type.tensor_type) for item in described)
    for node in graph.node:
        if any(name in kept for name in node.output):
            continue
        yield node, types, turns
        more = turns * (TURNS if node.op_type in ("Loop", "Scan") else 1)
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _nodes(attribute.g, types, more, kept)


def _moved(node: onnx.NodeProto, types: _Types) -> tuple[int, list[tuple[int | str, int]], list[int]]:
    """What a Transpose moves: the bits of an element, the dimensions, each as it stands and as a number, and which of
    them comes at each place. The file has to describe what it reads or what it gives.
    """
    for names, read in ((node.input, True), (node.output, False)):
        described = types.get(names[0]) if names else None
        if described is not None and described.HasField("shape"):
            shape = [_size(dim) for dim in described.shape.dim]
            permutation = _permutation(node, len(shape))
            if not read:
                shape = [shape[permutation.index(axis)] for axis in range(len(shape))]
            return _bits(described.elem_type), shape, permutation
    raise ValueError(f"the file does not state the input shape of the Transpose '{node.name}'")


def _dequantized(node: onnx.NodeProto, types: _Types, made: Mapping[str, onnx.NodeProto]) -> int:
    """The bits of an element of what views of real numbers are dequantized from, 0 where they are not."""
    before: onnx.NodeProto | None = node
    while before is not None and (before.op_type == "Transpose" or before.op_type in _VIEWS):
        before = made.get(before.input[0])
    described = None if before is None or before.op_type != "DequantizeLinear" else types.get(before.input[0])
    return 0 if described is None else _bits(described.elem_type)


def _size(dim: onnx.TensorShapeProto.Dimension) -> tuple[int | str, int]:
    """A dimension, and the number in it: a size by name is written as ``name`` or as ``6*name*other``."""
    if dim.HasField("dim_value"):
        return dim.dim_value, dim.dim_value
    number, _, names = dim.dim_param.partition("*")
    return dim.dim_param, int(number) if names and number.isascii() and number.isdecimal() else 1


def _bits(element: int) -> int:
    """The bits that an element takes."""
    known = _BITS.get(element)
    if known is not None:
        return known
    try:
        return 8 * int(helper.tensor_dtype_to_np_dtype(element).itemsize)
    except (KeyError, TypeError) as error:
        raise ValueError(f"the file has elements of the unknown type {element}") from error


def _permutation(node: onnx.NodeProto, rank: int) -> list[int]:
    """Which dimension comes at each place; backwards where the node does not say."""
    found = next((list(each.ints) for each in node.attribute if each.name == "perm"), [*range(rank)][::-1])
    if sorted(found) != [*range(rank)]:
        raise ValueError(f"the Transpose '{node.name}' orders {found} what has {rank} dimensions")
    return found


def _motions(sizes: Sequence[int | str], permutation: Sequence[int]) -> list[str]:
    """What a Transpose does as a runtime sees it, nothing where it moves nothing. Dimensions of size 1 are in its way
    but where they stay in front or at the end. Where several sizes are known by name only they are in no way.
    """
    solid = [axis for axis in permutation if sizes[axis] != 1]
    if solid == sorted(solid):
        return []
    names = sum(size.count("*") + (not size[:1].isdecimal()) for size in sizes if isinstance(size, str))
    after = solid if names > 1 else list(permutation)
    before = sorted(after)
    while before[-1] == after[-1] and sizes[after[-1]] == 1:
        before, after = before[:-1], after[:-1]
    while before[0] == after[0]:
        before, after = before[1:], after[1:]
    if before[-1] == after[-1]:
        return ["rows"]
    cut = before.index(after[0])
    return ["swap" if after == before[cut:] + before[:cut] else "general"]


def _constants(graph: onnx.GraphProto) -> list[tuple[onnx.TensorProto, _Kind]]:
    """The constants of a graph, and the type and the number of elements that each is read as."""
    casts = (node for node in graph.node if node.op_type == "Cast" and any(map(_is_to_float, node.attribute)))
    widened = {(name, TensorProto.FLOAT16) for node in casts for name in node.input}
    types = ((each, (each.name, each.data_type) in widened) for each in graph.initializer)
    return [(each, (_FLOAT if wide else each.data_type, prod(each.dims))) for each, wide in types]


def _is_to_float(attribute: onnx.AttributeProto) -> bool:
    return attribute.name == "to" and attribute.i == TensorProto.FLOAT


def _bytes(kind: _Kind) -> int:
    element, count = kind
    return _bits(element) * count // 8


def _elements(constants: Iterable[tuple[onnx.TensorProto, _Kind]], kinds: set[_Kind]) -> Iterator[_Elements]:
    """The elements of each constant of some kinds, whatever their order."""
    for constant, kind in constants:
        if kind in kinds and _bytes(kind) >= COMPARED and constant.data_location != TensorProto.EXTERNAL:
            yield kind, *_sums(numpy_helper.to_array(constant))


def _sums(data: _Array) -> tuple[int, int]:
    """Two numbers that constants with the same elements, in any order, have in common, and others hardly ever."""
    flat = data.reshape(-1)
    if flat.dtype.kind in "OSU":
        flat = np.array([hash(item) for item in flat.tolist()])
    elif flat.dtype.itemsize == 16:
        flat = flat.view(np.uint64)
    words = flat.view(f"u{flat.dtype.itemsize}")
    first = second = 0
    for start in range(0, words.size, _CHUNK):
        mixed = _mixed(words[start : start + _CHUNK].astype(np.uint64))
        first, second = first + int(mixed.sum()), second + int(_mixed(mixed).sum())
    return first, second


def _mixed(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Numbers of 64 bits, each made another one in which every bit depends on all of its bits (SplitMix64)."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
