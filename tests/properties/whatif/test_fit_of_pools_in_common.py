"""`fit` where classes share some pools by their ids, and the driver rounds sizes and picks by a policy or at random."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st
from test_fit_properties import played, typed

from examples_tried import tries
from tonnage.objects.core_v1 import PersistentVolumeClaim
from tonnage.objects.meta import Object
from tonnage.objects.size_rules import SizeRules, driver_size
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class
from tonnage.whatif.expansion import Replica
from tonnage.whatif.fit.counting import count
from tonnage.whatif.simulate.disks import Disk
from tonnage.whatif.simulate.driver_courses import DriverLuck

CLASSES = ("all", "some", "other")
RULES = ("", "step=2Gi", "step=1Gi,strict", "minimum=3Gi", "overhead=1Gi", "overhead=10%,extent=512Mi")


@dataclass(frozen=True)
class Scene:
    """Pools by node in Gi, the pools of each class by number, and the claims of a replica: size in Gi and class."""

    pools: tuple[tuple[int, ...], ...]
    reach: tuple[tuple[int, ...], ...]
    policy: str
    rules: tuple[str, ...]
    """By class."""
    is_grouped: bool
    claims: tuple[tuple[int, int], ...]

    def objects(self) -> list[Object]:
        found = [typed(driver())]
        for name, rules in zip(CLASSES[: len(self.reach)], self.rules, strict=False):
            group = "disks" if self.is_grouped else ""
            found.append(typed(storage_class(name, pool_policy=self.policy, size_rules=rules, group=group)))
        for at, free in enumerate(self.pools):
            found.append(typed(node(f"n{at}", cpu="1000")))
            for name, reach in zip(CLASSES, self.reach, strict=False):
                here = sorted((number for number in reach if number < len(free)), key=lambda number: -free[number])
                pools, ids = [f"{free[number]}Gi" for number in here], ",".join(f"vg-{number}" for number in here)
                if here:
                    found.append(typed(capacity(name, f"n{at}", pools[0], pools=pools, pool_ids=ids)))
        return found

    def replicas(self) -> Iterator[Replica]:
        for number in range(100):
            asked = [
                typed(claim(f"c{number}-{at}", f"{size}Gi", class_name=CLASSES[of % len(self.reach)]))
                for at, (size, of) in enumerate(self.claims)
            ]
            yield Replica(typed(pod_with(f"p{number}", *(each.name for each in asked))), tuple(asked))


scenes = st.builds(
    Scene,
    st.lists(st.lists(st.integers(1, 14), min_size=1, max_size=3).map(tuple), min_size=1, max_size=2).map(tuple),
    st.lists(st.sets(st.integers(0, 2), min_size=1).map(sorted).map(tuple), min_size=1, max_size=3).map(tuple),
    st.sampled_from(("most-free", "best-fit", "first-fit", "unknown", "")),
    st.tuples(*[st.sampled_from(RULES)] * 3) | st.sampled_from(RULES).map(lambda rules: (rules,) * 3),
    st.booleans(),
    st.lists(st.tuples(st.integers(1, 8), st.integers(0, 2)), min_size=1, max_size=3).map(tuple),
)


class Driver:
    """Takes pools as the policy says, by names of its own: for first-fit in an order that nobody knows."""

    def __init__(self, scene: Scene, seed: int) -> None:
        self.scene, self.rng = scene, random.Random(seed)
        self.order = self.rng.sample(("vg-0", "vg-1", "vg-2"), 3)

    def choose(self, disk: Disk, claim: PersistentVolumeClaim) -> int | None:
        rules = SizeRules.parse(self.scene.rules[CLASSES.index(claim.class_name)])
        least = driver_size(rules, claim.requested_size.value()) + rules.is_strict
        reach = self.scene.reach[CLASSES.index(claim.class_name)]
        free = {disk.ids[at]: disk.pools[at] for at in range(len(disk.pools))}
        roomy = [name for name in self.order if f"{name}"[3:] in map(str, reach) and free.get(name, -1) >= least]
        if not roomy:
            return None
        if self.scene.policy in ("most-free", "best-fit"):
            best = (max if self.scene.policy == "most-free" else min)(free[name] for name in roomy)
            roomy = [name for name in roomy if free[name] == best]
        found = roomy[0] if self.scene.policy == "first-fit" else self.rng.choice(roomy)
        return disk.ids.index(found)


@settings(max_examples=tries(40), deadline=None)
@given(scenes, st.integers(0, 99))
def test_whatever_the_driver_does_as_many_run_as_is_certain_and_no_more_than_at_most(scene: Scene, seed: int) -> None:
    certain = count(played(scene.objects()), scene.replicas(), most=40)
    lucky = played(scene.objects(), luck=DriverLuck.BEST)
    at_most = count(lucky, scene.replicas(), most=40)
    cluster = played(scene.objects())
    cluster.world.storage.choose = Driver(scene, seed).choose
    runs = count(cluster, scene.replicas(), most=40)
    assert certain.count <= runs.count <= at_most.count
