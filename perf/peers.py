"""`tonnage scheduler` and kube-scheduler on the same kube-apiserver, with the same pods, one after the other.

    KUBEBUILDER_ASSETS=FOLDER python perf/peers.py        with etcd, kube-apiserver and kube-scheduler there
    python perf/peers.py --only claims-1000 --ours        one case; without kube-scheduler

Every node has a CSINode and a capacity object, and pods have a claim, none, or three claims of two classes, for which
every node has a second object. Both programs read the same configuration file, in which the limits of their clients are
too high to be felt. A decision is what watches see: where the pod has claims, its nomination and then the node written
to each (selected-node), else the binding (`decision_watch`). Rates are from the first to the last of them;
kube-scheduler, which takes seconds for a pod with a claim, is watched for some seconds and not to the end. No
provisioner answers, so that none is measured. Claims whose node is older than their pod's nomination are counted, by
resourceVersion: there may be none. What each process uses of its cores for a decision is told beside it: the sum is
what two cores can do at most. The time from the start of the program to its first decision is told as well.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apiserver import node
from budgets import figure, not_measured
from decision_watch import DecisionWatch, claims_of
from live_client import CLAIMS, PODS, Client
from scheduler_live import CONFIGURATION, peak_mb
from volumes_live import CAPACITIES, CLASS, DRIVER, SCHEDULER, cpu_seconds
from volumes_live import pod as pod_with_claim

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.api_servers import kube_apiserver

STORAGE = "/apis/storage.k8s.io/v1"
SECOND_CLASS = "perf-second"
KEYS = (
    *("live-claims-1000-ratio", "live-claims-5000", "live-three-claims-5000", "live-plain-5000-ratio"),
    *("first-decision-5000", "live-early-claims"),
)
_START_S = 60.0
"""How long a scheduler may take to its first decision."""


@dataclass(frozen=True, slots=True)
class Case:
    """So many nodes and pods, with so many claims each; kube-scheduler is followed for so long, or not at all (0)."""

    name: str
    nodes: int
    pods: int
    claims: int
    kube_s: float


CASES = (
    Case("claims-1000", 1000, 1500, 1, 12.0),
    Case("claims-5000", 5000, 3000, 1, 10.0),
    Case("plain-5000", 5000, 4000, 0, 15.0),
    Case("three-claims-5000", 5000, 1500, 3, 0.0),
)


@dataclass(frozen=True, slots=True)
class Run:
    """What a scheduler did: decisions a second, CPU time for each in µs by process, its largest resident size, claims
    that it wrote before their pod's nomination, and seconds from its start to the first decision.
    """

    rate: float
    cpu_us: dict[str, float]
    memory_mb: int
    early: int
    first_s: float


def nodes_to_make(first: int, end: int) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Collections, and what is made in them for the nodes of these numbers."""
    names = [f"perf-{number}" for number in range(first, end)]
    yield "/api/v1/nodes", [node(name) for name in names]
    host = "kubernetes.io/hostname"
    driver = {"name": DRIVER, "topologyKeys": [host]}
    yield (
        f"{STORAGE}/csinodes",
        [{"metadata": {"name": name}, "spec": {"drivers": [{**driver, "nodeID": name}]}} for name in names],
    )
    yield CAPACITIES, capacities(names, CLASS)


def capacities(names: Sequence[str], storage_class: str) -> list[dict[str, Any]]:
    room = {"storageClassName": storage_class, "capacity": "1000Gi"}
    return [
        {
            "metadata": {"name": f"{name}.{storage_class}"},
            "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": name}},
            **room,
        }
        for name in names
    ]


def pods_to_make(case: Case) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    names = [f"perf-{number}" for number in range(case.pods)]
    pods = [pod_with_claim(name, 100) for name in names]
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}
    claims = []
    for pod in pods:
        own = claims_of(pod["metadata"]["name"], case.claims)
        pod["spec"]["volumes"] = [
            {"name": f"v{i}", "persistentVolumeClaim": {"claimName": c}} for i, c in enumerate(own)
        ]
        for place, name in enumerate(own):
            spec = {**asked, "storageClassName": SECOND_CLASS if place == 2 else CLASS}
            claims.append({"metadata": {"name": name}, "spec": spec})
    yield CLAIMS, claims
    yield PODS, pods


