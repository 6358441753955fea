"""VolumeZone and VolumeRestrictions answer for all rows what their slow twins answer for one node after the other.

The twins follow upstream's getPVbyPod and Filter, and satisfyVolumeConflicts with the ReadWriteOncePod check, on plain
objects, scanning everything each time. Values are few, so that zones match, disks are shared and claims are taken.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from support.mirrored_cluster import MirroredCluster
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod, Volume
from tonnage.scheduling.cluster.columns import Rows, row_numbers
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.framework import SKIP, Code, Cycle, Judgement, Status
from tonnage.scheduling.plugins.volume_constraints import VolumeRestrictions, VolumeZone
from tonnage.testing.builders import Doc, node, pod
from tonnage.testing.storage_builders import claim, storage_class, volume

modest = settings(max_examples=tries(250), deadline=None)

NODES = ("n0", "n1", "n2", "n3")
CLAIMS = ("c0", "c1", "c2")
VOLUMES = ("v0", "v1", "v2")
PODS = ("p0", "p1", "p2", "p3", "p4")
BETA = "failure-domain.beta.kubernetes.io/"
GA = "topology.kubernetes.io/"
LABELS = (f"{BETA}zone", f"{BETA}region", f"{GA}zone", f"{GA}region")

DISK = "node(s) had no available disk"
TAKEN = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
ELSEWHERE = "node(s) had no available volume zone"


# -- a made-up cluster ------------------------------------------------------------------------------------------------


def namespace_of(name: str) -> str:
    return "other" if name in ("p4", "in-other") else "default"


class ZonedCluster(MirroredCluster):
    """A cluster with zones, shared disks and claims for one pod, which change by lot."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.rng = rng

    def step(self) -> None:
        change = self.rng.choice(
            (self.change_node, self.change_pod, self.change_pod, self.change_claim, self.change_volume)
        )
        change()

    def change_node(self) -> None:
        name = self.rng.choice(NODES)
        if name in self.nodes and self.rng.random() < 0.5:
            self.remove(Node, name)
        else:
            self.put_node(name)

    def put_node(self, name: str) -> None:
        self.put(node(name, labels=self.labels(("a", "b", "c", ""), 0.4)))

    def labels(self, values: Sequence[str], chance: float) -> dict[str, str]:
        return {key: self.rng.choice(values) for key in LABELS if self.rng.random() < chance}

    def change_pod(self) -> None:
        name = self.rng.choice(PODS)
        uid = f"{namespace_of(name)}-{name}"
        if uid in self.pods and self.rng.random() < 0.4:
            self.remove(Pod, uid)
        else:
            self.put(self.pod(name, on=self.rng.choice((*NODES, "ghost"))))

    def pod(self, name: str, on: str = "") -> Pod:
        volumes = [{"name": f"v{i}", **self.source()} for i in range(self.rng.choice((0, 1, 2, 2, 3)))]
        return pod(name, namespace=namespace_of(name), on=on, spec={"volumes": volumes})

    def source(self) -> Doc:
        rng = self.rng
        read_only, name = rng.random() < 0.5, rng.choice("xy")
        monitors = rng.sample(("m1", "m2", "m3"), rng.choice((0, 1, 2, 2)))
        sources: list[Doc] = [
            *[{"persistentVolumeClaim": {"claimName": rng.choice((*CLAIMS, *CLAIMS, "p0-v0", "missing"))}}] * 4,
            *[{"ephemeral": {"volumeClaimTemplate": {}}}] * 2,
            {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}},
            {"awsElasticBlockStore": {"volumeID": name, "readOnly": read_only}},
            {"iscsi": {"iqn": name, "readOnly": read_only}},
            *[{"rbd": {"monitors": monitors, "image": name, "pool": rng.choice("pq"), "readOnly": read_only}}] * 2,
            {"emptyDir": {}},
        ]
        return rng.choice(sources)

    def change_claim(self) -> None:
        rng = self.rng
        namespace, name = rng.choice(("default", "other")), rng.choice((*CLAIMS, "p0-v0"))
        key = f"{namespace}/{name}"
        if key in self.claims and rng.random() < 0.1:
            self.remove(PersistentVolumeClaim, key)
            return
        modes = rng.choice((("ReadWriteOnce",), ("ReadWriteOncePod",), ("ReadOnlyMany", "ReadWriteOncePod")))
        class_name = rng.choice(("waits", "waits", "waits", "at-once", "unknown", "", None))
        bound = rng.choice((*VOLUMES, *VOLUMES, "unknown", "", ""))
        self.put(claim(name, namespace=namespace, class_name=class_name, volume=bound, modes=modes))

    def change_volume(self) -> None:
        name = self.rng.choice(VOLUMES)
        if name in self.volumes and self.rng.random() < 0.1:
            self.remove(PersistentVolume, name)
        else:
            self.put_volume(name)

    def put_volume(self, name: str) -> None:
        texts = ("a", "b", "a__b", " a __c", "a__", "", "nowhere")
        self.put(volume(name, labels=self.labels(texts, 0.3)))


