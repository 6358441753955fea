"""What a drain comes to: who moves where, who is stuck and why, what is rebuilt, lost, or stays behind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

Action = Literal["rebuild", "reattach", "stays"]


@dataclass(frozen=True, slots=True)
class VolumeMove:
    """A claim of a pod that had to go: its volume is made anew where the pod went, followed it, or stays."""

    claim: str
    action: Action
    size_bytes: int
    home: str = ""
    """The node that has its contents; empty for storage that several nodes reach."""

    def document(self) -> dict[str, Any]:
        return {"claim": self.claim, "action": self.action, "bytes": self.size_bytes}


@dataclass(frozen=True, slots=True)
class Move:
    """A pod that went from one node to another; its successor, that is, where it is not the same by name."""

    pod: str
    workload: str
    source: str
    target: str
    volumes: tuple[VolumeMove, ...] = ()
    equally_good: tuple[str, ...] = ()
    """The other nodes that the scheduler liked as much: the choice among them is by lot."""
    step: str = ""
    """The node that was drained, when they are drained one after the other."""

    def document(self) -> dict[str, Any]:
        return {
            "pod": self.pod,
            "workload": self.workload,
            "from": self.source,
            "to": self.target,
            "volumes": [each.document() for each in self.volumes],
            **({"equallyGood": list(self.equally_good)} if self.equally_good else {}),
            **({"during": self.step} if self.step else {}),
        }


@dataclass(frozen=True, slots=True)
class Stuck:
    """A pod that may not leave, or that nobody has room for."""

    pod: str
    workload: str
    source: str
    message: str
    is_evicted: bool = True
    """False when a budget keeps it where it is."""
    volumes: tuple[VolumeMove, ...] = ()
    step: str = ""
    comes_back: bool = False
    """One after the other: it runs again once the node is back."""

    def document(self) -> dict[str, Any]:
        return {
            "pod": self.pod,
            "workload": self.workload,
            "from": self.source,
            "message": self.message,
            "evicted": self.is_evicted,
            "volumes": [each.document() for each in self.volumes],
            **({"during": self.step, "comesBack": self.comes_back} if self.step else {}),
        }


@dataclass(frozen=True, slots=True)
class BlockingBudget:
    """A PodDisruptionBudget that keeps pods on a node."""

    name: str
    pods: tuple[str, ...]
    why: str

    def document(self) -> dict[str, Any]:
        return {"name": self.name, "pods": list(self.pods), "why": self.why}


@dataclass(frozen=True, slots=True)
class LostPod:
    """A pod that nobody manages: what runs in it is over."""

    pod: str
    source: str
    is_preempted: bool = False
    """It was not on a drained node, but had to make room."""

    @property
    def message(self) -> str:
        if self.is_preempted:
            return "preempted by a pod that had to move; nobody manages it: it does not come back"
        return "nobody manages it: it is deleted and does not come back, and kubectl drain asks for --force"

    def document(self) -> dict[str, Any]:
        return {"pod": self.pod, "from": self.source, "message": self.message}


@dataclass(frozen=True, slots=True)
class DataLeftBehind:
    """Data that stays on a node: where it is, what holds it, and who uses it."""

    node: str
    what: str
    size_bytes: int | None
    volume: str = ""
    claim: str = ""
    pods: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        return {
            "node": self.node,
            "what": self.what,
            "volume": self.volume or None,
            "claim": self.claim or None,
            "bytes": self.size_bytes,
            "pods": list(self.pods),
        }


@dataclass(frozen=True, slots=True)
class LostData:
    """Data that ends with its pod."""

    pod: str
    volume: str
    what: str
    size_bytes: int | None = None

    def document(self) -> dict[str, Any]:
        return {"pod": self.pod, "volume": self.volume, "what": self.what, "bytes": self.size_bytes}


@dataclass(slots=True)
class DrainOutcome:
    """All that happened. Lists are in the order of the nodes that were drained, then of the pods' names."""

    drained: tuple[str, ...]
    moves: list[Move] = field(default_factory=list)
    preempted: list[Move] = field(default_factory=list)
    """Pods of other nodes that had to make room, and where they went."""
    stuck: list[Stuck] = field(default_factory=list)
    budgets: list[BlockingBudget] = field(default_factory=list)
    lost: list[LostPod] = field(default_factory=list)
    daemons: list[tuple[str, str]] = field(default_factory=list)
    """(pod, node) of those that stay: of DaemonSets, and static ones."""
    left_behind: list[DataLeftBehind] = field(default_factory=list)
    lost_data: list[LostData] = field(default_factory=list)
    waiting_before: list[str] = field(default_factory=list)
    """Pods that had no node before anything was drained."""

    @property
    def holds(self) -> bool:
        return not self.stuck

    @property
    def cost(self) -> tuple[int, int]:
        """Which of two orders is better: fewer pods stuck, then fewer bytes rebuilt."""
        return len(self.stuck), self.bytes_rebuilt

    @property
    def bytes_rebuilt(self) -> int:
        return sum(size for _, _, size, _ in self.rebuilt())

    def rebuilt(self) -> list[tuple[str, str, int, int]]:
        """(from, to, bytes, volumes) of what is rebuilt, by source and target."""
        sums: dict[tuple[str, str], tuple[int, int]] = {}
        for move in (*self.moves, *self.preempted):
            for each in move.volumes:
                if each.action == "rebuild":
                    size, count = sums.get((each.home, move.target), (0, 0))
                    sums[each.home, move.target] = (size + each.size_bytes, count + 1)
        return [(source, target, *found) for (source, target), found in sorted(sums.items())]

    def flags(self) -> list[str]:
        """What `kubectl drain` has to be told to do this."""
        found = ["--ignore-daemonsets"] if self.daemons else []
        if any(each.what == EMPTY_DIR for each in self.lost_data):
            found.append("--delete-emptydir-data")
        return [*found, *(["--force"] if any(not each.is_preempted for each in self.lost) else [])]

    def document(self) -> dict[str, Any]:
        return {
            "drained": list(self.drained),
            "moves": documents(self.moves),
            "stuck": documents(self.stuck),
            "holds": self.holds,
            "budgets": documents(self.budgets),
            "preempted": documents(self.preempted),
            "lost": documents(self.lost),
            "daemons": [{"pod": pod, "node": node} for pod, node in self.daemons],
            "dataLeftBehind": documents(self.left_behind),
            "dataLost": documents(self.lost_data),
            "bytesRebuilt": {
                "total": self.bytes_rebuilt,
                "moves": [
                    {"from": source, "to": target, "bytes": size, "volumes": count}
                    for source, target, size, count in self.rebuilt()
                ],
            },
            "waitingBefore": self.waiting_before,
            "kubectlFlags": self.flags(),
        }


EMPTY_DIR = "emptyDir"


def documents(found: Iterable[Any]) -> list[dict[str, Any]]:
    return [each.document() for each in found]
