"""Operators that broadcast, behind and before Transposes, with operands of more dimensions than what was moved."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from experiments.fuzz import onnx_mutants
from layoutsolve.ir.graph import Array
from layoutsolve.solver.theory.rules.elementwise import BROADCASTING

BOOLEAN, WHOLE = ("And", "Or", "Xor"), ("BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor")
OTHERS = ("BatchNormalization", "Expand", "Gather", "Gemm", "LayerNormalization", "MatMul", "QuantizeLinear", "Tile")
OPERATORS = sorted({*BROADCASTING, "Clip", *OTHERS} - {"StringConcat", "SwiGLU"})
ATTRIBUTES = {"BitShift": {"direction": "LEFT"}, "Mod": {"fmod": 1}}
SEEDS = 12

Random = np.random.Generator


def numbers(random: Random, shape: list[int], dtype: str) -> Array:
    """Random numbers of a type."""
    made = random.integers(0, 3, shape) if dtype != "float32" else random.normal(size=shape)
    return np.asarray(made).astype(dtype)


def _transpose(name: str, result: str, perm: list[int]) -> NodeProto:
    return helper.make_node("Transpose", [name], [result], **({"perm": perm} if perm else {}))


def model(op: str, seed: int) -> bytes:
    """An operator on a tensor that is transposed before, and on others of as many dimensions or more, or on single
    numbers with dimensions; sizes may be open.
    """
    random = np.random.default_rng([seed, *op.encode()])
    dtype = "bool" if op in BOOLEAN else "uint32" if op == "BitShift" else "int32" if op in WHOLE else "float32"
    shape = [int(size) for size in random.choice([1, 2, 3], int(random.integers(0, 4)))]
    perm = [int(axis) for axis in random.permutation(len(shape))]
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    stated = [f"s{axis}" if random.random() < 0.2 else size for axis, size in enumerate(shape)]
    ports = [helper.make_tensor_value_info("x", code, stated)]
    nodes = [_transpose("x", "t", perm)]
    names, constants = ["t"], []
    for number in range({"Where": 2, "Clip": 2, "Sum": 2}.get(op, 1)):
        name = f"c{number}"
        tail = [int(random.choice([1, shape[axis]])) for axis in perm]
        lead = [int(size) for size in random.choice([1, 1, 2, 4], int(random.integers(0, 3)))]
        own = [1] * int(random.integers(0, 3)) if op == "Clip" else lead + tail
        data = numbers(random, own, "int64" if op in ("Expand", "Gather", "Tile") else dtype)
        if random.random() < 0.75:
            constants.append(numpy_helper.from_array(data, name))
        else:
            ports.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(data.dtype), own))
        names.insert(int(random.integers(len(names) + 1)) if op in BROADCASTING and op != "PRelu" else number + 1, name)
    if op == "Where":
        nodes.append(helper.make_node("Greater", [names[0], names[0]], ["q"]))
        names[0] = "q"
    nodes.append(helper.make_node(op, names, ["r"], **ATTRIBUTES.get(op, {})))
    back = [int(axis) for axis in random.permutation(len(shape) + int(random.integers(0, 2)))]
    nodes.append(_transpose("r", "y", back if random.random() < 0.8 else []))
    graph = helper.make_graph(nodes, "g", ports, [helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)])
    graph.output[0].type.Clear()
    graph.initializer.extend(constants)
    return bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10).SerializeToString()
    )


@pytest.mark.members(8)
@pytest.mark.parametrize("op", OPERATORS)
def test_operands_of_more_dimensions(op: str) -> None:
    """Each gives what ONNX Runtime gives, or is refused."""
    found = onnx_mutants.examined([onnx_mutants.Mutant(seed, model(op, seed), op, "") for seed in range(SEEDS)])
    assert not {seed: verdict for seed, verdict in found.items() if verdict.word in onnx_mutants.FAILURES}
    assert Counter(verdict.word for verdict in found.values())["right"] or op in OTHERS
