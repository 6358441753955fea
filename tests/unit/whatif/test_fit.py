"""`fit`: counting, stops, remedies, templates and nodes needed, through the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from tonnage.cli.explain import explain
from tonnage.cli.questions import fit
from tonnage.errors import TonnageError
from tonnage.objects.storage_v1 import POOL_POLICY

CLUSTER = """
apiVersion: v1
kind: NodeList
items:
- metadata: {name: a, labels: {kubernetes.io/hostname: a, topology.kubernetes.io/zone: east}}
  status: {allocatable: {cpu: "8", memory: 32Gi, pods: "110"}}
- metadata: {name: b, labels: {kubernetes.io/hostname: b, topology.kubernetes.io/zone: west}}
  spec: {unschedulable: false}
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
capacity: 200Gi
availableCapacities: [100Gi, 100Gi]
nodeTopology: {matchLabels: {kubernetes.io/hostname: a}}
---
apiVersion: storage.k8s.io/v1
kind: CSIStorageCapacity
metadata: {name: cap-b, namespace: kube-system}
storageClassName: fast
capacity: 100Gi
availableCapacities: [100Gi]
nodeTopology: {matchLabels: {kubernetes.io/hostname: b}}
---
"""
DB = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop}
spec:
  replicas: 9
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 500m}}}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 60Gi}}, storageClassName: fast}
"""
POD = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 60Gi}}, storageClassName: fast}
---
apiVersion: v1
kind: Pod
metadata: {name: db}
spec:
  containers: [{name: c, image: x}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
"""
NODE = """
apiVersion: v1
kind: Node
metadata: {name: big, labels: {kubernetes.io/hostname: big}}
status: {allocatable: {cpu: "8", memory: 32Gi, pods: "110"}}
---
apiVersion: storage.k8s.io/v1
kind: CSIStorageCapacity
metadata: {name: cap-big, namespace: kube-system}
storageClassName: fast
availableCapacities: [130Gi]
nodeTopology: {matchLabels: {kubernetes.io/hostname: big}}
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(cluster: str, *arguments: str) -> Result:
    Path("cluster.yaml").write_text(cluster)
    return CliRunner().invoke(fit, ["-f", "cluster.yaml", *arguments], standalone_mode=False)


def answer(cluster: str, *arguments: str) -> dict[str, Any]:
    result = run(cluster, *arguments, "-o", "json")
    assert result.exception is None, result.exception
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_replicas_are_counted_by_node_and_zone_and_what_stops_the_next_is_told():
    found = answer(CLUSTER + DB, "--workload", "sts/shop/db")
    assert found["count"] == 3
    assert found["byNode"] == {"a": 2, "b": 1}
    assert found["byZone"] == {"east": 2, "west": 1}
    assert found["stops"] == [{"reason": "node(s) did not have enough free storage", "nodes": 2}]
    assert found["wouldHelp"] == [
        "40Gi instead of 60Gi for claim data-db-3",
        "one more pool of 60Gi of class fast on any of a, b",
        "one more node like any of a, b",
    ]


def test_the_table_says_the_same():
    lines = run(CLUSTER + DB, "--workload", "StatefulSet/shop/db").stdout.splitlines()
    assert lines[0] == "StatefulSet shop/db: 3 more fit; room for 3 of 9 replicas"
    assert "    2  node(s) did not have enough free storage" in lines


def test_counting_ends_where_it_is_told_to():
    found = answer(CLUSTER + DB, "--workload", "sts/shop/db", "--max", "2")
    assert (found["count"], found["partial"], found["stops"]) == (2, True, [])


def test_a_cordoned_node_is_a_remedy_that_costs_nothing():
    found = answer(CLUSTER.replace("unschedulable: false", "unschedulable: true") + DB, "--workload", "sts/shop/db")
    assert found["count"] == 2
    assert found["wouldHelp"][0] == "uncordon b"


def test_attach_slots_that_are_missing_are_counted():
    slots = """
---
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: a}
spec: {drivers: [{name: pools.tonnage.dev, nodeID: a, topologyKeys: [], allocatable: {count: 1}}]}
---
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: b}
spec: {drivers: [{name: pools.tonnage.dev, nodeID: b, topologyKeys: [], allocatable: {count: 1}}]}
"""
    found = answer(CLUSTER + DB + slots, "--workload", "sts/shop/db")
    assert found["count"] == 2
    assert found["wouldHelp"][0] == "1 more attach slot for pools.tonnage.dev on a"


def test_what_a_node_lacks_of_a_resource_is_told():
    large = DB.replace("cpu: 500m", 'cpu: "5"').replace("60Gi", "1Gi")
    found = answer(CLUSTER + large, "--workload", "sts/shop/db")
    assert found["count"] == 2
    (remedy,) = [each for each in found["remedies"] if each["kind"] == "resource"]
    assert (remedy["text"], remedy["node"], remedy["nodes"]) == ("2 more cpu on any of a, b", "a", ["a", "b"])


def test_two_changes_at_once_are_told_where_no_single_one_does():
    """A pod of 120 Gi and 9 CPU: the largest pool has 100 Gi, and a node 8 CPU."""
    large = DB.replace("cpu: 500m", 'cpu: "9"').replace("60Gi", "120Gi")
    found = answer(CLUSTER + large, "--workload", "sts/shop/db")
    assert found["count"] == 0
    assert found["wouldHelp"][0] == "one more pool of 120Gi of class fast and 1 more cpu on any of a, b"
    (pair,) = [each for each in found["remedies"] if each["kind"] == "pair"]
    assert pair["nodes"] == ["a", "b"]
    assert [(each["kind"], each["amount"]) for each in pair["changes"]] == [("pool", 120 << 30), ("resource", 1000)]


def test_a_pair_is_not_looked_for_where_one_change_does():
    found = answer(CLUSTER + DB, "--workload", "sts/shop/db")
    assert {each["kind"] for each in found["remedies"]} == {"request", "pool", "node"}


def test_a_cordoned_node_that_is_too_small_needs_both():
    closed = CLUSTER.replace("unschedulable: false", "unschedulable: true").replace('cpu: "8"', 'cpu: "1"')
    found = answer(closed + DB.replace("cpu: 500m", 'cpu: "3"'), "--workload", "sts/shop/db")
    assert found["wouldHelp"][0] == "2 more cpu on a", "the other needs no second change"
    alone = closed.replace(
        "metadata: {name: a,", "spec: {taints: [{key: x, effect: NoSchedule}]}\n  metadata: {name: a,"
    )
    found = answer(alone + DB.replace("cpu: 500m", 'cpu: "3"'), "--workload", "sts/shop/db")
    assert [each["text"] for each in found["remedies"] if each["kind"] == "pair"] == [
        "uncordon b and 2 more cpu on b",
        "the taint x:NoSchedule off a and 2 more cpu on a",
    ]


def test_a_template_that_is_not_in_the_cluster_is_counted_with_its_own_claims():
    Path("pod.yaml").write_text(POD)
    assert answer(CLUSTER, "--template", "pod.yaml")["count"] == 3
    Path("set.yaml").write_text(DB)
    assert answer(CLUSTER, "--template", "set.yaml")["count"] == 3


def test_the_fewest_nodes_of_a_kind_that_hold_a_workload():
    Path("node.yaml").write_text(NODE)
    found = answer(CLUSTER + DB, "--workload", "sts/shop/db", "--node-template", "node.yaml", "--nodes-needed")
    assert found["nodesNeeded"] == {"nodes": 3, "pods": 9, "template": "big"}
    assert found["count"] == 3


def test_nodes_are_not_counted_for_a_workload_without_end():
    Path("node.yaml").write_text(NODE)
    huge = DB.replace("replicas: 9", "replicas: 2147483647")
    assert answer(CLUSTER + huge, "--workload", "sts/shop/db")["count"] == 3
    result = run(CLUSTER + huge, "--workload", "sts/shop/db", "--node-template", "node.yaml", "--nodes-needed")
    assert isinstance(result.exception, TonnageError)
    assert "asks for 2,147,483,647 more pods, and nodes are counted for 100,000 at most" in result.exception.message


def test_a_node_that_is_too_small_even_when_empty_is_an_error():
    Path("node.yaml").write_text(NODE.replace("130Gi", "50Gi"))
    result = run(CLUSTER + DB, "--workload", "sts/shop/db", "--node-template", "node.yaml", "--nodes-needed")
    assert isinstance(result.exception, TonnageError)
    assert "does not fit on an empty node like big either: node(s) did not have enough free storage" in str(
        result.exception.message
    )


def test_pods_that_wait_already_are_tried_first():
    result = run(CLUSTER + DB + "---" + POD, "--workload", "sts/shop/db", "-o", "json")
    assert "note: 1 pod waits for a node already and is tried first" in result.stderr
    assert json.loads(result.stdout)["count"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--workload KIND/NS/NAME or --template FILE"),
        (("--workload", "sts/shop/db", "--template", "x"), "give either --workload"),
        (("--workload", "sts/shop/db", "--nodes-needed"), "--nodes-needed needs --node-template"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], message: str):
    result = run(CLUSTER + DB, *arguments)
    assert isinstance(result.exception, click.UsageError) and message in result.exception.message


@pytest.mark.parametrize(
    ("text", "message"),
    [(DB + "---" + POD, "holds 1 workloads and 1 pods"), (NODE, "holds 0 workloads and 0 pods")],
)
def test_a_template_is_one_workload_or_one_pod(text: str, message: str):
    Path("template.yaml").write_text(text)
    result = run(CLUSTER, "--template", "template.yaml")
    assert isinstance(result.exception, TonnageError) and message in result.exception.message


KAFKA = ("180Gi", "20Gi")


def test_a_driver_that_picks_as_nobody_knows_has_a_range():
    """Two pools of 400: each holds two replicas, unless the driver keeps one pool for the 20s until 160 are left."""
    unknown = one_node("400Gi, 400Gi") + two_claims(*KAFKA)
    found = answer(unknown, "--workload", "sts/shop/db")
    assert (found["count"], found["atMost"]) == (3, 4)
    assert found["grades"] == {"count": "guaranteed", "atMost": "possible"}
    lines = run(unknown, "--workload", "sts/shop/db").stdout.splitlines()
    assert lines[0] == "StatefulSet shop/db: 3 more for certain, 4 if the driver packs well; room for 3 of 9 replicas"


@pytest.mark.parametrize(("policy", "count"), [("best-fit", 4), ("most-free", 3), ("first-fit", 4), ("random", 3)])
def test_a_known_policy_is_played_and_volumes_that_are_made_are_in_the_figures(policy: str, count: int):
    """With most-free, the first two replicas leave 220 and 180 if the second 20 comes before its 180: if the third 180
    comes first, 160 and 40 are left."""
    found = answer(picking(policy, "400Gi, 400Gi") + two_claims(*KAFKA), "--workload", "sts/shop/db")
    assert (found["count"], found["atMost"]) == (count, 4)
    assert found["grades"]["count"] == "guaranteed"


def test_the_order_of_first_fit_is_not_known():
    """Pools 100 and 70, claims 50 and 20: 50 and 20 to the 70 and again to the 100, or both to the 100 and 50 to 70."""
    found = answer(picking("first-fit", "100Gi, 70Gi") + two_claims("50Gi", "20Gi"), "--workload", "sts/shop/db")
    assert (found["count"], found["atMost"]) == (2, 2)


def test_the_fewest_with_first_fit_are_where_the_scheduler_cannot_help():
    """Pools 200, 180 and 60. 20 and 180 to the 200: the next 180 is sent first, to the 180, and its 20 to the 60.
    20 to the 180 and 180 to the 200: the next 180 has no room."""
    found = answer(picking("first-fit", "200Gi, 180Gi, 60Gi") + two_claims(*KAFKA), "--workload", "sts/shop/db")
    assert (found["count"], found["atMost"]) == (1, 2)


@pytest.mark.parametrize(
    ("policy", "pools", "claims", "found"),
    [
        # 20 before its 180: 200 and 180 become 180 and 0. 180 before its 20: 20 and 160, and no 180 has room.
        ("most-free", "200Gi, 180Gi, 60Gi", ("180Gi", "20Gi"), (1, 2)),
        # 20 before its 50 goes to the 50, which then goes to the 60: 30, 10 and 100 hold one replica more. 50 before
        # its 20 leaves 0, 40 and 100: there they hold two.
        ("best-fit", "60Gi, 50Gi, 100Gi", ("50Gi", "20Gi"), (2, 3)),
        # Each pool holds one kind of claim only, whatever comes first.
        ("most-free", "100Gi, 20Gi", ("100Gi", "20Gi"), (1, 1)),
        ("most-free", "200Gi", ("70Gi", "30Gi"), (2, 2)),
    ],
)
def test_the_order_in_which_a_driver_makes_volumes_is_not_known(
    policy: str, pools: str, claims: tuple[str, str], found: tuple[int, int]
):
    answered = answer(picking(policy, pools) + two_claims(*claims), "--workload", "sts/shop/db")
    assert (answered["count"], answered["atMost"]) == found
    assert answered["grades"]["count"] == "guaranteed"


@pytest.mark.parametrize(("management", "at_most"), [("Parallel", 3), ("OrderedReady", 2)])
def test_replicas_that_come_together_have_their_volumes_made_in_any_order(management: str, at_most: int):
    """20 and 20 to the 200s, 180 to the 190, 180 to one of 180: 180 and 20 are left. One replica after the other, a 20
    goes to the 190 or the second 180 to a 200."""
    asked = two_claims(*KAFKA).replace("serviceName", f"podManagementPolicy: {management}\n  serviceName")
    found = answer(picking("most-free", "200Gi, 200Gi, 190Gi, 20Gi") + asked, "--workload", "sts/shop/db")
    assert (found["count"], found["atMost"]) == (2, at_most)


IN_COMMON = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast, annotations: {tonnage.dev/pool-policy: first-fit}}
provisioner: pools.tonnage.dev
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: some, annotations: {tonnage.dev/pool-policy: first-fit}}
provisioner: pools.tonnage.dev
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: CSIStorageCapacity
metadata: {name: fast, namespace: kube-system, annotations: {tonnage.dev/pool-ids: "vg-3,vg-2,vg-1"}}
storageClassName: fast
availableCapacities: [20000Mi, 15360Mi, 10200Mi]
nodeTopology: {matchLabels: {kubernetes.io/hostname: a}}
---
apiVersion: storage.k8s.io/v1
kind: CSIStorageCapacity
metadata: {name: some, namespace: kube-system, annotations: {tonnage.dev/pool-ids: "vg-3,vg-2"}}
storageClassName: some
availableCapacities: [20000Mi, 15360Mi]
nodeTopology: {matchLabels: {kubernetes.io/hostname: a}}
---
"""


@pytest.mark.parametrize("sizes", [("2Gi", "5Gi"), ("5Gi", "2Gi")])
@pytest.mark.parametrize(("management", "count"), [("Parallel", 4), ("OrderedReady", 5)])
def test_the_order_in_which_a_first_fit_driver_gets_the_claims_is_not_known_either(
    sizes: tuple[str, str], management: str, count: int
):
    """With vg-1 first, the claims of 2Gi go there: vg-2 and vg-3 hold three of 5Gi each, whichever claim is made first.
    With vg-3 first, a 2Gi claim that is made first keeps one of 5Gi out of it. With vg-2 first, and replicas that come
    together, the claims of 2Gi of three follow one of 5Gi there, and vg-3 holds three of 5Gi."""
    node = CLUSTER.partition("---\napiVersion: storage.k8s.io/v1\nkind: StorageClass")[0]
    driver = "apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {name: pools.tonnage.dev}\n"
    cluster = f"{node}---\n{driver}spec: {{storageCapacity: true}}\n---{IN_COMMON}"
    asked = two_claims(*sizes).replace("serviceName", f"podManagementPolicy: {management}\n  serviceName")
    asked = asked.replace("5Gi}}, storageClassName: fast", "5Gi}}, storageClassName: some")
    found = answer(cluster + asked, "--workload", "sts/shop/db")
    assert (found["count"], found["atMost"]) == (count, 6)


def test_a_claim_that_may_go_elsewhere_may_take_the_only_pool_of_another_class():
    """One claim of 1Gi may go to vg-0 alone, the other to vg-1 too: 3 replicas run only if it goes there."""
    cluster = IN_COMMON.replace(", annotations: {tonnage.dev/pool-policy: first-fit}", "")
    cluster = cluster.replace("vg-3,vg-2,vg-1", "vg-0").replace("20000Mi, 15360Mi, 10200Mi", "4Gi")
    cluster = cluster.replace("vg-3,vg-2", "vg-0,vg-1").replace("20000Mi, 15360Mi", "4Gi, 3Gi")
    node = CLUSTER.partition("---\napiVersion: storage.k8s.io/v1\nkind: StorageClass")[0]
    driver = "apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {name: pools.tonnage.dev}\n"
    asked = two_claims("1Gi", "1024Mi").replace("1024Mi}}, storageClassName: fast", "1Gi}}, storageClassName: some")
    found = answer(
        f"{node}---\n{driver}spec: {{storageCapacity: true}}\n---{cluster}{asked}", "--workload", "sts/shop/db"
    )
    assert (found["count"], found["atMost"]) == (2, 3)


def test_explain_tells_the_same_truth():
    cluster = picking("best-fit", "400Gi, 400Gi") + two_claims(*KAFKA)
    Path("cluster.yaml").write_text(cluster)
    result = CliRunner().invoke(
        explain, ["-f", "cluster.yaml", "--workload", "sts/shop/db", "-o", "json"], standalone_mode=False
    )
    assert sum(each["schedulable"] for each in json.loads(result.stdout)) == 4


def picking(policy: str, pools: str) -> str:
    return one_node(pools).replace("name: fast}", f"name: fast, annotations: {{{POOL_POLICY}: {policy}}}}}")


def test_figures_that_are_single_numbers_are_said_to_be():
    vague = CLUSTER.replace("availableCapacities: [100Gi, 100Gi]\n", "").replace("availableCapacities: [100Gi]\n", "")
    found = answer(vague + DB, "--workload", "sts/shop/db")
    (note,) = found["notes"]
    assert note.startswith("the free room of class fast is reported as one number") and "tonnage pools" in note
    assert found["grades"]["count"] == "possible"
    assert answer(CLUSTER + DB, "--workload", "sts/shop/db")["notes"] == []


def test_a_class_whose_volumes_have_replicas_is_said_to_take_room_on_several_nodes():
    copied = CLUSTER.replace("name: fast}", 'name: fast, annotations: {tonnage.dev/volume-copies: "3"}}')
    found = answer(copied + DB, "--workload", "sts/shop/db")
    assert found["notes"] == ["a claim of class fast takes room on 3 nodes: a replica of its volume on each"]
    assert found["grades"]["count"] == "possible"


def test_a_pod_with_ephemeral_volumes_is_a_template_too():
    pod = """
