"""Equations of Einsum, parsed."""

from __future__ import annotations

ELLIPSIS = "..."
"""The label of all dimensions that an equation does not name."""


def terms_of(equation: str) -> tuple[list[str], str]:
    """The terms of the operands and of the result. That is, where it is not stated, all letters that stand once, in
    their order, behind the ellipsis.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    if not arrow:
        once = sorted(letter for letter in {*left} if letter.isalpha() and left.count(letter) == 1)
        right = (ELLIPSIS if ELLIPSIS in left else "") + "".join(once)
    return left.split(","), right
