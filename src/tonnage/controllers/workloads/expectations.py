"""Expectations: what a controller wrote and its cache does not show yet. Until it does, the controller does not act.

A controller that counts what it sees and makes what is missing would make it twice if it looked before its own work
came back to it. So it keeps, for each of its objects, what it wrote; `are_satisfied` says whether the cache has caught
up with all of it.

    written    the cache has come as far as the revision that the server gave to the write
    deleted    the cache no longer shows that life of the object, or shows that it is being deleted
    in doubt   the server's answer got lost: `resolve_doubts` reads the object, and one of the above follows

What is not met after five minutes is forgotten, as upstream does: a server that was restored from a copy counts from an
older revision, and an event may be lost for reasons nobody thought of. Nothing survives the program, and nothing has
to: a program that starts waits for a state that the server gives after all that the one before it wrote. Mirrors
UIDTrackingControllerExpectations and the consistency store of controller_utils.go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tonnage import logs
from tonnage.client.cache import Cache
from tonnage.client.errors import Disconnected
from tonnage.client.http import Client
from tonnage.clock import Clock
from tonnage.errors import ApiError, NotFound, TonnageError
from tonnage.objects.meta import Key, Object, revision_of

TIMEOUT_S: Final = 300.0

_log = logs.logger(__name__)


@dataclass(frozen=True, slots=True)
class _Expectation:
    is_met: Callable[[], bool]
    since_s: float


class Expectations:
    """What each owner, by key, waits to see."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._expected: dict[Key, list[_Expectation]] = {}
        self._doubts: dict[Key, list[tuple[Cache[Any], Key, str]]] = {}

    def expect_written(self, owner: Key, cache: Cache[Any], written: Object) -> None:
        """The server has answered a create or a change with `written`."""
        revision = written.metadata.revision
        self._expect(owner, lambda: revision_of(cache.resource_version) >= revision)

    def expect_deleted(self, owner: Key, cache: Cache[Any], key: Key, uid: str) -> None:
        """The server has taken the deletion of this object."""

        def is_met() -> bool:
            shown = cache.get(key)
            return shown is None or shown.uid != uid or shown.metadata.is_terminating

        self._expect(owner, is_met)

    def mark_in_doubt(self, owner: Key, cache: Cache[Any], key: Key, uid: str = "") -> None:
        """A create or a change of this object, or with `uid` its deletion, got no answer."""
        self._doubts.setdefault(owner, []).append((cache, key, uid))

    async def resolve_doubts(self, owner: Key) -> None:
        """Ask the server what became of what is in doubt. Raises what the client raises; then all of it still is."""
        for cache, key, uid in tuple(self._doubts.get(owner, ())):
            try:
                found: Object | None = await self._client.get(cache.cls, key)
            except NotFound:
                found = None
            if uid:
                if found is None or found.uid != uid or found.metadata.is_terminating:
                    self.expect_deleted(owner, cache, key, uid)
            elif found is not None:
                self.expect_written(owner, cache, found)
            self._doubts[owner].remove((cache, key, uid))
        self._doubts.pop(owner, None)

    def are_satisfied(self, owner: Key) -> bool:
        """Whether the cache shows all of it, as far as is known."""
        expected = self._expected.get(owner)
        if not expected:
            return owner not in self._doubts
        now_s = self._clock.monotonic()
        left = [each for each in expected if not each.is_met()]
        if any(now_s - each.since_s > TIMEOUT_S for each in left):
            _log.warning("The cache did not show our own writes in time; they are forgotten", owner=owner)
            left = []
        if left:
            self._expected[owner] = left
        else:
            self._expected.pop(owner)
        return not left and owner not in self._doubts

    def forget(self, owner: Key) -> None:
        """The owner is gone."""
        self._expected.pop(owner, None)
        self._doubts.pop(owner, None)

    def _expect(self, owner: Key, is_met: Callable[[], bool]) -> None:
        self._expected.setdefault(owner, []).append(_Expectation(is_met, self._clock.monotonic()))


def is_in_doubt(failure: TonnageError) -> bool:
    """Whether a write that failed so may have been carried out all the same."""
    if isinstance(failure, ApiError):
        return failure.code >= 500
    return isinstance(failure, Disconnected) and failure.in_doubt
