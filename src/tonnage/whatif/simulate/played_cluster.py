"""A cluster in which replicas are created one after the other, each when everything before it is settled.

    make a replica ──► the world lives on: decided, volumes made, figures published, pods run ──► idle ──► what became
                                                                                                     of the replica?

So each replica is judged by up-to-date figures. Pods that already wait are tried first, as in the cluster.

What the driver does is not known, except by its policy: the pools it takes and the order in which it makes volumes are
assumed to leave room for the fewest replicas, or for the most. That matters for replicas with claims of different
sizes: pools 100 and 100 hold 80+20 twice if each 20 goes beside an 80, else once. `driver_courses.py` has the search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tonnage.behaviour.workloads.stateful_set_plan import is_ordered
from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key, Object
from tonnage.scheduling.configuration.configuration import Configuration
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.scheduling.decision.explain import Explanation
from tonnage.scheduling.engine.attempt import Attempt
from tonnage.scheduling.volumes.packing.pool_policies import placed_by
from tonnage.whatif.expansion import Expansion, Replica
from tonnage.whatif.explain import PodAnswer, PodState, RoomRemarks, asks_for_another, state_of, workload_text
from tonnage.whatif.replay import Replay, no_profile
from tonnage.whatif.simulate.disks import Disk
from tonnage.whatif.simulate.driver_courses import Ask, Course, DriverChoices, DriverLuck, Pool
from tonnage.whatif.simulate.world import World
from tonnage.whatif.simulate.world_state import EVERY_ATTEMPT, Watcher, WorldSettings
from tonnage.whatif.sources import ClusterState, Note, unheard

LONGEST_S: Final = 3600.0
"""A replica that does not run by then never does."""


@dataclass(slots=True)
class PodCourses(Watcher):
    """Records replacements, preempted pods, and the decisions about each pod."""

    explained: dict[str, Explanation] = field(default_factory=dict)
    """By uid: the attempt that placed the pod or would preempt others for it; else the last."""
    preempted: list[Key] = field(default_factory=list)

    def decided(self, number: int, attempt: Attempt) -> None:
        before = self.explained.get(attempt.pod.uid)
        if attempt.explanation is not None and (before is None or before.preemption is None):
            self.explained[attempt.pod.uid] = attempt.explanation

    def gone(self, pod: Pod, why: str) -> None:
        if why == "preempted":
            self.preempted.append(pod.key)


@dataclass(frozen=True, slots=True)
class PlayedReplica:
    pod: Pod
    """The pod in its final state, or its replacement."""
    node: str
    """Its node; empty if it does not run."""
    victims: tuple[Key, ...]
    """The pods that were preempted meanwhile."""
    is_half_made: bool
    """It does not run, and some of its volumes were created."""


class PlayedCluster:
    def __init__(
        self,
        state: ClusterState,
        profiles: Sequence[ResolvedProfile],
        *,
        takes_any_pod: bool = True,
        luck: DriverLuck = DriverLuck.WORST,
        explains: bool = False,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._profiles, self._takes_any_pod = profiles, takes_any_pod
        self.courses = PodCourses()
        self.choices = DriverChoices(luck)
        self._nobody = state.schedulers.nobody if takes_any_pod else lambda scheduler: ""
        self._replica: Replica | None = None
        self._overlaps = True
        self._courses: dict[Disk, Course] = {}
        """By disk, what its driver is assumed to do from now on."""
        self.world = World(
            replace(state, objects=[each for each in state.objects if not self._is_left_alone(each)]),
            profiles,
            self.courses,
            settings=WorldSettings(takes_any_pod=takes_any_pod, explains=EVERY_ATTEMPT if explains else ()),
            is_stopped=is_stopped,
        )
        self.world.storage.choose = self._pool_for
        self.settle()

    def _is_left_alone(self, found: Object) -> bool:
        """True for a pod that waits for a scheduler that does not run: it takes no room."""
        return isinstance(found, Pod) and not found.spec.node_name and bool(self._nobody(found.spec.scheduler_name))

    def settle(self) -> None:
        self.world.run_until_idle(self.world.agenda.now_s + LONGEST_S)

    def apply(self, objects: Iterable[Object]) -> None:
        for each in objects:
            self.world.put(each)

    def place(self, replica: Replica) -> PlayedReplica:
        """Create a replica, and run until nothing happens any more."""
        self._replica = replica
        owner = self.world.controllers.stateful_set(replica.pod)
        self._overlaps = owner is None or not is_ordered(owner)
        before = len(self.courses.preempted)
        if not self._is_left_alone(replica.pod):
            self.apply((*replica.claims, replica.pod))
            self.settle()
        return self.found(replica, victims=tuple(self.courses.preempted[before:]))

    def found(self, replica: Replica, victims: tuple[Key, ...] = ()) -> PlayedReplica:
        last = self.courses.last(replica.pod)
        pod = self.world.now(last) or last
        runs = pod.status.phase == "Running"
        is_made = any(self.world.volume_of(claim.key) is not None for claim in replica.claims)
        return PlayedReplica(pod, pod.spec.node_name if runs else "", victims, not runs and is_made)

    def explain(self, pod: Pod) -> Explanation:
        explanation = self.world.engine.explain(pod)
        explanation.held_back = self._nobody(pod.spec.scheduler_name) or explanation.held_back
        return explanation

    def as_replay(self) -> Replay:
        """Its current objects as a replay, for decisions that leave the cluster unchanged."""
        made = Replay(
            self.world,
            self._profiles,
            takes_any_pod=self._takes_any_pod,
            starts_at=self.world.clock.now(),
        )
        made.hold(self.world.engine.held.holds())
        return made

    # -- the driver's choices -----------------------------------------------------------------------------------------

    def _pool_for(self, disk: Disk, claim: PersistentVolumeClaim) -> int | None:
        classes = self.world.storage.classes_of(disk)
        claims = self._replica.claims if self._replica is not None else ()
        asked = {each.key: self._ask(each) for each in claims if each.class_name in classes}
        own = self._ask(claim)
        if claim.key not in asked or len({*asked.values()}) == 1 or not any(ask.size for ask in asked.values()):
            # with equal claims the choice does not matter
            return self._picked(disk, own)
        course = self._courses.get(disk)
        number = course.take(own) if course is not None and course.free == disk.pools else None
        if number is None:
            is_made = self.world.volume_of
            rest = tuple(ask for key, ask in asked.items() if key == claim.key or is_made(key) is None)
            asks, order = tuple(sorted(asked.values(), reverse=True)), course.order if course is not None else ()
            course = self.choices.course(self._pools(disk), asks, rest, overlaps=self._overlaps, order=order)
            self._courses[disk] = course
            number = course.take(own)
        return number

    def _picked(self, disk: Disk, ask: Ask) -> int | None:
        """The pool for a claim that none of its kind waits with."""
        course = self._courses.get(disk)
        reached = self.world.storage.numbers_for(disk, ask.class_name)
        numbers = [number for number in course.order if number in reached] if course is not None else reached
        place = placed_by(ask.policy, tuple(disk.pools[number] - ask.kept for number in numbers), ask.size)
        return None if place is None else numbers[place]

    def _pools(self, disk: Disk) -> tuple[Pool, ...]:
        storage = self.world.storage
        reached = {name: storage.numbers_for(disk, name) for name in storage.classes_of(disk)}
        return tuple(
            Pool(free, tuple(name for name, numbers in reached.items() if number in numbers))
            for number, free in enumerate(disk.pools)
        )

    def _ask(self, claim: PersistentVolumeClaim) -> Ask:
        storage, class_name = self.world.storage, claim.class_name or ""
        kept = storage.kept_bytes(class_name)
        return Ask(storage.taken_bytes(claim), kept, class_name, storage.told_pick(class_name))


class PlayedWorkloads:
    """Answers about the workloads of one cluster. Calls `note` once with each thing that a person should know."""

    def __init__(
        self, state: ClusterState, configuration: Configuration, *, is_default: bool, note: Note = unheard
    ) -> None:
        self._memory = state.memory
        self._note = note
        self._names = {profile.scheduler_name for profile in configuration.profiles}
        """Scheduler names that need no note."""
        self._cluster = PlayedCluster(state, configuration.profiles, takes_any_pod=is_default, explains=True)
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
        for sentence in RoomRemarks(self._cluster.world).about({claim.class_name for claim in claims}):
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
