"""Conversions are held against LiteRT; that they have the fewest Reshapes is proven in the tests of the solver."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def always_briefly(briefly: None) -> None:
    """See :func:`tests.conftest.briefly`."""
