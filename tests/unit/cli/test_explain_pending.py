"""`tonnage explain --pending`: every pod that waits, by cause, with what would help the most, each change tried."""

from __future__ import annotations

import io
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from support.configurations import storage_configuration
from tonnage.cli.explain import explain
from tonnage.objects import codec
from tonnage.objects.codec import resource_of
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Object
from tonnage.scheduling.configuration.configuration import parse
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import (
    DRIVER,
    capacity,
    claim,
    csi_node,
    driver,
    pod_with,
    storage_class,
    volume,
)
from tonnage.whatif.explain import DecisionSequence
from tonnage.whatif.page import TextPage
from tonnage.whatif.pending.pending import PendingAnswer, PendingQuestion, print_pending
from tonnage.whatif.scheduler_memory import AssumedPod, SchedulerMemory
from tonnage.whatif.sources import ClusterState, clock_of

ZONE = "topology.kubernetes.io/zone"
DELETED = {"persistentVolumeReclaimPolicy": "Delete"}


def asked(
    *objects: Object, mode: str = "Ledger", memory: SchedulerMemory | None = None, is_default: bool = True
) -> PendingAnswer:
    state = ClusterState([driver(), storage_class(), *objects], "the test", clock_of(objects), memory=memory)
    configuration = parse(storage_configuration(reservation=mode), source="config.yaml")
    question = PendingQuestion(state, DecisionSequence(state, configuration, is_default=is_default))
    question.decide()
    question.try_changes()
    return question.answer()


def owned(made: Pod, by: str, kind: str = "StatefulSet") -> Pod:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": by, "uid": f"uid-{by}", "controller": True}
    doc = codec.to_doc(made)
    doc["metadata"]["ownerReferences"] = [owner]
    return codec.decode_doc({**doc, "apiVersion": "v1", "kind": "Pod"})  # type: ignore[return-value]


def helps(answer: PendingAnswer) -> list[tuple[int, str]]:
    return [(len(each.pods), each.text) for each in answer.helps]


def messages(answer: PendingAnswer) -> list[str]:
    return [each.message for each in answer.groups]


def two_zones(*b_pools: str, a_pools: tuple[str, ...] = ("1Ti",)) -> list[Object]:
    found: list[Object] = []
    for name in ("a1", "a2", "b1", "b2"):
        pools = a_pools if name[0] == "a" else b_pools
        found += [node(name, labels={ZONE: name[0]}), capacity(node=name, pools=pools)]
    return found


def database(name: str, of: str, size: str, zone: str = "b") -> list[Object]:
    return [claim(f"{name}-data", size), owned(pod_with(name, f"{name}-data", node_selector={ZONE: zone}), of)]


# -- causes -----------------------------------------------------------------------------------------------------------


def test_pods_that_wait_for_storage_of_a_class_in_a_zone_are_one_group():
    # 14 pods of three sets, 12 of 150Gi and 2 of 124Gi: 2048Gi in all, and the pools of zone b hold none of them.
    sizes = ["150Gi"] * 12 + ["124Gi"] * 2
    pods = [each for n, size in enumerate(sizes) for each in database(f"p{n:02}", f"set-{n % 3}", size)]
    answer = asked(*two_zones("80Gi", "60Gi"), *pods)
    assert messages(answer) == ["14 pods of 3 workloads wait for 2Ti of class fast in zone b"]
    assert helps(answer)[0] == (14, "one more pool of 2Ti of class fast on any of b1, b2")
    assert answer.groups[0].cause.document() == {"kind": "storage", "about": "fast", "where": "in zone b"}


def test_a_pod_that_is_stuck_half_made_names_the_claim_that_can_go():
    born = {"creationTimestamp": "2026-11-01T12:00:00Z"}
    made = volume("pv", "40Gi", on="a", claim="default/data")
    made_at = msgspec.structs.replace(made.metadata, creation_timestamp=datetime(2026, 11, 1, 12, 0, 5, tzinfo=UTC))
    answer = asked(
        *(node("a"), capacity(node="a", pools=["10Gi"]), node("b"), capacity(node="b", pools=["100Gi"])),
        *(claim("data", "40Gi", volume="pv", selected_node="a"), claim("log", "20Gi")),
        msgspec.structs.replace(made, metadata=made_at),
        pod_with("db", "data", "log", metadata=born),
    )
    assert messages(answer) == [
        "1 pod waits for 20Gi of class fast on a. Claim default/data has a new volume on a that no pod uses, and no "
        "room for default/log is left there: if nothing was written to it, delete default/data (kubectl delete pvc -n "
        "default data), and the pod may go elsewhere."
    ]


