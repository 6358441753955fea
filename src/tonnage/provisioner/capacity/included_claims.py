"""Which volumes were made lately: what the next figures of a driver are known to include.

A scheduler keeps a volume's room back until the figures show it, and cannot see from a figure whether they do: it may
have been measured before the volume was made, or written before the claim was seen bound. The provisioner knows. It
notes each volume when the driver has made it, before it asks the driver for new figures, and says so with them
(`tonnage.dev/included-claims`). What is older than any scheduler would wait for is not worth a word.

An object names so many claims and no more. Where that is too few, it also says until when volumes are included
(`tonnage.dev/included-until`): a PersistentVolume is created after its volume was made, and servers stamp them in
order. So when the driver is asked, every volume was made whose object was created before the newest that is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

from tonnage.clock import Clock
from tonnage.objects.meta import Key

KEPT_S: Final = 120.0
"""Twice a scheduler's `reservationTimeoutSeconds`, after which it stops keeping room back anyway."""
MOST: Final = 64
"""Claims that one object names; the newest of them."""


class Included(NamedTuple):
    """Which volumes a report includes."""

    claims: tuple[str, ...] = ()
    """Uids of claims whose volumes were made lately."""
    until: datetime | None = None
    """Where there may be more: every volume whose PersistentVolume was created before this, by the server's clock."""


NOTHING: Final = Included()


class IncludedClaims:
    """Uids of claims, by the work item whose capacity includes their volumes, the newest last."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._made_at_s: dict[Key, dict[str, float]] = {}
        self.newest_at: datetime | None = None
        """When the newest PersistentVolume was created."""

    def created(self, at: datetime | None) -> Iterable[Key]:
        """A PersistentVolume was created at this time, by the server's clock. Tells for which work items a new report
        says more than the last: they have more claims than are named."""
        if at is None or (self.newest_at is not None and at <= self.newest_at):
            return ()
        self.newest_at = at.replace(microsecond=0)  # as it is going to be written
        return [key for key, made in self._made_at_s.items() if len(made) >= MOST]

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

    def about(self, key: Key) -> Included:
        """What a report for this item includes, if the driver is asked now."""
        made = self._made_at_s.get(key)
        if made is None:
            return NOTHING
        oldest_s = self._clock.monotonic() - KEPT_S
        for uid in [uid for uid, at_s in made.items() if at_s < oldest_s]:
            del made[uid]
        return Included(tuple(made), self.newest_at if len(made) >= MOST else None)
