"""What a source finds: the pools of a class, node by node; and the base of every source.

A source never guesses: a node it knows nothing about is left out, a class that it cannot read has a `problem` and no
pools at all. A node that it knows, and that has no pool for the class, has no room: that is an empty tuple, and it is
published as "0".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Self

from tonnage.objects.document import Doc
from tonnage.objects.resources import Resource
from tonnage.objects.storage_v1 import StorageClass
from tonnage.pools.reading import name_of


class Pool(NamedTuple):
    """One place that a volume may be made in, whole."""

    identity: str
    """Tells the disks of a node apart: two classes with a pool of the same identity draw from the same disks."""
    free_bytes: int


@dataclass(frozen=True, slots=True)
class NodePools:
    pools: tuple[Pool, ...]
    observed_at: datetime | None = None
    """When what they were read from was last written, by the server's clock; None when it does not say."""

    @property
    def free_bytes(self) -> tuple[int, ...]:
        """Of each pool, the largest first."""
        return tuple(sorted((pool.free_bytes for pool in self.pools), reverse=True))


@dataclass(frozen=True, slots=True)
class ClassPools:
    """What a source says about one class."""

    by_node: Mapping[str, NodePools] = field(default_factory=dict)
    policy: str = ""
    """How the driver chooses among them (`POOL_POLICIES`); empty where there is nothing to choose."""
    problems: tuple[str, ...] = ()
    """What is wrong with the class or with what its driver publishes, for people."""

    @classmethod
    def of(cls, by_node: Mapping[str, NodePools], policy: str, problems: Iterable[str]) -> Self:
        """The `policy` is told where some node has several pools."""
        has_choice = any(len(found.pools) > 1 for found in by_node.values())
        return cls(by_node, policy if has_choice else "", tuple(dict.fromkeys(problems)))

    @property
    def disks(self) -> frozenset[tuple[str, str]]:
        return frozenset((node, pool.identity) for node, found in self.by_node.items() for pool in found.pools)


class Published(NamedTuple):
    """What a source reads, as it is at one moment."""

    nodes: Sequence[Doc]
    objects: Sequence[Doc] = ()


class PoolSource(ABC):
    """Where the pools of some drivers are told."""

    name: str
    """What `--source` calls it."""
    drivers: tuple[str, ...] = ()
    """The CSI drivers that it is for, unless somebody says otherwise; empty: it has to be said."""
    kind: Resource | None = None
    has_agent: bool = False
    """Whether what it reads is kept by the driver's own program on each node, so that it falls silent with it."""
    only_node: str = ""
    """The one node that it knows of, where a copy of this program runs on each; empty: it knows of all."""
    silent_since: datetime | None = None
    """Since when nothing new can be had from it, as far as it knows that itself."""

    def names_of(self, node: Doc) -> tuple[str, ...]:
        """What the source's objects about a node may be named after: the node, or what else it is called there."""
        return (name_of(node),)

    @abstractmethod
    def pools_of(self, storage_class: StorageClass, published: Published) -> ClassPools:
        """The pools of one class on the nodes that are handed in, or that the objects are about."""
