"""However pods, claims, volumes, nodes and attachments come and go, attach limits are what a full count says.

The twin below follows upstream's CSILimits.Filter step by step: one node at a time, scanning every pod and attachment
on it for every question. Few names and fewer handles, so that volumes are shared, claims get bound while pods use them,
and nodes take the rows of others. Each world is asked three ways: the plugin alone about all rows and some; about one
row; and a decider that remembers, whose answers must not outlive what they depend on.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from support.mirrored_cluster import MirroredCluster
from tonnage.gates import Gates
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.storage_v1 import CSIDriver, CSINode, StorageClass, VolumeAttachment
from tonnage.scheduling.cluster.columns import Rows, row_numbers
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.decision.scheduling_cycle import Decider, Pipeline
from tonnage.scheduling.framework import SKIP, Cycle, Judgement
from tonnage.scheduling.plugins.node_volume_limits import NodeVolumeLimits
from tonnage.scheduling.volumes.attach.attached_volumes import AttachedVolumes
from tonnage.testing.builders import Doc, node, pod
from tonnage.testing.storage_builders import attachment, claim, csi_node, driver, pod_with, storage_class, volume

modest = settings(max_examples=tries(150), deadline=None)
few = settings(max_examples=tries(60), deadline=None)

EBS, GCE = "ebs.csi.aws.com", "pd.csi.storage.gke.io"
NODES = ("n0", "n1", "n2", "n3")
DRIVERS = ("csi.a", "csi.b", EBS)
CLASSES = {
    "a": "csi.a",
    "b": "csi.b",
    "ebs": "kubernetes.io/aws-ebs",
    "files": "kubernetes.io/azure-file",
    "gce": "kubernetes.io/gce-pd",
}
CLAIMS = ("c0", "c1", "c2", "c3")
VOLUMES = ("v0", "v1", "v2", "v3")
NAMESPACES = ("default", "other")
PODS = ("p0", "p1", "p2", "p3", "p4", "p5")
INCOMING = ("in0", "in1", "in2")


def namespace_of(pod_name: str) -> str:
    return "other" if pod_name.endswith("5") else "default"


EVERY_CLAIM = (
    *((namespace, name, "") for namespace in NAMESPACES for name in CLAIMS),
    *((namespace_of(owner), f"{owner}-v{number}", owner) for owner in (*PODS, *INCOMING) for number in (0, 1, 2)),
)
"""(namespace, name, the pod it is made for): those that can be named, and those of generic ephemeral volumes."""

GONE = csi_node("gone", {})
"""Stands for a CSINode whose limits are remembered: disks of old plugins are counted as before."""

Refusal = tuple[tuple[str, ...], bool]


# -- a made-up world --------------------------------------------------------------------------------------------------


class AttachingCluster(MirroredCluster):
    """A cluster in which volumes are attached and limits change, by lot."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.rng = rng
        self.remembered: dict[str, dict[str, int]] = {}
        """By node whose CSINode was deleted: the limits that it told, of drivers that no other has named since."""
        self.lives: dict[str, int] = {}
        """By name: how many nodes had it."""

    def step(self) -> None:
        """Something happens."""
        happenings: list[Callable[[], None]] = [
            *[self.change_pod] * 5,
            *[self.change_claim] * 4,
            *[self.change_volume] * 3,
            *[self.change_csi_node] * 3,
            *[self.change_attachment] * 3,
            self.change_node,
            self.change_class,
            self.change_driver,
        ]
        self.rng.choice(happenings)()

    def change_node(self) -> None:
        name = self.rng.choice(NODES)
        if name in self.nodes and self.rng.random() < 0.5:
            self.remove(Node, name)
            self.remembered.pop(name, None)
            self.lives[name] = self.lives.get(name, 0) + 1
        else:
            made = node(name, labels={"x": self.rng.choice("12")})
            metadata = msgspec.structs.replace(made.metadata, uid=f"{made.uid}{'+' * self.lives.get(name, 0)}")
            self.put(msgspec.structs.replace(made, metadata=metadata))

    def change_pod(self) -> None:
        name = self.rng.choice(PODS)
        uid = f"{namespace_of(name)}-{name}"
        if uid in self.pods and self.rng.random() < 0.4:
            self.remove(Pod, uid)
        else:
            self.put(self.pod(name, on=self.rng.choice((*NODES, "ghost"))))

    def pod(self, name: str, on: str = "") -> Pod:
        volumes = [{"name": f"v{i}", **self.source()} for i in range(self.rng.choice((0, 1, 1, 2, 3)))]
        return pod(name, namespace=namespace_of(name), on=on, spec={"volumes": volumes})

    def source(self) -> Doc:
        rng = self.rng
        sources: list[Doc] = [
            *[{"persistentVolumeClaim": {"claimName": rng.choice(CLAIMS)}}] * 5,
            *[{"ephemeral": {"volumeClaimTemplate": {}}}] * 2,
            {"awsElasticBlockStore": {"volumeID": rng.choice(("vol-1", "aws://zone/vol-1", "vol-2", "aws://zone/x"))}},
            {"gcePersistentDisk": {"pdName": rng.choice(("d1", "d2"))}},
            {"azureFile": {"secretName": "s", "shareName": "f"}},
            {"emptyDir": {}},
        ]
        return rng.choice(sources)

    def change_claim(self) -> None:
        namespace, name, owner = self.rng.choice(EVERY_CLAIM)
        key = f"{namespace}/{name}"
        if key in self.claims and self.rng.random() < 0.1:
            self.remove(PersistentVolumeClaim, key)
        else:
            self.put_claim(namespace, name, "somebody-else" if owner and self.rng.random() < 0.3 else owner)

    def put_claim(self, namespace: str, name: str, owner: str) -> None:
        rng = self.rng
        owned = {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": f"{namespace}-{owner}", "controller": True}
        self.put(
            claim(
                name,
                namespace=namespace,
                class_name=rng.choice((*["a"] * 6, *CLASSES, "unknown", None)),
                volume=rng.choice((*VOLUMES, "", "", "", "")),
                metadata={"ownerReferences": [owned]} if owner else {},
            )
        )

    def change_volume(self) -> None:
        rng = self.rng
        name = rng.choice(VOLUMES)
        if name in self.volumes and rng.random() < 0.4:
            self.remove(PersistentVolume, name)
            return
        zone = {"topology.kubernetes.io/zone": rng.choice(("z", "a-b-c__a-b-d", "a-b-c__x-y-z", ""))}
        in_tree: Doc = rng.choice(
            (
                {"awsElasticBlockStore": {"volumeID": rng.choice(("vol-1", "aws:///vol-2", "aws://zone/x"))}},
                {"gcePersistentDisk": {"pdName": rng.choice(("d1", "d2"))}},
                {"azureDisk": {"diskName": "d", "diskURI": "/disks/d"}},
                {"hostPath": {"path": "/data"}},
            )
        )
        if rng.random() < 0.7:
            self.put(volume(name, driver=rng.choice(("csi.a", *DRIVERS)), handle=rng.choice(("h", "vol-1", "vol-2"))))
        else:
            self.put(volume(name, driver=None, labels=zone, spec=in_tree))

    def change_class(self) -> None:
        name = self.rng.choice(tuple(CLASSES))
        if name in self.classes and self.rng.random() < 0.4:
            self.remove(StorageClass, name)
        else:
            self.put(storage_class(name, provisioner=CLASSES[name], delayed=self.rng.random() < 0.7))

    def change_csi_node(self) -> None:
        rng = self.rng
        name = rng.choice(NODES)
        if name in self.csi_nodes and rng.random() < 0.2:
            if name in self.nodes:
                self.remembered.setdefault(name, {}).update(counts_of(self.csi_nodes[name]))
            self.remove(CSINode, name)
            return
        drivers = rng.sample((*DRIVERS, GCE), rng.randint(1, 4))
        limits = {each: rng.choice((None, 0, 1, 1, 2, 2, 3)) for each in drivers}
        for each in drivers:
            self.remembered.get(name, {}).pop(each, None)
        self.put(csi_node(name, limits))

    def change_driver(self) -> None:
        name = self.rng.choice(DRIVERS)
        if name in self.drivers and self.rng.random() < 0.5:
            self.remove(CSIDriver, name)
        else:
            self.put(driver(name, preventPodSchedulingIfMissing=self.rng.random() < 0.5))

    def change_attachment(self) -> None:
        rng = self.rng
        name = rng.choice(("a0", "a1", "a2", "a3", "a4"))
        if name in self.attachments and rng.random() < 0.4:
            self.remove(VolumeAttachment, name)
            return
        of, on = rng.choice((*VOLUMES, "")), rng.choice(NODES)
        self.put(attachment(name, of, on, attacher=rng.choice(DRIVERS), attached=rng.random() < 0.5))


def _made(seed: int, steps: int) -> AttachingCluster:
    world = AttachingCluster(random.Random(seed))
    for name in NODES[:3]:
        world.put(node(name))
    for name, provisioner in CLASSES.items():
        world.put(storage_class(name, provisioner=provisioner))
    for name in NODES[:3]:
        world.put(csi_node(name, {each: world.rng.choice((1, 2, None)) for each in DRIVERS}))
    for namespace, name, owner in EVERY_CLAIM:
        world.put_claim(namespace, name, owner)
    if world.rng.random() < 0.5:  # whether it counts along or is made later must not matter
        world.cluster.index(AttachedVolumes)
    for _ in range(steps):
        world.step()
    return world


worlds = st.builds(_made, st.integers(0, 2**32), st.integers(0, 120))


def counts_of(on_node: CSINode | None) -> dict[str, int]:
    told = on_node.spec.drivers if on_node is not None else ()
    return {each.name: each.allocatable.count for each in told if each.allocatable.count is not None}


# -- the twin ---------------------------------------------------------------------------------------------------------


def limits_twin(world: AttachingCluster, incoming: Pod, node_name: str, *, needs_drivers: bool) -> Refusal | None:
    """CSILimits.Filter"""
    on_node = world.csi_nodes.get(node_name)
    new: dict[str, str] = {}
    problem = filter_attachable(world, incoming, on_node, new, is_new=True)
    if problem:
        return (problem,), True
    if needs_drivers:
        for each in new.values():
            known = world.drivers.get(each)
            if known is None or not known.spec.prevent_pod_scheduling_if_missing:
                continue
            if on_node is None or all(installed.name != each for installed in on_node.spec.drivers):
                return (f"{each} CSI driver is not installed on the node",), False
    limits = {**world.remembered.get(node_name, {}), **counts_of(on_node)}
    if not limits:
        return None
    filter_attachable(world, incoming, on_node or GONE, new, is_new=True)
    counts, attached = counted(world, node_name)
    for unique in attached:
        new.pop(unique, None)
    coming: dict[str, int] = {}
    for each in new.values():
        coming[each] = coming.get(each, 0) + 1
    for each, count in coming.items():
        if each in limits and counts.get(each, 0) + count > limits[each]:
            return ("node(s) exceed max volume count",), False
    return None


def counted(world: AttachingCluster, node_name: str) -> tuple[dict[str, int], dict[str, str]]:
    """How many volumes a node has by driver, and those that its pods have."""
    attached: dict[str, str] = {}
    for existing in world.pods.values():
        if existing.spec.node_name == node_name:
            filter_attachable(world, existing, world.csi_nodes.get(node_name, GONE), attached, is_new=False)
    counts: dict[str, int] = {}
    for each in attached.values():
        counts[each] = counts.get(each, 0) + 1
    told: dict[str, str] = {}
    for each_attachment in world.attachments.values():
        spec = each_attachment.spec
        known = world.volumes.get(spec.source.persistent_volume_name)
        if spec.node_name == node_name and known is not None and known.spec.csi is not None:
            told[f"{spec.attacher}/{known.spec.csi.volume_handle}"] = spec.attacher
    for unique, each in told.items():
        if unique not in attached:
            counts[each] = counts.get(each, 0) + 1
    return counts, attached


def filter_attachable(
    world: AttachingCluster, each: Pod, on_node: CSINode | None, found: dict[str, str], *, is_new: bool
) -> str:
    """filterAttachableVolumes; what is wrong with a new pod."""
    for mounted in each.spec.volumes:
        if mounted.persistent_volume_claim is not None:
            name = mounted.persistent_volume_claim.claim_name
        elif mounted.ephemeral is not None:
            name = f"{each.metadata.name}-{mounted.name}"
        else:
            pair = None
            if on_node is not None and mounted.aws_elastic_block_store is not None:
                pair = ebs(mounted.aws_elastic_block_store.volume_id)
            elif on_node is not None and mounted.gce_persistent_disk is not None:
                pair = GCE, f"projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{mounted.gce_persistent_disk.pd_name}"
            if pair is not None:
                found["/".join(pair)] = pair[0]
            continue
        namespace = each.metadata.namespace
        its_claim = world.claims.get(f"{namespace}/{name}")
        if its_claim is None:
            if is_new:
                return f'looking up PVC {namespace}/{name}: persistentvolumeclaim "{name}" not found'
            continue
        if mounted.ephemeral is not None:
            owners = [owner.uid for owner in its_claim.metadata.owner_references if owner.controller]
            if owners != [each.metadata.uid]:
                if is_new:
                    key = f"{namespace}/{each.metadata.name}"
                    return f"PVC {namespace}/{name} was not created for pod {key} (pod is not owner)"
                continue  # upstream fails here
        pair = driver_info(world, on_node, its_claim)
        if pair is not None:
            found["/".join(pair)] = pair[0]
    return ""


def driver_info(
    world: AttachingCluster, on_node: CSINode | None, its_claim: PersistentVolumeClaim
) -> tuple[str, str] | None:
    """getCSIDriverInfo"""
    known = world.volumes.get(its_claim.spec.volume_name)
    if known is None:
        its_class = world.classes.get(its_claim.spec.storage_class_name or "")
        if its_class is None:
            return None
        handle = f"random-{its_claim.metadata.namespace}/{its_claim.metadata.name}"
        provisioner = its_class.provisioner
        if provisioner.startswith("kubernetes.io/"):
            migrated = {"kubernetes.io/aws-ebs": EBS, "kubernetes.io/gce-pd": GCE}.get(provisioner)
            return (migrated, handle) if migrated and on_node is not None else None
        return provisioner, handle
    if known.spec.csi is not None:
        return known.spec.csi.driver, known.spec.csi.volume_handle
    if on_node is None:
        return None
    if known.spec.aws_elastic_block_store is not None:
        return ebs(known.spec.aws_elastic_block_store.volume_id)
    if known.spec.azure_disk is not None:
        return "disk.csi.azure.com", known.spec.azure_disk.disk_uri
    if known.spec.gce_persistent_disk is not None:
        disk = known.spec.gce_persistent_disk.pd_name
        zone = known.metadata.labels.get("topology.kubernetes.io/zone", "")
        where = {
            "": "zones/UNSPECIFIED",
            "z": "zones/z",
            "a-b-c__a-b-d": "regions/a-b",
            "a-b-c__x-y-z": None,
        }[zone]
        return (GCE, f"projects/UNSPECIFIED/{where}/disks/{disk}") if where else None
    return None


def ebs(volume_id: str) -> tuple[str, str] | None:
    handles = {
        "vol-1": "vol-1",
        "vol-2": "vol-2",
        "aws://zone/vol-1": "vol-1",
        "aws:///vol-2": "vol-2",
        "aws://zone/x": None,
    }
    handle = handles[volume_id]
    return (EBS, handle) if handle else None


# -- asking -----------------------------------------------------------------------------------------------------------


def told(judgement: Judgement | None, place: int) -> Refusal | None:
    if judgement is None or not judgement.bits[place]:
        return None
    reasons = tuple(reason for i, reason in enumerate(judgement.reasons) if judgement.bits[place] >> i & 1)
    final = judgement.unresolvable
    return reasons, bool(final if isinstance(final, bool) else final[place])


def assert_as_the_twin_says(
    world: AttachingCluster, plugin: NodeVolumeLimits, incoming: Pod, *, needs_drivers: bool
) -> None:
    cluster, rng = world.cluster, world.rng
    expected = {name: limits_twin(world, incoming, name, needs_drivers=needs_drivers) for name in world.nodes}
    cycle = Cycle(PodInfo(incoming), cluster)
    if plugin.pre_filter(cycle) is SKIP:
        assert not any(expected.values())
        return
    asked: list[Rows] = [cluster.all_rows, *[slice(row, row + 1) for row in range(cluster.size)]]
    asked.append(np.array(rng.sample(range(cluster.size), rng.randint(1, cluster.size)), dtype=np.intp))
    for rows in asked:
        judgement = plugin.filter(cycle, rows)
        for place_, row in enumerate(row_numbers(rows).tolist()):
            if name := cluster.name(row):
                assert told(judgement, place_) == expected[name], (name, incoming.spec.volumes)


@modest
@given(worlds, st.booleans())
def test_every_row_is_judged_as_a_full_count_says(world: AttachingCluster, needs_drivers: bool) -> None:
    plugin = NodeVolumeLimits(Gates().with_(VolumeLimitScaling=needs_drivers))
    for _ in range(8):
        for _ in range(world.rng.randint(0, 6)):
            world.step()
        incoming = world.pod(world.rng.choice(INCOMING))
        assert_as_the_twin_says(world, plugin, incoming, needs_drivers=needs_drivers)


@modest
@given(worlds, st.booleans())
def test_remembered_answers_are_those_of_a_full_count(world: AttachingCluster, needs_drivers: bool) -> None:
    plugin = NodeVolumeLimits(Gates().with_(VolumeLimitScaling=needs_drivers))
    decider = Decider(Pipeline(pre_filter=(plugin,), filter=(plugin,)), random.Random(1))
    incoming = [*(world.pod(name) for name in INCOMING), *(pod_with(f"wants-{name}", name) for name in CLAIMS)]
    for _ in range(12):
        for _ in range(world.rng.randint(0, 2)):
            world.step()
        if not world.nodes:
            continue
        asked = world.rng.choice(incoming)
        diagnosis = decider.decide(world.cluster, PodInfo(asked), diagnose=True).diagnosis
        assert diagnosis is not None
        for name in world.nodes:
            expected = limits_twin(world, asked, name, needs_drivers=needs_drivers)
            row = world.cluster.row_of[name]
            assert diagnosis.reasons_of(row) == (expected[0] if expected else ()), name
            assert expected is None or bool(diagnosis.final[row]) == expected[1]


@few
@given(worlds)
def test_what_is_on_a_node_is_what_a_full_count_finds(world: AttachingCluster) -> None:
    """Where there is a CSINode: without one upstream does not count in-tree disks, and nobody compares the number."""
    view = world.cluster.index(AttachedVolumes)
    for _ in range(30):
        world.step()
    for name, on_node in world.csi_nodes.items():
        if name in world.nodes:
            counts, _ = counted(world, name)
            limits = {**world.remembered.get(name, {}), **counts_of(on_node)}
            for each in (*DRIVERS, GCE):
                assert view.on(world.cluster.row_of[name], each) == (counts.get(each, 0), limits.get(each))


@few
@given(worlds)
def test_nothing_is_left_when_everybody_is_gone(world: AttachingCluster) -> None:
    view = world.cluster.index(AttachedVolumes)
    for uid in sorted(world.pods):
        world.remove(Pod, uid)
    for name in sorted(world.attachments):
        world.remove(VolumeAttachment, name)
    for row in range(world.cluster.size):
        assert [view.on(row, each)[0] for each in (*DRIVERS, GCE)] == [0, 0, 0, 0]
