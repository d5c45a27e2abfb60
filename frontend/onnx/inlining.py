"""Models with functions of their own, as models without."""

from __future__ import annotations

from collections.abc import Iterable

from layoutsolve.errors import ModelError
from layoutsolve.protos import FunctionProto, GraphProto, ModelProto, NodeProto, leave_out
from layoutsolve.scopes import nodes_of
from layoutsolve.wording import first_line

_DEEPEST, _GROWTH, _SPARE = 32, 16, 1 << 13
"""How deeply functions may call each other, and how many operators they may become for each of the file, and more."""

Key = tuple[str, str, str]
"""A function's domain, name and overload."""


def inlined(model: ModelProto) -> ModelProto:
    """A model without functions of its own."""
    if not model.functions:
        return model
    _check_growth(model)
    from onnx import inliner

    try:
        return inliner.inline_local_functions(_spelled_out(model))
    except Exception as error:  # whatever the library raises for functions that are none
        raise ModelError(f"the model's functions cannot be inlined: {first_line(error)}") from error


def _called(node: NodeProto) -> Key:
    return node.domain, node.op_type, node.overload


def _functions(model: ModelProto) -> dict[Key, FunctionProto]:
    return {(each.domain, each.name, each.overload): each for each in model.functions}


def _check_growth(model: ModelProto) -> None:
    """Raise :class:`ModelError` where functions call themselves, or would be far more than the file says."""
    bodies = _functions(model)
    sizes: dict[Key, int] = {}

    def size(key: Key, around: tuple[Key, ...]) -> int:
        if key in around or len(around) > _DEEPEST:
            raise ModelError(f"the function '{key[1]}' calls itself, or functions call each other too deeply")
        if key not in sizes:
            calls = map(_called, bodies[key].node)
            sizes[key] = sum(size(each, (*around, key)) if each in bodies else 1 for each in calls)
        return sizes[key]

    nodes = sum(len(each.node) for each in (model.graph, *model.functions))
    total = sum(size(key, ()) for node in model.graph.node if (key := _called(node)) in bodies)
    if total > _GROWTH * nodes + _SPARE:
        raise ModelError(f"its functions would become {total} operators, where the file has {nodes}: inline them in it")


def _spelled_out(model: ModelProto) -> ModelProto:
    """A model whose calls of functions have all attributes, as the library forgets the defaults of these."""
    if not any(each.attribute_proto for each in model.functions):
        return model
    made = ModelProto()
    made.CopyFrom(model)
    _Calls(made).spell_out()
    return made


class _Calls:
    """The calls of a model's functions. An attribute that a call leaves out, and that has no default, is left out as
    well where the function hands it on, to what may have one: that is a function of its own.
    """

    def __init__(self, model: ModelProto) -> None:
        self.model = model
        self.bodies = _functions(model)
        self.lacking: dict[tuple[Key, frozenset[str]], str] = {}
        self.waiting: list[GraphProto | FunctionProto] = [model.graph, *model.functions]

    def spell_out(self) -> None:
        """Give all calls the defaults of what they leave out."""
        for body in self.waiting:
            for node in nodes_of(body):
                if (called := self.bodies.get(_called(node))) is not None:
                    self._spell_out(node, called)

    def _spell_out(self, node: NodeProto, called: FunctionProto) -> None:
        given = {each.name for each in node.attribute}
        node.attribute.extend(each for each in called.attribute_proto if each.name not in given)
        absent = frozenset(called.attribute) - given
        if absent and not absent.isdisjoint(_handed_on(called)):
            node.op_type = self._without(_called(node), absent)

    def _without(self, key: Key, absent: frozenset[str]) -> str:
        """The name of a function that lacks some attributes."""
        if (key, absent) not in self.lacking:
            name = self.lacking[key, absent] = f"{key[1]}/without {len(self.lacking)}"
            made = self.model.functions.add()
            made.CopyFrom(self.bodies[key])
            made.name = name
            kept = [each for each in made.attribute if each not in absent]
            del made.attribute[:]
            made.attribute.extend(kept)
            for node in nodes_of(made):
                leave_out(node, {each.name for each in node.attribute if each.ref_attr_name in absent})
            self.bodies[made.domain, name, made.overload] = made
            self.waiting.append(made)
        return self.lacking[key, absent]


def _handed_on(function: FunctionProto) -> Iterable[str]:
    """The attributes that a function hands on to what it consists of."""
    return {each.ref_attr_name for node in nodes_of(function) for each in node.attribute if each.ref_attr_name}
