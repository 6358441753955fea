"""Each check of doctor on the smallest cluster that shows it: what it finds, and that it is silent when all is well."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.virtual_clock import VirtualClock
from tonnage.objects.core_v1.persistent_volume import BIND_COMPLETED, REBUILD_TARGET, SELECTED_NODE
from tonnage.objects.meta import Object
from tonnage.objects.storage_v1 import AVAILABLE_CAPACITIES
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import (
    attachment,
    capacity,
    claim,
    csi_node,
    driver,
    pod_with,
    storage_class,
    volume,
)
from tonnage.whatif.doctor.examination import Examination, examine
from tonnage.whatif.doctor.facts import Facts, Finding, GateSign, ServerFacts
from tonnage.whatif.doctor.server import server_findings
from tonnage.whatif.sources import ClusterState

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
NODES = (node("n1"), node("n2"), node("n3"))
DRIVER = "csi.example"


def at(minutes_ago: float) -> str:
    return (NOW - timedelta(minutes=minutes_ago)).isoformat().replace("+00:00", "Z")


def written(minutes_ago: float, **more: Any) -> dict[str, Any]:
    """Metadata of an object that was last written then."""
    return {"managedFields": [{"manager": "p", "operation": "Update", "time": at(minutes_ago)}], **more}


def healthy(*, period: int | None = 60) -> list[Object]:
    """Three nodes with a driver that lists pools, and nothing wrong."""
    return [
        *NODES,
        driver(nodeAllocatableUpdatePeriodSeconds=period),
        storage_class(),
        *(csi_node(each.name, {DRIVER: 8}) for each in NODES),
        *(capacity(node=each.name, pools=["100Gi", "50Gi"]) for each in NODES),
    ]


def examined(*objects: Object, **more: Any) -> Examination:
    state = ClusterState(objects, "the manifests", VirtualClock(NOW))
    facts = Facts(objects, NOW, source="the manifests", **more)
    return examine(facts, state, default_configuration())


def found(name: str, *objects: Object, **more: Any) -> list[Finding]:
    return [each for each in examined(*objects, **more).findings if each.name == name]


def one(name: str, *objects: Object, **more: Any) -> Finding:
    (only,) = found(name, *objects, **more)
    return only


def without(objects: list[Object], kind: str, name: str = "") -> list[Object]:
    return [each for each in objects if type(each).__name__ != kind or (name and each.name != name)]


def test_a_healthy_cluster_has_nothing_above_info():
    answer = examined(*healthy())
    assert {each.name for each in answer.findings} == {"driver-summary", "configuration"}
    assert answer.exit_code == 0


# -- drivers ----------------------------------------------------------------------------------------------------------


def test_a_driver_is_summed_up():
    told = one("driver-summary", *healthy()).message
    assert told == (
        "on 3 of 3 nodes; capacity per node; pools are listed (up to 2); thin or thick: not known; "
        "does not rebuild volumes; attach limit 8; refreshed every 60 s"
    )


def test_a_driver_that_is_on_no_node():
    assert one("driver-unregistered", *healthy(), driver("gone.example")).object == "CSIDriver gone.example"


def test_a_dump_without_csinodes_says_nothing_about_registration():
    assert not found("driver-unregistered", *without(healthy(), "CSINode"))


def test_a_driver_on_some_nodes_is_told_with_the_nodes_it_lacks():
    assert (
        "n3" in one("driver-on-some-nodes", *without(healthy(), "CSINode", "n3"), csi_node("n1", {DRIVER: 8})).message
    )


def test_a_class_without_a_driver():
    assert one("class-without-driver", *healthy(), storage_class("x", provisioner="a.b")).object == "StorageClass x"
    assert not found("class-without-driver", storage_class("local", provisioner="kubernetes.io/no-provisioner"))
    taken_over = storage_class("ebs", provisioner="kubernetes.io/aws-ebs")
    assert not found("class-without-driver", driver("ebs.csi.aws.com", capacity=False), taken_over)
    uncounted = storage_class("files", provisioner="kubernetes.io/azure-file")
    assert not found("class-without-driver", driver("file.csi.azure.com", capacity=False), uncounted)


def test_capacity_that_nobody_looks_at():
    objects = [*without(healthy(), "CSIDriver"), driver(capacity=False)]
    finding = one("capacity-not-checked", *objects)
    assert finding.remedy.startswith("kubectl patch csidriver csi.example ")


def test_a_class_without_capacity_is_an_error():
    answer = examined(*without(healthy(), "CSIStorageCapacity"))
    assert [each.name for each in answer.findings if each.severity == "error"] == ["capacity-missing"]
    assert answer.exit_code == 5


def test_a_driver_that_rebuilds_needs_volumes_that_may_leave():
    objects = [*without(healthy(), "CSIDriver"), driver(rebuilding=True)]
    off = ServerFacts("v1.36.0", 1, 36, {"MutablePVNodeAffinity": GateSign(False, "metrics")})
    assert one("rebuilding-needs-gate", *objects, server=off)
    assert not found("rebuilding-needs-gate", *objects)


# -- capacity objects -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "odd"),
    [
        ("capacity-nil-topology", capacity(free="1Gi", name="odd")),
        ("capacity-reaches-no-node", capacity(node="gone", free="1Gi", name="odd")),
        ("capacity-of-missing-class", capacity("lost", "n1", "1Gi", name="odd")),
        ("capacity-says-nothing", capacity(node="n1", name="odd")),
        (
            "pools-unreadable",
            capacity(node="n1", free="9Gi", name="odd", metadata={"annotations": {AVAILABLE_CAPACITIES: "1Gi,lots"}}),
        ),
    ],
)
def test_an_odd_capacity_object(name, odd):
    finding = one(name, *healthy(), odd)
    assert finding.object == "CSIStorageCapacity kube-system/odd"
    assert finding.remedy


def test_a_node_of_the_driver_that_no_object_reaches():
    objects = [each for each in healthy() if each.name != "fast-n2"]
    assert "n2" in one("capacity-missing-on-node", *objects).message
    elsewhere = storage_class(topologies=[{"kubernetes.io/hostname": ["n1", "n3"]}])
    assert not found("capacity-missing-on-node", *without(objects, "StorageClass"), elsewhere)


def used(size: str, on: str, minutes_ago: float, name: str = "") -> Object:
    made = {"creationTimestamp": at(minutes_ago)}
    return volume(name or f"pv-{on}-{minutes_ago}", size, on=on, metadata=made)


def test_an_object_that_lags_behind_its_volumes_while_others_follow_is_stale():
    objects = [
        *without(healthy(), "CSIStorageCapacity"),
        capacity(node="n1", free="80Gi", metadata=written(5)),
        capacity(node="n2", free="80Gi", metadata=written(60)),
        used("20Gi", "n1", 6),
        used("10Gi", "n2", 30),
    ]
    assert one("capacity-stale", *objects).object == "CSIStorageCapacity kube-system/fast-n2"
    assert not found("thin-provisioning", *objects)


def test_an_old_object_is_not_stale_when_nothing_was_made_of_it():
    objects = [
        *without(healthy(), "CSIStorageCapacity"),
        *(capacity(node=name, free=free, metadata=written(9999)) for name, free in (("n1", "80Gi"), ("n2", "90Gi"))),
        used("20Gi", "n1", 20000),
    ]
    assert not found("capacity-stale", *objects)
    assert not found("thin-provisioning", *objects)


def test_a_volume_that_was_just_made_need_not_be_seen_yet():
    objects = [
        *NODES,
        driver(),
        storage_class(),
        capacity(node="n1", free="9Gi", metadata=written(5)),
        used("1Gi", "n1", 1),
    ]
    assert not found("thin-provisioning", *objects, used("1Gi", "n1", 1.5))


def test_figures_of_which_none_ever_follows_are_thin():
    objects = [
        *without(healthy(), "CSIStorageCapacity"),
        *(capacity(node=each.name, free="80Gi", metadata=written(100)) for each in NODES),
        *(used("20Gi", each.name, 50) for each in NODES),
    ]
    assert one("thin-provisioning", *objects).object == "CSIDriver csi.example"
    assert not found("capacity-stale", *objects)


def test_figures_that_were_published_just_before_their_volumes_were_written_are_not_thin():
    """External-provisioner publishes when the driver has made a volume, and writes the volume's object after that."""
    second = 1 / 60
    objects = [
        *without(healthy(), "CSIStorageCapacity"),
        *(capacity(node=each.name, free="80Gi", metadata=written(50 + 3 * second)) for each in NODES),
        *(used("20Gi", each.name, 50) for each in NODES),
    ]
    assert not found("thin-provisioning", *objects)
    assert not found("capacity-stale", *objects)


