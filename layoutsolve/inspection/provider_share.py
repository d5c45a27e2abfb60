"""What of a written model an execution provider runs, by its own list of operators, and what the CPU runs in its
stead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from layoutsolve.base.wording import counted
from layoutsolve.frontend.onnx.constants import of
from layoutsolve.proto.messages import DOMAINS, ModelProto
from layoutsolve.proto.scopes import captures
from layoutsolve.solver.targets.target import Provider


@dataclass(frozen=True)
class Share:
    """How many operators a provider runs, by name those that the CPU runs, and the tensors that go from one to the
    other. A branch or loop is one operator. ``asymmetric`` are those that quantize or dequantize by a zero point other
    than 0, where the provider refuses that. It is counted, not measured.
    """

    operators: int
    cpu: Mapping[str, int]
    crossings: int
    layout: str
    asymmetric: int = 0

    def __str__(self) -> str:
        total = self.operators + sum(self.cpu.values())
        most = sorted(self.cpu.items(), key=lambda each: (-each[1], each[0]))
        others = ", ".join(f"{count} {name}" for name, count in most[:8]) + (", ..." if len(most) > 8 else "")
        rest = f"; the CPU runs {others} ({counted(self.crossings, 'tensor')} cross)" if self.cpu else ""
        zeros = f"; {self.asymmetric} have zero points, which it refuses (--quant symmetric)" if self.asymmetric else ""
        return f"counted only, not measured: it lists {self.operators} of {counted(total, 'operator')}{rest}{zeros}"


def share(model: ModelProto, provider: Provider) -> Share:
    """The share of a provider in the main graph of a model."""
    own, cpu = dict[str, bool](), Counter[str]()
    crossed, operators = set[str](), 0
    for node in model.graph.node:
        runs = node.domain in DOMAINS and node.op_type in provider.operators
        operators += runs
        if not runs:
            cpu[node.op_type] += 1
        crossed.update(name for name in (*node.input, *captures(node)) if name in own and own[name] != runs)
        own.update(dict.fromkeys(filter(None, node.output), runs))
    asymmetric = _asymmetric(model) if provider.symmetric else 0
    return Share(operators, dict(cpu), len(crossed), provider.layout, asymmetric)


def _asymmetric(model: ModelProto) -> int:
    """How many nodes quantize or dequantize by a zero point that is not 0, or not known."""
    held = {each.name: each for each in model.graph.initializer}

    def other(name: str) -> bool:
        data = of(held[name]).data if name in held else None
        return data is None or bool(np.asarray(data).any())

    nodes = (node for node in model.graph.node if node.op_type in ("QuantizeLinear", "DequantizeLinear"))
    return sum(1 for node in nodes if len(node.input) > 2 and node.input[2] and other(node.input[2]))
