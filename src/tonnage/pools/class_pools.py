"""What a source finds: the pools of a class by node; and the base of every source.

A source never guesses: an unknown node is left out, and an unreadable class has a `problem` and no pools. A known node
without a pool for the class has an empty tuple, which is published as "0".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple, Self

from tonnage.objects.document import Doc
from tonnage.objects.resources import Resource
from tonnage.objects.storage_v1 import StorageClass


class Pool(NamedTuple):
    """One place for a volume; a volume never spans two pools."""

    identity: str
    """Distinguishes the pools of a node: two classes with a pool of the same identity share it (`POOL_IDS`)."""
    free_bytes: int


@dataclass(frozen=True, slots=True)
class NodePools:
    pools: tuple[Pool, ...]
    observed_at: datetime | None = None
    """When the source's object was last written, by the server's clock; None if unknown."""
    largest_bytes: int | None = None
    """The largest volume that can be created, if that is less than the largest pool."""
    free_volumes: int | None = None
    """How many volumes can still be created, whatever their sizes; None if the source does not say."""

    @property
    def largest_first(self) -> list[Pool]:
        return sorted(self.pools, key=lambda pool: (-pool.free_bytes, pool.identity))

    @property
    def free_bytes(self) -> tuple[int, ...]:
        """Free bytes of the pools, the largest first."""
        return tuple(pool.free_bytes for pool in self.largest_first)

    def cut_to(self, most: int) -> NodePools:
        """The same for volumes with replicas on other nodes, which have so much. A pool with more is another pool then:
        of one pool the least figure counts for all classes."""
        pools = [pool if pool.free_bytes <= most else Pool(f"{pool.identity}/replicated", most) for pool in self.pools]
        return replace(self, pools=tuple(pools))


@dataclass(frozen=True, slots=True)
class ClassPools:
    by_node: Mapping[str, NodePools] = field(default_factory=dict)
    policy: str = ""
    """How the driver chooses among the pools (`POOL_POLICIES`); empty if there is no choice."""
    problems: tuple[str, ...] = ()
    """What is wrong with the class or with the driver's data, for people."""
    copies: int = 1
    """On how many nodes one volume takes its size."""
    anywhere: NodePools | None = None
    """The pools of all nodes together, if a pod reaches its volume from every node; None: volumes are local."""

    @classmethod
    def of(
        cls,
        by_node: Mapping[str, NodePools],
        policy: str,
        problems: Iterable[str],
        *,
        copies: int = 1,
        anywhere: NodePools | None = None,
    ) -> Self:
        """`policy` is kept only if a node has several pools."""
        has_choice = any(len(found.pools) > 1 for found in (*by_node.values(), *((anywhere,) if anywhere else ())))
        return cls(by_node, policy if has_choice else "", tuple(dict.fromkeys(problems)), copies, anywhere)

    @property
    def is_known(self) -> bool:
        """True if the source has data about the class's pools, even if there are none."""
        return self.anywhere is not None or bool(self.by_node)

    @property
    def disks(self) -> frozenset[tuple[str, str]]:
        return frozenset((node, pool.identity) for node, found in self.by_node.items() for pool in found.pools)


class Published(NamedTuple):
    nodes: Sequence[Doc]
    objects: Sequence[Doc] = ()


class PoolSource(ABC):
    """Base of the sources: where to read the pools of some drivers."""

    name: str
    """The value of `--source`."""
    drivers: tuple[str, ...] = ()
    """The CSI drivers that it is for by default; empty: `--driver` must name them."""
    kinds: tuple[Resource, ...] = ()
    """The kinds of the source's objects."""
    has_agent: bool = False
    """True if the driver's own program on every node writes the source's data, so that both fall silent together."""
    only_node: str = ""
    """The only node that it knows, if a copy of this program runs on every node; empty: it knows all."""
    silent_since: datetime | None = None
    """Since when the source itself knows that it gets nothing new."""

    @abstractmethod
    def pools_of(self, storage_class: StorageClass, published: Published) -> ClassPools:
        """The pools of one class on the given nodes, or on the nodes that the objects are about."""
