"""What a shadow does about kinds that it may not read: it goes on without, or says that it cannot."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from shadow_feed import Feed

from tonnage.clock import SystemClock
from tonnage.errors import Forbidden
from tonnage.objects.codec import ObjectList
from tonnage.objects.core_v1 import Event, Pod
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.whatif.shadow.follow import Following


class Server:
    """A server that lists nothing, and refuses some kinds."""

    server = "https://example"

    def __init__(self, *refused: type) -> None:
        self.clock, self.rng = SystemClock(), random.Random(0)
        self._refused = refused

    async def list(self, cls: type, **_: Any) -> ObjectList[Any]:
        if cls in self._refused:
            raise Forbidden(f"{cls.__name__} is forbidden")
        return ObjectList((), "1")

    @asynccontextmanager
    async def watch(self, cls: type, **_: Any) -> AsyncIterator[AsyncIterator[Sequence[bytes]]]:
        if cls in self._refused:
            raise Forbidden(f"{cls.__name__} is forbidden")

        async def lines() -> AsyncIterator[Sequence[bytes]]:
            yield [
                b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1","annotations":'
                b'{"k8s.io/initial-events-end":"true"}}}}'
            ]
            await asyncio.Event().wait()

        yield lines()


async def synced(*refused: type) -> list[str]:
    notes: list[str] = []
    client: Any = Server(*refused)
    async with Following(client, Feed().shadow, note=notes.append) as following:
        await asyncio.wait_for(following.wait_synced(), 20)
    return sorted(notes)


def test_kinds_that_may_not_be_read_count_as_none_and_are_noted() -> None:
    notes = asyncio.run(synced(CSIStorageCapacity, Event))
    assert len(notes) == 4, "events are followed by two reasons, and read by decisions"
    assert notes[0].startswith("csistoragecapacities.storage.k8s.io objects cannot be watched and are ignored: ")


def test_without_pods_there_is_nothing_to_follow() -> None:
    with pytest.raises(Forbidden, match="Pod is forbidden"):
        asyncio.run(synced(Pod))
