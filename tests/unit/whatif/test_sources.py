"""Where what-if questions get their cluster from."""

from __future__ import annotations

from datetime import UTC, datetime

from tonnage.testing.builders import node, pod
from tonnage.whatif.sources import clock_of


def test_the_clock_of_objects_stands_at_the_last_time_they_tell():
    first = pod("a", metadata={"creationTimestamp": "2026-02-01T00:00:00Z"})
    second = pod("b", status={"startTime": "2026-02-03T00:00:00Z"})
    assert clock_of([first, second, node("n1")]).now() == datetime(2026, 2, 3, tzinfo=UTC)
    assert clock_of([node("n1")]).now() == datetime(2000, 1, 1, tzinfo=UTC)
