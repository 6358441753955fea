"""Objects with two writers: the driver's provisioner keeps `capacity`, `tonnage pools` the pools. What ends a hold."""

from __future__ import annotations

from datetime import timedelta

import pytest
from ledger_rig import GI, LedgerRig, bound, made, written

from support.scheduling_sight import next_expiry_at, promised
from support.virtual_clock import VirtualClock
from tonnage.clock import rfc3339
from tonnage.objects.storage_v1 import (
    AVAILABLE_CAPACITIES,
    INCLUDED_CLAIMS,
    POOLS_CHECKED_AT,
    POOLS_OBSERVED_AT,
    POOLS_SOURCE,
    CSIStorageCapacity,
)
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.engine.profiles import add_indexes
from tonnage.scheduling.volumes.bind_volumes import asking_for
from tonnage.scheduling.volumes.reservations.object_reservations import Reservations
from tonnage.testing.storage_builders import capacity, claim, pod_with


def kept(free: str, pools: str, at_s: float, rig: LedgerRig | None = None, **annotations: str) -> CSIStorageCapacity:
    """What both have written: `free` by the provisioner, `pools` as a source told them at this second of the clock.

    The object itself is written just now, by whichever of them.
    """
    clock = rig.clock if rig is not None else VirtualClock()
    start = clock.now() - timedelta(seconds=clock.monotonic())
    told = {
        AVAILABLE_CAPACITIES: pools,
        POOLS_SOURCE: "openebs-lvm",
        POOLS_OBSERVED_AT: rfc3339(start + timedelta(seconds=at_s)),
        **annotations,
    }
    written_at = [{"time": rfc3339(clock.now())}]
    return capacity("fast", "node-1", free, metadata={"annotations": told, "managedFields": written_at})


@pytest.fixture
def rig() -> LedgerRig:
    """A pod of one 20Gi claim was sent to node-1, with pools of 100Gi and 100Gi, and its volume was made at 60 s."""
    rig = LedgerRig()
    rig.put(kept("100Gi", "100Gi,100Gi", 0, rig))
    rig.clock.advance(50)
    rig.reserve(rig.pod("web", "data"))
    rig.put(written("data", at=rig.clock.now()))
    rig.clock.advance(10)
    rig.put(made("data", rig, 0), bound("data"))
    assert rig.gibs() == [20]
    return rig


def test_writes_of_capacity_alone_end_no_promise_however_many(rig: LedgerRig) -> None:
    for free in ("80Gi", "81Gi", "80Gi", "79Gi"):
        rig.clock.advance(5)
        rig.put(kept(free, "100Gi,100Gi", 0, rig))
        assert rig.gibs() == [20]


def test_pools_that_fell_by_the_volume_end_it(rig: LedgerRig) -> None:
    rig.clock.advance(5)
    rig.put(kept("100Gi", "100Gi,80Gi", 62, rig))
    assert rig.gibs() == []


def test_pools_that_were_told_before_the_decision_and_come_after_the_volume_end_nothing(rig: LedgerRig) -> None:
    """Another volume made the pools fall by as much before; they are copied late."""
    rig.clock.advance(5)
    rig.put(kept("100Gi", "100Gi,80Gi", 45, rig))
    assert rig.gibs() == [20]
    rig.put(kept("100Gi", "100Gi,80Gi", 47, rig))
    assert rig.gibs() == [20]


def test_pools_that_fell_between_the_decision_and_the_volumes_object_end_it(rig: LedgerRig) -> None:
    """A source tells of a volume when it is made; its object is written after that."""
    rig.clock.advance(5)
    rig.put(kept("100Gi", "100Gi,80Gi", 57, rig))
    assert rig.gibs() == []


def test_pools_that_are_confirmed_twice_after_the_volume_end_it(rig: LedgerRig) -> None:
    """A volume that takes less than its size: the source was read, written, and read again since it was made."""
    rig.clock.advance(5)
    rig.put(kept("100Gi", "100Gi,100Gi", 62, rig))
    assert rig.gibs() == [20]
    rig.put(kept("100Gi", "100Gi,100Gi", 64, rig))
    assert rig.gibs() == []


def test_what_the_provisioner_says_it_includes_is_said_of_capacity_and_not_of_the_pools(rig: LedgerRig) -> None:
    rig.clock.advance(5)
    rig.put(kept("80Gi", "100Gi,100Gi", 0, rig, **{INCLUDED_CLAIMS: "default-data"}))
    assert rig.gibs() == [20]
    rig.put(kept("80Gi", "100Gi,80Gi", 63, rig, **{INCLUDED_CLAIMS: "default-data"}))
    assert rig.gibs() == []


