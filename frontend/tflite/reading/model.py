"""A TensorFlow Lite model as plain, checked data: what the reader makes of the bytes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.ir.graph import Array

MOST_DIMENSIONS = 16
"""More than any kernel of LiteRT takes that looks at dimensions at all."""

VIEWS = frozenset(("EXPAND_DIMS", "RESHAPE", "SQUEEZE"))
"""The operators that give a tensor another shape and move nothing."""


@dataclass(frozen=True, eq=False, slots=True)
class Quantization:
    """Scales and zero points as the file states them; ``kind`` is 'affine', 'blockwise' or 'unknown'.

    A blockwise one has ``block`` elements of ``axis`` to each scale; its scales have the tensor's order of axes.
    """

    scale: Array
    zero_point: Array
    axis: int
    kind: str = "affine"
    block: int = 0


@dataclass(frozen=True, eq=False)
class SparseDimension:
    """One level of a sparse tensor: dense (``size`` elements) or compressed (``segments`` and ``indices``)."""

    dense: bool
    size: int
    segments: Array | None = None
    indices: Array | None = None


@dataclass(frozen=True, eq=False)
class Sparsity:
    """How the stored elements of a sparse constant are spread over its dimensions."""

    order: tuple[int, ...]
    block_map: tuple[int, ...]
    dimensions: tuple[SparseDimension, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Tensor:
    """A tensor of a subgraph. ``data`` is a view of the file, None where the tensor is not constant.

    ``dtype`` is a numpy name, or 'string', 'int4', 'resource' and so on. 'int4' data are unpacked (one int8 each);
    data of a string or sparse tensor are one-dimensional: the raw bytes, or the stored elements. ``external`` is the
    number of the buffer outside of the file that has the data, 0 for none.
    """

    index: int
    name: str
    dtype: str
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    quant: Quantization | None = None
    data: Array | None = None
    is_variable: bool = False
    sparsity: Sparsity | None = None
    external: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class Operator:
    """An operator: ``inputs`` has -1 for one left out, ``options`` the fields of its options in snake case.

    ``intermediates`` are tensors that hold nothing: they state how what lies inside of the operator is quantized.
    ``unread`` says what of its options cannot be read, if anything. ``version`` is the one that the file states, 0 for
    an operator of no file.
    """

    index: int
    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any]
    custom_options: bytes = b""
    intermediates: tuple[int, ...] = ()
    unread: str = ""
    version: int = 0


@dataclass(frozen=True, eq=False)
class Subgraph:
    """A graph of operators, in an order of execution."""

    name: str
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @cached_property
    def results(self) -> frozenset[int]:
        """The tensors that are outputs."""
        return frozenset(self.outputs)

    @cached_property
    def tables(self) -> dict[int, int]:
        """The number of the table that each handle, a tensor, stands for."""
        made = (operator for operator in self.operators if operator.name == "HASHTABLE")
        return {handle: int(operator.options.get("table_id", 0)) for operator in made for handle in operator.outputs}


@dataclass(frozen=True, eq=False)
class Signature:
    """A named entry point: its inputs and outputs map names to tensors of a subgraph."""

    key: str
    subgraph: int
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Model:
    """A whole model file."""

    subgraphs: tuple[Subgraph, ...]
    signatures: tuple[Signature, ...]
    metadata: Mapping[str, memoryview]
    files: Mapping[str, bytes]
    description: str
    size: int


def port_names(model: Model, inputs: bool, position: int = 0) -> list[str]:
    """What the inputs (or outputs) of a subgraph are called: as its signature does, else as tensors are."""
    subgraph = model.subgraphs[position]
    signature = next((each for each in model.signatures if each.subgraph == position), None)
    given = {} if signature is None else signature.inputs if inputs else signature.outputs
    public = {index: name for name, index in given.items()}
    return [
        public.get(index, subgraph.tensors[index].name) for index in (subgraph.inputs if inputs else subgraph.outputs)
    ]
