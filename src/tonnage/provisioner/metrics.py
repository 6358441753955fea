"""Metrics under the names of external-provisioner and its library, and how far the published capacity is from the
wanted.

A driver that fails keeps its objects as they are, so that only we know how old what they say is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tonnage.client.metrics import WorkQueueMetrics
from tonnage.csi.metrics import sidecar_calls
from tonnage.objects.core_v1 import PersistentVolumeClaim

_WORK_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class ProvisionerMetrics:
    """Counts what a provisioner does."""

    def __init__(self, registry: CollectorRegistry) -> None:
        of_claims, of_volumes = ("class", "source"), ("class",)
        self._provisioned = Counter(
            "controller_persistentvolumeclaim_provision_total", "Volumes made.", of_claims, registry=registry
        )
        self._provision_failed = Counter(
            "controller_persistentvolumeclaim_provision_failed_total",
            "Attempts to make a volume that failed.",
            of_claims,
            registry=registry,
        )
        self._provision_seconds = Histogram(
            "controller_persistentvolumeclaim_provision_duration_seconds",
            "How long it took to make a volume; attempts that failed are left out.",
            of_claims,
            buckets=_WORK_BUCKETS_S,
            registry=registry,
        )
        self._deleted = Counter(
            "controller_persistentvolume_delete_total", "Volumes deleted.", of_volumes, registry=registry
        )
        self._delete_failed = Counter(
            "controller_persistentvolume_delete_failed_total",
            "Attempts to delete a volume that failed.",
            of_volumes,
            registry=registry,
        )
        self._delete_seconds = Histogram(
            "controller_persistentvolume_delete_duration_seconds",
            "How long it took to delete a volume; attempts that failed are left out.",
            of_volumes,
            buckets=_WORK_BUCKETS_S,
            registry=registry,
        )
        self._refused = Counter(
            "tonnage_volumes_refused",
            "Volumes that the driver had no room for (ResourceExhausted), by class: each is a pod that was sent to a "
            "node that could not hold it, and is sent elsewhere.",
            of_volumes,
            registry=registry,
        )
        self.queues = WorkQueueMetrics(registry)
        """For `Reconciler(metrics=…)`."""
        self.calls = sidecar_calls(registry)
        """For `CsiClient(on_call=…)`."""

    def provisioned(self, claim: PersistentVolumeClaim, seconds: float) -> None:
        self._provisioned.labels(*_of(claim)).inc()
        self._provision_seconds.labels(*_of(claim)).observe(seconds)

    def provision_failed(self, claim: PersistentVolumeClaim) -> None:
        self._provision_failed.labels(*_of(claim)).inc()

    def refused(self, claim: PersistentVolumeClaim) -> None:
        self._refused.labels(claim.class_name).inc()

    def deleted(self, storage_class: str, seconds: float) -> None:
        self._deleted.labels(storage_class).inc()
        self._delete_seconds.labels(storage_class).observe(seconds)

    def delete_failed(self, storage_class: str) -> None:
        self._delete_failed.labels(storage_class).inc()


def _of(claim: PersistentVolumeClaim) -> tuple[str, str]:
    source = claim.spec.data_source
    return claim.spec.storage_class_name or "", source.kind if source is not None else ""


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
