"""Operators that take stored integers as they are, and whose they are where quantization parameters differ.

LiteRT's kernels that move, choose, compare or average small integers mostly never look at scales and zero points: the
output stores what the inputs store, and means by it what its own parameters say. Others want all parameters to be
equal, and a model in which they differ is refused; here its numbers keep their meaning. Either way the operator itself
sees one pair of parameters, those of its output, in which its inputs are brought to it: so it computes the same in
whichever form it is written. Operators that are not listed compute with what the numbers mean.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.frontend.tflite.lowering.quantization import agree, quant_of
from layoutsolve.frontend.tflite.reading.model import Tensor
from layoutsolve.ir.graph import Quant, Value

SMALL = ("int8", "uint8", "int16")
"""The types whose kernels may not look at the parameters."""

EVERY = range(1 << 31)
"""All positions."""


@dataclass(frozen=True)
class Moving:
    """How an operator takes inputs of ``dtypes``: those at the positions ``stored`` as they are stored. LiteRT wants
    those at ``equal`` to have the parameters of the output; where they do not, all is taken by its meaning.

    ``outputs`` are those that get what is moved.
    """

    stored: Collection[int] = ()
    equal: Collection[int] = ()
    dtypes: Collection[str] = SMALL
    outputs: Collection[int] = (0,)

    def takes(self, position: int) -> bool:
        """Whether an input is moved at all."""
        return position in self.stored or position in self.equal


@dataclass(frozen=True, eq=False)
class Common:
    """The type and the parameters in which an operator sees all that it moves.

    ``stored`` is whether what has other ones is brought to them as it is stored.
    """

    moving: Moving
    dtype: str
    quant: Quant | None
    stored: bool

    def brings(self, value: Value, position: int) -> bool:
        """Whether an input has to be brought to these parameters."""
        return self.moving.takes(position) and value.dtype == self.dtype and not agree(value.quant, self.quant)

    def gives(self, dtype: str, quant: Quant | None, position: int) -> bool:
        """Whether an output with parameters of its own gets what is moved."""
        return position in self.moving.outputs and dtype == self.dtype and not agree(quant, self.quant)

    def keeps(self, quant: Quant | None) -> bool:
        """Whether what is stored with other parameters is kept: it is where they mean nothing on one side, too."""
        return self.stored or quant is None or self.quant is None


MOVING: Mapping[str, Moving] = {
    **dict.fromkeys(
        (
            "AVERAGE_POOL_2D", "BROADCAST_TO", "DEPTH_TO_SPACE", "GATHER", "GATHER_ND", "MAX_POOL_2D", "PAD",
            "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "REVERSE_SEQUENCE", "REVERSE_V2", "SLICE", "SPACE_TO_DEPTH",
            "STRIDED_SLICE", "TILE", "TOPK_V2",
        ),
        Moving([0]),
    ),
    "SPLIT": Moving([1], outputs=EVERY),
    "SPLIT_V": Moving([0], outputs=EVERY),
    "UNPACK": Moving(equal=[0], outputs=EVERY),
    "EMBEDDING_LOOKUP": Moving([1]),
    **dict.fromkeys(("MAXIMUM", "MINIMUM"), Moving([0, 1])),
    **dict.fromkeys(("SELECT", "SELECT_V2"), Moving([1, 2])),
    **dict.fromkeys(("GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"), Moving([0, 1], dtypes=["int16"])),
    "CONCATENATION": Moving(EVERY, dtypes=["int16"]),
    "HASHTABLE_LOOKUP": Moving([2]),
    "ONE_HOT": Moving([2, 3]),
    "PADV2": Moving([0], equal=[2]),
    **dict.fromkeys(
        ("BATCH_TO_SPACE_ND", "EXPAND_DIMS", "MIRROR_PAD", "REDUCE_MAX", "REDUCE_MIN", "SPACE_TO_BATCH_ND"),
        Moving(equal=[0]),
    ),
    "FILL": Moving(equal=[1]),
    "PACK": Moving(equal=EVERY),
}  # fmt: skip
"""What LiteRT's plain kernels do; RESHAPE, SQUEEZE and TRANSPOSE are views, which move nothing else either."""

_AVERAGING = ("AVERAGE_POOL_2D", "RESIZE_BILINEAR")


def common_of(operator: str, inputs: Sequence[Value | None], output: Tensor) -> Common | None:
    """What an operator sees all in that it moves: the parameters of its output. None where it moves nothing.

    Integers with parameters per channel are moved as plain ones, since their axis may go elsewhere.
    """
    moving = MOVING.get(operator)
    if moving is None:
        return None
    moved = [value for position, value in enumerate(inputs) if value is not None and moving.takes(position)]
    dtype = moved[0].dtype if moved and output.dtype == "bool" else output.dtype
    quants = [value.quant for value in moved if value.dtype == dtype]
    if dtype not in moving.dtypes or not quants:
        return None
    quant = quant_of(output) if output.dtype == dtype else quants[0]
    if not all(agree(each, quant) for each in quants):
        if any(each is not None and each.axis is not None for each in (quant, *quants)):
            quant = None
        if quant is None and operator in _AVERAGING:
            quant = quants[0]
    equal = [value for position, value in enumerate(inputs) if value is not None and position in moving.equal]
    refused = not moving.stored or any(value.dtype == dtype and not agree(value.quant, quant) for value in equal)
    return Common(moving, dtype, quant, not refused)
