"""Pods that are not woken would have failed: whatever happens, nobody waits whom a node would take.

An engine is driven through random events as the live scheduler drives it, and every pod that waits afterwards is asked
about anew (`explain`, which no queue stands before). Time does not pass, so that no flush can make up for a pod that
was forgotten. Pods come in few kinds and many copies, some alike but for a label or a claim, because what is shown is
that pods which are taken for alike are alike.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec
import pytest

from support.configurations import storage_configuration
from support.informed_engine import InformedEngine
from support.virtual_clock import VirtualClock
from tonnage.objects.core_v1 import Node, PersistentVolumeClaim, Pod
from tonnage.objects.storage_v1 import StorageClass
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.engine.attempt import Placement
from tonnage.scheduling.engine.engine import Engine
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import (
    DRIVER,
    attachment,
    capacity,
    claim,
    csi_node,
    driver,
    pod_with,
    storage_class,
    volume,
)

ZONE = "topology.kubernetes.io/zone"
NODES = ("a", "b", "c", "d")
SLOW = "csi.slow"


def _term(app: str) -> list[dict[str, Any]]:
    return [{"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": ZONE}]


def _affinity(kind: str, app: str) -> dict[str, Any]:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": _term(app)}}}


def _spread(app: str) -> dict[str, Any]:
    selector = {"matchLabels": {"app": app}}
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"topologySpreadConstraints": [constraint]}


class WokenEngine(InformedEngine):
    """A small cluster, and what may happen in it."""

    def __init__(self, seed: int, reservation: str, *, binds_later: bool = False) -> None:
        super().__init__()
        self.binds_later = binds_later
        self.rng = random.Random(seed)
        self.clock = VirtualClock()
        profiles = parse(storage_configuration(reservation=reservation), source="a test").profiles
        self.engine = Engine(profiles, clock=self.clock, rng=random.Random(seed))
        self.attempts = 0
        self._numbers = count()
        self._on_their_way: list[tuple[Pod, Placement]] = []
        """Placed, and not bound yet: nothing tells of them."""
        self.put(storage_class(), driver(), storage_class("late"))
        self.put(storage_class("slow", provisioner=SLOW), driver(SLOW, capacity=False))
        self.put(storage_class("zonal", provisioner=SLOW, topologies=[{ZONE: ["x"]}, {"rack": ["1"]}]))
        for name in NODES[:3]:
            self.node_comes(name)
        self.engine.open()

    # -- objects ------------------------------------------------------------------------------------------------------

    def of(self, kind: type[Any]) -> list[Any]:
        return [each for (found, _), each in self.objects.items() if found is kind]

    # -- what may happen ----------------------------------------------------------------------------------------------

    def node_comes(self, name: str) -> None:
        rng = self.rng
        taints = ["dedicated=db:NoSchedule"] if rng.random() < 0.2 else []
        labels = {ZONE: rng.choice("xy"), "disk": rng.choice(("ssd", "hdd"))}
        cpu = rng.choice(("1", "2", "3"))
        self.put(node(name, cpu=cpu, pods=rng.choice((3, 8)), labels=labels, taints=taints))
        self.put(csi_node(name, {DRIVER: rng.choice((1, 2, 4)), SLOW: rng.choice((0, 1, 3, None))}))
        self.put(capacity("fast", name, f"{rng.choice((10, 40))}Gi"))

    def node_changes(self) -> None:
        self.node_comes(self.rng.choice(NODES))

    def node_goes(self) -> None:
        """A node goes, and after it the pods that were there."""
        found = self.of(Node)
        if len(found) > 1:
            name = self.rng.choice(found).name
            self.remove(Node, name)
            for each in self.of(Pod):
                if each.spec.node_name == name:
                    self.remove(Pod, each.key)

    def node_is_cordoned(self) -> None:
        if found := self.of(Node):
            before = self.rng.choice(found)
            spec = msgspec.structs.replace(before.spec, unschedulable=not before.spec.unschedulable)
            self.put(msgspec.structs.replace(before, spec=spec))

    def node_is_labelled(self) -> None:
        """By labels that capacity objects, volumes, classes or pods ask for, and by some that nobody does."""
        if found := self.of(Node):
            rng, before = self.rng, self.rng.choice(found)
            wanted = {ZONE: "xy", "disk": ("ssd", "hdd"), "rack": "12", "shelf": "12", "turn": "123"}
            key = rng.choice(sorted(wanted))
            labels = {name: value for name, value in before.metadata.labels.items() if name != key}
            if rng.random() < 0.7:
                labels[key] = rng.choice(wanted[key])
            self.put(msgspec.structs.replace(before, metadata=msgspec.structs.replace(before.metadata, labels=labels)))

    def room_of_a_shelf_changes(self) -> None:
        number = self.rng.choice("12")
        shelf = {"matchExpressions": [{"key": "shelf", "operator": "In", "values": [number]}]}
        self.put(capacity("late", free=f"{self.rng.choice((5, 40))}Gi", name=f"of-shelf-{number}", topology=shelf))

    def pods_come(self) -> None:
        rng = self.rng
        kind = rng.randrange(9)
        size = rng.choice(("5Gi", "20Gi"))
        more: Any = {"priority": rng.choice((0, 0, 0, 5))}
        cpu = rng.choice(("300m", "700m", "900m"))
        for _ in range(rng.randint(1, 4)):
            name = f"p{next(self._numbers):03}"
            app = {"app": rng.choice(("web", "db"))}
            match kind:
                case 0:
                    self.put(pod(name, cpu=cpu, labels=app, **more))
                case 1:
                    self.put(pod(name, cpu=cpu, node_selector={"disk": "ssd"}, **more))
                case 2:
                    self.put(pod(name, host_ports=[80], labels=app, **more))
                case 3:
                    self.put(pod(name, labels=app, spec=_affinity("podAffinity", "db"), **more))
                case 4:
                    self.put(pod(name, labels=app, spec=_affinity("podAntiAffinity", "web"), **more))
                case 5:
                    self.put(pod(name, labels={"app": "web"}, spec=_spread("web"), **more))
                case 6:
                    self.put(claim(f"{name}-0", size), pod_with(name, f"{name}-0", cpu=cpu, **more))
                case 7:
                    self.put(claim(f"{name}-0", size, class_name=rng.choice(("late", "gone", "fast"))))
                    self.put(pod_with(name, f"{name}-0", labels=app, **more))
                case _:  # its claim comes later, or is another pod's too
                    self.put(pod_with(name, rng.choice((f"{name}-0", "shared")), cpu=cpu, **more))

    def unlike_pods_come(self) -> None:
        """Each asks for something else than all others, so that each is a class by itself."""
        rng = self.rng
        for _ in range(rng.randint(2, 6)):
            name = f"u{next(self._numbers):03}"
            more: Any = {"priority": rng.choice((0, 0, 0, 5)), "cpu": f"{rng.randint(100, 3500)}m"}
            if rng.random() < 0.3:
                more["node_selector"] = {"disk": rng.choice(("ssd", "hdd", "nvme"))}
            if rng.random() < 0.2:
                more["memory"] = f"{rng.randint(1, 9)}Gi"
            match rng.randrange(5):
                case 0:
                    self.put(pod(name, **more))
                case 1:
                    apps = rng.choice(("web", "db", "other", "nobody"))
                    self.put(pod(name, labels={"app": apps}, spec=_affinity("podAffinity", apps), **more))
                case 2:
                    names = [f"{name}-{i}" for i in range(rng.randint(1, 3))]
                    for each in names:
                        kinds = ("fast", "fast", "late", "gone", "slow", "slow", "zonal")
                        kind, size = rng.choice(kinds), f"{rng.randint(1, 45)}Gi"
                        self.put(claim(each, size, class_name=kind))
                    self.put(pod_with(name, *names, **more))
                case 3:  # a claim that many mount, beside one of its own
                    shared, own = f"shared-{rng.randrange(4)}", f"{name}-0"
                    self.put(claim(own, "1Gi", class_name="slow"))
                    if (PersistentVolumeClaim, f"default/{shared}") not in self.objects:
                        self.put(claim(shared, "1Gi", class_name="slow", modes=["ReadWriteMany"]))
                    self.put(pod_with(name, *rng.choice(((shared,), (shared, own))), cpu="100m"))
                case _:  # the class stands in an annotation: claims whose specs are equal ask for different ones
                    annotated = {"volume.beta.kubernetes.io/storage-class": rng.choice(("fast", "gone"))}
                    self.put(claim(f"{name}-0", "5Gi", class_name=None, metadata={"annotations": annotated}))
                    self.put(pod_with(name, f"{name}-0", priority=0))

    def pods_with_volumes_come(self) -> None:
        """That lack slots, or labels of nodes, and nothing else; some share a claim."""
        rng = self.rng
        for _ in range(rng.randint(1, 3)):
            name, names = f"v{next(self._numbers):03}", []
            for number in range(rng.randint(1, 3)):
                names.append(rng.choice((f"{name}-{number}", f"{name}-{number}", f"common-{rng.randrange(3)}")))
                if (PersistentVolumeClaim, f"default/{names[-1]}") not in self.objects:
                    kind = rng.choice(("slow", "slow", "zonal", "late"))
                    self.put(claim(names[-1], "1Gi", class_name=kind, modes=["ReadWriteMany"]))
            self.put(pod_with(name, *dict.fromkeys(names), cpu="10m"))

    def pod_goes(self) -> None:
        if found := self.of(Pod):
            self.remove(Pod, self.rng.choice(found).key)

    def pod_is_labelled(self) -> None:
        if found := self.of(Pod):
            before = self.rng.choice(found)
            labels = {"app": self.rng.choice(("web", "db", "other"))}
            self.put(msgspec.structs.replace(before, metadata=msgspec.structs.replace(before.metadata, labels=labels)))

    def capacity_changes(self) -> None:
        name, rng = self.rng.choice(NODES), self.rng
        self.put(capacity(rng.choice(("fast", "fast", "late")), name, f"{rng.choice((0, 5, 20, 40))}Gi"))

    def limits_change(self) -> None:
        limits = {DRIVER: self.rng.choice((0, 1, 2, 4)), SLOW: self.rng.choice((0, 1, 3, None))}
        self.put(csi_node(self.rng.choice(NODES), limits))

    def claim_comes(self) -> None:
        missing = [
            name
            for each in self.of(Pod)
            for name in each.claim_names()
            if (PersistentVolumeClaim, f"default/{name}") not in self.objects
        ]
        if missing:
            self.put(claim(self.rng.choice(missing), self.rng.choice(("5Gi", "20Gi"))))

    def volume_is_kept_for_a_claim(self) -> None:
        loose = [each for each in self.of(PersistentVolumeClaim) if not each.spec.volume_name]
        if loose:
            found, on = self.rng.choice(loose), self.rng.choice(NODES)
            self.put(volume(f"pv-{found.name}", "20Gi", on=on, claim=found.key, claim_uid="", phase="Available"))

    def free_volume_comes(self) -> None:
        self.put(volume(f"free-{next(self._numbers)}", "20Gi", on=self.rng.choice(NODES), phase="Available"))

    def claim_is_bound(self) -> None:
        loose = [each for each in self.of(PersistentVolumeClaim) if not each.spec.volume_name]
        if loose:
            self.bind_claim(self.rng.choice(loose), self.rng.choice(NODES))

    def bind_claim(self, found: PersistentVolumeClaim, on: str) -> None:
        size = str(found.spec.resources.requests["storage"])
        of_class = self.objects.get((StorageClass, found.class_name))
        made_by = DRIVER if of_class is None else of_class.provisioner
        self.put(volume(f"pv-{found.name}", size, class_name=found.class_name, on=on, claim=found.key, driver=made_by))
        self.put(claim(found.name, size, class_name=found.class_name, volume=f"pv-{found.name}", selected_node=on))

    def zonal_volume_comes(self) -> None:
        affinity = {"key": ZONE, "operator": "In", "values": ["y"]}
        name, kind = f"free-{next(self._numbers)}", self.rng.choice(("fast", "late"))
        self.put(volume(name, "30Gi", affinity=affinity, class_name=kind, phase="Available"))

    def class_comes(self) -> None:
        self.put(storage_class("gone"))

    def class_is_exchanged(self) -> None:
        """It goes, and comes back later, as another driver's perhaps."""
        name = "slow"
        if (StorageClass, name) in self.objects:
            self.remove(StorageClass, name)
        else:
            self.put(storage_class(name, provisioner=self.rng.choice((SLOW, DRIVER))))

    def detached(self) -> None:
        name = f"va-{next(self._numbers)}"
        self.put(attachment(name, "pv-old", self.rng.choice(NODES)))
        self.engine.delete(self.objects.pop((type(attachment(name, "x", "a")), name)))

    # -- trying -------------------------------------------------------------------------------------------------------

    def try_all(self) -> None:
        while (queued := self.engine.pop()) is not None:
            self.attempts += 1
            attempt = self.engine.attempt(queued)
            if attempt.placement is not None:
                self.engine.done(queued.pod)
                if self.binds_later and self.rng.random() < 0.5:
                    self._on_their_way.append((queued.pod, attempt.placement))
                else:
                    self._bind(queued.pod, attempt.placement)
                continue
            assert attempt.decision is not None and attempt.decision.diagnosis is not None
            self.engine.post_filter(attempt)
            self.engine.requeue(queued, queued.pod, plugins=attempt.decision.diagnosis.rejecting_plugins())

    def bindings_end(self) -> None:
        while self._on_their_way:
            self._bind(*self._on_their_way.pop())

    def _bind(self, found: Pod, placement: Placement) -> None:
        if (Pod, found.key) in self.objects:  # else it was deleted on its way
            self._place(self.objects[Pod, found.key], placement.node)
        self.engine.binding_finished(placement)

    def _place(self, found: Pod, where: str) -> None:
        for name in found.claim_names():
            before = self.objects[PersistentVolumeClaim, f"default/{name}"]
            if not before.spec.volume_name:
                self.bind_claim(before, where)
        self.put(msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, node_name=where)))

    def stranded(self) -> list[str]:
        """Waiting pods that would find a node if they were tried now."""
        on_their_way = {found.key for found, _ in self._on_their_way}
        waiting = [each for each in self.of(Pod) if not each.spec.node_name and each.key not in on_their_way]
        return [each.name for each in waiting if self.engine.explain(each).schedulable]


