"""`tonnage up` on a folder that it knows: after a clean stop, after kill -9, with the gates off and on again.

One folder goes through all of it, because each start takes seconds; the steps are in the order of the test. At the end
are clusters that cannot start, and say why at once (slips that can be told without starting anything are in
tests/unit/cli/test_up_command.py).
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from scene import Scene

from support.processes import Up, start_up
from tonnage.objects.document import Doc
from tonnage.stories.story_runner import claim, pod, stateful_set

PROGRAMS = ("apiserver", "scheduler", "controllers", "csi-driver", "provisioner", "node")
OFF = "CSIStorageCapacityV2=false,MutableCSINodeAllocatableCount=false,NominatedNodeNameForExpectation=false"
POOLS = ("--nodes", "2", "--pools", "2x50Gi")


class NoKubectl:
    """Objects go in by POST here: the tests are about processes, and kubectl may not be installed."""

    def __init__(self, up: Up) -> None:
        self._up = up

    def create(self, *docs: Doc) -> None:
        for doc in docs:
            group = "/apis/apps/v1" if doc["apiVersion"] == "apps/v1" else "/api/v1"
            plural = {"Pod": "pods", "PersistentVolumeClaim": "persistentvolumeclaims"}.get(doc["kind"], "statefulsets")
            made = self._up.post(f"{group}/namespaces/default/{plural}", doc)
            assert made.code == 201, made.body

    def __call__(self, *arguments: str, stdin: object = None) -> str:
        return str([each["message"] for each in self._up.get("/api/v1/namespaces/default/events").body["items"]])


@pytest.fixture
def start() -> Iterator[Callable[..., Up]]:
    """A function that starts a cluster on the one folder of this test."""
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        running: list[Up] = []

        def begin(*flags: str) -> Up:
            running.append(start_up(Path(folder) / "c", *flags))
            return running[-1]

        yield begin
        for up in running:
            if up.process.poll() is None:
                up.stop()


def scene_of(up: Up) -> Scene:
    return Scene(up, NoKubectl(up), "default")


def is_running(pid: int) -> bool:
    """Whether there is such a process; one that has ended and was not buried yet is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children_of(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == pid:
            found.append(int(path.parent.name))
    return found


def tried(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """A `tonnage up` that is not going to stay."""
    command = [sys.executable, "-m", "tonnage", "up", "--data-dir", str(folder), *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def kept(up: Up) -> dict[str, object]:
    """What a restart must not make anew: CSINodes, their drivers, and the objects that tell of capacity."""
    csi_nodes = up.get("/apis/storage.k8s.io/v1/csinodes").body["items"]
    capacities = up.get("/apis/storage.k8s.io/v1/csistoragecapacities").body["items"]
    return {
        **{each["metadata"]["name"]: (each["metadata"]["uid"], each["spec"]["drivers"]) for each in csi_nodes},
        **{each["metadata"]["uid"]: each["nodeTopology"] for each in capacities},
    }


@pytest.mark.slow
def test_six_restarts_make_no_csi_node_and_no_capacity_anew(start: Callable[..., Up]):
    up = start(*POOLS)
    before = kept(up)
    assert len(before) == 4  # two nodes, and a capacity object of each
    for _ in range(6):
        assert up.stop() == 0
        up = start()
        assert kept(up) == before


def test_a_cluster_is_taken_up_again_with_all_that_it_had(start: Callable[..., Up]):
    # First: a database with something in it, and a second cluster on its folder.
    up = start(*POOLS)
    scene = scene_of(up)
    NoKubectl(up).create(stateful_set("db", "20Gi"))
    first = scene.running("db-0")
    other = ({"node-1", "node-2"} - {first["spec"]["nodeName"]}).pop()
    volume = scene.volume_of("data-db-0")["metadata"]["name"]
    scene.mount("db-0", volume).joinpath("note").write_text("remember me")
    refused = tried(up.folder, "--secure-port", "0", "--nodes", "9")
    assert (refused.returncode, refused.stdout, refused.stderr) == (
        1,
        "",
        f"error: another cluster runs on {up.folder} (process {up.process.pid})\n"
        "hint: stop it, or choose another --data-dir\n",
    )

    # A clean stop, and a start with the gates off: everything is as it was, and goes on as before the enhancements.
    pids, before = [up.pid(program) for program in PROGRAMS], kept(up)
    assert up.stop() == 0
    assert not any(map(is_running, pids))
    up = start("--feature-gates", OFF)
    assert kept(up) == before
    scene = scene_of(up)
    assert len(scene.items("/api/v1/nodes")) == 2
    assert scene.running("db-0")["metadata"]["uid"] == first["metadata"]["uid"]
    assert scene.mount("db-0", volume).joinpath("note").read_text() == "remember me"
    driver = scene.up.get("/apis/storage.k8s.io/v1/csidrivers/pools.tonnage.dev").body
    assert driver["spec"]["volumeRebuilding"] is True and driver["spec"]["nodeAllocatableUpdatePeriodSeconds"] == 10
    NoKubectl(up).create(claim("meanwhile", "10Gi"), pod("web", ["meanwhile"], node=other))
    scene.running("web")

    # The supervisor is killed: its programs end, and the next start, at once and with the gates on, waits for that.
    # It does not wait for a node that somebody has cordoned.
    up.patch(f"/api/v1/nodes/{other}", {"spec": {"unschedulable": True}})
    scene.until("the cordon's taint", lambda: scene.up.get(f"/api/v1/nodes/{other}").body["spec"].get("taints"))
    pids = [up.pid(program) for program in PROGRAMS]
    up.stop(signal.SIGKILL)
    up = start()
    assert not any(map(is_running, pids))
    scene = scene_of(up)
    assert up.patch(f"/api/v1/nodes/{other}", {"spec": {"unschedulable": None}}).code == 200
    assert scene.running("db-0")["metadata"]["uid"] == first["metadata"]["uid"]
    assert scene.running("web")["spec"]["containers"][0]["name"] == "main"
    assert scene.mount("db-0", volume).joinpath("note").read_text() == "remember me"
    # Two nodes of 2 x 50Gi; one has 20Gi less in one pool, the other 10Gi.
    scene.has_room(first["spec"]["nodeName"], "30Gi", "50Gi")
    scene.has_room(other, "40Gi", "50Gi")
    NoKubectl(up).create(claim("left", "50Gi"), claim("right", "30Gi"), pod("jointly", ["left", "right"]))
    scene.running("jointly")

    # What starts the programs is killed: the cluster cannot be kept running, says so, and leaves no process behind.
    pids = [up.pid(program) for program in PROGRAMS]
    (forkserver,) = children_of(up.process.pid)
    os.kill(forkserver, signal.SIGKILL)
    with up.process:
        assert up.process.wait(timeout=30) == 1
    assert (
        up.folder.joinpath("up.log")
        .read_text()
        .endswith("error: the process that starts the cluster's programs has ended\nhint: start the cluster again\n")
    )
    scene.until("its programs to end", lambda: not any(map(is_running, pids)))


def test_a_port_that_is_taken_is_told_at_once(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = tried(tmp_path, "--secure-port", str(port))
    first, *_, hint, last = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (1, "")
    assert first == "error: apiserver ended with code 1; its log ends with:"
    assert f"error: cannot listen on 127.0.0.1:{port}: " in done.stderr
    assert hint == "hint: choose another --secure-port, or 0 for a free one"
    assert last == f"hint: all of it is in {tmp_path / 'logs' / 'apiserver.log'}"


def test_a_manifest_that_the_server_refuses_ends_the_start(tmp_path: Path):
    manifest = tmp_path / "pod.yaml"
    manifest.write_text("{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: nowhere}, spec: {containers: []}}")
    done = tried(tmp_path / "data", "--secure-port", "0", "-f", str(manifest))
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        'error: Pod nowhere/a cannot be applied: namespaces "nowhere" not found\n',
    )
    assert list((tmp_path / "data" / "run").glob("*.pid")) == []