apiVersion: v1
kind: Pod
metadata: {name: scratch}
spec:
  containers: [{name: c, image: x}]
  volumes:
  - name: tmp
    ephemeral:
      volumeClaimTemplate:
        spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 60Gi}}, storageClassName: fast}
"""
    Path("pod.yaml").write_text(pod)
    assert answer(CLUSTER, "--template", "pod.yaml")["count"] == 3


@pytest.mark.parametrize(("replicas", "code"), [(3, 0), (4, 3), (0, 0)])
def test_the_exit_code_tells_whether_all_fit(replicas: int, code: int):
    wanted = DB.replace("replicas: 9", f"replicas: {replicas}")
    Path("cluster.yaml").write_text(CLUSTER + wanted)
    found = CliRunner().invoke(fit, ["-f", "cluster.yaml", "--workload", "sts/shop/db", "--exit-code"])
    assert found.exit_code == code, found.output


def one_node(pools: str) -> str:
    cluster = CLUSTER.partition("---\napiVersion: storage.k8s.io/v1\nkind: CSIStorageCapacity\nmetadata: {name: cap-b")[
        0
    ]
    return cluster.replace("[100Gi, 100Gi]", f"[{pools}]").replace("capacity: 200Gi\n", "") + "---\n"


def two_claims(one: str, other: str) -> str:
    second = f"""
  - metadata: {{name: log}}
    spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: {other}}}}}, storageClassName: fast}}
