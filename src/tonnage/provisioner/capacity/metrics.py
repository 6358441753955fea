"""How far the published capacity is from what it shall be, in numbers, for people and for metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Gauge


class Counts(NamedTuple):
    """How many objects shall exist, how many of those do, and how many exist that nobody asks for."""

    goal: int
    current: int
    obsolete: int


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
