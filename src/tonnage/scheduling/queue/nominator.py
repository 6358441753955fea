"""Which pods are nominated to which nodes before they are bound, and for which of them room is held.

A nomination comes from a running preemption, from the API (`NominationRules.told`), or is this scheduler's choice on
its way to the API. Pods of equal or lower priority leave room for a nominated pod, as if it ran there.

    nominated ──► holds ──── tried there and refused, and no terminating pod would help ────► let go
                    ▲                                                                           │
                    └── an event came, and the node would take it · nominated anew ─────────────┘

A nomination holds room while it can come true; it is never forgotten, because the API's field is never cleared
(KEP-5278). Every nomination that holds room is being tried, will be, or its preemption runs: otherwise it would block
others for nothing. Among equals on one node, pods with volumes there go first, then earlier nominations; without
`is_ordered`, each leaves room for every other, like upstream. A node that does not exist yet may be nominated, and
counts when it appears.

`FailedNodes` are nodes that failed a pod after the decision:

    failed once: 15 s · twice: 30 s · 1 min · from then on 2 min.   No failure for ten minutes: forgotten

If a node or its driver publishes wrong figures, the best-scored node would be chosen, and fail, for ever. So for a
while the pod prefers any other node that fits. A failed attachment counts for all pods of the controller: they are
created again with other uids, and often with other claims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import msgspec

from tonnage.clock import Clock, exponential_s, rfc3339
from tonnage.keyed import Shelf
from tonnage.objects.core_v1 import Pod
from tonnage.objects.storage_v1 import attachment_name
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.cluster.storage import Storage
from tonnage.scheduling.events import ASSIGNED_POD_DELETE, ActionType, ClusterEvent, pod_events
from tonnage.scheduling.queue.waiting_pods import PreCheck, QueuedPod, UnschedulablePool, uid_of

FIRST_S: Final = 15.0
"""Longer than the longest backoff of a pod (10 s); otherwise it would have ended at the next attempt."""
MAX_S: Final = 120.0
FORGOTTEN_AFTER_S: Final = 600.0


@dataclass(slots=True)
class NodeFailure:
    """The failures of one pod, or of one controller's pods, on one node."""

    times: int
    why: str
    """The last failure, in a few words."""
    until_s: float
    """The node is avoided until then, by the clock's `monotonic()`."""
    until: datetime
    """The same as a date, for people."""

    @property
    def told(self) -> str:
        times = "once" if self.times == 1 else f"{self.times} times"
        return f"failed the pod {times} after the decision, ignored until {rfc3339(self.until)}: {self.why}"


class FailedNodes:
    """Failures by pod or controller, and node."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: Shelf[str, str, NodeFailure] = Shelf()

    def pod_gone(self, pod: Pod, storage: Storage) -> None:
        """If a volume of a deleted pod could not be attached to its node, record it for the pod's successors."""
        controller = pod.metadata.controller
        if controller is not None and (refusal := refused_attachment(pod, storage)):
            self.failed(controller.uid, pod.spec.node_name, refusal)

    def failed(self, whose: str, node_name: str, why: str) -> NodeFailure:
        """Record that a pod, or pods of a controller, did not reach the node chosen for them."""
        before = self._failures.at(whose).get(node_name)
        times = before.times + 1 if before is not None else 1
        while_s, clock = exponential_s(FIRST_S, times - 1, max_s=MAX_S), self._clock
        failure = NodeFailure(times, why, clock.monotonic() + while_s, clock.now() + timedelta(seconds=while_s))
        self._failures.put(whose, node_name, failure)
        return failure

    def passed_over(self, pod: Pod) -> Mapping[str, str]:
        """The nodes that this pod avoids now, each with a sentence saying why."""
        if not len(self._failures):
            return {}
        now_s, controller = self._clock.monotonic(), pod.metadata.controller
        found: dict[str, NodeFailure] = {}
        for whose in (uid_of(pod), controller.uid if controller is not None else ""):
            for node_name, failure in self._failures.at(whose).items():
                known = found.get(node_name)
                if failure.until_s > now_s and (known is None or known.until_s < failure.until_s):
                    found[node_name] = failure
        return {node_name: failure.told for node_name, failure in found.items()}

    def listed(self) -> Iterator[tuple[str, str, NodeFailure]]:
        """(uid of the pod or controller, node, failure) for all nodes avoided now."""
        now_s = self._clock.monotonic()
        for whose in self._failures:
            for node_name, failure in self._failures.at(whose).items():
                if failure.until_s > now_s:
                    yield whose, node_name, failure

    def remember(self, whose: str, node_name: str, times: int, why: str, until: datetime) -> None:
        """Take over a failure known to another scheduler of the same cluster."""
        left_s = (until - self._clock.now()).total_seconds()
        failure = NodeFailure(times, why, self._clock.monotonic() + left_s, until)
        self._failures.put(whose, node_name, failure)

    def expire(self, now_s: float) -> None:
        """Forget old failures, so that nothing stays of deleted pods."""
        for whose in list(self._failures):
            for node_name, failure in list(self._failures.at(whose).items()):
                if now_s > failure.until_s + FORGOTTEN_AFTER_S:
                    self._failures.take(whose, node_name)

    def __len__(self) -> int:
        return sum(len(self._failures.at(whose)) for whose in self._failures)


