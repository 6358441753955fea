"""Why pods wait, worked out for the terminal from the cluster as it is known now, in a thread beside the screen."""

from __future__ import annotations

import asyncio

from tonnage.clock import Clock
from tonnage.dashboard.follow.shown_cluster import ShownCluster
from tonnage.errors import TonnageError
from tonnage.objects.meta import Key
from tonnage.scheduling.configuration.configuration import Configuration
from tonnage.scheduling.configuration.plugin_catalogue import ExtensionPoint
from tonnage.scheduling.decision.explain import Explanation
from tonnage.scheduling.plugins.registry import ForeignPlugins
from tonnage.whatif.decision_sequence import DecisionSequence
from tonnage.whatif.explain import explain_pod, find_pod, profile_for
from tonnage.whatif.pending.pending import PendingAnswer, PendingQuestion
from tonnage.whatif.sources import ClusterState

MOST_S = 10.0
"""How long it may take to decide on all pods that wait, and to try what would help: what is known then is shown."""


class LiveQuestions:
    """Asks about one cluster, by the rules of its scheduler. `is_default`: nobody gave a configuration."""

    def __init__(
        self, cluster: ShownCluster, configuration: Configuration, foreign: ForeignPlugins, *, is_default: bool
    ) -> None:
        self._cluster, self._configuration = cluster, configuration
        self._foreign, self._is_default = foreign, is_default

    async def pending(self) -> PendingAnswer:
        """Every pod that waits, by cause. Raises TonnageError."""
        state = await self._cluster.state()
        return await asyncio.to_thread(self._pending, state)

    async def explanation(self, pod: Key) -> tuple[Explanation, dict[str, int]]:
        """Why a pod goes where it goes, or nowhere, and the weights of its scores. Raises TonnageError."""
        state = await self._cluster.state()
        return await asyncio.to_thread(self._explanation, state, pod)

    def _pending(self, state: ClusterState) -> PendingAnswer:
        sequence = DecisionSequence(
            state,
            self._configuration,
            is_default=self._is_default,
            foreign=self._foreign,
            note=lambda sentence: None,
        )
        question = PendingQuestion(state, sequence)
        watch = _Watch(self._cluster.clock)
        try:
            question.decide(watch.step)
            question.try_changes(watch.step)
        except _TooLong:
            pass
        return question.answer()

    def _explanation(self, state: ClusterState, key: Key) -> tuple[Explanation, dict[str, int]]:
        pod = find_pod(state, key)
        profile = profile_for(pod, self._configuration, is_default=self._is_default)
        found = explain_pod(pod, state.objects, profile, clock=state.clock, foreign=self._foreign, memory=state.memory)
        return found, {each.name: each.weight for each in profile.plugins_at(ExtensionPoint.SCORE)}


class _TooLong(TonnageError):
    def __init__(self) -> None:
        super().__init__("it took too long")


class _Watch:
    """Ends work that takes too long."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends_at = clock.monotonic() + MOST_S

    def step(self, amount: float) -> None:
        if self._clock.monotonic() > self._ends_at:
            raise _TooLong