"""
    return DB.replace("60Gi", one).rstrip("\n") + second


PRIORITY = """
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: gold}
value: 1000
"""
LIMITS = """
---
apiVersion: v1
kind: LimitRange
metadata: {name: l, namespace: shop}
spec: {limits: [{type: Container, defaultRequest: {cpu: "3"}, default: {cpu: "3"}}]}
"""
RUNTIME = """
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: kata}
handler: kata
overhead: {podFixed: {cpu: "5"}}
scheduling: {nodeSelector: {kubernetes.io/hostname: a}}
"""
QUOTA = """
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: q, namespace: shop}
spec: {hard: {requests.storage: 150Gi}}
status: {hard: {requests.storage: 150Gi}, used: {requests.storage: 80Gi}}
"""


def test_default_requests_of_a_limit_range_count():
    """Nodes of 8 CPU, containers that ask for nothing and get 3: two a node."""
    bare = DB.replace("resources: {requests: {cpu: 500m}}", "").replace("60Gi", "1Gi")
    assert answer(CLUSTER + bare + LIMITS, "--workload", "sts/shop/db")["count"] == 4


def test_overhead_and_nodes_of_a_runtime_class_count():
    kata = DB.replace("spec: {containers", "spec: {runtimeClassName: kata, containers").replace("60Gi", "1Gi")
    assert answer(CLUSTER + kata + RUNTIME, "--workload", "sts/shop/db")["byNode"] == {"a": 1}


def test_a_quota_ends_the_count():
    """70 of 150 GiB are left, and a replica asks for 60."""
    found = answer(CLUSTER + DB + QUOTA, "--workload", "sts/shop/db")
    assert found["count"] == 1
    (stop,) = found["stops"]
    assert "exceeded quota: q, requested: requests.storage=60Gi, used: requests.storage=140Gi" in stop["reason"]


def test_whom_a_replica_preempts_is_told():
    """Node a alone has room for the claim, and its processor is taken by somebody less important."""
    gold = DB.replace("spec: {containers", "spec: {priorityClassName: gold, containers").replace("500m", '"5"')
    other = """
