"""Metrics under the names of external-provisioner and its library: volumes made and deleted, calls to the driver."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

from tonnage.client.metrics.workqueues import WorkQueueMetrics
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
