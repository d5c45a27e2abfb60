"""The page of all operators, ``docs/operators.md``: what their cases cover, and which layouts they can run in.

``python -m tests.operators`` writes it anew from the conformance cases: each case's model is lowered, and the rules of
the ONNX operators that its operator becomes say what the solver may do with it.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from layoutsolve.emit.opset import required_opset
from layoutsolve.frontend import read
from layoutsolve.frontend.tflite.lowering.registry import every_lowering
from layoutsolve.frontend.tflite.lowering.unsupported import REFUSED
from layoutsolve.frontend.tflite.reading.model import Model, Operator, Tensor
from layoutsolve.frontend.tflite.reading.reader import parse
from layoutsolve.frontend.tflite.reading.schema import BUILTIN_OPERATORS
from layoutsolve.ir.graph import Graph, Node
from layoutsolve.solver.theory.node_rule import known_rule, opaque
from layoutsolve.solver.theory.relation import Placed
from layoutsolve.solver.theory.rule import RULES, Site
from tests.conformance.cases import Case, Operand, constant, plain, single, written
from tests.conformance.families import ELSEWHERE, every_case
from tests.conformance.flex import node_options

REGISTRY = every_lowering()

PAGE = Path(__file__).parent.parent / "docs" / "operators.md"

CATEGORIES: Mapping[str, str] = {
    "Terminate": "every tensor keeps the source's order; the ONNX operator for which that is so is named",
    "Implicit": "fixed places, such as channels first, between which factors are free and constants follow",
    "Contraction": "a matrix product: rows and columns either way round, what is summed in any order",
    "Attribute": "any order, axes are renumbered; an axis along which order matters stays whole",
    "Transparent": "any order, the same everywhere",
    "View": "a statement about axes, which costs nothing by itself",
}
"""What rules allow, from the strictest on."""

NO_LAYOUT = "none"
"""In place of a category: no tensor has more than one dimension to arrange, or all are constant."""


@dataclass
class Facts:
    """What the cases of an operator say: types, kinds of quantization, opsets, how many cases are of each category, and
    what is opaque in how many of them.
    """

    cases: int = 0
    types: set[str] = field(default_factory=set)
    quantized: set[str] = field(default_factory=set)
    opsets: set[int] = field(default_factory=set)
    categories: Counter[str] = field(default_factory=Counter)
    opaque: Counter[str] = field(default_factory=Counter)

    @property
    def category(self) -> str:
        """The category of most cases, then that of others, and what is opaque."""
        usual = [name for name, _ in self.categories.most_common() if name != "Terminate"]
        total, stuck = sum(self.categories.values()), self.categories["Terminate"]
        if not total:
            return NO_LAYOUT
        names = ", ".join(sorted(self.opaque))
        if not usual:
            return f"Terminate ({names})"
        return ", ".join([*usual, *([f"Terminate in {stuck} of {total} cases ({names})"] if stuck else [])])


def facts_of(cases: Iterable[Case]) -> dict[str, Facts]:
    """The facts of all operators that are registered."""
    found: dict[str, Facts] = defaultdict(Facts)
    for case in cases:
        if case.operator in REGISTRY:
            found[case.operator].cases += 1
            _note(found[case.operator], case.operator, case.make().source)
    for name in ELSEWHERE:
        _note(found[name], name, _random(name))
    return found


def _random(name: str) -> bytes:
    """A model of an operator that gives random numbers."""
    flex = name.removeprefix("CUSTOM:Flex")
    shape, dtype = [constant([2, 3])], "float32"
    if name.lower().endswith("multinomial"):
        shape, dtype = [constant([[0.0] * 3] * 2, "float32"), constant(4)], "int64"
    if flex == name:
        return single(name, shape, [plain(dtype)], {}).source
    return written(name, shape, [Operand(dtype=dtype, signature=(-1, -1), shape=(1, 1))], {}, node_options(flex, {}))


def _note(facts: Facts, name: str, source: bytes) -> None:
    model, graph = parse(source), read(source)
    for tensors, operator in _operators(model, name):
        facts.types |= set(_types(tensors, operator))
        facts.quantized |= set(_quantized(tensors, operator))
    facts.opsets.add(required_opset(graph))
    nodes = [node for node in graph.nodes if node.origin is not None and node.origin.operator == name]
    categories = {category: node for node in nodes if (category := category_of(graph, node)) is not None}
    strictest = next((category for category in CATEGORIES if category in categories), None)
    if strictest is not None:
        facts.categories[strictest] += 1
    if strictest == "Terminate":
        facts.opaque.update({node.op for node in nodes if category_of(graph, node) == "Terminate"})


def _operators(model: Model, name: str) -> Iterator[tuple[Sequence[Tensor], Operator]]:
    for subgraph in model.subgraphs:
        for operator in subgraph.operators:
            if operator.name == name:
                yield subgraph.tensors, operator


def _ports(tensors: Sequence[Tensor], operator: Operator) -> list[Tensor]:
    return [tensors[index] for index in (*operator.inputs, *operator.outputs) if index != -1]


def _types(tensors: Sequence[Tensor], operator: Operator) -> Iterator[str]:
    """The types of what is computed and is not quantized."""
    for tensor in _ports(tensors, operator):
        if tensor.data is None and tensor.quant is None:
            yield tensor.dtype


def _quantized(tensors: Sequence[Tensor], operator: Operator) -> Iterator[str]:
    """The kinds of quantized tensors: those that are computed, and constants beside them."""
    ports = _ports(tensors, operator)
    computed = [tensor for tensor in ports if tensor.data is None]
    hybrid = any(tensor.dtype == "float32" for tensor in computed) and all(tensor.quant is None for tensor in computed)
    for tensor in ports:
        small = tensor.dtype in ("int4", "int2", "int8", "uint8", "int16")
        if tensor.quant is None or not small or not tensor.quant.scale.size:
            if tensor.data is not None and tensor.dtype == "float16" and hybrid:
                yield "float16 weights"
            continue
        spread = " per channel" if tensor.quant.scale.size > 1 else ""
        if tensor.data is None:
            yield f"{tensor.dtype}{spread}"
        elif hybrid:
            yield f"hybrid {tensor.dtype}{spread}"
        elif spread or tensor.dtype in ("int4", "int2"):
            yield f"{tensor.dtype} weights{spread}"


def category_of(graph: Graph, node: Node) -> str | None:
    """What the rule of a node allows; None for one that has nothing to arrange, or belongs to another's pattern."""
    if node.pattern:
        return None
    if node.op in ("Transpose", "Reshape"):
        return "View"
    site = Site(graph, node)
    rule = known_rule(site)
    names = [node.inputs[number] for number in (rule or opaque(site)).inputs] + [name for name in node.outputs if name]
    shapes = [graph.values[name].shape for name in names if graph.values[name].data is None]
    if all(sum(dim != 1 for dim in shape) < 2 for shape in shapes):
        return None
    if rule is None:
        return "Terminate"
    family = RULES[f"{node.domain}:{node.op}" if node.domain else node.op].__module__.rpartition(".")[2]
    if family in ("elementwise", "control"):
        return "Transparent"
    if family == "contraction":
        return "Contraction"
    first = rule.forms[0]
    return "Implicit" if isinstance(first, Placed) and not first.prefix else "Attribute"


