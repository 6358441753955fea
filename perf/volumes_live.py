"""How fast pods with claims are decided for real: `tonnage scheduler` on an API server, one capacity object a node.

    python perf/volumes_live.py --nodes 1000 --pods 1000                      on `tonnage apiserver`, started for this
    python perf/volumes_live.py --nodes 5000 --kubeconfig FILE                on any other, such as a kube-apiserver

Every pod has a claim of its own, of a class that is provisioned where the pod goes. A decision is made when the
scheduler has written its node to the claim (selected-node) for the provisioner to start: that is what is counted, from
the first to the last, as a watch sees it. No provisioner answers, so that none is measured. With --kubeconfig the
objects are made in that cluster, under names that start with `perf-`, and deleted at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
from apiserver import node
from scheduler_live import CONFIGURATION, peak_mb

from tonnage.client.config import kubeconfig
from tonnage.client.transport import tls

CLASS, DRIVER, SCHEDULER = "perf-fast", "perf.csi.example", "perf-scheduler"
CLAIMS, PODS = "/api/v1/namespaces/default/persistentvolumeclaims", "/api/v1/namespaces/default/pods"
CAPACITIES = "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities"
SELECTED = "volume.kubernetes.io/selected-node"


class Client:
    """A server as a kubeconfig names it, over many connections."""

    def __init__(self, file: Path) -> None:
        found = kubeconfig.load(file)
        self._url = found.cluster.server
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls.context_of(found.cluster), limit=32),
            headers={"Authorization": f"Bearer {found.user.token}", "Content-Type": "application/json"},
            timeout=aiohttp.ClientTimeout(total=None),
        )

    async def close(self) -> None:
        await self._session.close()

    async def post(self, path: str, body: dict[str, Any]) -> None:
        async with self._session.post(self._url + path, data=json.dumps(body)) as answer:
            assert answer.status in (201, 409), await answer.text()

    async def post_all(self, path: str, bodies: list[dict[str, Any]]) -> None:
        await asyncio.gather(*(self.post(path, body) for body in bodies))

    async def delete_all(self, path: str, names: list[str]) -> None:
        """Delete for good: no controller may be there that would take a claim's protection away."""
        plain = json.dumps({"metadata": {"finalizers": None}})
        patch = {"Content-Type": "application/merge-patch+json"}

        async def delete(name: str) -> None:
            async with self._session.patch(f"{self._url}{path}/{name}", data=plain, headers=patch) as answer:
                await answer.read()
            options = json.dumps({"gracePeriodSeconds": 0})
            async with self._session.delete(f"{self._url}{path}/{name}", data=options) as answer:
                await answer.read()

        await asyncio.gather(*(delete(name) for name in names))

    async def delete_collection(self, path: str) -> None:
        """Delete all that is there and nobody holds, in one request."""
        options = json.dumps({"gracePeriodSeconds": 0})
        async with self._session.delete(self._url + path, data=options) as answer:
            assert answer.status == 200, await answer.text()

    async def version(self, path: str) -> str:
        async with self._session.get(f"{self._url}{path}?limit=1") as answer:
            return str((await answer.json())["metadata"]["resourceVersion"])

    async def count(self, path: str) -> int:
        """Objects in one answer."""
        async with self._session.get(self._url + path) as answer:
            return len((await answer.json())["items"])

    def stream(self, path: str) -> Any:
        return self._session.get(self._url + path)


