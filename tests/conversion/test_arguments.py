"""What callers may get wrong: one TypeError or one ConversionError, which names the argument or what was meant."""

from __future__ import annotations

import array
import inspect
import io
import mmap
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import layoutsolve
from layoutsolve import Certificate, ConversionError, LayoutError, ModelError, OptionError
from layoutsolve.cli.command_line import main
from layoutsolve.conversion import choices
from layoutsolve.conversion.arguments import Options
from layoutsolve.frontend.tflite.lowering.options import CUSTOM, DYNAMIC, QUANT, WEIGHTS
from layoutsolve.solver import OBJECTIVES, STRATEGIES
from tests.builder import Builder

NAN, INFINITE = float("nan"), float("inf")
WRONG_TYPES: list[tuple[str, list[Any]]] = [
    ("objective", [3, None, b"min-bytes", ["min-bytes"]]),
    ("strategy", [3, None, b"cpsat", {}]),
    ("layouts", [["image"], "image", 5, {5: ("NHWC", "NCHW")}, {"image": "NHWC:NCHW"}, {"image": ("NHWC",)}]),
    ("layouts", [{"image": ("NHWC", 5)}, {"image": 5}, {"image": None}, {"image": ("N", "N", "N")}]),
    ("inputs", [5, None, ["keep"], {"image": 5}, {5: "keep"}, {"image": ("NHWC",)}, {"image": None}, True]),
    ("outputs", [5, None, ["keep"], {"result": 5}, {5: "keep"}, {"result": ("NHWC", None)}]),
    ("opset", ["18", 18.0, True, np.float32(18), [18], np.bool_(True)]),
    ("target", [5, b"ort-cpu", True, {"name": "x"}, ["ort-cpu"]]),
    ("contrib", [1, 0, "yes", None, np.int64(1)]),
    ("external_data", ["yes", 1, 0, []]),
    ("time_limit", ["x", True, [1], b"1", 1j, np.bool_(True)]),
    ("max_size", ["1G", True, 1.5]),
    ("custom", [None, 5, True, ["error"]]),
    ("quant", [None, 5, True, ["qdq"]]),
    ("weights", [None, 5, True, ["source"]]),
    ("signature", [None, 5, b"serving_default"]),
    ("shapes", [[("image", (1, 2))], "image", {"image": "abc"}, {"image": 5}, {"image": None}, {5: (1, 2)}]),
    ("shapes", [{"image": (1, 2.0)}, {"image": (True, 4, 5, 3)}, {"image": ("1", "4")}, {"image": {1, 4, 5, 3}}]),
]
WRONG_VALUES: list[tuple[str, list[Any]]] = [
    ("objective", ["", "speed", "min-executed "]),
    ("strategy", ["", "luck"]),
    ("target", ["", "ort", "ort_cpu", "none.json", "/none", "/", Path("ort-cpu"), "a\0.json", "x\ny"]),
    ("time_limit", [NAN, INFINITE, -INFINITE, -1, 0, 10**400, -(10**400), np.float64(NAN)]),
    ("custom", ["", "drop"]),
    ("quant", ["", "exactly", "QDQ"]),
    ("weights", ["", "unsigned", "Symmetric"]),
    ("shapes", [{"image": (1, 2**31, 5, 3)}, {"image": (1, -2, 5, 3)}, {"image": (0, 4, 5, 3)}, {"image": ()}]),
]


def model() -> bytes:
    build = Builder()
    x, y = build.input("image", (1, 4, 5, 3)), build.tensor("result", (1, 4, 5, 3))
    build.operator("ABS", [x], [y])
    build.signature({"image": x}, {"result": y}, "serving_default")
    return build.finish(y)


@pytest.mark.parametrize("function", [layoutsolve.convert, layoutsolve.compare])
@pytest.mark.parametrize(("name", "values"), WRONG_TYPES)
def test_wrong_types(function: Callable[..., object], name: str, values: list[Any]) -> None:
    if function is layoutsolve.compare and name in NOT_COMPARED:
        return
    for value in values:
        with pytest.raises(TypeError, match=name):
            function(model(), **{name: value})


