"""A cluster as an API server has it, and everything that happens in one besides its scheduler.

Nodes, pods, claims, volumes, classes, drivers, limits, capacity objects, attachments and refusals come, change, go and
come back under the same name; pods are nominated and bound by others, gated, deleted in the middle of their binding and
made again. Few names and few values, so that things meet. `lived_histories.py` is the scheduler beside it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from msgspec.structs import replace

from support.informed_engine import InformedEngine
from support.virtual_clock import VirtualClock
from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import Event, Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.core_v1.persistent_volume import BIND_COMPLETED, SELECTED_NODE, VOLUME_HOME
from tonnage.objects.meta import Object
from tonnage.objects.storage_v1 import CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment
from tonnage.scheduling.queue.nominator import nominated_to
from tonnage.testing.builders import node
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

NODES = ("n0", "n1", "n2")
PODS = tuple(f"p{number}" for number in range(9))
CLASSES = ("fast", "fast", "fast", "slow", "soon", "local")
ZONE = "topology.kubernetes.io/zone"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"


class BusyCluster(InformedEngine):
    """The objects, and what may happen to them, each by a method. The engine is told of all of it."""

    def __init__(self, seed: int, scheduler_names: Sequence[str]) -> None:
        """Call `furnish` when there is an engine."""
        super().__init__()
        self.rng = random.Random(seed)
        self.clock = VirtualClock()
        self.clock.advance(1000)
        self.scheduler_names = scheduler_names
        self.numbers = count(1)
        self.kinds: list[dict[str, Any]] = []

    def furnish(self) -> None:
        """Make what is there in the beginning."""
        rng = self.rng
        self.put(driver(rebuilding=rng.random() < 0.8))
        for name in dict.fromkeys(CLASSES):
            self.put(self.class_of(name))
        for name in NODES[: rng.choice((2, 3, 3))]:
            self.put_node(name)
        self.kinds = [self.new_kind() for _ in range(rng.choice((2, 3, 4)))]

    # -- the API ------------------------------------------------------------------------------------------------------

    def put(self, *objects: Object) -> None:
        """Create or update, as a server does: each life of a name has its uid, each write its version."""
        for made in objects:
            before = self.get(type(made), made.key)
            number = next(self.numbers)
            born: dict[str, Any] = {"uid": f"{made.key}-{number}", "creation_timestamp": self.clock.now()}
            if before is not None:
                born = {"uid": before.uid, "creation_timestamp": before.metadata.creation_timestamp}
            super().put(replace(made, metadata=replace(made.metadata, resource_version=str(number), **born)))

    def drop(self, known: Object) -> None:
        """Delete an object. A volume that is attached is detached before: finalizers see to that."""
        if isinstance(known, PersistentVolume):
            for each in self.all(VolumeAttachment):
                if each.spec.source.persistent_volume_name == known.name:
                    self.drop(each)
        if (type(known), known.key) in self.objects:
            self.remove(type(known), known.key)

    def get(self, kind: type[Any], key: str) -> Any:
        return self.objects.get((kind, key))

    def all(self, kind: type[Any]) -> list[Any]:
        return [each for (found, _), each in self.objects.items() if found is kind]

    def some(self, kind: type[Any], where: Callable[[Any], bool] = lambda each: True) -> Any:
        """One of them, None if there is none."""
        found = [each for each in self.all(kind) if where(each)]
        return self.rng.choice(found) if found else None

    def annotate(self, known: Any, annotations: dict[str, str | None]) -> None:
        kept = {**known.metadata.annotations, **annotations}
        kept = {key: value for key, value in kept.items() if value is not None}
        self.put(replace(known, metadata=replace(known.metadata, annotations=kept)))

    def nominate(self, known: Pod, node_name: str) -> None:
        self.put(nominated_to(known, node_name))

    # -- what may be there --------------------------------------------------------------------------------------------

    def class_of(self, name: str) -> StorageClass:
        rng = self.rng
        if name == "local":
            return storage_class(name, provisioner="kubernetes.io/no-provisioner")
        return storage_class(
            name,
            delayed=name != "soon",
            group=rng.choice(("", "", "g")),
            pool_policy=rng.choice(("", "", "most-free", "best-fit")),
            topologies=rng.choice((*[[]] * 7, [{ZONE: ["x"]}])),
        )

    def put_node(self, name: str) -> None:
        rng = self.rng
        taints = rng.choice((*[[]] * 10, ["busy:NoSchedule"], [OUT_OF_SERVICE]))
        labels = {ZONE: rng.choice("xxy"), "disk": rng.choice(("ssd", "hdd"))}
        self.put(node(name, cpu=rng.choice(("1", "2", "4")), labels=labels, taints=taints, pods=rng.choice((3, 9))))
        if rng.random() < 0.8:
            self.put(csi_node(name, {DRIVER: rng.choice((1, 2, 4, None))}))
        for class_name in ("fast", "slow", "soon"):
            if rng.random() < 0.8:
                self.put_capacity(class_name, name)

    def put_capacity(self, class_name: str, node_name: str) -> None:
        rng = self.rng
        pools = [f"{rng.choice((2, 5, 10))}Gi" for _ in range(rng.choice((0, 0, 1, 2)))]
        free = f"{rng.choice((0, 3, 6, 10, 20))}Gi"
        self.put(capacity(class_name, node_name, free, pools=pools))

    def new_kind(self) -> dict[str, Any]:
        """What pods of one workload have in common."""
        rng = self.rng
        spec: dict[str, Any] = {"schedulerName": rng.choice(self.scheduler_names)}
        if rng.random() < 0.2:
            spec["preemptionPolicy"] = "Never"
        if rng.random() < 0.15:
            spec["schedulingGates"] = [{"name": "wait"}]
        return {
            "claims": [(rng.choice(CLASSES), rng.choice((1, 3, 5, 9))) for _ in range(rng.choice((0, 1, 1, 1, 2)))],
            "is_shared": rng.random() < 0.15,
            "spec": spec,
            "cpu": rng.choice(("100m", "100m", "500m", "900m", "2")),
            "priority": rng.choice((0, 0, 0, 5, 10)),
            "node_selector": {"disk": "ssd"} if rng.random() < 0.1 else {},
            "tolerations": [{"operator": "Exists"}] if rng.random() < 0.1 else [],
            "labels": {"app": rng.choice(("web", "db"))},
        }

    def make_pod(self, name: str, kind: dict[str, Any]) -> None:
        """A pod of a kind, and those of its claims that are not there from an earlier life."""
        rng = self.rng
        names = []
        for number, (class_name, size) in enumerate(kind["claims"]):
            names.append("shared" if kind["is_shared"] and not number else f"{name}-{number}")
            if self.get(PersistentVolumeClaim, f"default/{names[-1]}") is None and rng.random() < 0.95:
                self.put(claim(names[-1], f"{size}Gi", class_name=class_name))
        asked = {key: value for key, value in kind.items() if key not in ("claims", "is_shared")}
        if rng.random() < 0.1:  # alike but for one thing
            asked["spec"] = {**asked["spec"], "preemptionPolicy": rng.choice(("Never", "PreemptLowerPriority"))}
        status = {"nominatedNodeName": rng.choice(NODES)} if rng.random() < 0.1 else {}
        self.put(pod_with(name, *names, status=status, **asked))

    # -- what happens: pods --------------------------------------------------------------------------------------------

    def pods_come(self) -> None:
        if self.rng.random() < 0.1:
            self.kinds[self.rng.randrange(len(self.kinds))] = self.new_kind()
        kind = self.rng.choice(self.kinds)
        for name in self.rng.sample(PODS, self.rng.randint(1, 3)):
            if self.get(Pod, f"default/{name}") is None:
                self.make_pod(name, kind)

    def pod_goes(self) -> None:
        """It is deleted, whatever it is doing; as often as not its controller makes another of its name."""
        if (known := self.some(Pod)) is not None:
            self.drop(known)
            if self.rng.random() < 0.4:
                self.make_pod(known.name, self.rng.choice(self.kinds))

    def pod_is_remade(self) -> None:
        """By a StatefulSet: the same again, with the same claims."""
        if (known := self.some(Pod)) is not None:
            self.drop(known)
            status = replace(known.status, nominated_node_name="", phase="Pending")
            self.put(replace(known, spec=replace(known.spec, node_name=""), status=status))

    def pod_ends(self) -> None:
        if (known := self.some(Pod, lambda each: each.spec.node_name)) is not None:
            if self.rng.random() < 0.5:
                self.put(replace(known, metadata=replace(known.metadata, deletion_timestamp=self.clock.now())))
            else:
                self.put(replace(known, status=replace(known.status, phase="Succeeded")))

    def resident_comes(self) -> None:
        """A pod that another scheduler placed."""
        name, of = f"r{self.rng.randrange(4)}", self.some(PersistentVolumeClaim)
        if self.get(Pod, f"default/{name}") is None:
            names = [of.name] if of is not None and self.rng.random() < 0.3 else []
            cpu, priority = self.rng.choice(("100m", "900m")), self.rng.choice((0, 0, 3))
            self.put(pod_with(name, *names, on=self.rng.choice(NODES), cpu=cpu, priority=priority))

    def gate_opens(self) -> None:
        if (known := self.some(Pod, lambda each: each.spec.scheduling_gates)) is not None:
            self.put(replace(known, spec=replace(known.spec, scheduling_gates=())))

    def gated_pod_comes(self) -> None:
        """Nominated by whoever brings it, as a cluster autoscaler does."""
        kind = dict(self.rng.choice(self.kinds))
        kind["spec"] = {**kind["spec"], "schedulingGates": [{"name": "wait"}]}
        name = self.rng.choice(PODS)
        if self.get(Pod, f"default/{name}") is None:
            self.make_pod(name, kind)
            self.nominate(self.get(Pod, f"default/{name}"), self.rng.choice(NODES))

    def is_nominated_by_another(self) -> None:
        if (known := self.some(Pod, lambda each: not each.spec.node_name)) is not None:
            self.nominate(known, self.rng.choice((*NODES, "n7", "")))

    def is_bound_by_another(self) -> None:
        """A second scheduler, or a person: to any node, whatever is under way here."""
        where = self.rng.choice(NODES)
        waits = self.some(Pod, lambda each: not each.spec.node_name and not each.spec.scheduling_gates)
        if waits is not None and self.get(Node, where) is not None:
            self.put(replace(waits, spec=replace(waits.spec, node_name=where)))

    def is_labelled(self) -> None:
        if (known := self.some(Pod)) is not None:
            self.put(replace(known, metadata=replace(known.metadata, labels={"app": self.rng.choice(("web", "x"))})))

    def node_changes(self) -> None:
        self.put_node(self.rng.choice(NODES))

    def node_goes(self) -> None:
        """Its pods go with it, or later."""
        if (known := self.some(Node)) is not None:
            self.drop(known)
            if self.rng.random() < 0.7:
                for each in self.all(Pod):
                    if each.spec.node_name == known.name:
                        self.drop(each)

    def node_is_cordoned(self) -> None:
        if (known := self.some(Node)) is not None:
            self.put(replace(known, spec=replace(known.spec, unschedulable=not known.spec.unschedulable)))

    def limits_change(self) -> None:
        name = self.rng.choice(NODES)
        if self.rng.random() < 0.2 and (known := self.get(CSINode, name)) is not None:
            self.drop(known)
        else:
            self.put(csi_node(name, {DRIVER: self.rng.choice((0, 1, 2, 4, None))}))

    def capacity_changes(self) -> None:
        self.put_capacity(self.rng.choice(("fast", "fast", "slow", "soon")), self.rng.choice(NODES))

    def capacity_is_told_again(self) -> None:
        if (known := self.some(CSIStorageCapacity)) is not None:
            self.put(known)

    def capacity_goes(self) -> None:
        if (known := self.some(CSIStorageCapacity)) is not None:
            self.drop(known)

    def class_changes(self) -> None:
        name = self.rng.choice(("fast", "slow", "soon"))
        known = self.get(StorageClass, name)
        if known is not None and self.rng.random() < 0.5:
            self.drop(known)
        if known is None or self.rng.random() < 0.5:
            self.put(self.class_of(name))

    def driver_changes(self) -> None:
        known, rng = self.get(CSIDriver, DRIVER), self.rng
        if known is not None and rng.random() < 0.2:
            self.drop(known)
        else:
            self.put(driver(rebuilding=rng.random() < 0.8, capacity=rng.random() < 0.8))

    def claim_goes(self) -> None:
        """Kubernetes keeps it while a pod that has a node uses it; one that waits, or is being bound, keeps nothing."""
        known = self.some(PersistentVolumeClaim)
        if known is None:
            return
        if any(known.name in each.claim_names() for each in self.all(Pod) if each.spec.node_name):
            self.put(replace(known, metadata=replace(known.metadata, deletion_timestamp=self.clock.now())))
        else:
            self.drop(known)
            made = self.get(PersistentVolume, known.spec.volume_name)
            if made is not None and self.rng.random() < 0.6:
                self.drop(made)

    def claim_comes(self) -> None:
        missing = [
            name
            for each in self.all(Pod)
            for name in each.claim_names()
            if self.get(PersistentVolumeClaim, f"default/{name}") is None
        ]
        if missing:
            size = f"{self.rng.choice((1, 3, 9))}Gi"
            self.put(claim(self.rng.choice(missing), size, class_name=self.rng.choice(CLASSES)))

    def claim_is_sent_by_another(self) -> None:
        """Somebody else writes selected-node, or an old manifest is applied again."""
        if (known := self.some(PersistentVolumeClaim)) is not None:
            self.annotate(known, {SELECTED_NODE: self.rng.choice((*NODES, None, None))})

    def claim_is_refused(self) -> None:
        """The provisioner says why there is no volume, for good or for now, and may take selected-node back."""
        known = self.some(PersistentVolumeClaim, lambda each: not each.is_bound and each.selected_node)
        if known is None:
            return
        code = self.rng.choice(("InvalidArgument", "ResourceExhausted"))
        about = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": known.name, "uid": known.uid}
        said = {
            "kind": "Event",
            "metadata": {"name": f"{known.name}-failed", "namespace": "default"},
            "reason": "ProvisioningFailed",
            "message": f"rpc error: code = {code} desc = no",
            "involvedObject": about,
        }
        self.put(convert(Event, said))
        if self.rng.random() < 0.5:
            self.annotate(known, {SELECTED_NODE: None})

    def refusal_goes(self) -> None:
        if (known := self.some(Event)) is not None:
            self.drop(known)

    def volumes_are_made(self) -> None:
        for known in self.all(PersistentVolumeClaim):
            if not known.is_bound and known.selected_node and self.rng.random() < 0.6:
                self.make_volume(known, known.selected_node)

    def make_volume(self, known: PersistentVolumeClaim, where: str) -> None:
        of_class = self.get(StorageClass, known.class_name)
        if of_class is None or of_class.name == "local":
            return
        name = f"pv-{known.uid.replace('/', '-')}"
        options: Any = {"claim": known.key, "claim_uid": known.uid, "class_name": known.class_name}
        self.put(volume(name, str(known.requested), on=where, **options))
        self.bind_claim(known, name)

    def bind_claim(self, known: PersistentVolumeClaim, name: str) -> None:
        annotations = {**known.metadata.annotations, BIND_COMPLETED: "yes"}
        metadata = replace(known.metadata, annotations=annotations)
        status = replace(known.status, phase="Bound")
        self.put(replace(known, metadata=metadata, spec=replace(known.spec, volume_name=name), status=status))

    def binder_works(self) -> None:
        """Static volumes whose claim is written, and volumes of an Immediate class."""
        for known in self.all(PersistentVolumeClaim):
            if known.is_bound:
                continue
            kept = [each for each in self.all(PersistentVolume) if _is_kept_for(each, known)]
            if kept:
                self.bind_claim(known, kept[0].name)
            elif known.class_name == "soon" and self.get(Node, "n0") is not None and self.rng.random() < 0.5:
                self.make_volume(known, self.rng.choice(self.all(Node)).name)

    def static_volume(self) -> None:
        name, rng = f"disk-{self.rng.randrange(3)}", self.rng
        known = self.get(PersistentVolume, name)
        if known is None:
            size = f"{rng.choice((3, 10))}Gi"
            self.put(volume(name, size, class_name=rng.choice(("local", "fast")), on=rng.choice(NODES)))
        elif rng.random() < 0.5:
            self.drop(known)

    def volume_goes(self) -> None:
        if (known := self.some(PersistentVolume)) is not None:
            self.drop(known)

    def driver_works(self) -> None:
        """It frees a volume of a node that is out of use, or confines one to the node where it is by now."""
        known = self.some(PersistentVolume, lambda each: each.name.startswith("pv-"))
        if known is None:
            return
        if (required := known.spec.node_affinity.required) is not None:
            home = required.node_selector_terms[0].match_expressions[0].values[0]
            freed = replace(known, spec=replace(known.spec, node_affinity=type(known.spec.node_affinity)()))
            self.annotate(freed, {VOLUME_HOME: home if self.rng.random() < 0.9 else None})
            return
        owner = self.get(PersistentVolumeClaim, known.spec.claim_ref.key)
        arrives = owner is not None and owner.rebuild_target and self.rng.random() < 0.6
        home = owner.rebuild_target if arrives else known.home or self.rng.choice(NODES)
        confined = volume("x", on=home).spec.node_affinity
        self.annotate(replace(known, spec=replace(known.spec, node_affinity=confined)), {VOLUME_HOME: None})

    def attachment_changes(self) -> None:
        known, rng = self.some(VolumeAttachment), self.rng
        if known is not None and rng.random() < 0.5:
            self.drop(known)
        elif (of := self.some(PersistentVolume)) is not None:
            where, error = rng.choice((*NODES, "n7")), rng.choice(("", "", "no room"))
            self.put(attachment(f"{of.name}-{where}", of.name, where, attached=not error, error=error))


def _is_kept_for(found: PersistentVolume, wanted: PersistentVolumeClaim) -> bool:
    owner = found.spec.claim_ref
    return owner is not None and owner.key == wanted.key and owner.uid == wanted.uid
