"""Fourier transforms: complex numbers do not leave the model, so each case ends in something real."""

from __future__ import annotations

from functools import partial
from itertools import product

from tests.builder import Builder
from tests.conformance.cases import Model, Operand, Table, cases


@cases("RFFT2D", "COMPLEX_ABS", "REAL", "IMAG")
def transforms(table: Table) -> None:
    ends = ("COMPLEX_ABS", "REAL", "IMAG") if table.operator == "RFFT2D" else (table.operator,)
    shapes = (((2, 8, 16), (8, 16)), ((3, 1, 16), (1, 16)), ((2, 1, 10), (1, 16)), ((1, 1, 20), (1, 16)))
    if table.operator == "RFFT2D":
        shapes += (
            ((4, 6), (8, 4)),
            ((2, 3, 5, 7), (4, 8)),
            ((3, 16, 4), (1, 4)),
            ((2, 3), (2, 2)),
        )
    for end, (shape, lengths) in product(ends, shapes):
        table.add_model(f"{end}-{shape}", partial(_model, table.real(*shape), end, lengths))
    table.add_model(f"{ends[0]}-views", partial(_viewed, table.real(2, 3, 16), ends[0]))


def _viewed(operand: Operand, end: str) -> Model:
    """A spectrum that is reshaped and transposed, as models of sounds do."""
    source = operand.values
    builder = Builder()
    indices = [builder.input("in", source.shape), builder.constant("lengths", [1, 16], "int32")]
    names = {"spectrum": (2, 1, 9), "flat": (2, 9), "turned": (9, 2), "apart": (9, 1, 2)}
    tensors = [builder.tensor(name, shape, "complex64") for name, shape in names.items()]
    out = builder.tensor("out", (9, 1, 2))
    builder.operator("RFFT2D", indices, [tensors[0]])
    builder.operator("SQUEEZE", [tensors[0]], [tensors[1]], {"squeeze_dims": [1]})
    builder.operator("TRANSPOSE", [tensors[1], builder.constant("perm", [1, 0], "int32")], [tensors[2]], {})
    builder.operator("RESHAPE", [tensors[2], builder.constant("shape", [9, -1, 2], "int32")], [tensors[3]], {})
    builder.operator(end, [tensors[3]], [out])
    return Model(builder.finish(out), (source,))


def _model(operand: Operand, end: str, lengths: tuple[int, int]) -> Model:
    source = operand.values
    spectrum = (*source.shape[:-2], lengths[0], lengths[1] // 2 + 1)
    builder = Builder()
    indices = [builder.input("in", source.shape), builder.constant("lengths", list(lengths), "int32")]
    middle = builder.tensor("spectrum", spectrum, "complex64")
    out = builder.tensor("out", spectrum)
    builder.operator("RFFT2D", indices, [middle])
    builder.operator(end, [middle], [out])
    return Model(builder.finish(out), (source,))
