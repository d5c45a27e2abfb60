"""Which operators ONNX Runtime has kernels for on the CPU, and on which types.

``python -m experiments.measure.kernels`` asks the ONNX Runtime that is installed and writes
``layoutsolve/proto/ort_kernels.json`` anew. The table has for each domain and operator, by the operator set that has
defined it, the names that the definition gives to the types of inputs and outputs, and the kernels: which types those
may be. An operator that ONNX defines by others needs no kernel: ONNX Runtime computes those others, where it has
kernels for them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from onnx import helper
from onnxruntime.capi import onnxruntime_pybind11_state as native

from layoutsolve.emit.check import ELEMENTS
from layoutsolve.emit.opset import HIGHEST_OPSET, LOWEST_OPSET
from layoutsolve.proto.ort_kernels import TABLE

_USUAL = ("tensor(float)", "tensor(int64)", "tensor(bool)")
_CODES = {name: code for code, name in ELEMENTS.items()}
_PROVIDER = "CPUExecutionProvider"
_OTHER_VERSIONS = (3,)
_ALL_LATER = (1 << 31) - 1
_DOMAINS = ("", "ai.onnx.ml")
_UNUSED = ("float8", "float4", "int2", "uint2", "complex128")


def kernels() -> dict[str, Any]:
    """The table, with the version of ONNX Runtime that it is of."""
    domains: dict[str, dict[str, Any]] = {}
    for domain in _DOMAINS:
        names = {schema.name for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == domain}
        domains[domain] = {name: _versions(name, domain) for name in sorted(names)}
    return {"onnxruntime": onnxruntime.__version__, "operators": domains}


def _versions(name: str, domain: str) -> dict[str, Any]:
    """What is known of an operator, by the operator set that has defined it, as far as it is written."""
    found: dict[str, Any] = {}
    for version in range(LOWEST_OPSET, HIGHEST_OPSET + 1) if domain == "" else _OTHER_VERSIONS:
        with suppress(onnx.defs.SchemaError):
            schema = onnx.defs.get_schema(name, version, domain)
            found[str(schema.since_version)] = {
                "inputs": [port.type_str for port in schema.inputs],
                "outputs": [port.type_str for port in schema.outputs],
                "kernels": _kernels(schema),
            }
    return found


def _kernels(schema: Any) -> list[dict[str, str]]:
    """The kernels of an operator: by the name of a type which types it may be."""
    variables = {port.name: port.type_str for port in (*schema.inputs, *schema.outputs)}
    rows = []
    for kernel in native.get_all_opkernel_def():
        first, last = kernel.version_range
        since = schema.since_version
        suits = first == since or (last != _ALL_LATER and first <= since <= last)
        if suits and (kernel.domain, kernel.op_name, kernel.provider) == (schema.domain, schema.name, _PROVIDER):
            stated = kernel.type_constraints.items()
            rows.append({variables.get(name, name): " ".join(sorted(_tensors(each))) for name, each in stated})
    if schema.has_function or schema.has_context_dependent_function:
        rows.append({each.type_param_str: " ".join(_running(schema, each)) for each in schema.type_constraints})
    rows = [row for row in rows if all(row.values())]
    if rows and len(rows[0]) == 1 and len({tuple(row) for row in rows}) == 1:
        (name,) = rows[0]
        return [{name: " ".join(sorted({each for row in rows for each in row[name].split()}))}]
    return rows


def _tensors(types: Iterable[str]) -> Iterator[str]:
    """The types of elements, of those that are tensors."""
    names = (each.removeprefix("tensor(").removesuffix(")") for each in types if each.startswith("tensor("))
    return (name for name in names if not name.startswith(_UNUSED))


def _running(schema: Any, constraint: Any) -> Iterator[str]:
    """The types for which ONNX Runtime loads an operator that ONNX defines by others."""
    for dtype in constraint.allowed_type_strs:
        if dtype.startswith("tensor(") and _loads(schema, {constraint.type_param_str: dtype}):
            yield from _tensors([dtype])


def _loads(schema: Any, chosen: Mapping[str, str]) -> bool:
    allowed = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
    usual = {name: next((each for each in _USUAL if each in types), types[0]) for name, types in allowed.items()}
    inputs = []
    for position, port in enumerate(schema.inputs):
        dtype = {**usual, **chosen}.get(port.type_str, port.type_str)
        code = _CODES.get(dtype.removeprefix("tensor(").removesuffix(")"))
        if code is None:
            return False
        inputs.append(helper.make_tensor_value_info(f"in{position}", code, None))
    if any(attribute.required for attribute in schema.attributes.values()):
        return True
    outputs = [onnx.ValueInfoProto(name=f"out{position}") for position in range(max(schema.min_output, 1))]
    names = [port.name for port in inputs], [port.name for port in outputs]
    graph = helper.make_graph([helper.make_node(schema.name, *names)], "one", inputs, outputs)
    version = max(LOWEST_OPSET, schema.since_version)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=[_PROVIDER])
    except Exception:  # ONNX Runtime has a class of exception for each status
        return False
    return True


def text() -> str:
    """The table as it is written, an operator on a line."""
    table = kernels()
    lines = [f'{{"onnxruntime": {json.dumps(table["onnxruntime"])}, "operators": {{']
    for domain, operators in table["operators"].items():
        rows = [f"{json.dumps(name)}: {json.dumps(found)}" for name, found in operators.items()]
        lines.append(f"{json.dumps(domain)}: {{\n" + ",\n".join(rows) + "\n},")
    lines[-1] = lines[-1].removesuffix(",")
    return "\n".join([*lines, "}}", ""])


def main() -> None:
    """Write the table where the package has it, or to another file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=TABLE, metavar="FILE", help="where to write (default: the package)")
    parser.parse_args().to.write_text(text())


if __name__ == "__main__":
    main()
