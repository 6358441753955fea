"""Events go when they have not been written for as long as they are kept."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support.virtual_clock import VirtualClock
from tonnage.apiserver.bootstrap import EventExpiry
from tonnage.apiserver.server import Server, ServerSettings, serve
from tonnage.apiserver.stored_documents import encoder
from tonnage.clock import rfc3339
from tonnage.objects.resources import BY_KIND

EVENT = BY_KIND["v1", "Event"]
NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serve(ServerSettings(data_dir=tmp_path / "data", port=0)) as running:
        yield running


def ago(minutes: float) -> str:
    return rfc3339(NOW - timedelta(minutes=minutes))


async def put(server: Server, name: str, created: str = "", **fields: Any) -> None:
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": name,
        **({"creationTimestamp": created} if created else {}),
    }
    doc = {"apiVersion": "v1", "kind": "Event", "metadata": metadata, **fields}
    await server.registry.store.create(EVENT.key("default", name), encoder(EVENT, doc))


def names(server: Server) -> list[str]:
    return [record.key.rpartition("/")[2] for record in server.registry.store.list(EVENT.store_prefix)]


async def test_events_that_were_not_written_for_an_hour_go(server: Server):
    await put(server, "old", ago(61))
    await put(server, "young", ago(59))
    await put(server, "counted-up", ago(300), lastTimestamp=ago(5))
    await put(server, "series", ago(300), series={"count": 3, "lastObservedTime": ago(5)})
    await put(server, "long-ago", ago(300), lastTimestamp=ago(90))
    expiry = EventExpiry(server.registry, VirtualClock(NOW), 3600.0)
    assert await expiry.look() == 2
    assert names(server) == ["counted-up", "series", "young"]


async def test_an_event_that_tells_nothing_or_the_future_is_kept_from_when_it_was_seen(server: Server):
    await put(server, "silent")
    await put(server, "future", "2999-01-01T00:00:00Z")
    await put(server, "garbage", "yesterday")
    clock = VirtualClock(NOW)
    expiry = EventExpiry(server.registry, clock, 3600.0)
    assert await expiry.look() == 0
    clock.advance(3599)
    assert await expiry.look() == 0
    clock.advance(1)
    assert await expiry.look() == 3
    assert names(server) == []


async def test_nothing_else_is_touched(server: Server):
    before = server.registry.store.count("namespaces/")
    await EventExpiry(server.registry, VirtualClock(NOW + timedelta(days=900)), 3600.0).look()
    assert server.registry.store.count("namespaces/") == before
