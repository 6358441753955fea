"""How long calls to CSI drivers take and how they end, counted under upstream's names.

    calls = sidecar_calls(registry)                 # csi_sidecar_operations_seconds, as csi-lib-utils counts
    calls = kubelet_calls(registry)                 # csi_operations_seconds, as kubelet counts
    CsiClient(address, on_call=calls.of("pools.tonnage.dev"), ...)

Every try of a call counts, as it does upstream, where an interceptor of the connection does the counting. A program
makes one of these for its registry and asks it for one recorder a driver.
"""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Histogram

BUCKETS_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0)
"""Upstream's, of both metrics."""
UNKNOWN_DRIVER = "unknown-driver"
"""Upstream's word for a driver that has not told its name yet."""
_LABELS = ("driver_name", "method_name", "grpc_status_code")
_HELP = "Container Storage Interface operation duration with gRPC error code status total"


class DriverCalls:
    """Told of every call to one driver (it is an `OnCall`). Set `driver_name` once the driver has said it."""

    def __init__(self, durations: Histogram, driver_name: str, more: Mapping[str, str]) -> None:
        self.driver_name = driver_name
        self._durations = durations
        self._more = more

    def __call__(self, method: str, code: str, seconds: float) -> None:
        labels = {
            "driver_name": self.driver_name or UNKNOWN_DRIVER,
            "method_name": method,
            "grpc_status_code": code,
            **self._more,
        }
        self._durations.labels(**labels).observe(seconds)


class Calls:
    """One metric of a program, whatever number of drivers it talks to."""

    def __init__(self, name: str, registry: CollectorRegistry, more: Mapping[str, str] | None = None) -> None:
        self._more = more or {}
        labels = (*_LABELS, *self._more)
        self._durations = Histogram(name, _HELP, labelnames=labels, buckets=BUCKETS_S, registry=registry)

    def of(self, driver_name: str = "") -> DriverCalls:
        """The recorder for calls to this driver; without a name they count as `unknown-driver`'s until it has one."""
        return DriverCalls(self._durations, driver_name, self._more)


def sidecar_calls(registry: CollectorRegistry) -> Calls:
    """The metric of a sidecar: provisioner, attacher, resizer."""
    return Calls("csi_sidecar_operations_seconds", registry)


def kubelet_calls(registry: CollectorRegistry) -> Calls:
    """The metric of a node. None of our volumes comes from an in-tree plugin, which is what `migrated` tells."""
    return Calls("csi_operations_seconds", registry, {"migrated": "false"})
