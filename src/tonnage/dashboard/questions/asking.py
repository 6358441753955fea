"""Runs the page's questions with the scheduler's configuration, one at a time, in a thread.

    answer = await Asking().answer(lambda limit: …)         # call `limit.check()` now and then; it raises

A question is given up at its next `check` once its browser has gone; after `MOST_S` it raises OutOfTime. Background
work (`keep`) pauses at every `check` while a question waits.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Final, TypeVar

from tonnage.errors import TonnageError
from tonnage.gates import Gates
from tonnage.objects.meta import Key
from tonnage.scheduler.configuration_file import load_configuration
from tonnage.scheduling.configuration.configuration import Configuration
from tonnage.scheduling.decision.explain import Explanation
from tonnage.whatif.creation import Creation
from tonnage.whatif.explain import DecisionSequence, decided_on, find_pod, score_weights
from tonnage.whatif.sources import ClusterState, OutOfTime

MOST_S: Final = 60.0
"""How long a question may take, in seconds. The command line has no such limit."""

MOST_WAITING: Final = 32
"""How many questions may wait: each holds a copy of the cluster's state."""

_LOOKS_UP_S: Final = 0.5
"""How often paused background work checks whether it was given up."""

T = TypeVar("T")


class GivenUp(Exception):
    """Nobody waits for the answer any more."""


class TooManyAsk(TonnageError):
    """The queue of questions is full."""

    def __init__(self) -> None:
        super().__init__(
            f"{MOST_WAITING} questions wait for an answer already", hint="ask again when some of them are answered"
        )


class QuestionLimit:
    """The deadline of a question. The question's thread calls `check`; another thread may cancel."""

    def __init__(self, most_s: float, stands_back_for: threading.Event | None = None) -> None:
        self._ends_s = time.monotonic() + most_s
        self._is_given_up = False
        self._may_go_on = stands_back_for

    def begin(self, most_s: float) -> None:
        self._ends_s = time.monotonic() + most_s

    def give_up(self) -> None:
        self._is_given_up = True

    def check(self, *_: object) -> bool:
        """Return False while the question may go on; else raise OutOfTime or GivenUp. Fits as a `step` callback."""
        if self._may_go_on is not None and not self._may_go_on.is_set():
            began_s = time.monotonic()
            while not self._is_given_up and not self._may_go_on.wait(_LOOKS_UP_S):
                pass
            self._ends_s += time.monotonic() - began_s
        if self._is_given_up:
            raise GivenUp
        if time.monotonic() > self._ends_s:
            raise OutOfTime
        return False


class Asking:
    """The scheduler's configuration for questions, and the queue of questions."""

    def __init__(self, config_file: Path | None = None, gates: Gates | None = None) -> None:
        self.gates = gates or Gates()
        self.takes_any_pod = config_file is None
        self._config_file = config_file
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._may_go_on = threading.Event()
        self._may_go_on.set()

    @cached_property
    def configuration(self) -> Configuration:
        return load_configuration(self._config_file, self.gates)

    def creation(self) -> Creation:
        """A new Creation, which creates objects as the API server would; use one per question."""
        return Creation(self.gates)

    def sequence(self, state: ClusterState, note: Callable[[str], object]) -> DecisionSequence:
        return DecisionSequence(state, self.configuration, is_default=self.takes_any_pod, note=note)

    def explained(
        self, state: ClusterState, pod: Key, note: Callable[[str], object]
    ) -> tuple[Explanation, dict[str, int]]:
        """Why a pod goes to a node or to none, and the weights of its scores. Raises TonnageError."""
        explanation, profile = decided_on(
            find_pod(state, pod),
            state,
            self.configuration,
            is_default=self.takes_any_pod,
            note=note,
        )
        return explanation, score_weights(profile)

    async def answer(self, work: Callable[[QuestionLimit], T]) -> T:
        """Run the work in a thread when its turn comes. Raises TooManyAsk, OutOfTime, and what the work raises. A
        cancellation stops the work and waits for its end: two questions never run at once."""
        if self._waiting > MOST_WAITING:
            raise TooManyAsk
        self._waiting += 1
        self._may_go_on.clear()
        try:
            async with self._turn:
                return await _in_thread(work, QuestionLimit(MOST_S))
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._may_go_on.set()

    async def keep(self, work: Callable[[QuestionLimit], T]) -> T:
        """Run background work: it starts at once, and pauses while questions wait."""
        return await _in_thread(work, QuestionLimit(MOST_S, stands_back_for=self._may_go_on))


async def _in_thread(work: Callable[[QuestionLimit], T], limit: QuestionLimit) -> T:
    thread = asyncio.ensure_future(asyncio.to_thread(work, limit))
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        limit.give_up()
        with suppress(Exception):
            await thread
        raise
