"""Rows that are kept up to date are those that a model makes afresh from the same objects: nothing is missed.

Objects of few names come, change and go in any order, and what the scheduler and the driver tell with them. After each
step the rows are compared with those of a model that knows only the objects of this moment. A run is drawn from a seed:
objects are large, and what goes wrong takes many of them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from tonnage.dashboard import wire
from tonnage.dashboard.model.cluster_model import ClusterModel
from tonnage.dashboard.model.known_objects import Content, DriverContents
from tonnage.dashboard.wire import Collections
from tonnage.driver import DRIVER_NAME
from tonnage.driver.node_pools import PoolId
from tonnage.faults import Fault
from tonnage.objects.apps_v1 import ReplicaSet
from tonnage.objects.codec import convert
from tonnage.objects.core_v1.persistent_volume import REBUILD_TARGET
from tonnage.objects.meta import Object
from tonnage.scheduling.configuration.plugin_args import Reservation
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import (
    attachment,
    capacity,
    claim,
    csi_node,
    driver,
    pod_with,
    storage_class,
    volume,
)
from tonnage.whatif.scheduler_memory import AssumedPod, RememberedCapacity, SchedulerMemory

START = datetime(2026, 1, 1, tzinfo=UTC)
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
COLLECTIONS = ("nodes", "capacities", "volumes", "pods", "classes")
NODES, CLASSES, DRIVERS = ("a", "b", "c"), ("fast", "slow"), ("csi.example", DRIVER_NAME)


class Drawn:
    """What happens, drawn from a seed: each method draws one thing."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.any = self.rng.choice

    def maybe(self, *found: str) -> str:
        return self.any(("", *found))

    def instant(self) -> str:
        return (START + timedelta(seconds=self.any((0, 60, 400)))).strftime("%Y-%m-%dT%H:%M:%SZ")

    def node(self) -> Object:
        labels = {ZONE: self.any(("z1", "z2")), "disk": self.any(("x", "y"))}
        return node(self.any(NODES), labels=labels, unschedulable=self.any((False, True)))

    def claim(self) -> Object:
        target, selected = self.maybe("a", "b"), self.maybe("a", "b")
        name, named = self.any(("d1", "d2")), self.maybe("pv-1", "pv-2")
        return claim(
            name,
            class_name=self.any(CLASSES),
            volume=named,
            bound=bool(named) and self.any((True, True, False)),
            selected_node=selected,
            metadata={
                "annotations": {REBUILD_TARGET: target} if target else {},
                "uid": f"{name}-{self.any(('u1', 'u2'))}",
            },
        )

    def volume(self) -> Object:
        key, values = self.any(((HOST, NODES), ("disk", ("x", "y")), (ZONE, ("z1", "z2"))))
        affinity = {"key": key, "operator": "In", "values": self.rng.sample(values, self.any((1, 2)))}
        owner = self.maybe("default/d1", "default/d2")
        return volume(
            self.any(("pv-1", "pv-2", "pv-3")),
            class_name=self.any(CLASSES),
            affinity=self.any((None, affinity, affinity)),
            claim=owner,
            claim_uid=self.any(("", f"{owner[-2:]}-u1", f"{owner[-2:]}-u2")),
            driver=self.any(DRIVERS),
            handle=self.any(("h1", "h2", "h3")),
            metadata={"creationTimestamp": self.instant()},
        )

    def pod(self) -> Object:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "default-rs", "controller": True}
        return pod_with(
            self.any(("p1", "p2")),
            *self.rng.sample(("d1", "d2"), self.any((0, 1, 2))),
            on=self.maybe("a", "b"),
            metadata={"ownerReferences": self.any(([], [owner]))},
            status={"phase": self.any(("Pending", "Running", "Failed"))},
        )

    def capacity(self) -> Object:
        topologies: list[Any] = [{"matchLabels": {HOST: each}} for each in NODES]
        topologies += [{}, {"matchLabels": {ZONE: "z1"}}, None]
        topologies += [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["x"]}]}]
        topologies += [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]
        dated = {"managedFields": [{"time": self.instant()}]}
        metadata = self.any(({}, dated, dated, dated))
        name, told = self.any(("c1", "c2", "c3")), self.any(topologies)
        return capacity(self.any(CLASSES), name=name, free="10Gi", topology=told, metadata=metadata)

    def replica_set(self) -> Object:
        of = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "web", "controller": True}
        meta = {"name": "rs", "namespace": "default", "uid": "default-rs", "ownerReferences": self.any(([], [of]))}
        return convert(ReplicaSet, {"kind": "ReplicaSet", "metadata": meta})

    def storage_class(self) -> Object:
        return storage_class(self.any(CLASSES), provisioner=self.any(DRIVERS), group=self.maybe("g"))

    def driver(self) -> Object:
        return driver(self.any(DRIVERS), rebuilding=self.any((True, False)))

    def csi_node(self) -> Object:
        return csi_node(self.any(NODES), self.any(({}, {"csi.example": 2}, {DRIVER_NAME: None})))

    def attachment(self) -> Object:
        volume_name = self.any(("pv-1", "pv-2", "pv-3"))
        return attachment(self.any(("t1", "t2")), volume_name, self.any(NODES), error=self.maybe("full"))

    def object(self) -> Object:
        often = (self.node, self.claim, self.claim, self.volume, self.volume, self.pod, self.pod, self.capacity)
        seldom = (self.replica_set, self.storage_class, self.driver, self.csi_node, self.attachment)
        found: Object = self.any((*often, *seldom))()
        return found

    def memory(self) -> SchedulerMemory:
        held = [
            RememberedCapacity(
                self.any((Reservation.OBJECT, Reservation.LEDGER)),
                f"kube-system/{self.any(('c1', 'c2'))}",
                "uid",
                "default/p1",
                [f"default/{self.any(('d1', 'd2'))}"],
                1 << 30,
                START,
                "promised",
            )
            for _ in range(self.any((0, 1, 2)))
        ]
        pods = [AssumedPod(f"default/{name}", f"default-{name}", self.any(NODES)) for name in ("p1", "p2")]
        return SchedulerMemory(held=held, pods=pods[: self.any((0, 1, 2))])

    def contents(self) -> DriverContents:
        def place() -> PoolId:
            return PoolId(self.any(NODES), self.any((0, 1)))

        volumes = {
            handle: Content(place(), 1 << 30, self.maybe(name), self.any((None, place())))
            for handle, name in (("h1", "pvc-d1-u1"), ("h2", "pvc-d2-u2"))[: self.any((0, 1, 2))]
        }
        sizes = {"a": (4 << 30, 2 << 30), "b": (9 << 30,)}
        return DriverContents(DRIVER_NAME, sizes, volumes, {place(): 5}, {place(): 7} if self.any((0, 1)) else {})

    def faults(self) -> list[Fault]:
        return [Fault(self.any(("stale-figures", "dead")), self.maybe("a", "b"))] if self.any((0, 1)) else []