def test_groups_partition_the_pods_and_the_largest_comes_first():
    pods = [
        *database("db-0", "db", "100Gi"),
        *database("db-1", "db", "100Gi"),
        pod("huge", cpu="100"),
        pod("gated", spec={"schedulingGates": [{"name": "x.io/q"}]}),
        pod("small"),
        pod("picky", node_selector={"disk": "tape"}),
        pod("bound", on="a1"),
        pod("done", status={"phase": "Succeeded"}),
        pod("going", metadata={"deletionTimestamp": "2026-11-01T00:00:00Z", "finalizers": ["x.io/y"]}),
    ]
    answer = asked(*two_zones("50Gi"), *pods)
    assert messages(answer) == [
        "2 pods of StatefulSet/default/db wait for 200Gi of class fast in zone b",
        "1 pod is not tried: waiting for scheduling gates: [x.io/q]",
        "1 pod waits for 100 cpu",
        "1 pod waits for a node with disk=tape: no node matches",
        "1 pod fits now",
        "1 pod is being deleted, so schedulers ignore it",
    ]
    grouped = [each.key for group in answer.groups for each in group.pods]
    waiting = {each.key for each in pods if isinstance(each, Pod) and each.name not in ("bound", "done")}
    assert len(grouped) == len(set(grouped)) and set(grouped) == waiting


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ([node("a", cpu="2"), pod("x", cpu="2500m"), pod("y", cpu="3")], "2 pods wait for 5500m cpu"),
        ([node("a", memory="1Gi"), pod("x", memory="3Gi")], "1 pod waits for 3Gi memory"),
        ([node("a", pods=0), pod("x")], "1 pod waits for room for more pods"),
        ([node("a", taints=["dedicated=db:NoSchedule"]), pod("x")], "1 pod is kept off by taint dedicated=db"),
        ([node("a", unschedulable=True), pod("x")], "1 pod waits for a cordoned node"),
        ([node("a"), node("b"), pod("x", cpu="9", spec={"nodeName": ""})], "1 pod waits for 9 cpu"),
        (
            [node("a"), node("b"), pod("x", cpu="9", node_selector={"kubernetes.io/hostname": "b"})],
            "1 pod waits for 9 cpu on b",
        ),
        (
            [node("a"), claim("c", "1Gi"), pod_with("x", "c")],
            "1 pod waits for capacity of class fast: no capacity object reaches a node",
        ),
        ([], "1 pod waits: no nodes available to schedule pods"),
        ([node("a"), pod_with("x", "missing")], '1 pod waits: persistentvolumeclaim "missing" not found'),
        (
            [
                node("a"),
                storage_class("local", provisioner="kubernetes.io/no-provisioner"),
                claim("c", "1Gi", class_name="local"),
                pod_with("x", "c"),
            ],
            "1 pod waits for a free volume of class local",
        ),
        (
            [
                node("a"),
                csi_node("a", {DRIVER: 1}),
                claim("c", volume="pv"),
                volume("pv", claim="default/c"),
                claim("d", volume="pw"),
                volume("pw", claim="default/d"),
                pod_with("x", "c", "d"),
            ],
            f"1 pod waits for 2 attach slots of {DRIVER}",
        ),
    ],
)
def test_what_pods_wait_for_is_said_in_words(objects, message):
    objects = objects or [pod("x")]
    assert messages(asked(*objects)) == [message]


AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["tape", "drum"]}]},
                {"matchExpressions": [{"key": "disk", "operator": "Exists"}, {"key": "old", "operator": "Exists"}]},
            ]
        }
    }
}


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        (
            [node("a", unschedulable=True), node("b"), pod("x", node_selector={"disk": "tape"})],
            "1 pod waits for a node with disk=tape: no node matches",
        ),
        (
            [node("a", taints=["dedicated=db:NoSchedule"]), node("b"), pod("x", node_selector={"disk": "tape"})],
            "1 pod waits for a node with disk=tape: no node matches",
        ),
        (
            [node("a", unschedulable=True), pod("x", spec={"affinity": AFFINITY}, node_selector={"zone": "b"})],
            "1 pod waits for a node with zone=b and (disk in (drum,tape) or disk and old): no node matches",
        ),
        (
            [
                node("a", unschedulable=True, labels={"disk": "tape"}),
                node("b"),
                pod("x", node_selector={"disk": "tape"}),
            ],
            "1 pod waits for a cordoned node on a",
        ),
        (
            [node("a", unschedulable=True, taints=["dedicated=db:NoSchedule"]), pod("x")],
            "1 pod is kept off by a cordon and taint dedicated=db",
        ),
        (  # b needs less than a to let the pod in
            [
                node("a", unschedulable=True, taints=["dedicated=db:NoSchedule"]),
                node("b", unschedulable=True),
                pod("x"),
            ],
            "1 pod waits for a cordoned node on b",
        ),
        (
            [node("a", unschedulable=True), node("b", unschedulable=True, cpu="9"), pod("x", cpu="8")],
            "1 pod waits for a cordoned node on b",
        ),
        (
            [
                node("a", unschedulable=True),
                node("b", labels={"disk": "ssd"}),
                pod("x", cpu="8", node_selector={"disk": "ssd"}),
            ],
            "1 pod waits for 8 cpu on b",
        ),
        (
            [node("a", unschedulable=True), pod("x", cpu="8")],
            "1 pod waits for 8 cpu on a, which is closed (a cordon)",
        ),
        (
            [node("a", unschedulable=True), node("b", taints=["old:NoSchedule"]), pod("x", cpu="8")],
            "1 pod waits for 8 cpu on nodes that are closed",
        ),
        (  # its volume is on a node that is gone; that a is cordoned is no matter
            [
                *(node("a", unschedulable=True), node("b")),
                *(claim("c", volume="pv"), volume("pv", claim="default/c", on="gone"), pod_with("x", "c")),
            ],
            "1 pod waits for a node that can reach its volumes",
        ),
        (  # its volume is on a, which its selector leaves out: there it comes further than where it may not be at all
            [
                *(node("a"), node("b", labels={"disk": "ssd"})),
                *(claim("c", volume="pv"), volume("pv", claim="default/c", on="a")),
                pod_with("x", "c", node_selector={"disk": "ssd"}),
            ],
            "1 pod waits for a node that can reach its volumes on b",
        ),
    ],
)
def test_a_cause_is_what_would_have_to_change(objects, message):
    assert messages(asked(*objects)) == [message]


def test_who_made_the_pods_is_told_through_sets_and_jobs():
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": "web-abc",
            "namespace": "default",
            "uid": "uid-web-abc",
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": True}
            ],
        },
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {}},
    }
    answer = asked(
        node("a"), codec.decode_doc(replica_set), owned(pod("x", cpu="9"), "web-abc", "ReplicaSet"), pod("y", cpu="9")
    )
    assert [each.workload for each in answer.pods] == ["Deployment/default/web", ""]
    assert messages(answer) == ["2 pods wait for 18 cpu"]


def test_the_important_and_the_old_are_decided_first_and_the_next_sees_them():
    def at(day: int) -> dict[str, Any]:
        return {"creationTimestamp": f"2026-11-0{day}T00:00:00Z"}

    pods = [
        pod("new", cpu="2", metadata=at(3)),
        pod("old", cpu="2", metadata=at(1)),
        pod("vip", cpu="2", priority=10, metadata=at(4)),
    ]
    answer = asked(node("a"), *pods)
    assert [(each.pod.name, each.node) for each in answer.pods] == [("vip", "a"), ("old", "a"), ("new", "")]


