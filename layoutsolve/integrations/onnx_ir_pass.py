"""layoutsolve as a pass of onnx-ir (``pip install onnx-ir``), to stand in any sequence of passes::

passes = onnx_ir.passes.Sequential(IdentityEliminationPass(), LayoutPass(objective="min-transpose"))
"""

from __future__ import annotations

from typing import Any, cast

import onnx_ir

from layoutsolve.api import convert


class LayoutPass(onnx_ir.passes.FunctionalPass):
    """Give a model the fewest Transposes. ``options`` are those of :func:`layoutsolve.convert`."""

    def __init__(self, **options: object) -> None:
        super().__init__()
        self.options = cast("dict[str, Any]", options)

    def call(self, model: onnx_ir.Model) -> onnx_ir.passes.PassResult:
        """The model, and whether it is another one than before. Raises :class:`layoutsolve.ConversionError`."""
        found = convert(model, **self.options)
        return onnx_ir.passes.PassResult(onnx_ir.from_proto(found.model), modified=not found.kept)
