"""How fast the API server is: durable creates, what programs send about a pod, a large list, the fan-out of watches.

    make perf                                 # a short run
    python perf/apiserver.py --creates 20000 --nodes 5000 --watchers 100

The server runs in a process of its own, over TLS, on a real disk; the clients share the machine with it, so figures are
of this machine as it is now. Compare within one run, not between machines. "CPU" is the server's own for one request
(of an event one watcher's share), which other programs on the machine change least.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp
from budgets import figure

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "value" * 40}}


def pod(name: str) -> dict[str, Any]:
    """A pod with a claim, as a stateful workload has it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/app:1.0",
                    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                }
            ],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{name}"}}],
        },
    }


def node(name: str) -> dict[str, Any]:
    allocatable = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "a"}},
        "status": {"capacity": allocatable, "allocatable": allocatable},
    }


Asked = tuple[str, str, dict[str, Any] | None]
"""Method, path, body."""


class Stopwatch:
    """Wall seconds, and the CPU seconds of the server's process where its number is known."""

    def __init__(self, pid: int | None) -> None:
        self._pid = pid
        self._started_at = time.perf_counter()
        self._cpu_s = self._read()

    def _read(self) -> float:
        if self._pid is None:
            return 0.0
        ticks = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

    @property
    def wall_s(self) -> float:
        return time.perf_counter() - self._started_at

    def cpu(self, count: int) -> str:
        """The server's CPU for one of so many."""
        return f"{(self._read() - self._cpu_s) / count * 1e6:,.0f} µs" if self._pid is not None else ""


class Client:
    """Connections to one server; `gather` runs jobs over a fixed number of them."""

    def __init__(self, url: str, token: str, ca: Path, connections: int, pid: int | None = None) -> None:
        self.url = url
        self.pid = pid
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(ca)), limit=0),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            json_serialize=json.dumps,
        )
        self.connections = connections

    async def close(self) -> None:
        await self._session.close()

    async def post_all(self, path: str, bodies: list[dict[str, Any]]) -> list[float]:
        """POST every body, `connections` at a time; the latency of each in seconds."""
        return await self.send_all([("POST", path, body) for body in bodies])

    async def send_all(self, asked: list[Asked], content_type: str = "application/json") -> list[float]:
        """Send every request, `connections` at a time; the latency of each in seconds."""
        pending = iter([(verb, path, json.dumps(body).encode() if body else b"") for verb, path, body in asked])
        latencies: list[float] = []

        async def worker() -> None:
            for verb, path, body in pending:
                started_at = time.perf_counter()
                headers = {"Content-Type": content_type}
                async with self._session.request(verb, self.url + path, data=body, headers=headers) as answer:
                    await answer.read()
                    assert answer.status in (200, 201), await answer.text()
                latencies.append(time.perf_counter() - started_at)

        await asyncio.gather(*(worker() for _ in range(self.connections)))
        return latencies

    async def get(self, path: str) -> bytes:
        async with self._session.get(self.url + path) as answer:
            assert answer.status == 200
            return await answer.read()

    def stream(self, path: str) -> Any:
        return self._session.get(self.url + path, timeout=aiohttp.ClientTimeout(total=None))

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return self._session.post(self.url + path, data=json.dumps(body).encode())


async def creates(client: Client, kind: str, count: int) -> dict[str, Any]:
    bodies = [pod(f"p{i}") for i in range(count)] if kind == "pods" else []
    if kind == "configmaps":
        bodies = [{**CONFIG_MAP, "metadata": {"name": f"c{i}"}} for i in range(count)]
    what = f"durable creates of {kind}, {client.connections} connections"
    row = await timed(client, what, [("POST", f"/api/v1/namespaces/default/{kind}", body) for body in bodies])
    if kind == "pods":
        figure("creates-pods", row["per_second"], f"{row['cpu']} of CPU each" if row["cpu"] else "")
    return row


async def timed(
    client: Client, what: str, asked: list[Asked], content_type: str = "application/json"
) -> dict[str, Any]:
    watch = Stopwatch(client.pid)
    latencies = await client.send_all(asked, content_type)
    rate = len(asked) / watch.wall_s
    return {
        "what": what,
        "per_second": rate,
        "rate": f"{rate:,.0f}/s",
        "cpu": watch.cpu(len(asked)),
        "p50": f"{statistics.median(latencies) * 1e3:.1f} ms",
        "p99": f"{statistics.quantiles(latencies, n=100)[98] * 1e3:.1f} ms",
    }


