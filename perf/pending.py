"""What waits, told whole: the CPU of `explain --pending` for pods that fit nowhere, without a server.

    python perf/pending.py [--nodes 5000] [--pods 2000] [--kinds 1 50 2000]

Each pod has a claim that no node has room for and belongs to no workload; of so many kinds, each of another size. All
of it counts: a scheduler over the cluster, the decisions and explanations, the changes that are tried, the summary.
"""

from __future__ import annotations

import argparse
import time

from budgets import figure

from tonnage.clock import VirtualClock
from tonnage.objects.meta import Object
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class
from tonnage.whatif.explain import DecisionSequence
from tonnage.whatif.pending.pending import PendingQuestion, summary
from tonnage.whatif.sources import ClusterState


def waiting(nodes: int, pods: int, kinds: int) -> ClusterState:
    """50 to 99Gi free on each node, and pods that ask for 200Gi and more."""
    objects: list[Object] = [driver(), storage_class()]
    for number in range(nodes):
        name = f"n{number:04}"
        objects += [node(name), capacity(node=name, free=f"{50 + number % 50}Gi")]
    objects += [claim(f"c{number}", f"{200 + number % kinds}Gi") for number in range(pods)]
    made = [pod_with(f"p{number:04}", f"c{number}") for number in range(pods)]
    return ClusterState((*objects, *made), "perf", VirtualClock())


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--nodes", type=int, default=5000)
    options.add_argument("--pods", type=int, default=2000)
    options.add_argument("--kinds", type=int, nargs="+", default=[1, 50, 2000])
    given = options.parse_args()
    print(f"{'kinds':>6} {'decided':>8} {'tried':>8} {'whole':>8}   (CPU seconds)")
    whole: dict[int, float] = {}
    for kinds in given.kinds:
        state = waiting(given.nodes, given.pods, kinds)
        began = time.process_time()
        question = PendingQuestion(state, DecisionSequence(state, default_configuration(), is_default=True))
        question.decide()
        decided = time.process_time()
        question.try_changes()
        tried = time.process_time()
        summary(question.answer())
        whole[kinds] = time.process_time() - began
        print(f"{kinds:6,} {decided - began:8.1f} {tried - decided:8.1f} {whole[kinds]:8.1f}", flush=True)
    few = [kinds for kinds in whole if kinds <= given.pods // 10]
    if few:
        figure(
            "pending-few-kinds", max(whole[kinds] for kinds in few), f"the worst of {', '.join(map(str, few))} kinds"
        )
    if given.pods in whole:
        figure("pending-unlike", whole[given.pods])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
