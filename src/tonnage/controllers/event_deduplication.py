"""What people were told already, so that a controller that looks again and again does not say the same each time.

A level-based loop comes by the same state often. Upstream's recorder counts the repetitions; here the same words about
the same object are said again only after a while, so that they are still to be found when somebody asks.
"""

from __future__ import annotations

from typing import Final

from tonnage.client.recorder import EventType, Recorder
from tonnage.clock import Clock
from tonnage.objects.meta import Object

AGAIN_S: Final = 60.0
_MAX_REMEMBERED: Final = 20_000


class Told:
    """Events through a recorder, each once in `again_s`."""

    def __init__(self, recorder: Recorder, clock: Clock, *, again_s: float = AGAIN_S) -> None:
        self._recorder = recorder
        self._clock = clock
        self._again_s = again_s
        self._said_at: dict[tuple[str, str, str], float] = {}

    def say(
        self, about: Object, type: EventType, reason: str, action: str, note: str, related: Object | None = None
    ) -> None:
        """Tell it, unless it was told a moment ago. What differs in `related` alone are two events."""
        key, now_s = (about.uid, reason, note), self._clock.monotonic()
        said_at = self._said_at.pop(key, None)
        if said_at is not None and now_s - said_at < self._again_s:
            self._said_at[key] = said_at
            return
        self._said_at[key] = now_s
        if len(self._said_at) > _MAX_REMEMBERED:
            del self._said_at[next(iter(self._said_at))]
        self._recorder.event(about, type, reason, action, note, related)
