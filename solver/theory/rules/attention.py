"""Attention and rotary embeddings: heads are a dimension by themselves, or lie within features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.ir.graph import Dim, Shape, Size
from layoutsolve.solver.theory.relation import Placed
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import CONTRIB, Dims, Rule, Site, Step, Way, rule

HEADS, FEATURES = 4, 3
"""The dimensions where heads are one of them, before the sequence, and where they lie within features, behind it."""

Labels = tuple[str, str, str, str]
"""Those of batch, heads, sequence and features of a head."""


def undivided(labels: Labels) -> Dims:
    """The places of batch, sequence and features that are not known to be so many for each head."""
    batch, heads, sequence, features = labels
    return (batch,), (sequence,), (heads + features,)


KINDS = {HEADS: "heads apart", FEATURES: "heads in features"}

UNKNOWN = 0
"""The size of a head where features are open."""

EXCHANGED = "heads before batch"
"""The kind of a way in which each is taken for the other: heads are apart, and nothing tells them from a batch."""


def lying(rank: int, labels: Labels) -> Dims:
    """The places of batch, heads, sequence and the features of a head."""
    batch, heads, sequence, features = labels
    if rank == HEADS:
        return (batch,), (heads,), (sequence,), (features,)
    return (batch,), (sequence,), (heads, features)


@dataclass(frozen=True, slots=True)
class Headed:
    """A port: ``labels`` of one that may have its heads either way, or the ``places`` of one that has not."""

    number: int
    labels: Labels | None = None
    places: Dims = ()

    def at(self, rank: int, whole: bool = False) -> Dims:
        """Its places where heads are so, or lie within features that are ``whole``."""
        if self.labels is None:
            return self.places
        return undivided(self.labels) if whole else lying(rank, self.labels)

    def exchanged(self) -> Dims | None:
        """Its places where batch and heads, apart, have changed theirs; None where they cannot."""
        batch, *rest = self.at(HEADS)
        if len(rest) == HEADS - 1:
            return rest[0], batch, *rest[1:]
        return self.at(HEADS) if len(rest) < HEADS - 2 or not batch else None


def headed(
    site: Site,
    ports: tuple[list[Headed], list[Headed]],
    free: str,
    sizes: Mapping[str, Dim],
    attributes: Mapping[int, Mapping[str, Any]],
    symmetric: bool = False,
) -> Rule:
    """The rule of an operator with some ports, and the ``attributes`` that it has for either number of dimensions. In
    one that is ``symmetric`` batch and heads may change places. Features of which ``sizes`` do not say how many a head
    has stay whole.
    """
    source = len(site.required(0).shape)
    whole = source == FEATURES and any(size == UNKNOWN for size in sizes.values())
    every = [*ports[0], *ports[1]]

    def way(rank: int, places: tuple[Dims, ...] | None = None) -> Way:
        def rewrite(row: Row, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
            if rank == source:
                return site.same()
            gone = {name for each in attributes.values() for name in each}
            kept = {name: value for name, value in site.node.attributes.items() if name not in gone}
            (step,) = site.same()
            return (Step(step.op, step.inputs, step.outputs, {**kept, **attributes[rank]}, step.domain),)

        kind = KINDS[rank] if places is None else EXCHANGED
        return Way(Placed(places or tuple(each.at(rank, whole) for each in every), frozenset(free)), rewrite, kind)

    dims = tuple(each.at(source, whole) for each in every)
    labels = {label for each in dims for place in each for label in place}
    dense = tuple(tuple(tuple(name for name in place if sizes.get(name) != 1) for place in each) for each in dims)
    counted = all(isinstance(count, int) for each in attributes.values() for count in each.values())
    ways = [way(source), *([way(HEADS + FEATURES - source)] if counted and not whole else [])]
    turned = [each.exchanged() for each in every if symmetric and not whole]
    if turned and None not in turned:
        ways.append(way(HEADS, tuple(places for places in turned if places is not None)))
    inputs = tuple(each.number for each in ports[0])
    return Rule(inputs, dense, tuple(ways), sizes, frozenset(labels).difference(free))


@rule("Attention")
def attention(site: Site) -> Rule | None:
    """Heads apart or in features. Batch, heads and features of a head come in any order; so do the queries, and the
    keys, where none is before another.
    """
    shapes = [site.required(number).shape for number in range(3)]
    rank = len(shapes[0])
    if rank not in (HEADS, FEATURES) or any(len(shape) != rank for shape in shapes):
        return None
    heads, groups, size, value = _counted(site, shapes)
    shared, past, unordered = heads == groups, site.input(4) is not None, _unordered(site)
    group, total = "h" if shared else "g", "w" if past else "t"
    sizes: dict[str, Dim] = {"h": heads, "d": size, "e": value, **({} if shared else {"g": groups})}
    inputs = [
        Headed(0, ("b", "h", "s", "d")),
        Headed(1, ("b", group, "t", "d")),
        Headed(2, ("b", group, "t", "e")),
    ]
    apart = frozenset[str]()
    if site.input(3) is not None:
        total_size = shapes[1][-2] if not past else site.required(3).shape[-1]
        masked = _masked(site.required(3).shape, (shapes[0][0], heads, shapes[0][-2], total_size), total)
        if masked is None:
            return None
        places, apart = masked
        inputs.append(Headed(3, places=places))
    states = ((4, (("b",), (group,), ("u",), ("d",))), (5, (("b",), (group,), ("u",), ("e",))), (6, (("b",),)))
    inputs += [Headed(number, places=places) for number, places in states if site.input(number) is not None]
    results = [
        Headed(0, ("b", "h", "s", "e")),
        Headed(1, places=(("b",), (group,), (total,), ("d",))),
        Headed(2, places=(("b",), (group,), (total,), ("e",))),
        Headed(3, places=(("b",), ("h",), ("s",), (total,))),
    ]
    outputs = [each for each, name in zip(results, site.node.outputs, strict=False) if name]
    free = "bde" + ("h" if shared else "") + ("s" if unordered else "") + ("t" if unordered and not past else "")
    free = "".join(label for label in free if label not in apart)
    attributes = {HEADS: {}, FEATURES: {"q_num_heads": heads, "kv_num_heads": groups}}
    return headed(site, (inputs, outputs), free, sizes, attributes, shared and site.input(6) is None)


def _counted(site: Site, shapes: Sequence[Shape]) -> tuple[Dim, Dim, Dim, Dim]:
    """How many heads queries and keys have, and how many features a head of keys and of values."""
    queries, keys, values = shapes
    if len(queries) == HEADS:
        return queries[1], keys[1], queries[3], values[3]
    heads, groups = site.attribute("q_num_heads"), site.attribute("kv_num_heads")
    return heads, groups, per_head(queries[2], heads), per_head(values[2], groups)


def per_head(features: Dim, heads: int) -> Dim:
    """The size of a head within features."""
    return UNKNOWN if isinstance(features, Size) else features // heads


def _masked(mask: Shape, scores: Shape, total: str) -> tuple[Dims, frozenset[str]] | None:
    """The places of a mask, which may be repeated, and the labels along which it is not known to be, which have others
    there; None where it is of other sizes.
    """
    first = len(scores) - len(mask)
    names, pairs = ("b", "h", "s", total)[first:], [*zip(mask, scores[first:], strict=True)]
    if any(isinstance(dim, int) and isinstance(size, int) and dim not in (1, size) for dim, size in pairs):
        return None
    apart = frozenset(name for name, (dim, size) in zip(names, pairs, strict=True) if dim not in (1, size))
    own = (f"m{name}" if name in apart else name for name in names)
    return tuple(() if dim == 1 else (name,) for dim, name in zip(mask, own, strict=True)), apart


def _unordered(site: Site) -> bool:
    """Whether it is no matter which key comes after which."""
    windows = any(site.attribute(f"{side}_window_size", -1) >= 0 for side in ("left", "right"))
    return not (site.attribute("is_causal", 0) or windows or site.input(6) is not None)


@rule(f"{CONTRIB}:MultiHeadAttention")
def multi_head_attention(site: Site) -> Rule | None:
    """Features with heads in them; batch, heads and features of a head come in any order, but for those of a bias."""
    shapes = [value.shape for number in range(3) if (value := site.input(number)) is not None]
    others = [number for number in range(4, len(site.node.inputs)) if site.input(number) is not None]
    if [len(shape) for shape in shapes] != [FEATURES] * 3 or others or any(site.node.outputs[1:]):
        return None
    heads = site.attribute("num_heads")
    sizes = {"h": heads, "d": per_head(shapes[0][2], heads), "e": per_head(shapes[2][2], heads)}
    ports: tuple[Labels, ...] = ("b", "h", "s", "d"), ("b", "h", "t", "d"), ("b", "h", "t", "e"), ("b", "h", "s", "e")
    lie = undivided if UNKNOWN in sizes.values() else partial(lying, FEATURES)
    dims = tuple(map(lie, ports))
    free = "b" + ("" if site.input(3) is not None else "hde") + ("" if site.attribute("unidirectional", 0) else "st")
    dense = tuple(tuple(tuple(name for name in place if sizes.get(name) != 1) for place in each) for each in dims)
    way = Way(Placed(dims, frozenset(free)), site.unchanged)
    solid = frozenset(label for each in dims for place in each for label in place).difference(free)
    return Rule((0, 1, 2), dense, (way,), sizes, solid)


@rule("RotaryEmbedding", f"{CONTRIB}:RotaryEmbedding")
def rotary(site: Site) -> Rule | None:
    """Heads apart or in features, which stay in order; batch, heads and places of the sequence come in any."""
    shape, own = site.required(0).shape, site.node.domain == ""
    rank, heads = len(shape), site.attribute("num_heads", 0)
    where, tables = (3, (1, 2)) if own else (1, (2, 3))
    if rank not in (HEADS, FEATURES) or (rank == FEATURES and not heads):
        return None
    sizes: dict[str, Dim] = (
        {"h": heads, "d": per_head(shape[2], heads)} if rank == FEATURES else {"h": shape[1], "d": shape[3]}
    )
    batch, length = shape[0], shape[2 if rank == HEADS else 1]
    inputs, told, apart = [Headed(0, ("b", "h", "s", "d"))], set[str](), set[str]()
    place = site.input(where)
    for number in sorted((where, *tables)):
        value, names = site.input(number), ("b", "s") if number == where else ("b", "s", "r")
        if value is None:
            continue
        if number == where and value.shape == (1,):
            inputs.append(Headed(number, places=(("one",),)))
        elif number != where and len(value.shape) == 2 and place is not None:
            inputs.append(Headed(number, places=(("m",), ("r",))))
        elif len(value.shape) == len(names):
            pairs = [*zip(value.shape, (batch, length), names, strict=False)]
            if any(isinstance(dim, int) and isinstance(size, int) and dim != size for dim, size, _ in pairs):
                return None
            open_ = {name for dim, size, name in pairs if dim != size}
            inputs.append(Headed(number, places=tuple((f"m{name}" if name in open_ else name,) for name in names)))
            told, apart = told | {"s"}, apart | open_
        else:
            return None
    counted = {"num_heads": sizes["h"]}
    attributes = {HEADS: {} if own else counted, FEATURES: counted}
    return headed(
        site, (inputs, [Headed(0, ("b", "h", "s", "d"))]), "".join(({*"bh"} | told) - apart), sizes, attributes
    )