def refused_attachment(pod: Pod, storage: Storage) -> str:
    """Why a volume of a pod could not be attached to its node, according to VolumeAttachments; otherwise empty."""
    for key in pod.claim_keys():
        claim = storage.claims.get(key)
        volume = storage.volumes.get(claim.spec.volume_name) if claim is not None else None
        if volume is None or volume.spec.csi is None:
            continue
        source = volume.spec.csi
        attachment = storage.attachments.get(attachment_name(source.volume_handle, source.driver, pod.spec.node_name))
        if attachment is not None and not attachment.status.attached and attachment.status.attach_error is not None:
            return f"volume {volume.name} could not be attached: {attachment.status.attach_error.message}"
    return ""


@dataclass(slots=True, eq=False)
class Nomination:
    """A pod nominated to a node."""

    info: PodInfo
    node: str
    since: datetime
    """When it was first seen here; it may have been written earlier."""
    holds: bool = True
    """True while room is held. False from a refusal there until it may come true again."""


def nominated_to(pod: Pod, node_name: str) -> Pod:
    """The pod as the API would show it while nominated to this node, without its own node if it has one."""
    if pod.status.nominated_node_name == node_name and not pod.spec.node_name:
        return pod
    spec = msgspec.structs.replace(pod.spec, node_name="") if pod.spec.node_name else pod.spec
    status = msgspec.structs.replace(pod.status, nominated_node_name=node_name)
    return msgspec.structs.replace(pod, spec=spec, status=status)


class NominationRules:
    """What the nominator asks about the cluster. The engine answers; this base class only reads the pod."""

    def told(self, pod: Pod) -> str:
        """The node that the API nominates the pod to; "" for none."""
        return pod.status.nominated_node_name

    def is_selected(self, pod: Pod, node_name: str) -> bool:
        """True if a claim of the pod says that its volume was created on this node, or is being created."""
        return False

    def can_come_true(self, pod: PodInfo, node_name: str) -> bool:
        """True if the nominated node would take a pod that was let go and is about to be tried."""
        return False

    def admits(self, pod: PodInfo, node_name: str) -> bool:
        """True if a gated pod may run on its nominated node."""
        return True


