"""Metrics under the names of external-provisioner and its library, and how far published capacity is from wanted.

Objects stay as they are when a driver fails, so only the provisioner knows how old their figures are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tonnage.client.metrics import WorkQueueMetrics
from tonnage.csi.metrics import sidecar_calls
from tonnage.objects.core_v1 import PersistentVolumeClaim

_WORK_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Outcomes:
    """How often one kind of work was done and failed, and how long it took."""

    def __init__(self, registry: CollectorRegistry, prefix: str, verb: str, done: str, labels: tuple[str, ...]) -> None:
        told = f"Attempts to {verb} a volume that failed."
        self._done = Counter(f"{prefix}_total", f"Volumes {done}.", labels, registry=registry)
        self._failed = Counter(f"{prefix}_failed_total", told, labels, registry=registry)
        self._duration_s = Histogram(
            f"{prefix}_duration_seconds",
            f"How long it took to {verb} a volume; attempts that failed are left out.",
            labels,
            buckets=_WORK_BUCKETS_S,
            registry=registry,
        )

    def done(self, seconds: float, *labels: str) -> None:
        self._done.labels(*labels).inc()
        self._duration_s.labels(*labels).observe(seconds)

    def failed(self, *labels: str) -> None:
        self._failed.labels(*labels).inc()


class ProvisionerMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        provision, delete = "controller_persistentvolumeclaim_provision", "controller_persistentvolume_delete"
        self.provision = Outcomes(registry, provision, "make", "made", ("class", "source"))
        self.delete = Outcomes(registry, delete, "delete", "deleted", ("class",))
        self.refused = Counter(
            "tonnage_volumes_refused",
            "Volumes that the driver had no room for (ResourceExhausted), by class: each is a pod that was sent to a "
            "node that could not hold it, and is sent elsewhere.",
            ("class",),
            registry=registry,
        )
        self.queues = WorkQueueMetrics(registry)
        """For `Reconciler(metrics=…)`."""
        self.calls = sidecar_calls(registry)
        """For `CsiClient(on_call=…)`."""


def class_and_source(claim: PersistentVolumeClaim) -> tuple[str, str]:
    """The labels of `provision`."""
    source = claim.spec.data_source
    return claim.spec.storage_class_name or "", source.kind if source is not None else ""


class Counts(NamedTuple):
    """Objects that must exist, those of them that do, and those that exist but are not wanted."""

    goal: int
    current: int
    obsolete: int


STALE_AFTER_POLLS = 3.0
"""An object is stale after so many polls without a report: one may be late, two may fail."""


class Ages(NamedTuple):
    """The age of the driver's last report on every object, and the poll interval, in seconds."""

    ages_s: tuple[float, ...]
    poll_interval_s: float

    @property
    def oldest_s(self) -> float:
        return max(self.ages_s, default=0.0)

    @property
    def stale(self) -> int:
        return sum(each > STALE_AFTER_POLLS * self.poll_interval_s for each in self.ages_s)


def show_capacity(registry: CollectorRegistry, counts: Callable[[], Counts], ages: Callable[[], Ages]) -> None:
    """Export the current counts under upstream's names, and the ages under ours."""
    gauges: tuple[tuple[str, str, Callable[[], float]], ...] = (
        (
            "csistoragecapacities_desired_goal",
            "CSIStorageCapacity objects that should exist.",
            lambda: counts().goal,
        ),
        (
            "csistoragecapacities_desired_current",
            "CSIStorageCapacity objects that should exist and do.",
            lambda: counts().current,
        ),
        (
            "csistoragecapacities_obsolete",
            "CSIStorageCapacity objects that exist and will be deleted, because no class or topology needs them.",
            lambda: counts().obsolete,
        ),
        (
            "tonnage_capacity_confirmed_age_seconds",
            "How long ago the driver last confirmed the CSIStorageCapacity object that it has not confirmed for "
            "longest.",
            lambda: ages().oldest_s,
        ),
        (
            "tonnage_capacity_stale_objects",
            "CSIStorageCapacity objects that the driver has not confirmed for three polls: pods are placed by old "
            "figures.",
            lambda: ages().stale,
        ),
        (
            "tonnage_capacity_poll_interval_seconds",
            "How often the driver is asked for its capacity (--capacity-poll-interval).",
            lambda: ages().poll_interval_s,
        ),
    )
    for name, told, value in gauges:
        Gauge(name, told, registry=registry).set_function(value)
