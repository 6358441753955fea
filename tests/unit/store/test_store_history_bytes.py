"""History is bounded by bytes as well as by revisions, and what it took is given back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.compaction import compact
from support.eventually import eventually_async
from tonnage.store.errors import RevisionCompacted
from tonnage.store.loading import HistoryBytes


def zeros(kib: int):
    return lambda revision: bytes(kib << 10)


@given(sizes=st.lists(st.integers(0, 3 << 20), max_size=60), budget=st.integers(0, 20 << 20), data=st.data())
def test_what_is_left_after_compaction_is_within_the_budget(sizes: list[int], budget: int, data: st.DataObject):
    history = HistoryBytes()
    for revision, size in enumerate(sizes, 1):
        history.add(revision, size)
    assert history.total == sum(sizes)
    target = history.to_keep(budget)
    assert sum(sizes[target:]) <= max(budget, 0) or target == len(sizes)
    # No more is given up than an entry holds: 1 MiB, and the document that went over it.
    assert target == 0 or sum(sizes[:target]) - (sum(sizes) - budget) <= (1 << 20) + 2 * max(sizes)
    history.forget(target)
    assert history.total == sum(sizes[target:])


async def test_updates_of_large_documents_keep_the_file_small(open_store, folder: Path):
    # 300 states of 256 KiB are 75 MiB; 4 MiB of them are kept, and a tenth, and what compaction works on meanwhile.
    store = await open_store(keep_bytes=4 << 20)
    record = await store.create("nodes/a", zeros(256))
    for _ in range(299):
        record = await store.update("nodes/a", zeros(256), expected=record.revision)
    assert store.history_bytes <= 5 << 20
    with pytest.raises(RevisionCompacted):
        store.watch("nodes/", after=200)
    watch = store.watch("nodes/", after=295)  # what is left of it is whole
    assert [event.revision for event in await watch.next_batch()] == [296, 297, 298, 299, 300]
    watch.close()
    path = folder / "log.sqlite3"
    await eventually_async(lambda: path.stat().st_size < 12 << 20, "the file to be small")


async def test_tombstones_count_and_deleted_objects_give_their_room_back(open_store, folder: Path):
    store = await open_store(keep_bytes=1 << 20)
    records = [await store.create(f"nodes/{i}", zeros(256)) for i in range(80)]
    path = folder / "log.sqlite3"
    for record in records:
        await store.delete(record.key, zeros(256), expected=record.revision)
    assert store.history_bytes <= 2 << 20
    await compact(store, store.revision)
    # 20 MiB of states and 20 MiB of tombstones were in it.
    await eventually_async(lambda: path.stat().st_size < 8 << 20, "the file to be small again")
    assert store.history_bytes == 0


async def test_a_store_knows_the_bytes_of_its_history_after_a_restart(open_store):
    store = await open_store()
    first = await store.create("nodes/a", zeros(100))
    await store.update("nodes/a", zeros(30), expected=first.revision)
    gone = await store.create("nodes/b", zeros(7))
    await store.delete("nodes/b", zeros(5), expected=gone.revision)
    assert store.history_bytes == (100 + 7 + 5) << 10
    await store.close()
    assert (await open_store()).history_bytes == (100 + 7 + 5) << 10
