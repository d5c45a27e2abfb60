"""Layouts that the user fixes: of graph inputs, outputs and intermediate tensors."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from layoutsolve.base.wording import listed, nearest
from layoutsolve.errors import LayoutError
from layoutsolve.ir.graph import Graph

CHOICES = ("keep", "nchw", "nhwc", "free")

OTHERS = "*"
"""The key of a mapping of choices that stands for all tensors that it does not name."""

Pair = tuple[str, str]
"""The source's and the wanted order of dimensions, as two strings over the same letters."""

Choice = str | Pair
"""How one tensor is stored: one of :data:`CHOICES`, or a pair of orders."""

Ends = str | Mapping[str, Choice]
"""How the inputs (or outputs) are stored: one choice for all, or choices by name, :data:`OTHERS` for the rest."""

Permutation = tuple[int, ...]
_Asked = dict[str, Permutation | None]


@dataclass(frozen=True)
class Fixed:
    """What a boundary asks of a graph, by the tensors' names in it: a permutation of each tensor's dimensions.

    ``inputs`` and ``outputs`` cover all ends, with None where the solver chooses; ``inner`` are other tensors.
    """

    inputs: Mapping[str, Permutation | None]
    outputs: Mapping[str, Permutation | None]
    inner: Mapping[str, Permutation]


@dataclass(frozen=True)
class Boundary:
    """Layouts of graph inputs and outputs, and of tensors with an explicit layout.

    ``inputs`` and ``outputs`` are 'keep' (as in the source model), 'nchw' (channels first: the last dimension moved to
    place 1, for tensors of rank 3 to 5), 'nhwc' (channels last, as TensorFlow Lite has them), 'free' (the solver
    chooses), or a pair of orders. In an ONNX source 'nchw' keeps images, and 'nhwc' moves the second dimension to the
    end. ``layouts`` maps names of tensors to pairs of orders; for graph inputs and outputs it overrides the choice for
    all. A name is the tensor's own or the one in the signature.
    """

    inputs: Ends = "keep"
    outputs: Ends = "keep"
    layouts: Mapping[str, Pair] = field(default_factory=dict)

    def fixed(self, graph: Graph) -> Fixed:
        """What is asked of a graph. Raises :class:`LayoutError` where that does not fit it or contradicts itself."""
        explicit = self._explicit(graph)
        inputs = _ends(graph, graph.inputs, self.inputs, explicit, "input")
        inner = {name: permutation for name, permutation in explicit.items() if name not in inputs}
        outputs = _ends(graph, graph.outputs, self.outputs, inner, "output")
        _agree(graph, inputs, outputs, explicit)
        return Fixed(inputs, outputs, {name: inner[name] for name in inner if name not in outputs})

    def choices(self, graph: Graph) -> Iterator[tuple[str, str, Choice]]:
        """Of each input and output of a graph its kind, its name there, and how it is chosen to be stored."""
        for kind, names, ends in (("input", graph.inputs, self.inputs), ("output", graph.outputs, self.outputs)):
            general, own = _by_name(graph, names, ends, kind)
            yield from ((kind, name, own.get(name, (name, general))[1]) for name in names)

    def _explicit(self, graph: Graph) -> dict[str, Permutation]:
        """The permutation that each explicit layout asks for."""
        found: dict[str, Permutation] = {}
        for given, pair in self.layouts.items():
            name = tensor_named(graph, given)
            permutation = _permutation(graph, name, given, pair)
            if found.setdefault(name, permutation) != permutation:
                raise LayoutError(f"tensor '{name}' is given two layouts under different names: give it one")
        return found

    def freed(
        self, graph: Graph, inputs: Collection[str], outputs: Collection[str], inner: Collection[str]
    ) -> Boundary:
        """The boundary in which some inputs and outputs are free, and explicit layouts of ``inner`` tensors are gone.

        All are names in the graph.
        """

        def ends(names: Collection[str], given: Ends, free: Collection[str], kind: str) -> Ends:
            general, choices = _by_name(graph, names, given, kind)
            kept: dict[str, Choice] = {name: choice for name, (_, choice) in choices.items()}
            return {OTHERS: general, **kept, **dict.fromkeys(free, "free")}

        gone = {*inputs, *outputs, *inner}
        return Boundary(
            ends(graph.inputs, self.inputs, inputs, "input"),
            ends(graph.outputs, self.outputs, outputs, "output"),
            {given: pair for given, pair in self.layouts.items() if tensor_named(graph, given) not in gone},
        )


