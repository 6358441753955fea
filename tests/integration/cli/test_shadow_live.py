"""`tonnage shadow` beside another scheduler on a live server: what it says, and that it only reads."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.eventually import eventually
from support.processes import ApiServerProcess
from support.recording_proxy import RecordingProxy
from tonnage_command import tonnage

PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
SELECTED = "volume.kubernetes.io/selected-node"


class Shadow:
    """A `tonnage shadow` process."""

    def __init__(self, *arguments: str, log: Path) -> None:
        self.log = log
        self._stderr = log.open("w")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tonnage", "shadow", *arguments],
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
        )

    def wait_following(self) -> None:
        eventually(lambda: "following: " in self.log.read_text() or self._process.poll() is not None, within_s=60)
        assert self._process.poll() is None, self.log.read_text()

    def end(self, number: int | None = signal.SIGINT) -> tuple[int, str]:
        if number is not None:
            self._process.send_signal(number)
        out, _ = self._process.communicate(timeout=60)
        return self._process.returncode, out

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()
        self._stderr.close()


@contextmanager
def shadow(folder: Path, *arguments: str) -> Iterator[Shadow]:
    running = Shadow(*arguments, log=folder / "shadow.log")
    try:
        running.wait_following()
        yield running
    finally:
        running.kill()


def storage(cluster: ApiServerProcess, **free: str) -> None:
    """Nodes with a disk each, of which so much is free."""
    cluster.create(
        "/apis/storage.k8s.io/v1/csidrivers", {"metadata": {"name": "csi.example"}, "spec": {"storageCapacity": True}}
    )
    cluster.create(
        "/apis/storage.k8s.io/v1/storageclasses",
        {
            "metadata": {"name": "fast"},
            "provisioner": "csi.example",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    )
    for name, size in free.items():
        room = {"cpu": "8", "memory": "16Gi", "pods": "50"}
        cluster.create(
            "/api/v1/nodes",
            {
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                "status": {"allocatable": room, "capacity": room},
            },
        )
        cluster.create(
            "/apis/storage.k8s.io/v1/csinodes",
            {
                "metadata": {"name": name},
                "spec": {"drivers": [{"name": "csi.example", "nodeID": name, "topologyKeys": []}]},
            },
        )
        cluster.create(
            "/apis/storage.k8s.io/v1/namespaces/kube-system/csistoragecapacities",
            {
                "metadata": {"name": f"fast-{name}"},
                "storageClassName": "fast",
                "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": name}},
                "capacity": size,
            },
        )


def new_pod(cluster: ApiServerProcess, name: str, size: str = "") -> None:
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "app:1"}]}
    if size:
        spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
        claim = {
            "metadata": {"name": name},
            "spec": {
                "storageClassName": "fast",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": size}},
            },
        }
        cluster.create(CLAIMS, claim)
    cluster.create(PODS, {"metadata": {"name": name}, "spec": spec})


def select(cluster: ApiServerProcess, claim: str, node: str | None) -> None:
    """The other scheduler chooses a node for a claim; the provisioner gives it back with None."""
    assert cluster.patch(f"{CLAIMS}/{claim}", {"metadata": {"annotations": {SELECTED: node}}}).code == 200


def bind(cluster: ApiServerProcess, pod: str, node: str) -> None:
    assert cluster.post(f"{PODS}/{pod}/binding", {"metadata": {"name": pod}, "target": {"name": node}}).code == 201


def test_it_judges_another_scheduler_and_only_reads(cluster: ApiServerProcess, tmp_path: Path) -> None:
    storage(cluster, small="10Gi", large="100Gi")
    new_pod(cluster, "before")
    bind(cluster, "before", "small")
    with RecordingProxy(cluster) as proxy:
        kubeconfig = proxy.kubeconfig(tmp_path / "kubeconfig")
        with shadow(tmp_path, "--kubeconfig", str(kubeconfig), "-o", "json") as running:
            new_pod(cluster, "db", "20Gi")
            select(cluster, "db", "small")  # 10 Gi < 20 Gi: it cannot be made there
            select(cluster, "db", None)
            select(cluster, "db", "large")
            proxy.cut()  # it connects again, and misses nothing
            bind(cluster, "db", "large")
            new_pod(cluster, "web")
            bind(cluster, "web", "large")
            new_pod(cluster, "other", "50Gi")
            bind(cluster, "other", "small")
            eventually(lambda: "default/other went to small" in running.log.read_text(), within_s=120)
            code, out = running.end()
        requests = list(proxy.requests)
    assert code == 0
    told = json.loads(out)
    assert told["decisions"] >= 3
    # db to small, db to large, web and other: all were judged, in the order in which they were made.
    assert (told["decisions"], told["unseen"], len(told["differences"])) == (4, 0, 2), told
    by_pod = {each["pod"]: each for each in told["differences"]}
    assert by_pod["default/db"]["theirs"] == "small" and by_pod["default/db"]["ours"] == "large"
    assert "VolumeBinding" in by_pod["default/db"]["why"]
    assert by_pod["default/other"]["ours"] == "large"
    assert told["volumesRefused"]["theirs"] >= 1
    assert told["volumesRefused"]["wouldHaveBeenAvoided"] == told["volumesRefused"]["theirs"]
    assert {method for method, _ in requests} == {"GET"}, "nothing but reads"
    assert not any("selfsubject" in path or "leases" in path for _, path in requests)


def test_a_time_ends_it_with_a_table(cluster: ApiServerProcess, tmp_path: Path) -> None:
    with shadow(tmp_path, "--kubeconfig", str(cluster.kubeconfig), "--for", "1s") as running:
        code, out = running.end(None)
    assert code == 0
    assert out.startswith("No pod was placed in 1s\n")


def test_a_cluster_that_cannot_be_reached_is_one_line(tmp_path: Path, cluster: ApiServerProcess) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(cluster.kubeconfig.read_text().replace(cluster.url, "https://127.0.0.1:1"))
    done = tonnage("shadow", "--kubeconfig", str(config), "--for", "1s")
    assert done.returncode == 1 and not done.stdout
    assert done.stderr.startswith("error: ") and "127.0.0.1:1" in done.stderr
    assert len(done.stderr.splitlines()) <= 2
