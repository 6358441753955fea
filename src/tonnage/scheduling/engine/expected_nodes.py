"""Where the API says that a waiting pod is expected: by its nomination, or by what was written to its claims.

    an unbound claim has a selected-node      there: it can go nowhere else, and its volume is being made there
    else, status.nominatedNodeName            there
    else, a volume is being rebuilt on a node there
    else                                      nowhere

So a scheduler that was restarted holds the room of pods that are on their way, whether or not their nominations were
written, and gives it to nobody else. Nothing is remembered beside the API's objects but which pods wait for which
claim. Claims that name different nodes say nothing, nor does a claim that is being deleted. A claim that is bound to a
volume which is not being rebuilt says nothing either: its selected-node is where the volume was made, once.

What is held for an expected pod, and until when, is the queue's `nominator`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key, Object
from tonnage.scheduling.cluster.storage import Storage
from tonnage.scheduling.events import claims_named
from tonnage.scheduling.queue.queued_pod import uid_of
from tonnage.scheduling.queue.scheduling_queue import SchedulingQueue
from tonnage.scheduling.volumes.rebuilds import is_on_its_way


class ExpectedNodes:
    """The API's word on waiting pods, for the queue's nominator. `reads_claims` is the gate
    NominatedNodeNameForExpectation: without it nominations alone count, as upstream has it.
    """

    def __init__(
        self, storage: Storage, queue: SchedulingQueue, is_assumed: Callable[[str], bool], *, reads_claims: bool
    ) -> None:
        self._storage = storage
        self._queue = queue
        self._is_assumed = is_assumed
        self._reads_claims = reads_claims
        self._waiting: dict[Key, set[str]] = {}  # the uids of pods, by claim
        queue.nominator.told, queue.nominator.is_selected = self.told, self.is_selected

    def told(self, pod: Pod) -> str:
        """The node that the API says; "" for none."""
        nominated = pod.status.nominated_node_name
        if not self._reads_claims or not pod.spec.volumes:
            return nominated
        claims = self._claims(pod)
        selected = _only(claim.selected_node for claim in claims if not claim.is_bound)
        return selected or nominated or _only(claim.selected_node for claim in claims if self._is_rebuilt(claim))

    def is_selected(self, pod: Pod, node_name: str) -> bool:
        """Whether one of its claims says this node, bound or not."""
        if not self._reads_claims or not pod.spec.volumes:
            return False
        return any(claim.selected_node == node_name for claim in self._claims(pod))

    def _claims(self, pod: Pod) -> list[PersistentVolumeClaim]:
        """Those with a selected-node."""
        found = (self._storage.claims.api(key) for key in claims_named(None, pod))
        return [each for each in found if each is not None and each.selected_node and not each.metadata.is_terminating]

    def _is_rebuilt(self, claim: PersistentVolumeClaim) -> bool:
        volume = self._storage.volumes.api(claim.spec.volume_name) if claim.is_bound else None
        return volume is not None and is_on_its_way(claim, volume)

    # -- pods and claims that come, change and go ---------------------------------------------------------------------

    def waits(self, pod: Pod) -> None:
        """A pod without a node is there."""
        for key in claims_named(None, pod) if self._reads_claims else ():
            self._waiting.setdefault(key, set()).add(uid_of(pod))

    def left(self, pod: Pod) -> None:
        """It has its node, or is gone."""
        for key in claims_named(None, pod) if self._waiting else ():
            waiting = self._waiting.get(key, set())
            waiting.discard(uid_of(pod))
            if not waiting:
                self._waiting.pop(key, None)

    @contextmanager
    def changing(self, old: Object | None, new: Object | None) -> Iterator[None]:
        """A claim or a volume changes in the block: pods that mount it may be expected elsewhere after it.

        One that is assumed is on its way already; if it comes back, it is asked anew where it is expected.
        """
        uids: set[str] = set()
        if self._waiting and isinstance(new or old, PersistentVolumeClaim | PersistentVolume):
            uids.update(*(self._waiting.get(key, ()) for key in claims_named(old, new)))
        before = {uid: self.told(pod) for uid in uids if not self._is_assumed(uid) and (pod := self._queue.newest(uid))}
        yield
        for uid, was_told in before.items():
            self._queue.expected.told_otherwise(uid, was_told)


def _only(names: Iterable[str]) -> str:
    """The one node that is named; "" when there is none, or several."""
    found = set(names)
    return found.pop() if len(found) == 1 else ""
