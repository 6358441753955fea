"""Event deduplication: the same event about the same object is written once in a while, however often it is recorded.

A level-based loop comes by the same state often. Upstream's recorder counts the repetitions; here the same text about
the same object is recorded again only after a minute, so that it can still be found when somebody asks.
"""

from __future__ import annotations

from typing import Final

from tonnage.client.recorder import EventType, Recorder
from tonnage.clock import Clock
from tonnage.objects.meta import Object

REPEAT_AFTER_S: Final = 60.0
_MAX_KNOWN: Final = 20_000


class DeduplicatingRecorder:
    """Records events through a recorder, each once in `repeat_after_s`."""

    def __init__(self, recorder: Recorder, clock: Clock, *, repeat_after_s: float = REPEAT_AFTER_S) -> None:
        self._recorder = recorder
        self._clock = clock
        self._repeat_after_s = repeat_after_s
        self._recorded_at_s: dict[tuple[str, str, str], float] = {}  # the one recorded longest ago first

    def event(
        self, about: Object, type: EventType, reason: str, action: str, note: str, related: Object | None = None
    ) -> None:
        """Record it, unless it was recorded a moment ago. `related` does not count when two events are compared."""
        key, now_s = (about.uid, reason, note), self._clock.monotonic()
        recorded_at_s = self._recorded_at_s.get(key)
        if recorded_at_s is not None and now_s - recorded_at_s < self._repeat_after_s:
            return
        self._recorded_at_s.pop(key, None)
        while self._recorded_at_s:
            oldest, at_s = next(iter(self._recorded_at_s.items()))
            if now_s - at_s < self._repeat_after_s and len(self._recorded_at_s) < _MAX_KNOWN:
                break
            del self._recorded_at_s[oldest]
        self._recorded_at_s[key] = now_s
        self._recorder.event(about, type, reason, action, note, related)
