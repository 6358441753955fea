"""What lies in a driver's pools, seen from inside: known of the reference driver of an embedded cluster alone.

`follow/driver_records.py` reads it; everywhere else the model goes by capacity objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class PoolPlace(NamedTuple):
    """A pool of a node, by its number."""

    node: str
    pool: int


class Content(NamedTuple):
    """A volume in a pool. `name` is what the driver was asked to call it: pvc-UID of its claim."""

    place: PoolPlace
    bytes: int
    name: str = ""
    arriving: PoolPlace | None = None
    """Where it is being copied to."""

    def places(self) -> Iterator[PoolPlace]:
        yield self.place
        if self.arriving is not None and self.arriving != self.place:
            yield self.arriving


@dataclass(frozen=True, slots=True)
class DriverContents:
    """Pools and what is in them. `volumes` are by handle."""

    driver: str = ""
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    volumes: Mapping[str, Content] = field(default_factory=dict)
    snapshots: Mapping[PoolPlace, int] = field(default_factory=dict)
    unknown: Mapping[PoolPlace, int] = field(default_factory=dict)
    in_pools: dict[PoolPlace, list[str]] = field(default_factory=dict)
    """Handles by pool, those that are arriving there too."""

    by_name: dict[str, str] = field(default_factory=dict)
    """Handles by what the driver was asked to call the volume."""

    def __post_init__(self) -> None:
        for handle, content in sorted(self.volumes.items()):
            self.by_name[content.name] = handle
            for place in content.places():
                self.in_pools.setdefault(place, []).append(handle)

    def nodes(self) -> Iterable[str]:
        """Every node that has pools, or contents."""
        found = dict.fromkeys(self.sizes)
        found.update(dict.fromkeys(place.node for place in (*self.in_pools, *self.snapshots, *self.unknown)))
        return found

    def pools_of(self, node: str) -> tuple[int, ...]:
        """Sizes of a node's pools. A node that the driver does not serve any more has pools of unknown size: 0."""
        found = self.sizes.get(node)
        if found is not None:
            return found
        numbers = [place.pool for place in (*self.in_pools, *self.snapshots, *self.unknown) if place.node == node]
        return (0,) * (max(numbers) + 1) if numbers else ()

    def differing(self, before: DriverContents) -> tuple[set[str], set[str]]:
        """Handles and nodes of which this says something else than `before` did."""
        handles = {
            handle
            for handle in before.volumes.keys() | self.volumes.keys()
            if before.volumes.get(handle) != self.volumes.get(handle)
        }
        nodes = {name for name in {*before.nodes(), *self.nodes()} if before.sizes.get(name) != self.sizes.get(name)}
        for told in (before, self):
            nodes |= {place.node for handle in handles & told.volumes.keys() for place in told.volumes[handle].places()}
        for one, other in ((before.snapshots, self.snapshots), (before.unknown, self.unknown)):
            nodes |= {place.node for place in one.keys() | other.keys() if one.get(place) != other.get(place)}
        return handles, nodes
