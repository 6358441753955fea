"""Pods that were failed for want of an attach slot: when they are made again, and when they go."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from support.virtual_clock import VirtualClock
from tonnage.behaviour.workloads.pod_states import FORGET_S, KEEP_S, RejectedPods, interval_s
from tonnage.clock import rfc3339
from tonnage.objects.core_v1 import Pod
from tonnage.testing.builders import pod

OWNER = "default/web"


class RejectedPodsRig:
    """An owner whose every pod is sent to a node and rejected there."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.rejected = RejectedPods(self.clock)
        self.pods: list[Pod] = []
        self.made = 0
        self.why = {"reason": "VolumeAttachmentLimitExceeded"}

    def make(self, node: str = "node-1", *, age_s: float = 0.0, running: bool = False) -> Pod:
        self.made += 1
        created = rfc3339(self.clock.now() - timedelta(seconds=age_s))
        status = {"phase": "Running"} if running else {"phase": "Failed", **self.why}
        name = f"web-{self.made}"
        made = pod(name, on=node, status=status, metadata={"uid": f"uid-{name}", "creationTimestamp": created})
        self.pods.append(made)
        return made

    def observe(self) -> None:
        self.rejected.observe(OWNER, self.pods)
        for each in self.rejected.to_delete(OWNER, self.pods):
            self.pods.remove(each)

    def reject(self, node: str = "node-1") -> float:
        """Have a pod made and rejected at once; how long until the next may be made."""
        self.make(node)
        self.observe()
        waited_s = 0.0
        while self.rejected.held_back(OWNER):
            step_s = self.rejected.next_check_s(OWNER)
            assert step_s is not None
            self.clock.advance(step_s)
            waited_s += step_s
            self.observe()
        return waited_s


def test_the_first_is_made_again_at_once_and_the_next_after_intervals_that_double() -> None:
    rig = RejectedPodsRig()
    assert [rig.reject() for _ in range(10)] == [0, 1, 2, 4, 8, 16, 32, 64, 120, 120]


@pytest.mark.parametrize(("rejections", "seconds"), [(0, 0), (1, 0), (2, 1), (3, 2), (8, 64), (9, 120), (10_000, 120)])
def test_the_interval_is_bounded(rejections: int, seconds: float) -> None:
    assert interval_s(rejections) == seconds


def test_another_node_is_tried_at_once() -> None:
    rig = RejectedPodsRig()
    waits_s = [rig.reject(node) for node in ("node-1", "node-2", "node-3", "node-1", "node-2", "node-1")]
    assert waits_s == [0, 0, 0, 1, 1, 2]


def test_a_node_that_took_its_time_before_it_failed_the_pod_is_not_waited_for_twice() -> None:
    rig = RejectedPodsRig()
    for _ in range(4):
        rig.reject()
    # The fifth comes 8 s after the fourth at the earliest; its node held it for 6 of them.
    rig.make(age_s=6.0)
    rig.observe()
    assert (rig.rejected.held_back(OWNER), rig.rejected.next_check_s(OWNER)) == ({"web-5"}, 2.0)


def test_pods_that_are_rejected_together_lengthen_the_interval_once() -> None:
    rig = RejectedPodsRig()
    for _ in range(10):
        rig.make()
    rig.observe()
    assert rig.rejected.held_back(OWNER) == set()
    for _ in range(10):
        rig.make()
    rig.observe()
    # Each of the ten holds back the one that would take its place, all for the second interval of 1 s.
    assert len(rig.rejected.held_back(OWNER)) == 10
    assert rig.rejected.next_check_s(OWNER) == 1.0


def test_one_that_was_there_before_is_of_the_same_round_whenever_it_is_rejected() -> None:
    rig = RejectedPodsRig()
    late = rig.make(running=True)
    rig.reject()
    rig.pods[0] = msgspec.structs.replace(late, status=rig.pods[1].status)
    rig.observe()
    assert rig.rejected.held_back(OWNER) == set()


def test_one_that_runs_on_the_node_begins_anew_and_one_that_ran_before_does_not() -> None:
    rig = RejectedPodsRig()
    rig.make(running=True)
    assert [rig.reject() for _ in range(4)] == [0, 1, 2, 4]
    rig.make(running=True)
    rig.observe()
    assert [rig.reject() for _ in range(2)] == [0, 1]


def test_a_quiet_spell_begins_anew() -> None:
    rig = RejectedPodsRig()
    assert [rig.reject() for _ in range(4)] == [0, 1, 2, 4]
    rig.clock.advance(FORGET_S + 1)
    rig.observe()
    assert rig.reject() == 0


def test_the_last_one_stays_for_a_minute_and_the_others_go_at_once() -> None:
    rig = RejectedPodsRig()
    for _ in range(3):
        rig.reject()
    assert [each.name for each in rig.pods] == ["web-3"]
    rig.clock.advance(KEEP_S)
    rig.observe()
    assert rig.pods == []


def test_pods_that_failed_for_other_reasons_are_left_as_they_are() -> None:
    rig = RejectedPodsRig()
    for _ in range(3):
        rig.pods.append(pod(f"other-{len(rig.pods)}", on="node-1", status={"phase": "Failed", "reason": "Evicted"}))
        rig.observe()
    assert len(rig.pods) == 3 and rig.rejected.next_check_s(OWNER) is None


def test_an_owner_that_is_gone_is_forgotten() -> None:
    rig = RejectedPodsRig()
    for _ in range(3):
        rig.reject()
    rig.make()
    rig.observe()
    rig.rejected.forget(OWNER)
    assert rig.rejected.held_back(OWNER) == set() and rig.rejected.to_delete(OWNER, rig.pods) == []


def test_whatever_a_kubelet_rejects_a_pod_for_counts_and_pods_that_ran_do_not() -> None:
    rig = RejectedPodsRig()
    rig.why = {"reason": "OutOfcpu", "message": "Pod was rejected: Node didn't have enough resource: cpu"}
    assert [rig.reject() for _ in range(4)] == [0, 1, 2, 4]
    rig = RejectedPodsRig()
    rig.why = {"reason": "Preempting", "message": "Preempted in order to admit critical pod"}
    assert [rig.reject() for _ in range(4)] == [0, 0, 0, 0]