def _made(seed: int, steps: int) -> ZonedCluster:
    world = ZonedCluster(random.Random(seed))
    world.put(storage_class("waits"), storage_class("at-once", delayed=False))
    for name in NODES[:3]:
        world.put_node(name)
    for name in VOLUMES:
        world.put_volume(name)
    for _ in range(12):
        world.change_claim()
    for _ in range(steps):
        world.step()
    return world


worlds = st.builds(_made, st.integers(0, 2**32), st.integers(0, 30))


# -- the twins --------------------------------------------------------------------------------------------------------


def named_claims(each: Pod) -> list[str]:
    return [v.persistent_volume_claim.claim_name for v in each.spec.volumes if v.persistent_volume_claim is not None]


def topologies(world: ZonedCluster, incoming: Pod) -> list[tuple[str, set[str]]] | str:
    """getPVbyPod; a text for a refusal of all nodes at once"""
    found: list[tuple[str, set[str]]] = []
    for name in named_claims(incoming):
        its_claim = world.claims.get(f"{incoming.metadata.namespace}/{name}")
        if its_claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        bound = its_claim.spec.volume_name
        if not bound:
            class_name = its_claim.spec.storage_class_name or ""
            if not class_name:
                return "PersistentVolumeClaim had no pv name and storageClass name"
            if class_name not in world.classes:
                return f'storageclass.storage.k8s.io "{class_name}" not found'
            if world.classes[class_name].volume_binding_mode != "WaitForFirstConsumer":
                return "PersistentVolume had no name"
            continue
        if bound not in world.volumes:
            return f'persistentvolume "{bound}" not found'
        for key in LABELS:
            if key in world.volumes[bound].metadata.labels:
                zones = [zone.strip() for zone in world.volumes[bound].metadata.labels[key].split("__")]
                if all(zones):
                    found.append((key, set(zones)))
    return found


def zone_twin(asked: list[tuple[str, set[str]]], labels: dict[str, str]) -> bool:
    """VolumeZone.Filter; whether the node is refused"""
    if not any(key in labels for key in LABELS):
        return False
    for key, values in asked:
        value = labels.get(key)
        if value is None:
            value = labels.get(key.replace(BETA, GA))
        if value is None or value not in values:
            return True
    return False


def is_volume_conflict(mine: Volume, existing: Pod) -> bool:
    """isVolumeConflict"""
    for theirs in existing.spec.volumes:
        if mine.gce_persistent_disk is not None and theirs.gce_persistent_disk is not None:
            gce, held_gce = mine.gce_persistent_disk, theirs.gce_persistent_disk
            if gce.pd_name == held_gce.pd_name and not (gce.read_only and held_gce.read_only):
                return True
        ebs, held_ebs = mine.aws_elastic_block_store, theirs.aws_elastic_block_store
        if ebs is not None and held_ebs is not None and ebs.volume_id == held_ebs.volume_id:
            return True
        if mine.iscsi is not None and theirs.iscsi is not None:
            iscsi, held_iscsi = mine.iscsi, theirs.iscsi
            if iscsi.iqn == held_iscsi.iqn and not (iscsi.read_only and held_iscsi.read_only):
                return True
        if mine.rbd is not None and theirs.rbd is not None:
            rbd, held_rbd = mine.rbd, theirs.rbd
            overlap = any(monitor in held_rbd.monitors for monitor in rbd.monitors)
            same = overlap and rbd.pool == held_rbd.pool and rbd.image == held_rbd.image
            if same and not (rbd.read_only and held_rbd.read_only):
                return True
    return False


