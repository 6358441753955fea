"""What VolumeBinding takes of one decision, where it has the most to think about: its p99 over several hard mixes.

    python perf/volume_binding.py --nodes 5000 --pods 300 [--reservation Object|Ledger]

Every node has an object with its pools of different sizes, nearly used up, so that many refuse and first fit does not
settle it. Nothing is refreshed between the decisions: what is held adds up. A pod has CPU and claims like no other.

    one       one claim, one pool a node            joint     three claims, four pools
    many      six claims, four pools                classes   two claims each of two classes
    free      one claim, 2,000 volumes that exist   guaranteed  as joint, by `poolFit: Guaranteed`
    crowd     8 to 16 claims, four pools, 12 promises on each of 1,000 nodes

VolumeBinding's part is all its extension points from PreFilter to Reserve, and how it breaks ties. CPU time. The budget
(DESIGN section 8) is 10 ms for the worst of them, and 50 ms for `crowd`, which has one of its own.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

from budgets import figure

from tonnage.clock import VirtualClock
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.engine.attempt import EngineHooks
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.plugins.volume_binding import VolumeBinding
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class, volume

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.configurations import storage_configuration

CLASSES = ("fast", "slow")
MIXES = {
    "one": (1, 1),
    "joint": (3, 4),
    "many": (6, 4),
    "classes": (4, 4),
    "free": (1, 4),
    "guaranteed": (3, 4),
    "crowd": (16, 4),
}
"""Claims a pod and pools a node."""
FREE_VOLUMES = 2_000
CROWD_NODES, PROMISES = 1_000, 12


class OwnTime:
    """Adds up what one plugin takes of a decision."""

    def __init__(self, plugin: str) -> None:
        self.plugin = plugin
        self.taken_s = 0.0

    def run(self, point: str, plugin: str, work: Callable[..., Any], *given: Any) -> Any:
        if plugin != self.plugin:
            return work(*given)
        began_at = time.process_time()
        try:
            return work(*given)
        finally:
            self.taken_s += time.process_time() - began_at


def fill(cluster: Cluster, nodes: int, mix: str) -> None:
    rng = random.Random(1)
    _, pools = MIXES[mix]
    cluster.storage.put(driver())
    for name in CLASSES:
        cluster.storage.put(storage_class(name))
    for number in range(nodes):
        name = f"node-{number}"
        cluster.put_node(node(name, cpu="64", memory="256Gi", labels={"kubernetes.io/hostname": name}))
        for class_name in CLASSES:
            least, most = (60, 200) if mix == "crowd" else (20, 90)
            cluster.storage.put(
                capacity(class_name, name, pools=[f"{rng.randint(least, most)}Gi" for _ in range(pools)])
            )
        for i in range(PROMISES if mix == "crowd" else 0):
            old = claim(f"old-{number}-{i}", f"{rng.randint(3, 25)}Gi", class_name=CLASSES[0], selected_node=name)
            cluster.storage.put(old)
    for number in range(FREE_VOLUMES if mix == "free" else 0):
        size = f"{rng.randint(10, 60)}Gi"
        cluster.storage.put(volume(f"free-{number}", size, class_name=CLASSES[0], on=f"node-{rng.randrange(nodes)}"))


def pods_of(mix: str, cluster: Cluster) -> Iterator[PodInfo]:
    rng = random.Random(2)
    most, _ = MIXES[mix]
    number = 0
    while True:
        claims = rng.randint(8, most) if mix == "crowd" else most
        names = [f"{mix}-{number}-{i}" for i in range(claims)]
        for i, name in enumerate(names):
            class_name = CLASSES[i % 2 if mix == "classes" else 0]
            size = rng.randint(5, 25) if mix in ("many", "crowd") else rng.randint(10, 60)
            cluster.storage.put(claim(name, f"{size}Gi", class_name=class_name))
        yield PodInfo(pod_with(f"{mix}-{number}", *names, cpu=f"{100 + number}m", memory="64Mi"))
        number += 1


def taken_ms(nodes: int, mix: str, reservation: str, count: int) -> list[float]:
    """VolumeBinding's part of each decision, ascending."""
    pool_fit = "Guaranteed" if mix == "guaranteed" else "Prefer"
    profiles = parse(storage_configuration(reservation=reservation, poolFit=pool_fit), source="perf").profiles
    own = OwnTime(VolumeBinding.name)
    hooks = EngineHooks(plugin_times=lambda: own)
    engine = Engine(profiles, clock=VirtualClock(), rng=random.Random(1), hooks=hooks)
    fill(engine.cluster, nodes, mix)
    engine.open()
    made = pods_of(mix, engine.cluster)
    pods = [next(made) for _ in range(count)]
    engine.place(next(made))  # the first reads every object
    preference = VolumeBinding.preference
    VolumeBinding.preference = (  # type: ignore[method-assign]  # not an extension point, and its time all the same
        lambda self, cycle, rows: own.run("", self.name, preference, self, cycle, rows)
    )
    gc.collect()
    gc.freeze()  # as `tonnage scheduler` does once it knows the cluster
    found = []
    try:
        for pod in pods:
            own.taken_s = 0.0
            if engine.place(pod).placement is None:
                raise SystemExit(f"error: no room for {pod.key}")
            found.append(1e3 * own.taken_s)
    finally:
        VolumeBinding.preference = preference  # type: ignore[method-assign]
        gc.unfreeze()
    return sorted(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=300)
    parser.add_argument("--mixes", nargs="+", choices=MIXES, default=list(MIXES))
    parser.add_argument("--reservation", nargs="+", choices=["Object", "Ledger"], default=["Object", "Ledger"])
    options = parser.parse_args()
    worst, worst_mix = 0.0, ""
    print(f"{'nodes':>6} {'mix':>11} {'mode':>7} {'p50':>8} {'p99':>8} {'max':>8}   (ms of VolumeBinding a decision)")
    for mix, reservation in product(options.mixes, options.reservation):
        nodes, pods = (CROWD_NODES, 100) if mix == "crowd" else (options.nodes, options.pods)
        found = taken_ms(nodes, mix, reservation, pods)
        p50, p99 = found[len(found) // 2], found[int(0.99 * len(found))]
        print(f"{nodes:>6,} {mix:>11} {reservation:>7} {p50:>8.2f} {p99:>8.2f} {found[-1]:>8.2f}", flush=True)
        if mix == "crowd" and reservation == "Ledger":  # the other mode holds whole objects
            figure("volume-binding-crowd", p99, f"median {p50:.1f}")
        elif p99 > worst and mix != "crowd":
            worst, worst_mix = p99, f"{mix}, {reservation}"
    if options.nodes == 5000:
        figure("volume-binding-p99", worst, f"worst: {worst_mix}")


if __name__ == "__main__":
    main()
