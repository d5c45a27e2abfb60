"""Suppression of boxes."""

from __future__ import annotations

from itertools import product

import numpy as np
from flatbuffers import flexbuffers

from tests.conformance.cases import Operand, Table, cases, constant, plain


def boxes(table: Table, count: int) -> Operand:
    """Boxes that overlap, as top, left, bottom, right."""
    corners = table.random.uniform(0, 0.6, (count, 2))
    return Operand(
        np.concatenate([corners, corners + table.random.uniform(0.2, 0.4, (count, 2))], 1).astype(np.float32)
    )


@cases("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5")
def suppression(table: Table) -> None:
    soft = table.operator.endswith("5")
    for count, most, overlap, score in ((6, 3, 0.5, 0.0), (12, 12, 0.3, 0.2), (20, 8, 0.6, 0.5), (5, 9, 0.5, 0.99)):
        scores = Operand(table.random.permutation(np.linspace(0.05, 0.95, count)).astype(np.float32))
        limits = [constant(most), constant(overlap, "float32"), constant(score, "float32")]
        for sigma in (0.0, 0.5) if soft else (0.0,):
            more = [constant(sigma, "float32")] if soft else []
            outputs = [plain("int32"), *([plain("float32")] if soft else []), plain("int32")]
            table.add(f"{count}-{most}-{sigma}", [boxes(table, count), scores, *limits, *more], outputs)


@cases("CUSTOM:TFLite_Detection_PostProcess")
def postprocessing(table: Table) -> None:
    for regular, count in product((False, True), (3, 10)):
        anchors = table.random.uniform(0.2, 0.8, (12, 4))
        anchors[:, 2:] = table.random.uniform(0.1, 0.3, (12, 2))
        scores = table.random.permutation(np.linspace(0.01, 0.99, 48)).reshape(1, 12, 4)
        inputs = [table.real(1, 12, 4), Operand(scores.astype(np.float32)), constant(anchors, "float32")]
        settings = {
            "max_detections": count, "max_classes_per_detection": 1, "detections_per_class": 5, "num_classes": 3,
            "use_regular_nms": regular, "nms_score_threshold": 0.3, "nms_iou_threshold": 0.5,
            "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0,
        }  # fmt: skip
        label = f"{'regular' if regular else 'fast'}-{count}"
        table.add(label, inputs, [plain("float32")] * 4, custom_options=bytes(flexbuffers.Dumps(settings)))
