"""Tables of forms: what a target has in place of ONNX's operators, and their policies and backends.

A target that is another layout system than ONNX says by operator in which order it stores images and kernels. Each
line of its table is a form, given in letters (:mod:`layoutsolve.solver.theory.letters`), or a policy: operators that
take any layout, and such that keep that of the source. Operators of which no line says anything are as in ONNX.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from fnmatch import fnmatchcase
from itertools import takewhile
from weakref import WeakKeyDictionary

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.errors import OptionError
from layoutsolve.ir.graph import CONTROL, Graph, Shape
from layoutsolve.solver.targets.kind_lookup import between
from layoutsolve.solver.theory.letters import MisfitError, form
from layoutsolve.solver.theory.node_rule import known_rule, opaque
from layoutsolve.solver.theory.offer import named
from layoutsolve.solver.theory.relation import Placed
from layoutsolve.solver.theory.rule import Rule, Site, Way, image, operator_name, unnamed

ANYTHING = "*"
"""The operator of a line that is about all operators."""

POLICIES = ("any", "follow", "source")
"""What a line may say beside a form: any layout as ONNX has the operator, the same in the backend of what writes the
first input, or the layouts of the source.
"""

PORTS = {"data": 0, "kernel": 1, "bias": 2, "out": -1}
"""The ports that a line may give letters for, by the number of the input; -1 are all outputs."""


@dataclass(frozen=True)
class Match:
    """Which nodes a line is about; what is empty holds for all.

    A ``kernel`` is a size in space, a ``dtype`` one in which the first input is stored, a ``name`` a pattern for what
    the source calls the node or its first output. ``grouped`` tells whether a convolution has several groups,
    ``depthwise`` whether it has one for each channel that it reads. ``least`` and ``most`` bound the ``channels`` that
    are read and those that are ``produced``. ``after`` and ``before`` cut a part out of the graph: what follows from
    one of some tensors, and leads to one of some.
    """

    kernel: tuple[tuple[int, ...], ...] = ()
    dtype: tuple[str, ...] = ()
    name: tuple[str, ...] = ()
    depthwise: bool | None = None
    grouped: bool | None = None
    least: Mapping[str, int] = field(default_factory=dict)
    most: Mapping[str, int] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    before: tuple[str, ...] = ()

    def holds(self, site: Site, rule: Rule | None) -> bool:
        """Whether the line is about a node."""
        value = site.input(0)
        if self.dtype and (value is None or value.dtype not in self.dtype):
            return False
        if self.kernel and _kernel(site) not in self.kernel:
            return False
        if self.name and not any(fnmatchcase(name, each) for name in _names(site) for each in self.name):
            return False
        if self.depthwise is not None and _depthwise(site) != self.depthwise:
            return False
        if self.grouped is not None and (site.attribute("group", 1) > 1) != self.grouped:
            return False
        sizes = _channels(site, rule) if self.least or self.most else {}
        return between(sizes, self.least, self.most) and _within(site, self.after, self.before)


def _within(site: Site, after: tuple[str, ...], before: tuple[str, ...]) -> bool:
    """Whether a node follows from one of some tensors and leads to one of some others, where any are said.

    Raises :class:`OptionError` for a tensor that the graph does not have.
    """
    made, known = {*site.node.outputs} - {""}, _REACHED.setdefault(site.graph, {})
    cuts = [(each, forwards) for each, forwards in ((after, True), (before, False)) if each]
    known.update({cut: _reached(site.graph, *cut) for cut in cuts if cut not in known})
    return not any(made.isdisjoint(known[cut]) for cut in cuts)


_REACHED: WeakKeyDictionary[Graph, dict[tuple[tuple[str, ...], bool], frozenset[str]]] = WeakKeyDictionary()
"""What was asked before, by graph: what is reached from some tensors, forwards or backwards."""


def _reached(graph: Graph, given: tuple[str, ...], forwards: bool) -> frozenset[str]:
    """What follows from some tensors, or leads to them."""
    public = {name: own for own, name in graph.names.items()}
    starts = [name if name in graph.values else public.get(name, "") for name in given]
    if "" in starts:
        missing = given[starts.index("")]
        raise OptionError(f"the target cuts the graph at '{missing}', but no tensor is called so")
    found = set(starts)
    for node in graph.nodes if forwards else reversed(graph.nodes):
        left, right = (node.inputs, node.outputs) if forwards else (node.outputs, node.inputs)
        if not found.isdisjoint(left):
            found.update(name for name in right if name and graph.values[name].data is None)
    return frozenset(found - {*starts} if forwards else found)


def _kernel(site: Site) -> tuple[int, ...]:
    """The size of a window in space."""
    given = site.attribute("kernel_shape")
    weights = site.input(1) if site.node.op.endswith(("Conv", "ConvTranspose", "ConvInteger")) else None
    shape: Shape = tuple(given) if given is not None else () if weights is None else weights.shape[2:]
    return tuple(size for size in shape if isinstance(size, int))


def _names(site: Site) -> list[str]:
    origin = site.node.origin
    names = [*site.node.outputs[:1], *(site.graph.names.get(name, "") for name in site.node.outputs[:1])]
    return [name for name in ([origin.name] if origin is not None else []) + names if name]


def _depthwise(site: Site) -> bool:
    groups, data = site.attribute("group", 1), site.required(0)
    return groups > 1 and len(data.shape) > 1 and data.shape[1] == groups


def _channels(site: Site, rule: Rule | None) -> dict[str, int]:
    """How many channels are read and produced, as far as that is known."""
    if rule is None or not rule.letters:
        return {}
    shapes, found = _shapes(site, rule), dict[str, int]()
    for name, port in (("channels", 0), ("produced", len(rule.inputs))):
        size = shapes[port][rule.letters[port].index("C")] if "C" in rule.letters[port] else None
        if isinstance(size, int):
            found[name] = size
    return found


def _shapes(site: Site, rule: Rule) -> list[Shape]:
    """The shapes of all ports."""
    names = [site.node.inputs[number] for number in rule.inputs] + [name for name in site.node.outputs if name]
    return [site.graph.values[name].shape for name in names]


@dataclass(frozen=True)
class Line:
    """Line of a table for some ``operators``: the letters of ``ports`` by name and the ``price`` of such a form in
    Transposes, or a ``policy``. ``backend`` is what runs it, '' for the default.
    """

    operators: tuple[str, ...]
    ports: Mapping[str, str] = field(default_factory=dict)
    price: int = 0
    policy: str = ""
    match: Match = field(default_factory=Match)
    backend: str = ""

    def about(self, site: Site) -> bool:
        """Whether it is about the operator of a node."""
        everything = ANYTHING in self.operators and site.node.op not in (*CONTROL, "Sizes")
        return everything or operator_name(site.node) in self.operators


DEAREST = 10
"""The most that a crossing may cost where backends are chosen: a tensor has as many markers of each."""


@dataclass(frozen=True)
class Backend:
    """Something that runs a part of a model. What is read in it and written elsewhere costs ``crossing`` Transposes,
    once for all that read it here.
    """

    crossing: int = 0


@dataclass(frozen=True)
class Table:
    """The ``lines`` of a target, and its ``backends`` by name, '' being what runs everything else. The forms of a node
    are those of the lines that are about it, up to the first policy, which holds where none of them fits. They are of
    one backend, that of the first that fits. A table that ``chooses`` has those of all backends, up to the first policy
    of no backend; a policy has its forms beside those of the lines before it.
    """

    lines: tuple[Line, ...] = ()
    backends: Mapping[str, Backend] = field(default_factory=dict)
    chooses: bool = False

    def rule(self, site: Site, known: Rule | None) -> Rule | None:
        """Rule of a node with the forms of the table; None where no line matches.

        Raises :class:`OptionError` where none of the forms fits.
        """
        lines = self._about(site, known)
        if not lines:
            return None
        if self.chooses:
            return _choice(lines, site, known)
        base, ways, reasons = based(site, known), list[Way](), list[str]()
        for line in takewhile(lambda line: not line.policy, lines):
            if not ways or line.backend == ways[0].backend:
                ways += _offered(line, base, site, known, reasons)
        policy = next((line for line in lines if line.policy), None)
        if policy is None:
            return _of_ways(base, ways, None, site, reasons)
        if not ways:
            backend = self._writing(site) if policy.policy == "follow" else policy.backend
            return _kept(policy, backend, site, known)
        return _of_ways(base, ways, _kept(policy, policy.backend, site, known) or known, site, reasons)

    def _about(self, site: Site, known: Rule | None) -> list[Line]:
        """The lines that are about a node."""
        return [line for line in self.lines if line.about(site) and line.match.holds(site, known)]

    def follows(self, site: Site) -> bool:
        """Whether a node runs in the backend of what writes its first input."""
        lines = self._about(site, known_rule(site))
        return bool(lines) and lines[0].policy == "follow"

    def _writing(self, site: Site) -> str:
        """The backend of what writes the first input of a node, behind views and what follows itself."""
        graph, node = site.graph, site.node
        for _ in graph.nodes:
            number = graph.producers.get(node.inputs[0]) if node.inputs else None
            if number is None:
                return ""
            node = graph.nodes[number]
            if node.op in ("Transpose", "Reshape"):
                continue
            before = Site(graph, node)
            if not self.follows(before):
                found = self.rule(before, known_rule(before))
                return "" if found is None else found.ways[0].backend
        return ""


def _choice(lines: Sequence[Line], site: Site, known: Rule | None) -> Rule | None:
    """The rule of a node, given the lines that are about it, whose backend is chosen: all forms and policies, up to the
    first policy of no backend.
    """
    last = next((number for number, line in enumerate(lines) if line.policy and not line.backend), len(lines))
    taken, reasons = lines[: last + 1], list[str]()
    if len(taken) > 1 and taken[-1].policy == "follow":
        raise OptionError(f"{named(site)} cannot follow where it may be chosen: give the target no form for it")
    lettered = any(not line.policy for line in taken)
    if not lettered and not any(line.backend for line in taken):
        return _kept(taken[0], "", site, known)
    base = based(site, known) if lettered else known or opaque(site)
    return _of_ways(
        base, [way for line in taken for way in _offered(line, base, site, known, reasons)], None, site, reasons
    )


def _offered(line: Line, base: Rule, site: Site, known: Rule | None, reasons: list[str]) -> list[Way]:
    """The ways that a line offers to choose from, or none, and one of the reasons more."""
    if not line.policy:
        try:
            return [_way(site, base, line)]
        except MisfitError as error:
            reasons.append(str(error))
            return []
    if line.policy == "source" or known is None:
        plain = tuple(tuple(tuple(name.partition(":")[0] for name in names) for names in each) for each in base.dims)
        return [Way(Placed(plain), site.unchanged, "as in the source", backend=line.backend)]
    if base is not known:
        raise OptionError(
            f"{named(site)} has no letters of its own, so that its backend cannot be chosen between forms with letters "
            f"and the policy {line.policy}: give it one or the other"
        )
    return [replace(way, backend=line.backend) for way in known.ways]


def _of_ways(base: Rule, ways: Sequence[Way], otherwise: Rule | None, site: Site, reasons: Sequence[str]) -> Rule:
    """The rule of some ways, the fastest first. Raises :class:`OptionError` where there are none, for some reasons."""
    if not ways:
        told = "; ".join(dict.fromkeys(reasons))
        raise OptionError(
            f"no form of the target fits {named(site)}: {told}; give the target one more form, or a policy"
        )
    fastest = sorted(ways, key=lambda way: way.form.price.hidden)
    return replace(base, ways=tuple(fastest), closed=True, otherwise=otherwise)


def _kept(line: Line, backend: str, site: Site, known: Rule | None) -> Rule | None:
    """The rule of a node that a policy is about; None where that is its own."""
    if line.policy != "source" and not backend:
        return None
    kept = line.policy == "source" or known is None
    found = opaque(site) if known is None or kept else known
    return replace(found, ways=tuple(replace(way, backend=backend) for way in found.ways), closed=kept)


def based(site: Site, known: Rule | None) -> Rule:
    """The rule of a node whose dimensions have letters: its own, or one that keeps all of them, which are called as
    images are in the source.
    """
    if known is not None and known.letters:
        return known
    found = opaque(site)
    shapes = _shapes(site, found)
    count = len(found.inputs)
    names = [_image(site, len(shape)) if not 0 < port < count else "" for port, shape in enumerate(shapes)]
    given = tuple(name or unnamed(len(shape)) for name, shape in zip(names, shapes, strict=True))
    return replace(found, letters=given)


def _image(site: Site, rank: int) -> str:
    """The letters of an image as the source has it: channels second in ONNX, and last in TensorFlow Lite; where a
    Resize resamples what would be channels, they are where it does not.
    """
    first = image("NC", rank)
    last = first[:1] + first[2:] + first[1:2]
    own, other = (first, last) if site.graph.imports else (last, first)
    if site.node.op != "Resize" or not first:
        return own
    sides = zip(site.required(0).shape, site.output().shape, strict=True)
    resampled = [axis for axis, (before, after) in enumerate(sides) if before != after]
    return other if any(own[axis] == "C" for axis in resampled) else own


def _way(site: Site, base: Rule, line: Line) -> Way:
    """The form that a line says. Raises :class:`MisfitError` where the node has none such."""
    texts: dict[int, str] = {}
    count = len(base.inputs)
    for name, text in line.ports.items():
        number = PORTS[name]
        if number < 0:
            texts |= dict.fromkeys(range(count, len(base.dims)), text)
        elif number in base.inputs:
            texts[base.inputs.index(number)] = text
        elif name != "bias":
            raise MisfitError(f"it has no {name}")
    value = site.input(0)
    found = form(base, _shapes(site, base), texts, line.price, "" if value is None else value.dtype)
    return replace(found, backend=line.backend)
