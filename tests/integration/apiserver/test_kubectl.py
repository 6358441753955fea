"""The real kubectl against the embedded server: what a person does on a cluster in the first hour."""

from __future__ import annotations

import json
import subprocess
import threading
from typing import Any

import pytest

pytestmark = pytest.mark.kubectl

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "status": {
        "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "fine"}],
    },
}


def node(name: str) -> dict[str, Any]:
    return {**NODE, "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}


def pod(name: str, node_name: str | None = None, **labels: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": "main", "image": "app:1.0"}], "terminationGracePeriodSeconds": 0}
    if node_name:
        spec["nodeName"] = node_name
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def claim(name: str, size: str = "10Gi") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "pools",
            "resources": {"requests": {"storage": size}},
        },
    }


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def test_apply_creates_then_says_unchanged_then_configures(kubectl, namespace):
    apply = ("apply", "-n", namespace, "-f", "-")
    assert kubectl(*apply, stdin=[claim("data"), config_map("c", a="1")]) == (
        "persistentvolumeclaim/data created\nconfigmap/c created\n"
    )
    assert kubectl(*apply, stdin=[claim("data"), config_map("c", a="1")]) == (
        "persistentvolumeclaim/data unchanged\nconfigmap/c unchanged\n"
    )
    assert kubectl(*apply, stdin=[config_map("c", b="2")]) == "configmap/c configured\n"
    assert json.loads(kubectl("get", "cm", "c", "-n", namespace, "-o", "json"))["data"] == {"b": "2"}


def test_server_side_apply_reports_the_conflict_and_forces_it(kubectl, namespace):
    apply = ("apply", "--server-side", "-n", namespace, "-f", "-")
    kubectl(*apply, "--field-manager=one", stdin=[config_map("c", a="1")])
    told = kubectl.fails(*apply, "--field-manager=two", stdin=[config_map("c", a="2")])
    assert 'Apply failed with 1 conflict: conflict with "one": .data.a' in told
    kubectl(*apply, "--field-manager=two", "--force-conflicts", stdin=[config_map("c", a="2")])
    assert kubectl("get", "cm", "c", "-n", namespace, "-o", "jsonpath={.data.a}") == "2"


def test_get_wide_prints_the_usual_columns(kubectl, namespace):
    kubectl("apply", "-n", namespace, "-f", "-", stdin=[pod("web-0"), claim("data")])
    pods = kubectl("get", "pods", "-n", namespace, "-o", "wide").splitlines()
    assert pods[0].split("   ")[0] == "NAME" and "NOMINATED NODE" in pods[0] and "READINESS GATES" in pods[0]
    assert pods[1].split()[:4] == ["web-0", "0/1", "Pending", "0"]
    claims = kubectl("get", "pvc", "-n", namespace, "-o", "wide").splitlines()
    assert claims[1].split()[:3] == ["data", "Pending", "pools"] and claims[1].split()[-1] == "Filesystem"


def test_describe_shows_a_pod_with_its_claim_and_a_node_with_its_pods(kubectl, namespace):
    web = pod("web-0", "describe-1")
    web["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    kubectl("apply", "-f", "-", stdin=[node("describe-1")])
    kubectl("apply", "-n", namespace, "-f", "-", stdin=[web])
    told = [line.split() for line in kubectl("describe", "pod", "web-0", "-n", namespace).splitlines()]
    assert ["ClaimName:", "data"] in told and ["Node:", "describe-1/"] in told
    told = [line.split() for line in kubectl("describe", "node", "describe-1").splitlines()]
    assert any(line[:2] == [namespace, "web-0"] for line in told)


def test_patch_label_and_annotate_change_what_they_name(kubectl, namespace):
    kubectl("apply", "-n", namespace, "-f", "-", stdin=[pod("web-0", app="web")])
    kubectl("label", "pod", "web-0", "-n", namespace, "tier=db")
    kubectl("annotate", "pod", "web-0", "-n", namespace, "note=seen")
    kubectl(
        "patch", "pod", "web-0", "-n", namespace, "--type=json", "-p", '[{"op":"remove","path":"/metadata/labels/app"}]'
    )
    kubectl("patch", "pod", "web-0", "-n", namespace, "--type=merge", "-p", '{"metadata":{"labels":{"m":"1"}}}')
    kubectl("patch", "pod", "web-0", "-n", namespace, "-p", '{"spec":{"containers":[{"name":"main","image":"app:2"}]}}')
    found = json.loads(kubectl("get", "pod", "web-0", "-n", namespace, "-o", "json"))
    assert found["metadata"]["labels"] == {"tier": "db", "m": "1"}
    assert found["metadata"]["annotations"]["note"] == "seen"
    assert found["spec"]["containers"][0]["image"] == "app:2"


def test_wait_sees_a_condition_that_comes_later(cluster, kubectl, namespace):
    kubectl("apply", "-n", namespace, "-f", "-", stdin=[pod("web-0")])
    waiting = subprocess.Popen(
        kubectl.command("wait", "--for=condition=Ready", "pod/web-0", "-n", namespace, "--timeout=30s"),
        stdout=subprocess.PIPE,
        text=True,
    )
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert cluster.patch(f"/api/v1/namespaces/{namespace}/pods/web-0/status", ready, "strategic").code == 200
    assert waiting.communicate(timeout=30)[0] == "pod/web-0 condition met\n"


def test_cordon_drain_and_uncordon_a_node(cluster, kubectl, namespace):
    kubectl("apply", "-f", "-", stdin=[node("drain-1")])
    kubectl("apply", "-n", namespace, "-f", "-", stdin=[pod("web-0", "drain-1"), pod("web-1", "drain-1")])
    assert kubectl("cordon", "drain-1") == "node/drain-1 cordoned\n"
    assert "SchedulingDisabled" in kubectl("get", "node", "drain-1")
    told = kubectl("drain", "drain-1", "--force", "--timeout=30s")
    assert f"evicting pod {namespace}/web-0" in told or "pod/web-0 evicted" in told
    assert kubectl("get", "pods", "-n", namespace, "-o", "name") == ""
    assert kubectl("uncordon", "drain-1") == "node/drain-1 uncordoned\n"
    assert "unschedulable" not in json.loads(kubectl("get", "node", "drain-1", "-o", "json"))["spec"]


def test_drain_respects_a_disruption_budget(cluster, kubectl, namespace):
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}},
    }
    kubectl("apply", "-f", "-", stdin=[node("budget-1")])
    kubectl("apply", "-n", namespace, "-f", "-", stdin=[budget, pod("db-0", "budget-1", app="db")])
    at = f"/api/v1/namespaces/{namespace}/pods/db-0/status"
    running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    assert cluster.patch(at, running, "strategic").code == 200
    # No disruption controller counts here, so the numbers are written by hand: 1 healthy of 1 needed, 0 to spare.
    counted = {
        "observedGeneration": 1,
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
        "disruptionsAllowed": 0,
    }
    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    assert cluster.patch(f"{budgets}/keep/status", {"status": counted}).code == 200
    told = kubectl.fails("drain", "budget-1", "--force", "--timeout=1s")
    assert "Cannot evict pod as it would violate the pod's disruption budget." in told
    assert kubectl("get", "pods", "-n", namespace, "-o", "name") == "pod/db-0\n"


