"""Pods that find no attach slot are failed in rounds, at intervals that grow from one second to two minutes."""

from __future__ import annotations

from support.virtual_clock import VirtualClock
from tonnage.node.drivers import FORGET_S, MAX_S, AttachRefusals

DRIVER = "csi.example"


class AttachRefusalsRig:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.refusals = AttachRefusals(self.clock)

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def next_interval_s(self) -> float:
        """Send a pod, have it refused and failed as soon as that may be; how long it waited."""
        self.advance(0.001)
        came_s = self.clock.monotonic()
        left_s = self.refusals.wait_s(DRIVER, came_s)
        self.advance(left_s)
        assert self.refusals.wait_s(DRIVER, came_s) == 0
        self.refusals.failed(DRIVER, came_s)
        return left_s


def test_intervals_double_from_one_second_to_two_minutes() -> None:
    rig = AttachRefusalsRig()
    waits_s = [rig.next_interval_s() for _ in range(10)]
    assert [round(each) for each in waits_s] == [0, 1, 2, 4, 8, 16, 32, 64, 120, 120]


def test_pods_that_came_together_are_failed_together() -> None:
    rig = AttachRefusalsRig()
    rig.advance(1.0)
    came_s = rig.clock.monotonic()
    rig.advance(1.0)
    for _ in range(10):
        assert rig.refusals.wait_s(DRIVER, came_s) == 0
        rig.refusals.failed(DRIVER, came_s)
    # Ten pods were one round: the one that comes now waits one second, not 2^9.
    rig.advance(0.5)
    assert rig.refusals.wait_s(DRIVER, rig.clock.monotonic()) == 0.5


def test_drivers_do_not_wait_for_each_other() -> None:
    rig = AttachRefusalsRig()
    for _ in range(5):
        rig.next_interval_s()
    rig.advance(0.1)
    assert rig.refusals.wait_s("other.example", rig.clock.monotonic()) == 0


def test_an_attach_that_succeeds_begins_anew() -> None:
    rig = AttachRefusalsRig()
    for _ in range(5):
        rig.next_interval_s()
    rig.refusals.succeeded(DRIVER)
    assert [round(rig.next_interval_s()) for _ in range(3)] == [0, 1, 2]


def test_a_limit_that_changes_begins_anew_and_the_same_one_does_not() -> None:
    rig = AttachRefusalsRig()
    rig.refusals.limit_is(DRIVER, 8)
    rig.next_interval_s()
    rig.refusals.limit_is(DRIVER, 8)
    assert round(rig.next_interval_s()) == 1
    rig.refusals.limit_is(DRIVER, 1)
    assert round(rig.next_interval_s()) == 0


def test_a_quiet_spell_begins_anew() -> None:
    rig = AttachRefusalsRig()
    for _ in range(9):
        rig.next_interval_s()
    rig.advance(MAX_S + FORGET_S - 1)
    assert [round(rig.next_interval_s()) for _ in range(2)] == [0, 120]
    rig.advance(MAX_S + FORGET_S + 1)
    assert [round(rig.next_interval_s()) for _ in range(2)] == [0, 1]