def test_when_the_pools_are_taken_away_the_sum_has_not_fallen(rig: LedgerRig) -> None:
    """200Gi of pools become a capacity of 100Gi; nothing says that it was measured after the volume was made."""
    rig.clock.advance(5)
    rig.put(capacity("fast", "node-1", "100Gi", metadata={"managedFields": [{"time": rfc3339(rig.clock.now())}]}))
    assert rig.gibs() == [20]
    rig.clock.advance(5)
    rig.put(capacity("fast", "node-1", "90Gi", metadata={"managedFields": [{"time": rfc3339(rig.clock.now())}]}))
    assert rig.gibs() == [20]
    rig.clock.advance(5)
    rig.put(capacity("fast", "node-1", "91Gi", metadata={"managedFields": [{"time": rfc3339(rig.clock.now())}]}))
    assert rig.gibs() == []  # the second that the provisioner wrote after it


def test_when_pools_come_the_figure_has_not_fallen() -> None:
    rig = LedgerRig()
    rig.put(capacity("fast", "node-1", "300Gi"))
    rig.reserve(rig.pod("web", "data"))
    rig.put(written("data"))
    rig.clock.advance(60)
    rig.put(made("data", rig, 0), bound("data"))
    rig.clock.advance(5)
    rig.put(kept("300Gi", "100Gi,100Gi", 10, rig))
    assert rig.gibs() == [20]


def test_an_object_made_anew_shows_a_volume_only_if_its_pools_were_told_after_it(rig: LedgerRig) -> None:
    rig.storage.remove(rig.storage.capacities["kube-system/fast-node-1"])
    rig.clock.advance(5)
    for at_s, gibs in ((30, [20]), (64, [])):
        new = kept("100Gi", "100Gi,100Gi", at_s, rig)
        metadata = {
            "uid": f"anew-{at_s}",
            "annotations": dict(new.metadata.annotations),
            "creationTimestamp": rfc3339(rig.clock.now()),
        }
        rig.put(capacity("fast", "node-1", "100Gi", metadata=metadata))
        assert rig.gibs(f"anew-{at_s}") == gibs


def test_the_clock_ends_it_all_the_same(rig: LedgerRig) -> None:
    rig.wait(61)
    assert rig.gibs() == []


def test_five_pods_that_come_together_are_not_all_sent_to_the_same_pool() -> None:
    """Whatever the provisioner writes meanwhile, all that is promised counts until the pools show it."""
    rig = LedgerRig()
    rig.put(kept("100Gi", "100Gi,100Gi", 0, rig))
    for number in range(5):
        rig.reserve(rig.pod(f"web-{number}", f"data-{number}"))
        rig.put(written(f"data-{number}"))
    for number in range(5):
        rig.clock.advance(1)
        rig.put(made(f"data-{number}", rig, 0), bound(f"data-{number}"))
        rig.clock.advance(1)
        rig.put(kept(f"{99 - number}Gi", "100Gi,100Gi", 0, rig))
    assert rig.gibs() == [20, 20, 20, 20, 20]
    assert sum(promised(rig.ledger, "kube-system-fast-node-1")) == 100 * GI


# -- a program that is gone -------------------------------------------------------------------------------------------


def checked(rig: LedgerRig, at_s: float) -> dict[str, str]:
    start = rig.clock.now() - timedelta(seconds=rig.clock.monotonic())
    return {POOLS_CHECKED_AT: rfc3339(start + timedelta(seconds=at_s))}


def test_the_clock_ends_nothing_while_nobody_looks_at_the_source_of_the_pools(rig: LedgerRig) -> None:
    """The program that keeps them was killed: they would show the room of the volume for ever."""
    rig.put(kept("100Gi", "100Gi,100Gi", 0, rig, **checked(rig, 40)))
    for _ in range(5):
        rig.wait(70)
        assert rig.gibs() == [20]
    # It is back, and its source says what it said: a thin volume.
    rig.put(kept("100Gi", "100Gi,100Gi", 0, rig, **checked(rig, rig.clock.monotonic())))
    rig.wait(70)
    assert rig.gibs() == []


def test_a_scheduler_that_starts_while_nobody_looks_at_the_source_counts_what_was_made_since() -> None:
    rig = LedgerRig(is_down=True)
    rig.clock.advance(10)
    rig.put(kept("100Gi", "100Gi,100Gi", 0, rig, **checked(rig, 10)))
    rig.clock.advance(390)
    rig.put(made("old", rig, 395), bound("old"), made("late", rig, 200), bound("late"))
    assert rig.gibs() == [20]


def test_a_timeout_of_nothing_does_not_look_without_a_pause(rig: LedgerRig) -> None:
    rig.put(kept("100Gi", "100Gi,100Gi", 0, rig, **checked(rig, 40)))
    rig.ledger.reserve(rig.storage.capacities["kube-system/fast-node-1"], rig.pod("web", "data"), [], 0.0)
    rig.wait(70)
    next_s = next_expiry_at(rig.ledger)
    assert next_s is not None
    assert next_s > rig.clock.monotonic()


