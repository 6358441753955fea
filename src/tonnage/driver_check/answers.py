"""What drivers answered, as plain facts: what the contracts are judged by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import Code, code_name

Segments = Mapping[str, str]
"""One topology: labels and values."""


@dataclass(frozen=True, slots=True)
class CallRefused:
    """A call that was not done."""

    code: Code
    told: str = ""

    def __str__(self) -> str:
        return f"{code_name(self.code)} ({self.told})" if self.told else code_name(self.code)


@dataclass(frozen=True, slots=True)
class Capacity:
    """An answer to GetCapacity."""

    available: int = 0
    pools: tuple[int, ...] = ()
    maximum: int | None = None

    @classmethod
    def of(cls, answer: csi.GetCapacityResponse) -> Self:
        maximum = answer.maximum_volume_size.value if answer.HasField("maximum_volume_size") else None
        return cls(answer.available_capacity, tuple(answer.available_capacities), maximum)

    @property
    def free_bytes(self) -> int:
        return sum(self.pools) if self.pools else self.available

    @property
    def largest_bytes(self) -> int:
        """The largest volume that could be made, by these figures."""
        most = max(self.pools) if self.pools else self.available
        return most if self.maximum is None else min(most, self.maximum)


@dataclass(frozen=True, slots=True)
class CheckedVolume:
    """A volume as the driver tells of it."""

    volume_id: str
    size_bytes: int
    topology: tuple[Segments, ...] = ()

    @classmethod
    def of(cls, answer: csi.Volume) -> Self:
        topology = tuple(dict(each.segments) for each in answer.accessible_topology)
        return cls(answer.volume_id, answer.capacity_bytes, topology)

    def reaches(self, node: Segments) -> bool:
        """Whether it can be used on a node of this topology; one without topology can everywhere."""
        return not self.topology or any(each.items() <= node.items() for each in self.topology)


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """An answer to NodeGetInfo."""

    node_id: str
    limit: int
    topology: Segments

    @classmethod
    def of(cls, answer: csi.NodeGetInfoResponse) -> Self:
        return cls(answer.node_id, answer.max_volumes_per_node, dict(answer.accessible_topology.segments))