def step(model: ClusterModel, drawn: Drawn) -> tuple[str, object]:
    """Let one thing happen; gives it, to be told when the rows are wrong after it."""
    verb = drawn.any(("put",) * 8 + ("remove",) * 3 + ("remember", "look_into", "suffer"))
    known = list(model.objects)
    what: Any = None
    if verb == "put":
        what = drawn.object()
        model.put(what)
    elif verb == "remove":
        what = drawn.any(known) if known else drawn.object()
        model.remove(what)
    elif verb == "remember":
        what = drawn.memory()
        model.remember(what)
    elif verb == "look_into":
        what = drawn.contents()
        model.look_into(what)
    else:
        what = drawn.faults()
        model.suffer(what)
    return verb, what


def rows_of(model: ClusterModel) -> dict[str, dict[str, Any]]:
    return {name: dict(model.collections.of(wire.COLLECTIONS[name])) for name in COLLECTIONS}


def afresh(model: ClusterModel) -> dict[str, dict[str, Any]]:
    """The rows of a model that is told everything at once, in another order."""
    other = ClusterModel(Collections())
    other.remember(model.memory)
    other.suffer(model.book.faults)
    other.look_into(model.contents)
    for each in reversed(list(model.objects)):
        other.put(each)
    other.settle(model.now)
    return rows_of(other)


@settings(max_examples=tries(60), deadline=None)
@given(st.integers(0, 1 << 32))
def test_rows_kept_up_to_date_are_those_made_afresh(seed: int):
    drawn, model, now = Drawn(seed), ClusterModel(Collections()), START
    for _ in range(drawn.any((0, 20))):
        model.put(drawn.object())
    for _ in range(30):
        taken = step(model, drawn)
        now += timedelta(seconds=drawn.any((0, 0, 30, 200)))
        model.settle(now)
        assert rows_of(model) == afresh(model), taken