@dataclass(slots=True, eq=False)
class Nominator:
    """Nominated pods by node name, in the order of nomination; a pod has at most one node.

    `pool`: the unschedulable pods of the queue. `newest`: a waiting or in-flight pod by uid. `activate` has pods tried
    now, whatever they wait for; `wake` announces an event to all waiting pods.
    """

    clock: Clock
    pool: UnschedulablePool
    is_ordered: bool
    newest: Callable[[str], Pod | None]
    activate: Callable[[Iterable[Pod]], None]
    wake: Callable[[ClusterEvent, Pod, None, PreCheck], None]
    rules: NominationRules = field(default_factory=NominationRules)
    failed_nodes: FailedNodes = field(init=False)
    _by_node: Shelf[str, str, Nomination] = field(default_factory=Shelf)
    _node_of: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.failed_nodes = FailedNodes(self.clock)

    # -- nominations of the API, and ours -----------------------------------------------------------------------------

    def nominate(self, pod: Pod, node_name: str | None = None) -> None:
        """Nominate the pod to this node only; it holds room there. None: to the API's node; "": to none. A pod that was
        nominated there before keeps its place in the order."""
        wanted = self.rules.told(pod) if node_name is None else node_name
        before = self.get(pod)
        if before is not None and before.node == wanted:
            before.info, before.holds = PodInfo(pod), True
            return
        self.remove(pod)
        if wanted:
            info = PodInfo(pod)
            self._node_of[info.uid] = wanted
            self._by_node.put(wanted, info.uid, Nomination(info, wanted, self.clock.now()))

    def expect(self, pod: Pod, node_name: str | None = None) -> None:
        """Like `nominate`, for a pod that still waits; a pod that is gone or has its node is nominated nowhere. Pods
        that left room for it on its old node are tried again."""
        known = self.newest(uid_of(pod))
        if known is not None:
            before = self.node_of(pod)
            self.nominate(known, node_name)
            self._sign_again(uid_of(known))
            if before not in ("", self.node_of(pod)):
                self.room_was_given_up(known, before, but_not_for=uid_of(known))

    def update(self, pod: Pod, was_told: str) -> bool:
        """A pod or its claim changed in the API, which said `was_told` before. True if it now says another node than
        ours.

        A new word of the API counts, even if it removes the node. If it is unchanged, our own nomination stays: it is
        being written. (Upstream returns to the API's old one.)
        """
        known, told = self.get(pod), self.rules.told(pod)
        if told != was_told and (known is None or known.node != told or not known.holds):
            self.nominate(pod, told)
            return bool(told)
        if known is not None:
            known.info = PodInfo(pod)
        return False

    def told_otherwise(self, uid: str, was_told: str) -> None:
        """The API's nomination of a waiting pod was `was_told` and may have changed.

        A new one is tried at once, because it holds room. Pods that left room on the old node are tried again, also if
        the pod requests less than before.
        """
        pod = self.newest(uid)
        if pod is None:
            return
        before = self.get(pod)
        known, expected_on = (before.info.pod, before.node) if before is not None else (None, "")
        is_news = self.update(pod, was_told)
        self._sign_again(uid)
        self._judge_gated(self.pool.get(uid))
        if known is not None:
            changes = () if known is pod else pod_events(known, pod)
            asks_for_less = any(event.action is ActionType.UPDATE_POD_SCALE_DOWN for event in changes)
            if asks_for_less or expected_on != self.node_of(pod):
                self.room_was_given_up(known, expected_on)
        if is_news:
            self.activate((pod,))

    # -- changes of the pod -------------------------------------------------------------------------------------------

    def remove(self, pod: Pod) -> None:
        """The pod is gone, bound or assumed: it is nominated nowhere."""
        self._by_node.take(self._node_of.pop(uid_of(pod), ""), uid_of(pod))

    def assumed(self, pod: Pod, node_name: str) -> None:
        """The pod is assumed on a node: it is counted there, and nominated nowhere."""
        expected_on = self.node_of(pod)
        if expected_on:
            self.remove(pod)
            if expected_on != node_name:
                self.room_was_given_up(pod, expected_on, but_not_for=uid_of(pod))

    def let_go(self, pod: Pod) -> None:
        """The nominated node refused the pod: stop holding room there, and try the pods that left it. The pod stays
        nominated, and holds room again when it is woken and its node would take it (`can_come_true`)."""
        nomination = self.get(pod)
        if nomination is not None and nomination.holds:
            nomination.holds = False
            self.room_was_given_up(pod, nomination.node, but_not_for=uid_of(pod))

    def queued(self, queued: QueuedPod, *, is_news: bool) -> None:
        """A pod was queued. `is_news`: it will be tried; if it was let go, it holds room again if it would fit now."""
        if not self._node_of:
            return
        self._judge_gated(queued)
        nomination = self.get(queued.pod) if is_news else None
        if nomination is not None and not nomination.holds:
            nomination.holds = self.rules.can_come_true(queued.info, nomination.node)

    def release(self, node_name: str, *, below: int) -> tuple[PodInfo, ...]:
        """Remove nominations of priority lower than `below` from a node. Returns their pods. These pods, and pods that
        left room for them, are tried again. A gated pod is not tried: it stays nominated."""
        lesser = tuple(pod for pod in self.pods_on(node_name) if pod.priority < below)
        tried = [pod for pod in lesser if (waiting := self.pool.get(pod.uid)) is None or not waiting.is_gated]
        for pod in tried:
            self.remove(pod.pod)
        self.activate(pod.pod for pod in tried)
        for pod in tried:
            self.room_was_given_up(pod.pod, node_name, but_not_for=pod.uid)
        return lesser

    def node_changed(self, node_name: str, *, is_new: bool) -> None:
        """A node came or changed. Pods nominated to a new node are tried at once; gated ones are judged."""
        expected = self.pods_on(node_name)
        for pod in expected:
            self._judge_gated(self.pool.get(pod.uid))
        if is_new:
            self.activate(pod.pod for pod in expected)

    def room_was_given_up(self, pod: Pod, node_name: str, *, but_not_for: str = "") -> None:
        """Pods of its priority or lower treat a nominated pod as running; announce it as deleted now."""
        pod = nominated_to(pod, node_name)  # hints read its nominated node, which the API may not have yet

        def may_be_helped(other: Pod) -> bool:
            return other.spec.priority <= pod.spec.priority and uid_of(other) != but_not_for

        self.wake(ASSIGNED_POD_DELETE, pod, None, may_be_helped)

    def _judge_gated(self, queued: QueuedPod | None) -> None:
        """A gated pod holds room only where it may run."""
        nomination = self.get(queued.pod) if queued is not None and queued.is_gated and not queued.attempts else None
        if queued is None or nomination is None:
            return
        if self.rules.admits(queued.info, nomination.node):
            nomination.holds = True
        else:
            self.let_go(queued.pod)

    def _sign_again(self, uid: str) -> None:
        """A pod's nomination changed: a nominated pod is in a class by itself."""
        waiting = self.pool.get(uid)
        if waiting is not None:
            self.pool.sign_again((waiting,))

    # -- reading ------------------------------------------------------------------------------------------------------

    def get(self, pod: Pod) -> Nomination | None:
        uid = uid_of(pod)
        return self._by_node.at(self._node_of.get(uid, "")).get(uid)

    def has(self, pod: Pod) -> bool:
        return bool(self._node_of) and uid_of(pod) in self._node_of

    def node_of(self, pod: Pod) -> str:
        """The nominated node of the pod; "" for none."""
        return self._node_of.get(uid_of(pod), "")

    def on(self, node_name: str) -> tuple[Nomination, ...]:
        """The nominations to a node, in the order they were made."""
        return tuple(self._by_node[node_name])

    def pods_on(self, node_name: str) -> tuple[PodInfo, ...]:
        return tuple(nomination.info for nomination in self.on(node_name))

    def ahead_of(self, pod: PodInfo) -> Iterator[tuple[str, PodInfo]]:
        """(node, pod nominated there) for all pods that this pod must leave room for: others of its priority or higher.
        On its own nominated node, pods of its priority that come after it do not count."""
        for node_name in self._by_node:
            expected = self._by_node.at(node_name)
            mine = expected.get(pod.uid) if self.is_ordered else None
            is_selected = mine is not None and self.rules.is_selected(mine.info.pod, node_name)
            is_later = False
            for uid, other in expected.items():
                if uid == pod.uid:
                    is_later = True
                    continue
                goes_after = mine is not None and (
                    is_later if self.rules.is_selected(other.info.pod, node_name) is is_selected else is_selected
                )
                priority = other.info.priority
                if other.holds and (priority > pod.priority or (priority == pod.priority and not goes_after)):
                    yield node_name, other.info

    def __iter__(self) -> Iterator[Nomination]:
        """All nominations, by node in the order they were made."""
        for node_name in self._by_node:
            yield from self._by_node[node_name]

    def __len__(self) -> int:
        """The number of nominated pods; with 0 a decision skips nominations."""
        return len(self._node_of)
