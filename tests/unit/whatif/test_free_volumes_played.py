"""`fit`, `simulate` and copies of nodes count how many volumes an object takes (`tonnage.dev/free-volumes`)."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from tonnage.objects.storage_v1 import FREE_VOLUMES, CSIStorageCapacity
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, storage_class, volume
from tonnage.whatif.creation import ObjectsByKind
from tonnage.whatif.knobs import unused_claims
from tonnage.whatif.node_copies import emptied, shape_of
from tonnage.whatif.simulate.disks import Disk, Disks, figures
from tonnage_command import tonnage

GI = 1 << 30
LOT = random.Random(1)


def took(disk: Disk, name: str, within: Sequence[int] | None = None) -> bool:
    """Whether a pool takes one more volume, which is then in it."""
    number = disk.pick(GI, PoolPolicy.BEST_FIT, LOT, within)
    if number is not None:
        disk.put(name, number, GI)
    return number is not None


def told(of: CSIStorageCapacity, disk: Disk) -> str:
    return figures(of, disk).metadata.annotations[FREE_VOLUMES]


@pytest.mark.parametrize("ids", ["", "ssd"])
def test_a_disk_counts_volumes_as_they_are_made_and_deleted(ids: str):
    of = capacity("fast", "a", pools=["100Gi"], pool_ids=ids, free_volumes=2)
    disk = Disks().add(of, {"fast": storage_class("fast")})
    assert [took(disk, name) for name in ("one", "two", "three")] == [True, True, False]
    assert told(of, disk) == "0"
    assert disk.give("one")
    assert told(of, disk) == "1"
    assert took(disk, "three")
    assert not disk.give("one")
    assert told(of, disk) == "0"


def test_a_volume_that_was_there_from_the_start_leaves_a_place():
    of = capacity("fast", "a", pools=["100Gi"], free_volumes=0)
    disk = Disks().add(of, {"fast": storage_class("fast")})
    disk.hold_before("old", GI)
    assert not took(disk, "one")
    disk.give("old")
    assert took(disk, "one")


def test_a_volume_counts_in_the_objects_that_have_its_pool():
    classes = {name: storage_class(name) for name in ("fast", "mixed", "slow")}
    fast = capacity("fast", "a", pools=["9Gi", "5Gi"], pool_ids="ssd,nvme", free_volumes=1)
    mixed = capacity("mixed", "a", pools=["9Gi", "9Gi"], pool_ids="ssd,hdd", free_volumes=4)
    slow = capacity("slow", "a", pools=["9Gi"], pool_ids="hdd", free_volumes=3)
    disks = Disks()
    (disk,) = {disks.add(each, classes) for each in (fast, mixed, slow)}
    disk.put("one", disk.ids.index("ssd"), GI)
    assert [told(each, disk) for each in (fast, mixed, slow)] == ["0", "3", "3"]
    # fast takes no more, so that only hdd is left for mixed
    assert took(disk, "two", disk.numbers_of(mixed.key))
    assert [told(each, disk) for each in (fast, mixed, slow)] == ["0", "2", "2"]


def test_figures_of_somebody_else_tell_the_number_anew_and_no_number_is_made_up():
    of = capacity("fast", "a", pools=["100Gi"], free_volumes=2)
    disk = Disks().add(of, {"fast": storage_class("fast")})
    disk.change_to(capacity("fast", "a", pools=["100Gi"], free_volumes=7))
    assert told(of, disk) == "7"
    disk.change_to(capacity("fast", "a", pools=["100Gi"]))
    assert not disk.slots
    assert FREE_VOLUMES not in figures(capacity("fast", "a", pools=["100Gi"]), disk).metadata.annotations


def test_an_empty_copy_of_a_node_takes_its_volumes_as_well():
    of = capacity("fast", "a", pools=["100Gi"], free_volumes=1)
    volumes = [volume(name, "1Gi", on="a", class_name="fast") for name in ("one", "two")]
    found = emptied(node("a"), ObjectsByKind([node("a"), storage_class("fast"), of, *volumes]))
    (room,) = [each for each in found if isinstance(each, CSIStorageCapacity)]
    assert room.metadata.annotations[FREE_VOLUMES] == "3"
    assert shape_of([room]) != shape_of([of])


CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: a, labels: {kubernetes.io/hostname: a}}
status: {allocatable: {cpu: "8", memory: 16Gi, pods: "110"}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: lvm}
provisioner: x.example
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: x.example}
spec: {storageCapacity: true}
---
apiVersion: storage.k8s.io/v1
kind: CSIStorageCapacity
metadata:
  name: a
  namespace: default
  annotations: {tonnage.dev/available-capacities: "100Gi", tonnage.dev/free-volumes: "%s"}
storageClassName: lvm
nodeTopology: {matchLabels: {kubernetes.io/hostname: a}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: default}
spec:
  replicas: 0
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: db, image: db}]
  volumeClaimTemplates:
  - metadata: {name: one}
    spec: {accessModes: [ReadWriteOnce], storageClassName: lvm, resources: {requests: {storage: 1Gi}}}
  - metadata: {name: two}
    spec: {accessModes: [ReadWriteOnce], storageClassName: lvm, resources: {requests: {storage: 1Gi}}}
"""


@pytest.mark.parametrize(("most", "count"), [(3, 1), (4, 2), (5, 2)])
def test_fit_counts_places_and_its_remedies_do_not_promise_what_they_forbid(most: int, count: int, tmp_path: Path):
    """Two volumes a replica. More bytes would help nothing; one more node would."""
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER % most)
    done = tonnage("fit", "-f", str(file), "--workload", "StatefulSet/default/db", "-o", "json")
    answer = json.loads(done.stdout)
    assert (answer["count"], answer["atMost"]) == (count, count)
    assert answer["wouldHelp"] == ["one more node like a"]


@pytest.mark.parametrize("policy", [PoolPolicy.MOST_FREE, "unknown"])
def test_volumes_that_no_scheduler_places_are_counted_by_the_played_driver(policy: str, tmp_path: Path):
    file = tmp_path / "cluster.yaml"
    name = f"{{name: lvm, annotations: {{tonnage.dev/pool-policy: {policy}}}}}"
    file.write_text((CLUSTER % 3).replace("WaitForFirstConsumer", "Immediate").replace("{name: lvm}", name))
    done = tonnage("fit", "-f", str(file), "--workload", "StatefulSet/default/db", "-o", "json")
    answer = json.loads(done.stdout)
    assert (answer["count"], answer["atMost"]) == (1, 1)


def test_a_deleted_volume_leaves_a_place_besides_its_bytes():
    of = capacity("fast", "a", pools=["1Gi"], free_volumes=0)
    deleted = {"persistentVolumeReclaimPolicy": "Delete"}
    old = volume("old", "1Gi", on="a", class_name="fast", claim="default/old", spec=deleted)
    known = [node("a"), storage_class("fast"), of, old, claim("old", "1Gi", class_name="fast", volume="old")]
    (change,) = unused_claims(ObjectsByKind(known))
    assert [room.metadata.annotations[FREE_VOLUMES] for room in change.targets] == ["1"] and change.or_else == ()