def test_a_time_that_is_ahead_of_the_server_is_when_it_was_written(rig: LedgerRig) -> None:
    """A program on a node whose clock is an hour ahead: what it told before the decision is not told after it."""
    before = rig.clock.now() - timedelta(seconds=15)
    told = {
        AVAILABLE_CAPACITIES: "100Gi,80Gi",
        POOLS_SOURCE: "command",
        POOLS_OBSERVED_AT: rfc3339(before + timedelta(hours=1)),
    }
    meta = {"annotations": told, "managedFields": [{"time": rfc3339(before)}]}
    rig.put(capacity("fast", "node-1", "100Gi", metadata=meta))
    assert rig.gibs() == [20]


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01T00:00:00Z"])
def test_a_time_that_is_none_is_when_it_was_written(text: str) -> None:
    written_at = [{"time": "2026-09-01T07:10:00Z"}]
    told = {AVAILABLE_CAPACITIES: "1Gi", POOLS_SOURCE: "nodes", POOLS_OBSERVED_AT: text, POOLS_CHECKED_AT: text}
    found = capacity("fast", "node-1", "1Gi", metadata={"annotations": told, "managedFields": written_at})
    assert found.figures_at == found.metadata.updated_at
    assert not found.is_unchecked_since(found.metadata.updated_at or pytest.fail("it was written"))


# -- mode Object ------------------------------------------------------------------------------------------------------


def test_an_object_stays_reserved_while_its_pools_are_the_same() -> None:
    cluster = Cluster(VirtualClock())
    cluster.storage.put(kept("100Gi", "100Gi,100Gi", 0))
    reservations = add_indexes(cluster).index(Reservations)
    cluster.storage.put(claim("data", "20Gi"))
    planned = cluster.storage.claims.get("default/data")
    assert planned is not None
    cluster.storage.claims.assume(asking_for(planned, "node-1"))
    reservations.reserve(
        cluster.storage.capacities["kube-system/fast-node-1"], PodInfo(pod_with("web", "data")), [planned]
    )

    def is_reserved() -> bool:
        return reservations.is_reserved(cluster.storage.capacities["kube-system/fast-node-1"])

    assert is_reserved()
    cluster.storage.put(kept("80Gi", "100Gi,100Gi", 0))
    assert is_reserved()
    cluster.storage.put(kept("80Gi", "100Gi,80Gi", 5))
    assert not is_reserved()


class ObjectRig(LedgerRig):
    """The same cluster, in mode Object, and a pod with two claims of 20Gi on its way to node-1."""

    def __init__(self) -> None:
        super().__init__(is_down=True)
        self.put(kept("100Gi", "100Gi,100Gi", 0, self))
        self.reservations = add_indexes(self.cluster).index(Reservations)
        self.clock.advance(50)
        pod = self.pod("web", "data", "logs")
        planned = [self.claim(key) for key in pod.claim_keys]
        for each in planned:
            self.storage.claims.assume(asking_for(each, "node-1"))
        self.reservations.reserve(self.storage.capacities["kube-system/fast-node-1"], pod, planned)
        self.put(written("data"), written("logs"))

    @property
    def is_reserved(self) -> bool:
        return self.reservations.is_reserved(self.storage.capacities["kube-system/fast-node-1"])

    def make(self, name: str) -> None:
        self.clock.advance(10)
        self.put(made(name, self, 0), bound(name))


def test_pools_that_show_one_of_two_volumes_do_not_set_an_object_free() -> None:
    rig = ObjectRig()
    rig.make("data")
    rig.put(kept("80Gi", "100Gi,80Gi", 62, rig))
    assert rig.is_reserved
    rig.make("logs")
    rig.put(kept("80Gi", "100Gi,80Gi", 65, rig))  # told before it was made
    assert rig.is_reserved
    rig.put(kept("80Gi", "80Gi,80Gi", 72, rig))
    assert not rig.is_reserved


def test_pools_told_after_all_volumes_set_an_object_free_whatever_they_say() -> None:
    rig = ObjectRig()
    rig.make("data")
    rig.make("logs")
    rig.clock.advance(5)
    rig.put(kept("80Gi", "100Gi,100Gi", 72, rig))
    assert not rig.is_reserved


def test_pools_that_come_or_go_do_not_set_an_object_free() -> None:
    rig = ObjectRig()
    rig.make("data")
    metadata = {"managedFields": [{"time": rfc3339(rig.clock.now())}]}
    rig.put(capacity("fast", "node-1", "60Gi", metadata=metadata))
    assert rig.is_reserved
    rig.put(capacity("fast", "node-1", "59Gi", metadata=metadata))
    assert not rig.is_reserved  # as the KEP has it


def test_the_clock_sets_no_object_free_while_nobody_looks_at_its_source() -> None:
    rig = ObjectRig()
    rig.put(kept("100Gi", "100Gi,100Gi", 0, rig, **checked(rig, 40)))
    rig.make("data")
    rig.make("logs")
    for _ in range(3):
        rig.clock.advance(70)
        rig.reservations.expire(rig.clock.monotonic())
        assert rig.is_reserved
    rig.put(kept("100Gi", "100Gi,100Gi", 0, rig, **checked(rig, rig.clock.monotonic())))
    rig.clock.advance(70)
    rig.reservations.expire(rig.clock.monotonic())
    assert not rig.is_reserved
