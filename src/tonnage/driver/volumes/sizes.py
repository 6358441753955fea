"""How large a volume becomes: from CSI's range of required and limit to whole blocks.

A size is a multiple of `BLOCK_BYTES`, at least what is required and at most the limit. The block is small so that the
figures of `GetCapacity` stay true: claims written in Mi or Gi cost exactly what they ask for.
"""

from __future__ import annotations

from typing import Final

from tonnage.csi.errors import Code
from tonnage.driver.errors import StatusError
from tonnage.quantity import Quantity

BLOCK_BYTES: Final = 4096
"""Volumes are made in these units, as a filesystem makes files."""
DEFAULT_BYTES: Final = 1 << 30
"""The size of a volume that is asked for without one."""


def volume_bytes(required_bytes: int, limit_bytes: int, *, at_least_bytes: int = 0) -> int:
    """The size to make: required, rounded up to whole blocks. 0 is unset, as in CSI.

    `at_least_bytes` is the size of the contents that go in. Raises StatusError: INVALID_ARGUMENT for a range that is
    none, OUT_OF_RANGE when no whole number of blocks lies within it, or it is too small for the contents.
    """
    if required_bytes < 0 or limit_bytes < 0:
        raise StatusError(
            Code.INVALID_ARGUMENT,
            f"capacity_range from {required_bytes} to {limit_bytes} bytes: a size is not negative",
        )
    if limit_bytes and required_bytes > limit_bytes:
        raise StatusError(
            Code.INVALID_ARGUMENT,
            f"capacity_range requires {in_words(required_bytes)} and limits to {in_words(limit_bytes)}, which is less",
        )
    if limit_bytes and limit_bytes < at_least_bytes:
        raise StatusError(
            Code.OUT_OF_RANGE,
            f"capacity_range limits to {in_words(limit_bytes)}, and the contents need {in_words(at_least_bytes)}",
        )
    if required_bytes and required_bytes < at_least_bytes:
        raise StatusError(
            Code.OUT_OF_RANGE,
            f"capacity_range requires {in_words(required_bytes)}, and the contents need {in_words(at_least_bytes)}",
        )
    highest = limit_bytes // BLOCK_BYTES * BLOCK_BYTES
    wanted = required_bytes or at_least_bytes
    if not wanted:
        wanted = min(DEFAULT_BYTES, highest) if limit_bytes else DEFAULT_BYTES
    size = max(-(-wanted // BLOCK_BYTES), 1) * BLOCK_BYTES
    if limit_bytes and size > highest:
        raise StatusError(
            Code.OUT_OF_RANGE,
            f"no multiple of {BLOCK_BYTES} bytes lies between {required_bytes} bytes and the limit of {limit_bytes}",
        )
    return size


def lies_within(capacity_bytes: int, required_bytes: int, limit_bytes: int) -> bool:
    """Whether a volume of this size is what the range asks for."""
    return capacity_bytes >= required_bytes and (not limit_bytes or capacity_bytes <= limit_bytes)


def in_words(number_bytes: int) -> str:
    """`10Gi`, as Kubernetes writes it."""
    return str(Quantity.from_bytes(number_bytes))
