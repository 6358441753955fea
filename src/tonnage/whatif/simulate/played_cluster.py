"""A cluster in which replicas are created one after the other, each when everything before it is settled.

    make a replica ──► the world lives on: decided, volumes made, figures published, pods run ──► idle ──► what became
                                                                                                     of the replica?

So each replica is judged by up-to-date figures. Where the driver's choice of pools is unknown, it takes the worst or
the best (`pool_choices`). Pods that already wait are tried first, as in the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key, Object
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.scheduling.decision.explain import Explanation
from tonnage.scheduling.engine.attempt import Attempt
from tonnage.scheduling.plugins.registry import ForeignPlugins
from tonnage.scheduling.volumes.packing.pool_fits import Sizes, descending
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy, placed_by
from tonnage.whatif.expansion import Replica
from tonnage.whatif.replay import Replay
from tonnage.whatif.simulate.disks import Disk, PickPolicy
from tonnage.whatif.simulate.pool_choices import DriverLuck, PoolChoices
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
        self._orders: dict[Disk, list[int]] = {}
        """By disk, its pools in the order of a driver with `first-fit`."""
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
        is_made = any(self.world.volume_of(each.key) is not None for each in replica.claims)
        return PlayedReplica(pod, pod.spec.node_name if runs else "", victims, not runs and is_made)

    def explain(self, pod: Pod) -> Explanation:
        found = self.world.engine.explain(pod)
        found.held_back = self._nobody(pod.spec.scheduler_name) or found.held_back
        return found

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
        size, kept = storage.taken_bytes(claim), storage.kept_bytes(claim.class_name)
        numbers = storage.numbers_for(disk, claim.class_name)
        asked = self._asked_of(disk)
        sizes = descending(asked.values()) or (size,)
        if told == "first-fit":
            numbers = self._in_order(disk, numbers, sizes)
        pools = [disk.pools[number] - kept for number in numbers]
        if max(pools, default=-1) < size:
            return None
        if told in ("first-fit", "most-free", "best-fit"):
            place = placed_by(PoolPolicy(told), tuple(pools), size)
            return None if place is None else numbers[place]
        rest = [each for key, each in asked.items() if key != claim.key and self.world.volume_of(key) is None]
        return numbers[self.choices.pool_for(pools, (size, *descending(rest)), sizes)]

    def _in_order(self, disk: Disk, numbers: Sequence[int], sizes: Sizes) -> list[int]:
        """These pools in the one order that the driver has for all of the disk's."""
        if disk not in self._orders:
            everything = range(len(disk.pools))
            if disk.ids:
                found = self.choices.order_by(everything, lambda order: self._placed_in(order, disk))
            else:
                left, found = list(everything), []
                for free in self.choices.order_of(disk.pools, sizes):
                    found.append(next(number for number in left if disk.pools[number] == free))
                    left.remove(found[-1])
            self._orders[disk] = found
        return [number for number in self._orders[disk] if number in numbers]

    def _placed_in(self, order: Sequence[int], disk: Disk) -> int:
        """How many replicas a driver with this order of pools creates, each claim in the pools of its class."""
        storage, free, count = self.world.storage, list(disk.pools), 0
        here = self._asked_of(disk)
        claims = [each for each in (self._replica.claims if self._replica is not None else ()) if each.key in here]
        asked = [
            (here[each.key], storage.kept_bytes(each.class_name), set(storage.numbers_for(disk, each.class_name)))
            for each in sorted(claims, key=lambda each: -here[each.key])
        ]
        while asked:
            for size, kept, numbers in asked:
                place = next((at for at in order if at in numbers and free[at] >= size + kept), None)
                if place is None:
                    return count
                free[place] -= size
            count += 1
        return count

    def _asked_of(self, disk: Disk) -> Mapping[Key, int]:
        """The sizes that the current replica's claims ask of a disk."""
        classes = self.world.storage.classes_of(disk)
        claims = self._replica.claims if self._replica is not None else ()
        return {each.key: self.world.storage.taken_bytes(each) for each in claims if each.class_name in classes}
