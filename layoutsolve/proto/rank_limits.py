"""How many dimensions tensors may come to have: asked before native code infers types and sizes, which repeats every
dimension of whatever is computed, and where a chain of Gathers doubles their number with each of them.

What is kept of a tensor are upper bounds, from one look at each node in topological order. Where one is too large, or
depends on how long a vector is, inference itself tells what is true, of all but the nodes in question.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Mapping, MutableMapping, Sequence

from layoutsolve.base.wording import printable
from layoutsolve.errors import ModelError
from layoutsolve.proto.messages import (
    DOMAINS,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    integer,
    native,
)
from layoutsolve.proto.operator_schemas import MOST_DIMENSIONS
from layoutsolve.proto.rank_bounds import (
    MANY,
    RULES,
    UNKNOWN,
    Bound,
    bound_of_constant,
    bound_of_results,
    bound_of_type,
    either,
    rank_of,
    with_dimensions,
)
from layoutsolve.proto.scopes import graphs_of, nodes_of

_ROUNDS = 32
"""How often inference is asked for what is true."""

_ASIDE = "layoutsolve.growing"
"""The domain of nodes that are hidden from inference."""


Bounds = MutableMapping[str, Bound]

Place = tuple[int, str, str]
"""The number of a node in its graph, its operator and its first result."""


def check(model: ModelProto) -> None:
    """Raise :class:`ModelError` where inference would, or might, come upon a tensor of more dimensions than any array
    has.
    """
    for place in _growing(model):
        raise _grown(place)


def checked(model: ModelProto) -> ModelProto:
    """A model whose types and sizes can be inferred: nodes are hidden of which nothing bounds the dimensions that they
    give. Raises :class:`ModelError` where these are too many.
    """
    growing = _growing(model)
    return _without(model, growing) if growing else model


def bring_back(model: ModelProto) -> None:
    """Undo :func:`checked`, in a model that was made of what it gave."""
    for node in nodes_of(model.graph):
        if node.domain == _ASIDE:
            node.domain = ""
    kept = [each for each in model.opset_import if each.domain != _ASIDE]
    del model.opset_import[:]
    model.opset_import.extend(kept)


def hidden(model: ModelProto) -> set[str]:
    """The operators of the nodes that :func:`checked` hides in a model that it gave."""
    return {node.op_type for node in nodes_of(model.graph) if node.domain == _ASIDE}


def bounded(model: ModelProto) -> dict[str, int]:
    """The most dimensions that each tensor of a model's graph has, as far as inference knows of them, by name."""
    bounds: ChainMap[str, Bound] = ChainMap({"": UNKNOWN})
    _Pass().over(model, bounds)
    return {name: bound.rank for name, bound in bounds.items() if bound.rank is not None}


def _growing(model: ModelProto) -> list[Place]:
    """The nodes of a model that have to be hidden from inference, as nothing bounds the dimensions that they give."""
    last = _Pass()
    last.over(model)
    for _ in range(_ROUNDS):
        if not any(within == 0 for within, _ in last.growing.values()):
            break
        last = _Pass(_true(model, list(last.growing)), last.growing)
        last.over(model)
    for place, (_, rank) in last.growing.items():
        if rank < MANY:
            raise _grown(place)
    return list(last.growing)


def check_node(node: NodeProto, kinds: Mapping[str, TypeProto], data: Mapping[str, bytes]) -> None:
    """The same of a single node, given the types of what it reads and the content of some of that."""
    if node.op_type not in RULES:
        return
    given = []
    for name in node.input:
        bound = bound_of_type(kinds[name]) if name in kinds else UNKNOWN
        given.append(bound_of_constant(TensorProto.FromString(data[name])) if name in data else bound)
    if (bound_of_results(node, given).rank or 0) > MOST_DIMENSIONS:
        raise _grown((-1, node.op_type, next(iter(node.output), "")))


def _grown(place: Place) -> ModelError:
    index, op, output = place
    number = f" {index}" if index >= 0 else ""
    return ModelError(
        printable(
            f"operator{number} {op} (output '{output}') gives a tensor of more than {MOST_DIMENSIONS} dimensions, which"
            f" are the most: merge some"
        )
    )


def _without(model: ModelProto, hidden: Collection[Place]) -> ModelProto:
    """A model some of whose nodes are hidden from inference."""
    asked = ModelProto()
    asked.CopyFrom(model)
    asked.opset_import.add(domain=_ASIDE, version=1)
    places, stack = set(hidden), [asked.graph]
    while stack:
        graph = stack.pop()
        for index, node in enumerate(graph.node):
            stack += graphs_of(node)
            if _place(index, node) in places:
                node.domain = _ASIDE
    return asked