async def about_pods(client: Client, count: int) -> list[dict[str, Any]]:
    """What a scheduler and a node program send about pods that are there: `creates` has made them."""
    pods = "/api/v1/namespaces/default/pods"
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"status": {"conditions": [condition], "nominatedNodeName": "node-1"}}
    running = {"status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}}
    target = {"kind": "Node", "name": "node-1"}
    label = {"metadata": {"labels": {"step": "two"}}}
    strategic = "application/strategic-merge-patch+json"
    names = [f"p{i}" for i in range(count)]
    one_of = f"{pods}?labelSelector=app%3Dweb&fieldSelector=metadata.name%3Dp1"
    return [
        await timed(client, "get of a pod", [("GET", f"{pods}/{name}", None) for name in names]),
        await timed(
            client, "patch of a pod's label", [("PATCH", f"{pods}/{name}", label) for name in names], strategic
        ),
        await timed(
            client,
            "patch of status, a condition",
            [("PATCH", f"{pods}/{name}/status", status) for name in names],
            strategic,
        ),
        await timed(
            client,
            "binding",
            [("POST", f"{pods}/{name}/binding", {"metadata": {"name": name}, "target": target}) for name in names],
        ),
        await timed(
            client,
            "patch of status, running",
            [("PATCH", f"{pods}/{name}/status", running) for name in names],
            strategic,
        ),
        await timed(client, f"list by selectors, one of {count:,} pods", [("GET", one_of, None)] * 20),
    ]


async def large_list(client: Client, nodes: int) -> dict[str, Any]:
    await client.post_all("/api/v1/nodes", [node(f"node-{i}") for i in range(nodes)])
    took: list[float] = []
    size = 0
    watch = Stopwatch(client.pid)
    for _ in range(10):
        started_at = time.perf_counter()
        size = len(await client.get("/api/v1/nodes"))
        took.append(time.perf_counter() - started_at)
    return {
        "what": f"list of {nodes:,} nodes ({size / 1e6:.1f} MB)",
        "rate": f"{1 / statistics.median(took):.1f}/s",
        "cpu": watch.cpu(10),
        "p50": f"{statistics.median(took) * 1e3:.1f} ms",
        "p99": f"{max(took) * 1e3:.1f} ms (max of 10)",
    }


async def fan_out(client: Client, watchers: int, events: int) -> dict[str, Any]:
    """From the moment a create is sent to the moment each watcher has the event."""
    sent_at: dict[str, float] = {}
    latencies: list[float] = []
    ready = asyncio.Event()
    waiting = watchers
    path = "/api/v1/namespaces/default/secrets"
    newest = json.loads(await client.get(f"{path}?limit=1"))["metadata"]["resourceVersion"]

    async def watch() -> None:
        nonlocal waiting
        async with client.stream(f"{path}?watch=true&resourceVersion={newest}") as answer:
            waiting -= 1
            if not waiting:
                ready.set()
            seen = 0
            async for line in answer.content:
                name = json.loads(line)["object"]["metadata"]["name"]
                latencies.append(time.perf_counter() - sent_at[name])
                seen += 1
                if seen == events:
                    return

    tasks = [asyncio.create_task(watch()) for _ in range(watchers)]
    await ready.wait()
    stopwatch = Stopwatch(client.pid)
    for i in range(events):
        name = f"s{i}"
        sent_at[name] = time.perf_counter()
        async with client.post(path, {"metadata": {"name": name}}) as answer:
            await answer.read()
    await asyncio.gather(*tasks)
    return {
        "what": f"create to event, {watchers} watchers",
        "rate": f"{watchers * events:,} events",
        "cpu": stopwatch.cpu(watchers * events),
        "p50": f"{statistics.median(latencies) * 1e3:.1f} ms",
        "p99": f"{statistics.quantiles(latencies, n=100)[98] * 1e3:.1f} ms",
    }


async def measure(
    url: str, token: str, ca: Path, options: argparse.Namespace, pid: int | None = None
) -> list[dict[str, Any]]:
    client = Client(url, token, ca, options.connections, pid)
    try:
        return [
            await creates(client, "configmaps", options.creates),
            await creates(client, "pods", options.creates),
            *await about_pods(client, options.creates // 2),
            await large_list(client, options.nodes),
            await fan_out(client, options.watchers, options.events),
        ]
    finally:
        await client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--creates", type=int, default=4000)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--watchers", type=int, default=100)
    parser.add_argument("--events", type=int, default=50)
    parser.add_argument("--server", help="URL of a running server; needs --token and --ca")
    parser.add_argument("--token")
    parser.add_argument("--ca", type=Path)
    options = parser.parse_args()
    if options.server:
        rows = asyncio.run(measure(options.server, options.token, options.ca, options))
    else:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "tonnage", "apiserver", "--data-dir", folder, "--secure-port", "0"]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
                assert server.stdout is not None
                url = server.stdout.readline().split()[1]
                try:
                    token = (Path(folder) / "token").read_text().strip()
                    rows = asyncio.run(measure(url, token, Path(folder) / "pki" / "ca.crt", options, server.pid))
                finally:
                    server.terminate()
    for row in rows:
        print(f"{row['what']:<48} {row['rate']:>13}  CPU {row['cpu']:>9}   p50 {row['p50']:>9}   p99 {row['p99']}")


if __name__ == "__main__":
    main()
