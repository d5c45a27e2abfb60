"""Models with functions of their own, as models without."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import suppress

from layoutsolve.base.fast_dataclasses import dataclass
from layoutsolve.base.wording import native_words, printable
from layoutsolve.errors import ModelError
from layoutsolve.frontend.onnx import definitions, versions
from layoutsolve.frontend.onnx.definitions import halves
from layoutsolve.ir.budget import GROWTH, SPARE
from layoutsolve.proto import operator_schemas
from layoutsolve.proto.messages import (
    DOMAINS,
    REFUSALS,
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    leave_out,
    native,
    opset_of,
)
from layoutsolve.proto.scopes import broken, nodes_of

_DEEPEST, _GROWTH, _SPARE = 32, 16, 1 << 13
"""How deeply functions may call each other, and how many operators they may become for each of the file, and more."""

DEFINED = (
    *("Attention", "CausalConvWithState", "LinearAttention", "RotaryEmbedding", "SoftmaxCrossEntropyLoss"),
    *("NegativeLogLikelihoodLoss", "SwiGLU", "CenterCropPad"),
    *("BlackmanWindow", "HammingWindow", "HannWindow"),
)
"""Operators that ONNX defines by others, each before those that it is defined by."""

_UNTYPED = ("GroupNormalization",)
"""Operators of whose results the library infers nothing; they are as their first inputs."""

Key = tuple[str, str, str]
"""A function's domain, name and overload."""


def inlined(model: ModelProto) -> ModelProto:
    """A model without functions of its own."""
    if not model.functions:
        return model
    _check_growth(model)
    from onnx import inliner

    try:
        return inliner.inline_local_functions(_of_one_set(_spelled_out(model)))
    except ModelError:
        raise
    except Exception as error:  # whatever the library raises for functions that are none
        raise broken(f"the model's functions cannot be inlined: {native_words(error)}") from error


def expanded(model: ModelProto) -> ModelProto:
    """A model with what ONNX defines some operators by in place of them, and what is defined here, which computes in
    float32 where it does in float16. An operator that the library does not define so stays, as where inputs between
    others are left out.
    """
    found = {node.op_type for node in nodes_of(model.graph) if node.domain in DOMAINS} & {*DEFINED}
    others = any(map(definitions.is_defined, nodes_of(model.graph)))
    if found or others:
        model = versions.converted(model)
        model = _with_defaults(model, found) if found else model
    with suppress(*REFUSALS):  # first those of which the library infers no types
        model = definitions.written(_typed(model)) if others else model
    for name in DEFINED:
        if any(node.op_type == name and node.domain in DOMAINS for node in nodes_of(model.graph)):
            from onnx import inliner

            with suppress(*REFUSALS):
                model = inliner.inline_selected_functions(_typed(model), [("", name)], inline_schema_functions=True)
    with suppress(*REFUSALS):
        model = halves.widened(_typed(model, agree=True)) if halves.computes_in_halves(model) else model
    return model


def _with_defaults(model: ModelProto, operators: Collection[str]) -> ModelProto:
    """A model whose operators of some names state the defaults of what they leave out, which the library forgets."""
    made = ModelProto()
    made.CopyFrom(model)
    for node in nodes_of(made.graph):
        if node.op_type in operators and node.domain in DOMAINS:
            schema = native.defs.get_schema(node.op_type, opset_of(made), "")
            given = {each.name for each in node.attribute}
            defaults = [each.default_value for name, each in schema.attributes.items() if name not in given]
            texts = [each if isinstance(each, bytes) else each.SerializeToString() for each in defaults]
            node.attribute.extend(each for text in texts if (each := AttributeProto.FromString(text)).type)
    return made


def _typed(model: ModelProto, agree: bool = False) -> ModelProto:
    """A model that states the types of what is computed, and of initializers, which the library asks for. Raises one of
    :data:`REFUSALS` where types do not ``agree`` that have to.
    """
    like, nodes = model, model.graph.node
    untyped = [at for at, node in enumerate(nodes) if node.op_type in _UNTYPED and node.domain in DOMAINS]
    if untyped:
        like = ModelProto()
        like.CopyFrom(model)
    for node in (like.graph.node[at] for at in untyped):
        node.op_type = "Identity"
        del node.input[1:], node.attribute[:]
    made: ModelProto = ModelProto.FromString(
        native.shape_inference.infer_shapes(like.SerializeToString(), agree, False, False)
    )
    for at in untyped:
        made.graph.node[at].CopyFrom(nodes[at])
    known = {each.name for each in (*made.graph.input, *made.graph.value_info)}
    for each in (each for each in made.graph.initializer if each.name not in known):
        kind = made.graph.value_info.add(name=each.name).type.tensor_type
        kind.elem_type = each.data_type
        kind.shape.SetInParent()
        for size in each.dims:
            kind.shape.dim.add(dim_value=size)
    return made


