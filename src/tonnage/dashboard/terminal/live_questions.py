"""Why pods wait, worked out for the terminal from the cluster as it is known now, in a thread beside the screen."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from tonnage.dashboard.questions.asking import AskedCluster, Asking, QuestionLimit
from tonnage.objects.meta import Key
from tonnage.scheduling.decision.explain import Explanation
from tonnage.whatif.decision_sequence import DecisionSequence
from tonnage.whatif.explain import decided_on, find_pod, score_weights
from tonnage.whatif.interruptions import OutOfTime
from tonnage.whatif.pending.pending import PendingAnswer, PendingQuestion
from tonnage.whatif.sources import ClusterState

MOST_S: Final = 10.0
"""How long it may take to decide on all pods that wait, and to try what would help: what is known then is shown."""


class LiveQuestions:
    """Asks about one cluster, by the rules of its scheduler."""

    def __init__(self, cluster: AskedCluster, asking: Asking) -> None:
        self._cluster, self._asking = cluster, asking

    async def pending(self) -> PendingAnswer:
        """Every pod that waits, by cause. Raises TonnageError."""
        state = await self._cluster.state(with_workloads=True)
        return await self._asking.keep(lambda limit: self._pending(state, limit))

    async def explanation(self, pod: Key) -> tuple[Explanation, dict[str, int]]:
        """Why a pod goes where it goes, or nowhere, and the weights of its scores. Raises TonnageError."""
        state = await self._cluster.state()
        return await self._asking.answer(lambda limit: self._explanation(state, pod))

    def _pending(self, state: ClusterState, limit: QuestionLimit) -> PendingAnswer:
        sequence = DecisionSequence(
            state,
            self._asking.configuration,
            is_default=self._asking.takes_any_pod,
            foreign=self._asking.foreign,
            note=lambda sentence: None,
        )
        question = PendingQuestion(state, sequence)
        limit.begin(MOST_S)
        with suppress(OutOfTime):
            question.decide(limit.check)
            question.try_changes(limit.check)
        return question.answer()

    def _explanation(self, state: ClusterState, key: Key) -> tuple[Explanation, dict[str, int]]:
        found, profile = decided_on(
            find_pod(state, key),
            state,
            self._asking.configuration,
            is_default=self._asking.takes_any_pod,
            foreign=self._asking.foreign,
            note=lambda sentence: None,
        )
        return found, score_weights(profile)
