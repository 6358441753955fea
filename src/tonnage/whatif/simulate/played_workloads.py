"""`explain --workload`: a workload's waiting and future pods, in a cluster on virtual time.

As in `fit`, each pod is created when those before it run, and is judged by figures that include their volumes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.configuration.configuration import Configuration
from tonnage.scheduling.plugins.registry import ForeignPlugins
from tonnage.whatif.expansion import Expansion
from tonnage.whatif.explain import (
    PodAnswer,
    PodState,
    RoomRemarks,
    asks_for_another,
    state_of,
    workload_text,
)
from tonnage.whatif.replay import no_profile
from tonnage.whatif.simulate.played_cluster import PlayedCluster
from tonnage.whatif.sources import ClusterState


class PlayedWorkloads:
    """Answers about the workloads of one cluster. Calls `note` once with each thing that a person should know."""

    def __init__(
        self,
        state: ClusterState,
        configuration: Configuration,
        *,
        is_default: bool,
        foreign: ForeignPlugins | None = None,
        note: Callable[[str], object] = lambda sentence: None,
    ) -> None:
        self._memory = state.memory
        self._note = note
        self._names = {profile.scheduler_name for profile in configuration.profiles}
        """Scheduler names that need no note."""
        self._cluster = PlayedCluster(
            state, configuration.profiles, foreign=foreign, takes_any_pod=is_default, explains=True
        )
        for sentence in state.memory.differences(self._cluster.world.engine) if state.memory is not None else ():
            note(sentence)

    def answers(self, expansion: Expansion) -> Iterator[PodAnswer]:
        """A workload's existing pods, then missing ones. Raises ReplayError for a pod that no profile would place."""
        name = workload_text(expansion.workload)
        self._cluster.apply(expansion.made)
        for pod in expansion.present:
            state, node = state_of(pod, self._memory)
            yield (
                self._decided(pod, name, state) if state is PodState.PENDING else PodAnswer(pod.key, name, state, node)
            )
        claims = [claim for replica in expansion.missing for claim in replica.claims]
        for sentence in RoomRemarks(self._cluster.world.objects).about({claim.class_name for claim in claims}):
            self._note(sentence)
        for replica in expansion.missing:
            self._cluster.place(replica)
            yield self._decided(replica.pod, name, PodState.NEW)

    def _decided(self, pod: Pod, name: str, state: PodState) -> PodAnswer:
        engine, scheduler = self._cluster.world.engine, pod.spec.scheduler_name
        if engine.profile_of(pod) is None:
            raise no_profile(pod, engine)
        if scheduler not in self._names:
            self._names.add(scheduler)
            self._note(asks_for_another(pod))
        explanation = self._cluster.courses.explained.get(pod.uid) or self._cluster.explain(pod)
        return PodAnswer(pod.key, name, state, explanation.node if explanation.schedulable else "", explanation)
