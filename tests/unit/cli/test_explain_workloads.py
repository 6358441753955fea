"""`tonnage explain` on workloads: pods that do not exist yet, one after the other, as table, JSON and exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from tonnage.cli.explain import explain
from tonnage.errors import TonnageError

Doc = dict[str, Any]


def node(name: str, cpu: str = "4", **spec: Any) -> Doc:
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": name[0]}
    offered = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": {"allocatable": offered}}


def room(on: str, *pools: str, of: str = "fast") -> Doc:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": f"{of}-{on}", "namespace": "kube-system"},
        "storageClassName": of,
        "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": on}},
        "availableCapacities": list(pools),
    }


STORAGE: list[Doc] = [
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": "csi.example",
        "volumeBindingMode": "WaitForFirstConsumer",
    },
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": "csi.example"},
        "spec": {"storageCapacity": True},
    },
]


def template(name: str, cpu: str = "1", **spec: Any) -> Doc:
    container = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container], **spec}}


def workload(kind: str, name: str, replicas: int | None = 1, cpu: str = "1", **more: Any) -> Doc:
    of_pods = more.pop("pods", {})
    spec: Doc = {"selector": {"matchLabels": {"app": name}}, "template": template(name, cpu, **of_pods), **more}
    if replicas is not None:
        spec["replicas"] = replicas
    if kind == "StatefulSet":
        spec["serviceName"] = name
    version = "v1" if kind == "ReplicationController" else "apps/v1"
    if kind == "ReplicationController":
        spec["selector"] = {"app": name}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "shop"}, "spec": spec}


def stateful_set(name: str, replicas: int, size: str, **more: Any) -> Doc:
    wanted = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": size}},
    }
    claims = [{"metadata": {"name": "data"}, "spec": wanted}]
    return workload("StatefulSet", name, replicas, volumeClaimTemplates=claims, **more)


def job(name: str, **spec: Any) -> Doc:
    spec = {"template": template(name, restartPolicy="Never"), **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "shop"}, "spec": spec}


def cron_job(name: str, **spec: Any) -> Doc:
    inner = {"spec": {"template": template(name, restartPolicy="Never"), **spec}}
    spec = {"schedule": "0 3 * * *", "jobTemplate": inner}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name, "namespace": "shop"}, "spec": spec}


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(*docs: Doc, name: str = "x.yaml") -> str:
    Path(name).write_text(yaml.safe_dump_all(docs))
    return name


def run(*arguments: str) -> Result:
    return CliRunner().invoke(explain, arguments, standalone_mode=False)


def answers(*docs: Doc, options: tuple[str, ...] = ()) -> list[Doc]:
    result = run("-f", write(*docs), "-o", "json", *options)
    if result.exception is not None:
        raise result.exception
    found: list[Doc] = json.loads(result.stdout)
    return found


def nodes_of(found: list[Doc]) -> dict[str, str | None]:
    return {each["pod"]: each["node"] for each in found}


# -- expanding --------------------------------------------------------------------------------------------------------


def test_each_pod_is_decided_after_those_before_it_run():
    # a and b have a pool of 100Gi each: two volumes of 60Gi go one to each, and the third goes nowhere.
    found = answers(
        *STORAGE, node("a"), node("b"), room("a", "100Gi"), room("b", "100Gi"), stateful_set("db", 3, "60Gi")
    )
    assert [each["pod"] for each in found] == ["shop/db-0", "shop/db-1", "shop/db-2"]
    assert {each["node"] for each in found[:2]} == {"a", "b"}
    assert found[2]["schedulable"] is False
    assert found[2]["message"] == "0/2 nodes are available: 2 node(s) did not have enough free storage."


@pytest.mark.parametrize(
    ("doc", "pods"),
    [
        (workload("StatefulSet", "w", 2), 2),
        (workload("Deployment", "w", 3), 3),
        (workload("ReplicaSet", "w", 2), 2),
        (workload("ReplicationController", "w", 2), 2),
        (workload("DaemonSet", "w", None), 2),
        (job("w", parallelism=2, completions=4), 2),
        (cron_job("w", parallelism=3), 3),
    ],
    ids=lambda each: each["kind"] if isinstance(each, dict) else "",
)
def test_every_kind_is_expanded_by_name_and_by_being_in_the_file(doc, pods):
    by_name = answers(node("a"), node("b"), doc, options=("--workload", f"{doc['kind']}/shop/w"))
    assert len(by_name) == pods
    assert all(each["schedulable"] and each["node"] in ("a", "b") for each in by_name)
    assert {(each["state"], each["workload"]) for each in by_name} == {("new", f"{doc['kind']}/shop/w")}
    assert answers(node("a"), node("b"), doc) == by_name


def test_ephemeral_claims_are_made_and_packed():
    wanted = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "60Gi"}},
    }
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": wanted}}}]
    docs = [*STORAGE, node("a"), room("a", "100Gi"), workload("Deployment", "web", 2, pods={"volumes": volumes})]
    first, second = answers(*docs)
    (told,) = first["volumes"]["a"]
    assert (first["node"], told["claim"], told["kind"]) == ("a", f"{first['pod']}-scratch", "dynamic")
    assert second["schedulable"] is False


def test_pods_that_are_there_are_told_as_what_they_are():
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u", "controller": True}
    db = workload("StatefulSet", "db", 4)
    db["metadata"]["uid"] = "u"

    def pod(number: int, **spec: Any) -> Doc:
        metadata = {"name": f"db-{number}", "namespace": "shop", "ownerReferences": [owner], "labels": {"app": "db"}}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**template("db")["spec"], **spec}}

    going = pod(2)
    going["metadata"] |= {"deletionTimestamp": "2026-11-01T00:00:00Z", "finalizers": ["x.io/y"]}
    found = answers(node("a"), node("b"), db, pod(0, nodeName="a"), pod(1, nodeSelector={"disk": "ssd"}), going)
    assert [(each["pod"], each["state"], each["schedulable"], each["node"]) for each in found] == [
        ("shop/db-0", "bound", True, "a"),
        ("shop/db-1", "pending", False, None),
        ("shop/db-2", "terminating", False, None),
        ("shop/db-3", "new", True, "b"),
    ]
    assert found[0]["message"] == "is on a" and found[0]["nodes"] == [] and found[0]["volumes"] == {}


def test_workloads_that_others_made_are_explained_once():
    web = workload("Deployment", "web", 2)
    web["metadata"] |= {"uid": "d", "annotations": {"deployment.kubernetes.io/revision": "1"}}
    of_web = workload("ReplicaSet", "web-abc", 2)
    of_web["metadata"] |= {
        "uid": "r",
        "annotations": {"deployment.kubernetes.io/revision": "1"},
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": True}
        ],
    }
    found = answers(node("a"), of_web, web)
    assert [each["workload"] for each in found] == ["Deployment/shop/web"] * 2


def test_workloads_come_in_the_order_of_the_files_and_share_the_cluster():
    docs = [node("a", cpu="3"), workload("Deployment", "one", 2), workload("StatefulSet", "two", 2)]
    found = answers(*docs)
    assert [each["schedulable"] for each in found] == [True, True, True, False]
    swapped = answers(*docs, options=("--workload", "sts/shop/two", "--workload", "deploy/shop/one"))
    assert [(each["workload"], each["schedulable"]) for each in swapped] == [
        ("StatefulSet/shop/two", True),
        ("StatefulSet/shop/two", True),
        ("Deployment/shop/one", True),
        ("Deployment/shop/one", False),
    ]


def test_a_namespace_that_is_not_written_is_the_one_that_is_meant():
    found = answers(node("a"), workload("StatefulSet", "db"), options=("--workload", "sts/db", "-n", "shop"))
    assert nodes_of(found) == {"shop/db-0": "a"}


def test_preemption_is_told_and_two_pods_do_not_count_on_the_same_victim():
    urgent = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 1000,
    }
    victim = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "old", "namespace": "shop"}}
    victim["spec"] = {**template("old", cpu="3")["spec"], "nodeName": "a"}
    docs = [node("a"), urgent, victim, workload("StatefulSet", "db", 2, cpu="3", pods={"priorityClassName": "high"})]
    first, second = answers(*docs)
    assert first["preemption"] == {"node": "a", "victims": ["shop/old"], "budgetViolations": 0}
    assert "preemption" not in second
    shown = run("-f", write(*docs)).stdout
    assert "preemption would make room on a: shop/old would go" in shown


# -- showing ----------------------------------------------------------------------------------------------------------


def test_the_table_tells_each_pod_and_explains_the_first_that_does_not_fit():
    docs = [*STORAGE, node("a"), room("a", "100Gi"), stateful_set("db", 3, "60Gi")]
    lines = run("-f", write(*docs)).stdout.splitlines()
    message = "0/1 nodes are available: 1 node(s) did not have enough free storage."
    assert lines[:7] == [
        "StatefulSet/shop/db: 3 pods, of which 1 fits and 2 do not",
        "",
        "POD        NODE  ANSWER",
        "shop/db-0  a     fits on 1 of 1 nodes",
        f"shop/db-1        does not fit: {message}",
        "shop/db-2        does not fit either; as shop/db-1",
        "by node: a 1",
    ]
    assert lines[8:10] == ["shop/db-1 does not fit", message]
    assert "40Gi   60Gi   none     a" in "\n".join(lines)


def test_a_single_pod_gets_the_whole_explanation():
    lines = run("-f", write(node("a"), node("b"), workload("StatefulSet", "db"))).stdout.splitlines()
    assert lines[0] == "StatefulSet/shop/db: 1 pod, which fits"
    assert "shop/db-0 goes to " in lines[5] and lines[6] == "fits on 2 of 2 nodes"


def test_many_pods_stay_readable():
    lines = run("-f", write(node("a", cpu="30"), workload("Deployment", "web", 50))).stdout.splitlines()
    assert lines[0] == "Deployment/shop/web: 50 pods, of which 30 fit and 20 do not"
    assert "… and 30 more pods" in lines and "by node: a 30" in lines
    assert len(lines) < 40


def test_a_workload_that_asks_for_nothing_says_so():
    assert run("-f", write(node("a"), workload("Deployment", "web", 0))).stdout == (
        "Deployment/shop/web asks for no pods\n"
    )


# -- exit codes and wrong questions -----------------------------------------------------------------------------------


def test_the_exit_code_tells_whether_everything_fits():
    docs = [node("a", cpu="2"), workload("Deployment", "web", 2)]
    assert run("-f", write(*docs), "--exit-code").exit_code == 0
    too_many = [node("a", cpu="2"), workload("Deployment", "web", 3)]
    assert isinstance(run("-f", write(*too_many), "--exit-code").exception, SystemExit)
    assert run("-f", write(*too_many), "--exit-code").exit_code == 3
    assert run("-f", write(*too_many)).exit_code == 0


def test_several_pods_are_a_list_of_what_each_alone_would_get():
    def pod(name: str, cpu: str) -> Doc:
        metadata = {"name": name, "namespace": "shop"}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template(name, cpu)["spec"]}

    docs = [node("a"), node("b"), pod("one", "3"), pod("two", "3"), pod("big", "30")]
    keys = ["shop/one", "shop/big", "shop/two"]
    alone: list[Any] = [answers(*docs, options=("--pod", key)) for key in keys]
    together = answers(*docs, options=tuple(word for key in keys for word in ("--pod", key)))
    assert together == alone
    table = run("-f", write(*docs), "--pod", "shop/one", "--pod", "shop/big").stdout
    assert "shop/one goes to" in table and "\n\nshop/big does not fit\n" in table
    for names, code in ((keys, 3), (keys[:1], 0), (keys[1:2], 3)):
        asked = [word for key in names for word in ("--pod", key)]
        assert run("-f", write(*docs), *asked, "--exit-code").exit_code == code


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--pod", "shop/a", "--pending"), "give only one of"),
        (("--workload", "sts/shop/db", "--pending"), "give only one of"),
        (("--workload", "sts/shop/db", "--pod", "shop/a"), "give only one of"),
        (("--workload", "db"), '--workload "db" is not KIND/NAMESPACE/NAME; write StatefulSet/shop/db'),
        (("--workload", "Pot/shop/db"), 'no kind that makes pods is called "Pot"'),
        ((), "the files hold no workloads; say what to explain"),
    ],
)
def test_a_wrong_question_is_wrong_usage(arguments, told):
    result = run("-f", write(node("a")), *arguments)
    assert isinstance(result.exception, click.UsageError)
    assert told in result.exception.message and "\n" not in result.exception.message


def test_an_unknown_workload_is_one_line_with_those_that_may_be_meant():
    result = run("-f", write(node("a"), workload("StatefulSet", "db")), "--workload", "sts/shop/bd")
    assert isinstance(result.exception, TonnageError)
    assert result.exception.message == "there is no StatefulSet shop/bd among the 1 workloads of the manifests"
    assert result.exception.hint == "did you mean StatefulSet/shop/db?"


def test_a_template_that_a_server_would_refuse_is_refused_with_its_place():
    result = run("-f", write(node("a"), workload("StatefulSet", "db", cpu="-1")))
    assert isinstance(result.exception, TonnageError)
    assert "x.yaml" in result.exception.message and "StatefulSet shop/db" in result.exception.message


def test_a_dump_that_was_cut_off_is_one_line():
    whole = json.dumps({"apiVersion": "v1", "kind": "List", "items": [node("a"), workload("Deployment", "web")]})
    for length in (40, len(whole) // 2, len(whole) - 1):
        Path("cut.json").write_text(whole[:length])
        for asked in ((), ("--pending",), ("--workload", "deploy/shop/web")):
            result = run("-f", "cut.json", *asked)
            assert isinstance(result.exception, TonnageError)
            assert result.exception.message.startswith("cut.json: ") and "\n" not in result.exception.message


def test_volumes_of_an_immediate_class_are_made_before_their_pods_are_placed():
    at_once = {**STORAGE[0], "volumeBindingMode": "Immediate"}
    found = answers(at_once, STORAGE[1], node("a"), room("a", "100Gi"), stateful_set("db", 2, "10Gi"))
    assert [each["node"] for each in found] == ["a", "a"]


def test_another_schedulers_pods_are_decided_with_a_note_or_refused_with_the_profiles():
    docs = [node("a"), workload("Deployment", "web", 3, pods={"schedulerName": "other"})]
    assert run("-f", write(*docs)).stderr.count("asks for schedulerName other; this is what the default") == 1
    Path("config.yaml").write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    result = run("-f", write(*docs), "--config", "config.yaml")
    assert isinstance(result.exception, TonnageError) and "schedulerName other" in result.exception.message