def _called(node: NodeProto) -> Key:
    return node.domain, node.op_type, node.overload


def _functions(model: ModelProto) -> dict[Key, FunctionProto]:
    return {(each.domain, each.name, each.overload): each for each in model.functions}


def _check_growth(model: ModelProto) -> None:
    """Raise :class:`ModelError` where functions call themselves, or would be far more than the file says: operators,
    those in branches and loops included, or bytes.
    """
    found = _Growth(model).of(model.graph, ())
    nodes, own = sum(len(list(nodes_of(each))) for each in (model.graph, *model.functions)), model.ByteSize()
    for what, total, most, has in (
        ("operators", found.operators, _GROWTH * nodes + _SPARE, nodes),
        ("bytes", found.size, GROWTH * own + SPARE, own),
    ):
        if total > most:
            raise ModelError(f"its functions would become {total} {what}, where the file has {has}: inline them in it")


@dataclass(frozen=True)
class _Inlined:
    """What a body becomes: how many operators and bytes, and how often each attribute of the function is in it."""

    operators: int
    size: int
    attributes: Counter[str]


class _Growth:
    """What the functions of a model become."""

    def __init__(self, model: ModelProto) -> None:
        self.bodies = _functions(model)
        self.known: dict[Key, _Inlined] = {}

    def of(self, body: GraphProto | FunctionProto, around: tuple[Key, ...]) -> _Inlined:
        """What a body becomes that lies in some functions."""
        operators, size, attributes = 0, sum(node.ByteSize() for node in body.node), Counter[str]()
        for node in nodes_of(body):
            key = _called(node)
            if key in around or len(around) > _DEEPEST:
                raise ModelError(f"the function '{key[1]}' calls itself, or functions call each other too deeply")
            if key in self.bodies and key not in self.known:
                self.known[key] = self.of(self.bodies[key], (*around, key))
            called = self.known.get(key, _Inlined(1, 0, Counter()))
            operators, size = operators + called.operators, size + called.size
            given = {each.name: each for each in self.bodies[key].attribute_proto} if key in self.bodies else {}
            given |= {each.name: each for each in node.attribute}
            for name, each in given.items():
                times = called.attributes[name] if key in self.bodies else 1
                if each.ref_attr_name:
                    attributes[each.ref_attr_name] += times
                elif key in self.bodies:
                    size += times * each.ByteSize()
        return _Inlined(operators, size, attributes)


def _spelled_out(model: ModelProto) -> ModelProto:
    """A model whose calls of functions have all attributes, as the library forgets the defaults of these."""
    if not any(each.attribute_proto for each in model.functions):
        return model
    made = ModelProto()
    made.CopyFrom(model)
    _Calls(made).spell_out()
    return made


def _of_one_set(model: ModelProto) -> ModelProto:
    """A model whose functions import the operator sets that it does itself, in which runtimes read them as well: the
    library leaves others as they are. Raises :class:`ModelError` where an operator is another one there.
    """
    versions = operator_schemas.versions(model.opset_import)
    own = {each.domain for each in model.functions}
    given = [operator_schemas.versions(each.opset_import) for each in model.functions]
    once = all(len({*domains}) == len(domains) for domains in map(_imported, model.functions))
    if once and all(versions.get(domain, version) == version for each in given for domain, version in each.items()):
        return model
    made = ModelProto()
    made.CopyFrom(model)
    for function, imports in zip(made.functions, given, strict=True):
        for node in nodes_of(function):
            domain = "" if node.domain in DOMAINS else node.domain
            one, other = imports.get(domain), versions.get(domain)
            if domain in own or one is None or other is None or one == other:
                continue
            if not operator_schemas.is_still(node.op_type, domain, one, other):
                text = f"the function '{function.name}' has a {node.op_type} of operator set {one}, and the model is in"
                raise ModelError(printable(f"{text} {other}, where it is another operator: export both in the same"))
        del function.opset_import[:]
        for domain, version in sorted({**imports, **versions}.items()):
            function.opset_import.add(domain=domain, version=version)
    return made


def _imported(function: FunctionProto) -> list[str]:
    """The domains that a function imports, of which it may say one twice."""
    return ["" if each.domain in DOMAINS else each.domain for each in function.opset_import]


class _Calls:
    """The calls of a model's functions. An attribute that a call leaves out, and that has no default, is left out as
    well where the function hands it on, to what may have one: that is a function of its own.
    """

    def __init__(self, model: ModelProto) -> None:
        self.model = model
        self.bodies = _functions(model)
        self.lacking: dict[tuple[Key, frozenset[str]], str] = {}
        self.waiting: list[GraphProto | FunctionProto] = [model.graph]
        self.seen: set[Key] = set()

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
        elif _called(node) not in self.seen:
            self.seen.add(_called(node))
            self.waiting.append(called)

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
