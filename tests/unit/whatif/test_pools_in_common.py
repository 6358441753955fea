"""`fit` and simulations where classes have some pools in common (`tonnage.dev/pool-ids`), and drivers round sizes."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tonnage.objects.storage_v1 import POOL_IDS, CSIStorageCapacity
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, storage_class, volume
from tonnage.whatif.creation import ObjectsByKind
from tonnage.whatif.node_copies import copy_of, emptied, sharing_pools, with_more_room
from tonnage.whatif.simulate.disks import Disks, figures
from tonnage_command import tonnage

GI = 1 << 30
FAST = capacity("fast", "a", pools=["100Gi", "60Gi"], pool_ids="ssd-1,ssd-2")
MIXED = capacity("mixed", "a", pools=["60Gi", "400Gi"], pool_ids="ssd-2,hdd")
CLASSES = {name: storage_class(name) for name in ("fast", "mixed")}


def disks() -> Disks:
    made = Disks()
    for each in (FAST, MIXED):
        made.add(each, CLASSES)
    return made


def test_a_pool_of_two_objects_is_one_pool_of_the_disk():
    (disk,) = disks()
    assert disk.pools == [100 * GI, 60 * GI, 400 * GI]
    assert disk.numbers_of(MIXED.key) == [1, 2]
    number = disk.pick(50 * GI, PoolPolicy.BEST_FIT, random.Random(1), within=disk.numbers_of(MIXED.key))
    assert number is not None
    disk.put("pv", number, 50 * GI)
    after = figures(FAST, disk)
    assert [each.value() // GI for each in after.available_capacities] == [100, 10]
    assert after.metadata.annotations[POOL_IDS] == "ssd-1,ssd-2"
    after = figures(MIXED, disk)
    assert [each.value() // GI for each in after.available_capacities] == [400, 10]
    assert after.metadata.annotations[POOL_IDS] == "hdd,ssd-2"


def test_figures_that_somebody_else_wrote_are_of_the_pools_that_they_name():
    (disk,) = disks()
    disk.change_to(capacity("mixed", "a", pools=["40Gi", "30Gi"], pool_ids="hdd,ssd-2"))
    assert disk.pools == [100 * GI, 30 * GI, 40 * GI]


@pytest.mark.parametrize("kept", [0, 1])
def test_a_strict_driver_leaves_a_byte(kept: int):
    (disk,) = disks()
    number = disk.pick(400 * GI + kept, PoolPolicy.BEST_FIT, random.Random(1))
    assert (number is not None) is (kept == 0)


@pytest.mark.parametrize("is_grouped", [True, False])
def test_an_empty_copy_of_a_node_has_the_room_of_all_volumes_in_every_object_of_their_pools(is_grouped: bool):
    like, ids = node("a"), "" if is_grouped else "ssd-1,ssd-2"
    of_classes = [
        storage_class(name, group="disks" if is_grouped else "", size_rules="overhead=1Gi") for name in ("fast", "slow")
    ]
    of_node = [capacity(each.name, "a", pools=["10Gi", "5Gi"], pool_ids=ids) for each in of_classes]
    volumes = [volume("one", "30Gi", on="a", class_name="slow"), volume("two", "8Gi", on="a", class_name="fast")]
    copied = copy_of(emptied(like, ObjectsByKind([like, *of_classes, *of_node, *volumes])), "b")
    found = [each for each in copied if isinstance(each, CSIStorageCapacity)]
    assert [[str(pool) for pool in each.available_capacities] for each in found] == [["50Gi", "5Gi"]] * 2


def test_one_more_pool_has_an_id_of_its_own():
    more = with_more_room(FAST, 70 * GI, as_pool=True)
    assert [str(each) for each in more.available_capacities] == ["100Gi", "70Gi", "60Gi"]
    assert more.metadata.annotations[POOL_IDS] == "ssd-1,one-more-pool,ssd-2"


def test_objects_that_share_some_pools_only_are_no_one_purchase():
    objects = [FAST, MIXED, *CLASSES.values(), volume("pv")]
    assert sharing_pools(FAST, ObjectsByKind(objects)) == [FAST]
    alike = capacity("mixed", "a", pools=["60Gi", "100Gi"], pool_ids="ssd-2,ssd-1")
    assert sharing_pools(FAST, ObjectsByKind([FAST, alike, *CLASSES.values()])) == [FAST, alike]


ROUNDING = """
apiVersion: v1
kind: Node
metadata: {name: a, labels: {kubernetes.io/hostname: a}}
status: {allocatable: {cpu: "8", memory: 16Gi, pods: "110"}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: lvm, annotations: {tonnage.dev/size-rules: "step=1Mi,step=1Gi,above=1Gi,strict"}}
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
  annotations: {tonnage.dev/available-capacities: "15Gi,1Gi", tonnage.dev/pool-ids: "v1,v2"}
storageClassName: lvm
nodeTopology: {matchLabels: {kubernetes.io/hostname: a}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: default}
spec:
  replicas: 0
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c, image: x, volumeMounts: [{name: data, mountPath: /d}]}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], storageClassName: lvm, resources: {requests: {storage: 1536Mi}}}
"""


def test_fit_counts_what_the_driver_takes_and_its_remedies_are_the_least(tmp_path: Path):
    """Each 1536Mi is 2Gi, and strictly more must be free: seven in 15Gi, none in 1Gi."""
    file = tmp_path / "cluster.yaml"
    file.write_text(ROUNDING)
    done = tonnage("fit", "-f", str(file), "--workload", "StatefulSet/default/db", "-o", "json")
    answer = json.loads(done.stdout)
    assert (answer["count"], answer["atMost"]) == (7, 7)
    assert {each["kind"]: each["amount"] for each in answer["remedies"] if each["kind"] == "pool"} == {
        "pool": 2 * GI + 1
    }
    # 1Gi is left of the large pool, and 1Gi in the small one: 1Gi is not strictly more than 1Gi
    assert "1023Mi instead of 1536Mi for claim data-db-7" in answer["wouldHelp"]
