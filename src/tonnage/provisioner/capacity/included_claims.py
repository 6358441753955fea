"""Which volumes were made lately: what the next figures of a driver are known to include.

A scheduler keeps a volume's room back until the figures show it, and cannot see from a figure whether they do: it may
have been measured before the volume was made, or written before the claim was seen bound. The provisioner knows. It
notes each volume when the driver has made it, before it asks the driver for new figures, and says so with them
(`tonnage.dev/included-claims`). What is older than any scheduler would wait for is not worth a word.
"""

from __future__ import annotations

from typing import Final

from tonnage.clock import Clock
from tonnage.objects.meta import Key

KEPT_S: Final = 120.0
"""Twice a scheduler's `reservationTimeoutSeconds`, after which it stops keeping room back anyway."""
MOST: Final = 64
"""Claims that one object names; the newest of them."""


class IncludedClaims:
    """Uids of claims, by the work item whose capacity includes their volumes, the newest last."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._made_at_s: dict[Key, dict[str, float]] = {}

    def note(self, key: Key, claim_uid: str) -> None:
        """A volume was made: what the driver reports for this item from now on includes it."""
        made = self._made_at_s.setdefault(key, {})
        made.pop(claim_uid, None)
        made[claim_uid] = self._clock.monotonic()
        if len(made) > MOST:
            del made[next(iter(made))]

    def moved(self, claim_uid: str) -> None:
        """A volume left for elsewhere: should it come back, figures from before do not include it."""
        for made in self._made_at_s.values():
            made.pop(claim_uid, None)

    def about(self, key: Key) -> tuple[str, ...]:
        """The claims that a report for this item includes, if the driver is asked now."""
        made = self._made_at_s.get(key)
        if made is None:
            return ()
        oldest_s = self._clock.monotonic() - KEPT_S
        for uid in [uid for uid, at_s in made.items() if at_s < oldest_s]:
            del made[uid]
        return tuple(made)
