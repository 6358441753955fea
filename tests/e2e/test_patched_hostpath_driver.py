"""KEP-5925 with a second driver: csi-driver-host-path with the patch of docs/drivers, which tells pools and rebuilds.

CSI_HOSTPATH_SOURCE names a folder with its source, and a Go toolchain is on the path. It mounts, and so needs root.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.eventually import eventually
from support.processes import ApiServerProcess, start_cluster

SOURCE = os.environ.get("CSI_HOSTPATH_SOURCE", "")
PATCH = Path(__file__).parents[2] / "docs" / "drivers" / "csi-driver-host-path.patch"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SOURCE, reason="CSI_HOSTPATH_SOURCE does not name the source of csi-driver-host-path"),
    pytest.mark.skipif(not shutil.which("go"), reason="there is no Go toolchain on the path"),
]

NAME = "hostpath.csi.k8s.io"
NODES = ("node-a", "node-b")
DRIVER = {
    "metadata": {"name": NAME, "annotations": {"tonnage.dev/pool-policy": "most-free"}},
    "spec": {"attachRequired": False, "podInfoOnMount": True, "storageCapacity": True, "volumeRebuilding": True},
}
CLASS = {
    "metadata": {"name": "fast"},
    "provisioner": NAME,
    "parameters": {"kind": "fast"},
    "volumeBindingMode": "WaitForFirstConsumer",
}
STORAGE, CORE = "/apis/storage.k8s.io/v1", "/api/v1/namespaces/default"


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, built from the source with our patch."""
    folder = tmp_path_factory.mktemp("hostpath")
    source = folder / "source"
    shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns(".git"))
    subprocess.run(["git", "apply", "--unsafe-paths", "--directory", str(source), str(PATCH)], check=True, cwd="/")
    program = folder / "hostpathplugin"
    flags = ["-mod=vendor", "-ldflags", "-X main.version=patched", "-o", str(program)]
    subprocess.run(["go", "build", *flags, "./cmd/hostpathplugin"], check=True, cwd=source)
    return program