def tensor_named(graph: Graph, given: str) -> str:
    """The tensor that a user means: by its own name, or by its name in the signature."""
    if given in graph.values:
        return given
    for name, public in graph.names.items():
        if public == given:
            return name
    hint = nearest(given, (*graph.names.values(), *graph.inputs, *graph.outputs, *graph.values))
    known = listed((*graph.inputs, *graph.outputs))
    raise LayoutError(f"no tensor is called '{given}': inputs and outputs are {known}{hint}")


def _ends(graph: Graph, names: Collection[str], ends: Ends, explicit: Mapping[str, Permutation], kind: str) -> _Asked:
    """How every end of one kind is stored: as it is chosen for itself, else as explicit, else as chosen for all."""
    general, choices = _by_name(graph, names, ends, kind)
    found: _Asked = {}
    for name in names:
        own, (given, choice) = name in choices, choices.get(name, (name, general))
        asked = _asked(graph, name, given, choice, own) if own or name not in explicit else explicit[name]
        if explicit.get(name, asked) != asked:
            said = choice if isinstance(choice, str) else ":".join(choice)
            raise LayoutError(f"{kind} '{given}' is chosen as '{said}' and given another layout: give it one")
        found[name] = asked
    return found


def _by_name(graph: Graph, names: Collection[str], ends: Ends, kind: str) -> tuple[str, dict[str, tuple[str, Choice]]]:
    """The choice for all, and the others by the tensor's name in the graph, together with the name that was given."""
    said: Mapping[str, Choice] = {OTHERS: ends} if isinstance(ends, str) else ends
    general = said.get(OTHERS, "keep")
    if not isinstance(general, str):
        raise LayoutError(f"a pair of orders fits one tensor: name the {kind} instead of '{OTHERS}'")
    choices: dict[str, tuple[str, Choice]] = {}
    for given, choice in said.items():
        if given != OTHERS:
            name = _end_named(graph, names, given, kind)
            if choices.setdefault(name, (given, choice))[1] != choice:
                raise LayoutError(f"{kind} '{name}' is given two layouts under different names: give it one")
    return _known(general), choices


def _end_named(graph: Graph, names: Collection[str], given: str, kind: str) -> str:
    """The end that a user means. One name may be an end's in the signature and another tensor's own."""
    public = {graph.names.get(name, name): name for name in reversed([*names])}
    if given in names or given in public:
        return given if given in names else public[given]
    shown = [*reversed(public)]
    if tensor_named(graph, given) in (*graph.inputs, *graph.outputs):
        raise LayoutError(f"'{given}' is not an {kind}: those are {listed(shown)}{nearest(given, shown)}")
    inside = "a tensor inside, which takes an explicit layout"
    raise LayoutError(f"'{given}' is not an {kind} but {inside}: those are {listed(shown)}")


def _asked(graph: Graph, name: str, given: str, choice: Choice, own: bool) -> Permutation | None:
    """The permutation that a choice for a tensor, its ``own`` or that for all, asks of it."""
    if not isinstance(choice, str):
        return _permutation(graph, name, given, choice)
    if own and graph.values[name].data is not None and _known(choice) != "keep":
        raise LayoutError(f"'{given}' is a constant, which is always stored as in the source model: keep it")
    return chosen(graph, len(graph.values[name].shape), _known(choice))


def _known(choice: str) -> str:
    if choice not in CHOICES:
        raise LayoutError(
            f"unknown choice of layout '{choice}': use one of {', '.join(CHOICES)}{nearest(choice, CHOICES)}"
        )
    return choice


def chosen(graph: Graph, rank: int, choice: str) -> Permutation | None:
    """What a choice asks of an image of a source, which has channels second in ONNX, and last in TensorFlow Lite; other
    ranks than 3 to 5 are no images.
    """
    if choice == "free":
        return None
    if choice == ("nhwc" if graph.imports else "nchw") and 3 <= rank <= 5:
        return (0, *range(2, rank), 1) if graph.imports else (0, rank - 1, *range(1, rank - 1))
    return tuple(range(rank))


def _agree(graph: Graph, inputs: _Asked, outputs: _Asked, explicit: Mapping[str, Permutation]) -> None:
    """A tensor that is an input and an output at once is stored once: both have to ask for the same.

    An explicit layout holds for both; where one of them is free, the other decides.
    """
    for name in [name for name in outputs if name in inputs]:
        asked = {inputs[name], explicit.get(name, outputs[name])} - {None}
        if len(asked) > 1:
            said = graph.names.get(name, name)
            raise LayoutError(f"'{said}' is an input and an output at once: choose the same layout for both")
        inputs[name] = outputs[name] = next(iter(asked), None)


def _permutation(graph: Graph, name: str, given: str, pair: Pair) -> Permutation:
    """The permutation that a pair of orders asks of a tensor."""
    source, target = pair
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
    return tuple(source.index(letter) for letter in target)