def _true(model: ModelProto, hidden: Collection[Place]) -> dict[str, Bound]:
    """What inference tells of a model's graph when some nodes are hidden from it, by name."""
    asked = _without(model, hidden)
    del asked.graph.value_info[:]
    for port in asked.graph.output:
        port.type.Clear()
    try:
        data = native.shape_inference.infer_shapes(asked.SerializeToString(), False, False, False)
    except Exception as error:  # of a library that tells nothing of this model
        raise _grown(next(iter(hidden))) from error
    found = ModelProto.FromString(data).graph
    return {info.name: bound_of_type(info.type) for info in (*found.output, *found.value_info)}


def _place(index: int, node: NodeProto) -> Place:
    return index, node.op_type, next(iter(node.output), "")


class _Pass:
    """One look at each node, ``true`` being what inference told when some were hidden from it; None before."""

    def __init__(self, true: Mapping[str, Bound] | None = None, hidden: Collection[Place] = ()) -> None:
        self.true, self.hidden = true, frozenset(hidden)
        self.growing: dict[Place, tuple[int, int]] = {}
        """The nodes that may give too many dimensions: how deeply they lie, and how many these are."""

    def over(self, model: ModelProto, bounds: ChainMap[str, Bound] | None = None) -> None:
        """Look at a model. Raises :class:`ModelError` for a node that is known to give too many dimensions."""
        self._graph(model.graph, ChainMap({"": UNKNOWN}) if bounds is None else bounds, [])

    def _graph(self, graph: GraphProto, bounds: ChainMap[str, Bound], given: Sequence[Bound]) -> list[Bound]:
        """The bounds of what a graph gives."""
        for tensor in graph.initializer:
            bounds[tensor.name] = bound_of_constant(tensor)
        for sparse in graph.sparse_initializer:
            bounds[sparse.values.name] = Bound(len(sparse.dims), MANY)
        for number, port in enumerate(graph.input):
            bound = bound_of_type(port.type)
            if number < len(given):
                bound = either(bound, given[number])
            default = bounds.maps[0].get(port.name)
            if default is not None and not given:
                bound = default._replace(rank=max(default.rank or 0, bound.rank or 0), wide=None, last=0)
            bounds[port.name] = bound
        told = {info.name: rank for info in (*graph.value_info, *graph.output) if (rank := rank_of(info.type))}
        for index, node in enumerate(graph.node):
            self._node(index, node, bounds, told)
        return [bounds.get(port.name, UNKNOWN) for port in graph.output]

    def _node(self, index: int, node: NodeProto, bounds: ChainMap[str, Bound], told: Mapping[str, int]) -> None:
        place, inputs = _place(index, node), [bounds.get(name, UNKNOWN) for name in node.input]
        dependent = any(each.hidden for each in inputs)
        if node.op_type in _FLOWS and node.domain in DOMAINS:
            results = self._flow(node, inputs, bounds)
            dependent = dependent or any(each.hidden for each in results)
        else:
            results = [bound_of_results(node, inputs)] * len(node.output)
        true, within = self.true, len(bounds.maps) - 1
        most = max((each.rank or 0 for each in results), default=0)
        if most > MOST_DIMENSIONS:
            if true is not None and not dependent and not within:
                raise _grown(place)
            self.growing[place] = within, most
            if within:  # where inference does not tell what it finds
                results = [UNKNOWN] * len(results)
        dependent = dependent or place in self.hidden
        for name, bound in zip(node.output, results, strict=False):
            rank, count, wide = bound.rank, bound.elements, bound.wide
            if true is not None and not within:
                known = true.get(name, UNKNOWN)
                if not dependent:
                    rank, count = known.rank, known.elements
                elif rank is not None and known.rank is not None:
                    rank = min(rank, known.rank)
            if name in told and told[name] > (rank or 0):
                rank, wide = told[name], None
            bounds[name] = Bound(rank, count, bound.product, dependent, wide, bound.last)

    def _flow(self, node: NodeProto, inputs: Sequence[Bound], bounds: ChainMap[str, Bound]) -> list[Bound]:
        """What branches and bodies give."""
        op, given, graphs = node.op_type, list(inputs), list(graphs_of(node))
        if not graphs:
            return []
        carried = 0
        if op == "If":
            given = []
        elif op == "Loop":
            given[:2] = [Bound(0, 1), Bound(0, 1)]
        elif op == "Scan":
            given = given[max(len(given) - len(graphs[0].input), 0) :]  # once there were lengths before all else
            carried = max(len(given) - integer(node, "num_scan_inputs", 1), 0)
            given[carried:] = [with_dimensions(each, -1) for each in given[carried:]]
        found, *others = [self._graph(graph, bounds.new_child(), given) for graph in graphs]
        if op == "If":
            for other in others:
                found = list(map(either, found, other))
        elif op in ("Loop", "Scan"):
            initial, found = (given[2:], found[1:]) if op == "Loop" else (given[:carried], found)
            more = 1 if op == "Loop" else 2
            stacked = [with_dimensions(each, more) for each in found[len(initial) :]]
            found = [*map(either, initial, found), *stacked]
        return found


_FLOWS = ("If", "Loop", "Scan", "SequenceMap")
"""Operators whose graphs inference looks into."""
