"""`tonnage explain` as people run it: a process of its own, files and pipes, a live server, exit codes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tonnage_command import tonnage

EXAMPLE = Path(__file__).parents[3] / "examples" / "02-explain"


def explain(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return tonnage("explain", *arguments, stdin=stdin)


def node(name: str, cpu: str = "4", **spec: Any) -> dict[str, Any]:
    offered = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": name[0]}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": {"capacity": offered}}


def pod(name: str, namespace: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "namespace": namespace, "labels": {"app": "web"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


# -- the example ------------------------------------------------------------------------------------------------------


def test_the_example_says_what_its_readme_says():
    readme = (EXAMPLE / "README.md").read_text()
    for name in ("web-1", "report", "migration"):
        done = explain("-f", str(EXAMPLE), "--pod", f"shop/{name}")
        assert done.returncode == 0, done.stderr
        assert done.stdout in readme, done.stdout


def test_the_examples_configuration_packs():
    options = ("-f", str(EXAMPLE), "--pod", "shop/web-1", "-o", "json")
    spread, packed = explain(*options), explain(*options, "--config", str(EXAMPLE / "config" / "packed.yaml"))
    assert json.loads(spread.stdout)["node"] == "shop-b2"
    assert json.loads(packed.stdout)["node"] == "shop-b1"


# -- processes --------------------------------------------------------------------------------------------------------


def test_manifests_come_through_a_pipe():
    listed = {"apiVersion": "v1", "kind": "List", "items": [node("a"), pod("web", "shop")]}
    done = explain("-f", "-", "--pod", "shop/web", "-o", "json", stdin=json.dumps(listed))
    assert json.loads(done.stdout)["node"] == "a"


def test_a_failure_is_two_lines_and_exit_1():
    done = explain("-f", str(EXAMPLE), "--pod", "shop/wbe-1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-2:] == [
        'error: there is no pod "shop/wbe-1" among the 5 of the manifests',
        "hint: did you mean shop/web-1 or shop/web-0?",
    ]


def test_an_exec_plugin_that_fails_ends_it_with_the_plugins_words(tmp_path):
    plugin = tmp_path / "plugin"
    plugin.write_text("#!/bin/sh\necho you are not logged in >&2\nexit 3\n")
    plugin.chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}}
    user["exec"]["interactiveMode"] = "Never"
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
                "users": [{"name": "u", "user": user}],
            }
        )
    )
    done = explain("--kubeconfig", str(kubeconfig), "--pod", "shop/web")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        f"error: getting credentials: exec: executable {plugin} failed with exit code 3: you are not logged in",
        "hint: run the plugin by hand to see what it needs; a kubeconfig names it under users[].user.exec",
    ]


def test_a_broken_manifest_is_one_line_and_exit_1():
    bad = pod("web", "shop", cpu="1 core")
    done = explain("-f", "-", "--pod", "shop/web", stdin=json.dumps(bad))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        "error: standard input, document 1 (Pod shop/web): spec.containers[0].resources.requests.cpu="
    )
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("--pod", "a/b"),
        ("-f", str(EXAMPLE)),
        ("-f", str(EXAMPLE), "--pod", "a/b", "-o", "yaml"),
        ("-f", str(EXAMPLE), "--pod", "a/b", "--feature-gates", "Nothing=true"),
    ],
)
def test_wrong_usage_is_exit_2(arguments):
    done = explain(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-2].startswith("error: ")
    assert done.stderr.endswith("tonnage explain --help' shows the options\n")


def test_a_reader_that_has_seen_enough_is_no_failure(tmp_path):
    listed = {"apiVersion": "v1", "kind": "List", "items": [node(f"n{n}") for n in range(2000)] + [pod("web", "shop")]}
    manifests = tmp_path / "many.json"
    manifests.write_text(json.dumps(listed))
    command = f"{sys.executable} -m tonnage explain -f {manifests} --pod shop/web -o json | head -2"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == '{\n  "pod": "shop/web",\n'


# -- a live cluster ---------------------------------------------------------------------------------------------------


def test_a_live_cluster_and_its_dump_get_the_same_answer(cluster, namespace, tmp_path):
    for each in (node("a1"), node("a2", cpu="16"), node("b1"), node("b2", unschedulable=True)):
        assert cluster.post("/api/v1/nodes", each).code == 201
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    pods = f"/api/v1/namespaces/{namespace}/pods"
    for each in (
        pod("web-0", namespace, nodeName="a1"),
        pod("web-1", namespace, topologySpreadConstraints=[spread]),
        pod("web-2", namespace, nodeSelector={"topology.kubernetes.io/zone": "z"}),
    ):
        assert cluster.post(pods, each).code == 201

    items = [*cluster.get("/api/v1/nodes").body["items"], *cluster.get("/api/v1/pods").body["items"]]
    for item in items:
        item |= {"apiVersion": "v1", "kind": "Pod" if "containers" in item["spec"] else "Node"}
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))

    for name, chosen in (("web-1", "b1"), ("web-2", None), ("web-0", "a2")):
        key = f"{namespace}/{name}"
        live = explain("--kubeconfig", str(cluster.kubeconfig), "--pod", key, "-o", "json")
        filed = explain("-f", str(dump), "--pod", key, "-o", "json")
        assert live.returncode == 0, live.stderr
        assert json.loads(live.stdout) == json.loads(filed.stdout)
        assert json.loads(live.stdout)["node"] == chosen


def test_a_live_cluster_tells_its_storage(cluster, namespace):
    free = {
        "metadata": {"name": "st-a"},
        "storageClassName": "st",
        "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": "st-a"}},
        "capacity": "140Gi",
        "availableCapacities": ["80Gi", "60Gi"],
    }
    wanted = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "st",
        "resources": {"requests": {"storage": "120Gi"}},
    }
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    of_class = {"metadata": {"name": "st"}, "provisioner": "st.example", "volumeBindingMode": "WaitForFirstConsumer"}
    group, mine = "/apis/storage.k8s.io/v1", f"/namespaces/{namespace}"
    for path, each in (
        ("/api/v1/nodes", node("st-a")),
        (f"{group}/csidrivers", {"metadata": {"name": "st.example"}, "spec": {"storageCapacity": True}}),
        (f"{group}/storageclasses", of_class),
        (f"{group}{mine}/csistoragecapacities", free),
        (f"/api/v1{mine}/persistentvolumeclaims", {"metadata": {"name": "data"}, "spec": wanted}),
        (f"/api/v1{mine}/pods", pod("db", namespace, volumes=volumes)),
    ):
        assert cluster.post(path, each).code == 201, path
    done = explain("--kubeconfig", str(cluster.kubeconfig), "--pod", f"{namespace}/db", "-o", "json")
    (told,) = json.loads(done.stdout)["volumes"]["st-a"]
    assert (told["capacity"], told["pools"]) == (f"{namespace}/st-a", ["80Gi", "60Gi"])
    assert told["miss"] == "largest free pool 80Gi, needs 120Gi"


def test_a_pod_that_the_cluster_does_not_have_is_exit_1(cluster):
    done = explain("--kubeconfig", str(cluster.kubeconfig), "--pod", "nowhere/web")
    assert (done.returncode, done.stdout) == (1, "")
    assert cluster.url in done.stderr


def test_a_cluster_that_is_not_there_is_exit_1(tmp_path):
    done = explain("--kubeconfig", str(tmp_path / "none"), "--pod", "a/b")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {tmp_path / 'none'}: cannot be read: No such file or directory\nhint: ")


# -- pods that do not exist yet, and all that wait --------------------------------------------------------------------


def stateful_set(name: str, namespace: str, replicas: int, size: str, of: str) -> dict[str, Any]:
    wanted = {"accessModes": ["ReadWriteOnce"], "storageClassName": of, "resources": {"requests": {"storage": size}}}
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [{"name": "c", "image": "app:1"}],
                    "nodeSelector": {"topology.kubernetes.io/zone": "w"},
                },
            },
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": wanted}],
        },
    }


@pytest.fixture
def storage(cluster, namespace):
    """Nodes w1 and w2 of zone w, of which w1 has a pool of 100Gi of class ws, and v1 of zone v, which has none."""
    free = {
        "metadata": {"name": "ws-w1"},
        "storageClassName": "ws",
        "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": "w1"}},
        "availableCapacities": ["100Gi"],
    }
    group, mine = "/apis/storage.k8s.io/v1", f"/namespaces/{namespace}"
    of_class = {"metadata": {"name": "ws"}, "provisioner": "ws.example", "volumeBindingMode": "WaitForFirstConsumer"}
    posted: tuple[tuple[str, dict[str, Any]], ...] = (
        ("/api/v1/nodes", node("w1")),
        ("/api/v1/nodes", node("w2")),
        ("/api/v1/nodes", node("v1")),
        (f"{group}/csidrivers", {"metadata": {"name": "ws.example"}, "spec": {"storageCapacity": True}}),
        (f"{group}/storageclasses", of_class),
        (f"{group}{mine}/csistoragecapacities", free),
    )
    for path, each in posted:
        assert cluster.post(path, each).code == 201, path
    yield f"/apis/apps/v1{mine}/statefulsets"
    for path, each in posted:
        cluster.delete(f"{path}/{each['metadata']['name']}")


def decisions(answers):
    """Pod, node and message of each, without the second at which the question was asked."""
    return [(each["pod"], each["node"], re.sub(r"since [0-9:]+Z", "since", each["message"])) for each in answers]


def test_a_live_workload_a_filed_one_and_one_laid_over_are_decided_alike(cluster, namespace, storage, tmp_path):
    db = stateful_set("db", namespace, 2, "60Gi", "ws")
    file = tmp_path / "db.json"
    file.write_text(json.dumps(db))
    live = ("--kubeconfig", str(cluster.kubeconfig))
    name = f"sts/{namespace}/db"
    unknown = explain(*live, "--workload", name)
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert f"there is no StatefulSet {namespace}/db among the" in unknown.stderr
    over = explain(*live, "-f", str(file), "-o", "json", "--exit-code")
    assert over.returncode == 3, over.stderr
    first, second = json.loads(over.stdout)
    assert (first["pod"], first["node"], first["state"]) == (f"{namespace}/db-0", "w1", "new")
    # By then db-0's volume is made and shown: of 100Gi there are 40Gi.
    misses = {each["name"]: each.get("nearestMiss", "") for each in second["nodes"]}
    assert second["schedulable"] is False and "40Gi" in misses["w1"] and "60Gi" in misses["w1"], misses
    assert cluster.post(storage, db).code == 201
    asked = explain(*live, "--workload", name, "-o", "json")
    assert decisions(json.loads(asked.stdout)) == decisions((first, second))
    # More room is laid over the live cluster, and everything fits.
    more = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": "ws-w1", "namespace": namespace},
        "storageClassName": "ws",
        "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": "w1"}},
        "availableCapacities": ["100Gi", "60Gi"],
    }
    file.write_text(json.dumps(more))
    helped = explain(*live, "-f", str(file), "--workload", name, "--exit-code")
    assert helped.returncode == 0, helped.stdout + helped.stderr
    assert helped.stdout.startswith(f"StatefulSet/{namespace}/db: 2 pods, all of which fit\n")


def test_pending_pods_of_a_live_cluster_are_grouped_with_what_would_help(cluster, namespace, storage):
    for number in range(2):
        wanted = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "ws",
            "resources": {"requests": {"storage": "120Gi"}},
        }
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": f"c{number}"}}]
        zone = {"topology.kubernetes.io/zone": "w"}
        claims, pods = (f"/api/v1/namespaces/{namespace}/{each}" for each in ("persistentvolumeclaims", "pods"))
        assert cluster.post(claims, {"metadata": {"name": f"c{number}"}, "spec": wanted}).code == 201
        assert cluster.post(pods, pod(f"p{number}", namespace, volumes=volumes, nodeSelector=zone)).code == 201
    live = ("--kubeconfig", str(cluster.kubeconfig), "--pending")
    done = explain(*live, "-o", "json", "--exit-code")
    assert done.returncode == 3, done.stderr
    mine = [each for each in json.loads(done.stdout) if each["pod"].startswith(f"{namespace}/")]
    assert [each["pod"] for each in mine] == [f"{namespace}/p0", f"{namespace}/p1"]
    assert {each["cause"]["message"] for each in mine} == {"2 pods wait for 240Gi of class ws in zone w"}
    assert {"change": "one more pool of 240Gi of class ws on w1", "pods": 2} in mine[0]["wouldHelp"]
    shown = explain(*live)
    assert "2 pods wait for 240Gi of class ws in zone w" in shown.stdout
