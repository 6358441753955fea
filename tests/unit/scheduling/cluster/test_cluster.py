"""The columns: what an event changes, what it leaves alone, and that nothing drifts."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from support.held_memory import entries_held
from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import Node
from tonnage.scheduling.cluster.cluster import Cluster, place
from tonnage.testing.builders import cluster_of, info, node, pod


def gpus(count: int) -> dict[str, Any]:
    return {"example.com/gpu": str(count)}


def test_requests_of_pods_are_counted_on_their_row_and_given_back():
    cluster = cluster_of(node("a"), node("b"), pod("web", cpu="500m", memory="1Gi", on="b"))
    row = cluster.row_of["b"]
    assert cluster.requested[:4, row].tolist() == [500, 1 << 30, 0, 1]
    cluster.remove_pod("default-web")
    assert cluster.requested.sum() == 0 and list(cluster.pods()) == []


def test_a_heartbeat_does_not_touch_the_row():
    cluster = cluster_of(node("a"))
    before = int(cluster.changes.version[0])
    beating = convert(
        Node,
        {
            "kind": "Node",
            "metadata": {"name": "a", "labels": {"kubernetes.io/hostname": "a"}, "resourceVersion": "9"},
            "status": {
                "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        },
    )
    cluster.put_node(beating)
    assert int(cluster.changes.version[0]) == before
    cluster.put_node(node("a", cpu="5"))
    assert int(cluster.changes.version[0]) > before


def test_pods_of_an_unknown_node_are_invisible_until_it_comes():
    cluster = cluster_of(pod("web", cpu="1", on="late"))
    assert list(cluster.pods()) == [] and cluster.node_of("default-web") == "late"
    cluster.put_node(node("late"))
    assert [each.key for each in cluster.pods()] == ["default/web"]
    assert cluster.requested[0, 0] == 1000


def test_pods_of_a_removed_node_come_back_with_it():
    cluster = cluster_of(node("a"), pod("web", cpu="1", on="a"))
    cluster.remove_node("a")
    assert cluster.count == 0 and cluster.requested.sum() == 0
    cluster.put_node(node("a"))
    assert cluster.requested[0, cluster.row_of["a"]] == 1000


def test_an_ended_pod_uses_nothing():
    cluster = cluster_of(node("a"), pod("web", cpu="1", on="a"))
    place(cluster, pod("web", cpu="1", on="a", status={"phase": "Succeeded"}))
    assert cluster.requested.sum() == 0


def test_a_pod_that_says_something_new_does_not_touch_the_row():
    cluster = cluster_of(node("a"))
    cluster.put_pod(info("web", cpu="1"), "a")  # assumed
    before = cluster.changes.tick
    place(cluster, pod("web", cpu="1", on="a", status={"phase": "Running"}))  # confirmed, and running
    assert cluster.changes.tick == before
    assert [each.pod.status.phase for each in cluster.pods()] == ["Running"]
    place(cluster, pod("web", cpu="2", on="a"))
    assert cluster.changes.tick > before and cluster.requested[0, 0] == 2000


def test_a_pod_that_is_seen_on_another_node_is_moved():
    cluster = cluster_of(node("a"), node("b"))
    cluster.put_pod(info("web", cpu="1"), "a")
    place(cluster, pod("web", cpu="1", on="b"))
    assert cluster.requested[0, :2].tolist() == [0, 1000] and cluster.node_of("default-web") == "b"
    place(cluster, pod("web", cpu="1", on="nowhere"))
    assert cluster.requested.sum() == 0 and list(cluster.pods()) == []


def test_pods_change_a_row_but_not_its_node():
    cluster = cluster_of(node("a"), node("b"))
    before = cluster.node_changes.tick
    place(cluster, pod("web", cpu="1", on="b"))
    cluster.remove_pod("default-web")
    assert cluster.node_changes.tick == before and cluster.changes.since(cluster.changes.tick - 2, 64) == slice(1, 2)
    cluster.put_node(node("a", labels={"zone": "z"}))
    assert cluster.node_changes.since(before, 64) == slice(0, 1) == cluster.changes.since(cluster.changes.tick - 1, 64)


def test_taints_are_one_set_whenever_they_were_added():
    def tainted(name: str, added: str) -> Node:
        taint = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": added}
        return convert(Node, {"kind": "Node", "metadata": {"name": name}, "spec": {"taints": [taint]}})

    cluster = cluster_of(tainted("a", "2026-01-01T00:00:00Z"), tainted("b", "2026-01-02T00:00:00Z"))
    assert cluster.taint_ids[0] == cluster.taint_ids[1] != 0
    before = cluster.changes.tick
    cluster.put_node(tainted("a", "2026-01-03T00:00:00Z"))
    assert cluster.changes.tick == before


def test_a_resource_that_no_node_has_is_counted_all_the_same():
    cluster = cluster_of(node("a"), pod("web", on="a", **gpus(2)))
    assert cluster.requested[cluster.resource_id("example.com/gpu"), 0] == 2
    cluster.remove_pod("default-web")
    assert cluster.requested.sum() == 0


def test_nodes_may_come_and_go_for_years():
    cluster, held = Cluster(), []
    for number in range(500):
        cluster.put_node(node(f"n{number}", labels={f"only-{number}": "x"}, taints=[f"t{number}:NoSchedule"]))
        place(cluster, pod(f"p{number}", on=f"n{number}", host_ports=[number + 1]))
        cluster.remove_pod(f"default-p{number}")
        cluster.remove_node(f"n{number}")
        held.append(entries_held(cluster))
    assert cluster.size == 1 and cluster.count == 0
    assert len(cluster.taints) <= 3 and not len(cluster.orphans)
    assert max(held[400:]) <= max(held[:100])


def test_a_row_is_used_again_by_the_next_node():
    cluster = cluster_of(node("a", labels={"zone": "z1"}, taints=["x:NoSchedule"], unschedulable=True), node("b"))
    cluster.remove_node("a")
    cluster.put_node(node("c"))
    row = cluster.row_of["c"]
    assert row == 0 and cluster.size == 2
    assert not cluster.unschedulable[row] and cluster.taints.things[cluster.taint_ids[row]] == ()
    assert cluster.labels.column("zone").ids[row] == 0


def test_columns_after_many_events_equal_columns_made_afresh():
    rng = random.Random(11)
    live = Cluster()
    nodes: dict[str, Node] = {}
    pods = {}
    for _ in range(3000):
        action = rng.randrange(5)
        name = f"n{rng.randrange(100)}"
        if action == 0:
            nodes[name] = node(
                name,
                cpu=str(rng.randrange(1, 9)),
                labels={"zone": f"z{rng.randrange(4)}"},
                **gpus(rng.randrange(3)),
            )
            live.put_node(nodes[name])
        elif action == 1:
            nodes.pop(name, None)
            live.remove_node(name)
        elif action in (2, 3):
            made = pod(
                f"p{rng.randrange(400)}", cpu=f"{rng.randrange(2000)}m", on=name, host_ports=[rng.randrange(1, 5)]
            )
            pods[made.metadata.uid] = made
            place(live, made)
        elif pods:
            uid = rng.choice(sorted(pods))
            del pods[uid]
            live.remove_pod(uid)
    fresh = cluster_of(*nodes.values(), *pods.values())
    for name in nodes:
        here, there = live.row_of[name], fresh.row_of[name]
        for resource in ("cpu", "memory", "pods", "example.com/gpu"):
            for column in ("allocatable", "requested"):
                found = getattr(live, column)[live.resource_id(resource), here]
                assert found == getattr(fresh, column)[fresh.resource_id(resource), there], (name, resource, column)
        assert live.scored_usage[:, here].tolist() == fresh.scored_usage[:, there].tolist()
        assert live.residents[here].keys() == fresh.residents[there].keys()
        for port in range(1, 5):
            wanted = info("w", host_ports=[port]).host_ports
            assert (here in live.ports.rows_in_conflict(wanted)) == (there in fresh.ports.rows_in_conflict(wanted))
    gone = np.ones(live.size, dtype=bool)
    gone[list(live.row_of.values())] = False
    assert live.requested[:, : live.size][:, gone].sum() == 0 and live.count == len(nodes)
