"""Who is expected on which node before being bound there, and for whom room is held.

A nomination comes from a preemption that is making room, from the API (`NominationRules.told`), or is the scheduler's
own choice on its way to the API. Pods of equal or lower priority leave room for a nominated pod, as if it ran there.

    nominated ──► holds ──── tried there and refused, nothing on its way out that helps ────► let go
                    ▲                                                                           │
                    └── something happened, and the node would take it · nominated anew ────────┘

A nomination holds what can still come true; none is forgotten, for the field in the API is never cleared (KEP-5278).
Every nomination that holds room is tried, is about to be, or has its room made: else it would keep others out for
nothing. Among equals on one node those go first whose volumes are there or are being made there, and then the one that
was nominated first; with `is_ordered` off every one leaves room for every other, as upstream has it. A node that does
not exist (yet) may be nominated, and counts for nobody until it appears.

`FailedNodes` are the nodes that failed a pod after it was decided to go there:

    failed once: 15 s · twice: 30 s · 1 min · from then on 2 min.   No failure for ten minutes: forgotten

Where what a node and its driver say is not true, the best-scored node would be chosen, and fail, for ever. So for a
while the pod passes the node over if any other fits. A volume that could not be attached counts for all pods of the
controller: they are made anew with other uids, and often with other claims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from tonnage.backoff import exponential_s
from tonnage.clock import Clock, rfc3339
from tonnage.objects.core_v1 import Pod
from tonnage.objects.storage_v1 import attachment_name
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.cluster.storage import Storage
from tonnage.scheduling.events import ASSIGNED_POD_DELETE, ActionType, ClusterEvent, pod_events
from tonnage.scheduling.queue.queued_pod import QueuedPod, uid_of
from tonnage.scheduling.queue.queueing_hints import PreCheck
from tonnage.scheduling.queue.unschedulable_pods import UnschedulablePool

FIRST_S: Final = 15.0
"""Longer than the longest backoff of a pod (10 s), or it would be over when the pod is tried next."""
MAX_S: Final = 120.0
FORGOTTEN_AFTER_S: Final = 600.0


@dataclass(slots=True)
class NodeFailure:
    """What became of one pod, or of the pods of one controller, on one node."""

    times: int
    why: str
    """The last failure, in a few words."""
    until_s: float
    """Until when the node is passed over, by the clock's `monotonic()`."""
    until: datetime
    """The same, for people."""

    @property
    def told(self) -> str:
        times = "once" if self.times == 1 else f"{self.times} times"
        return f"failed the pod {times} after the decision, passed over until {rfc3339(self.until)}: {self.why}"


