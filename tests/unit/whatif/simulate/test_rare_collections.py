"""While a simulation runs, circles are looked for less often; afterwards as before."""

from __future__ import annotations

import gc

import pytest

from tonnage.whatif.simulate.play import rare_collections


@pytest.fixture(autouse=True)
def thresholds_of_this_process():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_new_objects_are_looked_at_less_often_and_then_as_before():
    gc.set_threshold(700, 10, 10)
    with rare_collections():
        assert gc.get_threshold() == (100_000, 20, 20)
    assert gc.get_threshold() == (700, 10, 10)


def test_the_settings_come_back_when_the_run_fails():
    gc.set_threshold(700, 10, 10)
    with pytest.raises(RuntimeError), rare_collections():
        raise RuntimeError("stopped")
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("chosen", [(500_000, 50, 30), (0, 20, 20)])
def test_who_looks_still_less_often_or_never_goes_on_to(chosen):
    gc.set_threshold(*chosen)
    with rare_collections():
        assert gc.get_threshold() == chosen
