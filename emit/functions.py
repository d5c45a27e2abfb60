"""Functions of a model: operators in forms that ONNX does not have, written in those that it has.

A node of the domain ``layoutsolve.plan`` stands for a kernel of another compiler, which matches its name. So that any
runtime can run the model, the name is that of a function which moves what it reads to the layouts of ONNX, computes,
and moves the result back. Bodies need no sizes, so that one function serves all nodes of its form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from layoutsolve.ir.functions import PLAN, Function, Recast
from layoutsolve.proto.messages import AttributeProto, FunctionProto, NodeProto, OperatorSetIdProto, attribute

_Group = tuple[int, ...]

_KERNEL = "kernel"
"""What the node of a function is called that computes, in the layouts of ONNX."""


def functions_of(
    nodes: Iterable[NodeProto], functions: Mapping[str, Function], imports: Sequence[OperatorSetIdProto]
) -> Iterator[FunctionProto]:
    """The functions that some nodes call, by name, in the operator sets that their model ``imports``."""
    types: dict[str, dict[str, AttributeProto]] = {}
    for node in nodes:
        if node.domain == PLAN:
            types.setdefault(node.op_type, {}).update({each.name: each for each in node.attribute})
    for name in sorted(types):
        yield _written(functions[name], types[name], imports)


def _written(
    function: Function, attributes: Mapping[str, AttributeProto], imports: Sequence[OperatorSetIdProto]
) -> FunctionProto:
    body = _Body()
    given = [f"input{number}" for number in range(len(function.inputs))]
    results = [f"output{number}" for number in range(len(function.outputs))]
    read = [
        name if each is None else body.recast(name, each) for name, each in zip(given, function.inputs, strict=True)
    ]
    plain = [name if each is None else f"{name}/plain" for name, each in zip(results, function.outputs, strict=True)]
    kernel = body.node(function.op, read, plain, function.domain)
    kernel.name = _KERNEL
    for name, example in sorted(attributes.items()):
        kernel.attribute.append(AttributeProto(name=name, ref_attr_name=name, type=example.type))
    for before, name, each in zip(plain, results, function.outputs, strict=True):
        if each is not None:
            body.cast_back(before, name, each)
    return FunctionProto(
        name=function.name,
        domain=PLAN,
        input=given,
        output=results,
        attribute=sorted(attributes),
        node=body.nodes,
        opset_import=[each for each in imports if each.domain in ("", function.domain)],
    )


def kernel_of(function: FunctionProto) -> tuple[str, str]:
    """The domain and the name of the operator that a function computes."""
    (kernel,) = (node for node in function.node if node.name == _KERNEL)
    return kernel.domain, kernel.op_type


class _Body:
    """The nodes of a function in the making. Names are those of its ends with a number behind."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []

    def node(self, op: str, inputs: Sequence[str], outputs: Sequence[str], domain: str = "") -> NodeProto:
        """Write a node."""
        name = f"{op}:{len(self.nodes)}"
        self.nodes.append(NodeProto(op_type=op, name=name, input=inputs, output=outputs, domain=domain))
        return self.nodes[-1]

    def recast(self, name: str, recast: Recast) -> str:
        """What is stored as the operator wants it; dimensions that it is a product of are joined one by one."""
        at: list[_Group] = [(place,) for place in range(len(recast.blocks))]
        for part in recast.parts:
            if len(part) > 1:
                joined: list[_Group] = [(place,) for place in part]
                others = [group for group in at if group not in joined]
                name = self._reshaped(self._transposed(name, at, others + joined), len(others), (-1,))
                at = [*others, part]
        return self._transposed(name, at, list(recast.parts))

    def cast_back(self, name: str, result: str, recast: Recast) -> None:
        """Write what an operator gives as it is stored."""
        at: list[_Group] = list(recast.parts)
        for part in recast.parts:
            if len(part) > 1:
                others = [group for group in at if group != part]
                sizes = (-1, *(recast.blocks[place] for place in part[1:]))
                name = self._reshaped(self._transposed(name, at, [*others, part]), len(others), sizes)
                at = [*others, *((place,) for place in part)]
        stored: list[_Group] = [(place,) for place in range(len(recast.blocks))]
        last = self._transposed(name, at, stored)
        if last == name:
            self.node("Identity", [name], [result])
        else:
            self.nodes[-1].output[0] = result

    def _transposed(self, name: str, before: Sequence[_Group], after: Sequence[_Group]) -> str:
        if before == after:
            return name
        result = f"{name}/{len(self.nodes)}"
        made = self.node("Transpose", [name], [result])
        made.attribute.append(attribute("perm", [before.index(group) for group in after]))
        return result

    def _reshaped(self, name: str, kept: int, sizes: Sequence[int]) -> str:
        """The first dimensions as they are, what is behind them in some sizes."""
        result = f"{name}/{len(self.nodes)}"
        shape = f"{result}/shape"
        self.node("Constant", [], [shape]).attribute.append(attribute("value_ints", [0] * kept + [*sizes]))
        self.node("Reshape", [name, shape], [result])
        return result
