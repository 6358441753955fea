"""Leader election by a Lease: of several copies of a program one works, the others wait.

               acquire                           not renewed for renew_deadline_s,
      waiting ─────────► leading ─────────────►  or somebody else holds the lease: LeaseLost
         ▲                  │
         └── somebody else  └── `work` ends, or the run is cancelled: the lease is let go

A candidate that sees the lease unchanged for its duration, by its own clock, takes it over. `leadership` says what a
leader may do. Mirrors client-go's leaderelection, but: a leader that sees another holder stops at once; the deadline
counts from the last renewal; a deleted lease is not recreated before its holder's time is up; and a lease is left to
expire when a write may still be on its way.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from tonnage import clock, logs
from tonnage.client.http import Client
from tonnage.client.leadership import JITTER_FACTOR, Leadership
from tonnage.errors import Conflict, NotFound, TonnageError
from tonnage.objects import codec, meta, small_groups
from tonnage.objects.document import Doc, dig

_MAX_TRANSITIONS = 2**31 - 1
"""The API's maximum. A count that has reached it stays: a number for people must not block the election."""
_HEALTH_TOLERANCE_S = 20.0
_VERSION = ("metadata", "resourceVersion")

_log = logs.logger(__name__)


class LeaseLost(TonnageError):
    """We led and no longer do; `holder` is the new leader, empty if unknown."""

    def __init__(self, lease: meta.Key, holder: str, deadline_s: float) -> None:
        self.lease = lease
        self.holder = holder
        why = f'"{holder}" holds it now' if holder else f"it could not be renewed within {deadline_s:g} s"
        super().__init__(f"lost the lease {lease}: {why}", hint="start again, to wait for the lease")


def new_identity() -> str:
    """Unique, even among copies on one machine and restarts of this one."""
    return f"{socket.gethostname()}_{secrets.token_hex(8)}"