@pytest.mark.parametrize(("name", "values"), WRONG_VALUES)
def test_wrong_values(name: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(OptionError, match="image" if name == "shapes" else name):
            layoutsolve.convert(model(), **{name: value})


def test_numbers_of_very_many_digits() -> None:
    """Python refuses to write them."""
    huge = 10**5000
    for name, value in (("opset", huge), ("max_size", -huge)):
        with pytest.raises(OptionError, match="many digits"):
            layoutsolve.convert(model(), **{name: value})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="objective must be a string, not int a number of very many digits"):
        layoutsolve.convert(model(), objective=huge)  # type: ignore[arg-type]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_strategies_that_cannot_weigh_an_objective_have_no_row(objective: str) -> None:
    rows = {row.strategy for row in layoutsolve.compare(model(), objective=objective)}
    assert rows in (set(STRATEGIES), set(STRATEGIES) - {"mincut"})


def test_contrib_is_short_for_a_target() -> None:
    """It agrees with a target that allows the same operators, and contradicts one that does not."""
    allowing, usual = {"target": "ort-cpu-contrib"}, {"target": "ort-cpu"}
    for options, name in (
        ({}, "ort-cpu"), (usual, "ort-cpu"), ({"contrib": True}, "ort-cpu-contrib"), (allowing, "ort-cpu-contrib"),
        ({**allowing, "contrib": True}, "ort-cpu-contrib"), ({**allowing, "contrib": False}, "ort-cpu-contrib"),
    ):  # fmt: skip
        assert layoutsolve.convert(model(), **options).report["target"] == name  # type: ignore[arg-type]
    for function in (layoutsolve.convert, layoutsolve.compare):
        with pytest.raises(OptionError, match=r"contrib: target 'ort-cpu' does not allow operators of com\.microsoft"):
            function(model(), **usual, contrib=True)  # type: ignore[operator]


NOT_COMPARED = {"strategy", "opset", "external_data"}
"""Options of a conversion that a comparison of strategies has no use for."""


def test_the_options_are_those_of_the_functions() -> None:
    """Every argument is an option that is checked, with the same default."""
    options = Options()
    for function, lacking in (
        (layoutsolve.convert, set()),
        (layoutsolve.compare, {"strategy", "to", "opset", "external_data"}),
    ):
        given = dict(inspect.signature(function).parameters)
        assert given.pop("source").default is inspect.Parameter.empty
        assert {each.name for each in fields(Options)} - given.keys() == lacking
        for name, parameter in given.items():
            assert (parameter.default or None) == (getattr(options, name) or None), name


def test_types_are_the_choices() -> None:
    """What editors complete is what is accepted, and the defaults are among them."""
    wanted = {
        choices.Objective: OBJECTIVES,
        choices.Strategy: STRATEGIES,
        choices.Quant: QUANT,
        choices.Dynamic: DYNAMIC,
        choices.Weights: WEIGHTS,
        choices.Custom: CUSTOM,
    }
    for found, known in wanted.items():
        assert {*get_args(found)} == {*known}
    for name, parameter in inspect.signature(layoutsolve.convert).parameters.items():
        if str(parameter.annotation) in ("Objective", "Strategy", "Quant", "Dynamic", "Weights", "Custom"):
            assert parameter.default in get_args(getattr(choices, str(parameter.annotation))), name


def test_what_is_as_good() -> None:
    """Numbers and booleans of numpy, lists for tuples."""
    conversion = layoutsolve.convert(
        model(),
        opset=np.int64(19),  # type: ignore[arg-type]
        contrib=np.bool_(False),  # type: ignore[arg-type]
        time_limit=np.float32(5),  # type: ignore[arg-type]
        inputs={"image": ["NHWC", "NCHW"]},  # type: ignore[dict-item]
        shapes={"image": np.array([1, 4, 5, 3])},  # type: ignore[dict-item]
    )
    assert conversion.report["opset"] == 19
    assert conversion.permutations(inputs=True) == {"image": (0, 3, 1, 2)}
    assert conversion.explain(np.float32(1)).operators is not None  # type: ignore[arg-type]
    assert layoutsolve.verify(model(), conversion, seed=np.int32(1), samples=np.int8(1)).passed  # type: ignore[arg-type]


