"""The state of a simulated cluster: its objects by kind and name, its clock, and its watchers.

`put` and `remove` are its API server. The parts of a world (`kubelets`, `controllers`, …) depend only on this; the
`World` receives every change and passes it to the parts concerned.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Final

from tonnage.behaviour.workloads.pod_states import Sized
from tonnage.clock import VirtualClock
from tonnage.keyed import Shelf
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key, Object, changed
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.engine.attempt import Attempt
from tonnage.scheduling.framework import Status
from tonnage.whatif import creation, sources
from tonnage.whatif.simulate.disks import StorageSettings

Work = Callable[[], object]
EVERY_ATTEMPT: Final = range(sys.maxsize)


class Agenda:
    """Work at instants of virtual time; at equal instants, in the order it was added."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.now_s = 0.0
        """Seconds since the start, exactly as given to `at`: the clock counts whole nanoseconds."""
        self.awake = 0
        """Number of entries that are not alarms; see `at`."""
        self._began_s = clock.monotonic()
        self._order = count()
        self._notes: list[tuple[float, int, Work, bool]] = []

    @property
    def next_s(self) -> float | None:
        """The next instant with work; None without any."""
        return self._notes[0][0] if self._notes else None

    def at(self, when_s: float, work: Work, *, is_alarm: bool = False) -> None:
        """Add work for an instant; a past one means now. An alarm alone does not keep the world from being idle."""
        self.awake += not is_alarm
        heapq.heappush(self._notes, (max(when_s, self.now_s), next(self._order), work, is_alarm))

    def after(self, delay_s: float, work: Work, *, is_alarm: bool = False) -> None:
        self.at(self.now_s + max(delay_s, 0.0), work, is_alarm=is_alarm)

    def go_to(self, when_s: float) -> None:
        """Advance time without doing any work."""
        if when_s > self.now_s:
            self.clock.advance(max(0.0, self._began_s + when_s - self.clock.monotonic()))
            self.now_s = when_s

    def take_due(self) -> Work | None:
        if self._notes and self._notes[0][0] <= self.now_s:
            _, _, work, is_alarm = heapq.heappop(self._notes)
            self.awake -= not is_alarm
            return work
        return None


@dataclass(slots=True)
class Watcher:
    """Called at once with what happens in a world. Here it only remembers which pod replaced which."""

    _successors: dict[str, Pod] = field(default_factory=dict)

    def replaced(self, old: Pod, new: Pod) -> None:
        self._successors[old.uid] = new

    def last(self, pod: Pod) -> Pod:
        """The last in a pod's line of replacements; the pod itself without any."""
        while pod.uid in self._successors:
            pod = self._successors[pod.uid]
        return pod

    def decided(self, number: int, attempt: Attempt) -> None: ...

    def running(self, pod: Pod, since_s: float) -> None: ...

    def gone(self, pod: Pod, why: str) -> None: ...

    def failed(self, pod: PodInfo, node: str, status: Status) -> None: ...


@dataclass(frozen=True, slots=True)
class WorldSettings:
    seed: int = 0
    storage: StorageSettings = field(default_factory=StorageSettings)
    takes_any_pod: bool = True
    explains: Container[int] = ()
    """Numbers of the attempts to explain; `EVERY_ATTEMPT` for all."""
    stops_after: int | None = None
    """The number of the last attempt."""
    start_latency_s: float = 0.5
    """Seconds from a pod with all its volumes to a running pod."""
    updates_attach_limits: bool = True
    """Whether a CSINode follows its drivers (KEP-4876)."""


class WorldState(creation.ReplayObjects):
    """A cluster's objects on virtual time. `starts_at`: else at the objects' latest timestamp."""

    def __init__(
        self,
        objects: Iterable[Object],
        settings: WorldSettings,
        watcher: Watcher,
        workloads: Iterable[Object] = (),
        starts_at: datetime | None = None,
    ) -> None:
        found = list(objects)
        super().__init__(VirtualClock(starts_at) if starts_at is not None else sources.clock_of(found), found)
        self.settings = settings
        self.agenda = Agenda(self.clock)
        self.workloads = {(type(workload).__name__, workload.key): workload for workload in workloads}
        """By kind and key: workloads that decisions do not read; budgets need their sizes."""
        self.sizes: dict[tuple[str, Key], int] = {}
        """How many pods a workload wants now, whatever its initial object says."""
        self.watcher = watcher
        self.born_s: dict[str, float] = {}
        """By uid: when the pod arrived."""
        self._on_node: Shelf[str, Key, Pod] = Shelf()

    def find(self, kind: type[Object], key: Key) -> Object | None:
        """An object, also of `workloads`, with its current size."""
        place = (kind.__name__, key)
        found, size = self.named(*place) or self.workloads.get(place), self.sizes.get(place)
        return changed(found, spec={"replicas": size}) if size is not None and isinstance(found, Sized) else found

    def pods(self) -> list[Pod]:
        return self.all(Pod)

    def pods_on(self, node_name: str) -> list[Pod]:
        return sorted(self._on_node[node_name], key=lambda pod: pod.key)

    def now(self, pod: Pod) -> Pod | None:
        """This pod's current version; None when it is gone, even if another pod has its name."""
        found = self.get(Pod, pod.key)
        return found if found is not None and found.uid == pod.uid else None

    def volume_of(self, claim_key: Key) -> PersistentVolume | None:
        claim = self.get(PersistentVolumeClaim, claim_key)
        if claim is None or not claim.spec.volume_name:
            return None
        return self.get(PersistentVolume, claim.spec.volume_name)

    def evict(self, pod: Pod, why: str) -> None:
        """Delete this pod, but not another of its name."""
        found = self.now(pod)
        if found is not None:
            self.remove(Pod, pod.key)
            self.watcher.gone(found, why)