def page(facts: Mapping[str, Facts]) -> str:
    """The page as Markdown."""
    plain_names = sorted(name for name in BUILTIN_OPERATORS if not name.startswith("STABLEHLO_"))
    stable = sorted(name for name in REGISTRY if name.startswith("STABLEHLO_"))
    custom = sorted((name for name in REGISTRY if name.startswith("CUSTOM:")), key=str.lower)
    converted = [name for name in plain_names if name in REGISTRY]
    cases = sum(each.cases for each in facts.values())
    lines = [
        "# Operators",
        "",
        "Supported operators, written by `make operators` from the conformance cases, which compare each operator with",
        "LiteRT's built-in reference kernels.",
        "",
        f"* {len(plain_names)} built-in operators outside of StableHLO: {len(converted)} are converted, "
        f"{len(plain_names) - len(converted)} are not.",
        f"* {len(stable)} of {sum(name.startswith('STABLEHLO_') for name in BUILTIN_OPERATORS)} StableHLO operators.",
        f"* {len(custom)} custom operators, {sum(name.startswith('CUSTOM:Flex') for name in custom)} of them Flex.",
        f"* {cases} cases of single operators.",
        "",
        *_legend(),
        "",
        "## Built-in operators",
        "",
        *_table(converted, facts),
        "",
        "## StableHLO operators",
        "",
        *_table(stable, facts),
        "",
        "## Custom operators",
        "",
        *_table(custom, facts),
        "",
        "## Not converted",
        "",
        "| operator | reason | remedy |",
        "|---|---|---|",
        *(f"| {name} | {reason} | {remedy} |" for name, (reason, remedy) in sorted(REFUSED.items())),
        "",
    ]
    return "\n".join(lines)


def _legend() -> list[str]:
    return [
        "*Types* are those of float and integer tensors that are computed. *Quantized* are the stored types of",
        "quantized tensors; *weights* are constants beside them, *hybrid* are quantized constants beside float32",
        "(dynamic range quantization). *Opset* is the lowest that carries a case, from the least to the most",
        "demanding one. *Layouts* are those that the solver may choose, by the strictest of the ONNX operators that an",
        "operator becomes:",
        "",
        *(f"* {name}: {text}." for name, text in reversed(CATEGORIES.items())),
        f"* {NO_LAYOUT}: nothing with two dimensions to arrange.",
    ]


def _table(names: Sequence[str], facts: Mapping[str, Facts]) -> list[str]:
    lines = ["| operator | types | quantized | layouts | opset | cases |", "|---|---|---|---|---|---|"]
    for name in names:
        each = facts[name]
        opsets = sorted(each.opsets)
        opset = str(opsets[0]) if len(opsets) == 1 else f"{opsets[0]} to {opsets[-1]}"
        count = str(each.cases) if each.cases else ELSEWHERE[name]
        cells = (name, _listed(each.types), _listed(each.quantized), each.category, opset, count)
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names, key=lambda name: ("hybrid" in name, "weights" in name, name))) or "-"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(facts_of(every_case())), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")


if __name__ == "__main__":
    main()
