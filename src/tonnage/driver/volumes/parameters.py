"""The parameters of a StorageClass that this driver knows, read strictly: a slip must not become another volume.

    pools: "0,2"           volumes of this class live in these pools of their node only
    pool-policy: random    how a pool is chosen, instead of the driver's own policy
    vgpattern: "^vg-"      the same as `pools`, by names: pools are vg-1, vg-2, … in LVMNode objects (`lvm_nodes.py`)

    iops: "3000"           of a VolumeAttributesClass, and so may change: kept in the volume's record, and no more than
    throughput: "125"      that, for folders are as fast as they are

What begins with `csi.storage.k8s.io/` belongs to the sidecars and is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tonnage.csi.errors import Code
from tonnage.driver.errors import StatusError
from tonnage.driver.pool_choice import POLICIES, Policy
from tonnage.objects.texts.go_regexp import InvalidPattern, compile_go

_SIDECARS: Final = "csi.storage.k8s.io/"
_POOLS: Final = "pools"
_POLICY: Final = "pool-policy"
_PATTERN: Final = "vgpattern"
_MUTABLE: Final = ("iops", "throughput")
_MOST_DIGITS: Final = 12
_MOST_POOLS: Final = 100
"""That a pattern is tried on; a node of this driver has a handful."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a class asks for; None is "as the driver does"."""

    pools: frozenset[int] | None = None
    policy: Policy | None = None


def driver_parameters(parameters: Mapping[str, str]) -> dict[str, str]:
    """The parameters that are meant for the driver."""
    return {key: value for key, value in parameters.items() if not key.startswith(_SIDECARS)}


def read_parameters(parameters: Mapping[str, str]) -> Parameters:
    """Raises StatusError with INVALID_ARGUMENT for a parameter or a value that is not known."""
    known = driver_parameters(parameters)
    numbers: frozenset[int] | None = None
    if _POOLS in known:
        listed = [entry.strip() for entry in known.pop(_POOLS).split(",")]
        if not all(entry.isdecimal() for entry in listed):
            raise StatusError(Code.INVALID_ARGUMENT, f'parameter {_POOLS}="{",".join(listed)}": write it like "0,2"')
        numbers = frozenset(map(int, listed))
    if _PATTERN in known:
        numbers = _matching(known.pop(_PATTERN), numbers)
    asked = known.pop(_POLICY, None)
    policy = next((policy for policy in POLICIES if policy == asked), None)
    if asked is not None and policy is None:
        raise StatusError(Code.INVALID_ARGUMENT, f'parameter {_POLICY}="{asked}": it is one of {", ".join(POLICIES)}')
    if known:
        raise StatusError(
            Code.INVALID_ARGUMENT,
            f"unknown parameter {', '.join(sorted(known))}: this driver knows {_POOLS}, {_PATTERN} and {_POLICY}",
        )
    return Parameters(numbers, policy)


def read_mutable_parameters(parameters: Mapping[str, str]) -> dict[str, str]:
    """Those of a VolumeAttributesClass. Raises StatusError with INVALID_ARGUMENT for one that is not known."""
    known = driver_parameters(parameters)
    for key, value in known.items():
        if key not in _MUTABLE:
            told = f"unknown mutable parameter {key}: this driver knows {' and '.join(_MUTABLE)}"
            raise StatusError(Code.INVALID_ARGUMENT, told)
        if not (value.isascii() and value.isdecimal() and len(value) <= _MOST_DIGITS and int(value) > 0):
            raise StatusError(Code.INVALID_ARGUMENT, f'mutable parameter {key}="{value}": write a number above 0')
    return known


def group_name(number: int) -> str:
    """What the pool of this number, from 0, is called as a volume group."""
    return f"vg-{number + 1}"


def _matching(text: str, among: frozenset[int] | None) -> frozenset[int]:
    try:
        pattern = compile_go(text)
    except InvalidPattern as exc:
        raise StatusError(Code.INVALID_ARGUMENT, f"parameter {_PATTERN}: {exc.message}") from exc
    numbers = range(_MOST_POOLS) if among is None else sorted(among)
    return frozenset(number for number in numbers if pattern.search(group_name(number)))
