"""layoutsolve as a pass of Olive (``pip install olive-ai``)::

    {"type": "LayoutPass", "objective": "min-transpose"}

in the passes of a workflow whose package configuration names this module (docs/howto.md), or by itself
``create_pass_from_dict(LayoutPass, {...}, disable_search=True).run(model, folder)``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from olive.hardware.accelerator import AcceleratorSpec
from olive.model import ONNXModelHandler
from olive.model.utils import resolve_onnx_path
from olive.passes import Pass
from olive.passes.pass_config import BasePassConfig, PassConfigParam

from layoutsolve.api import convert


class LayoutPass(Pass):  # type: ignore[misc]  # Olive has no types
    """Give an ONNX model the fewest Transposes; it is returned unchanged where nothing is gained."""

    @classmethod
    def _default_config(cls, accelerator_spec: AcceleratorSpec) -> dict[str, PassConfigParam]:
        return {
            "objective": PassConfigParam(
                type_=str, default_value="min-executed", description="What is minimised, as --objective of layoutsolve."
            ),
            "target": PassConfigParam(
                type_=str,
                default_value="ort-cpu",
                description="The runtime, as --target of layoutsolve: a name or a file.",
            ),
        }

    def _run_for_config(
        self, model: ONNXModelHandler, config: type[BasePassConfig], output_model_path: str
    ) -> ONNXModelHandler:
        options: Any = {"objective": config.objective, "target": config.target}
        path = Path(resolve_onnx_path(output_model_path, Path(model.model_path).name))
        convert(model.model_path, **options).save(path)
        return ONNXModelHandler(model_path=str(path.parent), onnx_file_name=path.name)
