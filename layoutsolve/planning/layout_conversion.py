"""Converting the layouts of some operators, as TVM's ConvertLayout and AlterOpLayout do it, in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from glob import escape
from typing import TYPE_CHECKING, Any

from layoutsolve.api import convert
from layoutsolve.base import gc_pause
from layoutsolve.base.wording import nearest
from layoutsolve.conversion import arguments
from layoutsolve.conversion.stages import Stages
from layoutsolve.conversion.translation import reference
from layoutsolve.errors import ConversionError, OptionError
from layoutsolve.io.source import Source, load
from layoutsolve.ir.graph import Graph, Node, Shape
from layoutsolve.result import Conversion
from layoutsolve.solver.statement.boundary import Ends
from layoutsolve.solver.statement.concat_steps import in_steps
from layoutsolve.solver.statement.objective import DEFAULT_OBJECTIVE
from layoutsolve.solver.targets.form_table import Line, Match, Table
from layoutsolve.solver.targets.target import Target
from layoutsolve.solver.targets.target_file import shipped
from layoutsolve.solver.theory.letters import letters
from layoutsolve.solver.theory.node_rule import known_rule
from layoutsolve.solver.theory.rule import RULES, Site, operator_name

if TYPE_CHECKING:
    import onnx

_WITH_KERNEL = ("Conv", "ConvTranspose", "ConvInteger", "Gemm", "QLinearConv")
"""The operators of which the second text is about the kernel; of all others it is about the result."""


@dataclass(frozen=True)
class LayoutCall:
    """Operator whose layouts a callback of :func:`convert_layout` chooses.

    It has the ONNX operator, its ``name`` in the source (or that of its first output), the letters of its ports as ONNX
    has them (inputs that have some, then outputs), their shapes, the type in which its first input is stored, and its
    attributes.
    """

    operator: str
    name: str
    letters: tuple[str, ...]
    shapes: tuple[Shape, ...]
    dtype: str
    attributes: Mapping[str, object]


Desired = Mapping[str, Sequence[str]]
"""By operator of ONNX the texts that say how it stores data, its kernel if it has one, and its result (by default as
data): ``{"Conv": ["NHWC", "OHWI"], "MaxPool": ["NHWC"]}``.
"""

Callback = Callable[[LayoutCall], "Sequence[str] | None"]
"""From an operator to such texts, None for one that is to be as it would be without the callback."""


@gc_pause.paused()
def convert_layout(
    model: Source | onnx.ModelProto,
    desired: Desired | None = None,
    *,
    callback: Callback | None = None,
    inputs: Ends = "keep",
    outputs: Ends = "keep",
    objective: str = DEFAULT_OBJECTIVE,
    time_limit: float | None = None,
) -> Conversion:
    """Give operators the desired layouts with the fewest layout conversions, as TVM's ConvertLayout does.

    :param model: a TensorFlow Lite or ONNX model: its path, its bytes, or an ``onnx.ModelProto``. Operators and letters
        are those of ONNX, whatever the source stores.
    :param desired: by operator the layouts of its ports, as in ``{"Conv": ["NHWC", "OHWI"]}``. Operators without such a
        form (other dimensions, blocks that do not divide), and those not named, are as in ONNX.
    :param callback: called for each operator whose dimensions have letters; its result overrides ``desired`` unless it
        is None.
    :param inputs: layouts of graph inputs: 'keep' is the source's order, 'free' lets the solver choose; otherwise as
        for :func:`layoutsolve.convert`.
    :param outputs: the same of graph outputs.
    :param objective: the objective, as for :func:`layoutsolve.convert`.
    :param time_limit: limit of the conversion, in seconds.
    :returns: the conversion. In its model an operator in a form that ONNX does not have calls a model-local function,
        ``layoutsolve.plan::Conv_NHWC_OHWI``, so that it runs. Transposes outside of functions are the layout
        conversions.
    :raises TypeError: for arguments of a wrong type.
    :raises ConversionError: for every other error.
    """
    content = load(model if not hasattr(model, "SerializeToString") else model.SerializeToString())
    wanted = arguments.texts_by_name("desired", desired)
    lines = [line for name, texts in wanted.items() for line in _lines(f"desired['{name}']", name, texts, Match())]
    if callback is not None:
        arguments.function("callback", callback)
        with Stages(content)("read"):
            graph = in_steps(reference(content, arguments.Options().reading, Stages(content)))
            lines = [*_called(graph, callback), *lines]
    how: dict[str, Any] = {"target": _target(lines), "objective": objective, "time_limit": time_limit}
    return convert(content, inputs=inputs, outputs=outputs, **how)


def _target(lines: Sequence[Line]) -> Target:
    """ONNX with some forms in place of its own."""
    policies = dict.fromkeys(operator for line in lines for operator in line.operators)
    table = Table((*lines, *(Line((operator,), policy="any") for operator in policies)))
    return replace(shipped("onnx"), name="convert-layout", table=table)


def _lines(field: str, operator: str, texts: Sequence[str], match: Match) -> Iterator[Line]:
    """The line that says how an operator stores its ports. Raises :class:`OptionError` for what says nothing."""
    if operator not in RULES:
        raise OptionError(f"{field}: no operator of ONNX with layouts is called so{nearest(operator, RULES)}")
    names = ("data", "kernel", "out") if operator in _WITH_KERNEL else ("data", "out")
    if not 0 < len(texts) <= len(names):
        raise OptionError(f"{field}: give 1 to {len(names)} texts: {', '.join(names)}")
    ports = dict(zip(names, texts, strict=False))
    for text in ports.values():
        try:
            letters(text)
        except ValueError as error:
            raise OptionError(f"{field}: '{text}' is no order of dimensions: {error}") from error
    yield Line((operator,), {**ports, "out": ports.get("out", ports["data"])}, match=match)


def _called(graph: Graph, callback: Callback) -> Iterator[Line]:
    """What the callback says, node by node."""
    for node in graph.nodes:
        rule = known_rule(Site(graph, node))
        if rule is None or not rule.letters:
            continue
        names = [node.inputs[number] for number in rule.inputs] + [name for name in node.outputs if name]
        shapes = tuple(graph.values[name].shape for name in names)
        dtype = graph.values[node.inputs[0]].dtype
        operator, own = operator_name(node), dict(node.attributes)
        field = f"callback of '{_name(node)}'"
        texts = _asked(field, callback, LayoutCall(operator, _name(node), rule.letters, shapes, dtype, own))
        if texts is not None:
            match = Match(name=(escape(node.outputs[0]),))
            yield from _lines(field, operator, texts, match)
            yield Line((operator,), policy="any", match=match)  # so that nothing else is about it


def _asked(field: str, callback: Callback, call: LayoutCall) -> tuple[str, ...] | None:
    """What the callback says of an operator. Whatever goes wrong in it is an error that names the operator."""
    try:
        found = callback(call)
    except ConversionError:
        raise
    except Exception as error:  # it is code of others, which may raise anything
        raise OptionError(f"{field}: it failed: {type(error).__name__}: {error}") from error
    try:
        return None if found is None else arguments.texts("what it returns", found)
    except TypeError as error:
        raise OptionError(f"{field}: {error}") from error


def _name(node: Node) -> str:
    """What the source calls a node, or else its first output."""
    return node.origin.name if node.origin is not None and node.origin.name else node.outputs[0]
