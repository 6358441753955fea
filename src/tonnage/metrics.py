"""Metrics in Prometheus' text form, under upstream's names.

A program makes one `CollectorRegistry` of its own and hands it to its parts, so that two servers in one process do not
count into each other. Names and buckets follow Kubernetes: dashboards and alerts written for it work.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from tonnage.gates import Gates, GateStage

REQUEST_BUCKETS_S = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
)  # fmt: skip
"""Upstream's buckets of apiserver_request_duration_seconds."""


def new_registry() -> CollectorRegistry:
    """A registry that also tells about this process: memory, CPU, open files, garbage collection."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def show_gates(registry: CollectorRegistry, gates: Gates) -> None:
    """Show which feature gates are on, as every Kubernetes program does."""
    enabled = Gauge(
        "kubernetes_feature_enabled",
        "Feature gates by name and stage: 1 for those that are on.",
        ("name", "stage"),
        registry=registry,
    )
    for name, gate in Gates.table().items():
        enabled.labels(name, gate.stage.value if gate.stage is not GateStage.GA else "").set(getattr(gates, name))


def exposition(registry: CollectorRegistry) -> tuple[bytes, str]:
    """The body and content type of a /metrics answer."""
    return generate_latest(registry), CONTENT_TYPE_PLAIN_0_0_4
