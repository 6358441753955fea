"""What is going to happen, by its time: an agenda on a clock that moves only when there is nothing left to do now."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

from tonnage.clock import VirtualClock

Work = Callable[[], object]


class Agenda:
    """Work at instants of virtual time; of two at one instant, the one that was noted first comes first."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.now_s = 0.0
        """Seconds since the beginning, exactly as they were noted: the clock counts whole nanoseconds."""
        self.awake = 0
        """How many notes there are that something is going to come of; see `at`."""
        self._began_s = clock.monotonic()
        self._order = count()
        self._notes: list[tuple[float, int, Work, bool]] = []

    @property
    def next_s(self) -> float | None:
        """When something happens next; None when nothing is noted."""
        return self._notes[0][0] if self._notes else None

    def at(self, when_s: float, work: Work, *, is_alarm: bool = False) -> None:
        """Note work for an instant; one that has passed is now.

        An alarm is for the case that nothing else happens until then: nobody waits for it alone.
        """
        self.awake += not is_alarm
        heapq.heappush(self._notes, (max(when_s, self.now_s), next(self._order), work, is_alarm))

    def after(self, delay_s: float, work: Work, *, is_alarm: bool = False) -> None:
        self.at(self.now_s + max(delay_s, 0.0), work, is_alarm=is_alarm)

    def go_to(self, when_s: float) -> None:
        """Let time pass; nothing is done on the way."""
        if when_s > self.now_s:
            self.clock.advance(max(0.0, self._began_s + when_s - self.clock.monotonic()))
            self.now_s = when_s

    def take_due(self) -> Work | None:
        """The next work that is due now, or None."""
        if self._notes and self._notes[0][0] <= self.now_s:
            _, _, work, is_alarm = heapq.heappop(self._notes)
            self.awake -= not is_alarm
            return work
        return None
