"""Coral's decoder of poses. LiteRT's package has no kernel for it: what is expected follows Coral's own.

Among keypoints of equal scores Coral takes what the queue of its C++ library happens to give; here it is the first.
"""

from __future__ import annotations

import numpy as np
from flatbuffers import flexbuffers

from layoutsolve.ir.graph import Array
from tests.builder import Quant
from tests.conformance.cases import Model, Operand, Table, cases, written

KEYPOINTS = 17
EDGES = [(0, 1), (1, 3), (0, 2), (2, 4), *((0, 5), (5, 7), (7, 9), (5, 11), (11, 13), (13, 15))]
EDGES += [(0, 6), (6, 8), (8, 10), (6, 12), (12, 14), (14, 16)]
"""The skeleton."""

Truth = tuple[Array, ...]


@cases("CUSTOM:PosenetDecoderOp")
def decoded(table: Table) -> None:
    for height, width, most, score, radius, stride in (
        (9, 7, 5, 0.4, 0.0, 16),
        (12, 15, 10, 0.3, 45.0, 32),
        (6, 5, 1, 0.2, 10.0, 16),
        (1, 1, 4, 0.1, 10.0, 16),
        (5, 1, 4, 0.4, 10.0, 7),
    ):
        label = f"float32-{height}x{width}-{most}-{score}-{radius}-{stride}"
        _add(table, label, _said(table, height, width), most=most, score=score, radius=radius, stride=stride)
    for label, score in (("none", 0.999), ("all", 0.0)):
        _add(table, f"float32-{label}", _said(table, 6, 6), most=6, score=score)
    _add(table, "float32-masks", _said(table, 33, 33, masks=True), most=4, score=0.45, radius=60.0)
    _add(table, "float32-masks-of-none", _said(table, 33, 33, masks=True), most=3, score=0.999)
    for height, width in ((3, 5), (9, 11)):
        _add(table, f"uint8-{height}x{width}", _stored(table, _said(table, height, width)), most=5, score=0.4)
    _add(table, "uint8-masks", _stored(table, _said(table, 33, 33, masks=True)), most=5, score=0.5, radius=50.0)


def _said(table: Table, height: int, width: int, masks: bool = False) -> list[Operand]:
    """Logarithms of odds, and offsets in pixels."""
    heat = table.real(1, height, width, KEYPOINTS, low=-3, high=3)
    offsets = [(2 * KEYPOINTS, 12.0), (4 * len(EDGES), 40.0), (2 * KEYPOINTS, 60.0)][: 3 if masks else 2]
    return [heat, *(table.real(1, height, width, size, low=-far, high=far) for size, far in offsets)]


def _stored(table: Table, inputs: list[Operand]) -> list[Operand]:
    ranges = [(-3, 3), (-12, 12), (-40, 40), (-60, 60)]
    return [
        table.quantized("uint8", *each.values.shape, low=low, high=high)
        for each, (low, high) in zip(inputs, ranges, strict=False)
    ]


def _add(
    table: Table,
    label: str,
    inputs: list[Operand],
    *,
    most: int,
    score: float,
    radius: float = 20.0,
    stride: int = 16,
) -> None:
    settings = {"max_detections": most, "score_threshold": score, "stride": stride, "nms_radius": radius}

    def make() -> Model:
        numbers = [_numbers(each.values, each.quant, 1.0 if at == 0 else 1 / stride) for at, each in enumerate(inputs)]
        expected = decode(*numbers[:3], most, score, radius, stride)
        if len(numbers) == 4:
            expected = (*expected, masks(numbers[3], expected[0][0], int(expected[3][0]), stride))
        outputs = [Operand(shape=each.shape) for each in expected]
        source = written(table.operator, inputs, outputs, {}, bytes(flexbuffers.Dumps(settings)))
        return Model(source, tuple(each.values for each in inputs), expected)

    table.add_model(label, make)


def _numbers(stored: Array, quant: Quant | None, scale: float) -> Array:
    factor = np.float32(scale)
    if quant is None:
        return np.asarray(stored[0] * factor)
    step = np.float32(np.float32(quant.scale[0]) * factor)
    return np.asarray((stored[0].astype(np.float32) - np.float32(quant.zero_point[0])) * step)


