"""What a drain comes to: who moves where, who is stuck and why, what is rebuilt, lost, or stays behind.

The structs are the answer's JSON: their fields, under these names and in this order, are a contract (docs/whatif.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec

EMPTY_DIR: Final = "emptyDir"
DELETED: Final = "nobody manages it: it is deleted and does not come back, and kubectl drain asks for --force"
PREEMPTED: Final = "preempted by a pod that had to move; nobody manages it: it does not come back"


class VolumeMove(msgspec.Struct, frozen=True, rename={"size_bytes": "bytes"}):
    """A claim of a pod that had to go: its volume is made anew where the pod went, followed it, or stays."""

    claim: str
    action: Literal["rebuild", "reattach", "stays"]
    size_bytes: int


class Move(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    rename={"source": "from", "target": "to", "equally_good": "equallyGood", "step": "during"},
):
    """A pod that went from one node to another; its successor, that is, where it is not the same by name."""

    pod: str
    workload: str
    source: str
    target: str
    volumes: tuple[VolumeMove, ...]
    equally_good: tuple[str, ...] = ()
    """The other nodes that the scheduler liked as much: the choice among them is by lot."""
    step: str = ""
    """The node that was drained, when they are drained one after the other."""


class Stuck(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    rename={"source": "from", "is_evicted": "evicted", "step": "during", "comes_back": "comesBack"},
):
    """A pod that may not leave, or that nobody has room for."""

    pod: str
    workload: str
    source: str
    message: str
    is_evicted: bool
    """False when a budget keeps it where it is."""
    volumes: tuple[VolumeMove, ...]
    step: str = ""
    comes_back: bool | None = None
    """One after the other: whether it runs again once the node is back."""


class BlockingBudget(msgspec.Struct, frozen=True):
    """A PodDisruptionBudget that keeps pods on a node."""

    name: str
    pods: tuple[str, ...]
    why: str


class LostPod(msgspec.Struct, frozen=True, rename={"source": "from"}):
    """A pod that nobody manages: what runs in it is over, for it was `DELETED` or `PREEMPTED`."""

    pod: str
    source: str
    message: str


class DataLeftBehind(msgspec.Struct, frozen=True, rename={"size_bytes": "bytes"}):
    """Data that stays on a node: where it is, what holds it, and who uses it."""

    node: str
    what: str
    volume: str | None
    claim: str | None
    size_bytes: int | None
    pods: tuple[str, ...]


class LostData(msgspec.Struct, frozen=True, rename={"size_bytes": "bytes"}):
    """Data that ends with its pod."""

    pod: str
    volume: str
    what: str
    size_bytes: int | None


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
    rebuilds: list[tuple[str, str, int]] = field(default_factory=list)
    """(from, to, bytes) of each volume that is made anew."""
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
        return sum(size_bytes for _, _, size_bytes in self.rebuilds)

    def rebuilt(self) -> list[tuple[str, str, int, int]]:
        """(from, to, bytes, volumes) of what is rebuilt, by source and target."""
        sizes: dict[tuple[str, str], list[int]] = {}
        for source, target, size_bytes in self.rebuilds:
            sizes.setdefault((source, target), []).append(size_bytes)
        return [(*places, sum(found), len(found)) for places, found in sorted(sizes.items())]

    def flags(self) -> list[str]:
        """What `kubectl drain` has to be told to do this."""
        asked = {
            "--ignore-daemonsets": bool(self.daemons),
            "--delete-emptydir-data": any(each.what == EMPTY_DIR for each in self.lost_data),
            "--force": any(each.message == DELETED for each in self.lost),
        }
        return [flag for flag, is_asked in asked.items() if is_asked]

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


def documents(found: Sequence[msgspec.Struct]) -> list[dict[str, Any]]:
    return msgspec.json.decode(msgspec.json.encode(found), type=list[dict[str, Any]])
