"""Contents of a plan: the facts of a conversion, as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from layoutsolve.conversion.graph_io import ends_of
from layoutsolve.conversion.stages import Stages
from layoutsolve.conversion.translation import reference
from layoutsolve.emit.constants import rearranged
from layoutsolve.io.source import Content
from layoutsolve.ir.graph import Node, Quant, Value
from layoutsolve.planning.constant_provenance import Origins, Stored
from layoutsolve.planning.layout_letters import letters_of, order_of, shown, text_of
from layoutsolve.result import Conversion
from layoutsolve.solver.proof.serialisation import arrangement_text, layout_text
from layoutsolve.solver.statement.assignment import Assignment, Tier, status_of
from layoutsolve.solver.statement.backends import backend_of, crossings
from layoutsolve.solver.statement.price import deliver
from layoutsolve.solver.statement.problem import Operator
from layoutsolve.solver.theory.layout import Layout, order, stored_shape
from layoutsolve.solver.theory.move import move
from layoutsolve.solver.theory.row import Row
from layoutsolve.solver.theory.rule import Changed, Rule, Step, unnamed
from layoutsolve.solver.theory.variable import Variable

FORMAT = "layoutsolve plan 1"
"""What a plan begins with. A plan that says something new has another number."""

_LONGEST = 64
"""The most numbers of a constant that is given with an operator: axes, sizes and the like."""

Facts = dict[str, Any]


def facts_of(source: Content, conversion: Conversion) -> Facts:
    """Contents of the plan of a conversion."""
    found, made = conversion.assignment, conversion.provenance
    target = found.goal.target
    stating = _Stating(source, conversion)
    return {
        "format": FORMAT,
        "version": made.version,
        "source": {"name": conversion.graph.name, "sha256": source.digest},
        "options": dict(made.options),
        "target": {"name": target.name, "sha256": target.digest},
        "objective": found.objective,
        "opset": conversion.opset,
        **proven(found.planned or found.tiers),
        "price": asdict(found.price),
        "views": sorted(found.opaque_views),
        "inputs": stating.ends(inputs=True),
        "outputs": stating.ends(inputs=False),
        "tensors": stating.tensors(),
        "operators": stating.operators(),
        "constants": stating.constants(),
        "conversions": stating.conversions(),
        "crossings": stating.crossings(),
    }


def proven(tiers: Sequence[Tier]) -> Facts:
    """Objective levels as a plan states them: their proofs, and the lower bound of the first."""
    return {
        "status": status_of(tiers),
        "bound": tiers[0].bound,
        "tiers": [{**asdict(tier), "names": list(tier.names)} for tier in tiers],
    }


class _Stating:
    def __init__(self, source: Content, conversion: Conversion) -> None:
        self.source, self.conversion = source, conversion
        self.assignment: Assignment = conversion.assignment
        self.graph, self.problem = self.assignment.graph, self.assignment.problem
        self.letters = letters_of(self.assignment)

    def ends(self, inputs: bool) -> list[Facts]:
        """How inputs, or outputs, are stored."""
        ends = ends_of(self.conversion.graph, self.conversion.boundary, self.assignment, inputs)
        return [
            {"name": end.name, "tensor": end.tensor, "permutation": list(end.permutation), "chosen": end.chosen}
            for end in ends
        ]

    def tensors(self) -> list[Facts]:
        """Every tensor that is computed, or given: what it is, and how it is stored first."""
        found = []
        for number, variable in enumerate(self.problem.variables):
            written = self.assignment.written(number)
            if variable.constant or written is None:
                continue
            for name, logical in variable.readings.items():
                value = self.graph.values[name]
                facts = {
                    "name": name,
                    "variable": number,
                    "dtype": value.dtype,
                    "shape": shown(value.shape),
                    "letters": self.letters[name],
                    "atoms": {"logical": layout_text(logical), "sizes": shown(variable.sizes)},
                    "stored": self._stored(written, logical, self.letters[name], variable),
                }
                if value.quant is not None:
                    facts["quantization"] = _quantization(value.quant, logical, written)
                found.append(facts)
        return found

    @staticmethod
    def _stored(layout: Layout, logical: Layout, letters: str, variable: Variable) -> Facts:
        return {
            "letters": text_of(layout, logical, letters, variable.sizes),
            "layout": layout_text(layout),
            "order": order_of(layout, logical),
            "shape": shown(stored_shape(layout, variable.sizes)),
        }

    def operators(self) -> list[Facts]:
        """Every operator and every end: its row, and as what it is written."""
        return [self._operator(number, operator) for number, operator in enumerate(self.problem.operators)]

    def _operator(self, number: int, operator: Operator) -> Facts:
        row, rule = self.assignment.row(number), self.assignment.rules.get(operator.node)
        facts: Facts = {"id": number, "title": operator.title}
        if operator.node < 0 or rule is None:
            end = "output" if operator.inputs else "input"
            return {**facts, "kind": end, **self._row(row), "ports": self._ports(operator, row, [operator.end])}
        node = self.graph.nodes[operator.node]
        way = rule.ways[row.form]
        if node.origin is not None:
            facts["origin"] = {
                "subgraph": node.origin.subgraph,
                "index": node.origin.index,
                "operator": node.origin.operator,
            }
            facts["origin"] |= {"name": node.origin.name} if node.origin.name else {}
        kind = way.kind if isinstance(way.kind, str) else way.kind(row)
        return {
            **facts,
            "kind": "operator",
            "operator": node.op,
            "domain": node.domain,
            "backend": way.backend,
            "form": kind,
            **self._row(row),
            "ports": self._ports(operator, row, operator.tensors),
            "written": self._written(operator, row, rule, node),
        }

    @staticmethod
    def _row(row: Row) -> Facts:
        return {"way": row.form, "arrangement": arrangement_text(row.arrangement)}

    def _ports(self, operator: Operator, row: Row, tensors: Sequence[str]) -> list[Facts]:
        found = []
        for place, (variable, layout, name) in enumerate(zip(operator.ports, row.layouts, tensors, strict=True)):
            data = self.problem.variables[variable]
            letters = self.letters.get(name) or unnamed(len(self.graph.values[name].shape))
            facts = {"tensor": name, "reads": place < operator.inputs, "constant": data.constant}
            found.append({**facts, **self._stored(layout, data.readings[name], letters, data)})
        return found

    def _written(self, operator: Operator, row: Row, rule: Rule, node: Node) -> list[Facts]:
        """The operators that compute a node in its row, with their attributes as they are then."""
        shapes = tuple(
            stored_shape(layout, self.problem.variables[variable].sizes)
            for variable, layout in zip(operator.ports, row.layouts, strict=True)
        )
        return [_step(step, node) for step in rule.rewrite(row, shapes)]

    def constants(self) -> list[Facts]:
        """Every constant at a port: how it is stored, which tensor of the file it is, and in which order of that."""
        origins, found = Origins(self.source), []
        read = self._read_again()
        for number, operator in enumerate(self.problem.operators):
            if operator.node < 0:
                continue
            row = self.assignment.row(number)
            for port, (variable, layout) in enumerate(zip(operator.ports, row.layouts, strict=True)):
                data = self.problem.variables[variable]
                if data.constant:
                    name = operator.tensors[port]
                    found.append(self._constant(number, port, name, layout, data, origins, read))
        return found

    def _read_again(self) -> Mapping[str, Value]:
        """The constants as they lie in the file that is given now."""
        return reference(self.source, self.conversion.reading, Stages(self.source)).values

    def _constant(
        self,
        number: int,
        port: int,
        name: str,
        layout: Layout,
        variable: Variable,
        origins: Origins,
        read: Mapping[str, Value],
    ) -> Facts:
        logical, value = variable.readings[name], self.graph.values[name]
        stored = rearranged(value, logical, layout, variable.sizes)
        again = read.get(name)
        lies = None if again is None else origins.of(again, logical, variable.sizes)
        facts: Facts = {
            "tensor": name,
            "operator": number,
            "port": port,
            "dtype": stored.dtype,
            "shape": shown(value.shape),
            "letters": self.letters.get(name) or unnamed(len(value.shape)),
            "source": None if lies is None else lies.tensor,
            "permutation": None if lies is None or lies.dims is None else order_of(layout, lies.dims),
            "unchanged": lies is not None and _unchanged(stored, layout, lies),
        }
        facts["stored"] = self._stored(layout, logical, facts["letters"], variable)
        if value.quant is not None:
            facts["quantization"] = _quantization(value.quant, logical, layout)
        return facts

    def conversions(self) -> list[Facts]:
        """Every move: what is read in another layout than it is written in, and by whom."""
        return [facts for number in range(len(self.problem.variables)) for facts in self._conversions(number)]

    def _conversions(self, number: int) -> Iterator[Facts]:
        variable, written = self.problem.variables[number], self.assignment.written(number)
        if written is None:
            return
        name = next(iter(variable.readings))
        readers: dict[Layout, list[int]] = {}
        for reader, port in self.problem.readers[number]:
            readers.setdefault(self.assignment.row(reader).layouts[port], []).append(reader)
        for source, target in deliver(written, frozenset(self.assignment.read(number)), variable.rigid):
            steps = move(source, target, variable.rigid)
            logical, letters = variable.readings[name], self.letters[name]
            yield {
                "tensor": name,
                "variable": number,
                "from": self._stored(source, logical, letters, variable),
                "to": self._stored(target, logical, letters, variable),
                "transposes": steps.transposes,
                "reshapes": steps.reshapes,
                "bytes": variable.bytes if order(source) != order(target) else 0,
                "readers": readers.get(target, []),
                "crossing": self._crosses(number, readers.get(target, [])),
            }

    def _crosses(self, variable: int, readers: Sequence[int]) -> bool:
        """Whether what is moved is read in another backend than it is written in."""
        writer = self.problem.writers[variable]
        own = "" if writer is None else backend_of(self.assignment, writer[0])
        return any(backend_of(self.assignment, reader) != own for reader in readers)

    def crossings(self) -> list[Facts]:
        """Every tensor that is written in one backend and read in another."""
        return [
            {
                "tensor": next(iter(self.problem.variables[each.variable].readings)),
                "variable": each.variable,
                "from": each.source,
                "to": each.target,
                "readers": list(each.readers),
                "bytes": self.problem.variables[each.variable].bytes,
                "price": each.price,
            }
            for each in crossings(self.assignment)
        ]


def _unchanged(stored: Value, layout: Layout, lies: Stored) -> bool:
    """Whether a constant is written as the very bytes that the file has of it."""
    if stored.data is None or order(layout) != lies.order or stored.data.dtype != lies.data.dtype:
        return False
    return np.array_equal(np.ascontiguousarray(stored.data).reshape(-1).view(np.uint8), lies.data.view(np.uint8))


def _quantization(quant: Quant, logical: Layout, layout: Layout) -> Facts:
    """The stored dimensions along which a quantized tensor has parameters of its own, outermost first."""
    if quant.axis is None:
        return {"axes": [], "elements": 1}
    atoms = set(logical[quant.axis])
    axes = [axis for axis, group in enumerate(layout) if atoms.intersection(group)]
    return {"axes": axes, "elements": int(quant.scale.size)}


def _step(step: Step, node: Node) -> Facts:
    inputs: list[Any] = []
    for item in step.inputs:
        if isinstance(item, int):
            inputs.append(node.inputs[item])
        elif isinstance(item, str):
            inputs.append(item)
        else:
            data = item.data if isinstance(item, Value) else None if isinstance(item, Changed) else item
            few = data is not None and data.size <= _LONGEST and data.dtype.kind in "biuf"
            inputs.append(data.tolist() if few and data is not None else None)
    outputs = [node.outputs[item] if isinstance(item, int) else getattr(item, "name", item) for item in step.outputs]
    attributes = {name: _plain(value) for name, value in sorted(step.attributes.items())}
    return {"operator": step.op, "domain": step.domain, "attributes": attributes, "inputs": inputs, "outputs": outputs}


def _plain(value: Any) -> Any:
    """An attribute as JSON has it."""
    if isinstance(value, np.ndarray):
        return value.tolist() if value.size <= _LONGEST else None
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, (bool, int, float, str)) or value is None else str(value)
