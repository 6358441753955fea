"""A small cluster with a ledger, and claims at every stage of their way: what tests of the ledger start from."""

from __future__ import annotations

from datetime import datetime, timedelta

from support.scheduling_sight import promised
from support.virtual_clock import VirtualClock
from tonnage.clock import rfc3339
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.meta import Object
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.engine.profiles import add_indexes
from tonnage.scheduling.volumes.bind_volumes import asking_for
from tonnage.scheduling.volumes.reservations.ledger import Ledger
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class, volume

GI = 1 << 30
NODE_1 = "kube-system-fast-node-1"
NODE_2 = "kube-system-fast-node-2"
ZONE = "kube-system-fast-shared"


class LedgerRig:
    """Two nodes with room of one class each, a clock that is moved by hand, and everything that was told.

    `is_down`: the scheduler is not running yet; it starts when the ledger is first asked for, and reads what is there.
    """

    def __init__(self, *, is_empty: bool = False, is_down: bool = False) -> None:
        self.clock = VirtualClock()
        self.cluster = Cluster(self.clock)
        self.storage = self.cluster.storage
        self.changed: list[str] = []
        self.released: list[str] = []
        if not is_empty:
            self.put(storage_class(), driver())
            for name in ("node-1", "node-2"):
                self.cluster.put_node(node(name, labels={"zone": "z"}))
                self.put(capacity("fast", name, "100Gi"))
        self._ledger: Ledger | None = None
        if not is_down:
            self.ledger.catch_up()

    @property
    def ledger(self) -> Ledger:
        if self._ledger is None:
            self._ledger = add_indexes(self.cluster).index(Ledger)
            self._ledger.on_change.append(self.changed.append)
            self._ledger.on_released.append(lambda each: self.released.append(each.uid))
        return self._ledger

    def put(self, *objects: Object) -> None:
        for each in objects:
            self.storage.put(each)

    def server_shows(self, skew_s: float = 0.0) -> None:
        """Something is read that the server wrote just now, by its clock."""
        now = rfc3339(self.clock.now() + timedelta(seconds=skew_s))
        stamps = {"creationTimestamp": now, "managedFields": [{"time": now}]}
        self.put(claim("written-just-now", metadata=stamps))

    def refresh(self, node_name: str = "node-1", free: str = "80Gi") -> None:
        self.put(capacity("fast", node_name, free))

    def pod(self, name: str, *claims: str, size: str = "20Gi") -> PodInfo:
        for each in claims:
            if self.storage.claims.get(f"default/{each}") is None:
                self.put(claim(each, size))
        return PodInfo(pod_with(name, *claims))

    def reserve(self, pod: PodInfo, node_name: str = "node-1", of: CSIStorageCapacity | None = None) -> None:
        """Reserve as the plugin does: the claims are assumed on their node, then charged as they were planned."""
        planned = [self.claim(key) for key in pod.claim_keys]
        self.ledger.awaited = [each.key for each in planned]
        for each in planned:
            self.storage.claims.assume(asking_for(each, node_name))
        self.ledger.awaited = ()
        self.ledger.reserve(of or self.storage.capacities[f"kube-system/fast-{node_name}"], pod, planned)

    def claim(self, key: str) -> PersistentVolumeClaim:
        found = self.storage.claims.get(key)
        assert found is not None
        return found

    def gibs(self, uid: str = NODE_1) -> list[int]:
        self.ledger.catch_up()
        return [size // GI for size in promised(self.ledger, uid)]

    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.ledger.expire(self.clock.monotonic())


def written(
    name: str, size: str = "20Gi", node_name: str = "node-1", at: datetime | None = None
) -> PersistentVolumeClaim:
    """A claim as it is in the API once PreBind has written it; `at` that time, by the server's clock."""
    metadata = {"managedFields": [{"time": rfc3339(at)}]} if at is not None else None
    return claim(name, size, selected_node=node_name, metadata=metadata)


def bound(
    name: str, size: str = "20Gi", node_name: str = "node-1", at: datetime | None = None
) -> PersistentVolumeClaim:
    """A claim that is bound; `at` that time, by the server's clock."""
    metadata = {"managedFields": [{"time": rfc3339(at)}]} if at is not None else None
    return claim(name, size, volume=f"pv-{name}", selected_node=node_name, metadata=metadata)


def marked(name: str, node_name: str, size: str = "20Gi") -> PersistentVolumeClaim:
    """A bound claim whose volume is to be rebuilt on a node, as PreBind writes it."""
    return asking_for(bound(name, size, "another"), node_name)


def made(name: str, rig: LedgerRig, age_s: float, on: str | None = "node-1") -> PersistentVolume:
    """The volume of a claim, created so long ago, as the server's clock tells: it is the same as ours."""
    rig.server_shows()
    created_at = rfc3339(rig.clock.now() - timedelta(seconds=age_s))
    return volume(f"pv-{name}", "20Gi", on=on, claim=f"default/{name}", metadata={"creationTimestamp": created_at})