---
apiVersion: v1
kind: Pod
metadata: {name: batch, namespace: shop}
spec: {nodeName: a, containers: [{name: c, image: x, resources: {requests: {cpu: "6"}}}]}
status: {phase: Running}
"""
    found = answer(one_node("100Gi") + gold + PRIORITY + other, "--workload", "sts/shop/db")
    assert found["count"] == 1
    assert found["preempting"] == [{"pod": "shop/db-0", "node": "a", "victims": ["shop/batch"]}]
    shown = run(one_node("100Gi") + gold + PRIORITY + other, "--workload", "sts/shop/db").stdout
    assert "shop/db-0 runs on a by preempting shop/batch" in shown


def test_an_ordered_set_waits_for_its_earlier_pod():
    waiting = """
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data-db-0, namespace: shop}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 600Gi}}, storageClassName: fast}
---
apiVersion: v1
kind: Pod
metadata:
  name: db-0
  namespace: shop
  labels: {app: db}
  ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, uid: u-db, controller: true}]
spec:
  containers: [{name: c, image: x}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data-db-0}}]
"""
    owned = DB.replace("metadata: {name: db, namespace: shop}", "metadata: {name: db, namespace: shop, uid: u-db}")
    found = answer(CLUSTER + owned + waiting, "--workload", "sts/shop/db")
    assert found["count"] == 0
    assert found["stops"][0]["reason"] == "its StatefulSet makes it once shop/db-0 runs, and shop/db-0 does not run"
    assert found["wouldHelp"][0].startswith("one more pool of 600Gi")
    parallel = owned.replace("serviceName: db", "serviceName: db\n  podManagementPolicy: Parallel")
    assert answer(CLUSTER + parallel + waiting, "--workload", "sts/shop/db")["count"] == 3


def helps(cluster: str) -> list[str]:
    found: list[str] = answer(cluster, "--workload", "sts/shop/db")["wouldHelp"]
    return found


def test_the_least_pool_is_for_what_does_not_fit_beside_the_others():
    """70 fits the pool of 70 that is there: what is missing is a pool for the 40."""
    assert "one more pool of 40Gi of class fast on a" in helps(one_node("70Gi") + two_claims("70Gi", "40Gi"))


def test_classes_that_share_their_pools_are_one_purchase():
    group = "annotations: {tonnage.dev/capacity-group: disks}"
    shared = (
        one_node("50Gi").replace("name: fast}", f"name: fast, {group}}}")
        + f"""
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{name: slow, {group}}}
provisioner: pools.tonnage.dev
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: CSIStorageCapacity
metadata: {{name: cap-slow, namespace: kube-system}}
storageClassName: slow
availableCapacities: [50Gi]
nodeTopology: {{matchLabels: {{kubernetes.io/hostname: a}}}}
---
"""
    )
    both = two_claims("40Gi", "40Gi").rpartition("storageClassName: fast")
    found = helps(shared + both[0] + "storageClassName: slow" + both[2])
    assert [each for each in found if "pool" in each] == ["one more pool of 40Gi of class fast and slow on a"]


def test_another_class_costs_nothing():
    other = """
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: slow}
provisioner: pools.tonnage.dev
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: CSIStorageCapacity
metadata: {name: cap-slow, namespace: kube-system}
storageClassName: slow
availableCapacities: [500Gi]
nodeTopology: {matchLabels: {kubernetes.io/hostname: a}}
"""
    assert helps(one_node("70Gi") + DB + other)[0] == "class slow instead of fast"


def test_a_label_costs_nothing():
    picky = DB.replace("spec: {containers", "spec: {nodeSelector: {disk: ssd}, containers")
    assert helps(CLUSTER + picky)[0] == "label disk=ssd on any of a, b"


def test_a_claim_that_was_made_and_never_used_is_deleted_before_anything_is_bought():
    unused = """
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: old, namespace: shop}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 40Gi}}, storageClassName: fast, volumeName: pv-old}
status: {phase: Bound}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv-old}
spec:
  capacity: {storage: 40Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: fast
  persistentVolumeReclaimPolicy: Delete
  csi: {driver: pools.tonnage.dev, volumeHandle: old}
  claimRef: {namespace: shop, name: old}
  nodeAffinity:
    required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [a]}]}]}
