"""drain-preview: who moves where, who is stuck and why, what becomes of the data, the best order, one more failure."""

from __future__ import annotations

from typing import Any

import pytest
from drain_scenes import budget, member, owned, plain, pools, preview, scene, stateful_set, stored

from tonnage.errors import TonnageError
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import capacity, claim, driver, storage_class, volume
from tonnage.whatif.drain.preview import Preview, known_nodes
from tonnage.whatif.drain.rehearsal import Rehearsal
from tonnage.whatif.sources import ClusterState, clock_of

GI = 1 << 30
MIRRORED = (storage_class(), driver(rebuilding=True))
TIED = (storage_class(), driver())
NO_ROOM = "did not have enough free storage"


def told(*objects: Any, nodes: Any, one_by_one: bool = False) -> dict[str, Any]:
    return preview(*objects, nodes=nodes, one_by_one=one_by_one).document()


def moves(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(each["pod"], each["from"], each["to"]) for each in found["moves"]]


# -- volumes ----------------------------------------------------------------------------------------------------------


def test_a_volume_is_rebuilt_where_its_pod_goes():
    cluster = (*MIRRORED, node("a"), node("b"), node("c"), pools("a", "20Gi"), pools("b", "100Gi"), pools("c", "60Gi"))
    found = told(*cluster, stored("data-db-0", "a", "80Gi"), member("db-0", "a", "data-db-0"), nodes=["a"])
    assert found["drained"] == ["a"] and found["holds"] is True and found["stuck"] == []
    # 80Gi: b has a pool of 100Gi, c of 60Gi.
    assert found["moves"] == [
        {
            "pod": "default/db-0",
            "workload": "StatefulSet/default/db",
            "from": "a",
            "to": "b",
            "volumes": [{"claim": "data-db-0", "action": "rebuild", "bytes": 80 * GI}],
        }
    ]
    assert found["bytesRebuilt"] == {
        "total": 80 * GI,
        "moves": [{"from": "a", "to": "b", "bytes": 80 * GI, "volumes": 1}],
    }
    assert found["dataLeftBehind"] == []


@pytest.mark.parametrize(("places", "stuck"), [(2, 0), (1, 1), (0, 2)])
def test_no_more_volumes_are_rebuilt_than_an_object_takes(places: int, stuck: int):
    room = capacity("fast", "b", pools=["100Gi"], free_volumes=places)
    data = [each for name in ("db-0", "kv-0") for each in stored(f"data-{name}", "a", "1Gi")]
    members = [member(name, "a", f"data-{name}") for name in ("db-0", "kv-0")]
    found = told(*MIRRORED, node("a"), node("b"), pools("a", "20Gi"), room, *data, *members, nodes=["a"])
    assert (len(found["moves"]), len(found["stuck"])) == (2 - stuck, stuck)


def test_a_volume_that_left_makes_a_place_for_another():
    rooms = [capacity("fast", name, pools=["100Gi"], free_volumes=most) for name, most in (("a", 0), ("b", 1))]
    data = stored("data-db-0", "a", "1Gi"), member("db-0", "a", "data-db-0")
    found = told(*MIRRORED, node("a"), node("b"), *rooms, *data, nodes=["a", "b"], one_by_one=True)
    assert found["stuck"] == []
    assert moves(found) == [("default/db-0", "a", "b"), ("default/db-0", "b", "a")]


def test_network_storage_is_reattached():
    cluster = (storage_class(), driver(capacity=False), node("a"), node("b"))
    data = (claim("data", "80Gi", volume="pv"), volume("pv", "80Gi", claim="default/data"))
    found = told(*cluster, *data, member("db-0", "a", "data"), nodes=["a"])
    assert found["moves"][0]["volumes"] == [{"claim": "data", "action": "reattach", "bytes": 80 * GI}]
    assert found["bytesRebuilt"]["total"] == 0 and found["holds"] is True


