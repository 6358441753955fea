"""An object that is written over and over: the file has an end, and whoever comes back too late lists again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from support.compaction import compact
from support.eventually import eventually_async
from tonnage.store.errors import RevisionCompacted
from tonnage.store.folder import StoreOptions
from tonnage.store.store import Store

DOCUMENT_BYTES = 2_000
WRITERS = 16


def document(revision: int) -> bytes:
    return b"%20d" % revision + b"x" * (DOCUMENT_BYTES - 20)


def file_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("log.sqlite3*") if path.exists())


async def update_over_and_over(store: Store, updates: int, after_each: Callable[[], Awaitable[None]]) -> None:
    """So many updates of one object among others that change too, so that commits have company."""

    async def write(key: str, count: int) -> None:
        record = await store.create(key, document)
        for _ in range(count):
            record = await store.update(key, document, expected=record.revision)
            await after_each()

    others = [write(f"leases/{i}", updates // WRITERS) for i in range(WRITERS - 1)]
    await asyncio.gather(write("pods/one", updates), *others)


@pytest.mark.parametrize(
    ("updates", "keep_revisions"), [(600, 100), pytest.param(20_000, 1_000, marks=pytest.mark.slow)]
)
async def test_the_file_stays_small_however_often_an_object_is_updated(
    tmp_path: Path, updates: int, keep_revisions: int
) -> None:
    store = await Store.open(tmp_path, StoreOptions(keep_revisions=keep_revisions))
    largest, count = 0, 0

    async def look() -> None:
        nonlocal largest, count
        count += 1
        if count % 50 == 0:
            largest = max(largest, file_bytes(tmp_path))

    try:
        await update_over_and_over(store, updates, look)
        # A row of 2,000 bytes fills half a page of 4 KiB. Kept are `keep_revisions` and a tenth, and what is written
        # while a compaction goes on; free pages up to 4 MiB and a write-ahead log of 16 MiB stay for the next writes.
        assert largest < 2 * keep_revisions * 4096 + (4 << 20) + (20 << 20)
        await compact(store, store.revision)
        assert store.history_bytes == 0
        await eventually_async(lambda: file_bytes(tmp_path) < 8 << 20, "what is free to be given back")
        with pytest.raises(RevisionCompacted):
            store.watch("pods/", after=1)
        [record] = store.list("pods/")
        assert record.revision <= store.revision
        watch = store.watch("pods/", after=store.revision)
        newer = await store.update(record.key, document, expected=record.revision)
        assert [event.revision for event in await watch.next_batch()] == [newer.revision]
    finally:
        await store.close()
    store = await Store.open(tmp_path)
    assert store.get("pods/one") == newer
    await store.close()
