"""Checks an assignment to a layout instance. Needs nothing but Python.

    python check.py INSTANCE.json SOLUTION.json

An instance has ``levels`` (names), ``variables`` (each with a vector of costs for each of its values, one number a
level) and ``never``: ``[i, A, j, B]`` says that variable i has no value of A while variable j has one of B. A solution
is a list with the number of a value for each variable. What it costs is the sum of its vectors; costs are compared
lexicographically, the first level first. Prints the cost, or what is wrong and exits with 1.
"""

import json
import sys
from pathlib import Path


def check(instance: dict, values: list) -> list:  # type: ignore[type-arg]
    """The cost of an assignment by level. Raises ValueError where it is none."""
    if instance.get("format") != "layout-assignment" or instance.get("version") != 1:
        raise ValueError("not an instance of version 1")
    variables = instance["variables"]
    if len(values) != len(variables):
        raise ValueError(f"{len(values)} values for {len(variables)} variables")
    total = [0] * len(instance["levels"])
    for number, (variable, value) in enumerate(zip(variables, values, strict=True)):
        if type(value) is not int or not 0 <= value < len(variable["costs"]):
            raise ValueError(f"variable {number} has no value {value!r}")
        total = [before + cost for before, cost in zip(total, variable["costs"][value], strict=True)]
    for first, some, second, others in instance["never"]:
        if values[first] in some and values[second] in others:
            raise ValueError(f"variables {first} and {second} have values {values[first]} and {values[second]} at once")
    return total


def main() -> int:
    """The command line."""
    if len(sys.argv) != 3:
        print(__doc__)
        return 2
    instance, values = (json.loads(Path(name).read_text()) for name in sys.argv[1:])
    try:
        total = check(instance, values)
    except ValueError as error:
        print(error)
        return 1
    print(", ".join(f"{name}: {cost}" for name, cost in zip(instance["levels"], total, strict=True)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
