"""Which operators ONNX Runtime has kernels for on the CPU, and on which types.

``python -m experiments.kernels`` asks the ONNX Runtime that is installed and writes ``emit/kernels.json`` anew. The
table has for each domain and operator its kernels: the first and the last operator set that they are for (null: all
later ones), and by the name that the operator's definition gives to a type which types it may be. An operator that ONNX
defines by others needs no kernel: ONNX Runtime computes those others. It has a row without types.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as native

from layoutsolve.emit.kernels import TABLE
from layoutsolve.emit.serialise import LOWEST_OPSET

_PROVIDER = "CPUExecutionProvider"
_ALL_LATER = (1 << 31) - 1
_DOMAINS = ("", "ai.onnx.ml")
_UNUSED = ("float8", "float4", "int2", "uint2", "complex128")


def kernels() -> dict[str, Any]:
    """The table, with the version of ONNX Runtime that it is of."""
    found: dict[str, dict[str, list[Any]]] = {domain: defaultdict(list) for domain in _DOMAINS}
    for kernel in native.get_all_opkernel_def():
        first, last = kernel.version_range
        written = kernel.domain in found and kernel.provider == _PROVIDER
        if written and (kernel.domain or last >= LOWEST_OPSET):
            types = {name: " ".join(sorted(_tensors(each))) for name, each in kernel.type_constraints.items()}
            if all(types.values()):
                row = [first, None if last == _ALL_LATER else last, types]
                found[kernel.domain][kernel.op_name].append(row)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain in found and (schema.has_function or schema.has_context_dependent_function):
            found[schema.domain][schema.name].append([schema.since_version, schema.since_version, {}])
    domains = {
        domain: {name: sorted(rows, key=str) for name, rows in sorted(operators.items())}
        for domain, operators in found.items()
    }
    return {"onnxruntime": onnxruntime.__version__, "kernels": domains}


def _tensors(types: list[str]) -> Iterator[str]:
    """The types of elements, of those that are tensors."""
    names = (each.removeprefix("tensor(").removesuffix(")") for each in types if each.startswith("tensor("))
    return (name for name in names if not name.startswith(_UNUSED))


def text() -> str:
    """The table as it is written, an operator on a line."""
    table = kernels()
    lines = [f'{{"onnxruntime": {json.dumps(table["onnxruntime"])}, "kernels": {{']
    for domain, operators in table["kernels"].items():
        rows = [f"{json.dumps(name)}: {json.dumps(found)}" for name, found in operators.items()]
        lines.append(f"{json.dumps(domain)}: {{\n" + ",\n".join(rows) + "\n},")
    lines[-1] = lines[-1].removesuffix(",")
    return "\n".join([*lines, "}}", ""])


if __name__ == "__main__":
    Path(TABLE).write_text(text())
