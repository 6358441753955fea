"""Any driver: a program on each node that prints the node's pools as JSON. What it may print, and what is made of it.

    [{"name": "fast", "free": "100Gi"}, {"name": "slow", "free": 214748364800}]        for every class of the driver
    {"classes": {"fast": [{"free": "100Gi"}]}, "policy": "most-free"}                  for some, and how it chooses

`name` tells pools apart: two classes with a pool of one name draw from the same disks. Without one a pool is its place
in the list. What is not of this form is refused as a whole; `command_runner.py` runs the program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from tonnage.errors import TonnageError
from tonnage.objects.document import Doc
from tonnage.objects.resources import Resource
from tonnage.objects.storage_v1 import POOL_POLICIES, StorageClass
from tonnage.pools.class_pools import ClassPools, NodePools, Pool, Published
from tonnage.pools.reading import bytes_of, name_of

MOST_POOLS = 10_000
"""On one node; a list that is longer is a mistake."""


class InvalidOutput(TonnageError):
    """A program printed what is no list of pools."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"the output is no list of pools: {problem}",
            hint='print JSON such as [{"name": "fast", "free": "100Gi"}]',
        )


@dataclass(frozen=True)
class CommandOutput:
    """What a program said once."""

    pools: tuple[Pool, ...] | None = None
    """For every class; None when it told them by class."""
    by_class: Mapping[str, tuple[Pool, ...]] = field(default_factory=dict)
    policy: str = ""


@dataclass(frozen=True)
class CommandPools:
    """`--source command`: the last good output of the program on this node."""

    node_name: str
    drivers: tuple[str, ...]
    output: CommandOutput | None = None
    observed_at: datetime | None = None
    silent_since: datetime | None = None
    """Since when the program tells nothing that can be read; None: the last run was good."""
    policy: str = ""
    name: str = "command"
    kind: Resource | None = None
    has_agent: bool = False

    @property
    def only_node(self) -> str:
        return self.node_name

    def names_of(self, node: Doc) -> tuple[str, ...]:
        return (name_of(node),)

    def pools_of(self, storage_class: StorageClass, published: Published) -> ClassPools:
        """The pools of this node."""
        if self.output is None:
            return ClassPools()
        pools = self.output.by_class.get(storage_class.name, self.output.pools)
        if pools is None:
            return ClassPools()
        policy = self.policy or self.output.policy
        return ClassPools(
            {self.node_name: NodePools(pools, self.observed_at)},
            policy if len(pools) > 1 else "",
        )


def read_output(text: bytes) -> CommandOutput:
    """What a program printed. Raises InvalidOutput."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise InvalidOutput(f"it is no JSON ({exc})" if text.strip() else "it is empty") from exc
    if isinstance(found, list):
        return CommandOutput(_pools(found, "the list"))
    if not isinstance(found, dict):
        raise InvalidOutput("it is neither a list nor an object")
    unknown = sorted(found.keys() - {"pools", "classes", "policy"})
    if unknown:
        raise InvalidOutput(f'unknown field "{unknown[0]}"; there are pools, classes and policy')
    policy, classes = found.get("policy", ""), found.get("classes", {})
    if policy and policy not in POOL_POLICIES:
        raise InvalidOutput(f'policy "{policy}" is none of {", ".join(POOL_POLICIES)}')
    if not isinstance(classes, dict) or not ("pools" in found or "classes" in found):
        raise InvalidOutput("it has neither pools nor classes")
    pools = _pools(found["pools"], "pools") if "pools" in found else None
    by_class = {name: _pools(told, f"classes.{name}") for name, told in classes.items()}
    return CommandOutput(pools, by_class, policy or "")


def _pools(told: Any, where: str) -> tuple[Pool, ...]:
    if not isinstance(told, list) or len(told) > MOST_POOLS:
        raise InvalidOutput(f"{where} is no list of at most {MOST_POOLS} pools")
    found: dict[str, Pool] = {}
    for number, entry in enumerate(told):
        pool = entry if isinstance(entry, dict) else {"free": entry}
        unknown = sorted(pool.keys() - {"name", "free"})
        free, name = bytes_of(pool.get("free")), pool.get("name", f"#{number}")
        if unknown or free is None or not isinstance(name, str) or not name:
            problem = f'unknown field "{unknown[0]}"' if unknown else 'a pool has a "free" such as "100Gi"'
            raise InvalidOutput(f"{where}[{number}]: {problem}")
        if name in found:
            raise InvalidOutput(f'{where}[{number}]: there are two pools named "{name}"')
        found[name] = Pool(name, free)
    return tuple(found.values())
