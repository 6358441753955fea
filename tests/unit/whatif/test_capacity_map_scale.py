"""The scale of a report's disks: one for each storage class, the same on maps that are compared, with its unit."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tonnage.whatif.html.capacity_map import capacity_map, scales_of
from tonnage.whatif.page import byte_ticks

GIB = 1 << 30


def disk(where: str, *free_gib: int, classes: tuple[str, ...] = ("fast",)) -> dict[str, Any]:
    free = [each * GIB for each in free_gib]
    return {"where": where, "objects": [where], "classes": list(classes), "freeBytes": free, "volumes": []}


def widths(drawn: str) -> list[float]:
    """Widths of the pools, in the order of the disks; the last box is the legend's."""
    boxes = re.findall(r'<rect [^>]*?width="([\d.]+)"[^>]*class="pool"', drawn)
    return [float(each) for each in boxes]


def test_disks_of_a_class_have_one_scale_and_each_class_has_its_own():
    disks = [
        *(disk("a", 20), disk("b", 100)),
        *(disk("a", 4096, classes=("archive",)), disk("b", 2048, classes=("archive",))),
    ]
    drawn = str(capacity_map("m", "Disks", disks))
    small, large, archive, half = widths(drawn)
    assert abs(small / large - 0.2) < 0.01 and abs(half / archive - 0.5) < 0.01
    assert abs(large - archive) < 0.1, "100Gi of fast and 4Ti of archive are a full line each"
    assert "20Gi of fast; a full line is 100Gi" in drawn and "1Ti of archive; a full line is 4Ti" in drawn


def test_maps_that_are_compared_share_their_scales():
    before, after = [disk("a", 100)], [disk("a", 40)]
    scales = scales_of(before, after)
    (one,) = widths(str(capacity_map("b", "Before", before, scales=scales)))
    (other,) = widths(str(capacity_map("a", "After", after, scales=scales)))
    assert abs(other / one - 0.4) < 0.01


def test_classes_that_share_a_disk_share_its_scale():
    found = scales_of([disk("a", 100, classes=("x", "y")), disk("b", 10, classes=("y",)), disk("c", 3, classes=("z",))])
    assert found["x"] == found["y"] == byte_ticks(100 * GIB)
    assert found["z"][-1] == 3 * GIB


@given(st.integers(min_value=1, max_value=2**62))
def test_a_full_line_holds_the_largest_and_wastes_little(largest: int):
    ticks = byte_ticks(largest)
    assert ticks[-1] >= largest * (1 - 1e-9)
    assert ticks[-2] < largest, "one step less does not hold it"
    assert len(ticks) <= 7
