"""What a run comes to: who was placed, who waits, which volumes were refused, how long pods took, how full disks were.

Everything is derived from what the world tells (`world.Watcher`) and from samples at equal distances; nothing here
depends on the machine's clock, so the same seed gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.engine.attempt import Attempt
from tonnage.scheduling.framework import Status
from tonnage.whatif.simulate.disks import Disk
from tonnage.whatif.simulate.world import World


@dataclass(frozen=True, slots=True)
class Decided:
    """One attempt: when, who, where to; an empty node is nowhere."""

    number: int
    at_s: float
    pod: str
    node: str


@dataclass(frozen=True, slots=True)
class Sample:
    """The cluster at an instant."""

    at_s: float
    used_bytes: int
    total_bytes: int
    fragmentation: float
    """The part of free bytes that is not in the largest pool of its disk: 0 when each disk's room is in one piece."""
    running: int
    waiting: int
    refused: int


@dataclass(slots=True)
class Measures:
    """The watcher of one run."""

    world: World | None = None
    decisions: list[Decided] = field(default_factory=list)
    running_after_s: list[float] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    failures: list[tuple[float, str, str, str]] = field(default_factory=list)
    """(when, pod, node, why) of pods that lost their node on the way."""
    lost: list[tuple[str, str]] = field(default_factory=list)
    """Pods that went and that nobody makes again, each with why."""
    explanations: dict[int, dict[str, Any]] = field(default_factory=dict)
    on_running: list[Any] = field(default_factory=list)
    _running: int = 0

    # -- what the world tells -----------------------------------------------------------------------------------------

    def decided(self, number: int, attempt: Attempt) -> None:
        node = attempt.placement.node if attempt.placement is not None else ""
        self.decisions.append(Decided(number, self._now_s, attempt.pod.key, node))
        if attempt.explanation is not None:
            self.explanations[number] = attempt.explanation.document()

    def running(self, pod: Pod, since_s: float) -> None:
        self.running_after_s.append(self._now_s - since_s)
        self._running += 1
        for listener in self.on_running:
            listener(pod)

    def gone(self, pod: Pod, why: str) -> None:
        if pod.status.phase == "Running":
            self._running -= 1
        if pod.metadata.controller is None and why != "done":
            self.lost.append((pod.key, why))

    def failed(self, pod: PodInfo, node: str, status: Status) -> None:
        self.failures.append((self._now_s, pod.key, node, status.message))

    @property
    def _now_s(self) -> float:
        return self.world.agenda.now_s if self.world is not None else 0.0

    # -- samples ------------------------------------------------------------------------------------------------------

    def sample(self) -> None:
        """Note how the cluster is now."""
        if self.world is None:
            return
        disks = list(self.world.storage.disks)
        free, total = sum(disk.free_bytes for disk in disks), sum(disk.total_bytes for disk in disks)
        counts = self.world.storage.counts
        self.samples.append(
            Sample(
                self._now_s,
                total - free,
                total,
                fragmentation(disks),
                self._running,
                self.waiting(),
                counts.refused + counts.refused_rebuilds,
            )
        )

    def waiting(self) -> int:
        """Pods that have no node now."""
        if self.world is None:
            return 0
        return sum(self.world.engine.queue.pending_pods().values())

    def document(self) -> dict[str, Any]:
        """The run as JSON."""
        if self.world is None:
            raise RuntimeError("nothing was run")
        counts = self.world.storage.counts
        placed = {each.pod for each in self.decisions if each.node}
        return {
            "placed": len(placed),
            "waiting": self.waiting(),
            "refusedVolumes": counts.refused + counts.refused_rebuilds,
            "timeToRunning": {
                "p50": percentile(self.running_after_s, 50),
                "p99": percentile(self.running_after_s, 99),
            },
            "bytesRebuilt": counts.bytes_rebuilt,
            "volumesMade": counts.made,
            "attempts": len(self.decisions),
            "failedBindings": len(self.failures),
            "lost": [{"pod": pod, "why": why} for pod, why in self.lost],
            "utilisation": [
                {
                    "at": round(each.at_s, 3),
                    "used": each.used_bytes,
                    "total": each.total_bytes,
                    "fragmentation": round(each.fragmentation, 4),
                    "running": each.running,
                    "waiting": each.waiting,
                    "refused": each.refused,
                }
                for each in self.samples
            ],
        }


def percentile(values: Sequence[float], percent: float) -> float | None:
    """The smallest value that so many percent do not exceed; None without any."""
    if not values:
        return None
    ordered = sorted(values)
    rank = max(1, -(-len(ordered) * percent // 100))
    return round(ordered[int(rank) - 1], 3)


def fragmentation(disks: Sequence[Disk]) -> float:
    free = sum(disk.free_bytes for disk in disks)
    largest = sum(max(disk.pools, default=0) for disk in disks)
    return 1 - largest / free if free else 0.0
