"""Normalisation along the channels."""

from __future__ import annotations

import numpy as np

from tests.builder import Quant
from tests.conformance.cases import COMPUTED, Operand, Table, cases, declare


@cases("L2_NORMALIZATION")
def normalisation(table: Table) -> None:
    for shape in ((3, 8), (2, 3, 4, 5)):
        table.add(f"float32-{len(shape)}d", [table.real(*shape)])
    table.add("float32-zeros", [Operand(np.zeros((2, 4), np.float32))])
    table.add("float32-tiny", [table.real(2, 4, low=0, high=1e-8)])
    for dtype, zero in (("int8", 0), ("uint8", 128)):
        for shape in ((3, 8), (1, 3, 4, 5)):
            source = table.quantized(dtype, *shape)
            table.add(f"{dtype}-{len(shape)}d", [source], Operand(dtype=dtype, quant=Quant([1 / 128], [zero])))


@cases("LOCAL_RESPONSE_NORMALIZATION")
def response(table: Table) -> None:
    for radius, bias, alpha, beta in ((1, 1.0, 1.0, 0.5), (2, 2.0, 0.3, 0.75), (5, 1.0, 0.0001, 0.75)):
        chosen = {"radius": radius, "bias": bias, "alpha": alpha, "beta": beta}
        table.add(f"float32-{radius}", [table.real(1, 3, 4, 8, low=-2, high=2)], options=chosen)


declare("L2_NORMALIZATION", parameters=COMPUTED)
