"""The results of a run: placed and waiting pods, refused volumes, times until pods run, and how full disks were.

Everything comes from `Watcher` calls and from samples: the same seed gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tonnage.keyed import grouped
from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.engine.attempt import Attempt
from tonnage.scheduling.framework import Status
from tonnage.whatif.simulate.world import World, disk_documents
from tonnage.whatif.simulate.world_state import Watcher


@dataclass(frozen=True, slots=True)
class AttemptMade:
    """One attempt: time, pod, node; an empty node means none."""

    number: int
    at_s: float
    pod: str
    node: str


@dataclass(slots=True)
class Measures(Watcher):
    decisions: list[AttemptMade] = field(default_factory=list)
    running_after_s: list[float] = field(default_factory=list)
    samples: dict[float, dict[str, Any]] = field(default_factory=dict)
    """By time, as in the run's document. Fragmentation is the share of free bytes outside the largest pool of its disk:
    0 if each disk's free space is in one pool."""
    failures: list[tuple[float, str, str, str]] = field(default_factory=list)
    """(time, pod, node, reason) of pods that lost their node before they ran."""
    lost: list[tuple[str, str]] = field(default_factory=list)
    """Deleted pods that nothing recreates, with the reason."""
    explanations: dict[int, dict[str, Any]] = field(default_factory=dict)
    arrived: int = 0
    """How many pods were requested."""
    is_partial: bool = False
    """The run was stopped early."""
    world: World = field(init=False)
    _running: int = 0
    _finished: int = 0
    """Pods that had a node and whose lifetime is over, or that were deleted on purpose."""
    _decided: set[str] = field(default_factory=set)
    """Uids of pods that were placed."""

    def begin(self, world: World) -> None:
        """Count the pods that run at the start, and those without a node as arrived."""
        self.world = world
        self._running = sum(pod.status.phase == "Running" for pod in world.pods())
        self.arrived = sum(not pod.spec.node_name and not pod.is_terminal for pod in world.pods())

    # -- calls of the world -------------------------------------------------------------------------------------------

    def decided(self, number: int, attempt: Attempt) -> None:
        node = ""
        if attempt.placement is not None:
            node = attempt.placement.node
            self._decided.add(attempt.pod.uid)
        self.decisions.append(AttemptMade(number, self.world.agenda.now_s, attempt.pod.key, node))
        if attempt.explanation is not None:
            self.explanations[number] = attempt.explanation.document()

    def running(self, pod: Pod, since_s: float) -> None:
        self.running_after_s.append(self.world.agenda.now_s - since_s)
        self._running += 1

    def gone(self, pod: Pod, why: str) -> None:
        self._running -= pod.status.phase == "Running"
        is_ended = why in ("done", "deleted")
        self._finished += is_ended and bool(pod.spec.node_name) and pod.uid in self._decided
        if pod.metadata.controller is None and not is_ended:
            self.lost.append((pod.key, why))

    def failed(self, pod: PodInfo, node: str, status: Status) -> None:
        self.failures.append((self.world.agenda.now_s, pod.key, node, status.message))

    def sample(self) -> None:
        """Record the cluster's current state; of two samples at one instant the later counts."""
        world, disks = self.world, list(self.world.storage.disks)
        free, total = sum([disk.free_bytes for disk in disks]), sum([disk.total_bytes for disk in disks])
        largest = sum([max(disk.pools) for disk in disks if disk.pools])
        self.samples[world.agenda.now_s] = {
            "at": round(world.agenda.now_s, 3),
            "usedBytes": total - free,
            "totalBytes": total,
            "utilisation": round((total - free) / total, 4) if total else 0.0,
            "fragmentation": round(1 - largest / free, 4) if free else 0.0,
            "running": self._running,
            "waiting": sum(world.engine.queue.pending_pods().values()) + world.scheduler.on_their_way,
            "refusedVolumes": world.storage.counts.refused,
        }

    @property
    def placed(self) -> int:
        """Pods that this run placed: those that still have a node, and those that ended there."""
        there = (pod for pod in self.world.pods() if pod.spec.node_name and not pod.is_terminal)
        return sum(pod.uid in self._decided and not pod.metadata.is_terminating for pod in there) + self._finished

    def waiting_pods(self) -> list[Pod]:
        return [pod for pod in self.world.pods() if not pod.spec.node_name and not pod.is_terminal]

    def waiting_groups(self) -> list[tuple[str, list[str]]]:
        """(reason, pods) of waiting pods, largest group first."""
        why, waiting = self.world.scheduler.why, sorted(self.waiting_pods(), key=lambda pod: pod.key)
        groups = grouped((why.get(pod.uid, "on its way, or not tried yet"), pod.key) for pod in waiting)
        return sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))


def percentile(values: Sequence[float], percent: float) -> float | None:
    """The smallest value that at least `percent` of the values do not exceed; None without values."""
    if not values:
        return None
    ordered = sorted(values)
    rank = max(1, -(-len(ordered) * percent // 100))
    return round(ordered[int(rank) - 1], 3)


SHOWN_PODS: Final = 20
PERCENTS: Final = (0, *range(5, 100, 5), 99, 100)
"""The percentages of pods for which the time until they ran is reported."""


def run_document(measured: Measures) -> dict[str, Any]:
    world, took_s, samples = measured.world, sorted(measured.running_after_s), list(measured.samples.values())
    counts = world.storage.counts
    return {
        "placed": measured.placed,
        "waiting": len(measured.waiting_pods()),
        "refusedVolumes": counts.refused,
        "timeToRunning": {f"p{percent}": percentile(took_s, percent) for percent in (50, 90, 99)},
        "bytesRebuilt": counts.bytes_rebuilt,
        "runningWithin": [{"percent": each, "seconds": percentile(took_s, each)} for each in PERCENTS if took_s],
        "arrived": measured.arrived,
        "notMade": world.controllers.not_made,
        "running": samples[-1]["running"] if samples else 0,
        "seconds": round(world.agenda.now_s, 3),
        "partial": measured.is_partial,
        "volumesMade": counts.made,
        "attempts": len(measured.decisions),
        "decisions": [
            {"at": round(each.at_s, 3), "pod": each.pod, "node": each.node or None} for each in measured.decisions
        ],
        "failedBindings": len(measured.failures),
        "rejectedPods": world.kubelets.rejected,
        "waitingPods": [
            {"reason": reason, "count": len(pods), "pods": pods[:SHOWN_PODS]}
            for reason, pods in measured.waiting_groups()
        ],
        "lost": [{"pod": pod, "why": why} for pod, why in measured.lost],
        "blockedEvictions": [{"pod": pod, "why": why} for pod, why in sorted(world.nodes.refused.items())],
        "rebuilds": [
            {"at": round(at_s, 3), "volume": volume, "from": source, "to": target, "bytes": size_bytes}
            for at_s, volume, source, target, size_bytes in counts.rebuilt
        ],
        "samples": samples,
        "disks": disk_documents(world.storage, world.engine.held),
    }
