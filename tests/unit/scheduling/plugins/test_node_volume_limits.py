"""How many volumes a node takes, by driver: what counts, and what a limit is."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest
from pods_with_volumes import ephemeral, made_for, with_disk

from tonnage.gates import Gates
from tonnage.objects.core_v1 import Node, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Object
from tonnage.scheduling.cluster.cluster import Cluster, place
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.cluster.storage import Storage, VolumeId, id_of_claim
from tonnage.scheduling.decision.scheduling_cycle import Decider, Decision, Pipeline
from tonnage.scheduling.engine.profiles import add_indexes
from tonnage.scheduling.framework import SKIP as NOTHING_TO_SAY
from tonnage.scheduling.framework import Cycle
from tonnage.scheduling.plugins.node_volume_limits import NodeVolumeLimits
from tonnage.scheduling.volumes.attach import attached_volumes
from tonnage.scheduling.volumes.attach.attached_volumes import AttachedVolumes
from tonnage.testing.builders import Doc, node, pod
from tonnage.testing.storage_builders import (
    DRIVER,
    attachment,
    claim,
    csi_node,
    driver,
    pod_with,
    storage_class,
    volume,
)

EBS, GCE = "ebs.csi.aws.com", "pd.csi.storage.gke.io"
FULL = "node(s) exceed max volume count"
MISSING = f"{DRIVER} CSI driver is not installed on the node"

ON = Gates().with_(VolumeLimitScaling=True)
OFF = Gates().with_(VolumeLimitScaling=False)
BY_HAND = "unknown-class"


def world(*objects: Object) -> Cluster:
    """A cluster with the class `fast` of `csi.example` and these objects; pods are where they say they are."""
    cluster = add_indexes(Cluster())
    cluster.storage.put(storage_class())
    for each in objects:
        tell(cluster, each)
    return cluster


def tell(cluster: Cluster, *objects: Object) -> None:
    for each in objects:
        if isinstance(each, Node):
            cluster.put_node(each)
        elif isinstance(each, Pod):
            place(cluster, each)
        else:
            cluster.storage.put(each)


def decide(cluster: Cluster, incoming: Pod, gates: Gates = OFF) -> Decision:
    plugin = NodeVolumeLimits(gates)
    decider = Decider(Pipeline(pre_filter=(plugin,), filter=(plugin,)), random.Random(1))
    return decider.decide(cluster, PodInfo(incoming), diagnose=True)


def refused(cluster: Cluster, incoming: Pod, gates: Gates = OFF) -> dict[str, str]:
    """The reason held against each node that is refused."""
    diagnosis = decide(cluster, incoming, gates).diagnosis
    assert diagnosis is not None
    told = {name: ", ".join(diagnosis.reasons_of(row)) for name, row in cluster.row_of.items()}
    return {name: reason for name, reason in told.items() if reason}


def bound(number: int, *, handle: str = "", by: str = DRIVER) -> tuple[Object, Object]:
    """Claim `c1` bound to volume `v1`, and the volume."""
    return claim(f"c{number}", volume=f"v{number}"), volume(f"v{number}", driver=by, handle=handle)


# -- limits -----------------------------------------------------------------------------------------------------------


def test_a_node_takes_volumes_up_to_its_count():
    cluster = world(node("a"), csi_node("a", {DRIVER: 2}), *bound(1), *bound(2), pod_with("one", "c1", on="a"))
    # 1 there + 1 new = 2 <= 2
    assert refused(cluster, pod_with("two", "c2")) == {}


def test_a_node_does_not_take_one_more():
    cluster = world(node("a"), csi_node("a", {DRIVER: 1}), *bound(1), *bound(2), pod_with("one", "c1", on="a"))
    # 1 there + 1 new = 2 > 1
    assert refused(cluster, pod_with("two", "c2")) == {"a": FULL}


def test_preemption_may_help_a_full_node():
    cluster = world(node("a"), csi_node("a", {DRIVER: 1}), *bound(1), *bound(2), pod_with("one", "c1", on="a"))
    found = decide(cluster, pod_with("two", "c2")).diagnosis
    assert found is not None
    assert found.message() == "0/1 nodes are available: 1 node(s) exceed max volume count."
    assert found.resolvable_rows().tolist() == [0]
    cluster.remove_pod("default-one")
    assert refused(cluster, pod_with("two", "c2")) == {}


def test_all_volumes_of_a_pod_have_to_fit():
    cluster = world(node("a"), csi_node("a", {DRIVER: 2}), *bound(1), *bound(2), *bound(3))
    assert refused(cluster, pod_with("web", "c1", "c2")) == {}
    assert refused(cluster, pod_with("web", "c1", "c2", "c3")) == {"a": FULL}


def test_a_count_of_zero_is_a_limit():
    assert refused(world(node("a"), csi_node("a", {DRIVER: 0}), *bound(1)), pod_with("web", "c1")) == {"a": FULL}


@pytest.mark.parametrize(
    "told", [[csi_node("a", {DRIVER: None})], [csi_node("a", {})], [csi_node("a", {"csi.other": 0})], []]
)
def test_no_count_no_driver_and_no_csinode_are_no_limit(told: list[Object]):
    cluster = world(node("a"), node("b"), csi_node("b", {DRIVER: 0}), *told, *bound(1))
    assert refused(cluster, pod_with("web", "c1")) == {"b": FULL}


def test_drivers_are_counted_apart():
    cluster = world(
        node("a"),
        csi_node("a", {DRIVER: 1, "csi.other": 1}),
        *bound(1),
        *bound(2, by="csi.other"),
        *bound(3, by="csi.other"),
        pod_with("one", "c1", on="a"),
    )
    assert refused(cluster, pod_with("two", "c2")) == {}
    assert refused(cluster, pod_with("three", "c2", "c3")) == {"a": FULL}


def test_a_node_over_its_limit_takes_a_pod_that_brings_no_new_volume():
    cluster = world(node("a"), csi_node("a", {DRIVER: 1}), *bound(1), *bound(2), pod_with("one", "c1", "c2", on="a"))
    assert refused(cluster, pod_with("two", "c1")) == {}
    assert refused(cluster, pod("web")) == {}


def test_what_a_node_has_and_may_have_can_be_asked():
    cluster = world(node("a"), node("b"), csi_node("a", {DRIVER: 5}), *bound(1), pod_with("one", "c1", on="a"))
    view = cluster.index(AttachedVolumes)
    assert view.on(cluster.row_of["a"], DRIVER) == (1, 5)
    assert view.on(cluster.row_of["b"], DRIVER) == (0, None)
    assert view.on(cluster.row_of["a"], "csi.other") == (0, None)


# -- what is one volume -----------------------------------------------------------------------------------------------


def test_a_shared_claim_is_one_volume():
    cluster = world(node("a"), csi_node("a", {DRIVER: 2}), *bound(1), *bound(2))
    tell(cluster, pod_with("one", "c1", on="a"), pod_with("two", "c1", on="a"), pod_with("three", "c1", "c1", on="a"))
    assert cluster.index(AttachedVolumes).on(0, DRIVER) == (1, 2)
    assert refused(cluster, pod_with("four", "c2")) == {}
    cluster.remove_pod("default-one")
    assert cluster.index(AttachedVolumes).on(0, DRIVER) == (1, 2)


def test_two_claims_for_one_handle_are_one_volume():
    cluster = world(node("a"), csi_node("a", {DRIVER: 1}), *bound(1, handle="h"), *bound(2, handle="h"))
    tell(cluster, pod_with("one", "c1", on="a"))
    assert refused(cluster, pod_with("two", "c2")) == {}
    assert refused(cluster, pod_with("two", "c1", "c2")) == {}


def test_a_shared_claim_is_new_to_every_other_node():
    cluster = world(node("a"), node("b"), csi_node("a", {DRIVER: 1}), csi_node("b", {DRIVER: 0}), *bound(1))
    tell(cluster, pod_with("one", "c1", on="a"))
    assert refused(cluster, pod_with("two", "c1")) == {"b": FULL}


def test_a_claim_that_waits_for_its_volume_counts_under_its_class():
    cluster = world(node("a"), csi_node("a", {DRIVER: 1}), claim("c1"), claim("c2"), pod_with("one", "c1", on="a"))
    assert refused(cluster, pod_with("two", "c2")) == {"a": FULL}
    assert refused(cluster, pod_with("two", "c1")) == {}


def test_claims_of_one_name_in_two_namespaces_are_two_volumes():
    cluster = world(node("a"), csi_node("a", {DRIVER: 1}), claim("c1"), claim("c1", namespace="other"))
    tell(cluster, pod_with("one", "c1", on="a"))
    assert refused(cluster, pod_with("two", "c1", namespace="other")) == {"a": FULL}


def test_a_claim_whose_volume_is_missing_counts_under_its_class():
    cluster = world(node("a"), csi_node("a", {DRIVER: 1}), claim("c1", volume="gone"), *bound(2))
    tell(cluster, pod_with("one", "c1", on="a"))
    assert refused(cluster, pod_with("two", "c2")) == {"a": FULL}


@pytest.mark.parametrize("class_name", [BY_HAND, "", None])
def test_a_claim_without_a_known_class_counts_nowhere(class_name: str | None):
    cluster = world(node("a"), csi_node("a", {DRIVER: 1}), claim("c1", class_name=class_name), *bound(2))
    tell(cluster, pod_with("one", "c1", on="a"))
    assert refused(cluster, pod_with("two", "c2")) == {}


def test_a_residents_missing_claim_counts_nowhere():
    cluster = world(node("a"), csi_node("a", {DRIVER: 1}), pod_with("one", "gone", on="a"), *bound(2))
    assert refused(cluster, pod_with("two", "c2")) == {}


def test_volumes_of_other_kinds_are_not_counted():
    local = volume("v1", driver=None, spec={"local": {"path": "/disk"}})
    cluster = world(node("a"), csi_node("a", {DRIVER: 0}), claim("c1", volume="v1"), local)
    assert refused(cluster, pod_with("web", "c1")) == {}


def test_succeeded_pods_do_not_count_and_terminating_ones_do():
    cluster = world(node("a"), csi_node("a", {DRIVER: 1}), *bound(1), *bound(2))
    tell(cluster, pod_with("one", "c1", on="a", status={"phase": "Succeeded"}))
    assert refused(cluster, pod_with("two", "c2")) == {}
    tell(cluster, pod_with("one", "c1", on="a", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    assert refused(cluster, pod_with("two", "c2")) == {"a": FULL}


# -- generic ephemeral volumes ----------------------------------------------------------------------------------------


def test_ephemeral_volumes_count():
    cluster = world(node("a"), csi_node("a", {DRIVER: 1}), made_for("one"), made_for("two"), ephemeral("one", on="a"))
    assert refused(cluster, ephemeral("two")) == {"a": FULL}


def test_ephemeral_and_named_claims_add_up():
    cluster = world(node("a"), csi_node("a", {DRIVER: 2}), made_for("one"), ephemeral("one", on="a"), claim("c1"))
    tell(cluster, claim("c2"), pod_with("two", "c1", on="a"))
    assert refused(cluster, pod_with("three", "c2")) == {"a": FULL}
    tell(cluster, csi_node("a", {DRIVER: 3}))
    assert refused(cluster, pod_with("three", "c2")) == {}


def test_an_ephemeral_claim_that_is_not_there_yet_is_told_of():
    found = decide(world(node("a"), csi_node("a", {DRIVER: 1})), ephemeral("web")).diagnosis
    assert found is not None
    assert found.message() == (
        '0/1 nodes are available: 1 looking up PVC default/web-scratch: persistentvolumeclaim "web-scratch" not found.'
    )
    assert found.resolvable_rows().tolist() == []


def test_an_ephemeral_claim_of_another_pod_is_told_of():
    cluster = world(node("a"), claim("web-scratch"))
    reason = "PVC default/web-scratch was not created for pod default/web (pod is not owner)"
    assert refused(cluster, ephemeral("web")) == {"a": reason}


def test_a_resident_with_the_ephemeral_claim_of_another_stops_nobody():
    """Upstream ends the attempt of every pod that looks at this node in an error."""
    cluster = world(node("a"), csi_node("a", {DRIVER: 1}), claim("one-scratch"), ephemeral("one", on="a"), *bound(1))
    assert refused(cluster, pod_with("two", "c1")) == {}


def test_a_claim_that_is_missing_is_told_of_on_every_node_even_without_limits():
    cluster = world(node("a"), node("b"))
    reason = 'looking up PVC default/data: persistentvolumeclaim "data" not found'
    assert refused(cluster, pod_with("web", "data")) == {"a": reason, "b": reason}


# -- attachments ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_attached", [True, False])
def test_attachments_left_behind_count_whatever_their_status(is_attached: bool):
    cluster = world(node("a"), csi_node("a", {DRIVER: 1}), *bound(1), *bound(2))
    tell(cluster, attachment("va", "v1", "a", attached=is_attached))
    assert refused(cluster, pod_with("web", "c2")) == {"a": FULL}


def test_attachments_below_the_limit_leave_room():
    cluster = world(node("a"), csi_node("a", {DRIVER: 2}), *bound(1), *bound(2), attachment("va", "v1", "a"))
    assert refused(cluster, pod_with("web", "c2")) == {}


def test_an_attachment_that_a_pod_of_the_node_uses_counts_once():
    cluster = world(node("a"), csi_node("a", {DRIVER: 2}), *bound(1), *bound(2), attachment("va", "v1", "a"))
    tell(cluster, pod_with("one", "c1", on="a"))
    assert cluster.index(AttachedVolumes).on(0, DRIVER) == (1, 2)
    cluster.remove_pod("default-one")
    assert cluster.index(AttachedVolumes).on(0, DRIVER) == (1, 2)


def test_a_pods_own_volume_that_only_an_attachment_knows_counts_twice():
    # 1 attached + 1 new = 2 > 1, although it is the same volume
    cluster = world(node("a"), csi_node("a", {DRIVER: 1}), *bound(1), attachment("va", "v1", "a"))
    assert refused(cluster, pod_with("web", "c1")) == {"a": FULL}


def test_attachments_of_unknown_or_in_tree_volumes_and_of_other_nodes_do_not_count():
    in_tree = volume("v2", driver=None, spec={"awsElasticBlockStore": {"volumeID": "vol-1"}})
    cluster = world(node("a"), csi_node("a", {DRIVER: 1, EBS: 1}), *bound(1), in_tree)
    tell(cluster, attachment("va", "gone", "a"), attachment("vb", "v2", "a", attacher=EBS))
    tell(cluster, attachment("vc", "v1", "b"), attachment("vd", "", "a"))
    view = cluster.index(AttachedVolumes)
    assert view.on(0, DRIVER) == (0, 1) and view.on(0, EBS) == (0, 1)
    assert refused(cluster, pod_with("web", "c1")) == {}


def test_an_attachment_counts_from_when_its_volume_is_known():
    cluster = world(node("a"), csi_node("a", {DRIVER: 1}), attachment("va", "v1", "a"))
    view = cluster.index(AttachedVolumes)
    assert view.on(0, DRIVER) == (0, 1)
    tell(cluster, volume("v1"))
    assert view.on(0, DRIVER) == (1, 1)
    cluster.storage.remove(volume("v1"))
    assert view.on(0, DRIVER) == (0, 1)


# -- in-tree disks ----------------------------------------------------------------------------------------------------

AWS_CLASS = storage_class("old", provisioner="kubernetes.io/aws-ebs")


def aws_volume(name: str, disk: str) -> Object:
    return volume(name, driver=None, spec={"awsElasticBlockStore": {"volumeID": disk}})


def test_in_tree_volumes_count_under_the_driver_that_took_them_over():
    cluster = world(node("a"), csi_node("a", {EBS: 1}), claim("c1", volume="v1"), aws_volume("v1", "aws://z/vol-1"))
    tell(cluster, pod_with("one", "c1", on="a"), *bound(2, by=EBS, handle="vol-2"), *bound(3, by=EBS, handle="vol-1"))
    assert refused(cluster, pod_with("two", "c2")) == {"a": FULL}
    assert refused(cluster, pod_with("two", "c3")) == {}  # the same disk under its CSI name


def test_in_tree_claims_that_wait_for_their_volume_count():
    cluster = world(node("a"), csi_node("a", {EBS: 1}), AWS_CLASS, claim("c1", class_name="old"))
    tell(cluster, pod_with("one", "c1", on="a"), claim("c2", class_name="old"))
    assert refused(cluster, pod_with("two", "c2")) == {"a": FULL}


def test_inline_in_tree_disks_count():
    cluster = world(node("a"), csi_node("a", {EBS: 1}))
    tell(cluster, with_disk("one", {"awsElasticBlockStore": {"volumeID": "vol-1"}}, on="a"))
    assert refused(cluster, with_disk("two", {"awsElasticBlockStore": {"volumeID": "vol-2"}})) == {"a": FULL}
    assert refused(cluster, with_disk("two", {"awsElasticBlockStore": {"volumeID": "aws://z/vol-1"}})) == {}


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ({"gcePersistentDisk": {"pdName": "d"}}, GCE),
        ({"azureDisk": {"diskName": "d", "diskURI": "/d"}}, "disk.csi.azure.com"),
        ({"cinder": {"volumeID": "d"}}, "cinder.csi.openstack.org"),
        ({"portworxVolume": {"volumeID": "d"}}, "pxd.portworx.com"),
    ],
)
def test_each_migrated_plugin_has_its_driver(source: Doc, name: str):
    assert refused(world(node("a"), csi_node("a", {name: 0})), with_disk("web", source)) == {"a": FULL}
    by_claim = world(
        node("a"), csi_node("a", {name: 0}), claim("c1", volume="v1"), volume("v1", driver=None, spec=source)
    )
    assert refused(by_claim, pod_with("web", "c1")) == {"a": FULL}


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ({"azureFile": {"secretName": "s", "shareName": "f"}}, "file.csi.azure.com"),
        ({"vsphereVolume": {"volumePath": "d"}}, "csi.vsphere.vmware.com"),
        ({"hostPath": {"path": "/d"}}, DRIVER),
        ({"awsElasticBlockStore": {"volumeID": "aws://z/nonsense"}}, EBS),
    ],
)
def test_plugins_that_are_not_migrated_and_names_without_sense_do_not_count(source: Doc, name: str):
    assert refused(world(node("a"), csi_node("a", {name: 0})), with_disk("web", source)) == {}


def test_a_regional_disk_is_known_by_its_region():
    labels = {"topology.kubernetes.io/zone": "us-west1-a__us-west1-b"}
    disk = volume("v1", driver=None, labels=labels, spec={"gcePersistentDisk": {"pdName": "d"}})
    cluster = world(node("a"), csi_node("a", {GCE: 1}), claim("c1", volume="v1"), disk, pod_with("one", "c1", on="a"))
    tell(cluster, *bound(2, by=GCE, handle="projects/UNSPECIFIED/regions/us-west1/disks/d"))
    tell(cluster, *bound(3, by=GCE, handle="projects/UNSPECIFIED/zones/us-west1-a/disks/d"))
    assert refused(cluster, pod_with("two", "c2")) == {}
    assert refused(cluster, pod_with("two", "c3")) == {"a": FULL}


# -- things change ----------------------------------------------------------------------------------------------------


def test_a_claim_that_is_bound_becomes_another_volume():
    cluster = world(node("a"), csi_node("a", {DRIVER: 1}), claim("c1"), *bound(2, handle="h"))
    tell(cluster, pod_with("one", "c1", on="a"))
    assert refused(cluster, pod_with("two", "c2")) == {"a": FULL}
    tell(cluster, claim("c1", volume="v1"))  # bound to a volume that is not known yet: still the claim itself
    assert refused(cluster, pod_with("two", "c2")) == {"a": FULL}
    tell(cluster, volume("v1", handle="h"))  # and it is the very volume of the other claim
    assert refused(cluster, pod_with("two", "c2")) == {}


def test_a_claim_that_comes_after_its_pod_counts():
    cluster = world(node("a"), csi_node("a", {DRIVER: 1}), pod_with("one", "c1", on="a"), claim("c2"))
    assert refused(cluster, pod_with("two", "c2")) == {}
    tell(cluster, claim("c1"))
    assert refused(cluster, pod_with("two", "c2")) == {"a": FULL}
    cluster.storage.remove(claim("c1"))
    assert refused(cluster, pod_with("two", "c2")) == {}


def test_a_class_that_comes_late_counts():
    cluster = world(node("a"), csi_node("a", {"csi.late": 1}), claim("c1", class_name="late"))
    tell(cluster, pod_with("one", "c1", on="a"), *bound(2, by="csi.late"))
    assert refused(cluster, pod_with("two", "c2")) == {}
    tell(cluster, storage_class("late", provisioner="csi.late"))
    assert refused(cluster, pod_with("two", "c2")) == {"a": FULL}


def test_a_csinode_that_came_before_its_node_counts():
    cluster = world(node("a"), *bound(1))
    cluster.index(AttachedVolumes)
    tell(cluster, csi_node("b", {DRIVER: 0}), node("b"))
    assert refused(cluster, pod_with("web", "c1")) == {"b": FULL}
    cluster.storage.put(csi_node("b", {DRIVER: None}))
    assert refused(cluster, pod_with("web", "c1")) == {}


def test_the_limits_of_a_csinode_that_is_deleted_are_remembered_until_another_names_the_driver():
    """Upstream reads a node without a CSINode as one without limits, and sends pods over them."""
    cluster = world(node("a"), csi_node("a", {DRIVER: 0}), *bound(1))
    cluster.storage.remove(csi_node("a", {}))
    assert refused(cluster, pod_with("web", "c1")) == {"a": FULL}
    tell(cluster, node("a", labels={"x": "y"}))
    assert refused(cluster, pod_with("web", "c1")) == {"a": FULL}, "the node is the same, whatever it says"
    tell(cluster, csi_node("a", {}))
    assert refused(cluster, pod_with("web", "c1")) == {"a": FULL}, "kubelets make it without drivers at first"
    tell(cluster, csi_node("a", {DRIVER: 1}))
    assert refused(cluster, pod_with("web", "c1")) == {}
    tell(cluster, csi_node("a", {DRIVER: 0}))
    assert refused(cluster, pod_with("web", "c1")) == {"a": FULL}
    tell(cluster, csi_node("a", {}))
    assert refused(cluster, pod_with("web", "c1")) == {}, "a driver that is taken out takes its limit along"


def test_the_limits_of_a_csinode_that_goes_with_its_node_are_forgotten():
    cluster = world(node("a"), node("b", unschedulable=True), csi_node("a", {DRIVER: 0}), *bound(1))
    cluster.storage.remove(csi_node("a", {}))
    cluster.remove_node("a")
    tell(cluster, another("a", "second"))
    assert refused(cluster, pod_with("web", "c1")) == {}
    tell(cluster, csi_node("a", {DRIVER: 0}))
    cluster.remove_node("a")
    cluster.storage.remove(csi_node("a", {}))
    tell(cluster, another("a", "third"))
    assert refused(cluster, pod_with("web", "c1")) == {}


def another(name: str, uid: str) -> Node:
    """A node that has the name of one before it."""
    made = node(name)
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, uid=uid))


def test_a_driver_is_not_installed_where_only_its_limit_is_remembered():
    """KEP-5030 wants it registered, and a CSINode that is gone registers nothing."""
    wants = driver(preventPodSchedulingIfMissing=True)
    cluster = world(node("a"), csi_node("a", {DRIVER: 5}), wants, *bound(1))
    assert refused(cluster, pod_with("web", "c1"), gates=ON) == {}
    cluster.storage.remove(csi_node("a", {}))
    assert refused(cluster, pod_with("web", "c1"), gates=ON) == {"a": MISSING}
    assert refused(cluster, pod_with("web", "c1"), gates=OFF) == {}


def test_a_node_in_anothers_row_has_limits_and_attachments_of_its_own():
    cluster = world(node("a"), csi_node("a", {DRIVER: 0}), *bound(1), *bound(2), attachment("va", "v2", "b"))
    assert refused(cluster, pod_with("web", "c1")) == {"a": FULL}
    cluster.remove_node("a")
    tell(cluster, node("b"), csi_node("b", {DRIVER: 2}))
    assert cluster.row_of == {"b": 0}
    assert cluster.index(AttachedVolumes).on(0, DRIVER) == (1, 2)
    assert refused(cluster, pod_with("web", "c1")) == {}


def test_a_node_that_comes_back_finds_its_pods_counted():
    cluster = world(node("a"), csi_node("a", {DRIVER: 1}), *bound(1), *bound(2), pod_with("one", "c1", on="a"))
    assert refused(cluster, pod_with("two", "c2")) == {"a": FULL}
    cluster.remove_node("a")
    assert cluster.index(AttachedVolumes).on(0, DRIVER) == (0, None)
    tell(cluster, node("a"))
    assert refused(cluster, pod_with("two", "c2")) == {"a": FULL}


def test_more_nodes_than_there_was_room_for_are_all_counted():
    cluster = world(*bound(1), csi_node("n0", {DRIVER: 0}), node("n0"))
    assert refused(cluster, pod_with("web", "c1")) == {"n0": FULL}
    for number in range(1, 100):
        tell(cluster, node(f"n{number}"))
    tell(cluster, csi_node("n99", {DRIVER: 0}))
    assert refused(cluster, pod_with("web", "c1")) == {"n0": FULL, "n99": FULL}


def test_nominated_pods_count_when_a_decision_counts_them():
    plugin = NodeVolumeLimits(OFF)
    decider = Decider(Pipeline(pre_filter=(plugin,), filter=(plugin,)), random.Random(1))
    cluster = world(node("a"), node("b"), csi_node("a", {DRIVER: 1}), csi_node("b", {DRIVER: 1}), *bound(1), *bound(2))
    expected = PodInfo(pod_with("first", "c1", priority=10))
    decision = decider.decide(cluster, PodInfo(pod_with("web", "c2")), [("a", expected)])
    assert decision.node == "b"
    assert cluster.index(AttachedVolumes).on(cluster.row_of["a"], DRIVER) == (0, 1)


# -- equal pods -------------------------------------------------------------------------------------------------------


def test_pods_whose_volumes_nobody_has_share_answers():
    plugin, cluster = NodeVolumeLimits(OFF), world(node("a"), csi_node("a", {DRIVER: 2}), claim("c1"), *bound(2))
    one, two = Cycle(PodInfo(pod_with("one", "c1")), cluster), Cycle(PodInfo(pod_with("two", "c2")), cluster)
    assert plugin.pre_filter(one) is None and plugin.pre_filter(two) is None
    assert one.signature == two.signature and not one.unshared and not two.unshared


def test_pods_with_more_volumes_or_of_other_drivers_do_not():
    plugin = NodeVolumeLimits(OFF)
    cluster = world(node("a"), csi_node("a", {DRIVER: 2, "csi.other": 2}), claim("c1"), claim("c2"))
    tell(cluster, *bound(3, by="csi.other"))
    cycles = [Cycle(PodInfo(each), cluster) for each in (pod_with("one", "c1"), pod_with("two", "c1", "c2"))]
    cycles.append(Cycle(PodInfo(pod_with("three", "c3")), cluster))
    assert [plugin.pre_filter(cycle) for cycle in cycles] == [None] * 3
    assert len({cycle.signature for cycle in cycles}) == 3


def test_a_pod_with_a_volume_that_somebody_has_is_unlike_others():
    plugin, cluster = NodeVolumeLimits(OFF), world(node("a"), csi_node("a", {DRIVER: 2}), claim("c1"))
    tell(cluster, pod_with("one", "c1", on="a"))
    cycle = Cycle(PodInfo(pod_with("two", "c1")), cluster)
    assert plugin.pre_filter(cycle) is None
    assert cycle.unshared == {"NodeVolumeLimits"}


def test_a_remembered_answer_is_asked_again_when_storage_changes_a_row():
    plugin = NodeVolumeLimits(OFF)
    decider = Decider(Pipeline(pre_filter=(plugin,), filter=(plugin,)), random.Random(1))
    names = ("a", "b", "c", "d", "e", "f", "g", "h")
    cluster = world(*map(node, names), *[csi_node(name, {DRIVER: 1}) for name in names], *bound(1), *bound(2))

    def fits() -> int:
        return decider.decide(cluster, PodInfo(pod_with("web", "c2"))).feasible

    assert fits() == 8
    tell(cluster, attachment("va", "v1", "a"))
    assert fits() == 7
    tell(cluster, csi_node("b", {DRIVER: 0}))
    assert fits() == 6
    cluster.storage.remove(attachment("va", "v1", "a"))
    assert fits() == 7
    tell(cluster, pod_with("one", "c3", on="c"))
    assert fits() == 7
    tell(cluster, claim("c3"))  # the claim of a resident came
    assert fits() == 6


def test_a_condition_of_an_attachment_or_an_equal_csinode_asks_nothing_again():
    cluster = world(node("a"), csi_node("a", {DRIVER: 1}), volume("v1"), attachment("va", "v1", "a", attached=False))
    cluster.index(AttachedVolumes).catch_up()
    before = cluster.changes.tick
    tell(cluster, attachment("va", "v1", "a", attached=True), csi_node("a", {DRIVER: 1}), volume("v1", "5Gi"))
    assert cluster.changes.tick == before


# -- skipping ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("incoming", "skips"),
    [
        (pod("web"), True),
        (with_disk("web", {"emptyDir": {}}), True),
        (with_disk("web", {"secret": {"secretName": "s"}}), True),
        (pod_with("web", "c1"), False),
        (ephemeral("web"), False),
        (with_disk("web", {"awsElasticBlockStore": {"volumeID": "vol-1"}}), False),
    ],
)
def test_only_pods_with_volumes_that_may_be_limited_are_looked_at(incoming: Pod, skips: bool):
    cluster = world(node("a"), csi_node("a", {DRIVER: 1, EBS: 1}), claim("c1"), made_for("web"))
    answer = NodeVolumeLimits(OFF).pre_filter(Cycle(PodInfo(incoming), cluster))
    assert answer is (NOTHING_TO_SAY if skips else None)


def test_where_no_node_has_a_limit_nothing_is_asked():
    cluster = world(node("a"), csi_node("a", {DRIVER: None, "csi.other": 1}), claim("c1"))
    assert NodeVolumeLimits(OFF).pre_filter(Cycle(PodInfo(pod_with("web", "c1")), cluster)) is NOTHING_TO_SAY


def test_a_pod_that_comes_or_goes_costs_no_look_at_the_other_pods_of_its_node(monkeypatch: pytest.MonkeyPatch):
    claims = [claim(f"data-{number}") for number in range(5)]
    pods = [pod_with(f"pod-{number}", f"data-{number}", on="node-1") for number in range(5)]
    cluster = world(node("node-1"), csi_node("node-1", {DRIVER: 5}), *claims, *pods[:4])
    attached = cluster.index(AttachedVolumes)
    assert attached.on(0, DRIVER) == (4, 5)
    looked_up: list[str] = []

    def noted(claim: PersistentVolumeClaim, storage: Storage) -> VolumeId | None:
        looked_up.append(claim.name)
        return id_of_claim(claim, storage)

    monkeypatch.setattr(attached_volumes, "id_of_claim", noted)
    tell(cluster, pods[4])
    assert attached.on(0, DRIVER) == (5, 5)
    cluster.remove_pod(PodInfo(pods[0]).uid)
    assert attached.on(0, DRIVER) == (4, 5)
    assert looked_up == ["data-4"]


def test_one_row_and_all_rows_are_judged_alike():
    cluster = world(node("a"), node("b"), csi_node("a", {DRIVER: 0}), csi_node("b", {DRIVER: 1}), claim("c1"))
    plugin, cycle = NodeVolumeLimits(OFF), Cycle(PodInfo(pod_with("web", "c1")), cluster)
    assert plugin.pre_filter(cycle) is None
    every, first = plugin.filter(cycle, slice(0, 2)), plugin.filter(cycle, slice(0, 1))
    assert every is not None and every.bits.tolist() == [1, 0]
    assert first is not None and first.bits.tolist() == [1]
    assert plugin.filter(cycle, slice(1, 2)) is None
    assert plugin.filter(cycle, np.array([1], dtype=np.intp)) is None


# -- drivers that must be installed (VolumeLimitScaling) --------------------------------------------------------------

PREVENTS = driver(preventPodSchedulingIfMissing=True)


@pytest.mark.parametrize("told", [[csi_node("a", {})], [csi_node("a", {"csi.other": 1})], []])
def test_a_driver_that_is_missing_may_keep_pods_away(told: list[Object]):
    cluster = world(node("a"), *told, *bound(1), PREVENTS)
    found = decide(cluster, pod_with("web", "c1"), ON).diagnosis
    assert found is not None
    assert found.message() == "0/1 nodes are available: 1 csi.example CSI driver is not installed on the node."
    assert found.resolvable_rows().tolist() == [0]


def test_without_the_gate_nobody_asks_whether_a_driver_is_installed():
    assert refused(world(node("a"), csi_node("a", {}), *bound(1), PREVENTS), pod_with("web", "c1"), OFF) == {}


@pytest.mark.parametrize("told", [[driver()], [driver("csi.other", preventPodSchedulingIfMissing=True)], []])
def test_a_driver_that_does_not_ask_for_it_or_is_unknown_keeps_nobody_away(told: list[Object]):
    assert refused(world(node("a"), csi_node("a", {}), *bound(1), *told), pod_with("web", "c1"), ON) == {}


def test_an_installed_driver_counts_as_ever():
    cluster = world(node("a"), node("b"), node("c"), *bound(1), PREVENTS)
    tell(cluster, csi_node("a", {DRIVER: 1}), csi_node("b", {DRIVER: 0}), csi_node("c", {DRIVER: None}))
    assert refused(cluster, pod_with("web", "c1"), ON) == {"b": FULL}


def test_a_missing_driver_is_told_of_before_a_full_node():
    cluster = world(node("a"), csi_node("a", {"csi.other": 0}), *bound(1), *bound(2, by="csi.other"), PREVENTS)
    assert refused(cluster, pod_with("web", "c2", "c1"), ON) == {"a": MISSING}


def test_in_tree_disks_need_their_driver_only_where_there_is_a_csinode():
    cluster = world(node("a"), node("b"), csi_node("a", {}), driver(EBS, preventPodSchedulingIfMissing=True))
    web = with_disk("web", {"awsElasticBlockStore": {"volumeID": "vol-1"}})
    assert refused(cluster, web, ON) == {"a": f"{EBS} CSI driver is not installed on the node"}
    tell(cluster, AWS_CLASS, claim("c1", class_name="old"))
    assert refused(cluster, pod_with("web", "c1"), ON) == {"a": f"{EBS} CSI driver is not installed on the node"}


def test_a_driver_that_changes_its_mind_is_heard_by_pods_like_those_before():
    plugin = NodeVolumeLimits(ON)
    decider = Decider(Pipeline(pre_filter=(plugin,), filter=(plugin,)), random.Random(1))
    cluster = world(node("a"), node("b"), csi_node("a", {DRIVER: 2}), *bound(1), driver())
    assert decider.decide(cluster, PodInfo(pod_with("web", "c1"))).feasible == 2
    tell(cluster, PREVENTS)
    assert decider.decide(cluster, PodInfo(pod_with("web", "c1"))).node == "a"
    tell(cluster, csi_node("b", {DRIVER: None}))
    assert decider.decide(cluster, PodInfo(pod_with("web", "c1"))).feasible == 2
