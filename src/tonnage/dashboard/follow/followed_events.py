"""Events about pods and claims, as they come: told to the model and forgotten, so that their number does not matter.

A watch without a version begins with the Events that there are, in any order, and goes on with those that come. One
that is cut goes on from where it was; a server that has forgotten that begins anew. What is heard twice is told once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from tonnage import logs
from tonnage.backoff import Backoff
from tonnage.client import errors
from tonnage.client.http import Client
from tonnage.errors import ApiError, TonnageError
from tonnage.objects import codec
from tonnage.objects.codec import Bookmark, WatchChange, WatchFailure
from tonnage.objects.core_v1 import Event
from tonnage.objects.decode_errors import Unreadable

KINDS: Final = ("Pod", "PersistentVolumeClaim")
_MIN_WATCH_S, _MAX_WATCH_S = 300, 600
_USEFUL_S: Final = 1.0

_log = logs.logger("tonnage.dashboard")


class FollowedEvents:
    """The Events about objects of one kind. `told` is called with each; `failed` with why they cannot be read, or None
    when they can."""

    def __init__(
        self,
        client: Client,
        kind: str,
        *,
        namespace: str = "",
        told: Callable[[Event], None],
        failed: Callable[[TonnageError | None], None],
    ) -> None:
        self._client = client
        self._kind = kind
        self._namespace = namespace
        self._told, self._failed = told, failed
        self._version = ""
        self._backoff = Backoff(clock=client.clock, rng=client.rng, first_s=1.0, max_s=60.0)

    async def follow(self) -> None:
        """Go on until cancelled, whatever the server does."""
        clock = self._client.clock
        while True:
            started_at = clock.monotonic()
            try:
                await self._stream()
            except TonnageError as exc:
                self._failed(exc)
                if isinstance(exc, ApiError):
                    self._version = ""
            except Exception:
                _log.exception("Events cannot be followed", about=self._kind)
                self._version = ""
            if clock.monotonic() - started_at >= _USEFUL_S:
                self._backoff.reset()
                await asyncio.sleep(0)
            else:
                await clock.sleep(self._backoff.next_s())

    async def _stream(self) -> None:
        async with self._client.watch(
            Event,
            namespace=self._namespace,
            field_selector=f"involvedObject.kind={self._kind}",
            resource_version=self._version,
            timeout_s=self._client.rng.randint(_MIN_WATCH_S, _MAX_WATCH_S),
        ) as lines:
            self._failed(None)
            async for batch in lines:
                for line in batch:
                    self._read(line)

    def _read(self, line: bytes) -> None:
        try:
            event = codec.decode_event(Event, line)
        except Unreadable as exc:
            _log.warning("An Event cannot be read and is passed over", error=exc.message)
            return
        match event:
            case WatchFailure():
                self._version = ""
                raise errors.from_status(event.status)
            case Bookmark():
                self._version = event.resource_version
            case WatchChange():
                self._version = event.object.metadata.resource_version
                if event.type != "DELETED":
                    self._told(event.object)
