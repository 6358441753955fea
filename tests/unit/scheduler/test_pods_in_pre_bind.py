"""Bindings that are called off while their pods are prepared, and those that are not."""

from __future__ import annotations

import asyncio

import pytest

from tonnage.scheduler.bindings_under_way import PodsInPreBind
from tonnage.scheduling.framework import SUCCESS, Code, Status


async def forever() -> Status:
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


async def test_what_is_called_off_ends_with_the_reason_and_its_task_goes_on():
    in_pre_bind = PodsInPreBind()
    task = asyncio.create_task(in_pre_bind.run("a", forever()))
    await asyncio.sleep(0)
    assert in_pre_bind.call_off("a", "preempted by DefaultPreemption")
    assert in_pre_bind.call_off("a", "again")
    assert await task == Status(Code.ERROR, ("preempted by DefaultPreemption",))
    assert not task.cancelled() and not task.cancelling()
    assert not in_pre_bind.call_off("a", "too late")


async def test_what_ends_by_itself_is_not_called_off():
    async def quick() -> Status:
        return SUCCESS

    in_pre_bind = PodsInPreBind()
    assert await in_pre_bind.run("a", quick()) is SUCCESS
    assert not in_pre_bind.call_off("a", "too late") and not in_pre_bind.call_off("stranger", "who?")


async def test_a_cancellation_from_elsewhere_is_one():
    in_pre_bind = PodsInPreBind()
    task = asyncio.create_task(in_pre_bind.run("a", forever()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not in_pre_bind.call_off("a", "too late")


async def test_work_that_does_not_care_to_be_cancelled_is_called_off_all_the_same():
    async def stubborn() -> Status:
        try:
            return await forever()
        except asyncio.CancelledError:
            return SUCCESS

    in_pre_bind = PodsInPreBind()
    task = asyncio.create_task(in_pre_bind.run("a", stubborn()))
    await asyncio.sleep(0)
    in_pre_bind.call_off("a", "preempted")
    assert await task == Status(Code.ERROR, ("preempted",)) and not task.cancelling()
