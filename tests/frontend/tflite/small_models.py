"""Small TensorFlow Lite models that several tests read."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.builder import Builder


def convolution(channels: int = 3, **options: Any) -> bytes:
    """CONV_2D with a fused RELU6, then RESHAPE."""
    builder, rng = Builder(), np.random.default_rng(0)
    x = builder.tensor("image", (1, 6, 6, channels))
    weights = builder.constant("weights", rng.normal(size=(4, 3, 3, channels)), "float32")
    bias = builder.constant("bias", rng.normal(size=4), "float32")
    y = builder.tensor("features", (1, 3, 3, 4))
    settings = {"stride_h": 2, "stride_w": 2, "fused_activation_function": 3, **options}
    builder.operator("CONV_2D", [x, weights, bias], [y], settings)
    flat = builder.tensor("flat", (1, 36))
    shape = builder.constant("shape", [1, 36], "int32")
    builder.operator("RESHAPE", [y, shape], [flat])
    return builder.finish(flat, inputs=[x])
