"""A pod's chosen node, published before it is bound: `status.nominatedNodeName` (KEP-5278).

                                       NominatedNodeNameForExpectation
                                       on                               off
    room is made for it on X           X is written                     X is written
    it goes to X, and something        X is written, before anything    nothing
      is done before the binding       else is written or waited for
    it goes to X and is bound at once  nothing                          nothing
    an attempt fails                   what is there stays              it is emptied, unless preemption was not tried

With the gate on, no nomination is ever removed (kube-scheduler 1.36 still empties the field). The queue's `nominator`
has the room held in memory. A failed write is tried `TRIES` times while the binding waits; then the binding goes on,
and the write is retried beside it until the pod is about to be bound: a server that never accepts the write must not
keep pods from running.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from tonnage import logs
from tonnage.client.http import Client
from tonnage.client.leadership import NotLeading
from tonnage.clock import Backoff, Clock
from tonnage.errors import ApiError, Conflict, NotFound, Timeout, TonnageError, TooManyRequests, Unauthorized
from tonnage.objects.core_v1 import Pod
from tonnage.scheduler.bindings_under_way import BindingSlots
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.queue.waiting_pods import is_over, uid_of

TRIES: Final = 6
"""Attempts before the binding goes on without the nomination: eight seconds with the pauses below."""
_FIRST_PAUSE_S: Final = 0.25
_MAX_PAUSE_S: Final = 15.0

_log = logs.logger("tonnage.scheduler")


@dataclass(slots=True, eq=False)
class Nominations:
    """Writes nominations. `is_shown`: the gate. `newest`: the informer's pod, None if it is gone. A binding lends its
    slot out between retries; `rng` spreads the retries."""

    client: Client
    newest: Callable[[str], Pod | None]
    clock: Clock
    slots: BindingSlots
    is_shown: bool
    rng: random.Random

    def withdrawn(self) -> str | None:
        """The nomination after a failed attempt: "" empties it, None leaves it unchanged."""
        return None if self.is_shown else ""

    @asynccontextmanager
    async def shown(self, pod: PodInfo, node_name: str) -> AsyncIterator[None]:
        """Publish the pod's node, then run the block: the steps before the binding. After the block no write about the
        pod is running."""
        backoff = Backoff(clock=self.clock, rng=self.rng, first_s=_FIRST_PAUSE_S, max_s=_MAX_PAUSE_S, jitter=0.2)
        is_over = not self.is_shown or await self._show(pod, node_name)
        tries = 1
        while not is_over and tries < TRIES:
            with self.slots.rest():
                await self.clock.sleep(backoff.next_s())
            is_over = await self._show(pod, node_name)
            tries += 1
        if is_over:
            yield
            return
        repeating = asyncio.create_task(self._repeat(pod, node_name, backoff))
        try:
            yield
        finally:
            repeating.cancel()
            await asyncio.wait((repeating,))

    async def take_back(self, pods: Iterable[PodInfo]) -> None:
        """Empty the field of pods that must give way; with the gate on it stays."""
        for pod in () if self.is_shown else pods:
            known = self.newest(pod.key)
            if known is not None and uid_of(known) == pod.uid and known.status.nominated_node_name:
                await self._write(pod, None)

    async def _repeat(self, pod: PodInfo, node_name: str, backoff: Backoff) -> None:
        """Retry until it is written, or cancelled. A running write is then awaited."""
        while True:
            await self.clock.sleep(backoff.next_s())
            writing = asyncio.ensure_future(self._show(pod, node_name))
            try:
                if await asyncio.shield(writing):
                    return
            except asyncio.CancelledError:
                await writing  # it must not arrive after the binding
                raise

    async def _show(self, pod: PodInfo, node_name: str) -> bool:
        """Write the nomination if the API lacks it and the pod still waits. True if nothing is left to write."""
        known = self.newest(pod.key)
        if known is None or is_over(pod, known) or known.status.nominated_node_name == node_name:
            return True
        return await self._write(pod, node_name)

    async def _write(self, pod: PodInfo, node_name: str | None) -> bool:
        """One attempt; False if another may succeed."""
        patch = {"metadata": {"uid": pod.pod.metadata.uid}, "status": {"nominatedNodeName": node_name}}
        try:
            await self.client.patch(Pod, pod.key, patch, patch_type="strategic", subresource="status")
        except NotFound:
            pass  # it was deleted meanwhile
        except TonnageError as exc:
            _log.warning("Cannot write a nomination", pod=pod.key, node=node_name or "", error=exc.message)
            return _is_for_good(exc)
        return True


def _is_for_good(exc: TonnageError) -> bool:
    """True if every retry would be refused: by the server, or because another scheduler leads."""
    if isinstance(exc, Conflict | TooManyRequests | Timeout | Unauthorized):
        return False
    return isinstance(exc, NotLeading) or (isinstance(exc, ApiError) and exc.code < 500)
