"""Storage types of integers in a model, as runtimes want them: beyond what the source states."""

from __future__ import annotations

from typing import Literal, get_args

from layoutsolve.base.fast_dataclasses import dataclass

WeightStorage = Literal["source", "signed", "unsigned", "uint8", "selected"]

WEIGHTS: tuple[WeightStorage, ...] = get_args(WeightStorage)
"""How weights of 8 bits may be stored."""


@dataclass(frozen=True)
class Storage:
    """What changes no result, but what kernels can be used.

    With ``unsigned`` activations of 8 bits are stored without a sign where kernels compute on them, with ``signed``
    with one, where these have weights with a sign or with steps for each channel. ``weights`` of 8
    bits are stored as in the source, with a sign, without one where sums of their products could saturate or everywhere
    (``uint8``), or with one where the model selects, when it is loaded, those without one for processors that saturate.
    ``block`` is how many channels of images are kept together, 0 where they are not. Images of bytes are made whole
    blocks from ``narrow`` channels on; 0 is half a block, as for floats. Where images lie channels-first, convolutions
    of bytes by weights with a sign read ``pixel`` channels at least. With ``real`` what a LeakyRelu alone reads of a
    product is real numbers, rounded to the steps of the bytes that it would be. A convolution in whole blocks is worth
    so many ``cuts``, Pads and Slices that make images whole blocks where something looks at channels; 0 where there are
    none. Of convolutions of bytes by groups as many groups are one as have ``groups`` channels together, and a block
    where they are of floats; 0 leaves all alone. With ``views`` bytes are real numbers before a Transpose, Reshape or
    MaxPool, not behind it, where kernels read what it gives. On weights that are dequantized when the model is loaded
    are computed in floats: products of bytes of up to ``float_rows`` rows, depthwise convolutions of ``float_pixels``
    pixels and more, and convolutions of up to ``float_terms`` products a result that these alone read; 0 leaves all in
    integers.
    What a source has ``decomposed`` into several operators may stay so: then patterns are not replaced by operators
    that ONNX has, and TensorFlow Lite has not.
    """

    unsigned: bool = False
    signed: bool = False
    weights: WeightStorage = "source"
    block: int = 0
    narrow: int = 0
    pixel: int = 0
    real: bool = False
    cuts: int = 0
    groups: int = 0
    views: bool = False
    decomposed: bool = False
    float_rows: int = 0
    float_pixels: int = 0
    float_terms: int = 0


FLAGS, COUNTS = (
    tuple(name for name, kind in Storage.__annotations__.items() if kind == wanted) for wanted in ("bool", "int")
)
"""The fields of :class:`Storage` that are true or false, and those that are numbers of channels or the like."""


@dataclass(frozen=True)
class Dynamic:
    """From how many weights on a product of floats by 8-bit weights is faster in integers, the floats rounded at run
    time: in steps that all of them share (``tensor``), or in steps of their own for each row (``rows``).
    """

    tensor: int
    rows: int


PLAIN = Storage()
"""As the source has it."""

USUAL = Storage(unsigned=True, weights="selected", block=16, narrow=2, groups=32)
"""As ONNX Runtime wants it on most processors."""