def test_pods_on_their_way_and_pods_of_others_are_told_as_what_they_are():
    sent, waits, other = pod("sent", cpu="3"), pod("waits", cpu="3"), pod("other", spec={"schedulerName": "other"})
    memory = SchedulerMemory(pods=[AssumedPod("default/sent", sent.uid, "a")])
    answer = asked(node("a"), sent, other, waits, memory=memory, is_default=False)
    assert messages(answer) == [
        "1 pod waits for 3 cpu",
        "1 pod waits for scheduler other, which this configuration does not have",
        "1 pod is on its way to a node",
    ]


# -- what would help --------------------------------------------------------------------------------------------------


def test_a_pool_is_as_large_as_those_need_whom_it_lets_in():
    # b1 has 2 cpus left of 4 and each pod wants 1: two of the three get in, with 100Gi each.
    tight = [node("b1", cpu="2", labels={ZONE: "b"}), capacity(node="b1", pools=["10Gi"])]
    pods = []
    for n in range(3):
        pods += [claim(f"c{n}", "100Gi"), pod_with(f"p{n}", f"c{n}", cpu="1")]
    assert helps(asked(*tight, *pods)) == [
        (2, "one more pool of 200Gi of class fast on b1"),
    ]


def test_closed_nodes_slots_and_nodes_like_others_are_tried():
    full = [node("a", cpu="1"), node("b", unschedulable=True), node("c", taints=["dedicated=db:NoSchedule"])]
    assert helps(asked(*full, pod("x", cpu="2"), pod("y", cpu="3"))) == [
        (1, "uncordon b"),
        (1, "take taint dedicated=db:NoSchedule off c"),
        (1, "one more node like b"),
    ]
    slots = [node("a"), csi_node("a", {DRIVER: 0})]
    for n in range(3):
        slots += [claim(f"c{n}", volume=f"pv{n}"), volume(f"pv{n}", claim=f"default/c{n}"), pod_with(f"p{n}", f"c{n}")]
    assert helps(asked(*slots)) == [(3, f"3 more attach slots for {DRIVER} on a")]
    crowded = [node("a", cpu="4"), pod("resident", cpu="4", on="a"), pod("x", cpu="3"), pod("y", cpu="1")]
    assert helps(asked(*crowded)) == [(2, "one more node like a")]


def test_gates_and_pods_that_have_a_claim_for_themselves_are_tried():
    gated = [pod(f"g{n}", spec={"schedulingGates": [{"name": "x.io/q"}]}) for n in range(2)]
    assert helps(asked(node("a"), *gated)) == [(2, "remove scheduling gate x.io/q from 2 pods")]
    alone = [
        node("a"),
        claim("c", volume="pv", modes=("ReadWriteOncePod",)),
        volume("pv", claim="default/c"),
        pod_with("first", "c", on="a"),
        pod_with("second", "c"),
    ]
    assert helps(asked(*alone)) == [(1, "delete pod default/first, which has claim default/c for itself")]


@pytest.mark.parametrize("mode", ["Ledger", "Object", "None"])
def test_trying_leaves_everything_as_it_was(mode):
    objects = [*two_zones("80Gi", "60Gi"), *database("db-0", "db", "70Gi"), *database("db-1", "db", "100Gi")]
    objects += [*database("db-2", "db", "75Gi"), pod("huge", cpu="50"), node("z", unschedulable=True)]
    objects += [claim("old", "40Gi", volume="pv"), volume("pv", "40Gi", claim="default/old", on="b1", spec=DELETED)]
    state = ClusterState([driver(), storage_class(), *objects], "the test", clock_of(objects))
    configuration = parse(storage_configuration(reservation=mode), source="config.yaml")
    sequence = DecisionSequence(state, configuration, is_default=True)
    question = PendingQuestion(state, sequence)
    question.decide()
    engine = sequence.replay.engine

    def known() -> tuple[Any, ...]:
        holds = {mode: sorted(map(str, view.holds())) for mode, view in engine.held.modes.items()}
        waiting = [pod for pod in state.pods.values() if not engine.cluster.node_of(pod.uid)]
        said = [engine.explain(pod).document() for pod in waiting]
        return holds, said, {uid: engine.cluster.node_of(uid) for uid in (each.uid for each in state.pods.values())}

    before = known()
    question.try_changes()
    first = [(each.text, each.pods) for each in question.answer().helps]
    assert known() == before
    question._helps.clear()
    question.try_changes()
    assert [(each.text, each.pods) for each in question.answer().helps] == first


