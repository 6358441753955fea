"""In every history: no claim gets a selected-node, and no volume a claim, before its pod is nominated there; and nobody
takes the room of a pod that is on its way (KEP-5278).

Histories are drawn: bursts of pods with a claim, rivals without, writes that fail, volumes that come or are refused,
pods that are deleted and made again, a scheduler that is stopped or killed at any moment and started anew.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any, TypeVar

import pytest
from scheduler_volume_rig import SchedulerRig

from tonnage.client.errors import Disconnected
from tonnage.errors import Conflict, InternalError, ServiceUnavailable, TonnageError, TooManyRequests
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Object
from tonnage.scheduler.nominations import TRIES
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class, volume

T = TypeVar("T", bound=Object)

SELECTED = "volume.kubernetes.io/selected-node"
NODES = 6
CPUS = 2


class Watched(SchedulerRig):
    """A server that looks at each write of the scheduler's."""

    is_dead = False
    """The scheduler was killed: nothing that it still does arrives."""

    def __init__(self, *objects: Object, **options: Any) -> None:
        self.remade: set[str] = set()
        super().__init__(*objects, **options)

    def called(self, verb: str, key: str) -> None:
        if self.is_dead:
            raise Disconnected("PATCH", key, "the scheduler is dead", in_doubt=False)
        super().called(verb, key)

    def event(self, *_: Any, **__: Any) -> None: ...

    def change(self, cls: type[T], key: str, patch: Mapping[str, Any]) -> T:
        node_name = patch.get("metadata", {}).get("annotations", {}).get(SELECTED, "")
        if cls is PersistentVolumeClaim and node_name:
            assert self.nominated(key.partition("/")[2]) == node_name, f"{key} got {node_name} before its pod did"
        if cls is PersistentVolume and "claimRef" in patch.get("spec", {}):
            assert self.nominated(patch["spec"]["claimRef"]["name"]), f"{key} was given away before its pod had a node"
        return super().change(cls, key, patch)

    def nominated(self, name: str) -> str:
        found = self.pod(f"default/{name}")
        return found.status.nominated_node_name if found is not None else ""

    def check_room(self) -> None:
        """The CPUs of pods that are bound and of pods on their way are no more than a node has.

        A pod that was made again finds its claim's node as it is: others had the room meanwhile.
        """
        used = dict.fromkeys((f"n{number}" for number in range(NODES)), 0)
        for each in self.objects.values():
            if isinstance(each, Pod):
                on = each.spec.node_name
                if not on and each.spec.volumes and each.metadata.uid not in self.remade:
                    wanted = self.claim(each.name)
                    on = wanted.selected_node if not wanted.is_bound else each.status.nominated_node_name
                if on:
                    used[on] += 1
        assert max(used.values()) <= CPUS, used


def world(rng: random.Random) -> list[Object]:
    local = storage_class("local", provisioner="kubernetes.io/no-provisioner")
    made: list[Object] = [storage_class(), driver(), local]
    for number in range(NODES):
        name = f"n{number}"
        made += [node(name, cpu=str(CPUS)), capacity("fast", name, "100Gi")]
        made += [volume(f"disk-{name}", on=name, class_name="local")] if rng.random() < 0.5 else []
    return made


FAILURES: tuple[TonnageError, ...] = (
    InternalError("etcd has no leader"),
    ServiceUnavailable("not now"),
    TooManyRequests("too many"),
    Conflict("somebody was faster"),
    Disconnected("PATCH", "/api/v1", "connection reset", in_doubt=False),
)


class History:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.is_rough = seed % 2 == 1
        """Bindings fail, too. A pod that failed on a node twice holds nothing there, and room is not looked at."""
        self.mode = "Object" if seed % 4 == 3 else "Ledger"
        self.rig = Watched(*world(self.rng), reservation=self.mode)
        self.count = 0
        self.quiet_until = 0.0

    def burst(self) -> None:
        for _ in range(self.rng.randrange(1, 6)):
            self.count += 1
            if self.rng.random() < 0.4:
                self.rig.add(pod(f"rival-{self.count}", cpu="1"))
                continue
            name = f"db-{self.count}"
            class_name = self.rng.choice(["fast", "fast", "local"])
            self.rig.add(claim(name, class_name=class_name), pod_with(name, name, cpu="1"))

    def fail(self) -> None:
        """Fewer writes to a pod's status than are tried before a binding goes on without, and some others."""
        if self.rig.clock.monotonic() >= self.quiet_until:
            self.rig.refuse_status = self.rng.choices(FAILURES, k=self.rng.randrange(1, TRIES))
            self.quiet_until = self.rig.clock.monotonic() + 12.0
        if self.is_rough:
            self.rig.refuse.append(Conflict("somebody was faster"))

    def claims(self) -> list[PersistentVolumeClaim]:
        found = [each for each in self.rig.objects.values() if isinstance(each, PersistentVolumeClaim)]
        return [each for each in found if not each.is_bound and each.selected_node]

    def provision(self) -> None:
        for each in self.claims():
            if self.rng.random() < 0.5:
                self.rig.provision(each.name)

    def refuse_a_volume(self) -> None:
        for each in self.claims()[:1]:
            SchedulerRig.change(
                self.rig, PersistentVolumeClaim, each.key, {"metadata": {"annotations": {SELECTED: None}}}
            )

    def remake(self) -> None:
        """A pod is deleted and made again; its claim stays as it is."""
        pods = [each for each in self.rig.objects.values() if isinstance(each, Pod)]
        if pods:
            old = self.rng.choice(pods)
            self.rig.delete(Pod, old.key)
            self.rig.bound.pop(old.key, None)
            if old.spec.volumes:
                self.count += 1
                uid = f"{old.name}-{self.count}"
                self.rig.remade.add(uid)
                self.rig.add(pod_with(old.name, old.name, cpu="1", metadata={"uid": uid}))

    def check(self) -> None:
        """Mode Object forgets its reservations at a restart: a newcomer may reserve what a pod on its way needs."""
        if not self.is_rough and self.mode == "Ledger":
            self.rig.check_room()

    async def play(self) -> None:
        acts = (self.burst, self.burst, self.fail, self.provision, self.refuse_a_volume, self.remake)
        for _ in range(3):
            async with self.rig.running():
                for _ in range(12):
                    self.rng.choice(acts)()
                    for _ in range(self.rng.randrange(6)):
                        await asyncio.sleep(0)
                    self.check()
                    await self.rig.settle(self.rng.choice([0.0, 0.0, 0.3, 2.0, 15.0]))
                    self.check()
                self.burst()
                for _ in range(self.rng.randrange(12)):
                    await asyncio.sleep(0)
                self.rig.is_dead = self.rng.random() < 0.5
            self.restart()
        async with self.rig.running():
            for _ in range(40):
                for each in self.claims():
                    self.rig.provision(each.name)
                await self.rig.settle(5.0)
                self.check()

    def restart(self) -> None:
        before = self.rig
        objects = list(before.objects.values())
        self.rng.shuffle(objects)
        self.rig = Watched(*objects, reservation=self.mode)
        self.rig._version = before._version
        self.rig.bound, self.rig.remade = dict(before.bound), before.remade
        self.quiet_until = 0.0
        self.check()


@pytest.mark.parametrize("seed", range(12))
async def test_no_claim_has_its_node_before_its_pod_and_nobody_takes_the_room_of_a_pod_on_its_way(seed):
    history = History(seed)
    await history.play()
    # It was not idle: some ran, and some could not.
    assert history.rig.bound