@pytest.fixture
def folder() -> Iterator[Path]:
    """Near the root: a socket's path has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="t") as name:
        yield Path(name)


@contextmanager
def running(*command: str | Path, log: Path) -> Iterator[None]:
    with log.open("w") as out:
        process = subprocess.Popen([*map(str, command)], stdout=out, stderr=out)
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=20)


def socket(folder: Path, node: str) -> str:
    return f"unix://{folder}/{node}.sock"


@contextmanager
def instances(plugin: Path, folder: Path, *flags: str) -> Iterator[None]:
    """The driver on two nodes, each with pools of 30Gi and 20Gi."""
    with ExitStack() as stack:
        for node in NODES:
            usual = ("--nodeid", node, "--peers", folder / "peers", "--pools", "fast=30Gi,20Gi")
            endpoint = ("--endpoint", socket(folder, node))
            stack.enter_context(running(plugin, *endpoint, *usual, *flags, log=folder / f"plugin-{node}.log"))
        eventually(lambda: all((folder / f"{node}.sock").exists() for node in NODES))
        yield


def test_the_patched_driver_keeps_every_contract_and_is_measured(plugin: Path, folder: Path):
    with instances(plugin, folder):
        answer = subprocess.run(
            [
                *(sys.executable, "-m", "tonnage", "driver-check", "--csi-address", socket(folder, "node-a")),
                *("--node-address", socket(folder, "node-b"), "--no-attach", "--cordoned-node", "node-a"),
                *("--parameters", "kind=fast", "--work-dir", str(folder), "--fill", "--measure", "-o", "json"),
            ],
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    document = json.loads(answer.stdout)
    outcomes = {each["name"]: each["outcome"] for each in document["checks"]}
    skipped = {name for name, outcome in outcomes.items() if outcome == "skipped"}
    assert skipped == {"limit-enforced", "rebuild-without-room"}, "it has no limit, and a controller fills its own node"
    assert outcomes["capacity-pools"] == outcomes["rebuild-contents"] == outcomes["rebuild-capacity"] == "passed"
    assert [each["value"] for each in document["measured"]] == ["most-free", ""]


@pytest.fixture
def cluster(plugin: Path, folder: Path) -> Iterator[ApiServerProcess]:
    with ExitStack() as stack:
        cluster = start_cluster(folder / "api")
        stack.callback(cluster.stop)
        credentials = folder / "credentials"
        credentials.mkdir(mode=0o700)
        shutil.copy(cluster.folder / "pki" / "ca.crt", credentials / "ca.crt")
        (credentials / "token").write_text(cluster.token)
        server = ("--api-server", cluster.url, "--api-credentials", str(credentials))
        stack.enter_context(instances(plugin, folder, *server))
        assert cluster.post(f"{STORAGE}/csidrivers", DRIVER).code == 201
        assert cluster.post(f"{STORAGE}/storageclasses", CLASS).code == 201
        programs: list[tuple[str, ...]] = [
            ("controllers", "--secure-port", "0"),
            ("scheduler", "--no-leader-elect", "--secure-port", "0"),
        ]
        for node in NODES:
            address = ("--csi-address", socket(folder, node))
            programs.append(("provisioner", *address, "--node-deployment", "--node-name", node))
            programs.append(("node", "--node-name", node, "--root-dir", str(folder / node), *address))
        for number, (program, *more) in enumerate(programs):
            command = [sys.executable, "-m", "tonnage", program, "--kubeconfig", str(cluster.kubeconfig), *more]
            stack.enter_context(running(*command, log=folder / f"{program}-{number}.log"))
        eventually(lambda: capacities(cluster), holds=lambda found: found == [["30Gi", "20Gi"]] * 2)
        yield cluster


def capacities(cluster: ApiServerProcess) -> list[list[str]]:
    return [
        each.get("availableCapacities", []) for each in cluster.get(f"{STORAGE}/csistoragecapacities").body["items"]
    ]


def claim(name: str, size: str) -> dict[str, Any]:
    requests = {"requests": {"storage": size}}
    spec = {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "resources": requests}
    return {"metadata": {"name": name}, "spec": spec}


def pod(name: str, *claims: str) -> dict[str, Any]:
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    containers = [{"name": "main", "image": "x", "volumeMounts": [{"name": c, "mountPath": f"/{c}"} for c in claims]}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, "volumes": volumes}}


def test_claims_are_packed_into_its_pools_and_its_volumes_follow_their_pod(cluster: ApiServerProcess):
    def seen(name: str) -> tuple[str, str]:
        found = cluster.get(f"{CORE}/pods/{name}").body
        return found["status"]["phase"], found["spec"].get("nodeName", "")

    for each in (claim("big", "25Gi"), claim("small", "20Gi"), claim("more", "20Gi")):
        cluster.post(f"{CORE}/persistentvolumeclaims", each)
    cluster.post(f"{CORE}/pods", pod("db", "big", "small"))
    eventually(lambda: seen("db")[0] == "Running")
    home = seen("db")[1]
    other = next(node for node in NODES if node != home)

    cluster.patch(f"/api/v1/nodes/{home}", {"spec": {"unschedulable": True}})
    eventually(
        lambda: all(
            "nodeAffinity" not in each["spec"] for each in cluster.get("/api/v1/persistentvolumes").body["items"]
        )
    )
    cluster.delete(f"{CORE}/pods/db")
    eventually(lambda: cluster.get(f"{CORE}/pods/db").code == 404)
    cluster.post(f"{CORE}/pods", pod("db", "big", "small"))
    eventually(lambda: seen("db") == ("Running", other))
    eventually(
        lambda: all(
            other in json.dumps(each["spec"].get("nodeAffinity", ""))
            for each in cluster.get("/api/v1/persistentvolumes").body["items"]
        )
    )

    cluster.post(f"{CORE}/pods", pod("late", "more"))
    condition = "PodScheduled"
    eventually(
        lambda: any(
            each["type"] == condition and each["status"] == "False"
            for each in cluster.get(f"{CORE}/pods/late").body["status"].get("conditions", [])
        )
    )
    cluster.patch(f"/api/v1/nodes/{home}", {"spec": {"unschedulable": False}})
    eventually(lambda: seen("late") == ("Running", home))

    for name in ("db", "late"):  # or mounts would be left behind
        cluster.delete(f"{CORE}/pods/{name}")
    eventually(lambda: not cluster.get(f"{CORE}/pods").body["items"])
