"""Activations, and what is a function of a whole row of numbers."""

from __future__ import annotations

from itertools import product

from tests.builder import Quant
from tests.conformance.cases import COMPUTED, Operand, Table, cases, declare, fitted, like, result
from tests.conformance.elementwise import INT16_STEPS

QUANTIZED = ("int8", "uint8", "int16")


@cases("LOGISTIC", "TANH")
def quantized_saturating(table: Table) -> None:
    zero = (
        {"int8": -128, "uint8": 0, "int16": 0}
        if table.operator == "LOGISTIC"
        else {"int8": 0, "uint8": 128, "int16": 0}
    )
    for dtype in QUANTIZED:
        bits = 15 if dtype == "int16" else 8 if table.operator == "LOGISTIC" else 7
        quant = fitted(dtype, -1, 1)
        exact = Operand(dtype=dtype, quant=type(quant)([2.0**-bits], [zero[dtype]]))
        table.add(
            dtype, [table.quantized(dtype, 2, 5, 4, 3, low=-6, high=6)], exact, steps=INT16_STEPS[dtype == "int16"]
        )
        table.add(
            f"{dtype}-narrow",
            [table.quantized(dtype, 2, 5, 4, 3, low=-1, high=1)],
            exact,
            steps=INT16_STEPS[dtype == "int16"],
        )
    table.add("int16-general", [table.quantized("int16", 2, 50, low=-5, high=5)], exact, steps=2)


@cases("RELU", "RELU6", "RELU_N1_TO_1", "HARD_SWISH")
def quantized_clips(table: Table) -> None:
    tops = {"RELU": (0, 4), "RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1), "HARD_SWISH": (-0.4, 5)}[table.operator]
    for dtype in ("int8", "uint8", "int16") if table.operator == "RELU" else ("int8", "uint8"):
        source = table.quantized(dtype, 1, 5, 4, 3, low=-7, high=8)
        table.add(dtype, [source], result(dtype, *tops))
        table.add(f"{dtype}-same", [source], like(source))
        table.add(f"{dtype}-wide", [source], result(dtype, -9, 9))


@cases("ELU", "GELU")
def quantized_lookups(table: Table) -> None:
    for approximate in (False, True) if table.operator == "GELU" else (None,):
        options = {} if approximate is None else {"approximate": approximate}
        for dtype in ("int8", "uint8") if table.operator == "GELU" else ("int8",):
            source = table.quantized(dtype, 2, 60, low=-4, high=4)
            table.add(f"{dtype}-approximate{approximate}", [source], result(dtype, -1, 4), options)
        if approximate is not None:
            table.add(f"float32-approximate{approximate}", [table.real(2, 60, low=-5, high=5)], options=options)
            table.add(f"float32-approximate{approximate}-4d", [table.real(1, 3, 4, 2, low=-5, high=5)], options=options)


@cases("LEAKY_RELU")
def leaky(table: Table) -> None:
    for alpha in (0.0, 0.1, 0.3, 1.5, -0.2):
        table.add(f"float32-{alpha}", [table.real(1, 4, 3, 2, low=-4, high=4)], options={"alpha": alpha})
    for dtype in QUANTIZED:
        for alpha in (0.1, 0.3, 1.5):
            source = table.quantized(dtype, 1, 4, 5, 3, low=-4, high=4)
            table.add(f"{dtype}-{alpha}", [source], result(dtype, -2, 4), {"alpha": alpha})
            table.add(f"{dtype}-{alpha}-same", [source], like(source), {"alpha": alpha})


@cases("PRELU")
def prelu(table: Table) -> None:
    for alpha in ((1, 1, 3), (4, 5, 3), (1, 5, 1), (3,), (1, 1, 1)):
        slope = table.real(*alpha, low=-0.2, high=0.5)
        table.add(f"float32-{alpha}", [table.real(2, 4, 5, 3), slope.fixed])
    table.add("float32-activation", [table.real(2, 4, 5, 3), table.real(1, 1, 3)])
    table.add("float32-rank2", [table.real(4, 3), table.real(3).fixed])
    for dtype in ("int8", "uint8"):
        source = table.quantized(dtype, 1, 4, 5, 3, low=-2, high=2)
        slope = table.quantized(dtype, 1, 1, 3, low=-0.5, high=0.5).fixed
        table.add(dtype, [source, slope], result(dtype, -1, 2))


@cases("SOFTMAX")
def softmax(table: Table) -> None:
    for shape, beta in product(((5,), (2, 7), (1, 3, 4, 5), (2, 3, 6)), (1.0, 0.5)):
        table.add(f"float32-{len(shape)}d-{beta}", [table.real(*shape, low=-5, high=5)], options={"beta": beta})
    for beta in (1e5, 3.4e38):
        table.add(f"float32-steep-{beta:g}", [table.real(4, 5, low=-5, high=5)], options={"beta": beta})
    for dtype, beta in product(("int8", "uint8", "int16"), (1.0, 0.5)):
        quant = {"int8": Quant([1 / 256], [-128]), "uint8": Quant([1 / 256], [0]), "int16": Quant([1 / 32768], [0])}[
            dtype
        ]
        for shape in ((3, 10), (1, 3, 4, 5), (2, 3, 1)):
            source = table.quantized(dtype, *shape, low=-5, high=5)
            table.add(f"{dtype}-{len(shape)}d-{beta}", [source], Operand(dtype=dtype, quant=quant), {"beta": beta},
                      steps=6 if dtype == "int16" else 1)  # fmt: skip
    wide = table.quantized("int8", 2, 10)
    table.add(
        "int8-to-int16", [wide], Operand(dtype="int16", quant=Quant([1 / 65536], [-32768])), {"beta": 1.0}, steps=4
    )


@cases("LOG_SOFTMAX")
def log_softmax(table: Table) -> None:
    for shape in ((2, 7), (1, 3, 4, 5)):
        table.add(f"float32-{len(shape)}d", [table.real(*shape, low=-5, high=5)])
    for dtype, zero in (("int8", 127), ("uint8", 255)):
        source = table.quantized(dtype, 3, 9, low=-4, high=4)
        table.add(dtype, [source], Operand(dtype=dtype, quant=Quant([16 / 256], [zero])))


declare("GELU", "LEAKY_RELU", "LOG_SOFTMAX", "PRELU", "SOFTMAX", parameters=COMPUTED)
