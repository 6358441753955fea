"""KEP-4876's table of gate against period, and who is asked at all."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.node.drivers import update_period_s
from tonnage.testing.storage_builders import driver


@pytest.mark.parametrize(
    ("gate_on", "period_s", "every_s"),
    [
        (True, 60, 60),  # periodic updates occur at the defined interval, and when an attach fails
        (True, None, 0),  # no updates occur; the count remains static
        (False, 60, 0),  # the period is ignored; the count remains static and immutable
        (False, None, 0),  # no updates occur; the count remains static and immutable
    ],
)
def test_the_table_of_the_kep(gate_on: bool, period_s: int | None, every_s: int):
    spec: dict[str, Any] = {} if period_s is None else {"nodeAllocatableUpdatePeriodSeconds": period_s}
    found = driver(**spec)
    assert update_period_s(found, gate_on=gate_on, is_installed=True) == every_s


def test_a_period_of_zero_ends_updates():
    found = driver(nodeAllocatableUpdatePeriodSeconds=0)
    assert update_period_s(found, gate_on=True, is_installed=True) == 0


def test_a_driver_that_is_not_installed_is_not_asked():
    found = driver(nodeAllocatableUpdatePeriodSeconds=60)
    assert update_period_s(found, gate_on=True, is_installed=False) == 0


def test_a_driver_that_the_cluster_does_not_know_is_not_asked():
    assert update_period_s(None, gate_on=True, is_installed=True) == 0
