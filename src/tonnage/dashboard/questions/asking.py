"""How questions are asked from the page: by which configuration, and in a thread of their own, one at a time.

    answer = await Asking().answer(lambda limit: …)         # `limit.check()` now and then; it raises

A question whose browser has gone is given up at its next `check`; one that takes longer than `MOST_S` ends with
OutOfTime. What is only kept up to date (`keep`) stands back at each `check` while somebody waits for an answer.
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
from tonnage.scheduler.configuration_file import foreign_plugins, load_configuration
from tonnage.scheduling.configuration.configuration import Configuration
from tonnage.scheduling.decision.explain import Explanation
from tonnage.scheduling.plugins.registry import ForeignPlugins
from tonnage.whatif.creation import Creation
from tonnage.whatif.explain import DecisionSequence, decided_on, find_pod, score_weights
from tonnage.whatif.sources import ClusterState, OutOfTime

MOST_S: Final = 60.0
"""How long a question may take; who has longer asks the command."""

MOST_WAITING: Final = 32
"""Questions that may wait for their turn: each keeps the cluster as it was when it was asked."""

_LOOKS_UP_S: Final = 0.5
"""How often work that stands back looks whether it is given up."""

T = TypeVar("T")


class GivenUp(Exception):
    """Whoever asked is not there any more: the answer is for nobody."""


class TooManyAsk(TonnageError):
    """So many wait for an answer that one more would not have it for long."""

    def __init__(self) -> None:
        super().__init__(
            f"{MOST_WAITING} questions wait for an answer already", hint="ask again when some of them are answered"
        )


class QuestionLimit:
    """Until when a question may take. Its thread asks; others may end it."""

    def __init__(self, most_s: float, stands_back_for: threading.Event | None = None) -> None:
        self._ends_s = time.monotonic() + most_s
        self._is_given_up = False
        self._may_go_on = stands_back_for

    def begin(self, most_s: float) -> None:
        self._ends_s = time.monotonic() + most_s

    def give_up(self) -> None:
        self._is_given_up = True

    def check(self, *_: object) -> bool:
        """False, as long as it may go on. Raises OutOfTime or GivenUp. Takes what a `step` is given."""
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
    """The scheduler's configuration that questions are decided by, and whose turn it is."""

    def __init__(self, config_file: Path | None = None, gates: Gates | None = None, *, most_s: float = MOST_S) -> None:
        self.gates = gates or Gates()
        self.takes_any_pod = config_file is None
        self.most_s = most_s
        self._config_file = config_file
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._may_go_on = threading.Event()
        self._may_go_on.set()

    @cached_property
    def foreign(self) -> ForeignPlugins:
        return foreign_plugins()

    @cached_property
    def configuration(self) -> Configuration:
        return load_configuration(self._config_file, self.gates, self.foreign)

    def creation(self) -> Creation:
        """What creates objects as the API server would; a new one for each question."""
        return Creation(self.gates)

    def sequence(self, state: ClusterState, note: Callable[[str], object]) -> DecisionSequence:
        return DecisionSequence(
            state, self.configuration, is_default=self.takes_any_pod, foreign=self.foreign, note=note
        )

    def explained(
        self, state: ClusterState, pod: Key, note: Callable[[str], object]
    ) -> tuple[Explanation, dict[str, int]]:
        """Why a pod goes where it goes, or nowhere, and the weights of its scores. Raises TonnageError."""
        found, profile = decided_on(
            find_pod(state, pod),
            state,
            self.configuration,
            is_default=self.takes_any_pod,
            foreign=self.foreign,
            note=note,
        )
        return found, score_weights(profile)

    async def answer(self, work: Callable[[QuestionLimit], T]) -> T:
        """Work in a thread when it is our turn. Raises TooManyAsk, and what the work raises, OutOfTime among it. A
        cancellation is told to the work, and waits for it to end: two never work at once."""
        if self._waiting > MOST_WAITING:
            raise TooManyAsk
        self._waiting += 1
        self._may_go_on.clear()
        try:
            async with self._turn:
                return await _in_thread(work, QuestionLimit(self.most_s))
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._may_go_on.set()

    async def keep(self, work: Callable[[QuestionLimit], T]) -> T:
        """The same for what is kept up to date: it waits for no turn, and stands back for those who do."""
        return await _in_thread(work, QuestionLimit(self.most_s, stands_back_for=self._may_go_on))


async def _in_thread(work: Callable[[QuestionLimit], T], limit: QuestionLimit) -> T:
    thread = asyncio.ensure_future(asyncio.to_thread(work, limit))
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        limit.give_up()
        with suppress(Exception):
            await thread
        raise
