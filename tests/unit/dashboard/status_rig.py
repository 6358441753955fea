"""A cluster whose troubles are looked for, on virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from support.filled_cluster import FilledCluster
from support.virtual_clock import VirtualClock
from tonnage.dashboard.status.keeper import StatusKeeper
from tonnage.dashboard.status.sight import Trouble
from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import Event, Node
from tonnage.objects.small_groups import Lease
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import DRIVER, capacity, csi_node, driver, storage_class

NIGHT = datetime(2026, 1, 2, 3, tzinfo=UTC)


def ago(seconds: float) -> str:
    return (NIGHT - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


class LeasedCluster(FilledCluster):
    held: Sequence[Lease] | None = None
    hidden: dict[str, str] = {}  # noqa: RUF012 - a test sets its own

    async def leases(self) -> Sequence[Lease] | None:
        return self.held

    def unread(self) -> dict[str, str]:
        return self.hidden


class StatusRig:
    """Nodes a and b with room for the class fast: nothing is wrong until a test says so."""

    def __init__(self, *names: str) -> None:
        self.clock = VirtualClock(NIGHT)
        self.cluster = LeasedCluster(clock=self.clock)
        self.keeper = StatusKeeper(self.cluster)
        self.put(driver(), storage_class())
        for name in names or ("a", "b"):
            self.put(node(name), csi_node(name, {DRIVER: 4}), capacity(node=name, free="100Gi"))

    def put(self, *objects: Any) -> None:
        self.cluster.put(*objects)

    def heard(self, event: Event) -> None:
        self.cluster.model.heard(event)
        self.cluster.settle()

    async def look(self, after_s: float = 0.0) -> list[Trouble]:
        self.clock.advance(after_s)
        self.cluster.settle()
        await self.keeper.look()
        return self.keeper.found

    async def one(self, kind: str) -> Trouble:
        """The only trouble there is, which is of this kind."""
        (found,) = await self.look()
        assert found.kind == kind, found
        return found


def not_ready(name: str, since_s: float = 600, message: str = "Kubelet stopped posting node status.") -> Node:
    doc = {
        "kind": "Node",
        "metadata": {"name": name, "uid": f"node-{name}", "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "conditions": [
                {"type": "Ready", "status": "Unknown", "message": message, "lastTransitionTime": ago(since_s)}
            ]
        },
    }
    return convert(Node, doc)


def provisioning_failed(claim: str, message: str, since_s: float = 90, *, count: int = 1, name: str = "e1") -> Event:
    namespace, _, claim_name = claim.partition("/")
    about = {
        "kind": "PersistentVolumeClaim",
        "namespace": namespace,
        "name": claim_name,
        "uid": f"{namespace}-{claim_name}",
    }
    doc = {
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace, "uid": name},
        "involvedObject": about,
        "reason": "ProvisioningFailed",
        "message": message,
        "count": count,
        "firstTimestamp": ago(since_s),
        "lastTimestamp": ago(0),
    }
    return convert(Event, doc)


def lease(name: str, renewed_s: float, *, holder: str = "host_1", namespace: str = "kube-system") -> Lease:
    at = (NIGHT - timedelta(seconds=renewed_s)).strftime("%Y-%m-%dT%H:%M:%S.000000Z")
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": at}
    return convert(Lease, {"kind": "Lease", "metadata": {"name": name, "namespace": namespace}, "spec": spec})
