"""Pools and slots of nodes as people write them, and which pool a new volume goes to.

    3x100Gi                    every node: three pools of 100Gi
    100Gi,50Gi                 every node: two pools
    node-2=2x50Gi,10Gi         node-2 alone, instead of what every node has
    8, node-2=2                slots: volumes that may be attached

What is said of one node goes before what is said of all; said twice, the last word counts. What reads texts raises
ValueError with a sentence; the command line makes wrong usage of it.

A volume lives in one pool of one node, and no pool is ever overdrawn. `choose` goes by a policy; ties go to the node
and the pool that come first:

    best-fit    the pool that has the least left over afterwards, so that the large rooms stay large
    most-free   the pool that has the most room, so that all fill up alike
    first-fit   the first that has room
    random      any that has room, evenly
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Literal, TypeVar

from tonnage.quantity import InvalidQuantity, Quantity

T = TypeVar("T")

MAX_POOLS: Final = 1024
"""Pools of one node: far more than any machine has disks, and few enough for a slip of the keyboard to be told."""
_TIMES: Final = re.compile(r"([0-9]+)[xX*](.*)")


@dataclass(frozen=True, slots=True)
class PerNode(Generic[T]):
    """A value for `node`, or for every node where that is empty. `text` is what was written."""

    node: str
    value: T
    text: str


def parse_node_pools(text: str) -> PerNode[tuple[int, ...]]:
    """`[NODE=]SIZE,SIZE,…`, each SIZE a quantity, or NxSIZE for several of the same. Gives bytes."""
    node, listed = _split(text)
    return PerNode(node, parse_pools(listed), text)


def parse_node_count(text: str) -> PerNode[int]:
    """`[NODE=]N`; 0 is no limit."""
    node, number = _split(text)
    if not number.isascii() or not number.isdecimal():
        raise ValueError(f'"{number}" is no number of volumes; write it like "8" or "node-2=2", 0 is no limit')
    return PerNode(node, int(number), text)


def parse_pools(text: str) -> tuple[int, ...]:
    """The sizes in bytes of a list such as `2x100Gi,50Gi`, in order."""
    sizes: list[int] = []
    for entry in text.split(","):
        times = _TIMES.fullmatch(entry.strip())
        count, size = (int(times[1]), times[2]) if times else (1, entry.strip())
        if not size:
            raise ValueError(f'"{text}" is no list of pools; write it like "3x100Gi" or "100Gi,50Gi"')
        try:
            size_bytes = Quantity.parse(size).value()
        except InvalidQuantity as exc:
            raise ValueError(exc.message) from exc
        if size_bytes <= 0:
            raise ValueError(f'a pool of "{size}" holds nothing; a pool has at least one byte')
        if count < 1 or len(sizes) + count > MAX_POOLS:
            raise ValueError(f'"{text}" is {len(sizes) + count} pools; a node has between 1 and {MAX_POOLS}')
        sizes += [size_bytes] * count
    return tuple(sizes)


def by_node(option: str, said: Iterable[PerNode[T]], nodes: Sequence[str]) -> dict[str, T]:
    """What was said of each of these nodes; nodes of which nothing was said are left out. `option` names the flag."""
    said = tuple(said)
    unknown = next((each.node for each in said if each.node and each.node not in nodes), None)
    if unknown is not None:
        known = ", ".join(nodes) if len(nodes) <= 5 else f"{', '.join(nodes[:4])} … {nodes[-1]}"
        raise ValueError(f'{option} names the node "{unknown}"; there are {known}')
    values: dict[str, T] = {}
    general = [each.value for each in said if not each.node]
    for node in nodes:
        own = [each.value for each in said if each.node == node]
        if own or general:
            values[node] = (own or general)[-1]
    return values


def pools_by_node(said: Iterable[PerNode[tuple[int, ...]]], nodes: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The pools of every node; a node without any is an error."""
    pools = by_node("--pools", said, nodes)
    bare = next((node for node in nodes if node not in pools), None)
    if bare is not None:
        raise ValueError(f'nothing is said about the pools of node "{bare}"; say it like --pools 3x100Gi')
    return pools


def _split(text: str) -> tuple[str, str]:
    node, separator, rest = text.partition("=")
    return (node.strip(), rest.strip()) if separator else ("", text.strip())


Policy = Literal["best-fit", "most-free", "first-fit", "random"]
POLICIES: Final[tuple[Policy, ...]] = ("best-fit", "most-free", "first-fit", "random")


@dataclass(frozen=True, slots=True, order=True)
class PoolId:
    """One pool of one node, by its number from 0."""

    node: str
    pool: int


def choose(
    free_bytes: Mapping[str, Sequence[int]],
    size_bytes: int,
    *,
    policy: Policy,
    rng: random.Random,
    numbers: frozenset[int] | None = None,
) -> PoolId | None:
    """The pool for a volume of this size; None when none has room. `numbers` narrows it to those pools of each node."""
    roomy = [(free - size_bytes, pool_id) for pool_id, free in _pools(free_bytes, numbers) if free >= size_bytes]
    if not roomy:
        return None
    if policy == "random":
        return rng.choice(roomy)[1]
    if policy == "first-fit":
        return roomy[0][1]
    if policy == "most-free":
        return max(roomy, key=lambda candidate: candidate[0])[1]
    return min(roomy, key=lambda candidate: candidate[0])[1]


def largest_bytes(free_bytes: Mapping[str, Sequence[int]], numbers: frozenset[int] | None = None) -> int:
    """The most that any one of these pools has free; 0 without any."""
    return max((free for _, free in _pools(free_bytes, numbers)), default=0)


def _pools(free_bytes: Mapping[str, Sequence[int]], numbers: frozenset[int] | None) -> Iterable[tuple[PoolId, int]]:
    for node, pools in free_bytes.items():
        for number, free in enumerate(pools):
            if numbers is None or number in numbers:
                yield PoolId(node, number), free