def visible(world: ZonedCluster) -> list[Pod]:
    """Pods on nodes that exist; the others are nobody's."""
    return [each for each in world.pods.values() if each.spec.node_name in world.nodes]


def is_taken(world: ZonedCluster, incoming: Pod) -> bool:
    """calPreFilterState: anybody, anywhere, with a claim that this pod must have for itself"""
    namespace = incoming.metadata.namespace
    used = {(each.metadata.namespace, name) for each in visible(world) for name in named_claims(each)}
    return any(
        "ReadWriteOncePod" in world.claims[f"{namespace}/{name}"].spec.access_modes and (namespace, name) in used
        for name in named_claims(incoming)
    )


def restrictions_twin(world: ZonedCluster, incoming: Pod, node_name: str) -> str:
    """VolumeRestrictions.Filter"""
    for mine in incoming.spec.volumes:
        if any(is_volume_conflict(mine, each) for each in visible(world) if each.spec.node_name == node_name):
            return DISK
    return TAKEN if is_taken(world, incoming) else ""


# -- asking -----------------------------------------------------------------------------------------------------------


def some_rows(world: ZonedCluster) -> list[Rows]:
    size = world.cluster.size
    chosen = np.array(world.rng.sample(range(size), world.rng.randint(1, size)), dtype=np.intp)
    return [world.cluster.all_rows, *[slice(row, row + 1) for row in range(size)], chosen]


def told(judgement: Judgement | None, place: int, *, final: bool) -> str:
    if judgement is None or not judgement.bits[place]:
        return ""
    assert judgement.unresolvable is final
    return ", ".join(reason for i, reason in enumerate(judgement.reasons) if judgement.bits[place] >> i & 1)


def refusal(answer: object) -> str:
    """What PreFilter says against all nodes, for good."""
    if not isinstance(answer, Status) or answer is SKIP:
        return ""
    assert answer.code is Code.UNRESOLVABLE
    return answer.message


@modest
@given(worlds)
def test_zones_are_judged_as_the_twin_does(world: ZonedCluster) -> None:
    plugin = VolumeZone()
    for _ in range(8):
        for _ in range(world.rng.randint(0, 3)):
            world.step()
        incoming = world.pod(world.rng.choice(("in", "in", "in-other")))
        asked = topologies(world, incoming)
        cycle = Cycle(PodInfo(incoming), world.cluster)
        answer = plugin.pre_filter(cycle)
        assert refusal(answer) == (asked if isinstance(asked, str) else "")
        if isinstance(asked, str):
            continue
        assert (answer is SKIP) == (not asked)
        if answer is SKIP:
            continue
        for rows in some_rows(world):
            judgement = plugin.filter(cycle, rows)
            for place_, row in enumerate(row_numbers(rows).tolist()):
                if name := world.cluster.name(row):
                    expected = ELSEWHERE if zone_twin(asked, dict(world.nodes[name].metadata.labels)) else ""
                    assert told(judgement, place_, final=True) == expected, name


@modest
@given(worlds)
def test_disks_and_claims_are_judged_as_the_twin_does(world: ZonedCluster) -> None:
    plugin = VolumeRestrictions()
    for _ in range(8):
        for _ in range(world.rng.randint(0, 3)):
            world.step()
        incoming = world.pod(world.rng.choice(("in", "in", "in-other")))
        namespace = incoming.metadata.namespace
        missing = [name for name in named_claims(incoming) if f"{namespace}/{name}" not in world.claims]
        cycle = Cycle(PodInfo(incoming), world.cluster)
        answer = plugin.pre_filter(cycle)
        assert refusal(answer) == (f'persistentvolumeclaim "{missing[0]}" not found' if missing else "")
        if missing:
            continue
        expected = {name: restrictions_twin(world, incoming, name) for name in world.nodes}
        if answer is SKIP:
            assert not any(expected.values())
            continue
        for rows in some_rows(world):
            judgement = plugin.filter(cycle, rows)
            for place_, row in enumerate(row_numbers(rows).tolist()):
                if name := world.cluster.name(row):
                    assert told(judgement, place_, final=False) == expected[name], name