EVENTS: dict[str, Callable[[WokenEngine], None]] = {
    name: getattr(WokenEngine, name)
    for name in (
        "node_changes",
        "node_goes",
        "node_is_cordoned",
        "node_is_labelled",
        "room_of_a_shelf_changes",
        "pods_come",
        "pod_goes",
        "pod_is_labelled",
        "capacity_changes",
        "limits_change",
        "claim_comes",
        "volume_is_kept_for_a_claim",
        "free_volume_comes",
        "zonal_volume_comes",
        "claim_is_bound",
        "class_comes",
        "class_is_exchanged",
        "bindings_end",
        "detached",
    )
}
UNLIKE = ("unlike_pods_come", "unlike_pods_come", "unlike_pods_come", "pod_goes", "pod_goes", "pod_goes")
OFTEN = ("pods_come", "pods_come", "pods_come", "pod_goes", "pod_goes", "capacity_changes")


VOLUMES = (
    "pods_with_volumes_come",
    "pods_with_volumes_come",
    "pod_goes",
    "pod_goes",
    "node_is_labelled",
    "limits_change",
    "room_of_a_shelf_changes",
    "zonal_volume_comes",
    "class_is_exchanged",
    "bindings_end",
)


def play(seed: int, reservation: str, steps: int, often: tuple[str, ...] = OFTEN) -> WokenEngine:
    return play_in(WokenEngine(seed, reservation), seed, steps, (*EVENTS, *often))


