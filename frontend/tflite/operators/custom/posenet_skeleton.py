"""The skeleton that PosenetDecoderOp knows: its keypoints, and how they are reached from each other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from layoutsolve.ir.graph import Array

KEYPOINTS = 17

EDGES = (
    (0, 1), (1, 3), (0, 2), (2, 4), (0, 5), (5, 7), (7, 9), (5, 11),
    (11, 13), (13, 15), (0, 6), (6, 8), (8, 10), (6, 12), (12, 14), (14, 16),
)  # fmt: skip
"""The skeleton, each edge as the network numbers it: from a keypoint to one that is further from the nose, number 0."""


@dataclass(frozen=True, eq=False)
class Rounds:
    """By round and root, the keypoints that are as many edges away: [rounds, roots, the most at once].

    ``before`` is the keypoint that each is reached from, ``edge`` the channel of the offset on the way, ``keypoint``
    the keypoint itself. Places beyond those there are stand for an eighteenth keypoint, which means nothing.
    """

    before: Array
    edge: Array
    keypoint: Array


@cache
def rounds_of_roots() -> Rounds:
    count = len(EDGES)
    beside: dict[int, list[tuple[int, int]]] = {}
    for edge, (near, far) in enumerate(EDGES):
        beside.setdefault(near, []).append((far, edge))
        beside.setdefault(far, []).append((near, edge + 2 * count))
    by_root = []
    for root in range(KEYPOINTS):
        seen, rounds, front = {root}, [], [root]
        while front:
            steps = [(near, edge, far) for near in front for far, edge in beside[near] if far not in seen]
            front = [far for _, _, far in steps]
            seen.update(front)
            rounds.append(steps)
        by_root.append(rounds)
    length = max(len(rounds) for rounds in by_root) - 1
    wide = max(len(steps) for rounds in by_root for steps in rounds)
    table = np.full((length, KEYPOINTS, wide, 3), (KEYPOINTS, 0, KEYPOINTS))
    for root, rounds in enumerate(by_root):
        for at, steps in enumerate(rounds[:-1]):
            table[at, root, : len(steps)] = steps
    return Rounds(table[..., 0], table[..., 1], table[..., 2])
