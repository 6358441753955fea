"""How large a volume becomes."""

from __future__ import annotations

import pytest

from tonnage.csi.errors import Code, StatusError
from tonnage.driver.volumes.parameters import lies_within, volume_bytes

MI, GI = 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("required", "limit", "size"),
    [
        (0, 0, GI),  # nothing asked: 1Gi
        (3 * GI, 0, 3 * GI),  # whole blocks stay as they are
        (1, 0, 4096),  # up to one block
        (4097, 0, 8192),  # and to the next
        (0, 10 * MI, 10 * MI),  # a limit below the default: as much as it allows
        (0, 5000, 4096),  # rounded down, because up would be beyond it
        (0, 2 * GI, GI),
        (5000, 8192, 8192),  # the one multiple of 4096 between them
        (2 * GI, 2 * GI, 2 * GI),
    ],
)
def test_a_size_is_whole_blocks_within_the_range(required: int, limit: int, size: int) -> None:
    assert volume_bytes(required, limit) == size


@pytest.mark.parametrize(
    ("required", "limit", "at_least", "code", "message"),
    [
        (-1, 0, 0, Code.INVALID_ARGUMENT, "capacity_range from -1 to 0 bytes: a size is not negative"),
        (2 * GI, GI, 0, Code.INVALID_ARGUMENT, "capacity_range requires 2Gi and limits to 1Gi, which is less"),
        (4097, 8191, 0, Code.OUT_OF_RANGE, "no multiple of 4096 bytes lies between 4097 bytes and the limit of 8191"),
        (0, 4095, 0, Code.OUT_OF_RANGE, "no multiple of 4096 bytes lies between 0 bytes and the limit of 4095"),
        (GI, 0, 2 * GI, Code.OUT_OF_RANGE, "capacity_range requires 1Gi, and the contents need 2Gi"),
        (0, GI, 2 * GI, Code.OUT_OF_RANGE, "capacity_range limits to 1Gi, and the contents need 2Gi"),
    ],
)
def test_a_range_without_a_size_is_refused(required: int, limit: int, at_least: int, code: Code, message: str) -> None:
    with pytest.raises(StatusError) as refused:
        volume_bytes(required, limit, at_least_bytes=at_least)
    assert (refused.value.code, refused.value.message) == (code, message)


def test_contents_decide_the_size_when_nothing_is_asked() -> None:
    assert volume_bytes(0, 0, at_least_bytes=5 * GI) == 5 * GI


def test_a_size_lies_within_a_range_up_to_its_limit() -> None:
    assert lies_within(8192, 8192, 8192)
    assert lies_within(8192, 1, 0)
    assert not lies_within(8192, 8193, 0)
    assert not lies_within(8192, 1, 8191)