def test_a_volume_whose_driver_does_not_rebuild_is_data_that_stays_behind():
    cluster = (*TIED, node("a"), node("b"), pools("a", "20Gi"), pools("b", "100Gi"))
    found = told(*cluster, stored("data", "a", "80Gi"), member("db-0", "a", "data"), nodes=["a"])
    assert found["moves"] == [] and found["holds"] is False
    (stuck,) = found["stuck"]
    assert (stuck["pod"], stuck["from"], stuck["evicted"]) == ("default/db-0", "a", True)
    assert "1 node(s) didn't match PersistentVolume's node affinity" in stuck["message"]
    assert stuck["volumes"] == [{"claim": "data", "action": "stays", "bytes": 80 * GI}]
    assert found["dataLeftBehind"] == [
        {
            "node": "a",
            "what": "volume of csi.example, which does not rebuild".replace("csi.example", driver().name),
            "volume": "pv-data",
            "claim": "default/data",
            "bytes": 80 * GI,
            "pods": ["default/db-0"],
        }
    ]


def test_local_volumes_stay_behind_even_if_nobody_uses_them():
    local = volume("disk", "40Gi", on="a", driver=None, spec={"local": {"path": "/mnt/disk"}})
    found = told(node("a"), node("b"), local, nodes=["a"])
    assert [(each["volume"], each["what"], each["bytes"], each["pods"]) for each in found["dataLeftBehind"]] == [
        ("disk", "local volume", 40 * GI, [])
    ]
    assert found["holds"] is True


def test_a_volume_of_a_zone_stays_behind_only_if_the_whole_zone_is_drained():
    zone = {"key": "zone", "operator": "In", "values": ["east"]}
    nodes = (node("a", labels={"zone": "east"}), node("b", labels={"zone": "east"}), node("c"))
    data = (claim("data", "9Gi", volume="pv"), volume("pv", "9Gi", affinity=zone, claim="default/data"))
    cluster = (storage_class(), driver(capacity=False), *nodes, *data, member("db-0", "a", "data"))
    assert told(*cluster, nodes=["a"])["dataLeftBehind"] == []
    (left,) = told(*cluster, nodes=["a", "b"])["dataLeftBehind"]
    assert left["node"] == "a,b" and left["what"].endswith("reached from drained nodes only")


def test_a_claim_that_two_pods_share_is_rebuilt_once():
    cluster = (*MIRRORED, node("a"), node("b"), pools("a", "20Gi"), pools("b", "100Gi"))
    pods = [member(f"web-{each}", "a", "data", kind="ReplicaSet") for each in ("x", "y")]
    found = told(*cluster, stored("data", "a", "80Gi"), *pods, nodes=["a"])
    actions = [each["action"] for move in found["moves"] for each in move["volumes"]]
    assert actions == ["rebuild", "reattach"] and found["bytesRebuilt"]["total"] == 80 * GI


def test_a_node_that_is_cordoned_already_may_be_drained():
    cluster = (*MIRRORED, node("a", unschedulable=True), node("b"), pools("a", "20Gi"), pools("b", "100Gi"))
    freed = (claim("data", "80Gi", volume="pv", selected_node="a"), volume("pv", "80Gi", claim="default/data"))
    found = told(*cluster, *freed, member("db-0", "a", "data"), nodes=["a"])
    assert moves(found) == [("default/db-0", "a", "b")] and found["bytesRebuilt"]["total"] == 80 * GI


def test_what_a_pod_keeps_to_itself_is_lost_or_stays():
    kept = [{"name": "tmp", "emptyDir": {}}, {"name": "logs", "hostPath": {"path": "/var/log/web"}}]
    found = told(node("a"), node("b"), member("web-x", "a", kind="ReplicaSet", volumes=kept), nodes=["a"])
    assert found["dataLost"] == [{"pod": "default/web-x", "volume": "tmp", "what": "emptyDir", "bytes": None}]
    assert [(each["what"], each["pods"]) for each in found["dataLeftBehind"]] == [
        ("hostPath /var/log/web", ["default/web-x"])
    ]
    assert found["kubectlFlags"] == ["--delete-emptydir-data"]