def test_figures_that_add_up_are_thick_whenever_they_were_written():
    # 100 + 0 = 70 + 30 = 60 + 40, last written before the volumes: as much was deleted as was made since.
    objects = [
        *without(healthy(), "CSIStorageCapacity"),
        *(
            capacity(node=name, free=free, metadata=written(100))
            for name, free in (("n1", "100Gi"), ("n2", "70Gi"), ("n3", "60Gi"))
        ),
        used("30Gi", "n2", 50),
        used("40Gi", "n3", 50),
    ]
    assert not found("thin-provisioning", *objects)


def test_equal_figures_beside_unequal_volumes_are_thin_without_any_times():
    objects = [
        *without(healthy(), "CSIStorageCapacity"),
        *(capacity(node=each.name, free="100Gi") for each in NODES),
        volume("a", "80Gi", on="n1"),
    ]
    assert one("thin-provisioning", *objects)


def test_free_and_used_that_add_up_are_thick():
    # 100 + 0 = 70 + 30 = 60 + 40
    objects = [
        *without(healthy(), "CSIStorageCapacity"),
        *(capacity(node=name, free=free) for name, free in (("n1", "100Gi"), ("n2", "70Gi"), ("n3", "60Gi"))),
        volume("a", "30Gi", on="n2"),
        volume("b", "40Gi", on="n3"),
    ]
    assert "; thick;" in one("driver-summary", *objects).message
    assert not found("thin-provisioning", *objects)


