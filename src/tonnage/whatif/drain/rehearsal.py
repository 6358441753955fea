"""One cluster on virtual time whose nodes are drained while nothing else changes.

    settle ──► note who is where ──► drain ──► until nothing moves ──► read off ──► (one by one: back in use, settle)

The result is read from the objects: the node that a pod or its successor runs on, or the scheduler's last message.
Nothing here decides anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from tonnage.behaviour.workloads.pod_states import guards, makers_of, workload_of
from tonnage.objects.core_v1 import Pod
from tonnage.objects.small_groups import PodDisruptionBudget
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.scheduling.engine.attempt import Attempt
from tonnage.whatif.drain import outcome
from tonnage.whatif.simulate.nodes import stays
from tonnage.whatif.simulate.world import World, disk_documents
from tonnage.whatif.simulate.world_state import EVERY_ATTEMPT, Watcher, WorldSettings
from tonnage.whatif.sources import ClusterState


@dataclass(slots=True)
class Lineages(Watcher):
    """Records deleted pods, their replacements, and the nodes that scored as well as the chosen one."""

    gone_uids: set[str] = field(default_factory=set)
    equally_good: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By uid: the other nodes with the chosen node's score, if requested."""

    def decided(self, number: int, attempt: Attempt) -> None:
        explanation = attempt.explanation
        if explanation is None or attempt.placement is None:
            return
        chosen = attempt.placement.node
        open_to = [answer for answer in explanation.nodes if answer.feasible and not answer.passed_over]
        best = next((answer.total for answer in open_to if answer.name == chosen), None)
        others = (answer.name for answer in open_to if answer.total == best and answer.name != chosen)
        self.equally_good[attempt.pod.uid] = tuple(sorted(others))

    def gone(self, pod: Pod, why: str) -> None:
        self.gone_uids.add(pod.uid)

    def what_became_of(self, pod: Pod, world: World) -> tuple[Pod | None, str]:
        """The last pod in a pod's line of successors, and why it does not run; an empty reason if it does."""
        last = world.now(self.last(pod))
        if last is None:
            before = world.controllers.waits_for(pod)
            if before:
                return None, f"its StatefulSet creates it again once {before} runs, and {before} does not run"
            return None, "nothing has created another one in its place"
        if not last.spec.node_name:
            return last, world.scheduler.why.get(last.uid, "") or "the scheduler has not tried to place it"
        if last.status.phase == "Running":
            return last, ""
        return last, f"it was sent to {last.spec.node_name} and does not run there: its volumes are not created"


LONGEST_S: Final = 30 * 24 * 3600.0
"""A drain that is not over then never ends."""
RETRY_S: Final = 6.0
"""A little longer than kubectl waits before it retries refused evictions."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The cluster whose nodes are drained, and its scheduler's configuration."""

    state: ClusterState
    profiles: Sequence[ResolvedProfile]
    settings: WorldSettings = field(default_factory=WorldSettings)
    is_stopped: Callable[[], bool] = lambda: False
    """Called between any two steps of every rehearsal. It may raise to give up."""


