"""A cluster in which replicas are created one after the other, each when everything before it is settled.

    make a replica ──► the world lives on: decided, volumes made, figures published, pods run ──► idle ──► what became
                                                                                                     of the replica?

So each replica is judged by up-to-date figures. Pods that already wait are tried first, as in the cluster.

Where the driver's policy is unknown, it takes the pool that leaves room for the fewest replicas, or for the most. The
choice matters for replicas with claims of different sizes: pools 100 and 100 hold 80+20 twice if each 20 goes beside an
80, else once. `PoolChoices` tries every choice for replica after replica in the pools of one disk; a choice is worth
the fewest or the most replicas that run in the end. The search is bounded: `is_cut` says that it was cut and the rest
is a guess. A driver with `first-fit` has an unknown order of pools, and claims that are sent together reach it in any
order: both are assumed for the worst or for the best before its first volume (`Course`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice, permutations, product, starmap
from typing import Final, NamedTuple

from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key, Object
from tonnage.scheduling.configuration.configuration import Configuration
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.scheduling.decision.explain import Explanation
from tonnage.scheduling.engine.attempt import Attempt
from tonnage.scheduling.volumes.packing.pool_fits import SearchBudget, fits_one
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy, PoolReach, SharedPools, pieces_of, placed_by
from tonnage.scheduling.volumes.packing.shared_pools import shared_places
from tonnage.whatif.expansion import Expansion, Replica
from tonnage.whatif.explain import (
    PodAnswer,
    PodState,
    RoomRemarks,
    asks_for_another,
    state_of,
    workload_text,
)
from tonnage.whatif.replay import Replay, no_profile
from tonnage.whatif.simulate.disks import Disk, PickPolicy
from tonnage.whatif.simulate.world import World
from tonnage.whatif.simulate.world_state import EVERY_ATTEMPT, Watcher, WorldSettings
from tonnage.whatif.sources import ClusterState

MOST_STATES: Final = 30_000
"""Limit of pool states per question, about half a second."""
_FURTHEST: Final = 200
"""How many claims the search looks ahead."""
_MOST_COURSES: Final = 720
_PACKING_STEPS: Final = 2_000


class DriverLuck(Enum):
    """What is assumed about a driver whose choices are unknown."""

    WORST = "worst"
    BEST = "best"


class Pool(NamedTuple):
    free: int
    classes: tuple[str, ...]
    """That draw from it."""


class Ask(NamedTuple):
    """A claim: what its volume takes, what the driver keeps free beside it, and its class."""

    size: int
    kept: int
    class_name: str


Pools = tuple[Pool, ...]
Asks = tuple[Ask, ...]
"""Descending."""


class Course(NamedTuple):
    turns: tuple[int, ...]
    """The claims of a replica, by position, in the order in which their volumes are made."""
    order: tuple[int, ...]
    """The pools, by number, in the order in which the driver looks at them."""


class PoolChoices:
    """The choices of one driver for replicas that all ask for the same of a disk."""

    def __init__(self, luck: DriverLuck) -> None:
        self._luck = luck
        self._better = min if luck is DriverLuck.WORST else max
        self._worth: dict[tuple[Pools, Asks, Asks], int] = {}
        self.is_cut = False
        self.has_chosen = False
        """There was a choice, so another luck may end differently."""

    def pool_for(self, pools: Pools, rest: Asks, asks: Asks) -> int:
        """The index of the pool for the first of `rest`, the replica's claims still to be created; at least one pool
        must have room for it. Later replicas ask for `asks`."""
        roomy = {pool: place for place, pool in enumerate(pools) if _takes(pool, rest[0])}
        if len(roomy) == 1 or len({*asks, *rest}) == 1:  # with equal claims the choice does not matter
            return next(iter(roomy.values()))
        self.has_chosen = True
        worth = {pool: self._after(pools, pool, rest, asks) for pool in roomy}
        best = self._better(worth.values())
        return roomy[min(pool for pool in roomy if worth[pool] == best)]

    def course_of(
        self,
        turns: Iterable[tuple[int, ...]],
        orders: Iterable[tuple[int, ...]],
        worth_of: Callable[[tuple[int, ...], tuple[int, ...]], int],
    ) -> Course:
        """The course of a driver with `first-fit` in which the fewest or the most replicas run."""
        most = _MOST_COURSES + 1
        courses = list(islice(starmap(Course, product(islice(turns, most), islice(orders, most))), most))
        self.is_cut |= len(courses) == most
        worth = {course: worth_of(*course) for course in courses[:_MOST_COURSES]}
        self.has_chosen |= len(set(worth.values())) > 1
        chosen = self._better(worth.values())
        return next(course for course in worth if worth[course] == chosen)

    def _after(self, pools: Pools, pool: Pool, rest: Asks, asks: Asks, ahead: int = 0) -> int:
        """How many replicas run in the end, including the current one, if it takes this pool."""
        left = list(pools)
        left.remove(pool)
        now = tuple(sorted([*left, Pool(pool.free - rest[0].size, pool.classes)], reverse=True))
        coming = rest[1:]
        if coming:
            return self._run(now, coming, asks, ahead)
        return 1 + (self._run(now, asks, asks, ahead) if _hold(now, asks) else 0)

    def _run(self, pools: Pools, rest: Asks, asks: Asks, ahead: int) -> int:
        known = self._worth.get((pools, rest, asks))
        if known is not None:
            return known
        choices = [pool for pool in dict.fromkeys(pools) if _takes(pool, rest[0])]
        if ahead >= _FURTHEST:
            self.is_cut = True
            return 0
        if len(self._worth) >= MOST_STATES:
            self.is_cut = True
            choices = choices[:1] if self._luck is DriverLuck.WORST else choices[-1:]
        after = (self._after(pools, pool, rest, asks, ahead + 1) for pool in choices)
        found = self._worth[pools, rest, asks] = self._better(after, default=0)
        return found


def _takes(pool: Pool, ask: Ask) -> bool:
    return ask.class_name in pool.classes and pool.free >= ask.size + ask.kept


def _hold(pools: Pools, asks: Asks) -> bool:
    kept, search = max(ask.kept for ask in asks), SearchBudget(_PACKING_STEPS)
    free = tuple(pool.free - kept for pool in pools)
    if len({pool.classes for pool in pools}) == 1:
        return fits_one(free, tuple(ask.size for ask in asks), search)
    names = sorted({ask.class_name for ask in asks})
    reaches = [PoolReach(tuple(at for at, pool in enumerate(pools) if name in pool.classes)) for name in names]
    pieces = pieces_of((ask.size, names.index(ask.class_name)) for ask in asks)
    return shared_places(SharedPools(free, tuple(reaches)), pieces, search=search) is not None


def distinct_orders(pools: Sequence[Hashable]) -> Iterator[tuple[int, ...]]:
    """The orders of these pools, by number, of which no two differ by equal pools alone."""

    def orders_of(left: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        firsts = {pools[number]: number for number in reversed(left)}
        for first in reversed(firsts.values()):
            for rest in orders_of(tuple(number for number in left if number != first)):
                yield first, *rest
        if not left:
            yield ()

    return orders_of(tuple(range(len(pools))))


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
        self.choices = PoolChoices(luck)
        self._nobody = state.schedulers.nobody if takes_any_pod else lambda scheduler: ""
        self._replica: Replica | None = None
        self._courses: dict[Disk, Course] = {}
        """By disk, what is assumed about a driver with `first-fit`."""
        self.world = World(
            [each for each in state.objects if not (isinstance(each, Pod) and self._is_left_alone(each))],
            profiles,
            self.courses,
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
        """How many replicas a driver with this order of pools creates, if the claims come in these turns, or largest
        first: the scheduler sends them one by one where the turns would leave one without room."""
        storage, here = self.world.storage, self._asked_of(disk)
        claims = [claim for claim in self._in_turn(turns) if claim.key in here]
        largest_first = sorted(claims, key=storage.taken_bytes, reverse=True)
        pools, count = list(disk.pools), 0
        while claims:
            for sequence in (claims, largest_first):
                left = list(pools)
                if all(self._place(disk, left, order, claim) is not None for claim in sequence):
                    break
            else:
                break
            pools, count = left, count + 1
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


class PlayedWorkloads:
    """Answers about the workloads of one cluster. Calls `note` once with each thing that a person should know."""

    def __init__(
        self,
        state: ClusterState,
        configuration: Configuration,
        *,
        is_default: bool,
        note: Callable[[str], object] = lambda sentence: None,
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
