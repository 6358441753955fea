"""Volumes that move, over random drains, refusals, deleted pods and restarts: nothing is sent where there is no room.

A driver that keeps its contract is played beside one engine: it knows how much every node really has, makes and
rebuilds volumes when it gets to it, frees those of cordoned nodes, and publishes figures now and then. Whenever it is
asked to make or rebuild a volume that was not refused before, there has to be room. It takes its time to free volumes
and to confine them again, and people apply old manifests, so that claims name no node or a wrong one. Pods that share a
claim are never on two nodes. In the end, with every node back in use and all work done, nothing is held, and no pod
waits that fits.
"""

from __future__ import annotations

import random
from itertools import count
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from support.informed_engine import InformedEngine
from support.virtual_clock import VirtualClock
from tonnage.clock import rfc3339
from tonnage.gates import Gates
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod, is_out_of_use
from tonnage.objects.core_v1.persistent_volume import VOLUME_HOME
from tonnage.objects.meta import Object
from tonnage.objects.storage_v1 import VolumeAttachment
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.engine.attempt import Placement
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.volumes.bind_volumes import asking_annotations
from tonnage.scheduling.volumes.reservations.ledger import Ledger
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import attachment, capacity, claim, driver, pod_with, storage_class, volume

modest = settings(max_examples=tries(120), deadline=None)

NODES = {"a": 10, "b": 8, "c": 5, "d": 3}
"""With what each really has, in Gi."""
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: StorageCapacity
    args: {apiVersion: tonnage.dev/v1alpha1, kind: StorageCapacityArgs, reservation: Ledger}