@contextlib.asynccontextmanager
async def pods_of(client: Client, case: Case) -> AsyncIterator[None]:
    """The case's pods, unplaced; afterwards they are gone."""
    for path, bodies in pods_to_make(case):
        await client.post_all(path, bodies)
    try:
        yield
    finally:
        await client.delete_collection(PODS)
        await client.delete_collection(CLAIMS)


async def measured(client: Client, case: Case, command: Sequence[str], most_s: float) -> Run:
    """Start a scheduler and follow it, to the last pod or for so long after its first decision."""
    watch = DecisionWatch(client, await client.version(PODS), claims=case.claims)
    started_at = time.perf_counter()
    scheduler = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    seen: set[str] = set()
    first_at = last_at = 0.0
    cpu_s: dict[str, float] = {}
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_START_S) as limit:
                async for name in watch.names():
                    last_at = time.perf_counter()
                    if not seen:
                        first_at, cpu_s = last_at, cpu_of_processes()
                        limit.reschedule(asyncio.get_running_loop().time() + most_s)
                    seen.add(name)
                    if len(seen) == case.pods:
                        break
        if len(seen) < 2:
            raise SystemExit(f"error: {command[0]} decided {len(seen)} pods of {case.name} in {most_s:g} s")
        steps = len(seen) - 1
        cpu_us = {name: (used_s - cpu_s.get(name, 0.0)) / steps * 1e6 for name, used_s in cpu_of_processes().items()}
        return Run(
            *(steps / (last_at - first_at), cpu_us, peak_mb(scheduler.pid), len(watch.early)), first_at - started_at
        )
    finally:
        with contextlib.suppress(ProcessLookupError):
            scheduler.terminate()
        await scheduler.wait()


def cpu_of_processes() -> dict[str, float]:
    """Seconds of a core that this program and those it started have used, by what they are."""
    used = {"this client": cpu_seconds(os.getpid())}
    for task in Path("/proc/self/task").iterdir():
        for pid in map(int, (task / "children").read_text().split()):
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            used[name if name in ("etcd", "kube-apiserver") else "scheduler"] = cpu_seconds(pid)
    return used


class Peers:
    """The two programs, on one server and with one configuration."""

    def __init__(self, client: Client, folder: Path, kubeconfig: Path, kube_scheduler: Path | None) -> None:
        self._client = client
        self._made_nodes = 0
        config = folder / "scheduler.json"
        limits = {**CONFIGURATION["clientConnection"], "kubeconfig": str(kubeconfig)}
        profiles = [{"schedulerName": SCHEDULER}]
        config.write_text(json.dumps({**CONFIGURATION, "clientConnection": limits, "profiles": profiles}))
        flags = ["--config", str(config), "--secure-port", "0"]
        self._ours = [sys.executable, "-m", "tonnage", "scheduler", *flags]
        self._kube = [str(kube_scheduler), *flags] if kube_scheduler is not None else []

    async def compared(self, case: Case) -> tuple[Run, Run | None]:
        """Ours, and kube-scheduler's if it is there."""
        await self._grow_to(case.nodes)
        if case.claims > 1:
            names = [f"perf-{number}" for number in range(case.nodes)]
            await self._client.post_all(CAPACITIES, capacities(names, SECOND_CLASS))
        async with pods_of(self._client, case):
            ours = await measured(self._client, case, self._ours, 120.0)
        claims = {0: "without volumes", 1: "with a claim each"}.get(case.claims, f"with {case.claims} claims each")
        told = f"{case.pods:,} pods {claims}"
        print(f"live: {told} on {case.nodes:,} nodes")
        print(f"  tonnage         {_told(ours)}", flush=True)
        if not self._kube or not case.kube_s:
            return ours, None
        async with pods_of(self._client, case):
            kube = await measured(self._client, case, self._kube, case.kube_s)
        print(f"  kube-scheduler  {_told(kube)}\n  ratio           {ours.rate / kube.rate:,.1f} times", flush=True)
        return ours, kube

    async def _grow_to(self, nodes: int) -> None:
        if not self._made_nodes:
            waits = {"provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"}
            for name in (CLASS, SECOND_CLASS):
                await self._client.post(f"{STORAGE}/storageclasses", {"metadata": {"name": name}, **waits})
            driver = {"metadata": {"name": DRIVER}, "spec": {"storageCapacity": True}}
            await self._client.post(f"{STORAGE}/csidrivers", driver)
        for path, bodies in nodes_to_make(self._made_nodes, nodes):
            await self._client.post_all(path, bodies)
        self._made_nodes = nodes


