"""Provisioners publish a smaller figure before a volume's object exists, before its claim is bound, or after; some
late, some twice, some one figure for several volumes. Whatever the order:

- what the figure offers beside the promises is never more than there is, less what is yet to be made;
- once every volume is bound and the figure tells of all of them, nothing is promised any more, and no clock was needed,
  unless a volume was deleted meanwhile (a rise hides a fall) or the scheduler was restarted (it did not see the falls).

A figure is measured at one moment and written later; a later figure is measured after the one before was written. An
unchanged figure is not written, as by external-provisioner.
"""

from __future__ import annotations

import random
from datetime import timedelta
from itertools import count
from typing import Final

import pytest

from examples_tried import tries
from support.scheduling_sight import promised
from support.virtual_clock import VirtualClock
from tonnage.clock import rfc3339
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.engine.profiles import add_indexes
from tonnage.scheduling.volumes.bind_volumes import asking_for
from tonnage.scheduling.volumes.reservations.ledger import Ledger
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class, volume

GI = 1 << 30
OBJECT: Final = "kube-system-fast-node-1"
PROVIDERS = ("before", "between", "after", "late", "twice", "together", "any")


class Provider:
    """One node of 1000Gi, a driver that makes volumes there, a provisioner that publishes, and a ledger."""

    def __init__(self, seed: int, order: str, skew_s: float = 0.0) -> None:
        self.rng = random.Random(seed)
        self.skew_s = skew_s
        """By how much the server's clock is ahead of the scheduler's."""
        self.order = order
        self.names = (f"claim-{number}" for number in count())
        self.sizes: dict[str, int] = {}
        self.decided: list[str] = []
        self.made: list[str] = []
        self.saved: list[str] = []
        self.bound: list[str] = []
        self.measured: int | None = None
        self.pause_s = 0.0
        """Now and then so much time passes between two steps."""
        self.published = 1000
        self.free = 1000
        self.clock = VirtualClock()
        self.start()

    def start(self) -> None:
        """A scheduler starts, and reads what the API has."""
        before = getattr(self, "cluster", None)
        self.cluster = Cluster(self.clock)
        self.cluster.put_node(node("node-1"))
        storage = self.cluster.storage
        for one in (storage_class(), driver(), self.room()):
            storage.put(one)
        for known in [each.key for each in before.storage.claims] if before is not None else ():
            told = before.storage.claims.api(known) if before is not None else None
            assert told is not None
            storage.put(told)
        for found in before.storage.volumes if before is not None else ():
            storage.put(found)
        self.ledger = add_indexes(self.cluster).index(Ledger)

    def run(self, steps: int, *, restarts: bool, deletes: bool) -> None:
        doings = [self.decide, self.make, self.make, self.save, self.bind, self.publish]
        doings += [self.delete] if deletes else []
        for _ in range(steps):
            self.clock.advance(self.rng.choice((0, 0, 0, self.pause_s)))
            self.rng.choice(doings)()
            self.check()
            if restarts and self.rng.random() < 0.02:
                self.start()
                self.check()
        while self.decided or self.made or self.saved:
            for do in (self.make, self.save, self.bind):
                do()
                self.check()
        self.publish(is_last=True)
        self.check()

    def check(self) -> None:
        """What the ledger would still give away is there, beside what is yet to be made."""
        self.ledger.catch_up()
        promised_gi = sum(promised(self.ledger, OBJECT)) // GI
        to_make = sum(self.sizes[each] for each in self.decided)
        given, left = self.published - promised_gi, self.free - to_make
        assert given <= left, f"{given}Gi are offered of {self.published}Gi, and {left}Gi are left"

    # -- what happens -------------------------------------------------------------------------------------------------

    def decide(self) -> None:
        name = next(self.names)
        size = self.sizes[name] = self.rng.choice((1, 2, 3, 5, 8))
        storage = self.cluster.storage
        storage.put(claim(name, f"{size}Gi"))
        known = storage.claims.get(f"default/{name}")
        assert known is not None
        planned = asking_for(known, "node-1")
        storage.claims.assume(planned)
        self.ledger.reserve(storage.capacities["kube-system/fast-node-1"], PodInfo(pod_with(name, name)), [planned])
        storage.put(claim(name, f"{size}Gi", selected_node="node-1"))
        self.decided.append(name)

    def make(self) -> None:
        """The driver makes a volume; its object is written later."""
        if self.decided:
            name = self.decided.pop(self.rng.randrange(len(self.decided)))
            self.free -= self.sizes[name]
            self.made.append(name)
            if self.order in ("before", "twice"):
                self.publish()
            elif self.order == "late" and self.measured is None:
                self.measure()

    def save(self) -> None:
        """The PersistentVolume of a volume is written."""
        if self.made:
            name = self.made.pop(self.rng.randrange(len(self.made)))
            size, stamp = f"{self.sizes[name]}Gi", {"creationTimestamp": self.stamp()}
            self.cluster.storage.put(volume(f"pv-{name}", size, on="node-1", claim=f"default/{name}", metadata=stamp))
            self.saved.append(name)
            if self.order == "between":
                self.publish()

    def bind(self) -> None:
        if self.saved:
            name = self.saved.pop(self.rng.randrange(len(self.saved)))
            size = f"{self.sizes[name]}Gi"
            stamp = {"managedFields": [{"time": self.stamp()}]}
            self.cluster.storage.put(claim(name, size, selected_node="node-1", volume=f"pv-{name}", metadata=stamp))
            self.bound.append(name)
            if self.order in ("after", "twice"):
                self.publish(is_twice=self.order == "twice")

    def delete(self) -> None:
        if self.bound and self.rng.random() < 0.3:
            name = self.bound.pop(self.rng.randrange(len(self.bound)))
            storage = self.cluster.storage
            storage.remove(claim(name))
            storage.remove(volume(f"pv-{name}"))
            self.free += self.sizes[name]

    def measure(self) -> None:
        self.measured = self.free

    def publish(self, *, is_twice: bool = False, is_last: bool = False) -> None:
        """Publish what was measured; whoever is not late measures now."""
        if self.order in ("late", "any") and self.measured is None and not is_last:
            self.measure()
            return
        if self.measured is None or is_last:
            self.measure()
        free, self.measured = self.measured or 0, None
        if free != self.published or is_twice:
            self.published = free
            self.cluster.storage.put(self.room())

    def stamp(self) -> str:
        return rfc3339(self.clock.now() + timedelta(seconds=self.skew_s))

    def room(self) -> CSIStorageCapacity:
        """The object, which is as old as the cluster, as it is published now."""
        created_at = rfc3339(VirtualClock().now() + timedelta(seconds=self.skew_s))
        metadata = {"creationTimestamp": created_at, "managedFields": [{"time": self.stamp()}]}
        return capacity("fast", "node-1", f"{self.published}Gi", metadata=metadata)


@pytest.mark.parametrize("order", PROVIDERS)
def test_no_byte_is_promised_twice_for_longer_than_the_figure_needs(order: str) -> None:
    for seed in range(tries(30)):
        play = Provider(seed, order)
        play.run(120, restarts=False, deletes=False)
        assert promised(play.ledger, OBJECT) == (), f"seed {seed}: every volume is in the figure"
        assert play.clock.monotonic() == 0


@pytest.mark.parametrize("order", PROVIDERS)
def test_what_the_figure_does_not_show_stays_promised_through_deletions_and_restarts(order: str) -> None:
    for seed in range(tries(30)):
        Provider(seed, order).run(120, restarts=True, deletes=True)


@pytest.mark.parametrize("order", PROVIDERS)
@pytest.mark.parametrize("skew_s", [-900, -61, 61, 900])
def test_nor_does_it_matter_what_the_schedulers_own_clock_shows(order: str, skew_s: float) -> None:
    """Half a second passes now and then: less than the timeout in all, so that nothing is let go by the clock."""
    for seed in range(tries(8)):
        play = Provider(seed, order, skew_s)
        play.pause_s = 0.5
        play.run(120, restarts=True, deletes=False)
