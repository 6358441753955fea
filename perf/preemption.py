"""What a preempting decision costs, without a server: the default profile on clusters that are full.

    python perf/preemption.py --nodes 1000 5000 10000

Every node is full: 10 to 30 pods of four priorities, one in ten with a PodDisruptionBudget where budgets are asked for.
A pod of higher priority comes, fits nowhere, and a node and its victims are found for it. Then the victims are gone
and the pod is on its node, which is not counted in; in "burst" they stay, and the pod is nominated, so that the next
one has to leave room for it.

    equal      pods alike, one after the other            unlike    pods that ask for different amounts
    budgets    as unlike, with 500 PodDisruptionBudgets   claims    as unlike, with a claim that is yet to be bound
    burst      as equal, 100 pods nominated already       ports     a host port taken everywhere
    in vain    pods of a priority that nobody is below

"decide" is the search that fails, "preempt" what is made of it, both the median; "first" is the first preemption of
all, which puts every node's pods in order. Times are CPU time. Budget: 50 ms for each of them at 5,000 nodes.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from budgets import figure

from tonnage.objects.codec import convert
from tonnage.objects.small_groups import PodDisruptionBudget
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.scheduling.engine.profiles import add_indexes, assemble
from tonnage.scheduling.preemption.ranked_residents import DisruptionBudgets
from tonnage.testing.builders import info, node
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class

KINDS = ("equal", "unlike", "budgets", "claims", "burst", "in vain", "ports")
FIRST_KINDS = ("equal", "unlike", "budgets", "claims", "ports")
"""Those whose first preemption is held to the budget; "burst" is as "equal"."""
BUDGETS = 500
NOMINATED = 100
CPU_OF_NODE_M = 64_000


def full_cluster(nodes: int, kind: str) -> Cluster:
    rng = random.Random(1)
    cluster = add_indexes(Cluster(), (DisruptionBudgets,))
    started = 0
    for number in range(nodes):
        name = f"node-{number}"
        cluster.put_node(node(name, cpu=f"{CPU_OF_NODE_M}m", memory="256Gi"))
        count = rng.randint(10, 30)
        for i in range(count):
            started += 1
            at = f"2026-01-{1 + started % 28:02}T{started // 28 % 24:02}:{started % 60:02}:00Z"
            resident = info(
                f"old-{number}-{i}",
                cpu=f"{CPU_OF_NODE_M // count}m",
                memory="1Gi",
                priority=rng.choice((0, 0, 10, 100)),
                labels={"app": f"app-{rng.randrange(10 * BUDGETS)}"},
                host_ports=[8080] if kind == "ports" and i == 0 else [],
                status={"phase": "Running", "startTime": at},
            )
            cluster.put_pod(resident, name)
        if kind == "claims":
            cluster.storage.put(capacity("fast", name, "100Gi"))
    if kind == "budgets":
        for number in range(BUDGETS):
            cluster.index(DisruptionBudgets).put(budget(number, allowed=number % 3))
    if kind == "claims":
        cluster.storage.put(storage_class("fast"))
        cluster.storage.put(driver())
    return add_indexes(cluster)


def budget(number: int, *, allowed: int) -> PodDisruptionBudget:
    doc = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"budget-{number}", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": f"app-{number}"}}},
        "status": {"disruptionsAllowed": allowed},
    }
    return convert(PodDisruptionBudget, doc)


def pods_of(kind: str, cluster: Cluster) -> Iterator[PodInfo]:
    number = 0
    while True:
        is_alike = kind in ("equal", "burst", "ports")
        options: dict[str, Any] = {
            "cpu": "8" if is_alike else f"{8000 + 10 * number}m",
            "memory": "1Gi",
            "priority": -1 if kind == "in vain" else 1000,
        }
        name = f"new-{kind}-{number}"
        if kind == "claims":
            cluster.storage.put(claim(f"data-{number}", "10Gi"))
            yield PodInfo(pod_with(name, f"data-{number}", **options))
        else:
            yield info(name, host_ports=[8080] if kind == "ports" else [], **options)
        number += 1


@dataclass(frozen=True, slots=True)
class Figures:
    first_ms: float
    decide_ms: float
    preempt_ms: float


def figures_of(nodes: int, kind: str, pods: int) -> Figures:
    assembled = assemble(default_configuration().profiles[0], random.Random(1))
    (preemption,) = assembled.post_filter
    cluster = full_cluster(nodes, kind)
    made = pods_of(kind, cluster)
    nominated: list[tuple[str, PodInfo]] = []
    decided, preempted = [], []
    for number in range(pods + (NOMINATED if kind == "burst" else 0)):
        pod = next(made)
        began_at = time.process_time()
        decision = assembled.decider.decide(cluster, pod, nominated)
        decided_at = time.process_time()
        assert decision.diagnosis is not None, "the cluster is full"
        result = preemption.post_filter(decision.cycle, decision.diagnosis)
        ended_at = time.process_time()
        if number < 1 or kind != "burst" or number >= NOMINATED:
            decided.append(1e3 * (decided_at - began_at))
            preempted.append(1e3 * (ended_at - decided_at))
        assert result.status.is_success is (kind != "in vain"), result.status.message
        if kind == "burst":
            nominated.append((result.nominated_node, pod))
        elif result.status.is_success:
            for victim in result.victims:
                cluster.remove_pod(victim.uid)
            cluster.put_pod(pod, result.nominated_node)
    return Figures(preempted[0], statistics.median(decided[1:]), statistics.median(preempted[1:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 5000, 10000])
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--pods", type=int, default=20)
    options = parser.parse_args()
    firsts: dict[str, float] = {}
    for nodes in options.nodes:
        print(f"{nodes:,} nodes              first      decide     preempt")
        for kind in options.kinds:
            found = figures_of(nodes, kind, 4 if kind == "ports" else options.pods)
            if nodes == 5000 and kind in FIRST_KINDS:
                firsts[kind] = found.first_ms
            print(
                f"  {kind:<14}{found.first_ms:9.1f} ms{found.decide_ms:9.2f} ms{found.preempt_ms:9.2f} ms", flush=True
            )
    if firsts:
        worst = max(firsts, key=lambda kind: firsts[kind])
        figure("preemption-first", firsts[worst], f"worst: {worst}")
    if "ports" in firsts:
        figure("preemption-ports", firsts["ports"])


if __name__ == "__main__":
    main()