"""


class Story(InformedEngine):
    """A cluster, the driver beside it, and what happens."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.rng = random.Random(seed)
        self.clock = VirtualClock()
        self.home: dict[str, str] = {}
        """By claim, the node that has its volume."""
        self.sizes: dict[str, int] = {}
        self.claims_of: dict[str, str] = {}
        """By pod; two pods may have the same."""
        self.was_refused: set[str] = set()
        self.missed: set[str] = set()
        """Claims whose volumes did not arrive where they were sent last."""
        self.binding: dict[str, Placement] = {}
        """Pods that wait in PreBind for their volume to be made."""
        self.uids = count(1)
        self.met: set[str] = set()
        self.engine = self.new_engine()
        self.put(storage_class(), driver(rebuilding=True), *map(node, NODES))
        for name in NODES:
            self.refresh(name)
        for number in range(self.rng.randint(2, 6)):
            name = f"c{number}"
            self.sizes[name] = self.rng.randint(1, 6)
            self.put(claim(name, f"{self.sizes[name]}Gi"))
            for each in range(self.rng.choice((1, 1, 2))):
                self.claims_of[f"p{number}-{each}"] = name
        for name in self.claims_of:
            self.make_pod(name)

    def new_engine(self) -> Engine:
        profiles = parse(CONFIGURATION, source="a test", gates=Gates()).profiles
        made = Engine(profiles, clock=self.clock, rng=random.Random(1))
        made.load(self.objects.values())
        return made

    # -- the API ------------------------------------------------------------------------------------------------------

    def remove(self, kind: type[Object], key: str) -> None:
        if (kind, key) in self.objects:
            super().remove(kind, key)

    def pod(self, name: str) -> Pod:
        found = self.objects[Pod, f"default/{name}"]
        assert isinstance(found, Pod)
        return found

    def claim(self, name: str) -> PersistentVolumeClaim:
        found = self.objects[PersistentVolumeClaim, f"default/{name}"]
        assert isinstance(found, PersistentVolumeClaim)
        return found

    def make_pod(self, name: str, on: str = "", uid: str = "") -> None:
        self.put(pod_with(name, self.claims_of[name], on=on, metadata={"uid": uid or f"{name}-{next(self.uids)}"}))

    def write_claim(self, name: str, annotations: dict[str, str]) -> None:
        known, size = self.claim(name), self.claim(name).requested
        kept = {**known.metadata.annotations, **annotations}
        self.put(claim(name, str(size), volume=known.spec.volume_name, metadata={"annotations": kept}))
        self.missed.discard(name)

    def is_cordoned(self, name: str) -> bool:
        found: Node = self.objects[Node, name]
        return is_out_of_use(found)

    def users(self, name: str) -> dict[str, str]:
        """The pods of a claim that have a node, with it."""
        mine = [pod for pod, of in self.claims_of.items() if of == name]
        return {each: self.pod(each).spec.node_name for each in mine if self.pod(each).spec.node_name}

    # -- the scheduler ------------------------------------------------------------------------------------------------

    def schedule(self, name: str, *, may_fail: bool = True) -> None:
        """Decide on a pod; what was decided is written and bound, or fails before or after that it is written."""
        found = self.pod(name)
        if found.spec.node_name or name in self.binding:
            return
        attempt = self.engine.place(PodInfo(found))
        if attempt.placement is None:
            self.met.add("waits")
            return
        how, where, of = self.rng.random() if may_fail else 1.0, attempt.placement.node, self.claims_of[name]
        assert set(self.users(of).values()) <= {where}, "pods that share a claim are on one node"
        if how < 0.1:
            self.engine.withdraw(attempt.placement)
            return
        known = self.engine.cluster.storage.claims.get(f"default/{of}")
        assert known is not None
        if known is not self.claim(of):
            self.met.add("sent elsewhere" if known.is_bound else "made")
            self.write_claim(of, asking_annotations(known, where))
        if how < 0.2:
            self.engine.withdraw(attempt.placement)
            return
        self.binding[name] = attempt.placement
        if known.is_bound:
            self.bind(name)

    def bind(self, name: str) -> None:
        placement = self.binding.pop(name)
        self.engine.binding_finished(placement)
        self.make_pod(name, placement.node, placement.pod.uid)

    def binding_pods(self, of: str) -> list[str]:
        return [each for each in self.binding if self.claims_of[each] == of]

    def restart(self) -> None:
        """What was made meanwhile and is in no figure yet cannot be known to a scheduler that starts.

        Nor can it be known that a volume was elsewhere since it was sent to a node by its mark, or refused by
        attachments that are gone: while there are such, nobody starts it anew.
        """
        if self.missed:
            return
        for name in NODES:
            self.refresh(name)
        self.engine = self.new_engine()
        self.binding.clear()
        self.met.add("restart")

    # -- the driver ---------------------------------------------------------------------------------------------------

    def free(self, name: str) -> int:
        return NODES[name] - sum(self.sizes[each] for each, home in self.home.items() if home == name)

    def refresh(self, name: str) -> None:
        self.put(capacity("fast", name, f"{self.free(name)}Gi"))

    def show(self, name: str, *, is_free: bool = False) -> None:
        """Write a volume as it is: confined to its home, or free to move."""
        made_at: dict[str, Any] = {"creationTimestamp": rfc3339(self.clock.now())}
        known = self.objects.get((PersistentVolume, f"pv-{name}"))
        if known is not None and known.metadata.creation_timestamp is not None:
            made_at = {"creationTimestamp": rfc3339(known.metadata.creation_timestamp)}
        on = None if is_free else self.home[name]
        known_claim = self.claim(name)
        if on is not None and on != known_claim.selected_node == known_claim.rebuild_target:
            self.missed.add(name)
        metadata = {**made_at, "annotations": {VOLUME_HOME: self.home[name]}} if is_free else made_at
        self.put(volume(f"pv-{name}", f"{self.sizes[name]}Gi", on=on, claim=f"default/{name}", metadata=metadata))

    def work(self, name: str, *, may_refuse: bool) -> None:
        """Get to one claim: make its volume, or rebuild it where its pods are."""
        known = self.claim(name)
        if name not in self.home:
            self.make(name, known.selected_node, may_refuse=may_refuse)
            return
        wanted = set(self.users(name).values()) - {self.home[name]}
        required = self.objects[PersistentVolume, f"pv-{name}"].spec.node_affinity.required
        if not wanted or required is not None:
            return
        (where,) = wanted
        has_room = self.free(where) >= self.sizes[name]
        assert has_room or name in self.was_refused, f"{name} was sent to {where}, which has no room"
        if not has_room or (may_refuse and self.rng.random() < 0.5):
            self.was_refused.add(name)
            self.missed.add(name)
            self.put(attachment(f"va-{name}-{where}", f"pv-{name}", where, error="no pool has room"))
            self.met.add("refused")
            return
        self.put(attachment(f"va-{name}-{where}", f"pv-{name}", where))
        self.home[name] = where
        self.was_refused.discard(name)
        self.missed.discard(name)
        self.show(name, is_free=self.is_cordoned(where))
        self.met.add("rebuilt")

    def make(self, name: str, where: str, *, may_refuse: bool) -> None:
        if not where:
            return
        if may_refuse and self.rng.random() < 0.2:
            size = self.claim(name).requested
            self.put(claim(name, str(size)))  # the provisioner gives up, and takes selected-node back
            for each in self.binding_pods(name):
                self.engine.withdraw(self.binding.pop(each))
            return
        assert self.free(where) >= self.sizes[name], f"{name} was sent to {where}, which has no room"
        self.home[name] = where
        self.show(name, is_free=self.is_cordoned(where))
        known = self.claim(name)
        self.put(claim(name, str(known.requested), volume=f"pv-{name}", selected_node=where))
        for each in self.binding_pods(name):
            self.bind(each)

    def settle_affinity(self, name: str) -> None:
        """What the driver's controller keeps true: free while its home is cordoned or a pod is elsewhere."""
        home = self.home[name]
        self.show(name, is_free=self.is_cordoned(home) or bool(set(self.users(name).values()) - {home}))

    # -- people -------------------------------------------------------------------------------------------------------

    def cordon(self, name: str, *, unschedulable: bool) -> None:
        """The driver looks at the node's volumes at once, or later."""
        if not unschedulable or self.rng.random() < 0.7:
            self.put(node(name, unschedulable=unschedulable))
        else:
            self.put(node(name, taints=[OUT_OF_SERVICE]))
        for each, home in self.home.items():
            if home == name and self.rng.random() < 0.5:
                self.settle_affinity(each)

    def apply_old_manifest(self, name: str) -> None:
        """A bound claim is written as it was once: with another selected-node, or with none."""
        known, required = self.claim(name), None
        if name in self.home:
            required = self.objects[PersistentVolume, f"pv-{name}"].spec.node_affinity.required
        if not known.is_bound or required is None:
            return
        selected = self.rng.choice(["", *NODES])
        self.put(claim(name, str(known.requested), volume=known.spec.volume_name, selected_node=selected))
        self.met.add("stale" if selected else "no node")

    def delete_pod(self, name: str) -> None:
        """It is gone, its attachment with it if it was the last there, and its controller makes another."""
        of, where = self.claims_of[name], self.pod(name).spec.node_name
        if (placement := self.binding.pop(name, None)) is not None:
            self.engine.withdraw(placement)
        self.remove(Pod, f"default/{name}")
        self.make_pod(name)
        if where and where not in self.users(of).values():
            self.remove(VolumeAttachment, f"va-{of}-{where}")

    def drain(self, name: str) -> None:
        self.cordon(name, unschedulable=True)
        for each in self.claims_of:
            if self.pod(each).spec.node_name == name:
                self.delete_pod(each)
        self.met.add("drained")

    def happen(self) -> None:
        rng = self.rng
        happens = ["schedule"] * 6 + ["work"] * 4 + ["refresh"] * 2 + ["back"] * 2 + ["drain"] * 2
        match rng.choice([*happens, "settle", "settle", "apply", "delete", "restart", "wait"]):
            case "schedule":
                self.schedule(rng.choice(sorted(self.claims_of)))
            case "work":
                self.work(rng.choice(sorted(self.sizes)), may_refuse=True)
            case "refresh":
                self.refresh(rng.choice(sorted(NODES)))
            case "drain":
                self.drain(rng.choice(sorted(NODES)))
            case "back":
                self.cordon(rng.choice(sorted(NODES)), unschedulable=False)
            case "settle":
                if self.home:
                    self.settle_affinity(rng.choice(sorted(self.home)))
            case "apply":
                self.apply_old_manifest(rng.choice(sorted(self.sizes)))
            case "delete":
                self.delete_pod(rng.choice(sorted(self.claims_of)))
            case "restart":
                self.restart()
            case "wait":  # every figure is true by now, and what a clock ends is over
                for name in NODES:
                    self.refresh(name)
                self.clock.advance(3600)
                self.engine.tick(self.clock.monotonic())

    def come_to_rest(self) -> None:
        """All nodes are back, the driver refuses nothing it has room for, and everything is done that can be."""
        for name in NODES:
            self.cordon(name, unschedulable=False)
        for _ in range(6):
            for name in sorted(self.claims_of):
                self.schedule(name, may_fail=False)
            for name in sorted(self.sizes):
                self.work(name, may_refuse=False)
                if name in self.home:
                    self.settle_affinity(name)
                if name in self.was_refused:  # somebody gives up on pods that wait for what was refused
                    for each in self.users(name):
                        self.delete_pod(each)
                    self.settle_affinity(name)
            for name in NODES:
                self.refresh(name)
        self.clock.advance(61)
        self.engine.tick(self.clock.monotonic())
        for name in sorted(self.claims_of):
            self.schedule(name, may_fail=False)


def play(seed: int, steps: int = 80) -> set[str]:
    story = Story(seed)
    for _ in range(steps):
        story.happen()
    story.come_to_rest()
    ledger = story.engine.cluster.index(Ledger)
    assert ledger.holds() == [], "nothing is held for good"
    for name, of in story.claims_of.items():
        if not story.pod(name).spec.node_name:
            assert of not in story.home, f"{name} waits for a volume that is there"
            assert all(story.free(each) < story.sizes[of] for each in NODES), f"{name} would fit"
    return story.met


@modest
@given(seed=st.integers(0, 2**32))
def test_no_volume_is_sent_where_it_has_no_room_and_nothing_is_held_for_good(seed: int) -> None:
    play(seed)


def test_the_stories_are_worth_telling() -> None:
    met = set[str]()
    for seed in range(30):
        met |= play(seed)
    happened = {"made", "sent elsewhere", "rebuilt", "refused", "drained", "waits", "restart"}
    assert met == happened | {"stale", "no node"}
