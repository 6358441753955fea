"""How fast pods are placed for real: `tonnage scheduler` on `tonnage apiserver`, processes of their own, over TLS.

    python perf/scheduler_live.py --nodes 1000 --pods 2000

Prints pods bound a second, from the first binding to the last, as a watch sees them. Server, scheduler and this program
share the machine; compare within one run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from apiserver import Client, node
from budgets import figure

CONFIGURATION: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    # kube-scheduler's default of 50 requests a second would be all that is measured.
    "clientConnection": {"qps": 100000, "burst": 100000},
    "leaderElection": {"leaderElect": False},
}
PODS = "/api/v1/namespaces/default/pods"


def pod(name: str, cpu_milli: int) -> dict[str, Any]:
    resources = {"requests": {"cpu": f"{cpu_milli}m", "memory": "64Mi"}}
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "app:1", "resources": resources}]},
    }


async def place(client: Client, kubeconfig: Path, folder: Path, pods: int) -> tuple[float, int]:
    """Start the scheduler and follow it: bindings a second from first to last, and its peak memory in MB."""
    config = folder / "scheduler.json"
    config.write_text(json.dumps(CONFIGURATION))
    newest = json.loads(await client.get(f"{PODS}?limit=1"))["metadata"]["resourceVersion"]
    command = [sys.executable, "-m", "tonnage", "scheduler", "--config", str(config), "--secure-port", "0"]
    scheduler = await asyncio.create_subprocess_exec(
        *command, "--kubeconfig", str(kubeconfig), stderr=asyncio.subprocess.DEVNULL
    )
    bound: set[str] = set()
    first_at = 0.0
    try:
        async with client.stream(f"{PODS}?watch=true&resourceVersion={newest}") as answer:
            async for line in answer.content:
                seen = json.loads(line)["object"]
                if seen["spec"].get("nodeName"):
                    first_at = first_at or time.perf_counter()
                    bound.add(seen["metadata"]["name"])
                    if len(bound) == pods:
                        return (pods - 1) / (time.perf_counter() - first_at), peak_mb(scheduler.pid)
    finally:
        scheduler.terminate()
        await scheduler.wait()
    raise SystemExit("the watch ended before all pods were placed")


def peak_mb(pid: int) -> int:
    """The largest resident size a process has had, as Linux tells it; 0 elsewhere."""
    status = Path(f"/proc/{pid}/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM")), 0)


async def measure(url: str, folder: Path, options: argparse.Namespace) -> None:
    client = Client(url, (folder / "token").read_text().strip(), folder / "pki" / "ca.crt", 32)
    try:
        await client.post_all("/api/v1/nodes", [node(f"node-{i}") for i in range(options.nodes)])
        step = 1 if options.unlike else 0
        await client.post_all(PODS, [pod(f"p{i}", 100 + step * (i % 400)) for i in range(options.pods)])
        rate, memory_mb = await place(client, folder / "kubeconfig", folder, options.pods)
        kind = "unlike" if options.unlike else "equal"
        told = f"{rate:,.0f} bound/s, scheduler's peak memory {memory_mb} MB"
        print(f"live: {options.pods:,} {kind} pods on {options.nodes:,} nodes: {told}")
        if (options.nodes, options.pods) == (5000, 10000) and memory_mb:
            figure("scheduler-memory", memory_mb)
    finally:
        await client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--unlike", action="store_true", help="pods that differ in what they ask for")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "tonnage", "apiserver", "--data-dir", name, "--secure-port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
            assert server.stdout is not None
            try:
                asyncio.run(measure(server.stdout.readline().split()[1], folder, options))
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
