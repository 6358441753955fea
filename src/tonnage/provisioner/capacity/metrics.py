"""How far the published capacity is from what it shall be, and how old it is, in numbers, for people and for metrics.

A driver that fails keeps its objects as they are, so that nobody sees by an object whether it is still true: one that
says what it said an hour ago may have been confirmed a moment ago. Only who asks the driver knows, and tells it here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Gauge


class Counts(NamedTuple):
    """How many objects shall exist, how many of those do, and how many exist that nobody asks for."""

    goal: int
    current: int
    obsolete: int


STALE_AFTER_POLLS = 3.0
"""An object is called stale when its driver has not confirmed it for so many polls: one may be late, two fail."""


class Ages(NamedTuple):
    """How long ago the driver last told each object's figures, and the poll interval, in seconds."""

    ages_s: tuple[float, ...]
    poll_interval_s: float

    @property
    def oldest_s(self) -> float:
        return max(self.ages_s, default=0.0)

    @property
    def stale(self) -> int:
        return sum(each > STALE_AFTER_POLLS * self.poll_interval_s for each in self.ages_s)


def register_ages(registry: CollectorRegistry, ages: Callable[[], Ages]) -> None:
    """Show how old what is published is."""
    oldest = Gauge(
        "tonnage_capacity_confirmed_age_seconds",
        "How long ago the driver last confirmed the CSIStorageCapacity object that it has not confirmed for longest.",
        registry=registry,
    )
    stale = Gauge(
        "tonnage_capacity_stale_objects",
        "CSIStorageCapacity objects that the driver has not confirmed for three polls: pods are placed by old figures.",
        registry=registry,
    )
    interval = Gauge(
        "tonnage_capacity_poll_interval_seconds",
        "How often the driver is asked for its capacity (--capacity-poll-interval).",
        registry=registry,
    )
    oldest.set_function(lambda: ages().oldest_s)
    stale.set_function(lambda: ages().stale)
    interval.set_function(lambda: ages().poll_interval_s)


def register_counts(registry: CollectorRegistry, counts: Callable[[], Counts]) -> None:
    """Show the counts of the moment under upstream's names."""
    goal = Gauge("csistoragecapacities_desired_goal", "CSIStorageCapacity objects that shall exist.", registry=registry)
    current = Gauge(
        "csistoragecapacities_desired_current", "CSIStorageCapacity objects that shall exist and do.", registry=registry
    )
    obsolete = Gauge(
        "csistoragecapacities_obsolete",
        "CSIStorageCapacity objects that exist and will be deleted, because nobody asks for them.",
        registry=registry,
    )
    goal.set_function(lambda: counts().goal)
    current.set_function(lambda: counts().current)
    obsolete.set_function(lambda: counts().obsolete)