def test_get_watch_follows_changes(cluster, kubectl, namespace):
    command = kubectl.command("get", "cm", "-n", namespace, "-w", "--no-headers", "--request-timeout=30s")
    watching = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert watching.stdout is not None
    # kubectl lists before it watches, so an object made at any moment is shown once at least.
    at = f"/api/v1/namespaces/{namespace}/configmaps"
    timer = threading.Timer(30, watching.kill)
    timer.start()
    try:
        cluster.post(at, config_map("first", a="1"))
        assert watching.stdout.readline().split()[:2] == ["first", "1"]
        cluster.patch(f"{at}/first", {"data": {"b": "2"}})
        assert watching.stdout.readline().split()[:2] == ["first", "2"]
    finally:
        timer.cancel()
        watching.kill()
        watching.communicate()


def test_delete_removes_and_waits(kubectl, namespace):
    kubectl("apply", "-n", namespace, "-f", "-", stdin=[pod("web-0"), claim("data")])
    told = kubectl("delete", "pod/web-0", "pvc/data", "-n", namespace)
    assert 'pod "web-0" deleted' in told and 'persistentvolumeclaim "data" deleted' in told
    assert kubectl("get", "pod,pvc", "-n", namespace, "-o", "name") == ""


def test_create_commands_that_speak_protobuf_work(kubectl, namespace):
    assert kubectl("create", "configmap", "c", "-n", namespace, "--from-literal=a=b") == "configmap/c created\n"
    assert kubectl("get", "cm", "c", "-n", namespace, "-o", "jsonpath={.data}") == '{"a":"b"}'
    made = ("create", "deployment", "web", "-n", namespace, "--image=nginx:1", "--replicas=3")
    assert kubectl(*made) == "deployment.apps/web created\n"
    assert kubectl("scale", "deployment/web", "-n", namespace, "--replicas=0") == "deployment.apps/web scaled\n"
    assert kubectl("get", "deployment", "web", "-n", namespace, "-o", "jsonpath={.spec.replicas}") == "0"


def test_explain_tells_the_enhancements_fields(kubectl):
    assert "FIELD: availableCapacities <[]Quantity>" in kubectl("explain", "csistoragecapacity.availableCapacities")
    assert "FIELD: volumeRebuilding <boolean>" in kubectl("explain", "csidriver.spec.volumeRebuilding")


def test_strict_validation_names_the_unknown_field(kubectl, namespace):
    wrong = {**config_map("c", a="1"), "dtaa": {}}
    told = kubectl.fails("apply", "-n", namespace, "-f", "-", stdin=[wrong])
    assert 'strict decoding error: unknown field "dtaa"' in told
    assert "not found" in kubectl.fails("get", "cm", "c", "-n", namespace)


def test_diff_and_dry_run_change_nothing(kubectl, namespace):
    kubectl("apply", "-n", namespace, "-f", "-", stdin=[config_map("c", a="1")])
    done = kubectl.run("diff", "-n", namespace, "-f", "-", stdin=[config_map("c", a="2")])
    assert done.returncode == 1 and '+  a: "2"' in done.stdout
    kubectl("apply", "-n", namespace, "--dry-run=server", "-f", "-", stdin=[config_map("c", a="3")])
    assert kubectl("get", "cm", "c", "-n", namespace, "-o", "jsonpath={.data.a}") == "1"


def test_a_wrong_token_is_turned_away(cluster, kubectl):
    told = kubectl.fails("get", "ns", "--token=nonsense")
    assert "error: You must be logged in to the server" in told


def test_get_svc_shows_the_service_of_the_server(kubectl):
    heading, row = kubectl("get", "svc", "kubernetes", "-n", "default").splitlines()
    assert heading.split() == ["NAME", "TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORT(S)", "AGE"]
    assert row.split()[:5] == ["kubernetes", "ClusterIP", "10.0.0.1", "<none>", "443/TCP"]


def test_auth_can_i_says_yes(kubectl):
    assert kubectl("auth", "can-i", "delete", "pods") == "yes\n"
