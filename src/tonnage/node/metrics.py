"""What the nodes count: KEP-4876's updates under the KEP's names, rejections and CSI calls under the kubelet's.

`csi_node_update_duration_seconds` runs from the tick, or from the failed attach, until the CSINode has the driver's
answer.
"""

from __future__ import annotations

from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tonnage.client.metrics import WorkQueueMetrics
from tonnage.csi.metrics import kubelet_calls
from tonnage.scheduling.cluster.pod_info import NATIVE, PODS

Trigger = Literal["periodic", "exhausted"]

_OUT_OF = "OutOf"
_UPDATE_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


class NodeMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:

        def counter(name: str, told: str, *labels: str) -> Counter:
            return Counter(name, told, labels, registry=registry)

        tried = "Updates of a driver's allocatable in CSINode that were tried, by what triggered them."
        failed = "Updates of a driver's allocatable in CSINode that failed."
        self._updates = counter("csi_node_updates", tried, "driver_name", "trigger")
        self._errors = counter("csi_node_update_errors", failed, "driver_name", "trigger")
        self._duration_s = Histogram(
            "csi_node_update_duration_seconds",
            "From the trigger to a CSINode that is up to date.",
            ("trigger",),
            buckets=_UPDATE_BUCKETS_S,
            registry=registry,
        )
        rejected = "Pods that were rejected after they were bound, by reason."
        self._rejections = counter("kubelet_admission_rejections", rejected, "reason")
        self._mismatched = Gauge(
            "tonnage_attach_limit_mismatch_nodes",
            "Nodes whose CSINode does not have the attach limit that the driver reported last: writing it failed.",
            ("driver_name",),
            registry=registry,
        )
        self._out_of_step: dict[str, set[str]] = {}
        self.queues = WorkQueueMetrics(registry)
        """For `Reconciler(metrics=…)`."""
        self.calls = kubelet_calls(registry)
        """Calls to drivers, under the kubelet's name."""

    def in_step(self, driver: str, node: str, is_so: bool) -> None:
        """Note whether a node's CSINode has its driver's last answer."""
        nodes = self._out_of_step.setdefault(driver, set())
        nodes.discard(node) if is_so else nodes.add(node)
        self._mismatched.labels(driver).set(len(nodes))

    def updated(self, driver: str, trigger: Trigger, seconds: float) -> None:
        self._updates.labels(driver, trigger).inc()
        self._duration_s.labels(trigger).observe(seconds)

    def failed(self, driver: str, trigger: Trigger) -> None:
        self._updates.labels(driver, trigger).inc()
        self._errors.labels(driver, trigger).inc()

    def rejected(self, reason: str) -> None:
        """Count a rejected pod. Extended resources share one label, as upstream, because their names have no limit."""
        is_of_others = reason.startswith(_OUT_OF) and reason.removeprefix(_OUT_OF) not in (*NATIVE, PODS)
        self._rejections.labels(f"{_OUT_OF}ExtendedResources" if is_of_others else reason).inc()
