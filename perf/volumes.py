"""What a decision about volumes costs: the default profile, one capacity object a node, on clusters of several sizes.

    python perf/volumes.py --nodes 500 1000 5000 10000 --pods 400 [--reservation Object|Ledger|None] [--zones 3]

Pods have one or three claims of a class that is provisioned where the pod goes; nodes have one or four pools. "Equal"
pods ask for the same as one another, "unlike" ones each for something else, of CPU and of storage. A decision is all
from looking the claims up to the reservation: decide, reserve, put the pod on its node. After each the driver refreshes
the object that was used, as it would after making a volume; what that event costs is the last column. With `--zones`,
one object serves all nodes of a zone and an event reaches a third of them. Pods without claims are there to compare.

Times are CPU time, the median over batches, so that other programs on the machine matter little. Compare within one
run. Budgets (DESIGN section 8): at 5,000 nodes and one claim 100 µs for equal and 1,000 µs for unlike pods; cost at
most linear in nodes and in objects.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time
from collections.abc import Iterator

import msgspec

from tonnage.clock import VirtualClock
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.engine.engine import Engine
from tonnage.testing.builders import node
from tonnage.testing.configurations import storage_configuration
from tonnage.testing.storage_builders import capacity, claim, csi_node, driver, pod_with, storage_class

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
        names = [f"{kind}-{number}-{i}" for i in range(claims)]
        for i, name in enumerate(names):
            size = 10 * (i + 1) + (number % 97 if is_unlike else 0)
            cluster.storage.put(claim(name, f"{size}Gi", class_name=CLASS))
        cpu = f"{100 + number}m" if is_unlike else "100m"
        yield PodInfo(pod_with(f"{kind}-{number}", *names, cpu=cpu, memory="64Mi", node_selector={"disk": "ssd"}))
        number += 1


def refreshed(cluster: Cluster, key: str, version: int) -> CSIStorageCapacity:
    """The same figures in a new version: the driver has looked, and made what was promised out of room to spare."""
    before = cluster.storage.capacities[key]
    metadata = msgspec.structs.replace(before.metadata, resource_version=str(version))
    return msgspec.structs.replace(before, metadata=metadata)


def measured(nodes: int, claims: int, pools: int, kind: str, options: argparse.Namespace) -> tuple[float, float]:
    """(µs a decision, µs a refresh)."""
    profiles = parse(storage_configuration(reservation=options.reservation), source="perf").profiles
    engine = Engine(profiles, clock=VirtualClock(), rng=random.Random(1))
    cluster = engine.cluster
    fill(cluster, nodes, pools, options.zones)
    engine.open()
    made = pods_of(kind, claims, cluster)
    version = 1_000_000

    def place(pod: PodInfo) -> str:
        attempt = engine.place(pod)
        if attempt.placement is None:
            told = attempt.decision.diagnosis.message() if attempt.decision and attempt.decision.diagnosis else ""
            raise SystemExit(f"no room for {pod.key}: {told or attempt.status.message}")
        return attempt.placement.node

    pods = [next(made) for _ in range(options.pods)]
    place(next(made))
    gc.collect()
    gc.freeze()  # as `tonnage scheduler` does once it knows the cluster
    gc.set_threshold(20_000, 20, 20)
    size = max(1, options.pods // BATCHES)
    decisions, refreshes = [], []
    for start in range(0, len(pods), size):
        batch = pods[start : start + size]
        decided_s = refreshed_s = 0.0
        for pod in batch:
            began_at = time.process_time()
            node_name = place(pod)
            decided_at = time.process_time()
            number = int(node_name.removeprefix("node-"))
            key = f"kube-system/zone-{number % options.zones}" if options.zones else f"kube-system/{CLASS}-{node_name}"
            version += 1
            news = refreshed(cluster, key, version)
            told_at = time.process_time()
            if claims:
                cluster.storage.put(news)
            refreshed_s += time.process_time() - told_at
            decided_s += decided_at - began_at
        decisions.append(decided_s / len(batch) * 1e6)
        refreshes.append(refreshed_s / len(batch) * 1e6)
    return statistics.median(decisions), statistics.median(refreshes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[500, 1000, 5000, 10000])
    parser.add_argument("--claims", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--pools", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--pods", type=int, default=400)
    parser.add_argument("--reservation", choices=["Object", "Ledger", "None"], default="Object")
    parser.add_argument("--zones", type=int, default=0, help="one capacity object a zone, not one a node")
    options = parser.parse_args()
    print(f"{'nodes':>6} {'claims':>6} {'pools':>5}  {'equal':>9} {'unlike':>9}  {'refresh':>8}   (µs; decisions/s)")
    for nodes in options.nodes:
        plain = [measured(nodes, 0, 1, kind, options)[0] for kind in ("equal", "unlike")]
        print(f"{nodes:>6,} {'none':>6} {'':>5}  {plain[0]:>9.0f} {plain[1]:>9.0f}")
        for claims in options.claims:
            for pools in options.pools:
                equal_us, refresh_us = measured(nodes, claims, pools, "equal", options)
                unlike_us, _ = measured(nodes, claims, pools, "unlike", options)
                rates = f"{1e6 / equal_us:,.0f}/s equal, {1e6 / unlike_us:,.0f}/s unlike"
                times = f"{equal_us:>9.0f} {unlike_us:>9.0f}  {refresh_us:>8.1f}"
                print(f"{nodes:>6,} {claims:>6} {pools:>5}  {times}   {rates}")


if __name__ == "__main__":
    main()
