"""Manifests laid over a live cluster: what a file has counts as the file has it, everything else stays."""

from __future__ import annotations

from pathlib import Path

from tonnage.gates import Gates
from tonnage.objects.core_v1 import Node, PersistentVolumeClaim, Pod
from tonnage.whatif.creation import Creation
from tonnage.whatif.sources import ClusterState, from_files, laid_over

LIVE = """
apiVersion: v1
kind: Node
metadata: {name: a, uid: node-a, labels: {zone: x}}
---
apiVersion: v1
kind: Node
metadata: {name: b, uid: node-b}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: fast
  uid: class-fast
  annotations: {storageclass.kubernetes.io/is-default-class: "true"}
provisioner: pools.tonnage.dev
volumeBindingMode: WaitForFirstConsumer
"""


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def live(tmp_path: Path) -> ClusterState:
    return from_files([write(tmp_path / "live.yaml", LIVE)], Creation(Gates()))


def test_an_object_of_the_same_name_counts_as_the_file_has_it_and_keeps_its_uid(tmp_path: Path):
    file = write(tmp_path / "more.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: a, labels: {zone: other}}\n")
    found = laid_over(live(tmp_path), [file], Creation(Gates()))
    nodes = {each.name: each for each in found.objects if isinstance(each, Node)}
    assert sorted(nodes) == ["a", "b"]
    assert nodes["a"].metadata.labels == {"zone": "other"}
    assert nodes["a"].uid == "node-a"


def test_what_is_new_is_created_by_what_the_cluster_has(tmp_path: Path):
    claim = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: c, image: x}]}
"""
    found = laid_over(live(tmp_path), [write(tmp_path / "more.yaml", claim)], Creation(Gates()))
    (made,) = (each for each in found.objects if isinstance(each, PersistentVolumeClaim))
    assert made.spec.storage_class_name == "fast", "the cluster's default class"
    assert list(found.pods) == ["default/web"]
    assert all(isinstance(each, Pod) for each in found.pods.values())
