"""Whatever raises in the work for one pod, the loop goes on: it is logged and counted, and the pod is tried again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from scheduler_volume_rig import SchedulerRig

from support.scheduling_sight import in_flight
from tonnage.testing.builders import node, pod


class Breaks:
    """Raises instead of its first calls; then it is what it stands for."""

    def __init__(self, work: Callable[..., Any], times: int = 1) -> None:
        self._work = work
        self.times = times

    def __call__(self, *given: Any, **options: Any) -> Any:
        if self.times:
            self.times -= 1
            raise RuntimeError("nobody expected this")
        return self._work(*given, **options)


def assert_tidy(rig: SchedulerRig) -> None:
    untidy = (len(rig.assumed), len(rig.waiting), rig.slots.taken, rig.slots.resting, in_flight(rig.queue))
    assert untidy == (0, 0, 0, 0, [])


@pytest.mark.parametrize(
    ("part", "method", "where"),
    [
        ("engine", "pop", "pop"),
        ("engine", "attempt", "attempt"),
        ("engine", "tick", "tick"),
        ("loop.pod_status", "placed", "attempt"),
        ("loop.pod_status", "scheduled", "binding"),
        ("loop._engine", "binding_finished", "binding"),
        ("loop._metrics", "scheduled", "binding"),
    ],
)
async def test_an_exception_is_counted_and_every_pod_is_bound(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, part: str, method: str, where: str
):
    rig = SchedulerRig(node("a"))
    owner: Any = rig
    for name in part.split("."):
        owner = getattr(owner, name)
    breaks = Breaks(getattr(owner, method))
    monkeypatch.setattr(owner, method, breaks)
    async with rig.running() as loop:
        rig.add(pod("first"), pod("second"))
        await rig.settle(60.0)
        assert breaks.times == 0, "nothing broke"
        assert not loop.done() and set(rig.bound) == {"default/first", "default/second"}
        assert_tidy(rig)
        assert rig.metric("tonnage_scheduling_exceptions_total", where=where) == 1.0
    (told,) = [each for each in caplog.records if each.message == "Scheduling failed unexpectedly"]
    assert told.exc_info is not None and "nobody expected this" in str(told.exc_info[1])


async def test_a_pod_without_a_node_that_nobody_can_be_told_of_is_tried_again(monkeypatch: pytest.MonkeyPatch):
    rig = SchedulerRig(node("a", cpu="1"))
    monkeypatch.setattr(rig.loop.pod_status, "failed", Breaks(rig.loop.pod_status.failed, times=2))
    async with rig.running() as loop:
        rig.add(pod("large", cpu="2"))
        await rig.settle(1.0)
        assert not loop.done()
        rig.add(node("b", cpu="4"))
        await rig.settle(60.0)
        assert rig.bound == {"default/large": "b"}
        assert_tidy(rig)


async def test_an_overdue_binding_that_cannot_be_asked_about_is_asked_about_again():
    rig = SchedulerRig(node("a"))
    rig.lies = 1
    rig.refuse_read.append(RuntimeError("not an answer"))  # type: ignore[arg-type]
    async with rig.running():
        rig.add(pod("web"))
        await rig.settle(60.0)
        assert rig.bound == {"default/web": "a"}
        assert [call for call in rig.calls if call[0] == "get"] == [("get", "default/web")] * 2
        assert rig.metric("tonnage_scheduling_exceptions_total", where="overdue binding") == 1.0
