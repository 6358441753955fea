"""Disks of the old in-tree plugins, read in their CSI driver's words where it has taken over."""

from __future__ import annotations

from typing import Any

from tonnage.objects.core_v1 import PersistentVolume
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.engine.profiles import add_indexes
from tonnage.scheduling.volumes.volume_reach import MIGRATED_PLUGINS, reachable, reaches
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import csi_node, volume

ZONE, BETA_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
EBS_ZONE, GCE_ZONE = "topology.ebs.csi.aws.com/zone", "topology.gke.io/zone"
EBS = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
GCE = {"gcePersistentDisk": {"pdName": "disk-1"}}
TAKEN_OVER = {"annotations": {MIGRATED_PLUGINS: "kubernetes.io/aws-ebs,kubernetes.io/gce-pd"}}


def cluster() -> Cluster:
    """old: the plugin's own node in zone a; new-a, new-b: nodes of the driver, which name zones its way only."""
    found = add_indexes(Cluster())
    found.put_node(node("old", labels={ZONE: "a"}))
    for zone in "ab":
        found.put_node(node(f"new-{zone}", labels={EBS_ZONE: zone, GCE_ZONE: zone}))
        found.storage.put(csi_node(f"new-{zone}", {}, **TAKEN_OVER))
    return found


def reached_by(each: PersistentVolume) -> list[str]:
    """By all rows at once, which is to be the same as row by row."""
    found = cluster()
    all_at_once = reachable(found, each, found.all_rows).tolist()
    assert [reaches(found, each, row) for row in range(found.size)] == all_at_once
    return [found.name(row) for row, yes in enumerate(all_at_once) if yes]


def in_zone(key: str, zone: str, source: dict[str, Any]) -> PersistentVolume:
    affinity = {"key": key, "operator": "In", "values": [zone]}
    return volume("pv", affinity=affinity, driver=None, spec=source)


def test_a_zone_in_the_affinity_is_the_drivers_zone_where_it_has_taken_over():
    assert reached_by(in_zone(ZONE, "a", EBS)) == ["old", "new-a"]
    assert reached_by(in_zone(ZONE, "b", GCE)) == ["new-b"]


def test_the_zone_label_of_old_is_understood_too():
    # old has the label of today only, and without a driver a volume is read as it stands.
    assert reached_by(in_zone(BETA_ZONE, "a", EBS)) == ["new-a"]


def test_zones_that_only_the_volumes_label_names_bind_it_on_the_drivers_nodes():
    labelled = volume("pv", driver=None, spec=EBS, labels={ZONE: "b__c"})
    assert reached_by(labelled) == ["old", "new-b"]


def test_a_volume_of_a_csi_driver_is_read_as_it_stands():
    assert reached_by(volume("pv", affinity={"key": ZONE, "operator": "In", "values": ["a"]})) == ["old"]


def test_a_disk_without_zones_is_reached_from_everywhere():
    assert reached_by(volume("pv", driver=None, spec=EBS)) == ["old", "new-a", "new-b"]


def test_an_affinity_that_makes_no_sense_or_names_nodes_is_read_alike_row_by_row():
    assert reached_by(volume("pv", affinity={"key": ZONE, "operator": "Gt", "values": ["x"]})) == []
    assert reached_by(volume("pv", affinity={"key": EBS_ZONE, "operator": "Exists"})) == ["new-a", "new-b"]
    assert reached_by(volume("pv", affinity={"key": ZONE, "operator": "NotIn", "values": ["a"]})) == ["new-a", "new-b"]
    assert reached_by(volume("pv")) == ["old", "new-a", "new-b"]
