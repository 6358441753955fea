"""Nobody waits whom a node would take, where gated pods are nominated to nodes and others bind pods too.

The world of `test_waking_strands_nobody`, with pods that hold room and are never tried: they come, are nominated
elsewhere, in the API and in memory, are bound by another scheduler, and lose their claims, classes and capacity.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from test_waking_strands_nobody import EVENTS, NODES, OFTEN, WokenEngine, play_in

from tonnage.objects.core_v1 import Node, PersistentVolumeClaim, Pod
from tonnage.objects.storage_v1 import CSIStorageCapacity, StorageClass
from tonnage.testing.storage_builders import capacity, claim, pod_with, storage_class

GATED: Mapping[str, Any] = {"schedulingGates": [{"name": "wait"}]}


class NominatedWorld(WokenEngine):
    def waiting(self) -> list[Pod]:
        return [each for each in self.of(Pod) if not each.spec.node_name]

    def gated(self) -> list[Pod]:
        return [each for each in self.waiting() if each.spec.scheduling_gates]

    def gated_pod_comes(self) -> None:
        rng, name = self.rng, f"x{next(self._numbers):03}"
        claims = [f"{name}-{number}" for number in range(rng.choice((0, 1, 1, 2)))]
        for each in claims:
            if rng.random() < 0.9:
                kind, size = (
                    rng.choice(("fast", "fast", "fast", "late", "gone", "slow")),
                    rng.choice((1, 5, 15, 30, 500)),
                )
                self.put(claim(each, f"{size}Gi", class_name=kind))
        more: Any = {"cpu": rng.choice(("100m", "700m", "1500m")), "priority": rng.choice((0, 0, 5))}
        self.put(pod_with(name, *claims, spec=GATED, status={"nominatedNodeName": rng.choice(NODES)}, **more))

    def pod_is_nominated(self) -> None:
        found = self.gated() if self.rng.random() < 0.5 else self.waiting()
        if found:
            before, where = self.rng.choice(found), self.rng.choice((*NODES, ""))
            status = msgspec.structs.replace(before.status, nominated_node_name=where)
            self.put(msgspec.structs.replace(before, status=status))

    def pod_is_nominated_in_memory(self) -> None:
        if found := self.gated():
            self.engine.queue.nominator.expect(self.rng.choice(found), self.rng.choice(NODES))

    def pod_is_bound_by_another(self) -> None:
        if found := self.waiting():
            chosen, where = self.rng.choice(found), self.rng.choice(self.of(Node)).name
            if all((PersistentVolumeClaim, f"default/{name}") in self.objects for name in chosen.claim_names()):
                self._place(chosen, where)

    def gate_opens(self) -> None:
        if found := self.gated():
            before = self.rng.choice(found)
            self.put(msgspec.structs.replace(before, spec=msgspec.structs.replace(before.spec, scheduling_gates=())))

    def claim_goes(self) -> None:
        used = {name for each in self.waiting() for name in each.claim_names()}
        if found := [each for each in self.of(PersistentVolumeClaim) if each.name in used]:
            self.remove(PersistentVolumeClaim, self.rng.choice(found).key)

    def claim_is_selected(self) -> None:
        """Another scheduler selects a node for a claim, or a provisioner gives it back."""
        if found := [each for each in self.of(PersistentVolumeClaim) if not each.spec.volume_name]:
            before, where = self.rng.choice(found), self.rng.choice((*NODES, ""))
            size, modes = str(before.spec.resources.requests["storage"]), before.spec.access_modes
            self.put(claim(before.name, size, class_name=before.class_name, modes=modes, selected_node=where))

    def capacity_goes(self) -> None:
        if found := self.of(CSIStorageCapacity):
            self.remove(CSIStorageCapacity, self.rng.choice(found).key)

    def second_object_comes(self) -> None:
        where, kind, free = self.rng.choice(NODES), self.rng.choice(("fast", "late")), self.rng.choice((5, 15, 35))
        here = {"matchLabels": {"kubernetes.io/hostname": where}}
        self.put(capacity(kind, name=f"second-{kind}-{where}", free=f"{free}Gi", topology=here))

    def late_class_goes_or_comes(self) -> None:
        if (StorageClass, "late") in self.objects:
            self.remove(StorageClass, "late")
        else:
            self.put(storage_class("late"))

    def classes_share_pools(self) -> None:
        group = self.rng.choice(("", "disks"))
        self.put(storage_class(group=group), storage_class("late", group=group))

    def stranded(self) -> list[str]:
        gated = {each.name for each in self.gated()}
        return [name for name in super().stranded() if name not in gated]


NOMINATIONS = (
    "gated_pod_comes",
    "gated_pod_comes",
    "pod_is_nominated",
    "pod_is_nominated",
    "pod_is_nominated_in_memory",
    "pod_is_bound_by_another",
    "gate_opens",
    "claim_goes",
    "claim_is_selected",
    "capacity_goes",
    "second_object_comes",
    "late_class_goes_or_comes",
    "classes_share_pools",
)


def play(seed: int, reservation: str) -> None:
    """Every second world is calm: where much happens, somebody else's event wakes a pod that was forgotten."""
    others = (*EVENTS, *OFTEN) if seed % 2 else ("pods_come", "pods_come", "unlike_pods_come")
    play_in(NominatedWorld(seed, reservation), seed, 40, (*others, *NOMINATIONS, *NOMINATIONS))


@pytest.mark.parametrize("reservation", ["Object", "Ledger", "None"])
@pytest.mark.parametrize("seed", range(6))
def test_nobody_waits_for_room_that_a_nominated_pod_does_not_hold(seed: int, reservation: str) -> None:
    play(seed, reservation)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 250))
def test_nobody_waits_for_room_that_a_nominated_pod_does_not_hold_at_length(seed: int) -> None:
    play(seed, ("Object", "Ledger", "None")[seed % 3])
