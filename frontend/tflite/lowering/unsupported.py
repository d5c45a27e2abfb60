"""Operators and variants that cannot be converted, with reasons and remedies."""

from __future__ import annotations

from collections.abc import Mapping

REFUSED: Mapping[str, tuple[str, str]] = {
    "CONCAT_EMBEDDINGS": (
        "LiteRT has no kernel for it, the only reference for its results",
        "use EMBEDDING_LOOKUP and CONCATENATION in the source model",
    ),
    "CUSTOM": ("it is no operator without the code that names it", "state the code of the custom operator"),
    "DELEGATE": (
        "it stands for what a delegate has taken out of the graph",
        "convert the model as it was before the delegate was applied",
    ),
    "LSH_PROJECTION": ("it hashes the bytes of its input, which ONNX has no operator for", "hash before the model"),
    "PLACEHOLDER_FOR_GREATER_OP_CODES": (
        "it is no operator: it stands for numbers too large for the older field of the file",
        "state the operator's number in the field builtin_code",
    ),
    "STABLEHLO_RNG_BIT_GENERATOR": (
        "its random bits follow a generator that ONNX has no operator for",
        "draw numbers before the model",
    ),
    "SKIP_GRAM": ("it splits a text into words, which ONNX has no operator for", "make the grams before the model"),
}
"""Built-in operators that are not converted: why, and what to do about it."""


_EARLIER = "convert the file from before that, and run the compiler on that file for its device"

COMPILED: Mapping[str, tuple[str, str]] = {
    "DISPATCH_OP": (
        "a part of the model that LiteRT's compiler plugin made for an NPU, as bytecode of that NPU",
        _EARLIER,
    ),
    "NeutronGraph": ("a part of the model that NXP's Neutron converter made for its NPU", _EARLIER),
    "edgetpu-custom-op": (
        "a part of the model that the Edge TPU compiler made for a Coral device",
        "convert the file from before that: the compiler writes a file whose name ends in _edgetpu.tflite",
    ),
    "ethos-u": (
        "a part of the model that Vela made for an Arm Ethos-U",
        "convert the file from before that: Vela writes a file whose name ends in _vela.tflite",
    ),
    "hailo-custom-op": ("a part of the model that Hailo's compiler made for its device", _EARLIER),
    "qnn-context-binary": ("a part of the model that Qualcomm's QNN made for its device", _EARLIER),
    "tim-vx": ("a part of the model that VeriSilicon's TIM-VX made for its NPU", _EARLIER),
}
"""Custom operators that stand for what a compiler for some device has made: what that is, and what to do about it."""


def compiled(operator: str) -> tuple[str, str] | None:
    """Why a custom operator that is machine code is not converted, and what to do; None for any other."""
    code = operator.removeprefix("CUSTOM:")
    found = COMPILED.get(code) or COMPILED.get(code.lower().replace("_", "-"))
    return None if found is None else (f"it is {found[0]}, which nothing else can read", found[1])


class GapError(Exception):
    """Raised by a lowering for what it cannot convert: the reason and the remedy; becomes a
    :class:`layoutsolve.errors.Gap`.
    """

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy

    def __reduce__(self) -> tuple[type[GapError], tuple[str, str]]:
        return type(self), (self.reason, self.remedy)
