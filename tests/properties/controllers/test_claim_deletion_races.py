"""However pods and claims are deleted and made anew, no pod has a volume whose claim is gone or is another one.

A server, and actors that each look at an old view of it and make their steps one by one, in any order: people delete
the pod and the claim and make both again; a scheduler that cares for nothing gives any pod its node; claim protection
removes the finalizer; the volume of a claim that is gone is Released; the node mounts. The rules are the real ones.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator

import pytest

from tonnage.client.cache import remove_finalizer
from tonnage.controllers.volumes.protection import pod_uses_claim
from tonnage.node.context import VolumeLookup
from tonnage.node.mounts.mount_plan import NotProcessed, plan_mounts, plan_volume
from tonnage.objects.core_v1 import PVC_PROTECTION, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.testing.storage_builders import claim, pod_with, volume

KEY = "default/data"
GOING = {"deletionTimestamp": "2026-11-16T00:00:00Z"}
Work = Iterator[None]


@dataclasses.dataclass
class Objects:
    """The pods by uid, the one claim there is, the volumes by name."""

    pods: dict[str, Pod]
    claim: PersistentVolumeClaim | None
    volumes: dict[str, PersistentVolume]

    def copy(self) -> Objects:
        return Objects(dict(self.pods), self.claim, dict(self.volumes))

    def lookup(self) -> VolumeLookup:
        return VolumeLookup(claim=lambda _: self.claim, volume=self.volumes.get, driver=lambda _: None)


class DeletedClaims:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.server = Objects({}, None, {})
        self.views = {name: self.server.copy() for name in ("protection", "node")}
        self.mounted: dict[str, PersistentVolume] = {}
        self.made = 0
        self.work: list[Work] = []
        self.seen: set[str] = set()

    # -- people, the scheduler, the binder ----------------------------------------------------------------------------

    def make_pod(self) -> None:
        if not any(each.name == "db-0" for each in self.server.pods.values()):
            self.made += 1
            self.put_pod(f"pod-{self.made}", on="")

    def put_pod(self, uid: str, *, on: str, going: bool = False) -> None:
        metadata = {"uid": uid, **(GOING if going else {})}
        self.server.pods[uid] = pod_with("db-0", "data", on=on or None, metadata=metadata)

    def send_pod(self) -> None:
        for uid, each in tuple(self.server.pods.items()):
            if not each.spec.node_name and not each.metadata.is_terminating:
                self.put_pod(uid, on="node-1")

    def delete_pod(self) -> None:
        for uid, each in tuple(self.server.pods.items()):
            if each.spec.node_name:
                self.put_pod(uid, on="node-1", going=True)
            else:
                del self.server.pods[uid]

    def make_claim(self) -> None:
        """Make the claim, bound to a volume of its own: the old one's must not be found by it."""
        if self.server.claim is None:
            self.made += 1
            uid, name = f"claim-{self.made}", f"pv-{self.made}"
            self.put_claim(uid, name, finalizers=[PVC_PROTECTION])
            self.server.volumes[name] = volume(name, claim=KEY, claim_uid=uid, phase="Bound")

    def put_claim(self, uid: str, name: str, *, finalizers: list[str], going: bool = False) -> None:
        metadata = {"uid": uid, "finalizers": finalizers, **(GOING if going else {})}
        self.server.claim = claim("data", volume=name, metadata=metadata)

    def delete_claim(self) -> None:
        found = self.server.claim
        if found is not None and not found.metadata.is_terminating:
            self.put_claim(found.uid, found.spec.volume_name, finalizers=[PVC_PROTECTION], going=True)

    def release(self) -> None:
        for name, found in tuple(self.server.volumes.items()):
            owner = found.spec.claim_ref
            if owner is not None and (self.server.claim is None or self.server.claim.uid != owner.uid):
                self.server.volumes[name] = volume(name, claim=KEY, claim_uid=owner.uid, phase="Released")

    # -- protection and the node, step by step ------------------------------------------------------------------------

    def protect(self) -> Work:
        view = self.views["protection"]
        found = view.claim
        if found is None or not found.metadata.is_terminating:
            return
        if any(pod_uses_claim(each, found) for each in view.pods.values()):
            return
        listed = tuple(self.server.pods.values())
        yield
        if any(pod_uses_claim(each, found) for each in listed) or remove_finalizer(found, PVC_PROTECTION) is None:
            return
        now = self.server.claim
        if now is not None and now.metadata.resource_version == found.metadata.resource_version:
            self.server.claim = None
            self.seen.add("a claim went")

    def mount(self) -> Work:
        for uid, pod in tuple(self.views["node"].pods.items()):
            if not pod.spec.node_name or pod.metadata.is_terminating or uid in self.mounted:
                continue
            for to_mount in plan_mounts(pod, self.views["node"].lookup()).volumes_to_mount:
                yield
                live = Objects({}, self.server.claim, {})
                yield
                live.volumes = dict(self.server.volumes)
                yield
                try:
                    found = plan_volume(pod, pod.spec.volumes[0], live.lookup())
                except NotProcessed as exc:
                    self.seen.add(str(exc).partition(KEY)[2].split("UID")[0])
                    continue
                still = self.server.pods.get(uid)
                if still is not None and found is not None and found.record == to_mount.record:
                    assert found.volume is not None
                    self.mounted[uid] = found.volume
                    self.seen.add("mounted")

    def unmount(self) -> Work:
        for uid, pod in tuple(self.views["node"].pods.items()):
            if pod.metadata.is_terminating:
                self.mounted.pop(uid, None)
                yield
                if uid not in self.mounted:
                    self.server.pods.pop(uid, None)

    # -- time ---------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        makes = (self.make_pod, self.send_pod, self.make_claim, self.release)
        match self.rng.randrange(20):
            case 0:
                self.rng.choice((self.delete_pod, self.delete_claim))()
            case 1 | 2:
                self.rng.choice(makes)()
            case 3 | 4 | 5:
                self.views[self.rng.choice(tuple(self.views))] = self.server.copy()
            case 6 | 7:
                self.work.append(self.rng.choice((self.protect, self.mount, self.unmount))())
            case _ if self.work:
                work = self.rng.choice(self.work)
                try:
                    next(work)
                except StopIteration:
                    self.work.remove(work)

    def check(self) -> None:
        for uid, mounted in self.mounted.items():
            assert mounted.spec.claim_ref is not None and self.server.claim is not None, f"{uid}: the claim is gone"
            assert mounted.spec.claim_ref.uid == self.server.claim.uid, f"{uid}: the volume is another claim's"
            assert self.server.volumes[mounted.name].status.phase == "Bound"


@pytest.mark.parametrize("seed", range(6))
def test_no_pod_has_a_volume_whose_claim_is_gone(seed: int):
    world = DeletedClaims(seed)
    for _ in range(20_000):
        world.step()
        world.check()
    assert {"a claim went", "mounted", ": PVC is being deleted"} <= world.seen