class FailedNodes:
    """Failures by pod or controller, and node."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: dict[str, dict[str, NodeFailure]] = {}

    def pod_failed(self, pod: Pod, node_name: str, why: str) -> NodeFailure:
        """A pod did not get to the node that it was sent to."""
        return self._failed(uid_of(pod), node_name, why)

    def pod_gone(self, pod: Pod, storage: Storage) -> None:
        """A pod with a node is gone. If a volume could not be attached there, its successors are to know."""
        controller = pod.metadata.controller
        if controller is not None and (refusal := refused_attachment(pod, storage)):
            self._failed(controller.uid, pod.spec.node_name, refusal)

    def _failed(self, whose: str, node_name: str, why: str) -> NodeFailure:
        by_node = self._failures.setdefault(whose, {})
        times = by_node[node_name].times + 1 if node_name in by_node else 1
        while_s, clock = exponential_s(FIRST_S, times - 1, max_s=MAX_S), self._clock
        failure = NodeFailure(times, why, clock.monotonic() + while_s, clock.now() + timedelta(seconds=while_s))
        by_node[node_name] = failure
        return failure

    def passed_over(self, pod: Pod) -> Mapping[str, str]:
        """The nodes that others are preferred to now, for this pod; each with why, in a sentence."""
        if not self._failures:
            return {}
        now_s, controller = self._clock.monotonic(), pod.metadata.controller
        found: dict[str, NodeFailure] = {}
        for whose in (uid_of(pod), controller.uid if controller is not None else ""):
            for node_name, failure in self._failures.get(whose, {}).items():
                known = found.get(node_name)
                if failure.until_s > now_s and (known is None or known.until_s < failure.until_s):
                    found[node_name] = failure
        return {node_name: failure.told for node_name, failure in found.items()}

    def listed(self) -> Iterator[tuple[str, str, NodeFailure]]:
        """Uid of the pod or controller, node, and failure, of all that are passed over now."""
        now_s = self._clock.monotonic()
        for whose, by_node in self._failures.items():
            for node_name, failure in by_node.items():
                if failure.until_s > now_s:
                    yield whose, node_name, failure

    def remember(self, whose: str, node_name: str, times: int, why: str, until: datetime) -> None:
        """Know what another scheduler of the same cluster knows."""
        left_s = (until - self._clock.now()).total_seconds()
        failure = NodeFailure(times, why, self._clock.monotonic() + left_s, until)
        self._failures.setdefault(whose, {})[node_name] = failure

    def expire(self, now_s: float) -> None:
        """Forget what is long past, so that nothing stays behind of pods that are gone."""
        for whose, by_node in list(self._failures.items()):
            left = {name: each for name, each in by_node.items() if now_s <= each.until_s + FORGOTTEN_AFTER_S}
            if left:
                self._failures[whose] = left
            else:
                del self._failures[whose]

    def __len__(self) -> int:
        return sum(map(len, self._failures.values()))


def refused_attachment(pod: Pod, storage: Storage) -> str:
    """Why a volume of a pod could not be attached to its node, as far as VolumeAttachments say; else empty."""
    for name in pod.claim_names():
        claim = storage.claims.get(f"{pod.namespace}/{name}")
        volume = storage.volumes.get(claim.spec.volume_name) if claim is not None else None
        if volume is None or volume.spec.csi is None:
            continue
        source = volume.spec.csi
        found = storage.attachments.get(attachment_name(source.volume_handle, source.driver, pod.spec.node_name))
        if found is not None and not found.status.attached and found.status.attach_error is not None:
            return f"volume {volume.name} could not be attached: {found.status.attach_error.message}"
    return ""


@dataclass(slots=True, eq=False)
class Nomination:
    """One pod that is expected on one node."""

    info: PodInfo
    node: str
    since: datetime
    """When it was first heard of here; who wrote it may have done so before."""
    holds: bool = True
    """Room is left for it. False from a refusal there until it may come true again."""
    is_selected: bool = False
    """Its volume was made there, or is being made: a claim says so."""


_NOBODY: Final[dict[str, Nomination]] = {}


def nominated_to(pod: Pod, node_name: str) -> Pod:
    """The pod as the API would show it if it were nominated to this node and waited; it may have got another node."""
    if pod.status.nominated_node_name == node_name and not pod.spec.node_name:
        return pod
    spec = msgspec.structs.replace(pod.spec, node_name="") if pod.spec.node_name else pod.spec
    status = msgspec.structs.replace(pod.status, nominated_node_name=node_name)
    return msgspec.structs.replace(pod, spec=spec, status=status)


class NominationRules:
    """What the nominator asks about the cluster. The engine answers; this base class knows the pod alone."""

    def told(self, pod: Pod) -> str:
        """Where the API says that a pod is expected; "" for nowhere."""
        return pod.status.nominated_node_name

    def is_selected(self, pod: Pod, node_name: str) -> bool:
        """Whether a claim of the pod says that its volume was made on this node, or is being made."""
        return False

    def can_come_true(self, pod: PodInfo, node_name: str) -> bool:
        """Of a pod that was let go and is to be tried again: would the node it is nominated to take it?"""
        return False

    def admits(self, pod: PodInfo, node_name: str) -> bool:
        """Of a pod that gates keep from being tried: may it run on the node it is nominated to?"""
        return True


class Nominator:
    """Nominated pods by node name, in the order they were nominated; a pod has at most one node.

    `pool` has the unschedulable pods of the queue. `newest` gives a pod that waits or is in flight, by its uid.
    `activate` has pods tried now, whatever they wait for; `wake` tells all that wait of an event.
    """

    def __init__(
        self,
        clock: Clock,
        pool: UnschedulablePool,
        *,
        is_ordered: bool,
        newest: Callable[[str], Pod | None],
        activate: Callable[[Iterable[Pod]], None],
        wake: Callable[[ClusterEvent, Pod, None, PreCheck], None],
    ) -> None:
        self.rules = NominationRules()
        self.failed_nodes = FailedNodes(clock)
        self._clock = clock
        self._pool = pool
        self._is_ordered = is_ordered
        self._newest = newest
        self._activate = activate
        self._wake = wake
        self._by_node: dict[str, dict[str, Nomination]] = {}
        self._node_of: dict[str, str] = {}

    # -- the API's word, and ours -------------------------------------------------------------------------------------

    def nominate(self, pod: Pod, node_name: str | None = None) -> None:
        """Expect the pod on a node, and on no other. None takes what the API says; "" expects it nowhere.

        It holds its room there. One that was expected there before keeps its place among the others.
        """
        wanted = self.rules.told(pod) if node_name is None else node_name
        before = self.get(pod)
        if before is not None and before.node == wanted:
            before.info, before.holds = PodInfo(pod), True
            before.is_selected = self.rules.is_selected(pod, wanted)
            return
        self.remove(pod)
        if wanted:
            info, is_selected = PodInfo(pod), self.rules.is_selected(pod, wanted)
            self._node_of[info.uid] = wanted
            nomination = Nomination(info, wanted, self._clock.now(), is_selected=is_selected)
            self._by_node.setdefault(wanted, {})[info.uid] = nomination

    def expect(self, pod: Pod, node_name: str | None = None) -> None:
        """As `nominate`, for a pod that still waits: one that is gone or has its node is expected nowhere.

        Others that left room for it where it was expected before are tried again.
        """
        known = self._newest(uid_of(pod))
        if known is not None:
            before = self.node_of(pod)
            self.nominate(known, node_name)
            self._sign_again(uid_of(known))
            if before not in ("", self.node_of(pod)):
                self.room_was_given_up(known, before, but_not_for=uid_of(known))

    def update(self, pod: Pod, was_told: str) -> bool:
        """A pod or a claim of its changed in the API, which expected the pod on `was_told` before. A new word of the
        API counts, also if it takes the old one back. True if it names another node than is known here.

        If the word is the same, ours stays as it is: it is on its way there. (Upstream falls back to the API's old
        one.)
        """
        known, told = self.get(pod), self.rules.told(pod)
        if told != was_told and (known is None or known.node != told or not known.holds):
            self.nominate(pod, told)
            return bool(told)
        if known is not None:
            known.info, known.is_selected = PodInfo(pod), self.rules.is_selected(pod, known.node)
        return False

    def told_otherwise(self, uid: str, was_told: str) -> None:
        """The API's word on where a waiting pod is expected was `was_told`; it may be another now.

        A new one is tried at once, for it holds room. Pods that left room where it was expected are tried again, also
        if it asks for less than before.
        """
        pod = self._newest(uid)
        if pod is None:
            return
        before = self.get(pod)
        known, expected_on = (before.info.pod, before.node) if before is not None else (None, "")
        is_news = self.update(pod, was_told)
        self._sign_again(uid)
        self._judge_gated(self._pool.get(uid))
        if known is not None and (expected_on != self.node_of(pod) or _asks_for_less(known, pod)):
            self.room_was_given_up(known, expected_on)
        if is_news:
            self._activate((pod,))

    # -- what becomes of the pod --------------------------------------------------------------------------------------

    def remove(self, pod: Pod) -> None:
        """The pod is gone, bound, or assumed to be: it is expected nowhere."""
        uid = uid_of(pod)
        node_name = self._node_of.pop(uid, "")
        if node_name:
            expected = self._by_node[node_name]
            del expected[uid]
            if not expected:
                del self._by_node[node_name]

    def assumed(self, pod: Pod, node_name: str) -> None:
        """The pod is on its way to a node. It is counted there from now on, and expected nowhere."""
        expected_on = self.node_of(pod)
        if expected_on:
            self.remove(pod)
            if expected_on != node_name:
                self.room_was_given_up(pod, expected_on, but_not_for=uid_of(pod))

    def let_go(self, pod: Pod) -> None:
        """The pod was refused where it is expected: no room is held for it there. Those that left it are tried again.

        It stays expected, and holds again when it is woken and its node would take it (`can_come_true`).
        """
        nomination = self.get(pod)
        if nomination is not None and nomination.holds:
            nomination.holds = False
            self.room_was_given_up(pod, nomination.node, but_not_for=uid_of(pod))

    def hold(self, pod: Pod) -> None:
        """Leave room again for a pod that was let go."""
        nomination = self.get(pod)
        if nomination is not None:
            nomination.holds = True

    def queued(self, queued: QueuedPod, *, is_news: bool) -> None:
        """A pod was put somewhere. With `is_news` it is to be tried: if it was let go, it holds if it would fit now."""
        if not self._node_of:
            return
        self._judge_gated(queued)
        nomination = self.get(queued.pod) if is_news else None
        if nomination is not None and not nomination.holds:
            nomination.holds = self.rules.can_come_true(queued.info, nomination.node)

    def release(self, node_name: str, *, below: int) -> tuple[PodInfo, ...]:
        """Expect no pod of lower priority than `below` on a node any more; who they were. They are tried again, and
        whoever left room for them. A gated one is not tried: it stays expected.
        """
        lesser = tuple(each for each in self.pods_on(node_name) if each.priority < below)
        tried = [each for each in lesser if (waiting := self._pool.get(each.uid)) is None or not waiting.is_gated]
        for each in tried:
            self.remove(each.pod)
        self._activate(each.pod for each in tried)
        for each in tried:
            self.room_was_given_up(each.pod, node_name, but_not_for=each.uid)
        return lesser

    def node_changed(self, node_name: str, *, is_new: bool) -> None:
        """A node came, or changed. Pods that are expected on one that came are tried at once; gated ones are judged."""
        expected = self.pods_on(node_name)
        for each in expected:
            self._judge_gated(self._pool.get(each.uid))
        if is_new:
            self._activate(each.pod for each in expected)

    def room_was_given_up(self, pod: Pod, node_name: str, *, but_not_for: str = "") -> None:
        """For pods of its priority or lower, a nominated pod is as good as there; now it is as good as deleted."""
        pod = nominated_to(pod, node_name)  # hints ask it where it was expected, and the API may not know

        def may_be_helped(other: Pod) -> bool:
            return other.spec.priority <= pod.spec.priority and uid_of(other) != but_not_for

        self._wake(ASSIGNED_POD_DELETE, pod, None, may_be_helped)

    def _judge_gated(self, queued: QueuedPod | None) -> None:
        """A pod that gates keep from being tried holds room only where it may run."""
        if queued is None or not queued.is_gated or queued.attempts or not self.has(queued.pod):
            return
        if self.rules.admits(queued.info, self.node_of(queued.pod)):
            self.hold(queued.pod)
        else:
            self.let_go(queued.pod)

    def _sign_again(self, uid: str) -> None:
        """Where a pod is nominated has changed: one that is, is like no other."""
        waiting = self._pool.get(uid)
        if waiting is not None:
            self._pool.sign_again((waiting,))

    # -- looking in ---------------------------------------------------------------------------------------------------

    def get(self, pod: Pod) -> Nomination | None:
        uid = uid_of(pod)
        return self._by_node.get(self._node_of.get(uid, ""), _NOBODY).get(uid)

    def has(self, pod: Pod) -> bool:
        return bool(self._node_of) and uid_of(pod) in self._node_of

    def node_of(self, pod: Pod) -> str:
        """Where the pod is expected; "" for nowhere."""
        return self._node_of.get(uid_of(pod), "")

    def on(self, node_name: str) -> tuple[Nomination, ...]:
        """The nominations to a node, the first that was made first."""
        return tuple(self._by_node.get(node_name, _NOBODY).values())

    def pods_on(self, node_name: str) -> tuple[PodInfo, ...]:
        return tuple(nomination.info for nomination in self.on(node_name))

    def ahead_of(self, pod: PodInfo) -> Iterator[tuple[str, PodInfo]]:
        """(node, pod expected there) for all that this pod has to leave room for: others, of its priority or higher.

        On the node where it is expected itself, those of its priority that go after it do not count.
        """
        for node_name, expected in self._by_node.items():
            mine = expected.get(pod.uid) if self._is_ordered else None
            is_later = False
            for uid, other in expected.items():
                if uid == pod.uid:
                    is_later = True
                    continue
                goes_after = mine is not None and (
                    is_later if other.is_selected == mine.is_selected else mine.is_selected
                )
                priority = other.info.priority
                if other.holds and (priority > pod.priority or (priority == pod.priority and not goes_after)):
                    yield node_name, other.info

    def __iter__(self) -> Iterator[Nomination]:
        """All nominations, by node in the order they were made."""
        for expected in self._by_node.values():
            yield from expected.values()

    def __len__(self) -> int:
        """How many pods are nominated; 0 lets a decision skip the matter."""
        return len(self._node_of)


def _asks_for_less(before: Pod, now: Pod) -> bool:
    return before is not now and any(
        event.action is ActionType.UPDATE_POD_SCALE_DOWN for event in pod_events(before, now)
    )