def test_pods_alike_share_an_explanation_and_the_answer_is_that_of_asking_each():
    pods = [each for n in range(6) for each in database(f"p{n}", f"set-{n % 2}", "100Gi")]
    objects = [driver(), storage_class(), *two_zones("80Gi"), *pods]
    state = ClusterState(objects, "the test", clock_of(objects))
    configuration = parse(storage_configuration(reservation="Ledger"), source="config.yaml")
    found = []
    for explains_all in (True, False):
        question = PendingQuestion(state, DecisionSequence(state, configuration, is_default=True), explains_all)
        question.decide()
        question.try_changes()
        answer = question.answer()
        found.append((messages(answer), helps(answer)))
    assert found[0] == found[1]
    assert len({id(each.explanation) for each in answer.pods}) == 1


def test_pods_of_no_workload_that_are_alike_share_an_explanation_and_others_do_not():
    sizes = ["100Gi", "100Gi", "120Gi", "100Gi"]
    pods = [each for n, size in enumerate(sizes) for each in (claim(f"c{n}", size), pod_with(f"p{n}", f"c{n}"))]
    answer = asked(node("a"), capacity(node="a", free="50Gi"), *pods)
    first, second, other, last = (id(each.explanation) for each in answer.pods)
    assert first == second == last != other
    assert messages(answer) == ["4 pods wait for 420Gi of class fast"]


def test_pods_that_differ_in_size_alone_share_once_explaining_each_is_dear(monkeypatch):
    """The answer stays that of asking each: amounts are each pod's own, and a pool is large enough for all of them."""
    sizes = (150, 120, 90, 124, 200, 160)
    pods = [each for n, size in enumerate(sizes) for each in (claim(f"c{n}", f"{size}Gi"), pod_with(f"p{n}", f"c{n}"))]
    objects = [node("a"), capacity(node="a", pools=["40Gi"]), node("b"), capacity(node="b", pools=["60Gi"]), *pods]
    apart = asked(*objects)
    monkeypatch.setattr("tonnage.whatif.pending.pending.MOST_EXPLAINED_NODES", 2)
    together = asked(*objects)
    assert len({id(each.explanation) for each in apart.pods}) == 6
    assert len({id(each.explanation) for each in together.pods}) == 1
    assert messages(together) == messages(apart) == ["6 pods wait for 844Gi of class fast"]
    assert helps(together) == helps(apart)
    assert (6, "one more pool of 844Gi of class fast on any of a, b") in helps(together)


def test_a_pod_that_shares_another_ones_explanation_is_offered_a_pool_of_its_own_size(monkeypatch):
    """The node takes one pod, so that the second is asked about alone; one pool does, and no pair is told."""
    pods = [
        each for n, size in enumerate((100, 300)) for each in (claim(f"c{n}", f"{size}Gi"), pod_with(f"p{n}", f"c{n}"))
    ]
    objects = [node("a", pods=1), capacity(node="a", pools=["40Gi"]), *pods]
    apart = asked(*objects)
    monkeypatch.setattr("tonnage.whatif.pending.pending.MOST_EXPLAINED_NODES", 1)
    assert helps(asked(*objects)) == helps(apart)


def test_pods_that_ask_for_different_amounts_of_cpu_keep_their_own_once_they_share(monkeypatch):
    monkeypatch.setattr("tonnage.whatif.pending.pending.MOST_EXPLAINED_NODES", 1)
    answer = asked(node("a", cpu="1"), *(pod(f"p{n}", cpu=f"{n + 2}") for n in range(3)))
    assert messages(answer) == ["3 pods wait for 9 cpu"]
    assert len({id(each.explanation) for each in answer.pods}) == 1


def test_only_pods_that_a_change_concerns_are_tried_again(monkeypatch):
    """A pod that its own node refuses is not asked again for the sake of room on another; whoever is near it is."""
    here = {ZONE: "a"}
    objects = [
        *(node("a1", labels=here), capacity(node="a1", pools=["40Gi"])),
        *(node("b1", labels={ZONE: "b"}), capacity(node="b1", pools=["40Gi"])),
        *(claim("c0", "100Gi"), pod_with("p0", "c0", node_selector=here)),
        *(claim("c1", "100Gi"), pod_with("p1", "c1", node_selector={ZONE: "b"})),
    ]
    found = asked(*objects)
    monkeypatch.setattr("tonnage.whatif.pending.trials._Concerned.may_fit", lambda self, pod: True)
    assert helps(found) == helps(asked(*objects))
    assert (1, "one more pool of 100Gi of class fast on a1") in helps(found)


