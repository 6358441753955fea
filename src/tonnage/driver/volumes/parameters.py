"""The StorageClass parameters that this driver knows. Unknown ones are refused: a typing error must not go unnoticed.

    pools: "0,2"           volumes of this class only go to these pools of their node
    pool-policy: random    how a pool is chosen, instead of the driver's own policy
    size-rules: step=1Gi   sizes as another driver makes them, in the words of `tonnage.dev/size-rules`
    vgpattern: "^vg-"      the same as `pools`, by names: pools are vg-1, vg-2, … in LVMNode objects (`lvm_nodes.py`)

    iops: "3000"           of a VolumeAttributesClass, so they may change. They are only kept in the record: folders
    throughput: "125"      are as fast as they are

Parameters that begin with `csi.storage.k8s.io/` belong to the sidecars and are ignored. Also here: topology (every node
has one label, `topology.tonnage.dev/node`, with its id) and sizes (multiples of `BLOCK_BYTES`, so small that claims
written in Mi or Gi get exactly what they request).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tonnage import driver, quantity
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import invalid_argument, out_of_range
from tonnage.driver.node_pools import POLICIES, Policy
from tonnage.objects.size_rules import NO_RULES, InvalidSizeRules, SizeRules
from tonnage.objects.texts.go_regexp import InvalidPattern, compile_go

_SIDECARS: Final = "csi.storage.k8s.io/"
_POOLS: Final = "pools"
_POLICY: Final = "pool-policy"
_PATTERN: Final = "vgpattern"
_SIZES: Final = "size-rules"
_MUTABLE: Final = ("iops", "throughput")
_MOST_DIGITS: Final = 12
_MOST_POOLS: Final = 100
"""How many pools a pattern is tried on; a node of this driver has a handful."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a class requests; None is the driver's default."""

    pools: frozenset[int] | None = None
    policy: Policy | None = None
    sizes: SizeRules = NO_RULES


def driver_parameters(parameters: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in parameters.items() if not key.startswith(_SIDECARS)}


def read_parameters(parameters: Mapping[str, str]) -> Parameters:
    """Raises StatusError with INVALID_ARGUMENT for an unknown parameter or value."""
    known = driver_parameters(parameters)
    numbers: frozenset[int] | None = None
    if _POOLS in known:
        listed = [entry.strip() for entry in known.pop(_POOLS).split(",")]
        if not all(entry.isdecimal() for entry in listed):
            raise invalid_argument(f'parameter {_POOLS}="{",".join(listed)}": write it like "0,2"')
        numbers = frozenset(map(int, listed))
    if _PATTERN in known:
        numbers = _matching(known.pop(_PATTERN), numbers)
    asked = known.pop(_POLICY, None)
    policy = next((policy for policy in POLICIES if policy == asked), None)
    if asked is not None and policy is None:
        raise invalid_argument(f'parameter {_POLICY}="{asked}": it is one of {", ".join(POLICIES)}')
    try:
        sizes = SizeRules.parse(known.pop(_SIZES, ""))
    except InvalidSizeRules as exc:
        raise invalid_argument(f"parameter {_SIZES}: {exc.message}") from exc
    if known:
        there_are = f"{_POOLS}, {_PATTERN}, {_POLICY} and {_SIZES}"
        raise invalid_argument(f"unknown parameter {', '.join(sorted(known))}: this driver knows {there_are}")
    return Parameters(numbers, policy, sizes)


def read_mutable_parameters(parameters: Mapping[str, str]) -> dict[str, str]:
    """Parameters of a VolumeAttributesClass. Raises StatusError with INVALID_ARGUMENT for an unknown one."""
    known = driver_parameters(parameters)
    for key, value in known.items():
        if key not in _MUTABLE:
            told = f"unknown mutable parameter {key}: this driver knows {' and '.join(_MUTABLE)}"
            raise invalid_argument(told)
        if not (value.isascii() and value.isdecimal() and len(value) <= _MOST_DIGITS and int(value) > 0):
            raise invalid_argument(f'mutable parameter {key}="{value}": write a number above 0')
    return known


def group_name(number: int) -> str:
    """The name, as a volume group, of the pool with this number from 0."""
    return f"vg-{number + 1}"


