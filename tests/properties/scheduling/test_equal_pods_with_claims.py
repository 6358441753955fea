"""Equal pods with claims of their own: an engine that remembers decides as one that has just been made.

Nodes, CSINodes, capacity objects, claims, classes and pods come, change and go; pods are placed, withdrawn, bound and
deleted; capacity is refreshed, promises end. After each step the next pod is decided twice with the same lots: by the
profile that has been there all along, and by one that was assembled just now and knows nothing. Both must agree on
everything: who refuses which node and why, how many are left, and which one is taken.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from support.configurations import storage_configuration
from support.virtual_clock import VirtualClock
from tonnage.objects.core_v1.persistent_volume import BIND_COMPLETED
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.decision.scheduling_cycle import Decision
from tonnage.scheduling.engine.attempt import Placement
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.engine.profiles import assemble
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, csi_node, driver, pod_with, storage_class, volume

CLASSES = ("fast", "slow")
MODES = ("Object", "Ledger", "None")


class Story:
    """An engine, what happens to it, and the pods it places."""

    def __init__(self, seed: int, mode: str, nodes: int) -> None:
        self.rng = random.Random(seed)
        self.lots = random.Random(seed)
        profiles = parse(storage_configuration(reservation=mode), source="test").profiles
        self.profile = profiles[0]
        self.engine = Engine(profiles, clock=VirtualClock(), rng=self.lots)
        self.cluster = self.engine.cluster
        self.placements: list[Placement] = []
        self.numbers = iter(range(100_000))
        self.pod_numbers = iter(range(100_000))
        self.versions = iter(range(1, 1_000_000))
        self._put(driver("csi.example"))
        for name in CLASSES:
            self._put(storage_class(name))
        for _ in range(nodes):
            self.put_node(f"n{next(self.numbers)}")
        self.engine.open()

    # -- what happens -------------------------------------------------------------------------------------------------

    def _put(self, each: Any) -> None:
        storage = self.cluster.storage
        version = str(next(self.versions))
        self_made = msgspec.structs.replace(
            each, metadata=msgspec.structs.replace(each.metadata, resource_version=version)
        )
        storage.put(self_made)

    def put_node(self, name: str) -> None:
        rng = self.rng
        labels = {"zone": rng.choice("ab"), "disk": rng.choice(("ssd", "hdd"))}
        self.cluster.put_node(node(name, cpu=rng.choice(("2", "4")), labels=labels, unschedulable=rng.random() < 0.1))
        if rng.random() < 0.8:
            self._put(csi_node(name, {"csi.example": rng.choice((2, 5, 50))}))
        self.put_capacity(name)

    def put_capacity(self, name: str) -> None:
        rng, class_name = self.rng, self.rng.choice(CLASSES)
        pools = [f"{rng.choice((5, 20, 40))}Gi" for _ in range(rng.choice((1, 1, 3)))]
        self._put(capacity(class_name, name, free="100Gi", pools=pools))

    def happen(self) -> None:
        rng = self.rng
        for _ in range(rng.choice((0, 0, 1, 1, 2, 8))):
            names = sorted(self.cluster.row_of) or ["none"]
            match rng.randrange(12):
                case 0:
                    self.put_node(f"n{next(self.numbers)}")
                case 1:
                    self.cluster.remove_node(rng.choice(names))
                case 2:
                    self.put_node(rng.choice(names))
                case 3 | 4 | 5:
                    self.refresh()
                case 6:
                    self._put(csi_node(rng.choice(names), {"csi.example": rng.choice((1, 3, 50))}))
                case 7 | 8:
                    self.end_a_placement()
                case 9:
                    self.bind_a_claim()
                case 10:
                    self._put(storage_class(rng.choice(CLASSES), topologies=rng.choice(([], [], [{"zone": ["a"]}]))))
                case 11:
                    self.static_volume()

    def refresh(self) -> None:
        known = list(self.cluster.storage.capacities.values())
        if not known:
            return
        each = self.rng.choice(known)
        match self.rng.randrange(4):
            case 0:
                self.put_capacity(each.name.partition("-")[2])
            case 1:
                self.cluster.storage.remove(each)
            case _:
                self._put(each)

    def end_a_placement(self) -> None:
        if not self.placements:
            return
        placement = self.placements.pop(self.rng.randrange(len(self.placements)))
        if self.rng.random() < 0.5:
            self.engine.withdraw(placement)
            return
        self.engine.assumed.gone(placement.pod.uid)
        self.engine.held.pod_gone(placement.pod.uid)
        if self.rng.random() < 0.5:
            for key in placement.pod.claim_keys:
                self.cluster.storage.claims.remove(key)

    def bind_a_claim(self) -> None:
        sent = list(self.cluster.storage.claims.assumed())
        if not sent:
            return
        each = self.rng.choice(sent)
        name = f"pv-{each.name}"
        self._put(volume(name, "10Gi", class_name=each.class_name, claim=each.key))
        annotations = {**each.metadata.annotations, BIND_COMPLETED: "yes"}
        metadata = msgspec.structs.replace(each.metadata, annotations=annotations)
        self._put(
            msgspec.structs.replace(each, metadata=metadata, spec=msgspec.structs.replace(each.spec, volume_name=name))
        )

    def static_volume(self) -> None:
        name = f"static-{self.rng.randrange(3)}"
        known = self.cluster.storage.volumes.get(name)
        if known is not None:
            self.cluster.storage.remove(known)
        elif self.rng.random() < 0.3:
            self._put(volume(name, "15Gi", class_name=self.rng.choice(CLASSES), phase="Available"))

    # -- what is decided ----------------------------------------------------------------------------------------------

    def next_pod(self) -> PodInfo:
        """One of a few kinds, as often as not of the kind before; its claims are its own."""
        rng, number = self.rng, next(self.pod_numbers)
        kind = rng.randrange(5)
        names = [f"data-{number}-{i}" for i in range((1, 1, 2, 3, 0)[kind])]
        for place, name in enumerate(names):
            class_name = CLASSES[1] if kind == 1 or (kind == 3 and place) else CLASSES[0]
            self._put(claim(name, f"{(10, 10, 4, 6, 0)[kind]}Gi", class_name=class_name))
        selector = {"disk": "ssd"} if kind == 0 else {}
        return PodInfo(pod_with(f"p-{number}", *names, cpu="100m", memory="64Mi", node_selector=selector))

    def decide_twice(self, pod: PodInfo) -> Decision:
        lots = self.lots.getstate()
        fresh = assemble(self.profile, self.lots).decider.decide(self.cluster, pod, diagnose=True)
        self.lots.setstate(lots)
        # Asked for a diagnosis, a decision goes another way: both ways are to be seen.
        told = self.engine.profiles[self.profile.scheduler_name].decider.decide(self.cluster, pod, diagnose=True)
        self.lots.setstate(lots)
        known = self.engine.profiles[self.profile.scheduler_name].decider.decide(self.cluster, pod)
        self.lots.setstate(lots)
        for each in (told, known):
            assert (each.node, each.feasible, each.error) == (fresh.node, fresh.feasible, fresh.error)
            if each.cycle.passing is not None and fresh.cycle.passing is not None:
                assert np.array_equal(each.cycle.passing, fresh.cycle.passing)
        assert _told(told) == _told(fresh)
        if not fresh.fits:
            assert _told(known) == _told(fresh)
        return known

    def place(self, pod: PodInfo) -> None:
        expected = self.decide_twice(pod)
        attempt = self.engine.place(pod)
        assert (attempt.placement.node if attempt.placement else "") == expected.node
        if attempt.placement is not None:
            self.placements.append(attempt.placement)


def _told(decision: Decision) -> str:
    return decision.diagnosis.message() if decision.diagnosis is not None else ""


@settings(max_examples=tries(12), deadline=None)
@given(seed=st.integers(0, 2**32), mode=st.sampled_from(MODES), nodes=st.sampled_from((1, 3, 12, 70)))
def test_what_is_remembered_of_equal_pods_is_what_is_true_now(seed: int, mode: str, nodes: int):
    story = Story(seed, mode, nodes)
    for _ in range(30):
        story.happen()
        story.place(story.next_pod())
