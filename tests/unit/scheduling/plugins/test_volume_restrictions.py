"""Disks and claims that only one pod may have."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hint_asking import wakes

from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.meta import Object
from tonnage.scheduling.cluster.cluster import Cluster, place
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.decision.answers import Diagnosis
from tonnage.scheduling.decision.scheduling_cycle import Decider, Pipeline
from tonnage.scheduling.engine.profiles import add_indexes
from tonnage.scheduling.events import ActionType, EventResource
from tonnage.scheduling.framework import SKIP as NOTHING_TO_SAY
from tonnage.scheduling.framework import Cycle
from tonnage.scheduling.plugins.volume_constraints import VolumeRestrictions
from tonnage.testing.builders import Doc, node, pod
from tonnage.testing.storage_builders import claim, pod_with

DISK = "node(s) had no available disk"
TAKEN = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
ALONE = ("ReadWriteOncePod",)


def world(*objects: Object) -> Cluster:
    """Two nodes, `a` and `b`, and these objects; pods are where they say they are."""
    cluster = add_indexes(Cluster())
    for each in (node("a"), node("b"), *objects):
        if isinstance(each, Node):
            cluster.put_node(each)
        elif isinstance(each, Pod):
            place(cluster, each)
        else:
            cluster.storage.put(each)
    return cluster


def diagnosis(cluster: Cluster, incoming: Pod) -> Diagnosis:
    plugin = VolumeRestrictions()
    decider = Decider(Pipeline(pre_filter=(plugin,), filter=(plugin,)), random.Random(1))
    found = decider.decide(cluster, PodInfo(incoming), diagnose=True).diagnosis
    assert found is not None
    return found


def refused(cluster: Cluster, incoming: Pod) -> dict[str, str]:
    found = diagnosis(cluster, incoming)
    told = {name: ", ".join(found.reasons_of(row)) for name, row in cluster.row_of.items()}
    return {name: reason for name, reason in told.items() if reason}


def with_disk(name: str, *sources: Doc, **options: Any) -> Pod:
    return pod(name, spec={"volumes": [{"name": f"d{i}", **each} for i, each in enumerate(sources)]}, **options)


def gce(disk: str, *, read_only: bool = False) -> Doc:
    return {"gcePersistentDisk": {"pdName": disk, "readOnly": read_only}}


def aws(disk: str, *, read_only: bool = False) -> Doc:
    return {"awsElasticBlockStore": {"volumeID": disk, "readOnly": read_only}}


def iscsi(target: str, *, read_only: bool = False) -> Doc:
    return {"iscsi": {"iqn": target, "readOnly": read_only}}


def rbd(image: str, *monitors: str, pool: str = "rbd", read_only: bool = False) -> Doc:
    return {"rbd": {"image": image, "pool": pool, "monitors": list(monitors or ("m1",)), "readOnly": read_only}}


# -- disks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [gce("x"), aws("x"), iscsi("x"), rbd("x")])
def test_a_disk_is_taken_where_another_pod_has_it(source: Doc):
    cluster = world(with_disk("one", source, on="a"))
    assert refused(cluster, with_disk("two", source)) == {"a": DISK}
    assert refused(cluster, with_disk("two", source, namespace="other")) == {"a": DISK}
    assert refused(cluster, with_disk("two", {"emptyDir": {}}, source)) == {"a": DISK}


@pytest.mark.parametrize(
    ("source", "other"), [(gce("x"), gce("y")), (aws("x"), aws("y")), (iscsi("x"), iscsi("y")), (rbd("x"), rbd("y"))]
)
def test_another_disk_is_free(source: Doc, other: Doc):
    assert refused(world(with_disk("one", source, on="a")), with_disk("two", other)) == {}


def test_disks_of_different_kinds_are_different_disks():
    cluster = world(with_disk("one", gce("x"), iscsi("x"), on="a"))
    assert refused(cluster, with_disk("two", aws("x"), rbd("x"))) == {}


@pytest.mark.parametrize("kind", [gce, iscsi, rbd])
def test_who_only_reads_may_share(kind: Any):
    reader, writer = kind("x", read_only=True), kind("x")
    assert refused(world(with_disk("one", reader, on="a")), with_disk("two", reader)) == {}
    assert refused(world(with_disk("one", reader, on="a")), with_disk("two", writer)) == {"a": DISK}
    assert refused(world(with_disk("one", writer, on="a")), with_disk("two", reader)) == {"a": DISK}


def test_an_aws_disk_is_not_shared_even_to_read():
    reader = aws("x", read_only=True)
    assert refused(world(with_disk("one", reader, on="a")), with_disk("two", reader)) == {"a": DISK}


def test_an_rbd_image_is_one_by_pool_name_and_any_monitor():
    cluster = world(with_disk("one", rbd("x", "m1", "m2"), on="a"))
    assert refused(cluster, with_disk("two", rbd("x", "m2", "m3"))) == {"a": DISK}
    assert refused(cluster, with_disk("two", rbd("x", "m3"))) == {}
    assert refused(cluster, with_disk("two", rbd("x", "m1", pool="other"))) == {}


def test_preemption_may_free_a_disk():
    cluster = world(with_disk("one", gce("x"), on="a"), with_disk("two", gce("x"), on="b"))
    found = diagnosis(cluster, with_disk("three", gce("x")))
    assert found.message() == "0/2 nodes are available: 2 node(s) had no available disk."
    assert found.resolvable_rows().tolist() == [0, 1]
    cluster.remove_pod("default-one")
    assert refused(cluster, with_disk("three", gce("x"))) == {"b": DISK}


def test_a_disk_is_free_when_the_last_of_its_pods_is_gone():
    reader = gce("x", read_only=True)
    cluster = world(with_disk("one", reader, on="a"), with_disk("two", reader, reader, on="a"))
    for gone, left in (("default-one", {"a": DISK}), ("default-two", {})):
        cluster.remove_pod(gone)
        assert refused(cluster, with_disk("three", gce("x"))) == left


# -- claims for one pod -----------------------------------------------------------------------------------------------


def test_a_claim_for_one_pod_is_taken_on_every_node():
    cluster = world(claim("data", modes=ALONE), pod_with("one", "data", on="a"))
    found = diagnosis(cluster, pod_with("two", "data"))
    assert found.message() == f"0/2 nodes are available: 2 {TAKEN}."
    assert found.resolvable_rows().tolist() == [0, 1]


def test_a_claim_for_one_pod_is_free_once_its_pod_is_gone():
    cluster = world(claim("data", modes=ALONE), pod_with("one", "data", on="a"))
    cluster.remove_pod("default-one")
    assert refused(cluster, pod_with("two", "data")) == {}


def test_claims_that_may_be_shared_and_those_of_others_are_free():
    shared = claim("shared", modes=("ReadWriteMany",))
    cluster = world(claim("data", modes=ALONE), claim("data", namespace="other", modes=ALONE), shared)
    place(cluster, pod_with("one", "data", "shared", on="a"))
    assert refused(cluster, pod_with("two", "shared")) == {}
    assert refused(cluster, pod_with("two", "data", namespace="other")) == {}


def test_one_of_two_claims_that_is_taken_is_enough():
    cluster = world(claim("one", modes=ALONE), claim("two", modes=("ReadWriteOncePod", "ReadOnlyMany")))
    place(cluster, pod_with("holder", "two", on="b"))
    assert refused(cluster, pod_with("web", "one", "two")) == {"a": TAKEN, "b": TAKEN}


def test_only_claims_mounted_by_name_are_taken():
    ephemeral = pod("one", on="a", spec={"volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": {}}}]})
    cluster = world(claim("one-data", modes=ALONE), ephemeral)
    assert refused(cluster, pod_with("two", "one-data")) == {}


def test_pods_on_nodes_that_are_not_known_take_nothing():
    cluster = world(claim("data", modes=ALONE), pod_with("one", "data", on="ghost"))
    assert refused(cluster, pod_with("two", "data")) == {}


def test_a_missing_claim_refuses_the_pod_as_a_whole():
    found = diagnosis(world(), pod_with("web", "data"))
    assert found.message() == '0/2 nodes are available: persistentvolumeclaim "data" not found.'
    assert found.resolvable_rows().tolist() == []


def test_where_both_are_taken_the_disk_is_told_of():
    cluster = world(claim("data", modes=ALONE), with_disk("one", gce("x"), on="a"), pod_with("two", "data", on="b"))
    web = pod_with("web", "data", volumes=[{"name": "disk", **gce("x")}])
    assert refused(cluster, web) == {"a": DISK, "b": TAKEN}


# -- skipping ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("incoming", "skips"),
    [
        (pod("web"), True),
        (with_disk("web", {"emptyDir": {}}), True),
        (pod_with("web", "free"), True),
        (pod_with("web", "taken"), False),
        (with_disk("web", gce("x")), False),
        (with_disk("web", rbd("x")), False),
    ],
)
def test_there_is_nothing_to_say_without_a_disk_or_a_taken_claim(incoming: Pod, skips: bool):
    cluster = world(claim("free", modes=ALONE), claim("taken", modes=ALONE), pod_with("one", "taken", on="a"))
    answer = VolumeRestrictions().pre_filter(Cycle(PodInfo(incoming), cluster))
    assert answer is (NOTHING_TO_SAY if skips else None)


# -- waking up --------------------------------------------------------------------------------------------------------


def woken(waiting: Pod, old: Any, new: Any) -> bool:
    return wakes(VolumeRestrictions(), waiting, old, new)


def test_it_registers_for_the_events_upstream_registers_for():
    action, resource = ActionType, EventResource
    assert {(event.resource, event.action) for event, _ in VolumeRestrictions().events()} == {
        (resource.POD, action.DELETE),
        (resource.NODE, action.ADD),
        (resource.PERSISTENT_VOLUME_CLAIM, action.ADD),
    }


@pytest.mark.parametrize("kind", [gce, aws, iscsi, rbd])
def test_a_pod_that_gives_a_disk_back_wakes_who_waits_for_it(kind: Any):
    waiting = with_disk("waiting", kind("x"))
    assert woken(waiting, with_disk("old", kind("x"), on="a"), None)
    assert not woken(waiting, with_disk("old", kind("y"), on="a"), None)


def test_a_disk_given_back_in_another_namespace_wakes_the_pod():
    """Upstream lets it sleep: it looks at the namespace before it looks at disks."""
    assert woken(with_disk("waiting", gce("x")), with_disk("old", gce("x"), namespace="other", on="a"), None)


def test_an_image_known_by_other_monitors_wakes_nobody():
    assert not woken(with_disk("waiting", rbd("x", "m1", "m2")), with_disk("old", rbd("x", "m3"), on="a"), None)


def test_readers_wait_for_writers_only():
    reader = with_disk("waiting", gce("x", read_only=True))
    assert woken(reader, with_disk("old", gce("x"), on="a"), None)
    assert not woken(reader, with_disk("old", gce("x", read_only=True), on="a"), None)


def test_a_pod_that_gives_a_claim_back_wakes_who_mounts_it():
    waiting = pod_with("waiting", "data")
    assert woken(waiting, pod_with("old", "data", on="a"), None)
    assert not woken(waiting, pod_with("old", "other", on="a"), None)
    assert not woken(waiting, pod_with("old", "data", namespace="other", on="a"), None)


def test_a_claim_of_the_pod_that_comes_and_any_new_node_wake_it():
    waiting = pod_with("waiting", "data")
    assert woken(waiting, None, claim("data"))
    assert not woken(waiting, None, claim("other"))
    assert not woken(waiting, None, claim("data", namespace="other"))
    assert not woken(waiting, claim("data"), claim("data", volume="v"))
    assert woken(waiting, None, node("c"))