def _matching(text: str, among: frozenset[int] | None) -> frozenset[int]:
    try:
        pattern = compile_go(text)
    except InvalidPattern as exc:
        raise invalid_argument(f"parameter {_PATTERN}: {exc.message}") from exc
    numbers = range(_MOST_POOLS) if among is None else sorted(among)
    return frozenset(number for number in numbers if pattern.search(group_name(number)))


def topology_of(node: str) -> csi.Topology:
    """The topology of a node: the only one from which its volumes can be reached."""
    return csi.Topology(segments={driver.TOPOLOGY_KEY: node})


def nodes_within(topology: csi.Topology, nodes: Iterable[str]) -> tuple[str, ...]:
    """The nodes within a topology: all without segments, none with a foreign label."""
    if any(key != driver.TOPOLOGY_KEY for key in topology.segments):
        return ()
    wanted = topology.segments.get(driver.TOPOLOGY_KEY)
    return tuple(node for node in nodes if wanted in (None, node))


def groups_within(requirement: csi.TopologyRequirement, nodes: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Nodes to try, in groups: every preferred topology in turn, then the rest of the requisite ones, or all."""
    allowed: tuple[str, ...] = tuple(nodes)
    if requirement.requisite:
        within = {node for topology in requirement.requisite for node in nodes_within(topology, nodes)}
        allowed = tuple(node for node in nodes if node in within)
    groups: list[tuple[str, ...]] = []
    left = dict.fromkeys(allowed)
    for topology in requirement.preferred:
        group = nodes_within(topology, tuple(left))
        if group:
            groups.append(group)
        for node in group:
            del left[node]
    if left:
        groups.append(tuple(left))
    return tuple(groups)


def admits(requirement: csi.TopologyRequirement, node: str) -> bool:
    """True if a volume on this node meets the requirement; preferences do not count."""
    return not requirement.requisite or any(nodes_within(topology, (node,)) for topology in requirement.requisite)


BLOCK_BYTES: Final = 4096
"""Sizes are multiples of this, like a filesystem's blocks."""
DEFAULT_BYTES: Final = 1 << 30


def volume_bytes(required_bytes: int, limit_bytes: int, *, at_least_bytes: int = 0) -> int:
    """The size to create: required, rounded up to whole blocks. 0 is unset, as in CSI.

    `at_least_bytes` is the size of the source's contents. Raises StatusError: INVALID_ARGUMENT for an impossible range,
    OUT_OF_RANGE if no multiple of a block is in it or it is too small for the contents.
    """
    if required_bytes < 0 or limit_bytes < 0:
        raise invalid_argument(f"capacity_range from {required_bytes} to {limit_bytes} bytes: a size is not negative")
    if limit_bytes and required_bytes > limit_bytes:
        raise invalid_argument(
            f"capacity_range requires {in_words(required_bytes)} and limits to {in_words(limit_bytes)}, which is less"
        )
    if limit_bytes and limit_bytes < at_least_bytes:
        raise out_of_range(
            f"capacity_range limits to {in_words(limit_bytes)}, and the contents need {in_words(at_least_bytes)}"
        )
    if required_bytes and required_bytes < at_least_bytes:
        raise out_of_range(
            f"capacity_range requires {in_words(required_bytes)}, and the contents need {in_words(at_least_bytes)}"
        )
    highest = limit_bytes // BLOCK_BYTES * BLOCK_BYTES
    wanted = required_bytes or at_least_bytes
    if not wanted:
        wanted = min(DEFAULT_BYTES, highest) if limit_bytes else DEFAULT_BYTES
    size = max(-(-wanted // BLOCK_BYTES), 1) * BLOCK_BYTES
    if limit_bytes and size > highest:
        raise out_of_range(
            f"no multiple of {BLOCK_BYTES} bytes lies between {required_bytes} bytes and the limit of {limit_bytes}"
        )
    return size


def lies_within(capacity_bytes: int, required_bytes: int, limit_bytes: int) -> bool:
    return capacity_bytes >= required_bytes and (not limit_bytes or capacity_bytes <= limit_bytes)


def in_words(number_bytes: int) -> str:
    return str(quantity.Quantity.from_bytes(number_bytes))
