"""Pools and slots of nodes as people write them, and the choice of a pool for a new volume.

    3x100Gi                    every node: three pools of 100Gi
    100Gi,50Gi                 every node: two pools
    node-2=2x50Gi,10Gi         only node-2, instead of what every node has
    8, node-2=2                slots: volumes that may be attached

A value for one node wins over a value for all; of two, the last one wins. Parsers raise ValueError with a sentence,
which the command line shows as a usage error.

A volume is in one pool of one node, and no pool is ever overdrawn. `choose` follows a policy; ties go to the first node
and pool:

    best-fit    the pool with the least left over afterwards, so that large free spaces stay large
    most-free   the pool with the most free bytes, so that all fill up alike
    first-fit   the first pool that fits
    random      any pool that fits, evenly
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
"""Pools of one node: far more than a machine has disks, and few enough to catch a typing error."""
_TIMES: Final = re.compile(r"([0-9]+)[xX*](.*)")


@dataclass(frozen=True, slots=True)
class PerNode(Generic[T]):
    """A value for `node`, or for every node if that is empty. `text` is what was written."""

    node: str
    value: T
    text: str


def parse_node_pools(text: str) -> PerNode[tuple[int, ...]]:
    """Read `[NODE=]SIZE,SIZE,…` as bytes; every SIZE is a quantity, or NxSIZE for several equal ones."""
    node, listed = _split(text)
    return PerNode(node, parse_pools(listed), text)


def parse_node_count(text: str) -> PerNode[int]:
    """Read `[NODE=]N`; 0 is no limit."""
    node, number = _split(text)
    if not number.isascii() or not number.isdecimal():
        raise ValueError(f'"{number}" is not a number of volumes; write it like "8" or "node-2=2", 0 is no limit')
    return PerNode(node, int(number), text)


def parse_pools(text: str) -> tuple[int, ...]:
    """The sizes in bytes of a list such as `2x100Gi,50Gi`, in order."""
    sizes: list[int] = []
    for entry in text.split(","):
        times = _TIMES.fullmatch(entry.strip())
        count, size = (int(times[1]), times[2]) if times else (1, entry.strip())
        if not size:
            raise ValueError(f'"{text}" is not a list of pools; write it like "3x100Gi" or "100Gi,50Gi"')
        try:
            size_bytes = Quantity.parse(size).value()
        except InvalidQuantity as exc:
            raise ValueError(exc.message) from exc
        if size_bytes <= 0:
            raise ValueError(f'a pool of "{size}" is empty; a pool has at least one byte')
        if count < 1 or len(sizes) + count > MAX_POOLS:
            raise ValueError(f'"{text}" is {len(sizes) + count} pools; a node has between 1 and {MAX_POOLS}')
        sizes += [size_bytes] * count
    return tuple(sizes)


def by_node(option: str, said: Iterable[PerNode[T]], nodes: Sequence[str]) -> dict[str, T]:
    """The value of every node; nodes without one are left out. `option` names the flag in errors."""
    said = tuple(said)
    unknown = next((each.node for each in said if each.node and each.node not in nodes), None)
    if unknown is not None:
        known = ", ".join(nodes) if len(nodes) <= 5 else f"{', '.join(nodes[:4])} … {nodes[-1]}"
        raise ValueError(f'{option} names the node "{unknown}"; the nodes are {known}')
    values: dict[str, T] = {}
    general = [each.value for each in said if not each.node]
    for node in nodes:
        own = [each.value for each in said if each.node == node]
        if own or general:
            values[node] = (own or general)[-1]
    return values


def pools_by_node(said: Iterable[PerNode[tuple[int, ...]]], nodes: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The pools of every node. Raises ValueError for a node without any."""
    pools = by_node("--pools", said, nodes)
    bare = next((node for node in nodes if node not in pools), None)
    if bare is not None:
        raise ValueError(f'node "{bare}" has no pools; give them, such as --pools 3x100Gi')
    return pools


def _split(text: str) -> tuple[str, str]:
    node, separator, rest = map(str.strip, text.partition("="))
    if separator and not node:
        raise ValueError(
            f'"{text}" names no node before "="; write it like "node-1={rest}", or "{rest}" for every node'
        )
    return (node, rest) if separator else ("", node)


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
    kept_bytes: int = 0,
) -> PoolId | None:
    """The pool for a volume of this size, which keeps so much free; None if none fits. `numbers`: only these pools of
    every node."""
    needed_bytes = size_bytes + kept_bytes
    roomy = [(free - size_bytes, pool_id) for pool_id, free in _pools(free_bytes, numbers) if free >= needed_bytes]
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
    """The most that one of these pools has free; 0 without pools."""
    return max((free for _, free in _pools(free_bytes, numbers)), default=0)


def _pools(free_bytes: Mapping[str, Sequence[int]], numbers: frozenset[int] | None) -> Iterable[tuple[PoolId, int]]:
    for node, pools in free_bytes.items():
        for number, free in enumerate(pools):
            if numbers is None or number in numbers:
                yield PoolId(node, number), free