def _told(run: Run) -> str:
    rate = f"{run.rate:8,.0f}" if run.rate >= 100 else f"{run.rate:8.2f}"
    order = f"  claims before their pod's nomination: {run.early:,}"
    first = f"first decision after {run.first_s:.2f} s"
    return (
        f"{rate} decisions/s  peak memory {run.memory_mb} MB  {first}{order}\n    µs of CPU for each: {_cpu_told(run)}"
    )


def _cpu_told(run: Run) -> str:
    return ", ".join(f"{name} {used:,.0f}" for name, used in sorted(run.cpu_us.items(), key=lambda each: -each[1]))


def tell(case: Case, ours: Run, kube: Run | None) -> None:
    """The budget's figure of a case."""
    beside = f"{ours.rate:,.0f}/s" + (f" and {kube.rate:,.1f}/s" if kube is not None else "")
    beside += f"; µs of CPU for each: {_cpu_told(ours)}"
    if case.name == "claims-5000":
        figure("first-decision-5000", ours.first_s, f"{case.pods:,} pods wait")
    if not case.kube_s or case.name == "claims-5000":
        figure(f"live-{case.name}", ours.rate, beside)
    elif kube is not None:
        figure(f"live-{case.name}-ratio", ours.rate / kube.rate, beside)
    else:
        not_measured(f"live-{case.name}-ratio", f"no kube-scheduler in KUBEBUILDER_ASSETS; ours {beside}")


def kubeconfig_of(url: str, token: str, folder: Path) -> Path:
    file = folder / "kubeconfig"
    cluster = {"server": url, "insecure-skip-tls-verify": True}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    file.touch(mode=0o600)
    file.write_text(json.dumps(document))
    return file


async def measure(kubeconfig: Path, folder: Path, kube_scheduler: Path | None, cases: Sequence[Case]) -> None:
    client = Client(kubeconfig)
    try:
        peers = Peers(client, folder, kubeconfig, kube_scheduler)
        early = 0
        for case in cases:
            ours, kube = await peers.compared(case)
            tell(case, ours, kube)
            early += ours.early
        figure("live-early-claims", early, "by resourceVersion")
    finally:
        await client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[case.name for case in CASES], help="may be given again")
    parser.add_argument("--ours", action="store_true", help="without kube-scheduler")
    options = parser.parse_args()
    assets = Path(os.environ.get("KUBEBUILDER_ASSETS") or "/nowhere")
    missing = [name for name in ("etcd", "kube-apiserver") if not (assets / name).exists()]
    if missing:
        why = f"KUBEBUILDER_ASSETS names no folder with {' and '.join(missing)}"
        print(f"not measured: {why}")
        for key in KEYS:
            not_measured(key, why)
        return
    beside = assets / "kube-scheduler"
    kube_scheduler = beside if beside.exists() and not options.ours else None
    cases = [case for case in CASES if not options.only or case.name in options.only]
    # What the server would hold back is not what is measured.
    flags = {"max-requests-inflight": "0", "max-mutating-requests-inflight": "0", "delete-collection-workers": "16"}
    flags["enable-priority-and-fairness"] = "false"
    with tempfile.TemporaryDirectory() as name, kube_apiserver(Path(name), assets, flags=flags) as api:
        kubeconfig = kubeconfig_of(api.url, api.token, Path(name))
        asyncio.run(measure(kubeconfig, Path(name), kube_scheduler, cases))


if __name__ == "__main__":
    main()
