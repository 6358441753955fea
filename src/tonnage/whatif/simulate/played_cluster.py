"""A cluster in which replicas are created one after the other, each when everything before it is settled.

    make a replica ──► the world lives on: decided, volumes made, figures published, pods run ──► idle ──► what became
                                                                                                     of the replica?

So each replica is judged by up-to-date figures. Where the driver's choice of pools is unknown, it takes the worst or
the best (`pool_choices`). Pods that already wait are tried first, as in the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Final

from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key, Object
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.scheduling.decision.explain import Explanation
from tonnage.scheduling.engine.attempt import Attempt
from tonnage.scheduling.plugins.registry import ForeignPlugins
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy, placed_by
from tonnage.whatif.expansion import Replica
from tonnage.whatif.replay import Replay
from tonnage.whatif.simulate.disks import Disk, PickPolicy
from tonnage.whatif.simulate.pool_choices import Ask, Course, DriverLuck, Pool, PoolChoices, distinct_orders
from tonnage.whatif.simulate.world import World
from tonnage.whatif.simulate.world_state import EVERY_ATTEMPT, Watcher, WorldSettings
from tonnage.whatif.sources import ClusterState

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
        foreign: ForeignPlugins | None = None,
        takes_any_pod: bool = True,
        luck: DriverLuck = DriverLuck.WORST,
        explains: bool = False,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._profiles, self._foreign, self._takes_any_pod = profiles, foreign, takes_any_pod
        self.courses = PodCourses()
        self.choices = PoolChoices(luck)
        self._nobody = state.schedulers.nobody if takes_any_pod else lambda scheduler: ""
        self._replica: Replica | None = None
        self._courses: dict[Disk, Course] = {}
        """By disk, what is assumed about a driver with `first-fit`."""
        self.world = World(
            [each for each in state.objects if not (isinstance(each, Pod) and self._is_left_alone(each))],
            profiles,
            self.courses,
            foreign=foreign,
            settings=WorldSettings(takes_any_pod=takes_any_pod, explains=EVERY_ATTEMPT if explains else ()),
            workloads=state.workloads,
            is_stopped=is_stopped,
            memory=state.memory,
            starts_at=state.clock.now(),
        )
        self.world.storage.choose = self._pool_for
        self.settle()

    def _is_left_alone(self, pod: Pod) -> bool:
        """True if the pod waits for a scheduler that does not run: it takes no room."""
        return not pod.spec.node_name and bool(self._nobody(pod.spec.scheduler_name))

    def settle(self) -> None:
        self.world.run_until_idle(self.world.agenda.now_s + LONGEST_S)

    def apply(self, objects: Iterable[Object]) -> None:
        for each in objects:
            self.world.put(each)

    def place(self, replica: Replica) -> PlayedReplica:
        """Create a replica, and run until nothing happens any more."""
        self._replica = replica
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
            self.world.objects,
            self._profiles,
            foreign=self._foreign,
            takes_any_pod=self._takes_any_pod,
            starts_at=self.world.clock.now(),
        )
        made.hold(self.world.engine.held.holds())
        return made

    # -- the driver's choices -----------------------------------------------------------------------------------------

    def _pool_for(self, disk: Disk, claim: PersistentVolumeClaim, told: PickPolicy | None) -> int | None:
        storage = self.world.storage
        if told == "first-fit":
            return self._first_fit(disk, claim)
        size, kept = storage.taken_bytes(claim), storage.kept_bytes(claim.class_name)
        numbers = storage.numbers_for(disk, claim.class_name)
        pools = [disk.pools[number] - kept for number in numbers]
        if max(pools, default=-1) < size:
            return None
        if told in ("most-free", "best-fit"):
            place = placed_by(PoolPolicy(told), tuple(pools), size)
            return None if place is None else numbers[place]
        asked, own = self._asked_of(disk), Ask(size, kept, claim.class_name)
        rest = [each for key, each in asked.items() if key != claim.key and self.world.volume_of(key) is None]
        asks, coming = (tuple(sorted(each, reverse=True)) for each in (asked.values() or [own], rest))
        return self.choices.pool_for(self._pools(disk), (own, *coming), asks)

    def _first_fit(self, disk: Disk, claim: PersistentVolumeClaim) -> int | None:
        """The first pool with room, after those claims of the replica that get their volumes before this one."""
        if disk not in self._courses:
            orders = distinct_orders(self._pools(disk))
            every = permutations(range(len(self._replica.claims) if self._replica is not None else 0))
            self._courses[disk] = self.choices.course_of(every, orders, lambda *course: self._placed_in(disk, *course))
        turns, order = self._courses[disk]
        free = list(disk.pools)
        for each in self._in_turn(turns):
            if each.key == claim.key:
                break
            now = self.world.get(PersistentVolumeClaim, each.key)
            if now is not None and now.selected_node == claim.selected_node and self.world.volume_of(each.key) is None:
                self._place(disk, free, order, each)
        return self._place(disk, free, order, claim)

    def _placed_in(self, disk: Disk, turns: Sequence[int], order: Sequence[int]) -> int:
        """How many replicas a driver with this order of pools creates, if the claims come in these turns."""
        free, count, here = list(disk.pools), 0, self._asked_of(disk)
        claims = [claim for claim in self._in_turn(turns) if claim.key in here]
        while claims and all(self._place(disk, free, order, claim) is not None for claim in claims):
            count += 1
        return count

    def _in_turn(self, turns: Sequence[int]) -> list[PersistentVolumeClaim]:
        claims = self._replica.claims if self._replica is not None else ()
        return [claims[turn] for turn in turns if turn < len(claims)]

    def _place(self, disk: Disk, free: list[int], order: Sequence[int], claim: PersistentVolumeClaim) -> int | None:
        """Take a claim's bytes from the first pool with room, and return its number; None if no pool has room."""
        storage = self.world.storage
        numbers, size = storage.numbers_for(disk, claim.class_name), storage.taken_bytes(claim)
        least = size + storage.kept_bytes(claim.class_name)
        place = next((number for number in order if number in numbers and free[number] >= least), None)
        if place is not None:
            free[place] -= size
        return place

    def _pools(self, disk: Disk) -> tuple[Pool, ...]:
        storage = self.world.storage
        reached = {name: storage.numbers_for(disk, name) for name in storage.classes_of(disk)}
        return tuple(
            Pool(free, tuple(name for name, numbers in reached.items() if number in numbers))
            for number, free in enumerate(disk.pools)
        )

    def _asked_of(self, disk: Disk) -> Mapping[Key, Ask]:
        """What the current replica's claims ask of a disk."""
        storage = self.world.storage
        classes, claims = storage.classes_of(disk), self._replica.claims if self._replica is not None else ()
        return {
            claim.key: Ask(storage.taken_bytes(claim), storage.kept_bytes(claim.class_name), claim.class_name)
            for claim in claims
            if claim.class_name in classes
        }
