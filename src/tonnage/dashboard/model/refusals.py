"""Refused volumes, as Events report them: why a claim's volume cannot be made, since when, and how many refusals came.

An Event that is received again counts only by what its count grew. Both memories are bounded: the oldest entries go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final, NamedTuple

from tonnage.objects.core_v1 import Event
from tonnage.whatif.shadow.signs import LIMIT_EXCEEDED, PROVISIONING_FAILED, TOLD_BY_EVENTS

MOST_CLAIMS: Final = 1000
MOST_EVENTS: Final = 5000
_NOT_ANSWERED: Final = re.compile(r"rpc error: code = (Unavailable|DeadlineExceeded)\b")


class Refusal(NamedTuple):
    """The last refusal of a claim's volume. `since`: the first one, as far as Events tell."""

    message: str
    since: datetime | None = None

    @property
    def is_silence(self) -> bool:
        """True if the driver did not answer, rather than said no."""
        return _NOT_ANSWERED.search(self.message) is not None


class Refusals:
    def __init__(self) -> None:
        self.of_claim: dict[str, Refusal] = {}
        """By a claim's uid."""
        self.count = 0
        """Refusals that happened after `start`."""
        self.start: datetime | None = None
        """Earlier Events are not counted; None counts all."""
        self._counted: dict[str, int] = {}

    def put(self, uid: str, message: str, since: datetime | None = None) -> Iterator[str]:
        """Note a refusal. Yields the uids of claims that are forgotten for it."""
        known = self.of_claim.pop(uid, None)
        self.of_claim[uid] = Refusal(message, (known.since if known is not None else None) or since)
        while len(self.of_claim) > MOST_CLAIMS:
            gone = next(iter(self.of_claim))
            del self.of_claim[gone]
            yield gone

    def heard(self, event: Event, now: datetime) -> bool:
        """Count an Event that reports a refusal. True if it says that a claim's volume cannot be made."""
        if event.reason not in (*TOLD_BY_EVENTS, LIMIT_EXCEEDED):
            return False
        times = max(event.count, event.series.count if event.series is not None else 0, 1)
        before = self._counted.pop(event.uid, times - 1)
        self._counted[event.uid] = times
        if len(self._counted) > MOST_EVENTS:
            del self._counted[next(iter(self._counted))]
        if self.start is None or last_at(event, now) >= self.start:
            self.count += max(times - before, 0)
        return event.reason == PROVISIONING_FAILED and event.involved_object.kind == "PersistentVolumeClaim"


def first_at(event: Event) -> datetime | None:
    return event.first_timestamp or event.event_time or event.metadata.creation_timestamp


def last_at(event: Event, now: datetime) -> datetime:
    """When an Event last happened; `now` if it does not say."""
    observed = event.series.last_observed_time if event.series is not None else None
    return observed or event.last_timestamp or event.event_time or event.metadata.creation_timestamp or now