def play_in(world: WokenEngine, seed: int, steps: int, events: tuple[str, ...]) -> WokenEngine:
    rng = random.Random(seed)
    told: list[str] = []
    for _ in range(steps):
        # Sometimes several things happen before anybody is tried.
        for _ in range(rng.choice((1, 1, 1, 3))):
            told.append(rng.choice(events))
            getattr(world, told[-1])()
        world.try_all()
        assert world.stranded() == [], told
    return world


@pytest.mark.parametrize("reservation", ["Object", "Ledger", "None"])
@pytest.mark.parametrize("seed", range(4))
def test_nobody_waits_whom_a_node_would_take(seed: int, reservation: str) -> None:
    play(seed, reservation, 40)


@pytest.mark.parametrize("reservation", ["Object", "Ledger", "None"])
@pytest.mark.parametrize("seed", range(2))
def test_nobody_waits_among_pods_that_are_all_different(seed: int, reservation: str) -> None:
    play(seed, reservation, 30, UNLIKE)


@pytest.mark.parametrize("binds_later", [False, True])
@pytest.mark.parametrize("seed", (*range(6), 17, 24))
def test_nobody_waits_for_a_slot_or_a_label_that_is_there(seed: int, binds_later: bool) -> None:
    world = WokenEngine(seed, ("Object", "Ledger", "None")[seed % 3], binds_later=binds_later)
    play_in(world, seed, 40, VOLUMES)


