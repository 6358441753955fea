"""Long work on the event loop in short turns: others have theirs in between.

For work that reads what only the loop may read, piece by piece: walking over all objects of a kind, frames for a
watcher. What is one long piece goes to a thread (`workers`).
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

TURN_S: Final = 0.01
"""Long beside what a change of turns costs, short beside the 50 ms that nobody may take."""


class Turn:
    """Whether the work has had the loop for long enough. Ask after each piece."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = time.monotonic() + TURN_S

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._until

    async def pause(self) -> None:
        """Let everybody else have a turn, and begin another."""
        await asyncio.sleep(0)
        self._until = time.monotonic() + TURN_S
