"""Clusters that change in every way a scheduler is told of, and the pods that it is asked to place meanwhile.

`ChangingCluster` keeps the objects as an API server has them beside an engine that was told of each change. Nodes,
residents, claims, volumes, classes, drivers, limits and capacity objects come, change, go and come back under the same
name with another uid; pods are placed, withdrawn, bound, deleted and preempted for; time passes. Few names and few
values, so that things meet. Everything follows from the seed; `pods_to_place.py` makes up the pods.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace
from odd_configurations import odd_profiles
from pods_to_place import IMAGES, ZONE, PodKind, kind_of_pods, pod_of

from support.virtual_clock import VirtualClock
from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import Namespace, PersistentVolumeClaim, Pod, Service
from tonnage.objects.core_v1.persistent_volume import BIND_COMPLETED, SELECTED_NODE
from tonnage.objects.meta import Object
from tonnage.objects.small_groups import PodDisruptionBudget
from tonnage.objects.storage_v1 import INCLUDED_CLAIMS
from tonnage.scheduling.engine.attempt import Attempt, Placement
from tonnage.scheduling.engine.engine import Engine
from tonnage.testing.builders import node, pod
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

CLASSES = ("fast", "slow")
DRIVERS = ("csi.example", "other.example")


class ChangingCluster:
    """An engine, the objects it was told of, and what happens to them."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.lots = random.Random(seed)
        """What the engine draws between equally good nodes."""
        self.clock = VirtualClock()
        self.profiles = odd_profiles(rng)
        self.engine = Engine(self.profiles, clock=self.clock, rng=self.lots)
        self.objects: dict[tuple[str, str], Object] = {}
        """By kind and key."""
        self.placements: list[Placement] = []
        self.is_roomy = rng.random() < 0.75
        self.numbers = iter(range(1, 1_000_000))
        for name in DRIVERS:
            self.put(driver(name))
        for name in CLASSES:
            self.put(storage_class(name))
        for name in ("default", "blue"):
            self.put_namespace(name)
        for number in range(rng.choice((1, 3, 8, 20))):
            self.put_node(f"n{number}")
        self.engine.open()
        self.kinds = [self.new_kind() for _ in range(rng.choice((1, 2, 4)))]
        self.latest = self.kinds[0]

    # -- objects ------------------------------------------------------------------------------------------------------

    def put(self, made: Object, *, is_another: bool = False) -> Any:
        """Create or update an object; `is_another` gives it a uid that no object had before."""
        number = next(self.numbers)
        metadata = replace(made.metadata, resource_version=str(number))
        if is_another:
            metadata = replace(metadata, uid=f"uid-{number}")
        made = replace(made, metadata=metadata)
        old = self.get(type(made), made.key)
        self.objects[type(made).__name__, made.key] = made
        if old is None:
            self.engine.add(made)
        else:
            self.engine.update(old, made)
        return made

    def drop(self, known: Object) -> None:
        old = self.objects.pop((type(known).__name__, known.key), None)
        if old is not None:
            self.engine.delete(old)

    def put_or_drop(self, made: Object, chance: float = 0.4) -> None:
        if self.rng.random() < chance:
            self.drop(made)
        else:
            self.put(made)

    def get(self, kind: type[Object], key: str) -> Any:
        return self.objects.get((kind.__name__, key))

    def all(self, kind: str) -> list[Any]:
        return [each for (name, _), each in self.objects.items() if name == kind]

    def some(self, kind: str) -> Any:
        """One of them, None if there is none."""
        found = self.all(kind)
        return self.rng.choice(found) if found else None

    def node_name(self) -> str:
        known = self.some("Node")
        return known.name if known is not None else "gone"

    # -- what happens -------------------------------------------------------------------------------------------------

    def happen(self) -> None:
        for _ in range(self.rng.choice((0, 0, 0, 1, 1, 2, 6))):
            self.rng.choice(self.events)()

    @property
    def events(self) -> tuple[Callable[[], None], ...]:
        often = (self.refresh, self.resident, self.end_a_placement, self.claim_changes, self.resident_changes)
        seldom = (self.cluster_changes, self.storage_changes, self.static_volume, self.time_passes, self.foreign_pod)
        return (*often, *often, *seldom, self.selectors_change)

    def put_node(self, name: str, *, is_another: bool = False) -> None:
        rng, roomy = self.rng, self.is_roomy
        labels = {"disk": rng.choice(("ssd", "hdd")), **({ZONE: rng.choice("ab")} if rng.random() < 0.9 else {})}
        effect = rng.choice(("NoSchedule", "PreferNoSchedule", "NoExecute"))
        more: dict[str, Any] = {"example.com/gpu": "2"} if rng.random() < 0.3 else {}
        made = node(
            name,
            cpu=rng.choice(("2", "4", "8") if roomy else ("500m", "2", "4")),
            memory=rng.choice(("1Gi", "8Gi")),
            pods=rng.choice((3, 20, 110)),
            labels=labels,
            taints=[f"dedicated=db:{effect}"] if rng.random() < 0.15 else [],
            unschedulable=rng.random() < 0.08,
            images={image: rng.choice((50, 900)) * 2**20 for image in IMAGES if rng.random() < 0.3},
            **more,
        )
        self.put(made, is_another=is_another)
        if rng.random() < 0.8:
            limits = (5, 50, None) if roomy else (0, 1, 3, 50, None)
            self.put(csi_node(name, {each: rng.choice(limits) for each in DRIVERS if rng.random() < 0.9}))
        for class_name in CLASSES:
            if rng.random() < (0.9 if roomy else 0.5):
                self.put_capacity(class_name, name)

    def put_capacity(self, class_name: str, node_name: str) -> None:
        rng, roomy = self.rng, self.is_roomy
        sizes = (10, 20, 40, 80) if roomy else (3, 5, 10, 40)
        topologies = ({ZONE: rng.choice("ab")}, {"disk": "ssd"})
        free = "400Gi" if roomy else rng.choice((None, "0", "5Gi", "100Gi"))
        included = [each.uid for each in self.all("PersistentVolumeClaim")]
        tells = bool(included) and rng.random() < 0.2
        where: dict[str, Any] = {"node": node_name}
        if rng.random() < 0.15:
            where = {"topology": {"matchLabels": rng.choice(topologies)}}
        made = capacity(
            class_name,
            free=free,
            name=f"{class_name}-{node_name}-{rng.choice((0, 0, 0, 0, 1))}",
            pools=[f"{rng.choice(sizes)}Gi" for _ in range(rng.choice((0, 1, 2, 2, 3, 4)))],
            maximum=rng.choice((None, None, None, "6Gi", "30Gi")),
            metadata={"annotations": {INCLUDED_CLAIMS: rng.choice(included)}} if tells else {},
            **where,
        )
        self.put(made, is_another=rng.random() < 0.15)

    def cluster_changes(self) -> None:
        rng, known = self.rng, self.some("Node")
        match rng.randrange(4):
            case 0:
                self.put_node(f"n{rng.randrange(40)}")
            case 1 if known is not None:
                self.drop(known)
            case 2 if known is not None:
                if rng.random() < 0.5:
                    self.drop(known)
                self.put_node(known.name, is_another=True)
            case 3 if known is not None:
                self.put(replace(known, spec=replace(known.spec, unschedulable=not known.spec.unschedulable)))

    def refresh(self) -> None:
        known = self.some("CSIStorageCapacity")
        match self.rng.randrange(6):
            case 0:
                self.put_capacity(self.rng.choice(CLASSES), self.node_name())
            case 1 if known is not None:
                self.drop(known)
            case 2 if known is not None:
                self.drop(known)
                self.put(known, is_another=True)
            case _ if known is not None:
                self.put(known)

    def storage_changes(self) -> None:
        rng = self.rng
        policy = rng.choice(("", "", "most-free", "best-fit", "first-fit"))
        match rng.randrange(5):
            case 0:
                topologies = rng.choice(([], [], [{ZONE: ["a"]}], [{"disk": ["ssd"]}, {ZONE: ["b"]}]))
                provisioner, name = rng.choice((DRIVERS[0], DRIVERS[0], DRIVERS[1])), rng.choice(CLASSES)
                made = storage_class(
                    name,
                    provisioner=provisioner,
                    delayed=rng.random() < 0.9,
                    topologies=topologies,
                    group=rng.choice(("", "g")),
                    pool_policy=policy,
                )
                if rng.random() < 0.5:
                    self.drop(made)
                self.put(made)
            case 1:
                name, rebuilds = rng.choice(DRIVERS), rng.random() < 0.4
                said = driver(name, capacity=rng.random() < 0.8, rebuilding=rebuilds, pool_policy=policy)
                self.put_or_drop(said, 0.15)
            case 2:
                # One that is deleted while its node stays is remembered, and nothing tells a fresh engine of it.
                limits = {each: rng.choice((1, 3, 50, None)) for each in DRIVERS if rng.random() < 0.9}
                self.put(csi_node(self.node_name(), limits))
            case 3 if (known := self.some("PersistentVolume")) is not None:
                error = rng.choice(("", "", "no"))
                self.put_or_drop(attachment(f"on-{known.name}", known.name, self.node_name(), error=error))

    def resident(self) -> None:
        """A pod that somebody else placed, of which preemption may be the end."""
        rng = self.rng
        terms = {"topologyKey": rng.choice((ZONE, "kubernetes.io/hostname"))}
        asked = {**terms, "labelSelector": {"matchLabels": {"app": "w0"}}}
        if rng.random() < 0.4:
            asked["namespaceSelector"] = {"matchLabels": {"team": "x"}}
        affinity: dict[str, Any] = {}
        match rng.randrange(6):
            case 0:
                affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [asked]}}
            case 1:
                preferred = [{"weight": 7, "podAffinityTerm": asked}]
                affinity = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
        mounted = self.some("PersistentVolumeClaim") if rng.random() < 0.3 else None
        made = pod_with(
            f"r{rng.randrange(15)}",
            *([mounted.name] if mounted is not None and mounted.namespace == "default" else []),
            on=self.node_name(),
            cpu=rng.choice(("100m", "1", "2")),
            memory="64Mi",
            image=rng.choice(IMAGES),
            labels={"app": rng.choice(("w0", "w1", "r0"))},
            priority=rng.choice((0, 3, 5)),
            host_ports=[80] if rng.random() < 0.2 else [],
            spec={"affinity": affinity},
            status={"phase": "Running", "startTime": f"2026-01-0{rng.randint(1, 9)}T00:00:00Z"},
        )
        old = self.get(Pod, made.key)
        if old is not None:
            self.drop(old)
        self.put(made, is_another=True)

    def resident_changes(self) -> None:
        there = [each for each in self.all("Pod") if each.spec.node_name]
        if not there:
            return
        known: Pod = self.rng.choice(there)
        match self.rng.randrange(6):
            case 0:
                self.put(replace(known, status=replace(known.status, phase=self.rng.choice(("Succeeded", "Failed")))))
            case 1:
                self.put(replace(known, metadata=replace(known.metadata, deletion_timestamp=self.clock.now())))
            case 2:
                self.put(
                    replace(known, metadata=replace(known.metadata, labels={"app": self.rng.choice(("w0", "r1"))}))
                )
            case 3:
                said = pod(
                    "x", status={"phase": "Running", "startTime": f"2026-02-0{self.rng.randint(1, 9)}T00:00:00Z"}
                )
                self.put(replace(known, status=said.status))
            case _:
                self.drop(known)

    def claim_changes(self) -> None:
        rng, known = self.rng, self.some("PersistentVolumeClaim")
        if known is None:
            return
        size = rng.choice(("1Gi", "10Gi", "25Gi"))
        match rng.randrange(8):
            case 0:
                self.drop(known)
            case 1:
                self.drop(known)
                self.put(
                    claim(known.name, size, namespace=known.namespace, class_name=rng.choice(CLASSES)), is_another=True
                )
            case 2:
                self.put(replace(known, status=replace(known.status, phase="Lost")))
            case 3 | 4 if not known.is_bound:
                self.bind(known)
            case 5:
                self.put(replace(known, spec=replace(known.spec, resources=claim("x", size).spec.resources)))
            case 6:
                annotations = {**known.metadata.annotations, SELECTED_NODE: self.node_name()}
                if rng.random() < 0.5:
                    del annotations[SELECTED_NODE]
                self.put(replace(known, metadata=replace(known.metadata, annotations=annotations)))
            case 7:
                self.put(replace(known, metadata=replace(known.metadata, deletion_timestamp=self.clock.now())))

    def bind(self, known: PersistentVolumeClaim) -> None:
        """Its volume is made, on the node that was selected for it."""
        sent = self.engine.cluster.storage.claims.get(known.key) or known
        made = volume(
            f"pv-{known.namespace}-{known.name}",
            "10Gi",
            class_name=known.class_name,
            claim=known.key,
            claim_uid=known.uid,
            on=sent.selected_node or None,
            labels={ZONE: self.rng.choice("ab")} if self.rng.random() < 0.2 else {},
            driver=self.rng.choice(DRIVERS),
        )
        self.put(made)
        annotations = {**sent.metadata.annotations, BIND_COMPLETED: "yes"}
        metadata = replace(known.metadata, annotations=annotations)
        self.put(replace(known, metadata=metadata, spec=replace(known.spec, volume_name=made.name)))

    def static_volume(self) -> None:
        rng = self.rng
        on = self.node_name() if rng.random() < 0.6 else None
        made = volume(f"static-{rng.randrange(4)}", rng.choice(("5Gi", "15Gi")), class_name=rng.choice(CLASSES), on=on)
        self.put_or_drop(made, 0.6)

    def foreign_pod(self) -> None:
        """One that waits, and that somebody expects on a node."""
        rng = self.rng
        name = f"foreign-{rng.randrange(4)}"
        names = [f"data-of-{name}"] if rng.random() < 0.4 else []
        for each in names:
            self.put(claim(each, "5Gi", class_name=rng.choice(CLASSES)), is_another=True)
        asked = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "w0"}}}
        keeps_off = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [asked]}}
        made = pod_with(
            name,
            *names,
            cpu=rng.choice(("100m", "1", "3")),
            memory="64Mi",
            priority=rng.choice((0, 5, 10)),
            host_ports=[80] if rng.random() < 0.3 else [],
            spec={"affinity": keeps_off} if rng.random() < 0.2 else {},
            status={"nominatedNodeName": self.node_name()},
        )
        old = self.get(Pod, made.key)
        if old is not None:
            self.drop(old)
        self.put(made, is_another=True)

    def selectors_change(self) -> None:
        rng = self.rng
        match rng.randrange(3):
            case 0:
                self.put_namespace(rng.choice(("default", "blue", "green")))
            case 1:
                said = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"app": "w0"}}}
                self.put_or_drop(convert(Service, {"kind": "Service", **said}))
            case 2:
                selector = {"selector": {"matchLabels": {"app": rng.choice(("w0", "w1", "r0"))}}}
                said = {"metadata": {"name": "budget", "namespace": "default"}, "spec": selector}
                allowed = {"status": {"disruptionsAllowed": rng.choice((0, 1, 2))}}
                self.put_or_drop(convert(PodDisruptionBudget, {"kind": "PodDisruptionBudget", **said, **allowed}))

    def put_namespace(self, name: str) -> None:
        labels = {"team": self.rng.choice("xy")} if self.rng.random() < 0.7 else {}
        made = convert(Namespace, {"kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        self.put_or_drop(made, 0.3 if name == "green" else 0)

    def time_passes(self) -> None:
        self.clock.advance(self.rng.choice((0.5, 3, 70)))
        self.engine.tick(self.clock.monotonic())

    # -- pods that are placed -----------------------------------------------------------------------------------------

    def new_kind(self) -> PodKind:
        return kind_of_pods(self.rng, CLASSES, [each.scheduler_name for each in self.profiles])

    def next_pod(self) -> Pod:
        """A new one, as often as not of the kind before; sometimes one that has waited."""
        rng = self.rng
        waiting = [each for each in self.all("Pod") if not each.spec.node_name and self.engine.queue.waiting(each.uid)]
        if waiting and rng.random() < 0.2:
            found: Pod = rng.choice(waiting)
            return found
        if rng.random() < 0.1:
            self.kinds[rng.randrange(len(self.kinds))] = self.new_kind()
        if rng.random() < 0.5:
            self.latest = rng.choice(self.kinds)
        number, shared = next(self.numbers), self.some("PersistentVolumeClaim")
        made, claims = pod_of(self.latest, number, rng, shared=shared, nominated=self.node_name())
        for each in claims:
            self.put(each)
        return self.put(made)  # type: ignore[no-any-return]

    def attempt(self, asked: Pod) -> Attempt | None:
        """Try to place a pod that waits; what comes of it happens. None when it is not to be tried now."""
        queued = self.engine.queue.take_nowait(asked)
        if queued is None:
            return None
        attempt = self.engine.attempt(queued)
        assert attempt.exception is None
        if attempt.placement is not None:
            self.placements.append(attempt.placement)
            return attempt
        outcome = self.engine.post_filter(attempt)
        decision = attempt.decision
        refusing = decision.diagnosis.rejecting_plugins() if decision is not None and decision.diagnosis else ()
        nomination = outcome.result.nominated_node if outcome is not None and outcome.result.nominated_node else None
        if self.rng.random() < 0.5:
            self.drop(asked)
        else:
            self.engine.requeue(queued, asked, plugins=refusing, nomination=nomination)
        return attempt

    def end_a_placement(self) -> None:
        """Its binding succeeds, or fails, or the pod is deleted before."""
        if not self.placements:
            return
        placement = self.placements.pop(self.rng.randrange(len(self.placements)))
        known = self.get(Pod, placement.pod.key)
        if known is None or known.uid != placement.pod.uid:
            return
        match self.rng.randrange(5):
            case 0 | 1 if placement.queued is not None:
                self.engine.withdraw(placement)
                if self.rng.random() < 0.4:
                    self.engine.failed_on(placement.queued, placement.node, "why")
                self.engine.requeue(placement.queued, known, nomination=self.rng.choice((None, "", placement.node)))
            case 2 | 3:
                self.write_what_is_assumed(known)
                self.engine.done(known)
                self.engine.binding_finished(placement)
                self.put(replace(known, spec=replace(known.spec, node_name=placement.node)))
            case _:
                self.drop(known)

    def write_what_is_assumed(self, placed: Pod) -> None:
        """PreBind: the API shows the pod's claims, and volumes that were free, as decisions see them."""
        storage = self.engine.cluster.storage
        keys = [f"{placed.namespace}/{name}" for name in placed.claim_names()]
        for known in [self.get(PersistentVolumeClaim, key) for key in keys]:
            assumed = storage.claims.get(known.key) if known is not None else None
            if assumed is not None and assumed is not known:
                self.put(assumed)
        for known in self.all("PersistentVolume"):
            owner = known_as = storage.volumes.get(known.name)
            if known_as is not None and known_as is not known and owner.spec.claim_ref.key in keys:
                self.put(known_as)
