"""How long another's word about a pod stands before its node says again what it said."""

from __future__ import annotations

from tonnage.node.pods.status import StatusReport
from tonnage.objects.document import Doc


def patch(ready: str = "True") -> Doc:
    container = {"name": "c", "ready": True, "started": True}
    conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    return {"status": {"phase": "Running", "conditions": conditions, "containerStatuses": [container]}}


def test_what_was_not_said_yet_is_said_at_once():
    report = StatusReport()
    assert report.pause_s(patch(), 0.0) == 0.0
    report.written(patch())
    assert report.pause_s(patch("False"), 1.0) == 0.0


def test_what_somebody_wrote_over_stands_for_ten_seconds():
    report = StatusReport()
    report.written(patch())
    assert [report.pause_s(patch(), now_s) for now_s in (100.0, 104.0, 110.0)] == [10.0, 6.0, 0.0]


def test_the_ten_seconds_start_anew_when_it_was_put_right_meanwhile():
    report = StatusReport()
    report.written(patch())
    report.pause_s(patch(), 100.0)
    report.in_step()
    assert report.pause_s(patch(), 109.0) == 10.0