def test_an_ephemeral_claim_ends_with_its_pod_and_is_made_anew():
    template = {"spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "30Gi"}}}}
    kept = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
    cluster = (*TIED, node("a"), node("b"), pools("a", "20Gi"), pools("b", "100Gi"))
    owner = [{"apiVersion": "v1", "kind": "Pod", "name": "web-x", "uid": "default-web-x", "controller": True}]
    own = claim("web-x-scratch", "30Gi", volume="pv", selected_node="a", metadata={"ownerReferences": owner})
    data = (own, volume("pv", "30Gi", on="a", claim="default/web-x-scratch"))
    found = told(*cluster, *data, member("web-x", "a", kind="ReplicaSet", volumes=kept), nodes=["a"])
    assert moves(found) == [("default/web-x", "a", "b")] and found["moves"][0]["volumes"] == []
    assert [(each["what"], each["bytes"]) for each in found["dataLost"]] == [("claim of an ephemeral volume", 30 * GI)]
    assert found["dataLeftBehind"] == []


# -- pods -------------------------------------------------------------------------------------------------------------


def test_who_stays_and_who_is_lost():
    static = plain("etcd-a", "a", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}})
    done = plain("done", "a", status={"phase": "Succeeded"})
    going = plain("going", "a", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    daemon = member("agent-x", "a", kind="DaemonSet")
    found = told(node("a"), node("b"), static, done, going, daemon, plain("alone", "a"), nodes=["a"])
    assert found["moves"] == [] and found["stuck"] == [] and found["holds"] is True
    assert [each["pod"] for each in found["daemons"]] == ["default/agent-x", "default/etcd-a"]
    assert [(each["pod"], each["from"]) for each in found["lost"]] == [("default/alone", "a")]
    assert found["kubectlFlags"] == ["--ignore-daemonsets", "--force"]


def test_pods_that_waited_before_are_not_stuck_by_the_drain():
    waiting = pod("waiting", cpu="64")
    found = told(node("a"), node("b"), waiting, member("web-x", "a", kind="ReplicaSet"), nodes=["a"])
    assert found["waitingBefore"] == ["default/waiting"] and found["holds"] is True
    assert moves(found) == [("default/web-x", "a", "b")]


def test_pods_without_an_owner_are_adopted_by_the_set_that_selects_them():
    orphan = plain("db-0", "a", labels={"app": "db"})
    found = told(node("a"), node("b"), stateful_set("db", 1), orphan, nodes=["a"])
    assert moves(found) == [("default/db-0", "a", "b")] and found["lost"] == []


def test_a_deployments_pods_are_told_by_their_workload():
    def made(kind: str, name: str, **metadata: Any) -> dict[str, Any]:
        selector = {"matchLabels": {"app": "web"}}
        template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}
        spec = {"replicas": 1, "selector": selector, "template": template}
        named = {"name": name, "namespace": "default", "uid": f"{kind}-{name}", **metadata}
        return {"apiVersion": "apps/v1", "kind": kind, "metadata": named, "spec": spec}

    replica_set = made("ReplicaSet", "web-1", **owned("Deployment", "web"))
    found = told(node("a"), node("b"), replica_set, member("web-1-x", "a", kind="ReplicaSet"), nodes=["a"])
    assert [each["workload"] for each in found["moves"]] == ["Deployment/default/web"]