status: {phase: Bound}
"""
    told = "delete claim shop/old, which has 40Gi on a and which no pod uses"
    assert helps(one_node("50Gi") + DB + unused)[0] == told
    assert told not in helps(one_node("30Gi, 10Gi") + DB + unused), "the room may come back to either pool"


def test_nodes_alike_are_one_line():
    nodes = "".join(
        f"""
---
apiVersion: v1
kind: Node
metadata: {{name: n{number:02}, labels: {{kubernetes.io/hostname: n{number:02}}}}}
status: {{allocatable: {{cpu: "8", memory: 32Gi, pods: "110"}}}}
---
apiVersion: storage.k8s.io/v1
kind: CSIStorageCapacity
metadata: {{name: cap-{number}, namespace: kube-system}}
storageClassName: fast
availableCapacities: [50Gi]
nodeTopology: {{matchLabels: {{kubernetes.io/hostname: n{number:02}}}}}
"""
        for number in range(10)
    )
    found = helps(one_node("50Gi") + DB + nodes)
    assert "one more pool of 60Gi of class fast on any of a, n00 to n09" in found


def test_in_the_middle_of_a_burst_a_volume_is_counted_once():
    """Of 100Gi 60 are taken for a pod on its way, and the figures name its claim, which is not bound yet."""
    burst = one_node("40Gi").replace(
        "metadata: {name: cap-a, namespace: kube-system}",
        "metadata: {name: cap-a, namespace: kube-system, annotations: {tonnage.dev/included-claims: u-1}}",
    )
    burst += POD.replace("metadata: {name: data}", SELECTED)
    found = answer(burst + "---" + DB.replace("60Gi", "40Gi"), "--workload", "sts/shop/db")
    assert found["count"] == 1


SELECTED = "metadata: {name: data, uid: u-1, annotations: {volume.kubernetes.io/selected-node: a}}"


DAEMONS = """
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: shop}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: c, image: x, resources: {requests: {cpu: "5"}}}]}
"""


def test_every_node_that_a_daemon_set_wants_is_counted():
    """Node a has 8 CPU of which 6 are taken; node b has all 8."""
    busy = """
