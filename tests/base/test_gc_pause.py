"""The collector is paused while a model is converted: what is of no more use has to be free without it."""

from __future__ import annotations

import gc

import pytest

import layoutsolve
from layoutsolve.base.gc_pause import paused
from tests.random_models import network


def test_conversions_leave_nothing() -> None:
    sources = [network(seed).source for seed in range(12)]
    for source in sources:
        layoutsolve.convert(source).content("")  # imports leave cycles of their own
    with paused():
        gc.collect()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            for source in sources:
                layoutsolve.convert(source).content("")
            gc.collect()
            assert gc.garbage == []
        finally:
            gc.set_debug(0)
            gc.garbage.clear()


@pytest.mark.parametrize("enabled", [True, False])
def test_it_is_as_before(enabled: bool) -> None:
    """Whatever it was, and whether the conversion comes to an end."""
    was_enabled = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        layoutsolve.convert(network(0).source)
        assert gc.isenabled() == enabled
        with pytest.raises(layoutsolve.ConversionError):
            layoutsolve.convert(b"none")
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()