def test_a_pod_that_makes_room_elsewhere_is_told_too():
    cluster = (node("a"), node("b", cpu="4"), node("c", cpu="1"))
    low = member("low-x", "b", kind="ReplicaSet", cpu="1", priority=0)
    high = member("high-x", "a", kind="ReplicaSet", cpu="4", priority=1000)
    found = told(*cluster, low, high, nodes=["a"])
    assert moves(found) == [("default/high-x", "a", "b")]
    assert [(each["pod"], each["from"], each["to"]) for each in found["preempted"]] == [("default/low-x", "b", "c")]
    assert found["holds"] is True


def test_a_pod_that_is_preempted_and_finds_no_other_node_is_stuck():
    low = member("low-x", "b", kind="ReplicaSet", cpu="1", priority=0)
    high = member("high-x", "a", kind="ReplicaSet", cpu="4", priority=1000)
    found = told(node("a"), node("b"), low, high, nodes=["a"])
    (stuck,) = found["stuck"]
    assert stuck["pod"] == "default/low-x" and stuck["message"].startswith("preempted by a pod that had to move; ")


def test_a_pod_behind_one_of_its_set_that_waits_is_stuck_too():
    pods = [member("db-0", "a", cpu="3"), member("db-1", "a", cpu="1")]
    found = told(node("a"), node("b", cpu="2"), stateful_set("db", 2), *pods, nodes=["a"])
    assert [(each["pod"], "Insufficient cpu" in each["message"]) for each in found["stuck"]] == [
        ("default/db-0", True),
        ("default/db-1", False),
    ]
    assert "once default/db-0 runs" in found["stuck"][1]["message"]


# -- budgets ----------------------------------------------------------------------------------------------------------


def web(*nodes: str, **options: Any) -> list[Any]:
    return [member(f"web-{number}", each, labels={"app": "web"}, **options) for number, each in enumerate(nodes)]


@pytest.mark.parametrize(
    ("spec", "is_allowed"),
    [
        ({"minAvailable": 2}, False),
        ({"minAvailable": 1}, True),
        ({"minAvailable": "100%"}, False),
        ({"minAvailable": "50%"}, True),
        ({"maxUnavailable": 0}, False),
        ({"maxUnavailable": 1}, True),
        ({"maxUnavailable": "0%"}, False),
        ({"maxUnavailable": "1%"}, True),
    ],
)
def test_budgets_in_numbers_and_shares(spec: dict[str, Any], is_allowed: bool):
    found = told(node("a"), node("b"), stateful_set("web", 2), budget("web", **spec), web("a", "b"), nodes=["a"])
    assert found["holds"] is is_allowed
    assert moves(found) == ([("default/web-0", "a", "b")] if is_allowed else [])
    if not is_allowed:
        why = "The disruption budget web needs 2 healthy pods and has 2 currently"
        assert found["budgets"] == [{"name": "default/web", "pods": ["default/web-0"], "why": why}]
        assert [(each["pod"], each["message"], each["evicted"]) for each in found["stuck"]] == [
            ("default/web-0", why, False)
        ]


def test_a_budget_lets_one_go_after_the_other():
    found = told(
        node("a"), node("b"), stateful_set("web", 3), budget("web", maxUnavailable=1), web("a", "a", "a"), nodes=["a"]
    )
    assert len(found["moves"]) == 3 and found["budgets"] == [] and found["holds"] is True


def test_a_budget_keeps_those_behind_one_that_is_stuck():
    found = told(
        node("a"),
        node("b", cpu="1"),
        stateful_set("web", 2, podManagementPolicy="Parallel"),
        budget("web", maxUnavailable=1),
        web("a", "a", cpu="2"),
        nodes=["a"],
    )
    assert {each["pod"]: each["evicted"] for each in found["stuck"]} == {"default/web-0": True, "default/web-1": False}
    assert found["budgets"][0]["why"] == "The disruption budget web needs 1 healthy pods and has 1 currently"


