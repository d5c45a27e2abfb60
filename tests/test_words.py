"""Documentation, messages, docstrings and file names have the words of compilers, quantization and optimisation."""

from __future__ import annotations

import re

import pytest

from tests import words

SEARCHED = (
    *("quantization", "int8", "QDQ", "initializer", "dynamic batch", "dynamic shape", "constant folding", "opset"),
    *("execution provider", "CUDA", "TensorRT", "WebGPU", "CoreML", "NNAPI", "netron", "transpose optimizer"),
    *(
        "accuracy",
        "benchmark",
        "latency",
        "NHWC",
        "NCHW",
        "channels last",
        "reduced cost",
        "lower bound",
        "per channel",
    ),
)
"""What people search for."""


@pytest.mark.parametrize("place", words.PLACES)
def test_every_word_is_the_fields(place: str) -> None:
    assert not [f"{where}: {word} -> {better}: {around}" for where, word, around, better in words.foreign(place)]


def test_files_are_named_with_words_of_the_field() -> None:
    assert not [f"{where}: {word} -> {better}" for where, word, _, better in words.foreign_names()]


@pytest.mark.parametrize("term", SEARCHED)
def test_a_search_of_the_documentation_finds(term: str) -> None:
    """In the words of a page; where words may be joined by a hyphen or are at the end of a line, too."""
    pattern = re.compile(r"[\s-]+".join(map(re.escape, term.split())), re.IGNORECASE)
    assert [where for where, text in words.pages() if pattern.search(text)]


def test_foreign_words_are_found() -> None:
    """Each pattern finds something: what the field has no need to say."""
    examples = (
        "models of bytes, kernels on bytes, floats by bytes, it reads bytes, | bytes |, numbers of 16 bits; "
        "real numbers, other numbers than, one step off, within one step, halves otherwise, without a sign, "
        "dense layer, plain kernels, as far off as LiteRT's, departs, constants in a file, copies of constants, "
        "the ends, each end, known beforehand, guards, open sizes, regions, it turns, motions, flooding, ways to run, "
        "rows of an operator, chosen rows, hidden ones, tiers, for these orders, closure, capped, offers, "
        "what is paid, struck out, hang together, charged, counted work, out of the question, told, says, "
        "quantised numbers"
    )
    assert not [better for pattern, better in words.PATTERNS if not pattern.search(examples)]
    legitimate = (
        "8 bytes of padding, the number of bytes, in turn, turned on, it starts and ends with 0, the end of a line"
    )
    assert not [better for pattern, better in words.PATTERNS if pattern.search(legitimate)]
