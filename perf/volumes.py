"""What a decision about volumes costs: the default profile, one capacity object a node, on clusters of several sizes.

    python perf/volumes.py                              5,000 and 50,000 nodes, modes Object and Ledger
    python perf/volumes.py --nodes 500 1000 10000 --pods 400 --reservation Ledger --claims 1 3 --pools 1 4 --zones 3

Pods have one or three claims of a class that is provisioned where the pod goes; nodes have one or four pools. "Equal"
pods ask for the same as one another, each with claims of its own, "unlike" ones each for something else, of CPU and of
storage. A decision is all from looking the claims up to the reservation: decide, reserve, put the pod on its node.
After each the driver refreshes the object that was used, as it would after making a volume; what that event costs is
the last column. With `--zones`, one object serves all nodes of a zone and an event reaches a third of them. Pods
without claims are there to compare. All of a size are placed on one cluster, one kind after the other.

Times are CPU time, the median over batches, so that other programs on the machine matter little. Compare within one
run. Budgets (budgets.py) are for one claim and one pool; cost is at most linear in nodes and in objects.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import msgspec
from budgets import figure

from tonnage.clock import VirtualClock
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.engine.engine import Engine
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, csi_node, driver, pod_with, storage_class

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.configurations import storage_configuration

BATCHES = 20
CLASS, DRIVER = "fast", "csi.example"


def fill(cluster: Cluster, nodes: int, pools: int, zones: int) -> None:
    """Nodes with as much storage each, in pools of different sizes, and far more of everything than the pods need."""
    cluster.storage.put(storage_class(CLASS))
    cluster.storage.put(driver(DRIVER))
    for number in range(nodes):
        name = f"node-{number}"
        zone = f"z{number % (zones or 3)}"
        labels = {"topology.kubernetes.io/zone": zone, "disk": "ssd" if number % 2 else "hdd"}
        cluster.put_node(node(name, cpu="64", memory="256Gi", labels=labels))
        cluster.storage.put(csi_node(name, {DRIVER: 100}))
        if not zones:
            sizes = [f"{4000 + 7 * ((number + pool) % 100)}Gi" for pool in range(pools)]
            cluster.storage.put(capacity(CLASS, name, free=f"{4000 * pools}Gi", pools=sizes))
    for number in range(zones):
        topology = {"matchLabels": {"topology.kubernetes.io/zone": f"z{number}"}}
        sizes = [f"{400_000 + pool}Gi" for pool in range(pools)]
        cluster.storage.put(
            capacity(CLASS, name=f"zone-{number}", topology=topology, free=f"{400_000 * pools}Gi", pools=sizes)
        )


def pods_of(kind: str, claims: int, cluster: Cluster) -> Iterator[PodInfo]:
    """As many as are wanted, each with its own new claims, which the cluster knows of."""
    number = 0
    while True:
        is_unlike = kind == "unlike"
        names = [f"{kind}-{claims}-{number}-{i}" for i in range(claims)]
        for i, name in enumerate(names):
            size = 10 * (i + 1) + (number % 97 if is_unlike else 0)
            cluster.storage.put(claim(name, f"{size}Gi", class_name=CLASS))
        cpu = f"{100 + number}m" if is_unlike else "100m"
        name = f"{kind}-{claims}-{number}"
        yield PodInfo(pod_with(name, *names, cpu=cpu, memory="64Mi", node_selector={"disk": "ssd"}))
        number += 1


def refreshed(cluster: Cluster, key: str, version: int) -> CSIStorageCapacity:
    """The same figures in a new version: the driver has looked, and made what was promised out of room to spare."""
    before = cluster.storage.capacities[key]
    metadata = msgspec.structs.replace(before.metadata, resource_version=str(version))
    return msgspec.structs.replace(before, metadata=metadata)


class Bench:
    """One cluster with an engine, on which pods of several kinds are placed one after the other."""

    def __init__(self, nodes: int, pools: int, reservation: str, zones: int) -> None:
        profiles = parse(storage_configuration(reservation=reservation), source="perf").profiles
        self.engine = Engine(profiles, clock=VirtualClock(), rng=random.Random(1))
        self.zones = zones
        self.version = 1_000_000
        fill(self.engine.cluster, nodes, pools, zones)
        self.engine.open()

    def measured(self, kind: str, claims: int, count: int) -> tuple[float, float]:
        """(µs a decision, µs a refresh) of so many pods."""
        made = pods_of(kind, claims, self.engine.cluster)
        pods = [next(made) for _ in range(count)]
        self._place(next(made))
        gc.collect()
        gc.freeze()  # as `tonnage scheduler` does once it knows the cluster
        gc.set_threshold(20_000, 20, 20)
        size = max(1, count // BATCHES)
        batches = [self._batch(pods[start : start + size], claims) for start in range(0, count, size)]
        gc.unfreeze()
        return statistics.median([each[0] for each in batches]), statistics.median([each[1] for each in batches])

    def _batch(self, pods: list[PodInfo], claims: int) -> tuple[float, float]:
        cluster = self.engine.cluster
        decided_s = refreshed_s = 0.0
        for pod in pods:
            began_at = time.process_time()
            node_name = self._place(pod)
            decided_at = time.process_time()
            self.version += 1
            news = refreshed(cluster, self._object_at(node_name), self.version)
            told_at = time.process_time()
            if claims:
                cluster.storage.put(news)
            refreshed_s += time.process_time() - told_at
            decided_s += decided_at - began_at
        return decided_s / len(pods) * 1e6, refreshed_s / len(pods) * 1e6

    def _object_at(self, node_name: str) -> str:
        number = int(node_name.removeprefix("node-"))
        return f"kube-system/zone-{number % self.zones}" if self.zones else f"kube-system/{CLASS}-{node_name}"

    def _place(self, pod: PodInfo) -> str:
        attempt = self.engine.place(pod)
        if attempt.placement is None:
            told = attempt.decision.diagnosis.message() if attempt.decision and attempt.decision.diagnosis else ""
            raise SystemExit(f"no room for {pod.key}: {told or attempt.status.message}")
        return attempt.placement.node


def tell(nodes: int, reservation: str, equal_us: float, unlike_us: float) -> None:
    """The budgets that are kept by this: of pods with one claim, on nodes with one pool each."""
    if nodes in (5_000, 50_000) and reservation in ("Object", "Ledger"):
        figure(f"decision-equal-{nodes}-{reservation.lower()}", equal_us)
        if reservation == "Ledger":  # the default
            figure(f"decision-unlike-{nodes}", unlike_us / 1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[5000, 50000])
    parser.add_argument("--claims", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--pools", type=int, nargs="+", default=[1])
    parser.add_argument("--pods", type=int, default=400)
    modes = ["Object", "Ledger", "None"]
    parser.add_argument("--reservation", choices=modes, nargs="+", default=modes[:2])
    parser.add_argument("--zones", type=int, default=0, help="one capacity object a zone, not one a node")
    options = parser.parse_args()
    heading = f"{'nodes':>6} {'mode':>6} {'pools':>5} {'claims':>6}"
    print(f"{heading}  {'equal':>9} {'unlike':>9}  {'refresh':>8}   (µs; decisions/s)")
    for nodes, reservation, pools in product(options.nodes, options.reservation, options.pools):
        bench = Bench(nodes, pools, reservation, options.zones)
        for claims in (*options.claims, 0):
            equal_us, refresh_us = bench.measured("equal", claims, options.pods)
            unlike_us, _ = bench.measured("unlike", claims, options.pods)
            rates = f"{1e6 / equal_us:,.0f}/s equal, {1e6 / unlike_us:,.0f}/s unlike"
            refresh = f"{refresh_us:>8.1f}" if claims else " " * 8
            shape = f"{nodes:>6,} {reservation:>6} {pools:>5} {claims:>6}"
            print(f"{shape}  {equal_us:>9.0f} {unlike_us:>9.0f}  {refresh}   {rates}", flush=True)
            if (claims, pools, options.zones) == (1, 1, 0):
                tell(nodes, reservation, equal_us, unlike_us)
        del bench
        gc.collect()


if __name__ == "__main__":
    main()
