"""Which published figures are stale: those that the driver has not confirmed for three polls."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from tonnage.provisioner.metrics import Ages, Counts, show_capacity


def test_figures_are_stale_after_three_polls_without_a_word() -> None:
    # 3 x 60 s = 180 s: one of exactly that age is not stale yet.
    assert Ages((0.0, 179.0, 180.0, 181.0, 4000.0), 60.0).stale == 2
    assert Ages((0.0, 179.0), 60.0).oldest_s == 179.0
    assert (Ages((), 60.0).oldest_s, Ages((), 60.0).stale) == (0.0, 0)


def test_they_are_shown_as_they_stand_when_somebody_looks() -> None:
    registry, ages = CollectorRegistry(), [Ages((10.0,), 60.0)]
    show_capacity(registry, lambda: Counts(2, 1, 0), lambda: ages[0])
    assert registry.get_sample_value("tonnage_capacity_stale_objects") == 0.0
    ages[0] = Ages((10.0, 200.0), 60.0)
    assert registry.get_sample_value("tonnage_capacity_stale_objects") == 1.0
    assert registry.get_sample_value("tonnage_capacity_confirmed_age_seconds") == 200.0
    assert registry.get_sample_value("tonnage_capacity_poll_interval_seconds") == 60.0
