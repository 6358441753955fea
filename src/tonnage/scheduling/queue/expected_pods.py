"""Waiting pods that are expected on a node: what their nominations hold, and whom a change of that wakes.

    the API's word changes ──► told_otherwise ──► a new node: tried there at once
                                             └──► the old node: those that left room there are tried again
    refused there ──► let_go ──► those that left room are tried again
    to be tried again ──► queued ──► would its node take it now? ──► it holds again
    gated, so never tried ──► holds where its node admits it (labels, taints, cordon), and nowhere else

Every nomination that holds room is tried, is about to be, or has its room made: else it would keep others out for
nothing. `nominator` keeps who is expected where; which nodes take a pod, the engine says (`can_come_true`, `admits`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.events import ASSIGNED_POD_DELETE, ActionType, ClusterEvent, pod_events
from tonnage.scheduling.queue.nominator import Nominator, nominated_to
from tonnage.scheduling.queue.queued_pod import QueuedPod, uid_of
from tonnage.scheduling.queue.queueing_hints import PreCheck
from tonnage.scheduling.queue.unschedulable_pods import UnschedulablePool


class _Wake(Protocol):
    def __call__(self, event: ClusterEvent, old: Any, new: Any, pre_check: PreCheck | None = None) -> None: ...


class ExpectedPods:
    """`newest` gives a pod that waits or is in flight, by its uid. `activate` has pods tried now, whatever they wait
    for; `wake` tells all that wait of an event.
    """

    def __init__(
        self,
        nominator: Nominator,
        pool: UnschedulablePool,
        *,
        newest: Callable[[str], Pod | None],
        activate: Callable[[Iterable[Pod]], None],
        wake: _Wake,
    ) -> None:
        self._nominator = nominator
        self._pool = pool
        self._newest = newest
        self._activate = activate
        self._wake = wake
        self.can_come_true: Callable[[PodInfo, str], bool] = lambda pod, node_name: False
        """Asked about a pod that was let go when it is to be tried again: would the node it is nominated to take it?"""
        self.admits: Callable[[PodInfo, str], bool] = lambda pod, node_name: True
        """Asked about a pod that gates keep from being tried: may it run on the node it is nominated to?"""

    def told_otherwise(self, uid: str, was_told: str) -> None:
        """The API's word on where a waiting pod is expected was `was_told`; it may be another now.

        A new one is tried at once, for it holds room. Pods that left room where it was expected, by the API's word or
        by a preemption that the API does not know of yet, are tried again; so they are if it asks for less than before.
        """
        pod = self._newest(uid)
        if pod is None:
            return
        before = self._nominator.get(pod)
        known, expected_on = (before.info.pod, before.node) if before is not None else (None, "")
        is_news = self._nominator.update(pod, was_told)
        self._sign_again(uid)
        self._judge_gated(self._pool.get(uid))
        if known is not None and (expected_on != self._nominator.node_of(pod) or _asks_for_less(known, pod)):
            self.room_was_given_up(known, expected_on)
        if is_news:
            self._activate((pod,))

    def nominate(self, pod: Pod, node_name: str | None = None) -> None:
        """As Nominator.nominate, for a pod that still waits: one that is gone or has its node is expected nowhere.

        Others that left room for it where it was expected before are tried again.
        """
        known = self._newest(uid_of(pod))
        if known is not None:
            before = self._nominator.node_of(pod)
            self._nominator.nominate(known, node_name)
            self._sign_again(uid_of(known))
            if before not in ("", self._nominator.node_of(pod)):
                self.room_was_given_up(known, before, but_not_for=uid_of(known))

    def assumed(self, pod: Pod, node_name: str) -> None:
        """The pod is on its way to a node. It is counted there from now on, and expected nowhere."""
        expected_on = self._nominator.node_of(pod)
        if expected_on:
            self._nominator.remove(pod)
            if expected_on != node_name:
                self.room_was_given_up(pod, expected_on, but_not_for=uid_of(pod))

    def let_go(self, pod: Pod) -> None:
        """The pod was refused where it is expected: no room is held for it there. Those that left it are tried again.

        It stays expected. When something happens that lets it out of the unschedulable pool, and its node would take it
        then (`can_come_true`), it holds again, before anybody else is tried.
        """
        expected_on = self._nominator.node_of(pod)
        if self._nominator.let_go(pod):
            self.room_was_given_up(pod, expected_on, but_not_for=uid_of(pod))

    def queued(self, queued: QueuedPod, *, is_news: bool) -> None:
        """A pod was put somewhere. With `is_news` it is to be tried: if it was let go, it holds if it would fit now."""
        if not len(self._nominator):
            return
        self._judge_gated(queued)
        nomination = self._nominator.get(queued.pod) if is_news else None
        if nomination is not None and not nomination.holds and self.can_come_true(queued.info, nomination.node):
            self._nominator.hold(queued.pod)

    def release(self, node_name: str, *, below: int) -> tuple[PodInfo, ...]:
        """Expect no pod of lower priority than `below` on a node any more, and try those again, and whoever left room
        for them; who they were.

        A pod that comes back refused is expected again, if the API still says so. A gated one is not tried: it stays
        expected, until the API says otherwise.
        """
        lesser = tuple(each for each in self._nominator.pods_on(node_name) if each.priority < below)
        tried = [each for each in lesser if (waiting := self._pool.get(each.uid)) is None or not waiting.is_gated]
        for each in tried:
            self._nominator.remove(each.pod)
        self._activate(each.pod for each in tried)
        for each in tried:
            self.room_was_given_up(each.pod, node_name, but_not_for=each.uid)
        return lesser

    def node_changed(self, node_name: str, *, is_new: bool) -> None:
        """A node came, or changed. Pods that are expected on one that came are tried at once; gated ones are judged."""
        expected = self._nominator.pods_on(node_name)
        for each in expected:
            self._judge_gated(self._pool.get(each.uid))
        if is_new:
            self._activate(each.pod for each in expected)

    def room_was_given_up(self, pod: Pod, node_name: str, *, but_not_for: str = "") -> None:
        """For pods of its priority or lower, a nominated pod is as good as there; now it is as good as deleted."""
        pod = nominated_to(pod, node_name)  # hints ask it where it was expected, and the API may not know
        priority = pod.spec.priority
        self._wake(
            ASSIGNED_POD_DELETE,
            pod,
            None,
            pre_check=lambda other: other.spec.priority <= priority and uid_of(other) != but_not_for,
        )

    def _judge_gated(self, queued: QueuedPod | None) -> None:
        """A pod that gates keep from being tried holds room only where it may run."""
        if queued is None or not queued.is_gated or queued.attempts or not self._nominator.has(queued.pod):
            return
        if self.admits(queued.info, self._nominator.node_of(queued.pod)):
            self._nominator.hold(queued.pod)
        else:
            self.let_go(queued.pod)

    def _sign_again(self, uid: str) -> None:
        """Where a pod is nominated has changed: one that is, is like no other."""
        waiting = self._pool.get(uid)
        if waiting is not None:
            self._pool.sign_again((waiting,))


def _asks_for_less(before: Pod, now: Pod) -> bool:
    return before is not now and any(
        event.action is ActionType.UPDATE_POD_SCALE_DOWN for event in pod_events(before, now)
    )
