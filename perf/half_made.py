"""Half-made pods: how many are left with one volume made and no room for another, over random clusters and policies.

    python perf/half_made.py [--clusters 200] [--gap 2] [--poolfit Prefer]

Each cluster is played in the simulator, with the scheduler's own decisions and bindings on virtual time: two to four
nodes of one to three pools, and more pods with one to three claims than they hold. The driver picks pools by each of
the four policies in turn, once with `tonnage.dev/pool-policy` on its class and once without. Claims that are sent
together are made in an order that is left to chance.

A pod is half-made if it is Pending in the end, with a bound claim of its own and one that is not.
"""

from __future__ import annotations

import argparse
import random
import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tonnage.gates import Gates
from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod
from tonnage.objects.meta import Object
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class
from tonnage.whatif.simulate.disks import PICK_POLICIES, DriverSettings, StorageSettings
from tonnage.whatif.simulate.measures import Measures
from tonnage.whatif.simulate.storage_model import StorageModel
from tonnage.whatif.simulate.world import World
from tonnage.whatif.simulate.world_state import WorldSettings
from tonnage.whatif.sources import ClusterState, clock_of

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.configurations import storage_configuration

AT_MOST_S = 900.0


@dataclass(slots=True)
class RandomCluster:
    """Nodes with their pools, and pods with the sizes of their claims, in GiB."""

    pools: dict[str, list[int]] = field(default_factory=dict)
    pods: dict[str, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, seed: int) -> RandomCluster:
        rng = random.Random(seed)
        nodes = rng.randint(2, 4)
        found = cls({f"n{i}": [rng.randrange(30, 121, 10) for _ in range(rng.randint(1, 3))] for i in range(nodes)})
        left = 1.1 * sum(sum(each) for each in found.pools.values())
        while left > 0:
            sizes = [rng.randrange(10, 81, 10) for _ in range(rng.randint(1, 3))]
            found.pods[f"p{len(found.pods)}"] = sizes
            left -= sum(sizes)
        return found


@dataclass(slots=True)
class Outcome:
    running: int = 0
    half_made: list[str] = field(default_factory=list)
    refused: int = 0
    """Volumes that the driver could not make."""

    def add(self, other: Outcome) -> None:
        self.running += other.running
        self.half_made += other.half_made
        self.refused += other.refused


def play(
    cluster: RandomCluster, pick: PoolPolicy, *, is_told: bool, pool_fit: str = "", seed: int = 0, gap_s: float = 2.0
) -> Outcome:
    """Let the pods come, one every `gap_s` seconds, and see what is left."""
    args = {"poolFit": pool_fit} if pool_fit else {}
    profiles = parse(storage_configuration(**args), source="half_made", gates=Gates()).profiles
    objects: list[Object] = [storage_class(pool_policy=pick if is_told else ""), driver()]
    for name, free in cluster.pools.items():
        objects += [node(name), capacity("fast", name, f"{sum(free)}Gi", pools=[f"{each}Gi" for each in free])]
    settings = StorageSettings(DriverSettings(pick=pick))
    measures = Measures()
    state = ClusterState(objects, "perf", clock_of(objects))
    world = World(state, profiles, measures, settings=WorldSettings(storage=settings, seed=seed))
    measures.begin(world)
    _shuffle_requests(world.storage, random.Random(seed))
    for number, (name, sizes) in enumerate(cluster.pods.items()):
        made = [claim(f"{name}-{place}", f"{size}Gi") for place, size in enumerate(sizes)]
        coming: list[Object] = [*made, pod_with(name, *(each.name for each in made))]
        world.agenda.at(number * gap_s, partial(_come, world, coming))
    until_s = 10.0
    while not world.run_until_idle(until_s) and until_s < AT_MOST_S:
        until_s += 10.0
    return _outcome(world, cluster, measures)


def _come(world: World, coming: list[Object]) -> None:
    for each in coming:
        world.put(each)


def _shuffle_requests(storage: StorageModel, rng: random.Random) -> None:
    """CreateVolume calls of claims that were sent at once reach the driver in an order of chance."""
    latency_s = storage.settings.rest.create_latency_s
    make = storage._make

    def later(key: str, uid: str, node_name: str) -> None:
        storage.agenda.after(rng.random() * latency_s, lambda: make(key, uid, node_name))

    storage._make = later  # type: ignore[method-assign]


def _outcome(world: World, cluster: RandomCluster, measures: Measures) -> Outcome:
    found = Outcome(refused=measures.world.storage.counts.refused)
    for name, sizes in cluster.pods.items():
        pod = world.get(Pod, f"default/{name}")
        claims = [world.get(PersistentVolumeClaim, f"default/{name}-{place}") for place in range(len(sizes))]
        bound = [each is not None and each.is_bound for each in claims]
        if pod is not None and pod.spec.node_name:
            found.running += 1
        elif any(bound) and not all(bound):
            found.half_made.append(name)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=200)
    parser.add_argument("--gap", type=float, default=2.0, help="seconds from one pod to the next")
    parser.add_argument("--poolfit", default="", help="Prefer, Possible or Guaranteed; the default setting otherwise")
    chosen = parser.parse_args()
    print(
        f"{chosen.clusters} random clusters, a pod every {chosen.gap:g} s, poolFit {chosen.poolfit or 'as by default'}"
    )
    print(f"{'policy':<11} {'told':<5} {'running':>8} {'half-made':>10} {'clusters with any':>18} {'refused':>8}")
    for pick in PICK_POLICIES:
        for is_told in (True, False):
            total, spoilt = Outcome(), 0
            for seed in range(chosen.clusters):
                one = play(
                    RandomCluster.of(seed),
                    pick,
                    is_told=is_told,
                    pool_fit=chosen.poolfit,
                    seed=seed,
                    gap_s=chosen.gap,
                )
                spoilt += bool(one.half_made)
                total.add(one)
            told = "yes" if is_told else "no"
            print(f"{pick:<11} {told:<5} {total.running:>8} {len(total.half_made):>10} {spoilt:>18} {total.refused:>8}")


if __name__ == "__main__":
    main()