def test_a_pod_that_needs_another_pod_beside_it_is_tried_whatever_the_change():
    """What its plugin looks at is not one node: it gets in after the pod that a larger pool lets in."""
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    answer = asked(
        *(node("a", labels={"kubernetes.io/hostname": "a"}), capacity(node="a", pools=["40Gi"])),
        *(claim("c", "100Gi"), pod_with("db", "c", metadata={"labels": {"app": "db"}})),
        codec.decode_doc(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "web", "namespace": "default", "uid": "web"},
                "spec": {"affinity": affinity, "containers": [{"name": "c", "image": "i"}]},
            }
        ),
    )
    assert (2, "one more pool of 100Gi of class fast on a") in helps(answer)


def test_a_change_for_many_pods_is_told_a_little_larger_than_the_least():
    """60 pods of 100 to 106Gi, 55 of them on one node with 50Gi free: told to a 256th of what all 60 ask for."""
    sizes = [100 + n % 7 for n in range(60)]
    pods = [
        each for n, size in enumerate(sizes) for each in (claim(f"c{n}", f"{size}Gi"), pod_with(f"p{n:02}", f"c{n}"))
    ]
    answer = asked(node("a", pods=55), capacity(node="a", free="50Gi"), *pods)
    found = next(each for each in answer.helps if len(each.pods) == 55)
    least = (sum(sizes[:55]) - 50) << 30
    assert least <= found.amount <= least + (sum(sizes) << 30) // 256 + (50 << 30)


def test_a_pool_is_no_larger_than_what_finds_no_room_beside_the_rest():
    """70 and 40 for a pool of 70: the 40 alone is missing."""
    two = pod_with("two", "large", "small")
    answer = asked(node("a"), capacity(node="a", pools=["70Gi"]), claim("large", "70Gi"), claim("small", "40Gi"), two)
    assert (1, "one more pool of 40Gi of class fast on a") in helps(answer)


def test_a_label_that_a_pod_asks_for_is_told_but_none_that_says_where_a_node_is():
    picky = pod("picky", node_selector={"disk": "ssd"})
    assert helps(asked(node("a"), node("b"), picky)) == [(1, "label disk=ssd on any of a, b")]
    assert helps(asked(node("a"), pod("far", node_selector={ZONE: "z"}))) == []


def test_another_class_that_has_room_is_told_before_a_purchase():
    found = [node("a"), capacity(node="a", pools=["10Gi"]), storage_class("slow")]
    found += [capacity("slow", node="a", pools=["100Gi"]), claim("data", "40Gi"), pod_with("db", "data")]
    assert helps(asked(*found)) == [
        (1, "class slow instead of fast"),
        (1, "one more pool of 40Gi of class fast on a"),
    ]
    two = [*found, claim("more", "50Gi"), pod_with("web", "more"), claim("most", "90Gi"), pod_with("zoo", "most")]
    assert (2, "class slow instead of fast") in helps(asked(*two)), "slow holds 40Gi and 50Gi, and not 90Gi beside them"


def test_another_class_without_room_is_not_told_and_a_made_volume_keeps_its_class():
    full = [node("a"), capacity(node="a", pools=["10Gi"]), storage_class("slow")]
    waits = [claim("data", "40Gi"), pod_with("db", "data")]
    no_room = asked(*full, capacity("slow", node="a", pools=["30Gi"]), *waits)
    assert helps(no_room) == [(1, "one more pool of 40Gi of class fast on a")]
    nobody_checks = asked(*full, storage_class("cloud", provisioner="cloud.example"), *waits)
    assert helps(nobody_checks) == helps(no_room)
    made = [claim("data", "40Gi", volume="pv"), volume("pv", "40Gi", claim="default/data", on="gone")]
    answer = asked(*full, capacity("slow", node="a", pools=["90Gi"]), *made, pod_with("db", "data"))
    assert helps(answer) == []