def test_sums_are_told():
    objects = [
        *without(healthy(), "CSIStorageCapacity"),
        *(capacity(node=n.name, free="300Gi", maximum="100Gi") for n in NODES),
    ]
    assert "300Gi in all, 100Gi the largest volume" in one("capacity-without-pools", *objects).message


# -- classes ----------------------------------------------------------------------------------------------------------


def two_classes(*, group: str = "", other_free: str = "100Gi") -> list[Object]:
    return [
        *healthy(),
        storage_class("slow", group=group),
        *(capacity("slow", each.name, pools=[other_free, "50Gi"]) for each in NODES),
    ]


def test_classes_that_tell_the_same_everywhere_seem_to_share_disks():
    finding = one("classes-share-disks", *two_classes())
    assert finding.object == "StorageClass fast, slow"
    assert finding.remedy == (
        "if they do: kubectl annotate storageclass fast slow --overwrite tonnage.dev/capacity-group=csi"
    )


def test_a_group_that_is_there_is_taken_for_those_that_lack_it():
    assert "storageclass fast --overwrite tonnage.dev/capacity-group=ssds" in (
        one("classes-share-disks", *two_classes(group="ssds")).remedy
    )


def test_classes_that_differ_or_are_one_group_are_left_alone():
    assert not found("classes-share-disks", *two_classes(other_free="99Gi"))
    grouped = [*without(two_classes(group="ssds"), "StorageClass", "slow"), storage_class(group="ssds")]
    both = [*without(grouped, "StorageClass"), storage_class(group="ssds"), storage_class("slow", group="ssds")]
    assert not found("classes-share-disks", *both)
    assert not found("capacity-group-alone", *both)


def test_names_in_a_command_are_quoted():
    odd = [
        storage_class("a; rm -rf x"),
        *(capacity("a; rm -rf x", n.name, pools=["100Gi", "50Gi"], name=f"o{n.name}") for n in NODES),
    ]
    assert "'a; rm -rf x'" in one("classes-share-disks", *healthy(), *odd).remedy


def test_a_group_of_one_class_has_no_effect():
    objects = [*without(healthy(), "StorageClass"), storage_class(group="alone")]
    assert one("capacity-group-alone", *objects).object == "StorageClass fast"


def test_a_pool_policy_that_is_none_is_found_on_classes_and_drivers():
    objects = [*without(healthy(), "StorageClass"), storage_class(pool_policy="emptiest")]
    finding = one("pool-policy-unreadable", *objects)
    assert finding.object == "StorageClass fast"
    assert 'tonnage.dev/pool-policy="emptiest" is not one of most-free, best-fit, first-fit, random, unknown' in (
        finding.message
    )
    assert finding.remedy.startswith("kubectl annotate storageclass fast --overwrite tonnage.dev/pool-policy=")
    objects = [*without(healthy(), "CSIDriver"), driver(pool_policy="emptiest")]
    assert one("pool-policy-unreadable", *objects).object == "CSIDriver csi.example"
    objects = [*without(healthy(), "StorageClass"), storage_class(pool_policy="most-free")]
    assert not found("pool-policy-unreadable", *objects)


def test_immediate_binding_on_a_local_driver():
    assert one("immediate-binding", *healthy(), storage_class("now", delayed=False)).object == "StorageClass now"
    network = [*NODES, driver(capacity=False), storage_class(delayed=False)]
    assert not found("immediate-binding", *network)


# -- attach limits ----------------------------------------------------------------------------------------------------


