"""`Leadership`: whether this copy of a program leads now, and the fence around everything it writes.

               begin                     renewed longer ago than renewDeadline (whoever looks first),
    waiting ─────────► leading ───────►  somebody else holds the lease, or the work is done: over, for good
    (no write)         (writes)          (no write)

A write leaves only if the lease was renewed at most `renew_deadline_s` ago, checked right before its bytes go to the
socket. The age counts from before the renewal was sent, by a clock that counts while the machine is suspended. Others
may take the lease `lease_duration_s` after they saw it change; a write has the `window_s` between to arrive. A fence at
the sender cannot recall bytes: see docs/decisions/015-a-leaders-writes.md.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from tonnage.clock import Clock
from tonnage.errors import TonnageError
from tonnage.objects.meta import Key

JITTER_FACTOR = 1.2
"""Of the pauses between a candidate's tries."""


class NotLeading(TonnageError):
    """A write that was not sent, because another copy may lead. It is dropped: trying again does not help."""

    def __init__(self, what: str, lease: Key, age_s: float | None, deadline_s: float) -> None:
        self.what = what
        self.lease = lease
        self.age_s = age_s
        self.deadline_s = deadline_s
        if age_s is None:
            why = f"the lease {lease or '(none asked for yet)'} is not held"
        else:
            why = f"the lease {lease} was renewed {age_s:.1f} s ago, and may be another's after {deadline_s:g} s"
        super().__init__(f"{what} was not sent: {why}", hint="start again, to wait for the lease")


class InvalidLeaseTimes(TonnageError, ValueError):
    """Times that would allow two leaders at once, or none for long."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How long a lease lasts, how long a leader tries to renew it, and how often. The defaults are client-go's."""

    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0

    def check(self) -> None:
        """Raises InvalidLeaseTimes unless candidates wait longer than a leader continues, who has several tries."""
        renew_s, retry_s = self.renew_deadline_s, self.retry_period_s
        if int(self.lease_duration_s) < 1:
            raise InvalidLeaseTimes(f"leaseDuration ({self.lease_duration_s:g} s) must be a second at least")
        if int(self.lease_duration_s) <= renew_s:
            raise InvalidLeaseTimes(
                f"leaseDuration ({int(self.lease_duration_s)} s) must be greater than renewDeadline",
                hint=f"renewDeadline is {renew_s:g} s, and a lease lasts whole seconds",
            )
        if retry_s <= 0:
            raise InvalidLeaseTimes("retryPeriod must be greater than zero")
        if renew_s <= JITTER_FACTOR * retry_s:
            raise InvalidLeaseTimes(
                f"renewDeadline ({renew_s:g} s) must be greater than retryPeriod*JitterFactor",
                hint=f"retryPeriod is {retry_s:g} s, and JitterFactor {JITTER_FACTOR:g}",
            )


class Leadership:
    """The lead of one candidate. Only its elector changes it; anyone may ask."""

    def __init__(self, identity: str, times: LeaseTimes = LeaseTimes(), *, clock: Clock) -> None:  # noqa: B008  # frozen
        """`identity` must be unique. Fractions of seconds are cut off, as client-go does. Raises InvalidLeaseTimes."""
        if not identity:
            raise ValueError("a candidate needs an identity of its own")
        times.check()
        self.identity = identity
        self.lease: Key = ""
        self.lease_duration_s = int(times.lease_duration_s)
        self.renew_deadline_s = times.renew_deadline_s
        self.retry_period_s = times.retry_period_s
        self.follows_another = False
        """Another copy led while we waited: our caches may lag behind its last writes."""
        self._clock = clock
        self._renewed_at: float | None = None
        self._unanswered_at: float | None = None
        self._is_leading = False
        self._over = asyncio.Event()

    # -- for whoever works --------------------------------------------------------------------------------------------

    @property
    def left_s(self) -> float:
        """How long writes may go on without another renewal; zero or less: no longer."""
        if self._renewed_at is None:
            return 0.0
        return self._renewed_at + self.renew_deadline_s - self._clock.monotonic()

    @property
    def window_s(self) -> float:
        """From the last write that may leave to the first that another leader may make."""
        return self.lease_duration_s - self.renew_deadline_s

    @property
    def is_leading(self) -> bool:
        return not self.is_over and self._is_leading

    @property
    def is_over(self) -> bool:
        """True if we have led and never will again. An unnoticed expiry is noticed here."""
        if self._is_leading and self.left_s < 0:
            self.end()
        return self._over.is_set()

    async def wait_over(self) -> None:
        await self._over.wait()

    def check(self, what: str) -> None:
        """Return if a write may leave now. Raises NotLeading; `what` describes the write."""
        if self.is_over or not self._is_leading:
            age_s = None if self._renewed_at is None else self._clock.monotonic() - self._renewed_at
            is_late = age_s is not None and age_s > self.renew_deadline_s
            raise NotLeading(what, self.lease, age_s if is_late else None, self.renew_deadline_s)

    @property
    def token(self) -> str:
        """The lease and holder of a write, for a server that checks them."""
        return f"{self.lease} {self.identity}"

    def left_unanswered(self) -> None:
        """A write was sent and its answer will not come: it may still arrive."""
        self._unanswered_at = self._clock.monotonic()

    # -- for the elector ----------------------------------------------------------------------------------------------

    @property
    def may_be_underway(self) -> bool:
        """True if a write may still arrive. Then the lease should be left to expire."""
        sent_at = self._unanswered_at
        return sent_at is not None and self._clock.monotonic() - sent_at <= self.lease_duration_s

    def renewed(self, asked_at: float) -> None:
        """The server has accepted a renewal that was sent after `asked_at`."""
        self._renewed_at = asked_at

    def begin(self) -> None:
        self._is_leading = not self._over.is_set()

    def end(self) -> None:
        """No write leaves from now on. Tasks drop their pending writes: `wait_over` returns."""
        self._is_leading = False
        self._over.set()
