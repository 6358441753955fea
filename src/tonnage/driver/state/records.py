"""What the driver remembers of a volume and of a snapshot: one frozen record each, one file each.

A record is the truth of what the driver serves. Contents that no record points to are unknown, and may be data: see
`state.folder`. Where a volume is published, staged and linked to stands in its record too, so that one atomic write
changes all of it.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final, Literal

import msgspec

from tonnage.driver.pool_choice import PoolId

AccessType = Literal["mount", "block"]
_ID_DIGITS: Final = 32
_CONTENTS_ID: Final = re.compile(r"(vol|snap)-[0-9a-f]{32}")


class Capability(msgspec.Struct, frozen=True):
    """How a volume is used: mounted or as blocks, and CSI's number of the access mode."""

    access_type: AccessType
    mode: int


class Publication(msgspec.Struct, frozen=True):
    """A volume that is attached to a node."""

    capability: Capability
    readonly: bool = False


class Staging(msgspec.Struct, frozen=True):
    """A volume that is staged on a node, at a path that is the caller's."""

    path: str
    capability: Capability


class Target(msgspec.Struct, frozen=True):
    """A volume that a pod of a node sees at a path."""

    node: str
    path: str
    capability: Capability
    readonly: bool = False


class VolumeOrigin(msgspec.Struct, frozen=True):
    """What a volume was filled from."""

    kind: Literal["snapshot", "volume"]
    id: str


class VolumeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One volume. `order` counts volumes as they are made, and lists go by it."""

    volume_id: str
    name: str
    order: int
    node: str
    pool: int
    capacity_bytes: int
    access_type: AccessType
    parameters: dict[str, str] = {}
    mutable_parameters: dict[str, str] = {}
    """What a VolumeAttributesClass asked for last."""
    source: VolumeOrigin | None = None
    published: dict[str, Publication] = {}
    staged: dict[str, Staging] = {}
    targets: tuple[Target, ...] = ()

    @property
    def id(self) -> str:
        return self.volume_id

    @property
    def pool_id(self) -> PoolId:
        return PoolId(self.node, self.pool)

    @property
    def users(self) -> frozenset[str]:
        """The nodes that use this volume; it takes one attach slot on each."""
        return frozenset({*self.published, *self.staged, *(target.node for target in self.targets)})

    def without_users(self, nodes: frozenset[str]) -> VolumeRecord:
        """The same volume, no longer in use on these nodes."""
        return msgspec.structs.replace(
            self,
            published={node: known for node, known in self.published.items() if node not in nodes},
            staged={node: known for node, known in self.staged.items() if node not in nodes},
            targets=tuple(target for target in self.targets if target.node not in nodes),
        )


class SnapshotRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One snapshot: a copy, which takes its own room in a pool and outlives its volume."""

    snapshot_id: str
    name: str
    order: int
    source_volume_id: str
    node: str
    pool: int
    size_bytes: int
    access_type: AccessType
    created_at_ns: int

    @property
    def id(self) -> str:
        return self.snapshot_id

    @property
    def pool_id(self) -> PoolId:
        return PoolId(self.node, self.pool)


def volume_id_of(name: str) -> str:
    """The id of the volume of this name, always the same: whoever asks twice is given one volume, whatever died."""
    return f"vol-{_digest(name)}"


def snapshot_id_of(name: str) -> str:
    """The id of the snapshot of this name, always the same."""
    return f"snap-{_digest(name)}"


def is_contents_id(text: str) -> bool:
    """Whether this driver gives such ids to volumes or snapshots."""
    return _CONTENTS_ID.fullmatch(text) is not None


def is_node_id(text: str) -> bool:
    """Whether a node can have this id: each node has a folder of its name."""
    return bool(text) and "/" not in text and "\0" not in text and not text.startswith(".")


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:_ID_DIGITS]
