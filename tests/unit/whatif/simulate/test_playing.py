"""Scenarios played: workloads that come and go, drains, failures, joins, and what a run comes to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from simulated import DRIVER, GI, cluster, played, player_of, stateful_set, workload

from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import Node, PersistentVolumeClaim, Pod
from tonnage.objects.storage_v1 import CSINode
from tonnage.whatif.simulate.measures import Measures, run_document


def nodes_of(measured: Measures) -> dict[str, str]:
    return {pod.key: pod.spec.node_name for pod in measured.world.pods()}


def test_a_stateful_set_starts_pod_by_pod(tmp_path: Path) -> None:
    """Each takes 1.5 s: made, attached, started, half a second each; the next is made when the one before runs."""
    measured = played(tmp_path, [*cluster(), stateful_set()], {"events": [{"arrive": "sts/shop/db"}]})
    made_at = [round(each.at_s, 3) for each in measured.decisions]
    assert made_at == [0.0, 1.5, 3.0]
    assert (measured.placed, measured.arrived, measured.world.controllers.not_made) == (3, 3, 0)


def test_a_stateful_set_waits_until_the_pod_before_has_been_ready_for_its_min_ready_seconds(tmp_path: Path) -> None:
    docs = [*cluster(), stateful_set(minReadySeconds=10)]
    measured = played(tmp_path, docs, {"events": [{"arrive": "sts/shop/db"}]})
    assert [round(each.at_s, 2) for each in measured.decisions] == [0.0, 11.5, 23.0]


def test_pods_of_a_set_with_a_lifetime_make_way_for_those_after_them(tmp_path: Path) -> None:
    docs = [*cluster(), stateful_set()]
    measured = played(tmp_path, docs, {"events": [{"arrive": "sts/shop/db", "lifetime": "1m"}]})
    assert [each.pod for each in measured.decisions] == ["shop/db-0", "shop/db-1", "shop/db-2"]
    assert not measured.world.pods() and measured.world.controllers.not_made == 0


def test_a_parallel_one_starts_them_all_at_once(tmp_path: Path) -> None:
    docs = [*cluster(), stateful_set(podManagementPolicy="Parallel")]
    measured = played(tmp_path, docs, {"events": [{"arrive": "sts/shop/db"}]})
    assert [each.at_s for each in measured.decisions] == [0.0, 0.0, 0.0]


def test_pods_after_one_that_waits_are_not_made(tmp_path: Path) -> None:
    docs = [*cluster(1, pools=["100Gi"]), stateful_set(replicas=4)]
    document = run_document(played(tmp_path, docs, {"events": [{"arrive": "sts/shop/db"}]}))
    # One of 60Gi fits 100Gi, the second waits, the third and fourth wait for the second.
    assert {name: document[name] for name in ("placed", "waiting", "notMade", "arrived")} == {
        "placed": 1,
        "waiting": 1,
        "notMade": 2,
        "arrived": 4,
    }
    (group,) = document["waitingPods"]
    assert group["pods"] == ["shop/db-1"]
    assert group["reason"] == "0/1 nodes are available: 1 node(s) did not have enough free storage."


def test_a_stateful_set_that_is_applied_has_the_pods_that_it_asks_for(tmp_path: Path) -> None:
    grown, shrunk = stateful_set(replicas=4), stateful_set(replicas=1)
    cases: list[tuple[list[dict[str, Any]], int]] = [
        ([{"at": "1s", "apply": [stateful_set(replicas=2)]}], 2),
        ([{"at": "1s", "apply": [stateful_set(replicas=2)]}, {"at": "1m", "apply": [grown]}], 4),
        ([{"arrive": "sts/shop/db"}, {"at": "1m", "apply": [grown]}], 4),
        ([{"at": "1s", "apply": [grown]}, {"at": "1m", "apply": [shrunk]}], 1),
    ]
    for events, left in cases:
        docs = [*cluster(), *([stateful_set(replicas=2)] if "arrive" in events[0] else [])]
        measured = played(tmp_path, docs, {"events": events})
        assert sorted(each.name for each in measured.world.pods()) == [f"db-{number}" for number in range(left)]
        assert measured.placed == left


def test_a_set_that_shrinks_forgets_the_pods_that_were_to_come(tmp_path: Path) -> None:
    events = [{"at": f"{minute}m", "apply": [stateful_set(replicas=count)]} for minute, count in ((1, 4), (2, 2))]
    measured = played(tmp_path, cluster(1, pools=["100Gi"]), {"events": events})
    assert sorted(each.name for each in measured.world.pods()) == ["db-0", "db-1"]
    assert measured.world.controllers.not_made == 0


def test_a_replica_set_that_shrinks_loses_its_waiting_pods_first(tmp_path: Path) -> None:
    # 100Gi hold two of 40Gi, and two wait.
    many, few = workload("ReplicaSet", replicas=4), workload("ReplicaSet", replicas=2)
    events = [{"at": "1s", "apply": [many]}, {"at": "1m", "apply": [few]}]
    measured = played(tmp_path, cluster(1, pools=["100Gi"]), {"events": events})
    assert [each.status.phase for each in measured.world.pods()] == ["Running", "Running"]


def test_ephemeral_claims_go_with_their_pod_and_are_made_anew_for_its_successor(tmp_path: Path) -> None:
    docs = [*cluster(2), workload("Deployment", replicas=1)]
    scenario = {"events": [{"arrive": "deploy/shop/web"}, {"at": "1m", "drain": ["node-1", "node-2"]}]}
    measured = played(tmp_path, docs, scenario)
    (pod,) = measured.world.pods()
    assert not pod.spec.node_name, "all nodes are drained"
    claims = [each.name for each in measured.world.all(PersistentVolumeClaim)]
    assert claims == [f"{pod.name}-scratch"]
    assert sum(disk.free_bytes for disk in measured.world.storage.disks) == 600 * GI, "the old volume is deleted"
    assert (measured.placed, len(measured.waiting_pods())) == (0, 1)


def test_daemons_follow_nodes_that_join_and_go_with_nodes_that_leave(tmp_path: Path) -> None:
    docs = [*cluster(2), workload("DaemonSet", "logs", None, "1Gi")]
    events = [
        {"arrive": "ds/shop/logs"},
        {"at": "1m", "join": {"like": "node-1", "names": ["node-3"]}},
        {"at": "2m", "remove": "node-2"},
    ]
    measured = played(tmp_path, docs, {"events": events})
    assert sorted(nodes_of(measured).values()) == ["node-1", "node-3"]
    assert not measured.waiting_pods()


def test_a_node_that_joins_brings_disks_of_its_own(tmp_path: Path) -> None:
    docs = [*cluster(1, pools=["100Gi"]), stateful_set(replicas=2)]
    events = [{"arrive": "sts/shop/db"}, {"at": "1m", "join": {"like": "node-1", "count": 1}}]
    measured = played(tmp_path, docs, {"events": events})
    assert nodes_of(measured) == {"shop/db-0": "node-1", "shop/db-1": "node-1-joined-1"}


def test_lifetimes_end_pods_and_their_claims(tmp_path: Path) -> None:
    docs = [*cluster(1), stateful_set(replicas=2, podManagementPolicy="Parallel")]
    measured = played(tmp_path, docs, {"events": [{"arrive": "sts/shop/db", "lifetime": "5m"}]})
    assert not measured.world.pods() and not measured.world.all(PersistentVolumeClaim)
    assert (measured.placed, measured.waiting_pods(), measured.lost) == (2, [], [])


def test_a_drain_waits_for_budgets(tmp_path: Path) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "db", "namespace": "shop"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "db"}}},
    }
    docs = [*cluster(2), stateful_set(replicas=2), budget]
    events = [{"arrive": "sts/shop/db"}, {"at": "1m", "drain": "node-1"}, {"at": "1m", "drain": "node-2"}]
    measured = played(tmp_path, docs, {"duration": "10m", "events": events})
    assert len(measured.decisions) == 2, "nobody was evicted"
    document = run_document(measured)
    assert document["blockedEvictions"] == [
        {"pod": f"shop/db-{n}", "why": "The disruption budget db needs 2 healthy pods and has 2 currently"}
        for n in range(2)
    ]


def test_a_budget_lets_them_go_one_after_the_other(tmp_path: Path) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    docs = [*cluster(3), workload("Deployment", replicas=3), budget]
    events = [{"arrive": "deploy/shop/web"}, *({"at": "1m", "drain": f"node-{n}"} for n in (1, 2))]
    measured = played(tmp_path, docs, {"duration": "10m", "events": events})
    assert set(nodes_of(measured).values()) == {"node-3"}
    evicted_at = sorted({each.at_s for each in measured.decisions if each.at_s >= 60.0})
    assert len(evicted_at) >= 2, "not all at once"


def test_a_stateful_pod_of_a_node_that_is_not_heard_of_comes_back_only_when_the_node_is_removed(tmp_path: Path) -> None:
    docs = [*cluster(2, volumeRebuilding=True), stateful_set(replicas=1, size="10Gi")]
    events: list[dict[str, Any]] = [{"arrive": "sts/shop/db"}]
    first = played(tmp_path, docs, {"events": events})
    home = nodes_of(first)["shop/db-0"]
    other = {"node-1": "node-2", "node-2": "node-1"}[home]
    events += [{"at": "1m", "fail": home}]
    lost = played(tmp_path, docs, {"duration": "30m", "events": events})
    (pod,) = lost.world.pods()
    assert pod.spec.node_name == home and pod.metadata.is_terminating, "two of one identity must not be"
    events += [{"at": "20m", "remove": home}]
    back = played(tmp_path, docs, {"duration": "30m", "events": events})
    assert nodes_of(back) == {"shop/db-0": other}
    assert back.world.storage.counts.bytes_rebuilt == 10 * GI


def test_a_stateful_pod_leaves_a_node_that_a_person_declares_dead_and_its_volume_is_rebuilt(tmp_path: Path) -> None:
    docs = [*cluster(2, volumeRebuilding=True), stateful_set(replicas=1, size="10Gi")]
    events: list[dict[str, Any]] = [{"arrive": "sts/shop/db"}]
    home = nodes_of(played(tmp_path, docs, {"events": events}))["shop/db-0"]
    other = {"node-1": "node-2", "node-2": "node-1"}[home]
    events += [{"at": "1m", "fail": home}, {"at": "20m", "outOfService": home}, {"at": "40m", "recover": home}]
    moved = played(tmp_path, docs, {"duration": "50m", "events": events})
    assert nodes_of(moved) == {"shop/db-0": other}
    assert moved.world.storage.counts.bytes_rebuilt == 10 * GI
    (node,) = [each for each in moved.world.all(Node) if each.name == home]
    assert not node.is_out_of_service


def test_pods_of_a_deployment_leave_a_failed_node_by_themselves(tmp_path: Path) -> None:
    docs = [*cluster(2), workload("Deployment", replicas=1, size="10Gi")]
    home = next(iter(nodes_of(played(tmp_path, docs, {"events": [{"arrive": "deploy/shop/web"}]})).values()))
    events = [{"arrive": "deploy/shop/web"}, {"at": "1m", "fail": home}, {"at": "15m", "recover": home}]
    measured = played(tmp_path, docs, {"duration": "20m", "events": events})
    (node,) = nodes_of(measured).values()
    assert node not in ("", home), "tolerated for five minutes, then made elsewhere; the old one ended on recovery"


def csi_nodes(nodes: int, slots: int) -> list[dict[str, Any]]:
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {"name": f"node-{number}"},
            "spec": {"drivers": [{"name": DRIVER, "nodeID": f"node-{number}", "allocatable": {"count": slots}}]},
        }
        for number in range(1, nodes + 1)
    ]


def test_a_node_that_takes_fewer_volumes_than_it_says_fails_pods_and_is_corrected(tmp_path: Path) -> None:
    docs = [
        *cluster(2, nodeAllocatableUpdatePeriodSeconds=600),
        *csi_nodes(2, slots=10),
        workload("ReplicaSet", replicas=4, size="10Gi"),
    ]
    scenario = {"storage": {"attachSlots": 2}, "events": [{"arrive": "rs/shop/web"}]}
    measured = played(tmp_path, docs, scenario)
    # Four pods, two nodes, two slots each: whoever was one too many was failed, and placed again by the truth.
    assert sorted(nodes_of(measured).values()) == ["node-1", "node-1", "node-2", "node-2"]
    counts = {each.name: each.spec.drivers[0].allocatable.count for each in measured.world.all(CSINode)}
    if measured.world.kubelets.rejected:
        assert 2 in counts.values()
    crowded = played(tmp_path, docs, {**scenario, "events": [{"arrive": "rs/shop/web", "replicas": 6}]})
    assert crowded.world.kubelets.rejected >= 1
    document = run_document(crowded)
    assert (document["placed"], document["waiting"], document["rejectedPods"]) == (
        4,
        2,
        crowded.world.kubelets.rejected,
    )
    (group,) = document["waitingPods"]
    assert "node(s) exceed max volume count" in group["reason"]


def test_without_a_period_a_pod_without_a_slot_waits_on_its_node(tmp_path: Path) -> None:
    docs = [*cluster(1), *csi_nodes(1, slots=10), workload("ReplicaSet", replicas=2, size="10Gi")]
    scenario = {"storage": {"attachSlots": 1}, "events": [{"arrive": "rs/shop/web", "lifetime": "2m"}]}
    measured = played(tmp_path, docs, {**scenario, "duration": "1m"})
    assert [pod.status.phase for pod in measured.world.pods()].count("Running") == 1
    assert measured.world.kubelets.rejected == 0
    # The first one's life ends after two minutes; then the other has the slot.
    later = played(tmp_path, docs, {**scenario, "duration": "3m"})
    assert len(later.running_after_s) == 2


def test_immediate_claims_are_made_before_their_pod_is_placed(tmp_path: Path) -> None:
    docs = [*cluster(2), stateful_set(replicas=2)]
    docs[0]["volumeBindingMode"] = "Immediate"
    measured = played(tmp_path, docs, {"events": [{"arrive": "sts/shop/db"}]})
    assert len(measured.running_after_s) == 2
    homes = {pod.key: pod.spec.node_name for pod in measured.world.pods()}
    for pod in measured.world.pods():
        volume = measured.world.volume_of(f"shop/data-{pod.name}")
        assert volume is not None
        node = homes[pod.key]
        assert volume.spec.node_affinity.admits(node, {"topology.tonnage.dev/node": node})


def test_an_immediate_claim_without_room_is_refused_once_and_made_when_there_is_some(tmp_path: Path) -> None:
    docs = [*cluster(1, pools=["100Gi"]), stateful_set(replicas=2, podManagementPolicy="Parallel")]
    docs[0]["volumeBindingMode"] = "Immediate"
    scenario = {"events": [{"arrive": "sts/shop/db", "lifetime": "5m"}]}
    measured = played(tmp_path, docs, scenario)
    assert (measured.world.storage.counts.refused, measured.placed) == (1, 2)


def test_a_volume_that_is_deleted_makes_a_place_for_another(tmp_path: Path) -> None:
    docs = [*cluster(1, pools=["1000Gi"]), stateful_set(replicas=2, podManagementPolicy="Parallel")]
    (room,) = [each for each in docs if each["kind"] == "CSIStorageCapacity"]
    room["metadata"]["annotations"] = {"tonnage.dev/free-volumes": "1"}
    scenario = {"events": [{"arrive": "sts/shop/db", "lifetime": "5m"}]}
    measured = played(tmp_path, docs, scenario)
    assert measured.placed == 2
    first, second = sorted(measured.running_after_s)
    assert first < 300 < second


def test_static_volumes_are_bound_by_the_scheduler_and_by_the_binder(tmp_path: Path) -> None:
    def volume(name: str, class_name: str, node: str) -> dict[str, Any]:
        term = {"matchExpressions": [{"key": "topology.tonnage.dev/node", "operator": "In", "values": [node]}]}
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": "100Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": class_name,
                "persistentVolumeReclaimPolicy": "Retain",
                "local": {"path": "/mnt"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            },
        }

    docs = cluster(2)
    for name, mode in (("late", "WaitForFirstConsumer"), ("soon", "Immediate")):
        wanted = stateful_set(name, 1)
        wanted["spec"]["volumeClaimTemplates"][0]["spec"]["storageClassName"] = name
        owned = {"metadata": {"name": name}, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": mode}
        docs += [wanted, {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", **owned}]
    docs += [volume("disk-1", "late", "node-1"), volume("disk-2", "soon", "node-2")]
    events = [{"arrive": "sts/shop/late"}, {"arrive": "sts/shop/soon"}]
    measured = played(tmp_path, docs, {"events": events})
    assert nodes_of(measured) == {"shop/late-0": "node-1", "shop/soon-0": "node-2"}
    assert len(measured.running_after_s) == 2


def test_a_zone_is_one_disk_for_all_its_nodes(tmp_path: Path) -> None:
    docs = [*cluster(3), stateful_set(replicas=4, podManagementPolicy="Parallel")]
    docs = [each for each in docs if each["kind"] != "CSIStorageCapacity"]
    for each in docs:
        if each["kind"] == "Node":
            each["metadata"]["labels"]["zone"] = "a"
    docs.append(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIStorageCapacity",
            "metadata": {"name": "zone-a", "namespace": "kube-system"},
            "storageClassName": "pools",
            "nodeTopology": {"matchLabels": {"zone": "a"}},
            "capacity": "200Gi",
        }
    )
    events = [{"arrive": "sts/shop/db"}, {"at": "1m", "drain": "node-1"}]
    measured = played(tmp_path, docs, {"events": events})
    # 3 of 60Gi fit 200Gi, wherever they run; a drained node takes no volume along, and none is rebuilt.
    assert (measured.placed, len(measured.waiting_pods())) == (3, 1)
    assert measured.world.storage.counts.bytes_rebuilt == 0


def test_classes_of_one_group_draw_from_one_disk(tmp_path: Path) -> None:
    docs = [*cluster(1, pools=["100Gi"]), stateful_set("one", 1), stateful_set("two", 1)]
    group = {"tonnage.dev/capacity-group": "disks"}
    docs[0]["metadata"]["annotations"] = group
    docs.append({**docs[0], "metadata": {"name": "other", "annotations": group}})
    (own,) = (each for each in docs if each["kind"] == "CSIStorageCapacity")
    docs.append({**own, "metadata": {**own["metadata"], "name": "others"}, "storageClassName": "other"})
    docs[-4]["spec"]["volumeClaimTemplates"][0]["spec"]["storageClassName"] = "other"
    measured = played(tmp_path, docs, {"events": [{"arrive": "sts/shop/one"}, {"arrive": "sts/shop/two"}]})
    (disk,) = measured.world.storage.disks
    assert disk.free_bytes == 40 * GI
    assert (measured.placed, len(measured.waiting_pods()), measured.world.storage.counts.refused) == (1, 1, 0)


def test_a_disk_grows_when_somebody_applies_other_figures(tmp_path: Path) -> None:
    docs = [*cluster(1, pools=["100Gi"]), stateful_set(replicas=2)]
    (own,) = (each for each in docs if each["kind"] == "CSIStorageCapacity")
    grown = {**own, "availableCapacities": ["200Gi"], "capacity": "200Gi"}
    events = [{"arrive": "sts/shop/db"}, {"at": "1m", "apply": [grown]}]
    measured = played(tmp_path, docs, {"events": events})
    assert (measured.placed, measured.world.storage.counts.refused) == (2, 0)


def test_a_deleted_pod_comes_back_and_those_of_a_deleted_workload_do_not(tmp_path: Path) -> None:
    docs = [*cluster(2), stateful_set(replicas=1), workload("Deployment", replicas=2)]
    events = [
        {"arrive": "sts/shop/db"},
        {"arrive": "deploy/shop/web"},
        {"at": "1m", "delete": [{"kind": "Pod", "namespace": "shop", "name": "db-0"}]},
        {"at": "1m", "delete": [{"kind": "Deployment", "namespace": "shop", "name": "web"}]},
    ]
    measured = played(tmp_path, docs, {"events": events})
    assert list(nodes_of(measured)) == ["shop/db-0"]
    assert isinstance(measured.world.get(Pod, "shop/db-0"), Pod)


def test_a_pod_that_nobody_manages_is_lost_in_a_drain(tmp_path: Path) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "alone", "namespace": "shop"},
        "spec": {"containers": [{"name": "a", "image": "a"}]},
    }
    docs = [*cluster(1), pod]
    document = run_document(played(tmp_path, docs, {"events": [{"at": "1m", "drain": "node-1"}]}))
    assert document["lost"] == [{"pod": "shop/alone", "why": "evicted"}]
    assert (document["arrived"], document["placed"], document["waiting"]) == (1, 0, 0)


def test_a_preempted_pod_is_followed_by_another(tmp_path: Path) -> None:
    high = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 1000,
    }
    low, urgent = workload("Deployment", "low", 1, "1Gi"), workload("Deployment", "urgent", 1, "1Gi")
    for each in (low, urgent):
        each["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "10"}}
    urgent["spec"]["template"]["spec"]["priorityClassName"] = "high"
    events = [{"arrive": "deploy/shop/low"}, {"at": "1m", "arrive": "deploy/shop/urgent"}]
    measured = played(tmp_path, [*cluster(1), high, low, urgent], {"events": events})
    by_app = {pod.metadata.labels["app"]: pod.spec.node_name for pod in measured.world.pods()}
    assert by_app == {"low": "", "urgent": "node-1"}


@pytest.mark.parametrize(
    ("events", "told", "hint"),
    [
        (
            [{"arrive": "sts/shop/dbs"}],
            "events[0].arrive is wrong: there is no StatefulSet shop/dbs",
            "StatefulSet/shop/db",
        ),
        ([{"arrive": "pods/shop/db"}], "events[0].arrive is wrong: ", "kinds that make pods"),
        (
            [{"at": "1s", "drain": "node-7"}],
            'events[0].drain is "node-7", and there is no such node then',
            "the nodes are node-1",
        ),
        (
            [{"at": "1s", "join": {"like": "node-7", "count": 1}}],
            'events[0].join.like is "node-7"',
            "the nodes are node-1",
        ),
        ([{"at": "1s", "join": {"like": "node-1", "names": ["node-2"]}}], 'has "node-2", which is there already', ""),
        ([{"at": "1s", "remove": "node-1"}, {"at": "2s", "drain": "node-1"}], 'events[1].drain is "node-1"', "node-2"),
        ([{"at": "1s", "apply": [{"kind": "Pod", "apiVersion": "v1"}]}], "scenario.yaml", ""),
        ([{"at": "1s", "apply": [{"kind": "Nod", "apiVersion": "v1", "metadata": {"name": "a"}}]}], "kind", ""),
    ],
)
def test_what_a_cluster_has_not_is_told_before_anything_is_run(
    tmp_path: Path, events: list[dict[str, Any]], told: str, hint: str
) -> None:
    with pytest.raises(TonnageError) as found:
        player_of(tmp_path, [*cluster(2), stateful_set()], {"events": events})
    assert told in found.value.message and "scenario.yaml" in found.value.message
    assert hint in (found.value.hint or "")
