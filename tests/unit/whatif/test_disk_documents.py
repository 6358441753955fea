"""Disks as JSON: volumes where they are, promises in pools in which all of them fit; and the map drawn from it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tonnage.cli import cli
from tonnage.whatif.html.capacity_map import MOST_ROWS, capacity_map, scales_of

GI = 1024**3

CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: a, labels: {kubernetes.io/hostname: a}}
status: {allocatable: {cpu: "8", memory: 32Gi, pods: "110"}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: pools.tonnage.dev
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: pools.tonnage.dev}
spec: {storageCapacity: true}
---
apiVersion: storage.k8s.io/v1
kind: CSIStorageCapacity
metadata: {name: cap-a, namespace: kube-system}
storageClassName: fast
capacity: 150Gi
availableCapacities: [100Gi, 50Gi]
nodeTopology: {matchLabels: {kubernetes.io/hostname: a}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv-old}
spec:
  capacity: {storage: 30Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: fast
  csi: {driver: pools.tonnage.dev, volumeHandle: old}
  claimRef: {namespace: shop, name: old, uid: u-old}
  nodeAffinity:
    required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [a]}]}]}
status: {phase: Bound}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop}
spec:
  replicas: 9
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c, image: i}], volumes: []}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 45Gi}}}
"""


@pytest.fixture
def disks(tmp_path: Path) -> list[dict[str, Any]]:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    arguments = ["fit", "-f", str(tmp_path), "--workload", "StatefulSet/shop/db", "-o", "json"]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["count"] == 3
    found: list[dict[str, Any]] = answer["disks"]
    return found


def test_fit_tells_the_disks_with_the_replicas_that_fit(disks):
    (disk,) = disks
    assert disk["where"] == "a"
    assert disk["classes"] == ["fast"]
    assert disk["objects"] == ["kube-system/cap-a"]
    assert disk["freeBytes"] == [100 * GI, 50 * GI]
    assert disk["totalBytes"] == 180 * GI, "what is free, and the volume that was there"
    old, *promised = disk["volumes"]
    assert old == {"volume": "pv-old", "claim": "shop/old", "pool": None, "bytes": 30 * GI, "promised": False}
    assert [each["claim"] for each in promised] == ["shop/data-db-0", "shop/data-db-1", "shop/data-db-2"]
    assert all(each["promised"] and each["volume"] is None for each in promised)


def test_promises_are_shared_out_so_that_all_of_them_fit(disks):
    (disk,) = disks
    left = list(disk["freeBytes"])
    for each in disk["volumes"]:
        if each["promised"]:
            left[each["pool"]] -= each["bytes"]
    assert left == [10 * GI, 5 * GI]


def test_the_map_has_a_box_for_each_pool_and_a_lane_for_what_is_in_none_that_is_known(disks):
    drawn = capacity_map("m", "Map", disks)
    assert drawn.count('class="pool"') == 2
    assert drawn.count('class="lane"') == 1
    assert len(re.findall(r'class="claim( promised)?" ', drawn)) == 4
    assert "1 disk with 2 pools: 1 volume of 30Gi, 3 claims promised 135Gi, 15Gi free." in drawn
    assert "whose pool is not known" in drawn


def test_blocks_do_not_leave_their_pool(disks):
    wider = {name: [4 * each for each in ticks] for name, ticks in scales_of(disks).items()}
    drawn = capacity_map("m", "Map", disks, scales=wider)
    boxes = [
        (kind, float(x), float(x) + float(width))
        for x, width, kind in re.findall(r'<rect x="(\S+)" y="\S+" width="(\S+)" height="\S+" class="([^"]+)"', drawn)
    ]
    pools = [(start, end) for kind, start, end in boxes if kind in ("pool", "lane")]
    blocks = [(start, end) for kind, start, end in boxes if kind.startswith("claim")]
    assert len(blocks) == 4
    for start, end in blocks:
        assert any(left <= start and end <= right + 0.02 for left, right in pools)


def test_more_is_promised_than_there_is():
    """A figure that lies, or a promise that outlived its pool: drawn as it is, and nothing is less than nothing."""
    volumes = [{"volume": None, "claim": "a/b", "pool": 0, "bytes": 50, "promised": True}]
    disk = {"objects": ["o"], "where": "", "classes": [], "totalBytes": 10, "freeBytes": [10], "volumes": volumes}
    drawn = capacity_map("m", "Map", [disk])
    assert "50 bytes, 0 free" in drawn


def test_disks_without_a_byte_and_none_at_all():
    empty = {"objects": ["o"], "where": "n", "classes": ["c"], "totalBytes": 0, "freeBytes": [0, 0], "volumes": []}
    assert capacity_map("m", "Map", [empty]).count('class="pool"') == 2
    assert "nothing to draw" in capacity_map("m", "Map", [])


def test_of_very_many_disks_the_first_are_drawn_and_all_are_told():
    disks = [
        {"objects": ["o"], "where": f"n{number}", "classes": ["c"], "totalBytes": 1, "freeBytes": [1], "volumes": []}
        for number in range(MOST_ROWS + 7)
    ]
    drawn = capacity_map("m", "Map", disks)
    assert drawn.count('class="disk"') == MOST_ROWS
    assert drawn.count("<tr>") == MOST_ROWS + 7 + 1
    assert f"The first {MOST_ROWS} of {MOST_ROWS + 7} disks are drawn" in drawn
