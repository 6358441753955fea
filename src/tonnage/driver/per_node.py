"""Pools and slots of nodes as people write them, for every node or for one.

    3x100Gi                    every node: three pools of 100Gi
    100Gi,50Gi                 every node: two pools
    node-2=2x50Gi,10Gi         node-2 alone, instead of what every node has
    8, node-2=2                slots: volumes that may be attached

What is said of one node goes before what is said of all; said twice, the last word counts. Everything here raises
ValueError with a sentence; the command line makes wrong usage of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

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
    """A node, or none, and what is said of it."""
    node, separator, rest = text.partition("=")
    return (node.strip(), rest.strip()) if separator else ("", text.strip())
