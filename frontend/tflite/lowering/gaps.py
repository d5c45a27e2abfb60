"""How a lowering says that it cannot express something."""

from __future__ import annotations

from collections.abc import Mapping

REFUSED: Mapping[str, tuple[str, str]] = {
    "CONCAT_EMBEDDINGS": (
        "LiteRT has no kernel for it, which alone could say what it computes",
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


class GapError(Exception):
    """Raised by a lowering for what it cannot express; becomes a :class:`layoutsolve.errors.Gap`."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy

    def __reduce__(self) -> tuple[type[GapError], tuple[str, str]]:
        return type(self), (self.reason, self.remedy)