def with_limits(*limits: int | None) -> list[Object]:
    nodes = [csi_node(each.name, {DRIVER: limit}) for each, limit in zip(NODES, limits, strict=True)]
    return [*without(healthy(), "CSINode"), *nodes]


def test_attach_limits_that_nobody_tells():
    assert one("attach-limit-unknown", *with_limits(None, None, None))
    assert "n2" in one("attach-limit-on-some-nodes", *with_limits(3, None, 3)).message


def test_a_limit_of_zero():
    assert one("attach-limit-zero", *with_limits(3, 0, 3)).object == "CSINode n2"


def test_limits_that_are_never_corrected():
    assert one("attach-limit-not-refreshed", *healthy(period=None)).severity == "info"
    assert not found("attach-limit-not-refreshed", *healthy())


def test_more_volumes_than_allowed_and_refusals():
    more = [attachment(f"a{number}", f"pv{number}", "n1") for number in range(9)]
    assert "9 volumes" in one("attach-limit-exceeded", *healthy(), *more).message
    assert "no slot" in one("attach-refused", *healthy(), attachment("x", "pv", "n1", error="no slot")).message


# -- leftovers --------------------------------------------------------------------------------------------------------


def test_a_volume_whose_node_is_gone_is_data_left_behind():
    lost = volume("pv", "1Gi", on="gone", claim="default/data")
    assert "of claim default/data" in one("volume-left-behind", *healthy(), lost).message
    rebuilding = [*without(healthy(), "CSIDriver"), driver(rebuilding=True, nodeAllocatableUpdatePeriodSeconds=60)]
    assert one("volume-awaits-rebuild", *rebuilding, lost).severity == "info"
    assert not found("volume-left-behind", *rebuilding, lost)


def test_a_volume_that_any_node_reaches_is_not_left_behind():
    assert not found("volume-left-behind", *healthy(), volume("pv", "1Gi"))


def test_a_claim_whose_selected_node_is_gone():
    finding = one("selected-node-gone", *healthy(), claim("data", selected_node="gone"))
    assert "kubectl annotate pvc -n default data volume.kubernetes.io/selected-node-" in finding.remedy
    assert not found("selected-node-gone", *healthy(), claim("data", selected_node="n1"))
    assert not found("selected-node-gone", *healthy(), claim("data", selected_node="gone", volume="pv"), volume("pv"))


def test_a_claim_of_a_class_that_is_not_there():
    assert one("claim-of-missing-class", *healthy(), claim("data", class_name="lost"))


@pytest.mark.parametrize(
    ("target", "more", "why"),
    [
        ("gone", (), "gone"),
        ("n2", (attachment("a", "pv", "n2", error="full"),), "cannot be attached there: full"),
        ("n9", (node("n9", unschedulable=True),), "that node is cordoned"),
        ("n9", (node("n9", taints=["node.kubernetes.io/out-of-service:NoExecute"]),), "that node is out of service"),
    ],
)
def test_a_rebuild_that_does_not_arrive(target, more, why):
    annotations = {BIND_COMPLETED: "yes", SELECTED_NODE: target, REBUILD_TARGET: target}
    moving = claim("data", volume="pv", metadata={"annotations": annotations})
    assert why in one("rebuild-stuck", *healthy(), moving, volume("pv"), *more).message


def test_a_nomination_of_a_node_that_is_not_there():
    expected = pod("p", status={"nominatedNodeName": "gone"})
    assert one("nomination-of-missing-node", *healthy(), expected).object == "Pod default/p"


# -- pods -------------------------------------------------------------------------------------------------------------


def test_pods_that_tonnage_would_place_or_not_are_told_apart():
    # 50Gi + 50Gi fit the pools 100Gi, 50Gi; kube-scheduler reads the sum of one figure claim by claim.
    objects = [
        *NODES[:1],
        driver(),
        storage_class(),
        csi_node("n1", {DRIVER: 8}),
        capacity(node="n1", free="150Gi", maximum="100Gi", pools=["100Gi", "50Gi"]),
    ]
    fits = [claim("a", "60Gi"), claim("b", "50Gi"), pod_with("good", "a", "b")]
    assert "good" in one("pods-would-stop-pending", *objects, *fits).object
    # 90Gi and 60Gi: each is below the maximum, so that kube-scheduler sends the pod; no two pools hold them.
    bad = [claim("c", "90Gi"), claim("d", "60Gi"), pod_with("bad", "c", "d")]
    finding = one("volumes-would-be-refused", *objects, *bad)
    assert finding.object == "Pod default/bad"
    assert finding.message.startswith(
        "kube-scheduler would send 1 pod to n1, where the driver would refuse volumes: n1 is refused by VolumeBinding: "
        "node(s) did not have enough free storage"
    )
    assert not found("pods-would-become-pending", *objects, *bad)


