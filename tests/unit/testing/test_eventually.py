"""Waiting in tests: the answer is returned, the bound is kept, and a failure shows what was seen last."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from support.eventually import eventually, eventually_async


def test_it_looks_until_the_answer_is_true_and_returns_it() -> None:
    answers = iter([None, "", "ready"])
    assert eventually(lambda: next(answers)) == "ready"


def test_it_looks_until_the_answer_holds() -> None:
    numbers = itertools.count()
    assert eventually(lambda: next(numbers), holds=lambda number: number == 3) == 3


def test_a_failure_says_what_was_waited_for_and_seen_last() -> None:
    with pytest.raises(AssertionError) as failed:
        eventually(list, "a pod", within_s=0.01, details=lambda: "the log")
    assert str(failed.value) == "waited 0.01 s for a pod; last seen: []\nthe log"


async def test_a_task_looks_with_functions_of_both_kinds() -> None:
    numbers = itertools.count()

    async def look() -> int:
        return next(numbers)

    assert await eventually_async(look, holds=lambda number: number >= 2) == 2
    assert await eventually_async(lambda: next(numbers), holds=lambda number: number >= 5) == 5


async def test_a_look_that_hangs_fails_with_what_was_seen_before() -> None:
    numbers = itertools.count()

    async def look() -> int:
        if next(numbers) == 2:
            await asyncio.Event().wait()
        return 0

    async def details() -> str:
        return "the events"

    with pytest.raises(AssertionError) as failed:
        await eventually_async(look, "a node", within_s=0.05, details=details)
    assert str(failed.value) == "waited 0.05 s for a node; last seen: 0\nthe events"


async def test_a_timeout_of_the_look_itself_is_its_own() -> None:
    async def look() -> None:
        raise TimeoutError("of the client")

    with pytest.raises(TimeoutError, match="of the client"):
        await eventually_async(look)