def test_sources(tmp_path: Path) -> None:
    """Paths of every kind and buffers of every kind are the same model."""
    data, path = model(), tmp_path / "model.tflite"
    path.write_bytes(data)
    spread = np.zeros(2 * len(data), np.uint8)
    spread[::2] = np.frombuffer(data, np.uint8)
    changing = bytearray(data)
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    sources: list[Any] = [str(path), path, data, changing, memoryview(data), memoryview(spread)[::2], mapped]
    sources += [memoryview(changing), array.array("B", data), np.frombuffer(data, np.uint8)]
    models = [layoutsolve.convert(source).content("") for source in sources]
    assert len(set(models)) == 1
    changing[:] = b"\0" * len(data)


@pytest.mark.parametrize("source", [None, 5, 1.5, ["a.tflite"], {"a"}, object(), True])
def test_no_sources(source: Any) -> None:
    conversion = layoutsolve.convert(model())
    certificate = layoutsolve.certify(model(), conversion)
    for function in (layoutsolve.convert, layoutsolve.compare):
        with pytest.raises(TypeError, match="source must be a path, the bytes of a model, or an ONNX model"):
            function(source)
    for call in (layoutsolve.verify, layoutsolve.certify):
        with pytest.raises(TypeError, match="source must be"):
            call(source, conversion)
    with pytest.raises(TypeError, match="source must be"):
        layoutsolve.check_certificate(source, model(), certificate)
    with pytest.raises(TypeError, match="model must be"):
        layoutsolve.check_certificate(model(), source, certificate)


def test_open_files_and_empty_ones(tmp_path: Path) -> None:
    path = tmp_path / "a.tflite"
    path.touch()
    with path.open("rb") as file:
        for each in (file, io.BytesIO(model())):
            with pytest.raises(TypeError, match="give its path, or what its read"):
                layoutsolve.convert(each)  # type: ignore[arg-type]
    for empty in (b"", bytearray(), path, ""):
        with pytest.raises(ModelError, match="empty"):
            layoutsolve.convert(empty)


def test_other_functions(tmp_path: Path) -> None:
    conversion = layoutsolve.convert(model())
    certificate = layoutsolve.certify(model(), conversion)
    content = conversion.content("")
    calls: list[tuple[str, Callable[[], object]]] = [
        ("path", lambda: conversion.save(b"a.onnx")),  # type: ignore[arg-type]
        ("path", lambda: conversion.save(5)),  # type: ignore[arg-type]
        *(("path", lambda wrong=wrong: conversion.content(wrong)) for wrong in (None, 5, b"a.onnx", ["a"])),
        *(("operator", lambda wrong=wrong: layoutsolve.register(wrong)) for wrong in (None, 3, b"x", ["ABS"])),
        ("'CUSTOM:x' must be a function", lambda: layoutsolve.register("CUSTOM:x")(None)),  # type: ignore[arg-type]
        ("path", lambda: certificate.save(None)),  # type: ignore[arg-type]
        ("path", lambda: Certificate.load(5)),  # type: ignore[arg-type]
        ("text", lambda: Certificate.from_json(b"{}")),  # type: ignore[arg-type]
        ("seconds", lambda: conversion.explain("x")),  # type: ignore[arg-type]
        ("seconds", lambda: conversion.explain(True)),
        ("conversion", lambda: layoutsolve.verify(model(), content)),  # type: ignore[arg-type]
        ("conversion", lambda: layoutsolve.certify(model(), content)),  # type: ignore[arg-type]
        ("path", lambda: layoutsolve.certify(model(), conversion, 5)),  # type: ignore[arg-type]
        ("certificate", lambda: layoutsolve.check_certificate(model(), content, "a.json")),  # type: ignore[arg-type]
        ("seed", lambda: layoutsolve.verify(model(), conversion, seed="0")),  # type: ignore[arg-type]
        ("samples", lambda: layoutsolve.verify(model(), conversion, samples=1.0)),  # type: ignore[arg-type]
        ("steps", lambda: layoutsolve.verify(model(), conversion, steps="1")),  # type: ignore[arg-type]
        ("tensors", lambda: layoutsolve.verify(model(), conversion, tensors=1)),  # type: ignore[arg-type]
        ("data", lambda: layoutsolve.verify(model(), conversion, data=5)),  # type: ignore[arg-type]
        ("data", lambda: layoutsolve.verify(model(), conversion, data={"image": [[1], [1, 2]]})),
        ("model", lambda: layoutsolve.Session(5)),  # type: ignore[arg-type]
        ("threads", lambda: conversion.session(threads="1")),  # type: ignore[arg-type]
        ("inputs", lambda: conversion.session().run([1])),  # type: ignore[arg-type]
        ("states", lambda: conversion.session().reset(5)),  # type: ignore[arg-type]
    ]
    for name, call in calls:
        with pytest.raises(TypeError, match=name):
            call()
    for name, call in (
        ("samples", lambda: layoutsolve.verify(model(), conversion, samples=0)),
        ("samples", lambda: layoutsolve.verify(model(), conversion, samples=2**62)),
        ("steps", lambda: layoutsolve.verify(model(), conversion, steps=10**30)),
        *(("threads", lambda many=many: conversion.session(threads=many)) for many in (-1, 1025, 2**31, 10**30)),
        *(("threads", lambda many=many: layoutsolve.Session(content, threads=many)) for many in (-1, 2**32, 10**30)),
        ("seed", lambda: layoutsolve.verify(model(), conversion, seed=-1)),
        ("seconds", lambda: conversion.explain(-1)),
        ("seconds", lambda: conversion.explain(10**400)),
    ):
        with pytest.raises(OptionError, match=name):
            call()


