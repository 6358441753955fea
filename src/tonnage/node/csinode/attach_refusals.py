"""How soon a node may fail pods again for want of an attach slot, by driver: rounds at growing intervals.

    refused ──► round 1 at once ──► 1 s ──► round 2 ──► 2 s ──► round 3 ──► 4 s … 2 min
                   ▲                 an attach succeeds, the limit changes, ten quiet minutes
                   └─────────────────────────────────────┘

The first refusal corrects the limit, and the next pod is placed by it. Where that does not cure it (a driver that
reports 1 and has no slot for even that one), every pod that is made in its place is sent here again; failed at once,
they would come and go every second, each with its ephemeral claims. So a pod that came after the last round waits for
the next. It may still start: a slot that is given back meanwhile is its own. Pods that came before a round were placed
by the same mistake and belong to it. All of it is memory: a node that starts anew begins with the first round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tonnage.backoff import exponential_s, remaining_s
from tonnage.clock import Clock

FIRST_S: Final = 1.0
MAX_S: Final = 120.0
FORGET_S: Final = 600.0
"""Without a refusal for so long after an interval was over, the next one is the first."""


@dataclass(frozen=True, slots=True)
class _Round:
    number: int
    at_s: float

    @property
    def next_s(self) -> float:
        """When the next round may begin: the interval after round n is 2^(n-1) s, at most 2 min."""
        return self.at_s + exponential_s(FIRST_S, self.number - 1, max_s=MAX_S)


class AttachRefusals:
    """The refusals of one node. Times are the clock's monotonic seconds; `came_s` is when a pod came to the node."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rounds: dict[str, _Round] = {}
        self._limits: dict[str, int] = {}

    def wait_s(self, driver: str, came_s: float) -> float:
        """How long a pod whose volume this driver refused has to wait before it may be failed; 0 for now."""
        last = self._last(driver)
        if last is None or came_s <= last.at_s:
            return 0.0
        return remaining_s(last.next_s, self._clock.monotonic())

    def failed(self, driver: str, came_s: float) -> None:
        """A pod is failed for it: the next round begins, unless the pod belongs to the last one."""
        last = self._last(driver)
        if last is None or came_s > last.at_s:
            self._rounds[driver] = _Round(last.number + 1 if last is not None else 1, self._clock.monotonic())

    def succeeded(self, driver: str) -> None:
        """An attach of this driver went well: the next refusal is the first."""
        self._rounds.pop(driver, None)

    def limit_is(self, driver: str, count: int) -> None:
        """The driver's limit as it is known now; another than before begins anew."""
        if self._limits.get(driver, count) != count:
            self._rounds.pop(driver, None)
        self._limits[driver] = count

    def _last(self, driver: str) -> _Round | None:
        last = self._rounds.get(driver)
        if last is not None and self._clock.monotonic() > last.next_s + FORGET_S:
            del self._rounds[driver]
            return None
        return last
