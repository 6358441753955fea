"""Durations and results of calls to CSI drivers, under upstream's names. Every try counts."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Histogram

BUCKETS_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0)
"""Upstream's buckets of both metrics."""
UNKNOWN_DRIVER = "unknown-driver"
"""Upstream's label of a driver whose name is not known yet."""
_LABELS = ("driver_name", "method_name", "grpc_status_code")
_HELP = "Container Storage Interface operation duration with gRPC error code status total"


class Calls:
    """One metric for all drivers that a program calls; it is an `OnCall`."""

    def __init__(self, name: str, registry: CollectorRegistry, more: Mapping[str, str] | None = None) -> None:
        self._more = more or {}
        labels = (*_LABELS, *self._more)
        self._durations = Histogram(name, _HELP, labelnames=labels, buckets=BUCKETS_S, registry=registry)

    def __call__(self, driver_name: str, method: str, code: str, seconds: float) -> None:
        labels = {
            "driver_name": driver_name or UNKNOWN_DRIVER,
            "method_name": method,
            "grpc_status_code": code,
            **self._more,
        }
        self._durations.labels(**labels).observe(seconds)


def sidecar_calls(registry: CollectorRegistry) -> Calls:
    return Calls("csi_sidecar_operations_seconds", registry)


def kubelet_calls(registry: CollectorRegistry) -> Calls:
    """The kubelet's metric. `migrated` is false: no volume of ours comes from an in-tree plugin."""
    return Calls("csi_operations_seconds", registry, {"migrated": "false"})
