"""Packages that are not needed are not loaded, and are there for who needs them."""

from __future__ import annotations

import subprocess
import sys

import pytest

_SEARCH = """
from layoutsolve.solver.search.cpsat import cp_model
model = cp_model.CpModel()
x, y = (model.new_bool_var("") for _ in range(2))
model.add_exactly_one([x, y])
model.add(cp_model.LinearExpr.sum([x, y]) + x <= 1)
model.minimize(x)
solver = cp_model.CpSolver()
assert solver.solve(model) == cp_model.OPTIMAL and solver.boolean_value(y)
"""

_SERIES = """
import pandas
from layoutsolve.solver.search.cpsat import cp_model
model = cp_model.CpModel()
found = model.new_bool_var_series("x", pandas.Index(range(3)))
model.minimize(found.sum())
solver = cp_model.CpSolver()
assert solver.solve(model) == cp_model.OPTIMAL
values = solver.values(found)
assert isinstance(values, pandas.Series) and not values.any()
assert pandas.DataFrame({"x": values}).shape == (3, 1)
"""


@pytest.mark.parametrize(
    "code",
    [
        _SEARCH + "assert 'pandas' not in __import__('sys').modules" + _SERIES,
        "import layoutsolve.solver.search.cpsat" + _SERIES,
        _SERIES,
        "import pandas" + _SEARCH + _SERIES,
    ],
)
def test_modules_that_defer_a_package(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