@pytest.mark.parametrize(("policy", "is_allowed"), [("AlwaysAllow", True), ("IfHealthyBudget", False)])
def test_an_unhealthy_pod_goes_if_its_budget_says_so(policy: str, is_allowed: bool):
    broken = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}
    pods = [*web("a", status=broken), member("web-1", "b", labels={"app": "web"})]
    rule = budget("web", minAvailable=2, unhealthyPodEvictionPolicy=policy)
    assert told(node("a"), node("b"), stateful_set("web", 2), rule, *pods, nodes=["a"])["holds"] is is_allowed


# -- several nodes ----------------------------------------------------------------------------------------------------


def three(*more: Any) -> tuple[Any, ...]:
    return (
        *MIRRORED,
        node("a"),
        node("b"),
        node("c"),
        pools("a", "100Gi"),
        pools("b", "100Gi"),
        pools("c", "50Gi"),
        *more,
    )


def test_nodes_that_are_drained_together_take_nobody():
    data = (*stored("data-db-0", "a", "40Gi"), *stored("data-db-1", "b", "40Gi"))
    found = told(*three(*data), member("db-0", "a", "data-db-0"), member("db-1", "b", "data-db-1"), nodes=["a", "b"])
    # c has 50Gi: one of the two.
    assert moves(found) == [("default/db-0", "a", "c")]
    assert [each["pod"] for each in found["stuck"]] == ["default/db-1"] and NO_ROOM in found["stuck"][0]["message"]


def test_one_by_one_each_node_comes_back():
    data = (*stored("data-db-0", "a", "40Gi"), *stored("data-db-1", "b", "40Gi"))
    cluster = (*three(*data), member("db-0", "a", "data-db-0"), member("db-1", "b", "data-db-1"))
    found = told(*cluster, nodes=["a", "b"], one_by_one=True)
    assert found["holds"] is True and found["oneByOne"] is True
    assert {each["during"] for each in found["moves"]} == {"a", "b"}


def test_one_by_one_a_pod_whose_data_stays_runs_again_when_its_node_is_back():
    cluster = (*TIED, node("a"), node("b"), pools("a", "20Gi"), pools("b", "100Gi"))
    found = told(*cluster, stored("data", "a", "80Gi"), member("db-0", "a", "data"), nodes=["a"], one_by_one=True)
    assert [(each["during"], each["comesBack"]) for each in found["stuck"]] == [("a", True)] and not found["holds"]


def test_the_best_order_is_found_by_trying_all():
    # db-0 fits on b's 60Gi alone. Drained first, a sends it to b, and then b sends it back: 100Gi are rebuilt. The
    # other way round b is empty when it is drained, and 50Gi are.
    cluster = (*MIRRORED, node("a"), node("b"), pools("a", "50Gi"), pools("b", "60Gi"))
    objects = (*cluster, *stored("data", "a", "50Gi"), member("db-0", "a", "data"))
    found = told(*objects, nodes=["a", "b"], one_by_one=True)
    assert found["bytesRebuilt"]["total"] == 100 * GI
    assert found["order"] == {
        "best": ["b", "a"],
        "stuck": 0,
        "bytesRebuilt": 50 * GI,
        "given": {"stuck": 0, "bytesRebuilt": 100 * GI},
        "tried": 2,
        "complete": True,
    }
    assert told(*objects, nodes=["b", "a"], one_by_one=True)["bytesRebuilt"]["total"] == 50 * GI


@pytest.mark.parametrize("count", [7, 13])
def test_of_many_nodes_not_all_orders_are_tried_and_that_is_said(count: int):
    nodes = [f"n{number:02d}" for number in range(count)]
    cluster = [*MIRRORED, *map(node, nodes), *(pools(each, "50Gi") for each in nodes)]
    objects = (*cluster, *stored("data", nodes[0], "50Gi"), member("db-0", nodes[0], "data"))
    order = told(*objects, nodes=nodes, one_by_one=True)["order"]
    assert sorted(order["best"]) == nodes and order["tried"] < 50 and order["complete"] is False
    assert order["bytesRebuilt"] <= order["given"]["bytesRebuilt"]