NEAR: list[tuple[type[ConversionError], dict[str, Any], str]] = [
    (OptionError, {"objective": "min-latancy"}, "min-latency"),
    (OptionError, {"strategy": "CPSAT"}, "cpsat"),
    (OptionError, {"target": "ort_cpu"}, "ort-cpu"),
    (OptionError, {"custom": "pass-through"}, "passthrough"),
    (LayoutError, {"inputs": "nhcw"}, "nchw"),
    (LayoutError, {"inputs": {"imgae": "nchw"}}, "image"),
    (LayoutError, {"outputs": {"reslt": "nchw"}}, "result"),
    (LayoutError, {"layouts": {"Image": ("NHWC", "NCHW")}}, "image"),
    (OptionError, {"shapes": {"imag": (1, 4, 5, 3)}}, "image"),
    (OptionError, {"signature": "serving_defualt"}, "serving_default"),
]


@pytest.mark.parametrize(("error", "options", "meant"), NEAR)
def test_the_nearest_name(error: type[ConversionError], options: dict[str, Any], meant: str) -> None:
    with pytest.raises(error, match=rf"did you mean .*'{meant}'.*\?"):
        layoutsolve.convert(model(), **options)


def test_the_nearest_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.tflite"
    path.write_bytes(model())
    for arguments, message in (
        (["--objektive", "min-bytes"], "unrecognised argument '--objektive' (did you mean '--objective'"),
        (["--batch", "4"], "unrecognised argument '--batch': --shape NAME=8,224,224,3 gives an input a batch"),
        (["--fp16"], "'--fp16': weights keep the type of the source"),
        (["--target", "browser"], "(did you mean 'ort-web'?)"),
        (["--verfy"], "(did you mean '--verify' or '--certify'?)"),
        (["--opset", "x"], "argument --opset: invalid int value: 'x'"),
        (["surplus.onnx"], "'surplus.onnx' is no TensorFlow Lite model: name the file to write with -o"),
        (["--inp", "x"], "ambiguous option"),
        (["-o"], "expected one argument"),
        (["--certify", "-"], "argument --certify: a certificate is written to a file"),
    ):
        assert main([str(path), *arguments]) == 2
        captured = capsys.readouterr()
        assert message in captured.err
        assert (captured.out, captured.err.count("\n")) == ("", 1)


def test_hints_are_cheap_and_short() -> None:
    """Many names, and long ones, are not all listed nor compared."""
    build = Builder()
    outputs = []
    for number in range(300):
        x, y = build.input(f"image{number}", (1, 2)), build.tensor("long" * 5000 + str(number), (1, 2))
        build.operator("ABS", [x], [y])
        outputs.append(y)
    with pytest.raises(LayoutError) as caught:
        layoutsolve.convert(build.finish(*outputs), inputs={"imagee7": "nchw"})
    assert len(str(caught.value)) < 500
    with pytest.raises(LayoutError):
        layoutsolve.convert(build.finish(*outputs), inputs={"x" * 100_000: "nchw"})