def decode(
    heat: Array, short: Array, mid: Array, most: int, threshold: float, radius: float, stride: int
) -> tuple[Array, ...]:
    """Poses, chances of their keypoints, scores and how many there are: pose by pose and keypoint by keypoint."""
    score, reach = np.float32(threshold), np.float32((np.float32(radius) / np.float32(stride)) ** 2)
    poses: list[Array] = []
    chances: list[Array] = []
    scores: list[np.float32] = []
    for place, keypoint in _roots(heat, short, score):
        if len(poses) == most:
            break
        if any(_square(place, pose[keypoint]) <= reach for pose in poses):
            continue
        pose = _grow(short, mid, place, keypoint)
        odds = np.array([sample(heat, pose[each], [each])[0] for each in range(KEYPOINTS)])
        chance = (np.float32(1) / (np.float32(1) + np.exp(-odds))).astype(np.float32)
        if chance.mean() >= score:
            poses.append(pose)
            chances.append(chance)
            scores.append(chance.mean())
    order = sorted(range(len(poses)), key=lambda each: -scores[each])
    final = {}
    for at, each in enumerate(order):
        better = [poses[other] for other in order[:at]]
        seen = [all(_square(poses[each][k], pose[k]) > reach for pose in better) for k in range(KEYPOINTS)]
        final[each] = np.float32(chances[each][seen].sum() / np.float32(KEYPOINTS))
    kept = [each for each in sorted(order, key=lambda each: -final[each]) if final[each] >= score]
    results = np.zeros((1, most, KEYPOINTS, 2)), np.zeros((1, most, KEYPOINTS)), np.zeros((1, most))
    for row, each in enumerate(kept):
        for result, value in zip(results, (poses[each] * stride, chances[each], final[each]), strict=True):
            result[0, row] = value
    return (*(result.astype(np.float32) for result in results), np.float32([len(kept)]))


def _roots(heat: Array, short: Array, score: np.float32) -> list[tuple[Array, int]]:
    """Places of the keypoints that poses may begin with, the best first."""
    height, width, _ = heat.shape
    with np.errstate(all="ignore"):
        least = np.float32(-np.log(1 / (score + np.float64(1e-6)) - 1))
    around = np.pad(heat, ((1, 1), (1, 1), (0, 0)), constant_values=-np.inf)
    peaks = np.max([around[y : y + height, x : x + width] for y, x in np.ndindex(3, 3)], axis=0)
    found = []
    for y, x, k in np.argwhere((heat >= least) & (heat >= peaks)):
        place = _within(np.float32([y, x]) + short[y, x, [k, KEYPOINTS + k]], height, width)
        found.append((heat[y, x, k], place, k))
    return [(place, k) for _, place, k in sorted(found, key=lambda each: -each[0])]


def _grow(short: Array, mid: Array, place: Array, root: int) -> Array:
    """The pose of a root: from keypoint to keypoint, depth first."""
    height, width, _ = short.shape
    found, left = {root: place}, [root]
    while left:
        here = left.pop()
        for edge, (one, other) in enumerate(EDGES):
            there, channel = (other, edge) if here == one else (one, edge + 32)
            if here not in (one, other) or there in found:
                continue
            at = _within(found[here] + sample(mid, found[here], [channel, channel + 16]), height, width)
            for _ in range(5):
                at = _within(at + sample(short, at, [there, KEYPOINTS + there]), height, width)
            found[there] = at
            left.append(there)
    return np.stack([found[k] for k in range(KEYPOINTS)])


def sample(field: Array, place: Array, channels: list[int]) -> Array:
    """Numbers between four cells, of one place or of many."""
    low, high = np.floor(place).astype(int), np.ceil(place).astype(int)
    down, right = np.moveaxis((place - low).astype(np.float32), -1, 0)[..., None]
    one = np.float32(1)
    corners = [[field[y[..., 0], x[..., 1]][..., channels] for x in (low, high)] for y in (low, high)]
    rows = [(one - right) * left + right * beyond for left, beyond in corners]
    return np.asarray((one - down) * rows[0] + down * rows[1])


def _within(place: Array, height: int, width: int) -> Array:
    return np.clip(place, 0, np.float32([height - 1, width - 1])).astype(np.float32)


def _square(one: Array, other: Array) -> np.float32:
    return np.float32(((one - other) ** 2).sum())


def masks(long: Array, poses: Array, count: int, stride: int) -> Array:
    """By pose the cells that are nearest to it; the first has all where there is none."""
    height, width, _ = long.shape
    result = np.zeros((1, len(poses), height, width), np.float32)
    cells = np.stack(np.indices((height, width)), -1).astype(np.float32)
    places = []
    for k in range(KEYPOINTS):
        place = cells
        for _ in range(3):
            place = _within(place + sample(long, place, [k, KEYPOINTS + k]), height, width)
        places.append(place * stride)
    for y, x in np.ndindex(height, width):
        own = np.stack([each[y, x] for each in places])
        distances = [((own - pose) ** 2).sum() for pose in poses[:count]]
        result[0, int(np.argmin(distances)) if distances else 0, y, x] = 1
    return result
