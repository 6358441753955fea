"""Pools: how many a node has and how large, as they are written on the command line.

3x100Gi                 three pools of 100Gi, on every node
node-2=50Gi,20Gi        two pools, on this node only; what names a node wins over what does not
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tonnage.driver.sizes import BLOCK_BYTES
from tonnage.errors import TonnageError
from tonnage.quantity import InvalidQuantity, Quantity

MAX_POOLS: Final = 1000
"""More of them on one node is a slip of the keyboard: `1000000x1Gi`."""


class InvalidPools(TonnageError):
    """A list of pools that no node can have."""


def parse_pools(text: str) -> tuple[str, tuple[int, ...]]:
    """`(node, sizes in bytes)` of one list; an empty node is every node. Raises InvalidPools."""
    node, separator, listed = text.rpartition("=")
    if separator and not node:
        raise InvalidPools(f'"{text}" names no node before the "="', hint="write it like node-1=100Gi,100Gi")
    sizes: list[int] = []
    for entry in listed.split(","):
        times, is_repeated, size = entry.strip().partition("x")
        if not is_repeated:
            times, size = "1", times
        if not times.isdecimal() or not 1 <= int(times) <= MAX_POOLS:
            raise InvalidPools(f'"{entry}" in "{text}" is no number of pools: "{times}"', hint="write it like 3x100Gi")
        sizes.extend([_size(size, text)] * int(times))
    if len(sizes) > MAX_POOLS:
        raise InvalidPools(f'"{text}" makes {len(sizes)} pools; {MAX_POOLS} are the most a node can have')
    return node, tuple(sizes)


def pools_by_node(texts: Iterable[str], nodes: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The pools of every node. Raises InvalidPools for a node without, a node unknown, or one said twice."""
    said: dict[str, tuple[int, ...]] = {}
    for text in texts:
        node, sizes = parse_pools(text)
        if node in said:
            raise InvalidPools(f"pools are given twice for {node or 'every node'}")
        if node and node not in nodes:
            raise InvalidPools(f'"{text}" gives pools to {node}, which is no node of this driver')
        said[node] = sizes
    without = [node for node in nodes if node not in said and "" not in said]
    if without:
        raise InvalidPools(f"{', '.join(without)} has no pools", hint="give every node some: --pools 3x100Gi")
    return {node: said[node] if node in said else said[""] for node in nodes}


def _size(size: str, text: str) -> int:
    try:
        number_bytes = Quantity.parse(size).value()
    except InvalidQuantity as exc:
        raise InvalidPools(f'"{size}" in "{text}" is no size of a pool: {exc.message}') from exc
    if number_bytes < BLOCK_BYTES:
        raise InvalidPools(f'"{size}" in "{text}" is too small for any volume: {BLOCK_BYTES} bytes are the least')
    return number_bytes
