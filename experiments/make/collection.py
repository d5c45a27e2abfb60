"""Models that anyone can make again, by family: networks that repeat what real ones do, random ones in both formats,
networks as exporters write them, plain ones that every converter reads, single operators, and folders of one's own.

Nothing but the project is needed. Folders hold ``.tflite`` and ``.onnx`` files, such as those of
:mod:`experiments.make.onnx_exports` and :mod:`experiments.make.torch_exports`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from experiments.corpus import models
from experiments.make import exporter_networks, plain_networks
from experiments.make.hard_networks import FAMILIES as HARD
from experiments.make.zoo import zoo
from layoutsolve.io.patterns import ENDINGS
from layoutsolve.ir.graph import Graph
from tests.random_models import network
from tests.random_onnx import random_model


@dataclass(frozen=True)
class Made:
    """A model of a family, and what makes it: the same bytes, or graph, each time."""

    family: str
    name: str
    make: Callable[[], bytes | Graph]


@dataclass(frozen=True)
class Sizes:
    """How many models there are: random networks of each format, plain networks and those of each exporter's family,
    every N-th conformance case (0: none), and sizes of each hard network.
    """

    networks: int = 72
    exported: int = 8
    every: int = 90
    hard: int = 1


SMALL = Sizes(networks=3, exported=1, every=2000, hard=0)
"""A few models of most families, to try what takes them."""


def collection(sizes: Sizes = Sizes()) -> Iterator[Made]:
    """All models that are generated, family by family."""
    for family, (make, all_sizes) in HARD.items():
        for size in all_sizes[: sizes.hard]:
            yield Made(family, f"{family}-{size}", partial(make, size))
    for exporter in exporter_networks.FAMILIES:
        for seed in range(sizes.exported):
            yield Made(exporter.__name__, f"{exporter.__name__}-{seed:02d}", partial(_exported, exporter, seed))
    for seed in range(sizes.exported):
        yield Made("plain tflite", f"plain-tflite-{seed:02d}", partial(plain_networks.as_tflite, seed))
        yield Made("plain onnx", f"plain-onnx-{seed:02d}", partial(plain_networks.as_onnx, seed))
    for seed in range(sizes.networks):
        yield Made("random tflite", f"random-tflite-{seed:03d}", partial(_network, seed))
        yield Made("random onnx", f"random-onnx-{seed:03d}", partial(_random_onnx, seed))
    for name, source in zoo(0, sizes.every) if sizes.every else ():
        yield Made("operators", "operator-" + re.sub(r"[^\w]+", "-", name), partial(bytes, source))


def collected(folders: Sequence[Path]) -> Iterator[Made]:
    """The models of folders; the family of a file is the word that its name begins with."""
    for folder in folders:
        for ending in ENDINGS:
            for model in models(folder, ending=ending):
                stem = re.sub(r"[^\w.]+", "-", model.name)
                family = re.split(r"[-_.]", Path(model.name).name)[0]
                yield Made(f"{folder.name}: {family}", f"{stem}{ending}", model.path.read_bytes)


GROWING: Mapping[str, Sequence[int]] = {
    "attention": (6, 12, 24, 48),
    "shufflenet": (8, 16, 32, 64),
    "densenet": (15, 30, 60, 120),
    "residual": (10, 20, 40, 80),
    "ladder": (50, 100, 200, 400),
}
"""Hard networks whose optimum is proven in all of these sizes: where the search ends with its budget, time says nothing
about growth.
"""


def growing() -> Iterator[Made]:
    """The hard networks in sizes that double."""
    for family, sizes in GROWING.items():
        for size in sizes:
            yield Made(family, f"{family}-{size}", partial(HARD[family][0], size))


def _exported(exporter: Callable[[exporter_networks.Net], None], seed: int) -> bytes:
    return exporter_networks.network(exporter, seed).SerializeToString(deterministic=True)


def _network(seed: int) -> bytes:
    return network(seed).source


def _random_onnx(seed: int) -> bytes:
    _, model = random_model(seed)
    return model.SerializeToString(deterministic=True)