---
apiVersion: v1
kind: Pod
metadata: {name: batch, namespace: shop}
spec: {nodeName: a, containers: [{name: c, image: x, resources: {requests: {cpu: "6"}}}]}
status: {phase: Running}
"""
    found = answer(CLUSTER + DAEMONS + busy, "--workload", "ds/shop/agent")
    assert (found["count"], found["byNode"]) == (1, {"b": 1})
    assert found["text"] == "1 more fits; room for 1 of 2 replicas"
    assert found["stops"] == [{"reason": "Insufficient cpu", "nodes": 1}]
    assert found["wouldHelp"][0] == "3 more cpu on a"


def test_a_pod_whose_ephemeral_claim_is_not_made_yet_takes_its_room():
    """Pools of 100Gi hold one volume of 60Gi each: of two nodes with three pools one is taken by the pod that waits."""
    waiting = """
---
apiVersion: v1
kind: Pod
metadata: {name: newest}
spec:
  containers: [{name: c, image: x}]
  volumes:
  - name: scratch
    ephemeral:
      volumeClaimTemplate:
        spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 60Gi}}, storageClassName: fast}
"""
    assert answer(CLUSTER + DB + waiting, "--workload", "sts/shop/db")["count"] == 2


def test_a_volume_that_one_class_of_a_group_shows_is_counted_once():
    """100Gi of two classes: 60 are taken, which the figures of one show, and those of the other not yet."""
    group = "annotations: {tonnage.dev/capacity-group: disks}"
    fresh = one_node("40Gi").replace("name: fast}", f"name: fast, {group}}}")
    included = "annotations: {tonnage.dev/included-claims: u-1}"
    fresh = fresh.replace("namespace: kube-system}", f"namespace: kube-system, {included}}}")
    stale = f"""
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{name: slow, {group}}}
provisioner: pools.tonnage.dev
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: CSIStorageCapacity
metadata: {{name: cap-slow, namespace: kube-system}}
storageClassName: slow
availableCapacities: [100Gi]
nodeTopology: {{matchLabels: {{kubernetes.io/hostname: a}}}}
---
"""
    waiting = POD.replace("metadata: {name: data}", SELECTED) + "---" + DB.replace("60Gi", "40Gi")
    for first, then in ((fresh, stale), (stale, fresh)):
        assert answer(first + then + waiting, "--workload", "sts/shop/db")["count"] == 1


def test_a_pod_that_is_being_deleted_gives_its_room_back():
    """Node a alone has the claim's room, and 6 of its 8 CPU belong to a pod that ends within its grace period."""
    ending = """
---
apiVersion: v1
kind: Pod
metadata: {name: batch, namespace: shop, uid: u-1, deletionTimestamp: "2026-01-01T00:00:30Z"}
spec: {nodeName: a, containers: [{name: c, image: x, resources: {requests: {cpu: "6"}}}]}
status: {phase: Running}
"""
    large = DB.replace("500m", '"5"')
    assert answer(one_node("100Gi") + large + ending, "--workload", "sts/shop/db")["count"] == 1
