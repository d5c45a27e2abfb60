"""Explicit layouts: what the user says about graph inputs, outputs and tensors in between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from layoutsolve.errors import LayoutError
from layoutsolve.graph import Graph
from layoutsolve.solver.layout import Layout, order

CHOICES = ("keep", "nchw", "nhwc", "free")


@dataclass(frozen=True)
class Boundary:
    """What is fixed from outside.

    ``inputs`` and ``outputs`` say how all graph inputs and outputs are stored: 'keep' (as in the source model),
    'nchw' (the last dimension moved to place 1, for tensors of rank 3 to 5), 'nhwc' (as TFLite has them) or 'free'
    (the solver chooses). ``layouts`` maps names of tensors to a pair of strings over the same letters, the source's
    and the wanted order of dimensions; for graph inputs and outputs it overrides the general choice.
    """

    inputs: str = "keep"
    outputs: str = "keep"
    layouts: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def check(self, graph: Graph) -> None:
        """Raise :class:`LayoutError` where a choice or an explicit layout does not fit the graph."""
        for choice in (self.inputs, self.outputs):
            if choice not in CHOICES:
                raise LayoutError(f"unknown choice of layout '{choice}': use one of {', '.join(CHOICES)}")
        for name, (source, target) in self.layouts.items():
            _check(graph, name, source, target)

    def explicit(self, graph: Graph) -> dict[str, tuple[int, ...]]:
        """The permutation that each explicit layout asks for, by the tensor's name in the graph."""
        found: dict[str, tuple[int, ...]] = {}
        for given, (source, target) in self.layouts.items():
            name = tensor_named(graph, given)
            permutation = tuple(source.index(letter) for letter in target)
            if found.setdefault(name, permutation) != permutation:
                raise LayoutError(f"tensor '{name}' is given two layouts under different names: give it one")
        return found


def tensor_named(graph: Graph, given: str) -> str:
    """The tensor that a user means: by its own name, or by its name in the signature."""
    if given in graph.values:
        return given
    for name, public in graph.names.items():
        if public == given:
            return name
    known = ", ".join(f"'{name}'" for name in (*graph.inputs, *graph.outputs))
    raise LayoutError(f"no tensor is called '{given}': inputs and outputs are {known}")


def _check(graph: Graph, given: str, source: str, target: str) -> None:
    name = tensor_named(graph, given)
    value = graph.values[name]
    said = f"layout '{source}:{target}' of tensor '{given}'"
    if len(set(source)) != len(source) or sorted(source) != sorted(target):
        raise LayoutError(f"{said}: both sides must have the same letters, each once")
    if len(source) != len(value.shape):
        shape = ", ".join(map(str, value.shape))
        raise LayoutError(
            f"{said}: the tensor has rank {len(value.shape)} (shape [{shape}]), the layout {len(source)} letters"
        )
    if value.data is not None:
        raise LayoutError(
            f"{said}: the tensor is a constant, which is rearranged as its readers need it; name an activation"
        )


def channels_first(logical: Layout) -> Layout:
    """A channels-last layout with its last dimension moved to place 1; other ranks than 3 to 5 stay as they are."""
    return (logical[0], logical[-1], *logical[1:-1]) if 3 <= len(logical) <= 5 else logical


def whole_dimensions(logical: Layout, wanted: Layout) -> Layout | None:
    """The permutation of whole logical dimensions that comes in the order of ``wanted``, None where it tears one.

    Dimensions of size 1 go where ``wanted`` has them if it has as many, else first.
    """
    rank = {atom: index for index, atom in enumerate(order(wanted))}
    solid = sorted((group for group in logical if group), key=lambda group: rank[group[0]])
    if order(tuple(solid)) != order(wanted):
        return None
    units = logical.count(())
    if [group for group in wanted if group] == solid and wanted.count(()) == units:
        return wanted
    return ((),) * units + tuple(solid)
