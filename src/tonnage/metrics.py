"""Metrics in Prometheus' text form, under upstream's names.

A program makes one `CollectorRegistry` of its own and hands it to its parts, so that two servers in one process do not
count into each other. Names and buckets follow Kubernetes: dashboards and alerts written for it work.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

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


def exposition(registry: CollectorRegistry) -> tuple[bytes, str]:
    """The body and content type of a /metrics answer."""
    return generate_latest(registry), CONTENT_TYPE_PLAIN_0_0_4
