"""What one decision costs, without a server: the default profile on clusters of several sizes.

    python perf/scheduling.py --nodes 1000 5000 10000 --pods 1000

"Equal" pods are alike in everything a row-local plugin reads, "replicas" are equal pods that a ReplicaSet owns and that
are therefore spread by default, "unlike" ones differ in what they ask for, "picky" ones also in the nodes they want.
A decision starts with a pod that nothing is known of and ends with the pod reserved and assumed on its node: one
attempt of the scheduler's engine. "Nominated" is the decision alone, for equal pods, while so many other pods are
expected on a node each and count there. Also what an event costs: it should not depend on size.

Times are CPU time, the median over batches, so that other programs on the machine matter little. Compare within one
run. Budgets: DESIGN section 8.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from tonnage.clock import VirtualClock
from tonnage.objects.core_v1 import Node
from tonnage.objects.selectors import LabelSelector
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.scheduling.engine.engine import Engine
from tonnage.testing.builders import info, node

T = TypeVar("T")

BATCHES = 20
IMAGES = 40
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}


def pods_of(kind: str) -> Iterator[PodInfo]:
    """As many as are wanted. Nothing has been derived from them yet."""
    number = 0
    while True:
        options: dict[str, Any] = {"cpu": "100m", "node_selector": {"disk": "ssd"}}
        if kind == "replicas":
            options |= {"labels": {"app": "web"}, "metadata": {"ownerReferences": [OWNER]}}
        if kind in ("unlike", "picky"):
            options["cpu"] = f"{100 + number}m"
        if kind == "picky":
            options["node_selector"] = {"rack": f"r{number % 50}"}
        yield info(f"{kind}-{number}", memory="64Mi", image="app-7:1", **options)
        number += 1


def made_node(number: int, generation: int = 0) -> Node:
    labels = {
        "topology.kubernetes.io/zone": f"z{number % 3}",
        "disk": "ssd" if number % 2 else "hdd",
        "rack": f"r{number % 50}",
        "generation": str(generation),
    }
    images = {f"app-{(number + i) % IMAGES}:1": 300_000_000 for i in range(12)}
    return node(f"node-{number}", cpu="64", memory="256Gi", labels=labels, images=images)


def engine_of(nodes: int) -> Engine:
    """The default profile on nodes with a pod each, of all sizes."""
    engine = Engine(default_configuration().profiles, clock=VirtualClock(), rng=random.Random(1))
    cluster = engine.cluster
    for i in range(nodes):
        cluster.put_node(made_node(i))
        cluster.put_pod(info(f"old-{i}", cpu=f"{100 + i * 7 % 4000}m", memory="1Gi"), f"node-{i}")
    cluster.workloads.put("ReplicaSet", "default/web", LabelSelector(match_labels={"app": "web"}))
    engine.open()
    return engine


def median_us(step: Callable[[T], object], things: Sequence[T]) -> float:
    """CPU time of a step: the median of batches, each the mean of its steps."""
    size = max(1, len(things) // BATCHES)
    taken = []
    for start in range(0, len(things), size):
        batch = things[start : start + size]
        began_at = time.process_time()
        for each in batch:
            step(each)
        taken.append((time.process_time() - began_at) / len(batch) * 1e6)
    return statistics.median(taken)


def per_decision_us(nodes: int, pods: int, kind: str) -> float:
    engine, made = engine_of(nodes), pods_of(kind)
    engine.place(next(made))
    return median_us(engine.place, [next(made) for _ in range(pods)])


def beside_nominated_us(nodes: int, pods: int, nominated: int) -> float:
    """Equal pods that leave room on so many nodes for a pod that is expected there."""
    engine, made = engine_of(nodes), pods_of("equal")
    (profile,) = engine.profiles.values()
    decider = profile.decider
    expected = [(f"node-{i}", info(f"expected-{i}", cpu=f"{100 + i % 50}m", memory="64Mi")) for i in range(nominated)]
    decider.decide(engine.cluster, next(made), expected)
    return median_us(
        lambda pod: decider.decide(engine.cluster, pod, expected), [next(made) for _ in range(min(pods, 200))]
    )


def per_event_us(nodes: int, events: int) -> dict[str, float]:
    """A node's heartbeat and a label of it changing; a pod coming, saying something new, and going."""
    cluster = engine_of(nodes).cluster

    def put(pod: PodInfo) -> None:
        cluster.put_pod(pod, f"node-{int(pod.pod.name) % nodes}")

    pods = [info(str(i), cpu="100m") for i in range(events)]
    running = [info(str(i), cpu="100m", status={"phase": "Running"}) for i in range(events)]
    return {
        "heartbeat": median_us(cluster.put_node, [made_node(i % nodes) for i in range(events)]),
        "node changed": median_us(cluster.put_node, [made_node(i % nodes, 1 + i) for i in range(events)]),
        "pod came": median_us(put, pods),
        "pod says it runs": median_us(put, running),
        "pod gone": median_us(cluster.remove_pod, [pod.uid for pod in pods]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 5000, 10000])
    parser.add_argument("--pods", type=int, default=1000)
    options = parser.parse_args()
    for nodes in options.nodes:
        print(f"{nodes:,} nodes")
        for kind in ("equal", "replicas", "unlike", "picky"):
            cost = per_decision_us(nodes, options.pods, kind)
            print(f"  {kind:<18}{cost:7.0f} µs {1e6 / cost:9,.0f} decisions/s", flush=True)
        for nominated in (0, 100, 1000):
            cost = beside_nominated_us(nodes, options.pods, nominated)
            print(f"  {nominated:>5,} nominated   {cost:7.0f} µs {1e6 / cost:9,.0f} decisions/s", flush=True)
        for event, cost in per_event_us(nodes, options.pods).items():
            print(f"  {event:<18}{cost:7.1f} µs")


if __name__ == "__main__":
    main()
