"""The promise where an object has two writers: the driver's provisioner keeps `capacity`, `tonnage pools` the pools.

The model of test_driver_model.py, with a driver that tells its pools elsewhere, when they changed, and one number to
its provisioner. What is told is copied late; volumes are made between; the provisioner writes its number whenever it
likes; times are whole seconds, as servers write them, and much happens within one. With `poolFit: Guaranteed` no volume
is ever refused, whichever way the driver picks pools, in mode Ledger and in mode Object.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_driver_model import Model

from examples_tried import tries
from tonnage.clock import rfc3339
from tonnage.objects.storage_v1 import AVAILABLE_CAPACITIES, POOLS_CHECKED_AT, POOLS_OBSERVED_AT, POOLS_SOURCE
from tonnage.scheduling.volumes.reservations.ledger import Ledger
from tonnage.scheduling.volumes.reservations.object_reservations import Reservations
from tonnage.testing.storage_builders import CLASS, capacity

STEPS = 150
PAUSES_S = (0.0, 0.0, 0.2, 0.7, 1.0, 3.0)


class TwoWriters(Model):
    """Pools are told by node, copied by class, and the number is written by class."""

    def __init__(
        self,
        seed: int,
        reservation: str,
        policy: str,
        classes: tuple[str, ...] = (CLASS,),
        *,
        skew_s: float = 0.0,
        pools_skew_s: float = 0.0,
    ) -> None:
        self.skew_s, self.pools_skew_s = skew_s, pools_skew_s
        """By how much the server's clock is ahead of the scheduler's, and that of the program that copies pools."""
        self.reservation = reservation
        self.versions = count(1)
        self.told: dict[str, tuple[list[int], str]] = {}
        """By node, what the driver's object says, and since when."""
        self.copied: dict[tuple[str, str], tuple[list[int], str]] = {}
        self.checked: dict[tuple[str, str], str] = {}
        """By object, when the program wrote last by the server's clock; and by its own."""
        self.looked: dict[tuple[str, str], str] = {}
        self.number: dict[tuple[str, str], int] = {}
        self.has_program = True
        super().__init__(seed, reservation, "Guaranteed", classes, "disks" if len(classes) > 1 else "", policy=policy)

    def run(self, *, with_deaths: bool = False) -> Counter[str]:
        doings: list[tuple[Callable[[], None], int]] = [
            (self.pod_comes, 6),
            (self.driver_works, 5),
            (self.driver_tells, 4),
            (self.pools_are_copied, 4),
            (self.number_is_written, 3),
            (self.pod_goes, 1),
            (self.time_passes, 2 if with_deaths else 0),
        ]
        steps, weights = zip(*doings, strict=True)
        for _ in range(STEPS):
            self.clock.advance(self.rng.choice(PAUSES_S))
            self.rng.choices(steps, weights)[0]()
        return self.seen

    def time_passes(self) -> None:
        """More than a minute, after which the clock ends what it may. The driver has told all by then, and the program
        that copies it has done so, unless it is gone; from now on it may be."""
        for name, free in self.driver.free.items():
            if self.told[name][0] != free:
                self.told[name] = (list(free), self.now())
        if self.has_program:
            for key in sorted(self.copied):
                self.copy(*key)
        self.clock.advance(70)
        kept = self.cluster.index(Ledger) if self.reservation == "Ledger" else self.cluster.index(Reservations)
        kept.expire(self.clock.monotonic())
        self.has_program = self.rng.random() < 0.5

    def now(self) -> str:
        """By the server's clock, or by another that is ahead of it."""
        return rfc3339(self.clock.now() + timedelta(seconds=self.skew_s))

    def driver_tells(self) -> None:
        name = self.rng.choice(sorted(self.driver.free))
        if self.told[name][0] != self.driver.free[name]:
            self.told[name] = (list(self.driver.free[name]), self.now())

    def pools_are_copied(self) -> None:
        name, class_name = self.any_object()
        if self.has_program:
            self.copy(name, class_name)

    def copy(self, name: str, class_name: str) -> None:
        self.copied[name, class_name], self.checked[name, class_name] = self.told[name], self.now()
        self.looked[name, class_name] = rfc3339(self.clock.now() + timedelta(seconds=self.pools_skew_s))
        self.write(name, class_name)

    def number_is_written(self) -> None:
        name, class_name = self.any_object()
        self.number[name, class_name] = max(self.driver.free[name])
        self.write(name, class_name)

    def publish(self, name: str, class_name: str) -> None:
        """At the start all is known."""
        self.told[name] = (list(self.driver.free[name]), self.now())
        self.number[name, class_name] = max(self.driver.free[name])
        self.copy(name, class_name)

    def any_object(self) -> tuple[str, str]:
        return self.rng.choice(sorted(self.copied))

    def write(self, name: str, class_name: str) -> None:
        free, at = self.copied[name, class_name]
        annotations = {
            AVAILABLE_CAPACITIES: ",".join(f"{each}Gi" for each in free),
            POOLS_SOURCE: "openebs-lvm",
            POOLS_OBSERVED_AT: at,
            POOLS_CHECKED_AT: self.looked[name, class_name],
        }
        metadata: dict[str, Any] = {
            "annotations": annotations,
            "resourceVersion": str(next(self.versions)),
            "managedFields": [
                {"manager": "tonnage-pools", "time": self.checked[name, class_name]},
                {"manager": "csi-provisioner", "time": self.now()},
            ],
        }
        self.storage.put(capacity(class_name, name, f"{self.number[name, class_name]}Gi", metadata=metadata))


@pytest.mark.parametrize("reservation", ["Ledger", "Object"])
@pytest.mark.parametrize("policy", ["most-free", "best-fit", "first-fit", "random"])
@settings(max_examples=tries(6), deadline=None)
@given(seed=st.integers(0, 100_000))
def test_no_volume_is_refused_however_late_either_writer_is(reservation: str, policy: str, seed: int) -> None:
    assert TwoWriters(seed, reservation, policy).run()["refused"] == 0


@pytest.mark.parametrize("reservation", ["Ledger", "Object"])
@settings(max_examples=tries(6), deadline=None)
@given(seed=st.integers(0, 100_000))
def test_nor_where_two_classes_share_the_pools(reservation: str, seed: int) -> None:
    assert TwoWriters(seed, reservation, "most-free", (CLASS, "slow")).run()["refused"] == 0


@pytest.mark.parametrize("reservation", ["Ledger", "Object"])
@settings(max_examples=tries(8), deadline=None)
@given(seed=st.integers(0, 100_000))
def test_nor_while_the_program_that_keeps_the_pools_is_gone(reservation: str, seed: int) -> None:
    assert TwoWriters(seed, reservation, "most-free").run(with_deaths=True)["refused"] == 0


@pytest.mark.parametrize("reservation", ["Ledger", "Object"])
@pytest.mark.parametrize(("skew_s", "pools_skew_s"), [(-900, 900), (-61, 0), (61, -61), (900, -900), (0, 900)])
def test_nor_if_all_clocks_differ(reservation: str, skew_s: float, pools_skew_s: float) -> None:
    for seed in range(5):
        play = TwoWriters(seed, reservation, "most-free", skew_s=skew_s, pools_skew_s=pools_skew_s)
        assert play.run(with_deaths=True)["refused"] == 0, f"seed {seed}"


@pytest.mark.parametrize("reservation", ["Ledger", "Object"])
def test_and_pods_are_placed(reservation: str) -> None:
    assert sum(TwoWriters(seed, reservation, "most-free").run()["placed"] for seed in range(3)) > 10
