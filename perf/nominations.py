"""What it costs to show where pods go (KEP-5278): pods with delayed-binding claims, with the gate on and off.

    python perf/nominations.py --nodes 100 --pods 300 --rounds 2

Server and scheduler are processes of their own, over TLS; this program is provisioner and binder, and makes a volume as
soon as a claim has its node. Prints pods bound a second, from the scheduler's first write to its last, as watches see
them; how often a pod was written on its way; and, since all share the machine, the processor time that scheduler and
server took for a pod, which others disturb less. Compare within one run. Pods without claims are measured as well, for
which the gate must make no difference.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from apiserver import node

from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod

Doc = dict[str, Any]

GATE = "NominatedNodeNameForExpectation"
CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    # kube-scheduler's default of 50 requests a second would be all that is measured.
    "clientConnection": {"qps": 100000, "burst": 100000},
    "leaderElection": {"leaderElect": False},
}
SELECTED_NODE = "volume.kubernetes.io/selected-node"
CLASS: Doc = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "delayed"},
    "provisioner": "csi.example",
    "volumeBindingMode": "WaitForFirstConsumer",
}


class Run(NamedTuple):
    """Pods bound a second; for each of them, writes to pods and milliseconds of processor time."""

    rate: float
    writes: float
    cpu_ms: float


class Watch:
    """Time, and processor time of some processes, since the first sign of work."""

    def __init__(self) -> None:
        self.pids: list[int] = []
        self._first_at: tuple[float, float] | None = None

    def sign(self) -> None:
        if self._first_at is None:
            self._first_at = self._read()

    def taken(self) -> tuple[float, float]:
        """Seconds by the clock and of the processor."""
        assert self._first_at is not None
        return tuple(now - then for now, then in zip(self._read(), self._first_at, strict=True))  # type: ignore[return-value]  # of two

    def _read(self) -> tuple[float, float]:
        ticks = 0
        for pid in self.pids:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])  # user and system time; see proc(5)
        return time.perf_counter(), ticks / os.sysconf("SC_CLK_TCK")


def claim(name: str) -> Doc:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "delayed",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def pod(name: str, claim_name: str = "") -> Doc:
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    spec: Doc = {"containers": [{"name": "c", "image": "app:1", "resources": resources}]}
    if claim_name:
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}]
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def provision(client: Client, since: str, watch: Watch) -> None:
    """Make the volume of every claim that gets its node, and bind the two, until cancelled."""
    begun: set[str] = set()
    async with client.watch(PersistentVolumeClaim, resource_version=since) as lines, asyncio.TaskGroup() as tasks:
        async for some in lines:
            for line in some:
                found = json.loads(line)["object"]
                name = found["metadata"]["name"]
                if SELECTED_NODE in found["metadata"].get("annotations", {}) and name not in begun:
                    watch.sign()
                    begun.add(name)
                    tasks.create_task(make(client, found))


async def make(client: Client, claim: Doc) -> None:
    name, uid = claim["metadata"]["name"], claim["metadata"]["uid"]
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "delayed",
        "csi": {"driver": "csi.example", "volumeHandle": name},
        "claimRef": {"namespace": "default", "name": name, "uid": uid},
    }
    await client.create_doc({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec})
    done = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": name}}
    await client.patch_doc(PersistentVolumeClaim, f"default/{name}", done)


async def follow(client: Client, since: str, pods: int, watch: Watch) -> Run:
    """Wait until all pods are bound."""
    bound: set[str] = set()
    writes = 0
    async with client.watch(Pod, resource_version=since) as lines:
        async for some in lines:
            for line in some:
                found = json.loads(line)["object"]
                watch.sign()
                writes += 1
                if found["spec"].get("nodeName"):
                    bound.add(found["metadata"]["name"])
                    if len(bound) == pods:
                        took_s, cpu_s = watch.taken()
                        return Run(pods / took_s, writes / pods, 1000 * cpu_s / pods)
    raise SystemExit("the watch ended before all pods were placed")


async def place(folder: Path, options: argparse.Namespace, server: int, *, is_on: bool, with_claims: bool) -> Run:
    """One scheduler on a cluster of its own; `server` is its process."""
    watch = Watch()
    async with Client.connect(kubeconfig.load(folder / "kubeconfig")) as client:
        await client.create_doc(CLASS)
        names = [f"p{i}" for i in range(options.pods)]
        docs = [node(f"node-{i}") for i in range(options.nodes)]
        docs += [claim(name) for name in names] if with_claims else []
        docs += [pod(name, name if with_claims else "") for name in names]
        for start in range(0, len(docs), 32):
            await asyncio.gather(*(client.create_doc(doc) for doc in docs[start : start + 32]))
        since = (await client.list(Pod)).resource_version
        config = folder / "scheduler.json"
        config.write_text(json.dumps(CONFIGURATION))
        command = [sys.executable, "-m", "tonnage", "scheduler", "--config", str(config), "--secure-port", "0"]
        command += ["--kubeconfig", str(folder / "kubeconfig"), "--feature-gates", f"{GATE}={str(is_on).lower()}"]
        provisioning = asyncio.create_task(provision(client, since, watch))
        scheduler = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
        watch.pids = [server, scheduler.pid]
        try:
            return await follow(client, since, options.pods, watch)
        finally:
            provisioning.cancel()
            scheduler.terminate()
            await scheduler.wait()


def measure(options: argparse.Namespace, *, is_on: bool, with_claims: bool) -> Run:
    with tempfile.TemporaryDirectory() as name:
        command = [sys.executable, "-m", "tonnage", "apiserver", "--data-dir", name, "--secure-port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
            assert server.stdout is not None
            server.stdout.readline()
            try:
                return asyncio.run(place(Path(name), options, server.pid, is_on=is_on, with_claims=with_claims))
            finally:
                server.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--pods", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=2, help="rounds of on and off, in turn; the median is told")
    options = parser.parse_args()
    for with_claims in (True, False):
        runs: dict[bool, list[Run]] = {True: [], False: []}
        for round_number in range(2 * options.rounds):
            is_on = round_number % 2 == 0
            runs[is_on].append(measure(options, is_on=is_on, with_claims=with_claims))
        middle = {is_on: Run(*map(statistics.median, zip(*found, strict=True))) for is_on, found in runs.items()}
        kind = "with a delayed-binding claim" if with_claims else "without claims"
        told = " | ".join(
            f"gate {'on' if is_on else 'off'}: {run.rate:,.0f} bound/s, {run.writes:.2f} writes "
            f"and {run.cpu_ms:.2f} ms of processor a pod"
            for is_on, run in middle.items()
        )
        ratio = f"on/off {middle[True].rate / middle[False].rate:.2f} of the rate"
        print(f"nominations: {options.pods:,} pods {kind}: {told} | {ratio}")


if __name__ == "__main__":
    main()
