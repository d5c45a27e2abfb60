"""How numbers are stored in a model, beyond what the source says: what runtimes want of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Storage:
    """What changes no result, but what kernels can be used.

    With ``unsigned`` activations of 8 bits are stored without a sign where kernels compute on them, and with
    ``signed_weights`` weights with one. ``block`` is how many channels of images are kept together, 0 where they are
    not.
    """

    unsigned: bool = False
    signed_weights: bool = False
    block: int = 0


PLAIN = Storage()
"""As the source has it."""

USUAL = Storage(unsigned=True, block=16)
"""As ONNX Runtime wants it on most processors."""
