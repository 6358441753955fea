"""`tonnage csi-driver` as a process: it listens, survives a kill with every volume, and stops in order."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.eventually import eventually
from support.processes import ApiServerProcess, start_cluster
from tonnage.clock import SystemClock
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.client import CsiClient

GI = 1 << 30
KEY = "topology.tonnage.dev/node"
MOUNT = csi.VolumeCapability(
    mount=csi.VolumeCapability.MountVolume(),
    access_mode=csi.VolumeCapability.AccessMode(mode=csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER),
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Near the root: a socket's path has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="t") as name:
        yield Path(name)


@contextmanager
def driver(folder: Path, *flags: str) -> Iterator[subprocess.Popen[str]]:
    """A driver of two nodes; ended at the end, if it still runs."""
    command = [
        *(sys.executable, "-m", "tonnage", "csi-driver"),
        *("--endpoint", f"unix://{folder}/csi.sock", "--node-endpoint", f"unix://{folder}/{{node}}/csi.sock"),
        *("--node-id", "node-1", "--node-id", "node-2", "--pools", "2x10Gi", "--pools", "node-2=5Gi"),
        *("--max-volumes", "8", "--max-volumes", "node-2=2", "--state-dir", str(folder / "state"), *flags),
    ]
    with (folder / "driver.log").open("a") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
        process.stdout.close()


def wait_ready(process: subprocess.Popen[str], folder: Path) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", (folder / "driver.log").read_text()


def at(address: Path) -> CsiClient:
    return CsiClient(f"unix://{address}", clock=SystemClock(), rng=random.Random(1))


def sockets_below(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*.sock")]


async def make(client: CsiClient, name: str) -> str:
    asked = csi.CreateVolumeRequest(
        name=name,
        capacity_range=csi.CapacityRange(required_bytes=4 * GI),
        volume_capabilities=[MOUNT],
        accessibility_requirements=csi.TopologyRequirement(requisite=[csi.Topology(segments={KEY: "node-1"})]),
    )
    return (await client.create_volume(asked)).volume.volume_id


async def free(client: CsiClient, node: str) -> list[int]:
    asked = csi.GetCapacityRequest(accessible_topology=csi.Topology(segments={KEY: node}))
    return list((await client.get_capacity(asked)).available_capacities)


async def test_it_serves_all_nodes_survives_a_kill_and_stops_in_order(folder: Path) -> None:
    async with at(folder / "csi.sock") as cluster, at(folder / "node-2" / "csi.sock") as node_2:
        with driver(folder) as process:
            # Asked before it listens: the call waits for it.
            assert (await cluster.plugin_info()).name == "pools.tonnage.dev"
            wait_ready(process, folder)
            told = await node_2.node_info()
            assert (told.node_id, told.max_volumes_per_node) == ("node-2", 2)
            volume_id = await make(cluster, "pvc-1")
            assert await free(cluster, "node-1") == [6 * GI, 10 * GI]
            assert await free(cluster, "node-2") == [5 * GI]
            second = csi.GetCapacityRequest(
                accessible_topology=csi.Topology(segments={KEY: "node-1"}), parameters={"pools": "1"}
            )
            answer, ids = await cluster.capacity_with_ids(second)
            assert (list(answer.available_capacities), ids) == ([10 * GI], ["node-1/1"])
            process.kill()
            process.wait(timeout=10)
        # The clients find its successor by themselves, and the volume is there.
        with driver(folder) as process:
            assert await make(cluster, "pvc-1") == volume_id
            assert await free(cluster, "node-1") == [6 * GI, 10 * GI]
            assert (await node_2.node_info()).node_id == "node-2"
            wait_ready(process, folder)
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 20) == 0
    assert sockets_below(folder) == []


@pytest.mark.slow
def test_what_it_missed_while_it_was_dead_is_put_right_and_a_server_that_is_away_is_waited_for(folder: Path) -> None:
    server = start_cluster(folder / "api")
    try:
        for name in ("node-1", "node-2"):
            assert server.post("/api/v1/nodes", {"metadata": {"name": name, "labels": {KEY: name}}}).code == 201
        flags = ("--rebuild", "--kubeconfig", str(server.kubeconfig))
        with driver(folder, *flags) as process:
            wait_ready(process, folder)
            _provision(server, asyncio.run(_made(folder)))
            process.kill()
            process.wait(timeout=10)
        assert server.patch("/api/v1/nodes/node-1", {"spec": {"unschedulable": True}}).code == 200
        port = server.url.rpartition(":")[2]
        server.stop()
        with driver(folder, *flags) as process:
            assert asyncio.run(_made(folder))  # it serves, though it is not in step yet
            server = start_cluster(folder / "api", "--secure-port", port)
            wait_ready(process, folder)
            path = "/api/v1/persistentvolumes/pv-1"
            eventually(lambda: "nodeAffinity" not in server.get(path).body["spec"])
    finally:
        server.stop()


async def _made(folder: Path) -> str:
    async with at(folder / "csi.sock") as cluster:
        return await make(cluster, "pvc-1")


def _provision(server: ApiServerProcess, volume_id: str) -> None:
    """The PersistentVolume that a provisioner would make of it."""
    term = {"matchExpressions": [{"key": KEY, "operator": "In", "values": ["node-1"]}]}
    spec = {
        "capacity": {"storage": "4Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "pools.tonnage.dev", "volumeHandle": volume_id},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    reply = server.post("/api/v1/persistentvolumes", {"metadata": {"name": "pv-1"}, "spec": spec})
    assert reply.code == 201, reply.body
