"""How fast pods with claims are decided for real: `tonnage scheduler` on an API server, one capacity object a node.

    python perf/volumes_live.py --nodes 1000 --pods 1000                      on `tonnage apiserver`, started for this
    python perf/volumes_live.py --nodes 5000 --kubeconfig FILE                on any other, such as a kube-apiserver

Every pod has a claim of its own, of a class that is provisioned where the pod goes. A decision is made when the
scheduler has nominated the pod, and then written its node to the claim (selected-node) for the provisioner to start:
that is what is counted, from the first to the last, as watches see it (`decision_watch`). No provisioner answers, so
that none is measured. With --kubeconfig the objects are made in that cluster, under names that start with `perf-`, and
deleted at the end.
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

from apiserver import node
from decision_watch import DecisionWatch
from live_client import CLAIMS, PODS, Client
from scheduler_live import CONFIGURATION, peak_mb

CLASS, DRIVER, SCHEDULER = "perf-fast", "perf.csi.example", "perf-scheduler"
CAPACITIES = "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities"


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


async def decided(client: Client, file: Path, folder: Path, pods: int, gates: str) -> str:
    """Start the scheduler and follow it: decisions a second from first to last, its CPU time for each, its peak memory,
    and claims that were written before their pod's nomination."""
    config = folder / "scheduler.json"
    config.write_text(json.dumps({**CONFIGURATION, "profiles": [{"schedulerName": SCHEDULER}]}))
    is_nominated = "NominatedNodeNameForExpectation=false" not in gates
    watch = DecisionWatch(client, await client.version(PODS), claims=1, is_nominated=is_nominated)
    command = [sys.executable, "-m", "tonnage", "scheduler", "--config", str(config), "--secure-port", "0"]
    scheduler = await asyncio.create_subprocess_exec(
        *command, "--kubeconfig", str(file), "--feature-gates", gates, stderr=asyncio.subprocess.DEVNULL
    )
    seen: set[str] = set()
    first_at = cpu_s = 0.0
    try:
        async for name in watch.names():
            if not first_at:
                first_at, cpu_s = time.perf_counter(), cpu_seconds(scheduler.pid)
            seen.add(name)
            if len(seen) == pods:
                break
        rate = (pods - 1) / (time.perf_counter() - first_at)
        cpu_us = (cpu_seconds(scheduler.pid) - cpu_s) / pods * 1e6
        return (
            f"{rate:,.0f} decisions/s, {cpu_us:,.0f} µs of the scheduler's CPU each, its peak memory "
            f"{peak_mb(scheduler.pid)} MB; claims before their pod's nomination: {len(watch.early):,}"
        )
    finally:
        scheduler.terminate()
        await scheduler.wait()


async def measure(file: Path, folder: Path, options: argparse.Namespace) -> None:
    client = Client(file)
    made = list(objects(options))
    try:
        for path, bodies in made:
            await client.post_all(path, bodies)
        told = await decided(client, file, folder, options.pods, options.feature_gates)
        kind = "unlike" if options.unlike else "equal"
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
