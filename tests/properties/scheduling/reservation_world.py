"""Everything that can happen to claims, volumes, objects and nodes, as rules of a state machine.

Those who watch are told after every step: `test_ledger_properties.py` and `test_reservation_properties.py`. The
server's clock, which stamps objects, may be minutes ahead of the scheduler's, or behind it.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from support.virtual_clock import VirtualClock
from tonnage.clock import rfc3339
from tonnage.objects.core_v1 import PersistentVolumeClaim
from tonnage.quantity import Quantity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.volumes.bind_volumes import asking_for
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, driver, storage_class, volume

TIMEOUT_S = 60
CLASS_OF = {"a": "fast", "b": "fast", "c": "slow"}
TOPOLOGIES = {
    "nowhere": None,
    "everywhere": {},
    "n1": {"matchLabels": {"kubernetes.io/hostname": "n1"}},
    "n2": {"matchLabels": {"kubernetes.io/hostname": "n2"}},
    "z1": {"matchLabels": {"zone": "z1"}},
}

figures = st.sampled_from(["9Gi", "8Gi", "7Gi", "5Gi"])
claim_names = st.sampled_from(sorted(CLASS_OF))
node_names = st.sampled_from(["n1", "n1", "n1", "n2"])
object_names = st.sampled_from(["o1", "o1", "o2", "o3"])
pod_names = st.sampled_from(["p1", "p2"])
generations = st.sampled_from(["", "", "", "second"])  # mostly the same object, now and then another of its name
ages_s = st.sampled_from([0, 20, 70, None])
seldom = st.sampled_from([False] * 7 + [True])  # for what would undo most of what went before


class ReservationMachine(RuleBasedStateMachine):
    """Everything that can happen to claims, volumes, objects and nodes; those who watch are told by `happened`."""

    nodes_go = True

    def happened(self) -> None:
        """One event is over."""

    def nodes_happened(self) -> None:
        """An event of a node is over. Nodes do not tell the ledger."""
        self.happened()

    @initialize(skew_s=st.sampled_from([0, 0, 600, -600]))
    def begin(self, skew_s: int) -> None:
        self.skew_s = skew_s
        self.clock = VirtualClock()
        self.clock.advance(1000)
        self.cluster = Cluster(self.clock)
        self.storage = self.cluster.storage
        self.storage.put(driver())
        self.storage.put(storage_class("fast"))
        self.storage.put(storage_class("slow"))
        for name in ("n1", "n2"):
            self.cluster.put_node(node(name, labels={"zone": "z1"}))
        self.storage.put(capacity("fast", name="o1", topology=TOPOLOGIES["n1"], free="9Gi"))
        self.storage.put(capacity("fast", name="o2", topology=TOPOLOGIES["z1"], free="9Gi"))
        for name in CLASS_OF:
            self.storage.put(claim(name, class_name=CLASS_OF[name], metadata={"uid": name}))
        self.watch()

    def stamp(self, age_s: int = 0) -> str:
        """What the server's clock shows, or showed so long ago."""
        return rfc3339(self.clock.now() + timedelta(seconds=self.skew_s - age_s))

    def watch(self) -> None:
        """Begin to look at the cluster."""

    def decide(self) -> None:
        """Somebody asks what is held."""

    @rule(name=claim_names, on=st.sampled_from(["n1", "n2", "n1", ""]), size=st.sampled_from(["1Gi", "2Gi", None]))
    def write_claim(self, name: str, on: str, size: str | None) -> None:
        """Somebody writes a claim's selected-node, or removes it. A claim that is bound stays bound."""
        now = self.storage.claims.get(f"default/{name}")
        made = now.spec.volume_name if now is not None else ""
        self._put_claim(name, size, made, on, now.uid if now is not None else name)

    @rule(
        name=claim_names, on=node_names, of=object_names, by=pod_names, steps=st.sampled_from([1, 2, 3]), free=figures
    )
    def go_on(self, name: str, on: str, of: str, by: str, steps: int, free: str) -> None:
        """A claim comes further in its usual life: reserved, bound where it was sent, shown by the objects."""
        for _ in range(steps):
            now = self.storage.claims.get(f"default/{name}")
            if now is None or not now.selected_node:
                self.take([name], on, of, by)
            elif not now.is_bound:
                size = str(now.requested) if now.requested is not None else None
                self._put_claim(name, size, f"pv-{name}", now.selected_node, now.uid)
            else:
                for each in ("o1", "o2", "o3"):
                    self._refresh(each, free)
                self.decide()

    @rule(name=claim_names, how=st.sampled_from(["restore", "anew", "anew", "anew", "anew bound", "unbind", "remove"]))
    def undo_claim(self, name: str, how: str) -> None:
        now = self.storage.claims.get(f"default/{name}")
        if how == "restore":
            self.storage.claims.restore(f"default/{name}")
            self.happened()
        elif how == "remove" or now is None:
            self.storage.claims.remove(f"default/{name}")
            self.happened()
        elif how == "unbind":
            self._put_claim(name, "1Gi", "", now.selected_node, now.uid)
        elif how == "anew":
            self._put_claim(name, "1Gi", "", "", f"{now.uid}'")
        else:
            self._put_claim(name, "1Gi", f"pv-{name}", "n1", f"{now.uid}'")

    def _put_claim(self, name: str, size: str | None, made: str, on: str, uid: str) -> None:
        metadata = {"uid": uid, "managedFields": [{"time": self.stamp()}]}
        self.storage.put(claim(name, size, class_name=CLASS_OF[name], volume=made, selected_node=on, metadata=metadata))
        self.happened()

    @rule(name=claim_names, age_s=ages_s, on=st.sampled_from([None, "n1", "n2", "gone"]))
    def put_or_remove_volume(self, name: str, age_s: int | None, on: str | None) -> None:
        created = {} if age_s is None else {"creationTimestamp": self.stamp(age_s)}
        if on == "gone":
            self.storage.volumes.remove(f"pv-{name}")
        else:
            now = self.storage.claims.get(f"default/{name}")
            uid = now.uid if now is not None else name
            size = "2Gi" if age_s == 20 else "1Gi"
            self.storage.put(
                volume(f"pv-{name}", size, on=on, claim=f"default/{name}", claim_uid=uid, metadata=created)
            )
        self.happened()

    @rule(
        name=object_names,
        class_name=st.sampled_from(["fast", "fast", "slow"]),
        where=st.sampled_from(["n1", "n1", "n2", "z1", "everywhere", "nowhere"]),
        again=generations,
        is_dated=st.booleans(),
        is_wanted=seldom,
    )
    def put_object(self, name: str, class_name: str, where: str, again: str, is_dated: bool, is_wanted: bool) -> None:
        if not is_wanted and f"kube-system/{name}" in self.storage.capacities:
            return
        metadata = {"uid": f"{name}{again}"} | ({"creationTimestamp": self.stamp()} if is_dated else {})
        self.storage.put(capacity(class_name, name=name, topology=TOPOLOGIES[where], free="9Gi", metadata=metadata))
        self.happened()

    @rule(name=object_names, how=st.sampled_from(["refresh"] * 6 + ["repeat", "remove"]), free=figures)
    def refresh_object(self, name: str, how: str, free: str) -> None:
        old = self.storage.capacities.get(f"kube-system/{name}")
        if old is None:
            return
        if how == "remove":
            self.storage.remove(old)
        elif how == "repeat":
            self.storage.put(old)
        else:
            self._refresh(name, free)
            return
        self.happened()

    def _refresh(self, name: str, free: str) -> None:
        old = self.storage.capacities.get(f"kube-system/{name}")
        if old is not None:
            version = capacity("fast").metadata.resource_version
            newer = msgspec.structs.replace(old.metadata, resource_version=version)
            self.storage.put(msgspec.structs.replace(old, metadata=newer, capacity=Quantity.parse(free)))
            self.happened()

    @rule(name=node_names, zone=st.sampled_from(["z1", "z1", "z1", "z2", "gone"]))
    def put_or_remove_node(self, name: str, zone: str) -> None:
        if zone == "gone" and self.nodes_go:
            self.cluster.remove_node(name)
        else:
            self.cluster.put_node(node(name, labels={"zone": "z1" if zone == "gone" else zone}))
        self.nodes_happened()

    @rule(seconds=st.sampled_from([1, 5, 15, 60]))
    def advance(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule(
        names=st.lists(claim_names, min_size=1, max_size=3, unique=True), on=node_names, of=object_names, by=pod_names
    )
    def reserve(self, names: list[str], on: str, of: str, by: str) -> None:
        self.take(names, on, of, by)

    def take(self, names: list[str], on: str, of: str, by: str) -> None:
        """Reserve an object for claims, on a node."""

    def assumed(self, names: list[str], on: str) -> list[PersistentVolumeClaim]:
        """Send those of the claims that are there to a node; as they were planned with."""
        found = [self.storage.claims.get(f"default/{name}") for name in names]
        planned = [each for each in found if each is not None]
        for each in planned:
            self.storage.claims.assume(asking_for(each, on))
            self.happened()
        return planned
