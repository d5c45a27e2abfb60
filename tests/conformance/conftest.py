"""Tests of operators are skipped where the installed runtimes are older ones, and lack what is compared."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.older import excused


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    with excused(pyfuncitem.name):
        return (yield)
