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
    for end, (shape, lengths) in product(ends, shapes):
        table.add_model(f"{end}-{shape}", partial(_model, table.real(*shape), end, lengths))


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
