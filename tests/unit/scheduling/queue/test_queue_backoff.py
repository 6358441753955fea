"""Backoff: how long, counted from what, who may leave early, and in which order."""

from __future__ import annotations

import math

import pytest
from queue_rig import NODE_LABEL, QueueRig

from tonnage.scheduling.queue.queues import BackoffQueue, QueueName
from tonnage.scheduling.queue.waiting_pods import QueuedPod, by_priority
from tonnage.testing.builders import info, pod


def failed(name: str, *, at: float = 0, times: int = 1, errors: int = 0, priority: int = 0) -> QueuedPod:
    queued = QueuedPod(info(name, priority=priority), at, sequence=0)
    queued.unschedulable_count, queued.consecutive_errors = times, errors
    return queued


@pytest.mark.parametrize(
    ("failures", "duration_s"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10), (64, 10), (5000, 10)]
)
def test_a_backoff_doubles_from_one_second_to_ten(failures: int, duration_s: float) -> None:
    assert BackoffQueue(by_priority).until(failed("a", at=100, times=failures)) == 100 + duration_s


def test_the_first_and_the_longest_backoff_are_options() -> None:
    backoff = BackoffQueue(by_priority, initial_s=3, max_s=20)
    assert [backoff.until(failed("a", times=times)) for times in (1, 2, 3, 4)] == [3, 6, 12, 20]


def test_a_first_backoff_longer_than_the_longest_is_cut() -> None:
    assert BackoffQueue(by_priority, initial_s=30, max_s=5).until(failed("a")) == 5


def test_a_longest_backoff_of_zero_switches_it_off() -> None:
    assert BackoffQueue(by_priority, max_s=0).until(failed("a", times=9)) == -math.inf


def test_a_pod_that_never_failed_does_not_back_off() -> None:
    assert not BackoffQueue(by_priority).is_backing_off(failed("a", times=0), now_s=0)


def test_errors_count_for_themselves() -> None:
    # Refused four times (8 s), then one error: 1 s, not 16 s.
    assert BackoffQueue(by_priority).until(failed("a", times=4, errors=1)) == 1


def test_a_backoff_ends_with_its_second() -> None:
    # Failed at 0.3: due at 1.3, in the second from 1 to 2; through at 2.
    backoff, queued = BackoffQueue(by_priority), failed("a", at=0.3)
    backoff.add(queued)
    assert [backoff.is_backing_off(queued, now_s) for now_s in (0.3, 1.0, 1.99, 2.0)] == [True, True, True, False]
    assert backoff.next_completion_at() == 2
    assert backoff.pop_completed(1.99) == []
    assert backoff.pop_completed(2.0) == [queued]
    assert backoff.next_completion_at() is None


def test_within_a_second_the_more_important_pod_is_ahead() -> None:
    backoff = BackoffQueue(by_priority)
    early, late, next_second = (
        failed("early", at=0.1),
        failed("late", at=0.8, priority=5),
        failed("next", at=1, priority=9),
    )
    for queued in (next_second, early, late):
        backoff.add(queued)
    assert [backoff.pop(), backoff.pop(), backoff.pop(), backoff.pop()] == [late, early, next_second, None]


def test_a_pod_that_met_an_error_waits_its_time_out() -> None:
    backoff, queued = BackoffQueue(by_priority), failed("a", errors=1)
    backoff.add(queued)
    assert backoff.pop() is None
    assert backoff.pop_completed(2) == [queued]


# -- in the queue -----------------------------------------------------------------------------------------------------


def test_a_refused_pod_is_taken_early_when_nobody_is_active() -> None:
    rig = QueueRig()
    rig.add(pod("a"), pod("b"))
    rig.refuse("Labels")
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, None, None)
    assert rig.names(QueueName.BACKOFF) == ["a"]
    assert rig.pop_names() == ["b", "a"]
    assert rig.diary[-1] == ("a", "active", "PopFromBackoffQ")


def test_after_an_error_a_pod_backs_off_and_is_not_taken_early() -> None:
    rig = QueueRig()
    rig.add(pod("a"))
    assert rig.refuse() is QueueName.BACKOFF
    assert rig.queue.pop_nowait() is None
    rig.clock.advance(2)
    rig.queue.flush_backoff_completed(rig.clock.monotonic())
    assert rig.pop_names() == ["a"]


def test_a_flush_leaves_those_alone_whose_backoff_is_not_over() -> None:
    rig = QueueRig()
    rig.add(pod("a"), pod("b"))
    rig.refuse()
    rig.clock.advance(1)
    rig.refuse()
    # a: due at 1, through at 2.  b: due at 2, through at 3.
    assert rig.queue.next_backoff_completion_at() == 2
    rig.clock.advance(1)
    rig.queue.flush_backoff_completed(rig.clock.monotonic())
    assert (rig.names(QueueName.ACTIVE), rig.names(QueueName.BACKOFF)) == (["a"], ["b"])
    assert rig.queue.next_backoff_completion_at() == 3


def test_a_backoff_may_end_while_a_pod_is_unschedulable() -> None:
    rig = QueueRig()
    rig.park(pod("a"), "Labels")
    rig.queue.move_all_to_active_or_backoff(NODE_LABEL, None, None)
    assert rig.names(QueueName.ACTIVE) == ["a"]


def test_a_pod_that_backs_off_is_updated_in_its_place() -> None:
    rig = QueueRig()
    rig.add(pod("a"))
    rig.refuse()
    rig.queue.update(pod("a"), pod("a", labels={"app": "a"}))
    assert rig.names(QueueName.BACKOFF) == ["a"]
    rig.queue.flush_backoff_completed(2)
    assert rig.pop().info.labels == {"app": "a"}
    assert rig.pop_names() == []


def test_flushing_wakes_only_when_something_became_active() -> None:
    rig = QueueRig()
    rig.add(pod("a"))
    rig.refuse()
    wakes = rig.wakes
    rig.queue.flush_backoff_completed(1)
    assert rig.wakes == wakes
    rig.queue.flush_backoff_completed(2)
    assert rig.wakes == wakes + 1