def test_a_claim_that_no_pod_uses_is_deleted_before_anything_is_bought():
    unused = [claim("old", "40Gi", volume="pv"), volume("pv", "40Gi", claim="default/old", on="a", spec=DELETED)]
    waits = [claim("data", "60Gi"), pod_with("db", "data")]
    told = (1, "delete claim default/old, which has 40Gi on a and which no pod uses")
    one_pool = [node("a"), capacity(node="a", pools=["30Gi"])]
    assert helps(asked(*one_pool, *unused, *waits))[0] == told
    two_pools = [node("a"), capacity(node="a", pools=["30Gi", "10Gi"])]
    assert told not in helps(asked(*two_pools, *unused, *waits)), "the room may come back to either pool"
    assert told not in helps(asked(*one_pool, *unused, pod_with("user", "old", on="a"), *waits))


# -- showing ----------------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(answer: PendingAnswer, out: io.StringIO | None = None) -> str:
    out = out or io.StringIO()
    print_pending(answer, TextPage(out))
    return re.sub("\x1b\\[[0-9;]*m", "", out.getvalue())


def test_the_report_tells_groups_and_what_would_help():
    objects = [*two_zones("80Gi", "60Gi")]
    for n in range(7):
        objects += database(f"db-{n}", "db", "100Gi")
    assert shown(asked(*objects, pod("small"))) == (
        "8 pods are pending: 1 already fits and should start soon, 7 do not fit\n"
        "\n"
        "7 pods of StatefulSet/default/db wait for 700Gi of class fast in zone b\n"
        "  StatefulSet/default/db (7): default/db-0, default/db-1, default/db-2 and 4 more\n"
        "  nearest miss on b1: largest free pool 80Gi, needs 100Gi\n"
        "  one more pool of 700Gi of class fast on any of b1, b2: would let all of them in\n"
        "\n"
        "1 pod fits now\n"
        "  bare pod: default/small → b2\n"
        "\n"
        "What would help, each tried by itself\n"
        "PODS  CHANGE\n"
        "   7  one more pool of 700Gi of class fast on any of b1, b2\n"
        "   4  60Gi instead of 100Gi for each claim of class fast\n"
    )


def test_nothing_pending_and_nothing_that_helps_are_said():
    assert shown(asked(node("a"))) == "no pod is pending\n"
    assert shown(asked(node("a"), pod("x", cpu="100"))).endswith("\n\nNo single change that was tried would help.\n")


def test_who_would_be_preempted_is_told():
    answer = asked(node("a"), pod("old", cpu="3", on="a"), pod("vip", cpu="3", priority=9))
    assert "  default/vip: preemption would make room on a: default/old would go\n" in shown(answer)


LONG = "ip-10-0-" + "very-" * 20 + "long.internal"


