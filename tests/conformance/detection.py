"""Suppression of boxes."""

from __future__ import annotations

from itertools import product

import numpy as np
from flatbuffers import flexbuffers

from tests.builder import Quant
from tests.conformance.cases import Model, Operand, Table, cases, constant, plain, single
from tests.truth import litert


def boxes(table: Table, count: int) -> Operand:
    """Boxes that overlap, as top, left, bottom, right."""
    corners = table.random.uniform(0, 0.6, (count, 2))
    return Operand(
        np.concatenate([corners, corners + table.random.uniform(0.2, 0.4, (count, 2))], 1).astype(np.float32)
    )


@cases("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5")
def suppression(table: Table) -> None:
    soft = table.operator.endswith("5")
    sizes = ((6, 3, 0.5, 0.0), (12, 12, 0.3, 0.2), (20, 8, 0.6, 0.5), (5, 9, 0.5, 0.99), (300, 20, 0.4, 0.1))
    for count, most, overlap, score in sizes:
        scores = Operand(table.random.permutation(np.linspace(0.05, 0.95, count)).astype(np.float32))
        limits = [constant(most), constant(overlap, "float32"), constant(score, "float32")]
        for sigma in (0.0, 0.5) if soft else (0.0,):
            more = [constant(sigma, "float32")] if soft else []
            outputs = [plain("int32"), *([plain("float32")] if soft else []), plain("int32")]
            label = f"{'many-' * (count > 256)}{'soft-' * (sigma > 0)}{count}-{most}"
            table.add(label, [boxes(table, count), scores, *limits, *more], outputs)

    most, overlap, score = constant(5), constant(0.5, "float32"), constant(-0.75, "float32")
    given = [boxes(table, 8), Operand(-np.linspace(0.1, 0.9, 8, dtype=np.float32)), most]
    more, results = ([constant(0.0, "float32")], [plain("float32")]) if soft else ([], [])
    outputs = [plain("int32"), *results, plain("int32")]
    table.add("negative", [*given, overlap, score, *more], outputs)
    table.add("any-overlap", [*given, constant(0.0, "float32"), score, *more], outputs)
    table.add("full-overlap", [*given, constant(1.0, "float32"), score, *more], outputs)
    table.add("none-wanted", [*given[:2], constant(0), overlap, score, *more], outputs)
    table.add("computed-score", [*given, overlap, Operand(np.array(-0.6, np.float32)), *more], outputs)
    halves = Operand(np.array([[0, 0, 2, 1], [0, 0, 1, 1], [1, 0, 2, 1], [0, 0, 2, 2]], np.float32))
    exact = [halves, Operand(np.array([0.9, 0.8, 0.7, 0.6], np.float32)), constant(4), overlap, score, *more]
    table.add("exactly-at-threshold", exact, outputs)
    dynamic = [boxes(table, 8).dynamic(0), given[1].dynamic(0), *given[2:], overlap, score]
    table.add("dynamic", [*dynamic, *more], outputs)
    if soft:
        table.add("dynamic-soft", [*dynamic, constant(0.4, "float32")], outputs)
    flipped = Operand(boxes(table, 8).values[:, [2, 1, 0, 3]])
    table.add("flipped-corners", [flipped, *given[1:], overlap, score, *more], outputs)
    if soft:
        table.add("none-soft", [*given[:2], constant(0), overlap, score, constant(0.5, "float32")], outputs)
        table.add(
            "soft-empty-box",
            [Operand(halves.values * np.float32([0, 1, 1, 1])), *exact[1:5], constant(0.3, "float32")],
            outputs,
        )


@cases("CUSTOM:TFLite_Detection_PostProcess")
def postprocessing(table: Table) -> None:
    for regular, count in product((False, True), (3, 10)):
        anchors, inputs = predictions(table, 12, 4)
        label = f"{'regular' if regular else 'fast'}-{count}"
        add(table, label, [*inputs, anchors], regular, max_detections=count)
    for regular, classes in product((False, True), (1, 3)):
        anchors, inputs = predictions(table, 9, classes)
        label = f"no-background-{'regular' if regular else 'fast'}-{classes}"
        add(table, label, [*inputs, anchors], regular, num_classes=classes)
    anchors, inputs = predictions(table, 12, 4)
    for each in (2, 3, 4):
        chosen = {"max_detections": 2, "max_classes_per_detection": each, "nms_score_threshold": 0.0}
        add(table, f"fast-{each}-classes", [*inputs, anchors], False, **chosen)
    few = {"max_detections": 4, "max_classes_per_detection": 2, "detections_per_class": 2}
    add(table, "regular-few-per-class", [*inputs, anchors], True, **few)
    add(table, "more-coordinates", [table.real(1, 12, 9), inputs[1], anchors], False)
    tied = Operand(np.full((1, 12, 4), 0.5, np.float32))
    add(table, "fast-ties", [inputs[0], tied, anchors], False)
    steps = table.random.integers(60, 200, (12, 4)).astype(np.uint8)
    for regular in (False, True):
        add(table, f"nothing-found-{regular}", [*inputs, anchors], regular, nms_score_threshold=2.0)
        quantized = [table.quantized("uint8", 1, 12, 4), table.quantized("uint8", 1, 12, 4, low=0)]
        add(table, f"uint8-{regular}", [*quantized, Operand(steps, "uint8", Quant([0.004], [0]), True)], regular)


def add(table: Table, label: str, inputs: list[Operand], regular: bool, **changed: float) -> None:
    """Add a case; LiteRT leaves memory as it was where it finds less than there is room for, here that is zero."""
    custom = options(regular, **changed)

    def make() -> Model:
        model = single(table.operator, inputs, RESULTS, {}, custom)
        boxes, classes, scores, count = (each.copy() for each in litert().run(model.source, model.inputs).results)
        each = 1 if regular else int(changed.get("max_classes_per_detection", 1))
        filled = np.zeros(scores.shape[1], bool)
        for row in range(int(count[0])):
            filled[row * each : row * each + min(each, int(changed.get("num_classes", 3)))] = True
        boxes[:, ~filled], classes[:, ~filled], scores[:, ~filled] = 0, 0, 0
        return Model(model.source, model.inputs, (boxes, classes, scores, count))

    table.add_model(label, make)


RESULTS = [plain("float32")] * 4


def predictions(table: Table, count: int, classes: int) -> tuple[Operand, list[Operand]]:
    """Anchors, and what a network says of them: encodings of boxes, and distinct scores."""
    anchors = table.random.uniform(0.2, 0.8, (count, 4))
    anchors[:, 2:] = table.random.uniform(0.1, 0.3, (count, 2))
    scores = table.random.permutation(np.linspace(0.01, 0.99, count * classes)).reshape(1, count, classes)
    return constant(anchors, "float32"), [table.real(1, count, 4), Operand(scores.astype(np.float32))]


def options(regular: bool, **changed: float) -> bytes:
    """The custom options, as converters write them."""
    settings = {
        "max_detections": 10, "max_classes_per_detection": 1, "detections_per_class": 5, "num_classes": 3,
        "use_regular_nms": regular, "nms_score_threshold": 0.3, "nms_iou_threshold": 0.5,
        "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0,
    }  # fmt: skip
    return bytes(flexbuffers.Dumps({**settings, **changed}))
