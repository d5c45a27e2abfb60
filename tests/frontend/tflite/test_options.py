"""Every field of operators and their options, written by LiteRT's object API, is read as it was written."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest
from ai_edge_litert import schema_py_generated as litert

from layoutsolve.errors import ModelError, UnsupportedError
from layoutsolve.frontend import read
from layoutsolve.frontend.tflite.reading import schema as ours
from layoutsolve.frontend.tflite.reading.model import Operator
from layoutsolve.frontend.tflite.reading.reader import parse
from tests.frontend.tflite.tables import OPERATORS, PASSED_OVER, fields, only_operator, packed, small

UNIONS = {"BuiltinOptions": litert.BuiltinOptions, "BuiltinOptions2": litert.BuiltinOptions2}
CLASSES = [
    (union, name) for union, codes in UNIONS.items() for name, code in vars(codes).items() if name[0].isupper() and code
]


def camel(name: str) -> str:
    return name[0].upper() + name[1:]


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


# -- options -----------------------------------------------------------------------------------------------------------

_EXTREMES: dict[str, list[Any]] = {
    "Bool": [True, False],
    "Int8": [-128, 127],
    "Uint8": [255],
    "Int32": [-(2**31), 2**31 - 1],
    "Uint32": [2**32 - 1],
    "Int64": [-(2**63), 2**63 - 1],
    "Float32": [1.5, -(2.0**100)],
}
_NUMBERS = {1: "Uint8", 4: "Int32", 8: "Int64"}


def values(name: str, field: str) -> list[Any]:
    """What a field can be given, beside its default: by the type that the schema's own code writes it as."""
    source = inspect.getsource(getattr(litert, f"{name}Add{camel(field)}"))
    kind = re.search(r"builder\.Prepend(\w+)Slot", source)
    assert kind is not None, source
    if kind[1] in _EXTREMES:
        return _EXTREMES[kind[1]]
    accessors = vars(getattr(litert, name))
    if camel(field) + "AsNumpy" not in accessors:
        return ["grüße", ""]
    element = re.search(r"number_types\.(\w+)Flags, a", inspect.getsource(accessors[camel(field)]))
    assert element is not None
    return [_EXTREMES[element[1]], []]


def operators_of(kind: str) -> list[str]:
    return [name for name in OPERATORS if ours.options_class(name) == kind]


def with_options(union: str, kind: str, operator: str, **given: Any) -> Operator:
    table = getattr(litert, kind + "T")(**given)
    made = litert.OperatorT(inputs=[], outputs=[])
    attribute = union[0].lower() + union[1:]
    setattr(made, attribute, table)
    setattr(made, attribute + "Type", getattr(UNIONS[union], kind))
    return only_operator(small(operators=[made], code=operator))


@pytest.mark.members(0)
@pytest.mark.parametrize(("union", "kind"), CLASSES)
def test_options(union: str, kind: str) -> None:
    """Every field by itself, with extreme values, the others at their defaults; in every operator that has them."""
    defaults = fields(kind)
    assert operators_of(kind), f"no operator reads {kind}"
    for operator in operators_of(kind):
        for field, value in [(None, None), *((key, value) for key in defaults for value in values(kind, key))]:
            given = {} if field is None else {field: value}
            expected = {snake(key): value for key, value in {**defaults, **given}.items()}
            found = with_options(union, kind, operator, **given)
            assert found.unread == ""
            assert {key: plain(value) for key, value in found.options.items()} == {
                key: plain(value) for key, value in expected.items()
            }


def plain(value: Any) -> Any:
    """A field's value, where a vector or text that is absent is an empty one."""
    return tuple(value or ()) if value is None or isinstance(value, (str, list, tuple)) else value


def test_options_of_another_operator() -> None:
    """LiteRT reads none where an operator has the options of another."""
    assert with_options("BuiltinOptions", "Pool2DOptions", "CONV_2D", strideH=2).options == {}
    assert with_options("BuiltinOptions", "GeluOptions", "CUSTOM", approximate=True).options == {}


@pytest.mark.parametrize("union", UNIONS)
def test_unknown_class_of_options(union: str) -> None:
    """What is younger than the schema is refused: nobody knows what it changes."""
    attribute = union[0].lower() + union[1:]
    made = litert.OperatorT(inputs=[], outputs=[])
    setattr(made, attribute, litert.AbsOptionsT())
    setattr(made, attribute + "Type", 111 if union == "BuiltinOptions2" else 201)
    assert re.search(f"unknown class [0-9]+ of {union}$", unread := _unpacked(made, attribute)), unread


def _unpacked(operator: Any, attribute: str) -> str:
    """What is unread of an operator whose union has an unknown number, which the object API would not pack."""
    model = small(operators=[operator], code="ABS")
    pack = litert.OperatorT.Pack

    def anyway(self: Any, builder: Any) -> Any:
        table = getattr(self, attribute).Pack(builder)
        litert.OperatorStart(builder)
        getattr(litert, f"OperatorAdd{camel(attribute)}")(builder, table)
        getattr(litert, f"OperatorAdd{camel(attribute)}Type")(builder, getattr(self, attribute + "Type"))
        return litert.OperatorEnd(builder)

    litert.OperatorT.Pack = anyway
    try:
        return only_operator(model).unread
    finally:
        litert.OperatorT.Pack = pack


