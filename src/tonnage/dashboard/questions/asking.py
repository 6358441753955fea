"""How questions are asked from the page: by which configuration, and in a thread of their own, one at a time.

    asking = Asking()                                       # the default configuration, as the commands have it
    answer = await asking.answer(lambda limit: …)           # `limit.check()` now and then; it raises

Questions cost processor time, so that one waits for the other. A question whose browser has gone is given up at its
next `check`; one that takes longer than `MOST_S` ends with OutOfTime, and may answer with what it knows by then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Final, TypeVar

from tonnage.gates import Gates
from tonnage.scheduler.configuration_file import load_configuration
from tonnage.scheduler.installed_plugins import foreign_plugins
from tonnage.scheduling.configuration.configuration import Configuration
from tonnage.scheduling.plugins.registry import ForeignPlugins
from tonnage.whatif.creation import Creation
from tonnage.whatif.interruptions import OutOfTime

MOST_S: Final = 60.0
"""How long a question may take; who has longer asks the command."""

T = TypeVar("T")


class GivenUp(Exception):
    """Whoever asked is not there any more: the answer is for nobody."""


class Limit:
    """Until when a question may take. Its thread asks; others may end it."""

    def __init__(self, most_s: float) -> None:
        self._ends_s = time.monotonic() + most_s
        self._is_given_up = False

    def give_up(self) -> None:
        self._is_given_up = True

    def check(self, *_: object) -> bool:
        """False, as long as it may go on. Raises OutOfTime or GivenUp. Takes what a `step` is given."""
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

    @cached_property
    def foreign(self) -> ForeignPlugins:
        return foreign_plugins()

    @cached_property
    def configuration(self) -> Configuration:
        """Raises ConfigurationError."""
        return load_configuration(self._config_file, self.gates, self.foreign)

    def creation(self) -> Creation:
        """What creates objects as the API server would; a new one for each question."""
        return Creation(self.gates)

    async def answer(self, work: Callable[[Limit], T]) -> T:
        """Work in a thread when it is our turn. Raises what the work raises, OutOfTime among it.

        A cancellation is told to the work, and waits for it to end: two never work at once.
        """
        async with self._turn:
            limit = Limit(self.most_s)
            thread = asyncio.ensure_future(asyncio.to_thread(work, limit))
            try:
                return await asyncio.shield(thread)
            except asyncio.CancelledError:
                limit.give_up()
                with suppress(Exception):
                    await thread
                raise
