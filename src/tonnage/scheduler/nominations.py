"""Where a pod is expected to go, told to others before it is bound: `status.nominatedNodeName` (KEP-5278).

                                       NominatedNodeNameForExpectation
                                       on                               off
    room is made for it on X           X is written                     X is written
    it goes to X, and something        X is written, before anything    nothing
      is done before the binding       is waited for
    it goes to X and is bound at once  nothing                          nothing
    an attempt fails                   what is there stays              it is emptied, unless preemption was not tried

On, nobody's proposal is ever taken away, as the KEP has it: whoever made it sees to it. (kube-scheduler 1.36 goes on
emptying the field, with the gate on as well.) What is held for it in memory is another matter: that is the queue's
`nominator`, which lets go of what cannot come true. A node where a pod failed after the decision is passed over for a
while, nominated or not (`scheduling/engine/failed_nodes.py`). The binding itself empties the field in the API.

"Before anything is waited for" is before the first write to a claim, with one exception. In a burst of pods the
nomination may follow (`following_nominations`) if nobody misses it meanwhile: the first thing that is done
for the pod says itself where it goes (a claim's selected-node, which every scheduler that comes later keeps to), nobody
was told that the pod fits nowhere, and nobody proposed another node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from tonnage import logs
from tonnage.clock import Clock
from tonnage.errors import NotFound, TonnageError
from tonnage.objects.core_v1 import Pod
from tonnage.scheduler.following_nominations import FollowingNominations
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.queue.queued_pod import uid_of

_log = logs.logger("tonnage.scheduler")


class StatusWrites(Protocol):
    """The call of a client that changes a pod's status."""

    async def patch(self, cls: type[Pod], key: str, patch: Any, *, patch_type: Any, subresource: str) -> Pod: ...


class Nominations:
    """`is_shown` is the gate. `newest` gives a pod as the informer knows it, None when it is gone. `is_busy` says
    whether others come, too.
    """

    def __init__(
        self,
        client: StatusWrites,
        newest: Callable[[str], Pod | None],
        clock: Clock,
        *,
        is_shown: bool,
        is_busy: Callable[[], bool],
    ) -> None:
        self._client = client
        self._newest = newest
        self._is_busy = is_busy
        self.is_shown = is_shown
        self.following = FollowingNominations(self._show, clock, is_busy=is_busy)

    def withdrawn(self) -> str | None:
        """What a failed attempt makes of a nomination that did not hold: "" empties it, None leaves it alone."""
        return None if self.is_shown else ""

    async def show(self, pod: PodInfo, node_name: str, *, may_follow: bool = False) -> None:
        """Tell where the pod goes, unless that is known. A failure is nothing to stop a binding for.

        `may_follow`: what is done next says so itself; then it may be told later, and `following.over` is to be called
        before the pod is bound, or when it is not to be.
        """
        if not self.is_shown:
            return
        if may_follow and self._is_busy() and _is_fresh(self._newest(pod.key)):
            self.following.note(pod, node_name)
            await self.following.write_overdue()
        else:
            await self._show(pod, node_name)

    async def take_back(self, pods: Iterable[PodInfo]) -> None:
        """Empty the field of pods that have to give way; with the gate on it stays."""
        for pod in () if self.is_shown else pods:
            known = self._newest(pod.key)
            if known is not None and uid_of(known) == pod.uid and known.status.nominated_node_name:
                await self._write(pod, None)

    async def _show(self, pod: PodInfo, node_name: str) -> None:
        known = self._newest(pod.key)
        if known is not None and uid_of(known) == pod.uid and known.status.nominated_node_name != node_name:
            await self._write(pod, node_name)

    async def _write(self, pod: PodInfo, node_name: str | None) -> None:
        patch = {"metadata": {"uid": pod.pod.metadata.uid}, "status": {"nominatedNodeName": node_name}}
        try:
            await self._client.patch(Pod, pod.key, patch, patch_type="strategic", subresource="status")
        except NotFound:
            pass  # it was deleted meanwhile; there is nobody to tell
        except TonnageError as exc:
            _log.warning("Cannot write a nomination", pod=pod.key, node=node_name or "", error=exc.message)


def _is_fresh(pod: Pod | None) -> bool:
    """Nobody has heard anything of it: neither that it fits nowhere nor where else it might go."""
    return pod is not None and not pod.status.nominated_node_name and pod.condition("PodScheduled") is None