def objects(options: argparse.Namespace) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Collections and what is made in them."""
    storage = "/apis/storage.k8s.io/v1"
    waits = "WaitForFirstConsumer"
    yield (
        f"{storage}/storageclasses",
        [{"metadata": {"name": CLASS}, "provisioner": DRIVER, "volumeBindingMode": waits}],
    )
    yield f"{storage}/csidrivers", [{"metadata": {"name": DRIVER}, "spec": {"storageCapacity": True}}]
    names = [f"perf-{number}" for number in range(options.nodes)]
    yield "/api/v1/nodes", [node(name) for name in names]
    yield (
        CAPACITIES,
        [
            {
                "metadata": {"name": name},
                "storageClassName": CLASS,
                "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": name}},
                "capacity": "1000Gi",
            }
            for name in names
        ],
    )
    claims = [f"perf-{number}" for number in range(options.pods)]
    size = {"requests": {"storage": "10Gi"}}
    asked = {"accessModes": ["ReadWriteOnce"], "resources": size, "storageClassName": CLASS}
    yield CLAIMS, [{"metadata": {"name": name}, "spec": asked} for name in claims]
    yield PODS, [pod(name, 100 + (number % 400 if options.unlike else 0)) for number, name in enumerate(claims)]


def pod(name: str, cpu_milli: int) -> dict[str, Any]:
    resources = {"requests": {"cpu": f"{cpu_milli}m", "memory": "64Mi"}}
    mounted = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
    return {
        "metadata": {"name": name},
        "spec": {
            "schedulerName": SCHEDULER,
            "containers": [{"name": "c", "image": "app:1", "resources": resources}],
            "volumes": [mounted],
        },
    }


def cpu_seconds(pid: int) -> float:
    """What a process has used of a core so far, as Linux tells it; 0 elsewhere."""
    stat = Path(f"/proc/{pid}/stat")
    fields = stat.read_text().rpartition(")")[2].split() if stat.exists() else []
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


async def decided(client: Client, file: Path, folder: Path, pods: int, gates: str) -> tuple[float, float, int]:
    """Start the scheduler and follow it: decisions a second from first to last, its CPU time for each in µs, and its
    peak memory in MB."""
    config = folder / "scheduler.json"
    config.write_text(json.dumps({**CONFIGURATION, "profiles": [{"schedulerName": SCHEDULER}]}))
    newest = await client.version(CLAIMS)
    command = [sys.executable, "-m", "tonnage", "scheduler", "--config", str(config), "--secure-port", "0"]
    scheduler = await asyncio.create_subprocess_exec(
        *command, "--kubeconfig", str(file), "--feature-gates", gates, stderr=asyncio.subprocess.DEVNULL
    )
    seen: set[str] = set()
    first_at = cpu_s = 0.0
    try:
        async with client.stream(f"{CLAIMS}?watch=true&resourceVersion={newest}") as answer:
            async for line in answer.content:
                metadata = json.loads(line)["object"]["metadata"]
                if SELECTED in metadata.get("annotations", {}):
                    if not first_at:
                        first_at, cpu_s = time.perf_counter(), cpu_seconds(scheduler.pid)
                    seen.add(metadata["name"])
                    if len(seen) == pods:
                        spent_s = cpu_seconds(scheduler.pid) - cpu_s
                        rate = (pods - 1) / (time.perf_counter() - first_at)
                        return rate, spent_s / pods * 1e6, peak_mb(scheduler.pid)
    finally:
        scheduler.terminate()
        await scheduler.wait()
    raise SystemExit("the watch ended before all pods were decided")


async def measure(file: Path, folder: Path, options: argparse.Namespace) -> None:
    client = Client(file)
    made = list(objects(options))
    try:
        for path, bodies in made:
            await client.post_all(path, bodies)
        rate, cpu_us, memory_mb = await decided(client, file, folder, options.pods, options.feature_gates)
        kind = "unlike" if options.unlike else "equal"
        told = f"{rate:,.0f} decisions/s, {cpu_us:,.0f} µs of the scheduler's CPU each, its peak memory {memory_mb} MB"
        print(f"live: {options.pods:,} {kind} pods with a claim on {options.nodes:,} nodes: {told}")
    finally:
        if options.kubeconfig is not None:
            for path, bodies in reversed(made):
                await client.delete_all(path, [body["metadata"]["name"] for body in bodies])
        await client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--unlike", action="store_true", help="pods that differ in what they ask for")
    parser.add_argument("--feature-gates", default="", help="of the scheduler, as its flag takes them")
    parser.add_argument("--kubeconfig", type=Path, help="measure on this server; objects there are deleted at the end")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        if options.kubeconfig is not None:
            asyncio.run(measure(options.kubeconfig, folder, options))
            return
        command = [sys.executable, "-m", "tonnage", "apiserver", "--data-dir", name, "--secure-port", "0"]
        server = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
        stack.callback(server.terminate)
        assert server.stdout is not None
        server.stdout.readline()
        asyncio.run(measure(folder / "kubeconfig", folder, options))


if __name__ == "__main__":
    main()
