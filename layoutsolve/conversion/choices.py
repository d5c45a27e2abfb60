"""The choices of options as types, so that editors complete them and type checkers refuse others."""

from __future__ import annotations

from typing import Literal

Objective = Literal["min-executed", "min-transpose", "min-bytes", "min-nodes", "min-latency"]
Strategy = Literal["cpsat", "mincut", "push", "propagate", "transpose"]
Quant = Literal["qdq", "qoperator", "symmetric", "float", "exact"]
Dynamic = Literal["float", "integer"]
Weights = Literal["source", "symmetric"]
Format = Literal["onnx", "tflite"]
Custom = Literal["error", "passthrough"]
InitializerInputs = Literal["drop", "keep"]
