"""Who is expected on which node before being bound there, and for whom room is held.

A nomination comes from a preemption that is making room, from the API (`status.nominatedNodeName`, written by whoever,
or a claim's selected-node: `engine/expected_nodes.py`), or is the scheduler's own choice on its way to the API. Memory
and API may differ for a while, and memory is what decisions use: pods of equal or lower priority leave room for a pod
nominated to a node, as if it ran there.

    nominated ──► holds ──── tried there and refused, nothing on its way out that helps ────► let go
                    ▲                                                                           │
                    └── something happened, and the node would take it · nominated anew ────────┘

A nomination holds what can still come true. Which pods are let go, and which may hold again, is for the queue and the
engine to say (`ExpectedPods.let_go`); none is forgotten, for the field in the API is never cleared (KEP-5278). Among
equals on one node those go first whose volumes are there or are being made there, and then the one that was nominated
first: the later ones leave room for it and it leaves none for them, so that they do not wait for each other in a
circle. With `is_ordered` off every one leaves room for every other, as upstream has it.

A nomination may name a node that does not exist (yet). It is kept like any other and counts for nobody until the node
appears. Nothing is kept for a pod that is gone, nor for a node that nobody is nominated to. Mirrors upstream's
nominator; who may still be nominated, the queue knows (`ExpectedPods.nominate`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from tonnage.clock import Clock
from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.queue.queued_pod import uid_of


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


class Nominator:
    """Nominated pods by node name, in the order they were nominated; a pod has at most one node."""

    def __init__(self, clock: Clock, *, is_ordered: bool = False) -> None:
        self.told: Callable[[Pod], str] = lambda pod: pod.status.nominated_node_name
        """Where the API says that a pod is expected; "" for nowhere."""
        self.is_selected: Callable[[Pod, str], bool] = lambda pod, node_name: False
        """Whether a claim of the pod says that its volume was made on this node, or is being made."""
        self._clock = clock
        self._is_ordered = is_ordered
        self._by_node: dict[str, dict[str, Nomination]] = {}
        self._node_of: dict[str, str] = {}

    def nominate(self, pod: Pod, node_name: str | None = None) -> None:
        """Expect the pod on a node, and on no other. None takes what the API says; "" expects it nowhere.

        It holds its room there. One that was expected there before keeps its place among the others.
        """
        wanted = self.told(pod) if node_name is None else node_name
        before = self.get(pod)
        if before is not None and before.node == wanted:
            before.info, before.holds = PodInfo(pod), True
            before.is_selected = self.is_selected(pod, wanted)
            return
        self.remove(pod)
        if wanted:
            info = PodInfo(pod)
            self._node_of[info.uid] = wanted
            nomination = Nomination(info, wanted, self._clock.now(), is_selected=self.is_selected(pod, wanted))
            self._by_node.setdefault(wanted, {})[info.uid] = nomination

    def update(self, pod: Pod, was_told: str) -> bool:
        """The pod, or a claim of its, was changed in the API, whose word on where it is expected was `was_told`. If the
        word is another now, it counts, also when it is taken back. True when it names a node that is news here.

        If it is the same, or says what is known here, ours stays as it is: it is on its way there. (Upstream keeps ours
        only while the API knows of none, and falls back to the API's old one otherwise, until the new one arrives.)
        """
        known, told = self.get(pod), self.told(pod)
        if told != was_told and (known is None or known.node != told or not known.holds):
            self.nominate(pod, told)
            return bool(told)
        if known is not None:
            known.info, known.is_selected = PodInfo(pod), self.is_selected(pod, known.node)
        return False

    def remove(self, pod: Pod) -> None:
        """The pod is gone, bound, or assumed to be: it is no longer expected but there, or not at all."""
        uid = uid_of(pod)
        node_name = self._node_of.pop(uid, "")
        if node_name:
            expected = self._by_node[node_name]
            del expected[uid]
            if not expected:
                del self._by_node[node_name]

    def let_go(self, pod: Pod) -> bool:
        """Leave no room for the pod where it is expected, until `hold`; whether there was any until now."""
        found = self.get(pod)
        if found is None or not found.holds:
            return False
        found.holds = False
        return True

    def hold(self, pod: Pod) -> None:
        """Leave room again for a pod that was let go."""
        found = self.get(pod)
        if found is not None:
            found.holds = True

    # -- looking in ---------------------------------------------------------------------------------------------------

    def get(self, pod: Pod) -> Nomination | None:
        uid = uid_of(pod)
        return self._by_node.get(self._node_of.get(uid, ""), _NOBODY).get(uid)

    def has(self, pod: Pod) -> bool:
        """Whether the pod is expected somewhere."""
        return bool(self._node_of) and uid_of(pod) in self._node_of

    def node_of(self, pod: Pod) -> str:
        """Where the pod is expected; "" for nowhere."""
        return self._node_of.get(uid_of(pod), "")

    def on(self, node_name: str) -> tuple[Nomination, ...]:
        """The nominations to a node, the first that was made first."""
        return tuple(self._by_node.get(node_name, _NOBODY).values())

    def pods_on(self, node_name: str) -> tuple[PodInfo, ...]:
        """Who is expected on a node."""
        return tuple(each.info for each in self.on(node_name))

    def ahead_of(self, pod: PodInfo) -> Iterator[tuple[str, PodInfo]]:
        """(node, pod expected there) for all that this pod has to leave room for: others, of its priority or higher.

        On the node where it is expected itself, those of its priority that go after it do not count.
        """
        for node_name, expected in self._by_node.items():
            mine = expected.get(pod.uid) if self._is_ordered else None
            is_later = False
            for uid, each in expected.items():
                if uid == pod.uid:
                    is_later = True
                    continue
                goes_after = mine is not None and (
                    is_later if each.is_selected == mine.is_selected else mine.is_selected
                )
                priority = each.info.priority
                if each.holds and (priority > pod.priority or (priority == pod.priority and not goes_after)):
                    yield node_name, each.info

    def __iter__(self) -> Iterator[Nomination]:
        """All nominations, by node in the order they were made."""
        for expected in self._by_node.values():
            yield from expected.values()

    def __len__(self) -> int:
        """How many pods are nominated; 0 lets a decision skip the matter."""
        return len(self._node_of)