def test_a_placement_that_the_driver_refuses_is_told_though_tonnage_has_a_better_one():
    # kube-scheduler judges 90Gi and 60Gi by 100Gi each, and takes the node with fewer pods; only n2's pools hold both.
    objects = [
        *(node("n1"), node("n2", cpu="2"), driver(), storage_class()),
        *(
            capacity(node=name, free=f, maximum="100Gi", pools=p)
            for name, f, p in (
                ("n1", "150Gi", ["100Gi", "50Gi"]),
                ("n2", "200Gi", ["100Gi", "100Gi"]),
            )
        ),
        *(claim("c", "90Gi"), claim("d", "60Gi"), pod_with("db", "c", "d", cpu="1")),
    ]
    assert one("volumes-would-be-refused", *objects).message.startswith("kube-scheduler would send 1 pod to n1")
    assert "none of them also by kube-scheduler" in one("pods-would-stop-pending", *objects).message


def test_a_thin_driver_is_not_said_to_refuse_what_its_figures_do_not_hold():
    figures = [capacity(node=each.name, free="100Gi") for each in NODES]
    objects = [*NODES, driver(), storage_class(), *figures, volume("large", "90Gi", on="n1", claim="default/other")]
    pods = [claim("a", "90Gi"), claim("b", "90Gi"), pod_with("db", "a", "b")]
    assert found("thin-provisioning", *objects, *pods)
    assert not found("volumes-would-be-refused", *objects, *pods)
    assert one("pods-would-become-pending", *objects, *pods).object == "Pod default/db"


def test_two_pods_that_kube_scheduler_sends_to_the_same_room_are_counted_one_after_the_other():
    # One pool of 100Gi and two claims of 60Gi: figures do not show the first, but the driver does.
    objects = [node("n1"), driver(), storage_class(), capacity(node="n1", free="100Gi", pools=["100Gi"])]
    pods = [each for n in "ab" for each in (claim(n, "60Gi"), pod_with(f"p-{n}", n))]
    assert one("volumes-would-be-refused", *objects, *pods).object == "Pod default/p-b"


def test_a_running_pod_that_only_kube_scheduler_would_let_in_again():
    # n1 has not the driver, and the driver wants no pods where it is not: the gate VolumeLimitScaling.
    objects = [
        *NODES[:2],
        driver(preventPodSchedulingIfMissing=True, capacity=False),
        storage_class(),
        csi_node("n1", {}),
        csi_node("n2", {DRIVER: 8}),
        volume("pv", "1Gi", claim="default/data"),
        claim("data", volume="pv"),
        pod_with("db", "data", on="n1"),
    ]
    assert "default/db" in one("pods-would-move", *objects).object
    on_n1 = volume("pv", "1Gi", on="n1", claim="default/data")
    assert "default/db" in one("pods-would-become-pending", *without(objects, "PersistentVolume"), on_n1).object


def test_pods_that_wait_are_told_by_cause_with_what_would_help():
    objects = [*healthy(), claim("a", "400Gi"), pod_with("big", "a"), pod("huge", cpu="99")]
    told = {each.object: each for each in found("pods-pending", *objects)}
    assert told["Pod default/big"].message == "1 pod waits for 400Gi of class fast"
    assert "one more pool of 400Gi" in told["Pod default/big"].remedy
    assert "99 cpu" in told["Pod default/huge"].message


def test_ctrl_c_leaves_what_is_known():
    def interrupted(amount: float) -> None:
        raise KeyboardInterrupt

    state = ClusterState([*healthy(), pod("a"), pod("b")], "the manifests", VirtualClock(NOW))
    answer = examine(Facts.of_state(state, is_live=False), state, default_configuration(), step=interrupted)
    assert answer.is_partial and answer.document()["partial"] is True
    assert "driver-summary" in {each.name for each in answer.findings}


def test_gates_that_the_clusters_scheduler_has_off_are_told_with_the_way_back():
    facts = Facts((), NOW, source="here", is_live=True, server=ServerFacts("v1.36.0", 1, 36))
    [found] = [each for each in server_findings(facts) if each.name == "gates-beyond-kube-scheduler"]
    assert "off in kube-scheduler 1.36: CSIStorageCapacityV2, " in found.message
    assert "StorageCapacityScoring ranks nodes by their free storage" in found.message
    assert "StorageCapacityScoring=false" in found.remedy and "NominatedNodeNameForExpectation" not in found.remedy
