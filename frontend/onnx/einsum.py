"""Einsum: the sizes of its result. An operand is repeated along a label where it has size 1, which onnx's inference
does not follow: it takes the first size of a label that it comes upon.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from string import ascii_letters

from layoutsolve.frontend.arithmetic import Arithmetic
from layoutsolve.frontend.shapes import broadcast
from layoutsolve.ir.einsum_equation import ELLIPSIS, terms_of
from layoutsolve.ir.graph import Dim, Shape
from layoutsolve.proto.messages import NodeProto, attribute


def written(equation: str, shapes: Sequence[Shape], arithmetic: Arithmetic) -> tuple[str, list[Dim]] | None:
    """An equation that computes the same, and the sizes of its result, which onnx infers of it where they are numbers:
    no operand is repeated along a label where it is known to have size 1, it has a letter of its own for that.

    None where operands do not have the dimensions that their terms name, or letters do not suffice. Raises
    :class:`ModelError` where a label has two sizes of which none is 1.
    """
    operands, result = terms_of(equation)
    named = [len(term.replace(ELLIPSIS, "")) for term in operands]
    hidden = [len(shape) - count for shape, count in zip(shapes, named, strict=True)]
    letters = iter([letter for letter in ascii_letters if letter not in equation])
    around = "".join(islice(letters, max(hidden, default=0)))
    if any(count < 0 or (count and ELLIPSIS not in term) for count, term in zip(hidden, operands, strict=True)):
        return None
    if len(around) < max(hidden, default=0):
        return None
    terms = [
        term.replace(ELLIPSIS, around[len(around) - count :]) for term, count in zip(operands, hidden, strict=True)
    ]
    result = result.replace(ELLIPSIS, around)
    sizes: dict[str, list[Shape]] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for letter, dim in zip(term, shape, strict=True):
            sizes.setdefault(letter, []).append((dim,))
    found = {letter: broadcast(each, arithmetic)[0] for letter, each in sizes.items()}
    if not found.keys() >= {*result}:
        return None
    made = [found[letter] for letter in result]
    if all(found[letter] == 1 or (1,) not in each for letter, each in sizes.items()):
        return equation, made
    for number, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        ones = [letter for letter, dim in zip(term, shape, strict=True) if dim == 1 != found[letter]]
        own = {letter: next(letters, "") for letter in dict.fromkeys(ones)}
        if "" in own.values():
            return None
        terms[number] = "".join(own.get(letter, letter) for letter in term)
    return f"{','.join(terms)}->{result}", made


def stand_ins(node: NodeProto) -> Iterator[NodeProto]:
    """Operators whose sizes onnx infers as those of an Einsum are, where operands share a label of its result: each
    operand is summed to each of these, sums of a label are added, and the result is their outer product.
    """
    operands, result = terms_of(
        next((each.s.decode("latin-1") for each in node.attribute if each.name == "equation"), "")
    )
    before, dots, after = result.partition(ELLIPSIS)
    labels = [*before, *([dots] if dots else ()), *after]
    among = {label: [number for number, term in enumerate(operands) if label in term] for label in labels}
    if len(operands) != len(node.input) or all(len(numbers) < 2 for numbers in among.values()):
        return
    output, sums = node.output[0], []
    for label, numbers in among.items():
        sums.append(f"{output}/{label}")
        parts = [f"{sums[-1]}/{number}" for number in numbers]
        for number, part in zip(numbers, parts, strict=True):
            yield _einsum([node.input[number]], part, f"{operands[number]}->{label}")
        yield NodeProto(op_type="Sum", input=parts, output=sums[-1:])
    yield _einsum(sums, output, f"{','.join(among)}->{result}")


def _einsum(inputs: Sequence[str], output: str, equation: str) -> NodeProto:
    return NodeProto(op_type="Einsum", input=inputs, output=[output], attribute=[attribute("equation", equation)])