@dataclass(eq=False)
class LeaderElector:
    """One candidate. Its client must not ask `leadership` before it writes."""

    client: Client
    lease: meta.Key
    leadership: Leadership
    release_on_cancel: bool = True

    def __post_init__(self) -> None:
        leadership = self.leadership
        leadership.lease = self.lease
        self.identity = leadership.identity
        self._clock = self.client.clock
        self._doc: Doc | None = None  # the lease as the server last returned it
        self._seen = small_groups.LeaseSpec()
        self._seen_at = self._clock.monotonic()  # when it last changed, by our clock
        self._reported = ""

    @property
    def leader(self) -> str:
        return self._seen.holder_identity

    @property
    def is_leader(self) -> bool:
        return self._seen.holder_identity == self.identity

    @property
    def is_healthy(self) -> bool:
        """False for a leader that should have noticed long ago that its lease has expired."""
        held_s = self._clock.monotonic() - self._seen_at
        return not self.is_leader or held_s <= self.leadership.lease_duration_s + _HEALTH_TOLERANCE_S

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, then run `work` while we hold it; returns when `work` does.

        Raises LeaseLost once `work` has been cancelled and has ended, and what `work` raises. Cancelled, it ends `work`
        while the lease is still renewed, then releases the lease.
        """
        await self._acquire()
        self.leadership.begin()
        _log.info("Became leader", lease=self.lease, identity=self.identity)
        working = asyncio.ensure_future(work())
        renewing = asyncio.ensure_future(self._renew())
        try:
            await asyncio.wait((working, renewing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            lost = renewing.done()
            working.cancel()
            await asyncio.wait((working,))
            lost = lost or renewing.done()
            self.leadership.end()
            renewing.cancel()
            await asyncio.wait((renewing,))
            _log.info("Stopped leading", lease=self.lease, identity=self.identity, lost=lost)
            if self.release_on_cancel and not lost:
                await self._release()
        if lost:
            renewing.result()  # our own bug, if there was one
            holder = "" if self.is_leader else self.leader
            raise LeaseLost(self.lease, holder, self.leadership.renew_deadline_s)
        working.result()

    # -- the lease ----------------------------------------------------------------------------------------------------

    async def _acquire(self) -> None:
        _log.info("Waiting for the lease", lease=self.lease, identity=self.identity)
        while True:
            is_ours = await self._try()
            self._report()
            if is_ours and self.leadership.left_s > 0:  # an answer may come too late to count
                return
            await self._clock.sleep(clock.jittered(self.leadership.retry_period_s, JITTER_FACTOR, self.client.rng))

    async def _renew(self) -> None:
        leadership = self.leadership
        try:
            while True:
                # After a slow renewal less time is left: then the next comes at once.
                pause_s = min(leadership.retry_period_s, max(leadership.left_s - leadership.retry_period_s, 0.0))
                with suppress(TimeoutError):
                    await clock.within(self._clock, pause_s, leadership.wait_over())
                left_s = leadership.left_s
                if leadership.is_over or left_s <= 0:
                    return
                try:
                    is_ours = await clock.within(self._clock, left_s, self._renew_once())
                except TimeoutError:
                    is_ours = False
                self._report()
                if not is_ours:
                    return
        finally:
            leadership.end()  # at once: work that is ending may be about to write

    async def _renew_once(self) -> bool:
        while not await self._try():
            if not self.is_leader:
                return False
            await self._clock.sleep(self.leadership.retry_period_s)
        return True

    async def _try(self) -> bool:
        """Acquire or renew the lease if possible. Failures are logged: the next try comes soon."""
        try:
            if self.is_leader and self._is_valid():
                try:
                    # The usual case: nobody else has written it, and one request is enough.
                    await self._write(self._seen.acquire_time, self._seen.lease_transitions)
                    return True
                except TonnageError as exc:
                    _log.debug("Lease could not be renewed at once", lease=self.lease, error=exc.message)
            return await self._take()
        except TonnageError as exc:
            _log.warning("Cannot reach the lease", lease=self.lease, error=exc.message)
            return False

    async def _take(self) -> bool:
        """Read the lease, and acquire it if it is free, expired, or ours. Raises TonnageError."""
        try:
            self._observe(await self.client.get_doc(small_groups.Lease, self.lease, retry=False))
        except NotFound:
            if self.leader and not self.is_leader and self._is_valid():
                return False  # it was deleted, and its holder may not know yet
            namespace, name = meta.split_key(self.lease)
            head: Doc = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
            await self._write(None, 0, new={**head, "metadata": {"namespace": namespace, "name": name}})
            return True
        if self.leader and not self.is_leader and self._is_valid():
            return False
        if self.is_leader:
            await self._write(self._seen.acquire_time, self._seen.lease_transitions)
        else:
            await self._write(None, min(max(self._seen.lease_transitions, 0) + 1, _MAX_TRANSITIONS))
        return True

    async def _write(self, acquire_time: datetime | None, transitions: int, *, new: Doc | None = None) -> None:
        """Write ourselves into the last seen lease, or into a new one. Raises Conflict when it has changed since."""
        asked_at, spec = self._clock.monotonic(), self._spec(acquire_time, transitions)
        if new is not None:
            self._observe(await self.client.create_doc({**new, "spec": spec}))
        else:
            self._observe(await self.client.update_doc({**(self._doc or {}), "spec": spec}))
        self.leadership.renewed(asked_at)

    async def _release(self) -> None:
        """Release the lease if we still hold it. A failure does not matter: the lease expires by itself."""
        if self.leadership.may_be_underway:
            _log.info("The lease is left to run out: a write has had no answer", lease=self.lease)
            return
        try:
            await clock.within(self._clock, self.leadership.renew_deadline_s, self._let_go())
        except (TonnageError, TimeoutError) as exc:
            _log.warning("Lease could not be released; it runs out by itself", lease=self.lease, error=str(exc))

    async def _let_go(self) -> None:
        while True:
            self._observe(await self.client.get_doc(small_groups.Lease, self.lease, retry=False))
            if not self.is_leader:
                return
            # One second, because the API wants a duration above zero.
            spec = self._spec(None, self._seen.lease_transitions) | {"holderIdentity": "", "leaseDurationSeconds": 1}
            try:
                self._observe(await self.client.update_doc({**(self._doc or {}), "spec": spec}))
            except Conflict:
                continue  # a renewal that was cancelled half-way got through all the same

    def _spec(self, acquire_time: datetime | None, transitions: int) -> Doc:
        now = self._clock.now()
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self.leadership.lease_duration_s,
            "acquireTime": clock.rfc3339_micro(acquire_time or now),
            "renewTime": clock.rfc3339_micro(now),
            "leaseTransitions": transitions,
        }

    def _observe(self, doc: Doc) -> None:
        # A renewal changes the version, even if the clock stands still and the spec is equal.
        changed = self._doc is None or dig(self._doc, *_VERSION) != dig(doc, *_VERSION)
        self._doc = doc
        spec = codec.convert(small_groups.Lease, doc).spec
        if changed or spec != self._seen:
            self._seen = spec
            self._seen_at = self._clock.monotonic()
        if spec.holder_identity not in ("", self.identity):
            self.leadership.follows_another = True

    def _is_valid(self) -> bool:
        return self._seen_at + (self._seen.lease_duration_seconds or 0) > self._clock.monotonic()

    def _report(self) -> None:
        if self.leader != self._reported:
            self._reported = self.leader
            _log.info("New leader", lease=self.lease, leader=self.leader)
