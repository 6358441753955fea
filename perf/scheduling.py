"""What one decision costs, without a server: the default profile on clusters of several sizes.

    python perf/scheduling.py --nodes 1000 5000 10000 --pods 1000

"Equal" pods are alike in everything a plugin reads, "unlike" ones differ in what they ask for. Every decision is
followed by putting the pod on its node, as the scheduler does. Also what an event costs: it should not depend on size.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable

from tonnage.scheduling.assembly import assemble
from tonnage.scheduling.cluster import Cluster
from tonnage.scheduling.configuration import default_configuration
from tonnage.scheduling.pod_info import PodInfo
from tonnage.testing.builders import info, node


def cluster_of(nodes: int) -> Cluster:
    cluster = Cluster()
    for i in range(nodes):
        labels = {"topology.kubernetes.io/zone": f"z{i % 3}", "disk": "ssd" if i % 2 else "hdd"}
        cluster.put_node(node(f"node-{i}", cpu="64", memory="256Gi", labels=labels))
    return cluster


def per_decision_us(nodes: int, pods: int, cpu_of: Callable[[int], int]) -> float:
    decider = assemble(default_configuration().profiles[0], random.Random(1)).decider
    cluster = cluster_of(nodes)
    wanted = [info(f"p{i}", cpu=f"{cpu_of(i)}m", memory="64Mi", node_selector={"disk": "ssd"}) for i in range(pods)]
    decider.decide(cluster, info("first", cpu="1m"))
    started_at = time.perf_counter()
    for pod in wanted:
        cluster.put_pod(pod, decider.decide(cluster, pod).node)
    return (time.perf_counter() - started_at) / pods * 1e6


def per_event_us(nodes: int, events: int) -> tuple[float, float]:
    """A node's label changing, and a pod coming and going."""
    cluster = cluster_of(nodes)
    changed = [node(f"node-{i % nodes}", cpu="64", memory="256Gi", labels={"disk": f"d{i}"}) for i in range(events)]
    started_at = time.perf_counter()
    for each in changed:
        cluster.put_node(each)
    node_us = (time.perf_counter() - started_at) / events * 1e6
    pods: list[PodInfo] = [info(f"p{i}", cpu="100m") for i in range(events)]
    started_at = time.perf_counter()
    for i, pod in enumerate(pods):
        cluster.put_pod(pod, f"node-{i % nodes}")
    for pod in pods:
        cluster.remove_pod(pod.uid)
    return node_us, (time.perf_counter() - started_at) / events / 2 * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 5000, 10000])
    parser.add_argument("--pods", type=int, default=1000)
    options = parser.parse_args()
    for nodes in options.nodes:
        unlike_us = per_decision_us(nodes, options.pods, lambda i: 100 + i)
        equal_us = per_decision_us(nodes, options.pods, lambda i: 100)
        node_us, pod_us = per_event_us(nodes, options.pods)
        print(
            f"{nodes:>6,} nodes: unlike pods {unlike_us:6.0f} µs ({1e6 / unlike_us:6,.0f}/s), "
            f"equal pods {equal_us:5.0f} µs ({1e6 / equal_us:6,.0f}/s); "
            f"events: node {node_us:.0f} µs, pod {pod_us:.0f} µs"
        )


if __name__ == "__main__":
    main()
