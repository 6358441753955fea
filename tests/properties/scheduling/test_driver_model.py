"""The promise, against a driver as drivers are: it picks pools as it likes, takes its time, and its figures are old.

Pods with one to three claims come and go on a few nodes with several pools each. The scheduler decides from the
published figures. The driver makes volumes later, in any order, each in any pool with room, and publishes its figures
when it likes; in between they are stale. A claim for which no pool has room when its turn comes is a broken promise:
the pod hangs on its node. With the ledger and `poolFit: Guaranteed` that must never happen; how often it does with the
other settings is printed, and so is how many pods each setting placed.

The same with two classes on the same pools, in one capacity group: each class's figures are published when the driver
likes, so that they are stale in different ways; and once more without the group, to see what it is good for.

A figure that is published shows every volume that was reported as made before it. Where figures are *late*, it does
not: one is measured, volumes are made and reported, and then it is published, as by a provisioner that waits for its
turn to write and says nothing of what its figures include. The next is measured after that. The ledger is to see it
from the figures themselves, and keeps its promise all the same.

Where the model goes *in steps*, a volume is made, its object is written and its claim is bound at different moments, in
any order among volumes, and figures are published between any two of them, as by external-provisioner.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec
import pytest

from examples_tried import tries
from support.configurations import storage_configuration
from support.virtual_clock import VirtualClock
from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.engine.attempt import Placement
from tonnage.scheduling.engine.engine import Engine
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import CLASS, capacity, claim, driver, pod_with, storage_class, volume

GI = 1 << 30
SEEDS = range(tries(25))
STEPS = 220


class Driver:
    """Pools by node, in GiB. Makes volumes where it likes, or by a policy that it keeps to."""

    def __init__(self, rng: random.Random, nodes: int, policy: str = "") -> None:
        self.rng = rng
        self.policy = policy
        self.free = {
            f"n{i}": [rng.choice((20, 40, 60, 100, 120)) for _ in range(rng.randint(1, 4))] for i in range(nodes)
        }
        self.made: dict[str, tuple[str, int, int]] = {}

    def make(self, name: str, where: str, size: int) -> bool:
        """A volume in a pool with room; False when there is none."""
        pools = self.free[where]
        roomy = [number for number, free in enumerate(pools) if free >= size]
        if not roomy:
            return False
        if self.policy == "most-free":
            pool = max(roomy, key=lambda number: pools[number])
        elif self.policy == "best-fit":
            pool = min(roomy, key=lambda number: pools[number])
        else:
            pool = roomy[0] if self.policy == "first-fit" else self.rng.choice(roomy)
        pools[pool] -= size
        self.made[name] = (where, pool, size)
        return True

    def delete(self, name: str) -> None:
        where, pool, size = self.made.pop(name)
        self.free[where][pool] += size


class Model:
    """A cluster, a driver, and everything that happens between them, one random step at a time."""

    def __init__(
        self,
        seed: int,
        reservation: str,
        pool_fit: str,
        classes: tuple[str, ...],
        group: str,
        *,
        is_late: bool = False,
        in_steps: bool = False,
        policy: str = "",
        is_told: bool = True,
    ) -> None:
        self.classes = classes
        self.class_of: dict[str, str] = {}
        self.rng = random.Random(seed)
        text = storage_configuration(reservation=reservation, poolFit=pool_fit)
        self.clock = VirtualClock()
        profiles = parse(text, source="the model").profiles
        self.engine = Engine(profiles, clock=self.clock, rng=random.Random(seed))
        self.engine.open()
        self.cluster = self.engine.cluster
        self.storage = self.cluster.storage
        self.driver = Driver(self.rng, 3, policy)
        self.numbers = count()
        self.sizes: dict[str, int] = {}
        self.waiting: dict[str, tuple[Pod, Placement]] = {}  # claim -> the pod it is being made for
        self.settled: list[tuple[Pod, list[str]]] = []
        self.seen: Counter[str] = Counter()
        for each in classes:
            self.storage.put(storage_class(each, group=group, pool_policy=policy if is_told else ""))
        self.is_late = is_late
        self.in_steps = in_steps
        self.unwritten: list[tuple[str, Pod, str]] = []
        """Claims whose volumes were made, with pod and node, and are not written yet."""
        self.unbound: list[tuple[str, Pod, str]] = []
        self.measured: dict[tuple[str, str], list[int]] = {}
        """By node and class, a figure that is on its way."""
        self.storage.put(driver())
        for name in self.driver.free:
            self.cluster.put_node(node(name))
            for each in classes:
                self.publish(name, each)

    def run(self) -> Counter[str]:
        doings: list[tuple[Callable[[], None], int]] = [
            (self.pod_comes, 6),
            (self.driver_works, 5),
            (self.driver_publishes, 2),
            (self.pod_goes, 1),
            (self.volume_is_written, 5 if self.in_steps else 0),
            (self.claim_is_bound, 5 if self.in_steps else 0),
        ]
        steps, weights = zip(*doings, strict=True)
        for _ in range(STEPS):
            self.rng.choices(steps, weights)[0]()
        return self.seen

    # -- pods ---------------------------------------------------------------------------------------------------------

    def pod_comes(self) -> None:
        name = f"pod-{next(self.numbers)}"
        claims = [f"{name}-{i}" for i in range(self.rng.randint(1, 3))]
        for each in claims:
            self.sizes[each] = self.rng.choice((5, 10, 20, 30, 40, 60))
            self.class_of[each] = self.rng.choice(self.classes) if len(self.classes) > 1 else CLASS
            self.storage.put(self.claim(each))
        pod = pod_with(name, *claims)
        attempt = self.engine.place(PodInfo(pod))
        placement = attempt.placement
        if placement is None:
            assert attempt.status.is_success, attempt.status
            self.seen["turned away"] += 1
            return
        self.seen["placed"] += 1
        for each in claims:  # PreBind writes what Reserve assumed
            self.storage.put(self.claim(each, selected_node=placement.node))
            self.waiting[each] = (pod, placement)

    def pod_goes(self) -> None:
        if not self.settled:
            return
        pod, claims = self.settled.pop(self.rng.randrange(len(self.settled)))
        self.cluster.remove_pod(PodInfo(pod).uid)
        for each in claims:
            known = self.storage.claims.get(f"default/{each}")
            assert known is not None
            self.storage.remove(known)
            self.driver.delete(each)

    # -- the driver ---------------------------------------------------------------------------------------------------

    def driver_works(self) -> None:
        """One of the volumes that are asked for is made, whichever; or it cannot be."""
        if not self.waiting:
            return
        name = self.rng.choice(sorted(self.waiting))
        pod, placement = self.waiting.pop(name)
        size, where = self.sizes[name], placement.node
        if not self.driver.make(name, where, size):
            self.seen["refused"] += 1
            self.give_up(pod, placement)
            return
        self.unwritten.append((name, pod, where))
        if not self.in_steps:
            self.volume_is_written()
            self.claim_is_bound()

    def volume_is_written(self) -> None:
        if not self.unwritten:
            return
        name, pod, where = self.unwritten.pop(self.rng.randrange(len(self.unwritten)) if self.in_steps else 0)
        size, class_name = self.sizes[name], self.class_of[name]
        made = volume(f"pv-{name}", f"{size}Gi", on=where, claim=f"default/{name}", class_name=class_name)
        now = msgspec.structs.replace(made.metadata, creation_timestamp=self.clock.now().replace(microsecond=0))
        self.storage.put(msgspec.structs.replace(made, metadata=now))
        self.unbound.append((name, pod, where))

    def claim_is_bound(self) -> None:
        if not self.unbound:
            return
        name, pod, where = self.unbound.pop(self.rng.randrange(len(self.unbound)) if self.in_steps else 0)
        self.storage.put(self.claim(name, volume=f"pv-{name}", selected_node=where))
        claims = list(pod.claim_names())
        under_way = {each for each, _, _ in (*self.unwritten, *self.unbound)} | self.waiting.keys()
        if not any(each in under_way for each in claims):
            self.settled.append((pod, claims))

    def give_up(self, pod: Pod, placement: Placement) -> None:
        """A pod whose volume could not be made: everything of it goes away."""
        self.engine.withdraw(placement)
        for stage in (self.unwritten, self.unbound):
            stage[:] = [each for each in stage if each[1] is not pod]
        for each in pod.claim_names():
            self.waiting.pop(each, None)
            known = self.storage.claims.get(f"default/{each}")
            if known is not None:
                self.storage.remove(known)
            if each in self.driver.made:
                self.driver.delete(each)

    def driver_publishes(self) -> None:
        name = self.rng.choice(sorted(self.driver.free))
        class_name = self.rng.choice(self.classes) if len(self.classes) > 1 else CLASS
        if self.is_late and (name, class_name) not in self.measured:
            self.measured[name, class_name] = list(self.driver.free[name])
        else:
            self.publish(name, class_name)

    def publish(self, name: str, class_name: str) -> None:
        free = self.measured.pop((name, class_name), self.driver.free[name])
        pools = [f"{each}Gi" for each in free]
        self.storage.put(capacity(class_name, name, free=f"{sum(free)}Gi", pools=pools))

    def claim(self, name: str, **options: Any) -> PersistentVolumeClaim:
        return claim(name, f"{self.sizes[name]}Gi", class_name=self.class_of[name], **options)


SETTINGS = [
    ("Ledger", "Guaranteed"),
    ("Ledger", "Possible"),
    ("Object", "Guaranteed"),
    ("Object", "Possible"),
    ("None", "Possible"),
]


def played(
    reservation: str,
    pool_fit: str,
    classes: tuple[str, ...] = (CLASS,),
    group: str = "",
    seeds: range = SEEDS,
    **driver: Any,
) -> Counter[str]:
    """All seeds together."""
    total: Counter[str] = Counter()
    for seed in seeds:
        total += Model(seed, reservation, pool_fit, classes, group, **driver).run()
    return total


@pytest.mark.parametrize("is_late", [False, True], ids=["figures in time", "late figures"])
def test_with_the_ledger_and_guaranteed_fits_a_driver_never_has_to_refuse(
    capsys: pytest.CaptureFixture[str], is_late: bool
) -> None:
    seen = {setting: played(*setting, is_late=is_late) for setting in SETTINGS}
    with capsys.disabled():
        print(f"\n{'late figures' if is_late else 'figures in time'}")
        print("reservation  poolFit      placed  turned away  volumes the driver had to refuse")
        for (reservation, pool_fit), told in seen.items():
            print(
                f"{reservation:<12} {pool_fit:<11} {told['placed']:>7} {told['turned away']:>12} {told['refused']:>8}"
            )
    safe, blind = seen["Ledger", "Guaranteed"], seen["None", "Possible"]
    assert safe["refused"] == 0
    # The model has teeth: without reservations the same driver refuses plenty, and the safe setting is no idle one.
    assert blind["refused"] > 4 * len(SEEDS)
    assert safe["placed"] > 12 * len(SEEDS)


@pytest.mark.parametrize("is_late", [False, True], ids=["figures in time", "late figures"])
def test_a_driver_whose_figures_come_before_its_volumes_never_has_to_refuse(is_late: bool) -> None:
    few = range(tries(12))
    told = played("Ledger", "Guaranteed", seeds=few, is_late=is_late, in_steps=True)
    assert told["refused"] == 0
    assert told["placed"] > 8 * len(few)
    assert played("Ledger", "Guaranteed", (CLASS, "slow"), "disks", few, is_late=is_late, in_steps=True)["refused"] == 0
    assert played("None", "Possible", seeds=few, is_late=is_late, in_steps=True)["refused"] > 2 * len(few)


def test_two_classes_on_the_same_pools_never_make_a_driver_refuse_if_they_are_a_group() -> None:
    few, classes = range(8), (CLASS, "slow")
    grouped = played("Ledger", "Guaranteed", classes, "disks", few)
    assert played("Ledger", "Guaranteed", classes, "disks", few, is_late=True)["refused"] == 0
    apart = played("Ledger", "Guaranteed", classes, "", few)
    assert grouped["refused"] == 0
    assert apart["refused"] > 20  # the model has teeth
    assert grouped["placed"] > 100


@pytest.mark.parametrize("policy", ["most-free", "best-fit", "first-fit"])
def test_a_driver_that_picks_pools_as_it_says_never_has_to_refuse_and_turns_fewer_away(policy: str) -> None:
    few = range(4)
    told = played("Ledger", "Guaranteed", seeds=few, policy=policy)
    assert told["refused"] == 0
    assert played("Ledger", "Guaranteed", seeds=range(3), policy=policy, is_late=True)["refused"] == 0
    assert played("Ledger", "Guaranteed", (CLASS, "slow"), "disks", range(2), policy=policy)["refused"] == 0
    untold = played("Ledger", "Guaranteed", seeds=few, policy=policy, is_told=False)
    assert untold["refused"] == 0
    assert told["placed"] >= untold["placed"], "to know what a driver does turns nobody away"
