"""Carries out preemptions: victims get a condition and are deleted, while the scheduler goes on.

    a decision names a node and its victims
       │ begin: the pod is blocked; pods of lower priority nominated there lose it and are tried again
       ▼
    the pod's nomination is written ─► all victims but the last ─► the last ─► seen to go by the informer ─► end
                                         │ one cannot be deleted                                             ▲
                                         └──────────────────────────────────────────────────────────────────┘

A PreEnqueue plugin blocks the pod until the end; after a failure it is tried again, after its backoff. A victim that is
not bound yet is not deleted: its attempt fails. Mirrors the Executor of kube-scheduler 1.36, messages included;
additionally, the nomination is written first, and we wait until the informer shows the victims' deletion.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Final

from tonnage import errors, logs
from tonnage.objects.core_v1 import Pod
from tonnage.scheduler.context import SchedulerContext
from tonnage.scheduler.nominations import Nominations
from tonnage.scheduler.pod_status import changed_condition
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.framework import SUCCESS, PostFilterPlugin, PostFilterResult
from tonnage.scheduling.preemption.preemption import DISRUPTION_TARGET, PREEMPTED
from tonnage.scheduling.queue.waiting_pods import QueuedPod, uid_of

SEEN_WITHIN_S: Final = 30.0
"""How long to wait until the informer shows deleted victims: longer than a watch takes to reopen."""

_log = logs.logger("tonnage.scheduler")


@dataclass(slots=True)
class StartedPreemption:
    """One preemption: the plugin, the pod, its node, and the work to do."""

    plugin: PostFilterPlugin
    pod: PodInfo
    node: str
    victims: tuple[PodInfo, ...]
    """The victims that are not terminating already, most important first."""
    let_go: tuple[PodInfo, ...]
    """Pods of lower priority whose nominations to the node were removed."""


class PreemptionExecutor:
    """Carries preemptions out, beside the scheduling loop."""

    def __init__(self, context: SchedulerContext, nominations: Nominations) -> None:
        self._context = context
        self._engine = context.engine
        self._nominations = nominations

    # -- on the loop --------------------------------------------------------------------------------------------------

    def begin(self, plugin: PostFilterPlugin, queued: QueuedPod, found: PostFilterResult) -> StartedPreemption:
        """The pod is queued again and nominated: remove nominations of lower priority from its node."""
        let_go = self._engine.make_way(found.nominated_node, below=queued.info.priority)
        victims = tuple(victim for victim in found.victims if not victim.is_terminating)
        if victims:
            self._context.metrics.preemption_victims.observe(len(found.victims))
        return StartedPreemption(plugin, queued.info, found.nominated_node, victims, let_go)

    # -- beside the loop ----------------------------------------------------------------------------------------------

    async def carry_out(self, started: StartedPreemption, told: Awaitable[None] | None) -> None:
        """Write the nomination (`told`, None if the API has it), then delete the victims. An API refusal ends it."""
        pod = started.pod
        self._context.slots.take()
        done = False
        try:
            if told is not None:
                await told
            await self._nominations.take_back(started.let_go)
            known = self._context.newest(pod.key)
            if known is not None and uid_of(known) == pod.uid:
                done = await self._see_off(started)
        finally:
            self._context.slots.give()
            self._engine.preemption_ends(started.plugin, pod, succeeded=done)

    async def _see_off(self, started: StartedPreemption) -> bool:
        """Delete the victims, the last one after all others. False if one cannot be deleted, or is not seen to go."""
        if not started.victims:
            return True
        *others, last = started.victims
        found = await asyncio.gather(*(self._preempt(started, victim) for victim in others))
        if not all(found) or not await self._preempt(started, last):
            return False
        _log.info("Preempted", pod=started.pod.key, node=started.node, victims=len(started.victims))
        bound = [victim for victim in started.victims if victim.pod.spec.node_name]
        with self._context.slots.rest():
            about = [(Pod, victim.key) for victim in bound]
            seen = await self._context.waits.settled(
                lambda: SUCCESS if all(map(self._is_going, bound)) else None, SEEN_WITHIN_S, about
            )
        return seen.is_success

    def _is_going(self, victim: PodInfo) -> bool:
        known = self._context.newest(victim.key)
        return known is None or uid_of(known) != victim.uid or known.metadata.is_terminating

    async def _preempt(self, started: StartedPreemption, victim: PodInfo) -> bool:
        """Evict one pod and report it; False if that failed."""
        plugin, pod = started.plugin.name, started.pod
        note = f"Preempted by pod {pod.uid} on node {started.node}"
        waiting = self._context.waiting_pods.get(victim.uid)
        if (waiting is not None and waiting.preempt(plugin)) or self._context.in_pre_bind.call_off(
            victim.uid, f"preempted by {plugin}"
        ):
            note += " (in kube-scheduler memory)."
        else:
            try:
                await self._doom(victim, pod.pod.spec.scheduler_name)
                await self._context.client.delete(Pod, victim.key, uid=victim.pod.metadata.uid)
            except errors.NotFound:
                return True  # it went by itself
            except errors.TonnageError as exc:
                if self._is_going(victim):
                    return True  # it went too, or another pod has its name
                _log.warning("Cannot preempt", pod=pod.key, victim=victim.key, error=exc.message)
                return False
        self._context.events.event(victim.pod, "Normal", "Preempted", "Preempting", note, pod.pod)
        return True

    async def _doom(self, victim: PodInfo, scheduler_name: str) -> None:
        """Set the condition that says why the pod goes, so that its controller does not take it for a failure."""
        told = f"{scheduler_name}: preempting to accommodate a higher priority pod"
        now = self._context.clock.now()
        conditions = changed_condition(victim.pod, DISRUPTION_TARGET, "True", PREEMPTED, told, now)
        if not conditions:
            return
        patch = {"metadata": {"uid": victim.pod.metadata.uid}, "status": {"conditions": conditions}}
        await self._context.client.patch(Pod, victim.key, patch, patch_type="strategic", subresource="status")