# -- one more ---------------------------------------------------------------------------------------------------------


def test_one_more_failure_that_the_cluster_does_not_survive_is_named():
    data = (*stored("data-db-0", "a", "40Gi"), *stored("data-db-1", "b", "90Gi"))
    cluster = (*three(*data), member("db-0", "a", "data-db-0"), member("db-1", "b", "data-db-1"))
    found = told(*cluster, nodes=["a"])
    assert found["holds"] is True
    more = found["survivesOneMore"]
    # Without b, db-1's 90Gi fit nowhere: a is drained and c has 50Gi.
    assert more["holds"] is False and more["complete"] is True
    failure = next(each for each in more["failures"] if each["node"] == "b")
    assert "default/db-1" in [each["pod"] for each in failure["stuck"]] and failure["during"] == ["a"]


def test_a_cluster_with_room_survives_one_more_failure():
    nodes = ("a", "b", "c")
    found = told(*map(node, nodes), *(member(f"web-{each}", each, kind="ReplicaSet") for each in nodes), nodes=["a"])
    assert found["survivesOneMore"] == {
        "holds": True,
        "tried": 2,
        "notTried": 0,
        "complete": True,
        "failures": [],
    }


def test_of_a_large_cluster_the_busiest_nodes_are_tried_and_that_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tonnage.whatif.drain.preview.MOST_WORK", 0)
    monkeypatch.setattr("tonnage.whatif.drain.preview.LEAST_TRIED", 1)
    pods = [member(f"web-{number}", each, kind="ReplicaSet") for number, each in enumerate("abccd")]
    tried: list[str] = []
    lose = Rehearsal.lose

    def lost(self: Rehearsal, name: str) -> list[Any]:
        tried.append(name)
        return list(lose(self, name))

    monkeypatch.setattr(Rehearsal, "lose", lost)
    found = told(*map(node, "abcd"), *pods, nodes=["a"])["survivesOneMore"]
    assert len(tried) == 1 and tried[0] != "a"
    assert (found["holds"], found["tried"], found["notTried"], found["complete"]) == (None, 1, 2, False)


# -- the answer itself ------------------------------------------------------------------------------------------------


def test_nodes_that_are_equally_good_are_named():
    found = told(*map(node, "abc"), member("web-x", "a", kind="ReplicaSet"), nodes=["a"])
    (move,) = found["moves"]
    assert {move["to"], *move["equallyGood"]} == {"b", "c"}


def test_the_same_question_has_the_same_answer():
    objects = (*three(*stored("data", "a", "40Gi")), member("db-0", "a", "data"), web("a", "b", "c"))
    assert told(*objects, nodes=["a", "b"], one_by_one=True) == told(*objects, nodes=["a", "b"], one_by_one=True)


def test_a_name_that_is_no_nodes_is_refused_with_those_that_are_like_it():
    state = ClusterState([node("worker-1"), node("worker-2")], "the test", clock_of([]))
    with pytest.raises(TonnageError, match='there is no node "worker1" among the 2 nodes of the test') as refused:
        known_nodes(["worker-2", "worker1"], state)
    assert refused.value.hint == "did you mean worker-1 or worker-2?"
    assert known_nodes(["worker-2", "worker-2"], state) == ("worker-2",)


def test_an_interrupted_preview_keeps_what_is_known():
    objects = (*map(node, "abc"), *(member(f"web-{each}", each, kind="ReplicaSet") for each in "abc"))
    found = Preview(scene(*objects), ("a",))
    steps = iter(range(2))

    def stop(amount: float) -> None:
        if next(steps):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        found.run(stop)
    answer = found.document()
    assert answer["partial"] is True and answer["holds"] is True and len(answer["moves"]) == 1
    assert answer["survivesOneMore"]["holds"] is None and answer["survivesOneMore"]["tried"] == 1