@pytest.mark.parametrize("reservation", ["Object", "Ledger", "None"])
def test_capacity_that_grows_wakes_whoever_it_is_enough_for(reservation: str) -> None:
    world = WokenEngine(1, reservation)
    for name in NODES[:3]:
        world.put(node(name, cpu="64"), csi_node(name, {DRIVER: 100}), capacity("fast", name, "0"))
    for gi in range(1, 13):
        world.put(claim(f"c{gi}", f"{gi}Gi"), pod_with(f"p{gi}", f"c{gi}"))
    world.try_all()
    for gi in range(1, 13):
        world.put(capacity("fast", "a", f"{gi}Gi"))
        world.try_all()
        assert world.stranded() == []
        placed = [each for each in world.of(Pod) if each.spec.node_name]
        assert len(placed) == gi or reservation == "Ledger"  # there what was promised is not free again so soon


@pytest.mark.parametrize("is_seen_to_go", [True, False])
@pytest.mark.parametrize("copies", [1, 3])
def test_a_class_that_became_another_drivers_is_looked_at_for_that_ones_slots(copies: int, is_seen_to_go: bool) -> None:
    """It goes and comes back before anybody is tried, and the pods that wait are as many and as alike as before."""
    world = WokenEngine(1, "None")
    for name in NODES[:3]:
        world.put(node(name, cpu="64"), csi_node(name, {DRIVER: 0, SLOW: 0}), capacity("slow", name, "100Gi"))
    for number in range(copies):
        world.put(claim(f"c{number}", "1Gi", class_name="slow"), pod_with(f"p{number}", f"c{number}"))
    world.try_all()
    if is_seen_to_go:
        world.remove(StorageClass, "slow")
    world.put(storage_class("slow", provisioner=DRIVER))
    world.try_all()
    world.put(csi_node("a", {DRIVER: 9, SLOW: 0}))
    world.try_all()
    assert [each.spec.node_name for each in world.of(Pod)] == ["a"] * copies


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300, 360))
def test_nobody_waits_for_a_slot_or_a_label_that_is_there_at_length(seed: int) -> None:
    world = WokenEngine(seed, ("Object", "Ledger", "None")[seed % 3], binds_later=seed % 2 == 0)
    play_in(world, seed, 80, VOLUMES)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 210))
def test_nobody_waits_among_pods_that_are_all_different_at_length(seed: int) -> None:
    play(seed, ("Object", "Ledger", "None")[seed % 3], 80, UNLIKE)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_nobody_waits_whom_a_node_would_take_at_length(seed: int) -> None:
    play(seed, ("Object", "Ledger", "None")[seed % 3], 120)