class _Longer(litert.AddOptionsT):  # type: ignore[misc]
    """Options of ADD with a third field."""

    def Pack(self, builder: Any) -> Any:  # noqa: N802  (the name is flatbuffers')
        builder.StartObject(3)
        builder.PrependInt32Slot(2, 7, 0)
        return builder.EndObject()


def test_unknown_field_of_options() -> None:
    made = litert.OperatorT(inputs=[0, 0], outputs=[1], builtinOptions=_Longer())
    made.builtinOptionsType = litert.BuiltinOptions.AddOptions
    tensors = [litert.TensorT(shape=[2], name=name) for name in ("x", "y")]
    model = small(tensors, [made], "ADD")
    model.subgraphs[0].inputs, model.subgraphs[0].outputs = [0], [1]
    with pytest.raises(UnsupportedError, match=r"operator 0 ADD \(output 'y'\): its AddOptions have a field"):
        read(packed(model))


# -- operators ---------------------------------------------------------------------------------------------------------


@pytest.mark.members(0)
@pytest.mark.parametrize("name", [name for name in OPERATORS if name != "CUSTOM"])
def test_operator_codes(name: str) -> None:
    """The larger of the two fields counts: old files have the narrow one alone, some new ones the wide one alone."""
    number = OPERATORS[name]
    assert ours.OPERATORS[number] == name
    for narrow in {0, min(number, 127)}:
        code = litert.OperatorCodeT(builtinCode=number, deprecatedBuiltinCode=narrow)
        assert code_name(code) == name
    if number < 127:
        assert code_name(litert.OperatorCodeT(deprecatedBuiltinCode=number)) == name


def code_name(code: Any) -> str:
    model = small(operators=[litert.OperatorT(inputs=[], outputs=[])])
    model.operatorCodes = [code]
    return only_operator(model).name


def test_numbers_agree() -> None:
    """All numbers of LiteRT's schema are known by the same names, but for types that nothing is read of."""
    types = {name.lower(): code for name, code in vars(litert.TensorType).items() if name.isupper()}
    assert {code: name for name, code in types.items() if not name.startswith("float8")} == dict(ours.TYPES)
    assert {code: name for name, code in OPERATORS.items()} == dict(ours.OPERATORS)
    for union, codes in UNIONS.items():
        stated = {code: name for name, code in vars(codes).items() if name[0].isupper() and code}
        assert stated == dict(ours.UNIONS[union])


_OPERATOR: dict[str, tuple[Any, Callable[[Operator], Any], Any]] = {
    "opcodeIndex": (1, lambda found: found.name, "ABS"),
    "inputs": ([1, -1], lambda found: found.inputs, (1, -1)),
    "outputs": ([2], lambda found: found.outputs, (2,)),
    "intermediates": ([0], lambda found: found.intermediates, (0,)),
    "customOptions": ([1, 255], lambda found: found.custom_options, b"\1\xff"),
}
_UNTRIED = {f"{name}{end}" for name in ("builtinOptions", "builtinOptions2") for end in ("", "Type")}
_LARGE = {"largeCustomOptionsOffset", "largeCustomOptionsSize"}


def test_operator() -> None:
    assert set(fields("Operator")) == {*_OPERATOR, *PASSED_OVER["Operator"], *_UNTRIED, *_LARGE}
    for field, (value, seen, expected) in _OPERATOR.items():
        tensors = [litert.TensorT(shape=[2], isVariable=index < 2) for index in range(3)]
        model = small(tensors, [litert.OperatorT(inputs=[], outputs=[])])
        model.operatorCodes.append(litert.OperatorCodeT(builtinCode=OPERATORS["ABS"]))
        assert seen(only_operator(model)) != expected
        setattr(model.subgraphs[0].operators[0], field, value)
        assert seen(only_operator(model)) == expected


def test_large_custom_options() -> None:
    """Behind the flatbuffer; those inside of it come first."""

    def stated(offset: int, size: int, inside: list[int] | None = None) -> Any:
        made = litert.OperatorT(inputs=[], outputs=[], customOptions=inside)
        made.largeCustomOptionsOffset, made.largeCustomOptionsSize = offset, size
        return small(operators=[made])

    length = len(packed(stated(9999, 3)))
    data = packed(stated(length, 3)) + b"abcd"
    assert parse(data).subgraphs[0].operators[0].custom_options == b"abc"
    assert only_operator(stated(1, 3)).custom_options == b""
    assert only_operator(stated(9999, 3, [7])).custom_options == b"\7"
    for offset in (length, 2**33, 2**63):
        with pytest.raises(ModelError, match=f"custom options at {offset} with 3 bytes"):
            parse(packed(stated(offset, 3)))


def test_custom_code() -> None:
    assert code_name(litert.OperatorCodeT(builtinCode=32, customCode="größe")) == "CUSTOM:größe"
    assert code_name(litert.OperatorCodeT(deprecatedBuiltinCode=32, customCode="own")) == "CUSTOM:own"
