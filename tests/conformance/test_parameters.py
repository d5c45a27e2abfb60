"""Quantization parameters that differ between the tensors of one operator, for every operator of 8 or 16 bits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from functools import cache, partial

import numpy as np
import pytest

import layoutsolve
from layoutsolve.errors import ConversionError, VerifyError
from layoutsolve.frontend.tflite.operator_contract import definitions_of
from layoutsolve.solver.theory.row import Price
from layoutsolve.verification.model_inputs import feeds
from layoutsolve.verification.runtimes import OnnxRuntime
from tests.builder import Builder
from tests.conformance.cases import COMPUTED, POLICY, REFUSED, STORED, Case, Model
from tests.conformance.mutants import quantized_apart, representatives
from tests.conformance.parameters import (
    ELSEWHERE,
    Variant,
    alone,
    done,
    expected,
    fixed,
    policy,
    variants,
)
from tests.conformance.running import FEW_LEVELS, Convert, judge
from tests.conformance.sandwich import NoSandwichError, sandwich
from tests.conformance.test_conformance import CASES, reference, solved
from tests.truth import litert

FEW = 2
"""Of how many cases the parameters are changed, for each type of an operator."""

STRATEGIES = ("cpsat", "push", "propagate", "transpose")
OPERATORS = sorted({case.operator for case in CASES})
AVERAGING = ("AVERAGE_POOL_2D", "RESIZE_BILINEAR")
"""Operators that compute with stored integers."""

UNLIKE: Mapping[tuple[str, str], str] = {
    ("DIV", "uint8"): "LiteRT loses quotients below a step",
    ("SOFTMAX", "uint8"): "LiteRT takes the zero point of the output as 0",
    ("GELU", "int16"): "LiteRT takes the zero point of the output as 0",
}
"""What is not compared, and why."""

PASSED_OVER = ("EMBEDDING_LOOKUP-int8-tensor-float16", "FULLY_CONNECTED-hybrid")
"""Cases of weights whose zero points LiteRT passes over."""


@cache
def found(operator: str, few: int = FEW) -> list[tuple[Case, str, list[Variant]]]:
    """Cases of an operator, the type of their numbers, and what they become with parameters that differ: of the first
    few of a type in every way, of others in the typical one.
    """
    counts: Counter[str] = Counter()
    chosen = []
    for case in CASES:
        if case.operator == operator:
            dtype, made = variants(case, case.make())
            counts[dtype] += 1
            if dtype and counts[dtype] <= few:
                every = counts[dtype] <= FEW
                chosen.append((case, dtype, [each for each in made if every or typical(dtype, each)]))
    return chosen


def typical(dtype: str, variant: Variant) -> bool:
    """Whether all parameters differ that may: 16-bit numbers have the zero point 0."""
    return variant.way == ("scale" if dtype == "int16" else "both")


@pytest.mark.members(116)
@pytest.mark.parametrize("operator", OPERATORS)
def test_policy(operator: str) -> None:
    """LiteRT does what the table says, and the table knows every operator of such types."""
    assert bool(found(operator)) == (operator in POLICY)
    seen: dict[tuple[str, str], set[str]] = {}
    computed: dict[str, set[str]] = {}
    for _, dtype, made in found(operator):
        for variant in made:
            what = done(variant)
            if policy(operator, dtype, variant.end) == COMPUTED:
                computed.setdefault(dtype, set()).add(what)
            elif what != REFUSED or dtype != "int16" or variant.way == "scale":
                seen.setdefault((dtype, variant.end), set()).add(what)
    assert all(whats == {policy(operator, *key)} for key, whats in seen.items()), seen
    assert all(whats != {STORED} for whats in computed.values()), computed


@pytest.mark.members(8)
@pytest.mark.parametrize("operator", POLICY)
def test_reference(operator: str) -> None:
    """Of what moves numbers all cases: some have forms of their own, as where there is nothing to do."""
    for case, dtype, made in found(operator, FEW if POLICY[operator] == COMPUTED else len(CASES)):
        for variant in made:
            compare(case, dtype, variant, variant.model, reference)


@pytest.mark.members(8)
@pytest.mark.parametrize("operator", POLICY)
def test_solved(operator: str) -> None:
    for case, dtype, made in found(operator):
        for variant in filter(partial(typical, dtype), made):
            compare(case, dtype, variant, variant.model, solved)


@pytest.mark.members(10)
@pytest.mark.parametrize("operator", [name for name, stated in POLICY.items() if stated != COMPUTED])
def test_constants(operator: str) -> None:
    """Whether a tensor is a constant makes no difference, though it may be folded."""
    for case, dtype, made in found(operator):
        for variant in filter(partial(typical, dtype), made):
            compare(case, dtype, variant, fixed(variant.model), reference)


def compare(case: Case, dtype: str, variant: Variant, model: Model, convert: Convert) -> None:
    """Raise AssertionError unless a converted model is within one step of what is expected of the variant."""
    wanted = policy(case.operator, dtype, variant.end)
    refused = done(variant) == REFUSED
    if (case.operator, dtype) in UNLIKE or (refused and wanted != REFUSED):
        return
    try:
        truth = expected(variant)
    except VerifyError:
        return
    runtime = OnnxRuntime(convert(model.source).SerializeToString(), threads=1)
    steps = case.steps if wanted == COMPUTED or case.operator in AVERAGING or refused else 0
    for theirs, ours in zip(truth, runtime.run(feeds(runtime, model.inputs, {})), strict=True):
        off = np.abs(theirs.astype(np.int64) - ours.astype(np.int64)).max(initial=0)
        assert theirs.dtype == ours.dtype and off <= steps, f"{case.name} with {variant.label} is {off} steps off"


@pytest.mark.members(22)
@pytest.mark.parametrize("operator", POLICY)
def test_meaning(operator: str) -> None:
    """What outputs mean to their readers: what they store, by their own parameters."""
    for case, dtype, made in found(operator):
        for variant in filter(partial(typical, dtype), made):
            if done(variant) == REFUSED or (operator, dtype) in UNLIKE:
                continue
            source, scales = dequantized_outputs(apart(variant.model.source))
            try:
                truth = litert().run(source, variant.model.inputs).results
            except VerifyError:  # it wants all outputs to be alike
                continue
            runtime = OnnxRuntime(reference(source).SerializeToString(), threads=1)
            results = runtime.run(feeds(runtime, variant.model.inputs, {}))
            for scale, theirs, ours in zip(scales, truth, results, strict=True):
                off = np.abs(theirs.astype(np.float64) - ours.astype(np.float64)).max(initial=0)
                assert off <= 1.001 * case.steps * scale, f"{case.name} with {variant.label} is {off / scale} steps off"


@pytest.mark.members(116)
@pytest.mark.parametrize("operator", OPERATORS)
def test_zero_points(operator: str) -> None:
    """What gives no numbers of the type that it reads looks at what is stored, or at what it means, as LiteRT does."""
    for case in (each for each in CASES if each.operator == operator and each.name not in PASSED_OVER):
        for model in alone(case, case.make()):
            try:
                judge(case, model, reference(model.source))
            except VerifyError:  # LiteRT wants another zero point
                continue


OTHERS = [
    name for name in OPERATORS
    if name not in POLICY and name not in ELSEWHERE
    and any(
        any("int8" in port.types for port in each.inputs.ports)
        and any("int8" in port.types or not port.types for port in each.outputs.ports)
        for each in definitions_of(name)
    )
]  # fmt: skip
"""The operators that may be given bytes and give bytes, by their definitions, of which the table says nothing."""


@pytest.mark.members(0)
@pytest.mark.parametrize("operator", OTHERS)
def test_no_operator_is_forgotten(operator: str) -> None:
    """What is not in the table is refused here or by LiteRT, or makes the same of other parameters."""
    for case, source, place in representatives([case for case in CASES if case.operator == operator]):
        for mutant in quantized_apart(source, place):
            try:
                model = reference(mutant)
                described = litert().describe(mutant)
                near = np.random.default_rng(0)
                inputs = [
                    data if data.dtype == port.dtype
                    else near.integers(0 if port.dtype == "uint8" else -9, 9, port.shape).astype(port.dtype)
                    for port, data in zip(described.inputs, case.make().inputs, strict=True)
                ]  # fmt: skip
                truth, again = (litert().run(mutant, inputs).results for _ in range(2))
            except ConversionError:  # VerifyError is one
                continue
            if not all(map(np.array_equal, truth, again)):  # where LiteRT reads what it has not written
                continue
            runtime = OnnxRuntime(model.SerializeToString(), threads=1)
            results = runtime.run(feeds(runtime, inputs, {}))
            assert all(map(np.array_equal, truth, results)), case.name


CELLS = [
    case for case in CASES
    if case.operator in ("LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM") and case.label.startswith("int8")
]  # fmt: skip


@pytest.mark.members(20)
@pytest.mark.parametrize("factor", [0.8, 1.3])
@pytest.mark.parametrize("case", CELLS, ids=lambda case: case.name)
def test_output_of_a_cell(case: Case, factor: float) -> None:
    """The output stores what the state does, whose scale is another one; that of the output counts where it clips."""
    model = case.make()
    build = Builder.reopened(model.source)
    (output,) = build.subgraph.outputs
    parameters = build.subgraph.tensors[output].quantization
    parameters.scale = [float(np.float32(parameters.scale[0] * factor))]
    changed = build.finish(output)
    judge(case, Model(changed, model.inputs), reference(changed))


@pytest.mark.parametrize("case", CELLS, ids=lambda case: case.name)
def test_states_of_a_cell_have_one_scale(case: Case) -> None:
    for place in (18, 19):
        build = Builder.reopened(case.make().source)
        (operator,) = build.subgraph.operators
        state = build.subgraph.tensors[operator.inputs[place]]
        count = int(state.shape[0])
        state.quantization.scale = [float(state.quantization.scale[0])] * count
        state.quantization.zeroPoint = [0] * count
        with pytest.raises(ConversionError) if count > 1 else nullcontext():
            reference(build.finish(*build.subgraph.outputs))


def apart(source: bytes) -> bytes:
    """A model each of whose outputs from the second on has parameters of its own."""
    builder = Builder.reopened(source)
    for position, index in enumerate(list(builder.subgraph.outputs)):
        parameters = builder.subgraph.tensors[index].quantization
        if position and parameters is not None and parameters.scale is not None:
            parameters.scale = [float(np.float32(each * (1 + position / 4))) for each in parameters.scale]
    return builder.finish()


def dequantized_outputs(source: bytes) -> tuple[bytes, list[float]]:
    """A model whose quantized outputs are dequantized, and their scales; 1 for others."""
    builder = Builder.reopened(source)
    outputs, scales = [], []
    for index in list(builder.subgraph.outputs):
        tensor = builder.subgraph.tensors[index]
        parameters = tensor.quantization
        if parameters is None or parameters.scale is None or len(parameters.scale) != 1:
            outputs.append(index)
            scales.append(1.0)
            continue
        outputs.append(builder.tensor(f"real{len(outputs)}", tensor.shape, "float32", signature=tensor.shapeSignature))
        builder.operator("DEQUANTIZE", [index], outputs[-1:])
        scales.append(float(parameters.scale[0]))
    return builder.finish(*outputs), scales


@pytest.mark.members(8)
@pytest.mark.parametrize("operator", POLICY)
def test_every_strategy(operator: str) -> None:
    """Between convolutions, whichever form is chosen; moved integers cost no more than with equal parameters. What
    strategies choose is alike for all types: one of them is enough for those without a search.
    """
    strategies = STRATEGIES
    for dtype in ("int8", "uint8", "int16"):
        wrapped = next(filter(None, (between(*each) for each in found(operator) if each[1] == dtype)), None)
        if wrapped is None or (operator, dtype) in UNLIKE:
            continue
        case, end, model, original = wrapped
        for strategy in strategies:
            conversion = layoutsolve.convert(model.source, strategy=strategy, inputs="free", outputs="free")
            if strategy == "cpsat" and policy(operator, dtype, end) == STORED:
                equal = layoutsolve.convert(original.source, inputs="free", outputs="free")
                assert not costs(conversion.price, equal.price), case.name
            stored = conversion.permutations(inputs=True), conversion.permutations(inputs=False)
            try:
                judge(case, model, conversion.model, *stored, levels=FEW_LEVELS)
            except AssertionError as error:
                raise AssertionError(f"{case.name} by {strategy}: {error}") from error
        strategies = STRATEGIES[:1]


def costs(price: Price, equal: Price) -> bool:
    """Whether a price is above another one in what is proven of both: Reshapes are not looked into for long here."""
    return any(getattr(price, key) > getattr(equal, key) for key in ("transposes", "hidden", "bytes"))


def between(case: Case, dtype: str, made: list[Variant]) -> tuple[Case, str, Model, Model] | None:
    """A variant between convolutions that LiteRT runs, what end it changes, and the same with equal parameters."""
    for variant in made:
        if typical(dtype, variant) and done(variant) != REFUSED:
            try:
                original = Model(variant.original, variant.model.inputs)
                return case, variant.end, sandwich(variant.model)[1], sandwich(original)[1]
            except NoSandwichError:
                continue
    return None
