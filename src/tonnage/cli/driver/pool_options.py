"""Options about the pools and slots of nodes, as `tonnage csi-driver` and `tonnage up` take them.

    --pools 3x100Gi --pools node-2=2x50Gi,10Gi --max-volumes 8 --max-volumes node-2=2

How they are written and what they mean is in `driver/node_pools.py`; here a slip becomes wrong usage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import click

from tonnage.driver import node_pools
from tonnage.driver.node_pools import PerNode

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class PerNodeType(click.ParamType[PerNode[T]]):
    """A value for every node or, as `NODE=…`, for one."""

    def __init__(self, name: str, parse: Callable[[str], PerNode[T]]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> PerNode[T]:
        if isinstance(value, PerNode):
            return value
        try:
            return self._parse(str(value))
        except ValueError as exc:
            self.fail(str(exc), param, ctx)


POOLS: Final = PerNodeType("pools", node_pools.parse_node_pools)
COUNT: Final = PerNodeType("count", node_pools.parse_node_count)


def pools_option(command: F) -> F:
    return click.option(
        "--pools",
        type=POOLS,
        multiple=True,
        metavar="[NODE=]SIZES",
        help="The pools of every node, or of one: 3x100Gi, or 100Gi,50Gi, or node-2=2x50Gi. May be repeated.",
    )(command)


def max_volumes_option(command: F) -> F:
    return click.option(
        "--max-volumes",
        type=COUNT,
        multiple=True,
        metavar="[NODE=]N",
        help="How many volumes every node can take, or one; 0 is no limit. May be repeated.",
    )(command)


def by_node(option: str, said: Iterable[PerNode[T]], nodes: Sequence[str]) -> dict[str, T]:
    """What was said of each of these nodes. Raises UsageError for a node that is not there."""
    try:
        return node_pools.by_node(option, said, nodes)
    except ValueError as exc:
        raise click.UsageError(str(exc)) from exc


def pools_by_node(said: Iterable[PerNode[tuple[int, ...]]], nodes: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The pools of every node. Raises UsageError for a node that is not there, and for one without pools."""
    try:
        return node_pools.pools_by_node(said, nodes)
    except ValueError as exc:
        raise click.UsageError(str(exc)) from exc