class Rehearsal:
    """One cluster, and the drains in it. `explains` finds the equally good nodes, at some cost."""

    def __init__(self, scene: Scene, *, explains: bool = False) -> None:
        self.outcome = outcome.DrainOutcome(())
        self._lineages = Lineages()
        self._stuck_pods: list[Pod] = []
        """The pods of `outcome.stuck`, as they were before."""
        self.world = World(
            replace(scene.state, objects=list(outcome.as_in_a_cluster(scene.state.objects))),
            scene.profiles,
            self._lineages,
            settings=replace(scene.settings, explains=EVERY_ATTEMPT if explains else ()),
            is_stopped=scene.is_stopped,
        )
        self.events = self.world.nodes
        self._makers = makers_of((*self.world, *self.world.workloads.values()))
        self.settle()
        waiting = (pod.key for pod in self.world.pods() if not pod.spec.node_name and not pod.is_terminal)
        self.outcome.waiting_before = sorted(waiting)

    def settle(self) -> None:
        """Run until nothing changes; evictions that a budget refuses are retried while that helps."""
        while True:
            self.world.run_until_idle(LONGEST_S)
            gone_count = len(self._lineages.gone_uids)
            if not self.events.refused or self.world.agenda.now_s >= LONGEST_S:
                return
            self.world.run_until(self.world.agenda.now_s + RETRY_S)
            if len(self._lineages.gone_uids) == gone_count:
                return

    def disks(self) -> list[dict[str, Any]]:
        return disk_documents(self.world.storage, self.world.engine.held)

    # -- drains and failures ------------------------------------------------------------------------------------------

    def drain_together(self, nodes: Sequence[str], step: str = "") -> outcome.DrainOutcome:
        """`step`: the node, when nodes are drained one after the other."""
        self.outcome.drained = (*self.outcome.drained, *nodes)
        self._read(self._drain(nodes), step)
        return self.outcome

    def drain_one_by_one(
        self, nodes: Sequence[str], *, gives_up: Callable[[outcome.DrainOutcome], bool] = lambda so_far: False
    ) -> outcome.DrainOutcome:
        """Drain the nodes in turn: every node returns when nothing moves any more, before the next is drained."""
        for name in nodes:
            self.drain_together((name,), name)
            if gives_up(self.outcome):
                break
            self.bring_back(name)
        return self.outcome

    def bring_back(self, name: str) -> None:
        """Uncordon the node, and note which stuck pods run again."""
        self.events.uncordon(name)
        self.events.refused.clear()
        self.settle()
        for number, (pod, each) in enumerate(zip(self._stuck_pods, self.outcome.stuck, strict=True)):
            if each.step == name and not self._lineages.what_became_of(pod, self.world)[1]:
                self.outcome.stuck[number] = msgspec.structs.replace(each, comes_back=True)

    def lose(self, name: str) -> list[outcome.Stuck]:
        """Remove a node for good. Returns the pods that ran before and do not run now."""
        before = outcome.places_of(self.world, (name,))
        self.events.remove(name)
        self.settle()
        found = []
        for place in before.places:
            if place.pod.status.phase != "Running" or stays(place.pod) or place.pod.metadata.controller is None:
                continue
            _, message = self._lineages.what_became_of(place.pod, self.world)
            if message:
                found.append(self._stuck(place, message, "", is_evicted=True))
        return found

    def _drain(self, nodes: Sequence[str]) -> outcome.Places:
        before = outcome.places_of(self.world, nodes)
        self.outcome.left_behind += outcome.left_behind(self.world, nodes)
        for name in nodes:
            self.events.cordon(name)
        for name in nodes:
            self.events.drain(name)
        self.settle()
        return before

    # -- the result ---------------------------------------------------------------------------------------------------

    def _read(self, before: outcome.Places, step: str) -> None:
        """Report every pod that was on the nodes, and pods elsewhere that were preempted."""
        for place in before.places:
            is_drained = place.node in before.nodes
            if is_drained and stays(place.pod):
                self.outcome.daemons.append((place.pod.key, place.node))
            elif place.pod.uid in self._lineages.gone_uids:
                self._read_gone(before, place, step, is_preempted=not is_drained)
            elif is_drained:
                refused = self.events.refused.get(place.pod.key, "") or "its eviction was not allowed"
                self._add_stuck(place, refused, step, is_evicted=False)
        pods = [pod for name in before.nodes for pod in self.world.pods_on(name) if pod.key in self.events.refused]
        for budget in self.world.all(PodDisruptionBudget):
            keys = [pod.key for pod in pods if pod.namespace == budget.namespace and guards(budget, pod)]
            if keys:
                refused = self.events.refused[keys[0]]
                self.outcome.budgets.append(outcome.BlockingBudget(budget.key, tuple(sorted(keys)), refused))

    def _read_gone(self, before: outcome.Places, place: outcome.PodPlace, step: str, *, is_preempted: bool) -> None:
        self.outcome.lost_data += place.lost_data
        if place.pod.metadata.controller is None:
            self.outcome.lost.append(
                outcome.LostPod(place.pod.key, place.node, outcome.PREEMPTED if is_preempted else outcome.DELETED)
            )
            return
        last, message = self._lineages.what_became_of(place.pod, self.world)
        if message or last is None:
            told = f"preempted by a pod that had to move; {message}" if is_preempted else message
            self._add_stuck(place, told, step, is_evicted=True)
            return
        move = self._move(before, place, last, step)
        (self.outcome.preempted if is_preempted else self.outcome.moves).append(move)

    def _move(self, before: outcome.Places, place: outcome.PodPlace, last: Pod, step: str) -> outcome.Move:
        target, volumes = last.spec.node_name, []
        for claim, volume in place.volumes:
            home, size_bytes = before.homes.get(volume.name, ""), volume.size.value()
            is_rebuilt = home not in ("", target) and self.world.storage.rebuilds(volume)
            if is_rebuilt and volume.name not in before.told:
                self.outcome.rebuilds.append((home, target, size_bytes))
                volumes.append(outcome.VolumeMove(claim, "rebuild", size_bytes))
            else:
                volumes.append(outcome.VolumeMove(claim, "reattach", size_bytes))
            before.told.add(volume.name)
        workload, others = workload_of(place.pod, self._makers), self._lineages.equally_good.get(last.uid, ())
        return outcome.Move(place.pod.key, workload, place.node, target, tuple(volumes), others, step)

    def _add_stuck(self, place: outcome.PodPlace, message: str, step: str, *, is_evicted: bool) -> None:
        self._stuck_pods.append(place.pod)
        self.outcome.stuck.append(self._stuck(place, message, step, is_evicted=is_evicted))

    def _stuck(self, place: outcome.PodPlace, message: str, step: str, *, is_evicted: bool) -> outcome.Stuck:
        volumes = tuple(outcome.VolumeMove(claim, "stays", volume.size.value()) for claim, volume in place.volumes)
        workload, comes_back = workload_of(place.pod, self._makers), False if step else None
        return outcome.Stuck(place.pod.key, workload, place.node, message, is_evicted, volumes, step, comes_back)