@pytest.mark.parametrize("columns", [40, 60, 80, 120, 200])
def test_no_width_breaks_a_name(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm-256color")
    objects = [node(LONG), capacity(node=LONG, pools=["10Gi"])]
    for n in range(4):
        objects += [claim(f"c{n}", "100Gi"), owned(pod_with(f"{LONG}-{n}", f"c{n}"), LONG)]
    page = shown(asked(*objects), Terminal())
    words = {word.strip(",:;") for word in page.split()}
    assert words >= {LONG, f"StatefulSet/default/{LONG}", *(f"default/{LONG}-{n}" for n in range(4))}
    for line in page.splitlines():
        assert len(line) <= columns or max(map(len, line.split())) > columns - 6, line


# -- the command ------------------------------------------------------------------------------------------------------


def written(*objects: Object, name: str = "x.json") -> str:
    items = [
        {"apiVersion": resource_of(type(each)).api_version, "kind": type(each).__name__, **codec.to_doc(each)}
        for each in objects
    ]
    Path(name).write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return name


SCHEMA = {"pod", "schedulable", "node", "message", "nodes", "volumes", "state", "workload", "cause", "wouldHelp"}


def test_json_is_a_list_of_answers_with_their_causes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    objects = [driver(), storage_class(), *two_zones("80Gi"), *database("db-0", "db", "100Gi"), pod("small")]
    file = written(*objects)
    done = CliRunner().invoke(explain, ["-f", file, "--pending", "-o", "json"], standalone_mode=False)
    assert done.exception is None, done.exception
    waits, fits = json.loads(done.stdout)
    assert set(waits) == SCHEMA and set(fits) == SCHEMA
    assert (waits["pod"], waits["schedulable"], waits["node"]) == ("default/db-0", False, None)
    assert len(waits["nodes"]) == 4 and set(waits["volumes"]) == {"a1", "a2", "b1", "b2"}
    assert waits["cause"] == {
        "kind": "storage",
        "about": "fast",
        "where": "in zone b",
        "message": "1 pod of StatefulSet/default/db waits for 100Gi of class fast in zone b",
    }
    assert waits["wouldHelp"][:2] == [
        {"change": "80Gi instead of 100Gi for claim default/db-0-data", "pods": 1},
        {"change": "one more pool of 100Gi of class fast on any of b1, b2", "pods": 1},
    ]
    assert (fits["schedulable"], fits["cause"]["kind"], fits["wouldHelp"]) == (True, "fits", [])
    for arguments, code in (([], 0), (["--exit-code"], 3)):
        done = CliRunner().invoke(explain, ["-f", file, "--pending", *arguments], standalone_mode=False)
        assert done.exit_code == code


def test_nothing_pending_is_an_empty_list(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(explain, ["-f", written(node("a")), "--pending", "-o", "json", "--exit-code"])
    assert (done.exit_code, json.loads(done.stdout)) == (0, [])


def test_ctrl_c_ends_it_with_what_is_known(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = written(node("a", cpu="1"), pod("x", cpu="2"), pod("y", cpu="3"))

    def interrupted(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(PendingQuestion, "try_changes", interrupted)
    done = CliRunner().invoke(explain, ["-f", file, "--pending"], standalone_mode=False)
    assert done.exit_code == 130
    assert "2 pods wait for 5 cpu" in done.stdout
    assert "note: interrupted: the answer is partial; 2 of 2 pending pods were examined" in done.stderr


# -- two changes at once ----------------------------------------------------------------------------------------------


def test_where_no_single_change_helps_two_at_once_are_told():
    """No slot is left on a, and its pool of 10Gi is too small; another node like it would have neither."""
    found = [node("a"), csi_node("a", {DRIVER: 0}), capacity(node="a", pools=["10Gi"])]
    answer = asked(*found, claim("data", "20Gi"), pod_with("db", "data"))
    both = f"1 more attach slot for {DRIVER} on a, and one more pool of 20Gi of class fast on a"
    assert helps(answer) == [(1, both)]
    assert answer.document()[0]["wouldHelp"] == [{"change": both, "pods": 1}]
    # Either alone does not: the same with one of them there already needs the other alone.
    with_slot = asked(
        node("a"),
        csi_node("a", {DRIVER: 1}),
        capacity(node="a", pools=["10Gi"]),
        claim("data", "20Gi"),
        pod_with("db", "data"),
    )
    assert (1, "one more pool of 20Gi of class fast on a") in helps(with_slot)
    with_pool = asked(
        node("a"),
        csi_node("a", {DRIVER: 0}),
        capacity(node="a", pools=["20Gi"]),
        claim("data", "20Gi"),
        pod_with("db", "data"),
    )
    assert helps(with_pool) == [(1, f"1 more attach slot for {DRIVER} on a")]


def test_a_cordoned_node_without_room_needs_both():
    answer = asked(
        node("a", unschedulable=True), capacity(node="a", pools=["10Gi"]), claim("data", "20Gi"), pod_with("db", "data")
    )
    assert helps(answer) == [(1, "uncordon a, and one more pool of 20Gi of class fast on a")]


def test_pods_that_one_change_helps_are_told_no_pair():
    answer = asked(node("a"), capacity(node="a", pools=["10Gi"]), claim("data", "20Gi"), pod_with("db", "data"))
    assert helps(answer) == [
        (1, "10Gi instead of 20Gi for claim default/data"),
        (1, "one more pool of 20Gi of class fast on a"),
    ]
