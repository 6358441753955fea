"""Compaction: what goes, what stays, and that the counter never goes back."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from support.compaction import compact
from support.eventually import eventually_async
from tonnage.store.log import StoreLog
from tonnage.store.records import StoreRecord
from tonnage.store.store import Store


def says(text: str):
    return lambda revision: f"{text}@{revision}".encode()


def rows_in(folder: Path) -> list[tuple[int, str]]:
    with closing(sqlite3.connect(folder / "log.sqlite3")) as connection:
        return connection.execute("SELECT revision, key FROM log ORDER BY revision").fetchall()


async def test_compaction_keeps_the_newest_row_of_a_key_unless_it_is_a_tombstone(store: Store, folder: Path):
    await store.create("nodes/a", says("x"))  # 1, replaced by 2
    await store.update("nodes/a", says("x"), expected=1)  # 2, the state of a at 6
    await store.create("nodes/b", says("x"))  # 3, buried by 5
    await store.create("nodes/c", says("x"))  # 4, the state of c at 6
    await store.delete("nodes/b", says("bye"), expected=3)  # 5, a tombstone
    await store.create("nodes/d", says("x"))  # 6
    await store.update("nodes/c", says("x"), expected=4)  # 7, after the compaction
    await store.delete("nodes/d", says("bye"), expected=6)  # 8, a tombstone after the compaction
    await compact(store, 6)
    assert store.compacted == 6
    assert rows_in(folder) == [(2, "nodes/a"), (4, "nodes/c"), (6, "nodes/d"), (7, "nodes/c"), (8, "nodes/d")]
    assert [record.revision for record in await store.list_at("nodes/", 6)] == [2, 4, 6]


async def test_compaction_in_two_goes_leaves_what_one_would_leave(store: Store, folder: Path):
    await store.create("nodes/a", says("x"))
    await store.create("nodes/b", says("x"))
    await compact(store, 2)
    assert rows_in(folder) == [(1, "nodes/a"), (2, "nodes/b")]
    await store.update("nodes/a", says("x"), expected=1)
    await store.delete("nodes/b", says("bye"), expected=2)
    await compact(store, 4)
    assert rows_in(folder) == [(3, "nodes/a")]


async def test_compaction_backwards_changes_nothing(store: Store):
    await store.create("nodes/a", says("x"))
    await store.create("nodes/b", says("x"))
    await compact(store, 2)
    await compact(store, 1)
    assert store.compacted == 2


async def test_a_key_can_be_created_again_before_and_after_its_tombstone_is_compacted(store: Store):
    await store.create("nodes/a", says("x"))
    await store.delete("nodes/a", says("bye"), expected=1)
    assert (await store.create("nodes/a", says("x"))).revision == 3
    await store.delete("nodes/a", says("bye"), expected=3)
    await compact(store, 4)
    assert (await store.create("nodes/a", says("x"))).revision == 5


async def test_a_key_can_be_created_again_after_a_restart_on_its_tombstone(open_store):
    store = await open_store()
    await store.create("nodes/a", says("x"))
    await store.delete("nodes/a", says("bye"), expected=1)
    await store.close()
    store = await open_store()
    assert (await store.create("nodes/a", says("x"))).revision == 3
    await compact(store, 2)
    assert [record.revision for record in store.list("nodes/")] == [3]


async def test_the_counter_does_not_go_back_when_a_tombstone_was_the_newest_row(open_store, folder: Path):
    store = await open_store()
    await store.create("nodes/a", says("x"))
    await store.delete("nodes/a", says("bye"), expected=1)
    await store.close()
    store = await open_store()
    assert store.revision == 2
    await compact(store, 2)
    await store.close()
    assert rows_in(folder) == []
    store = await open_store()
    assert (store.revision, store.compacted) == (2, 2)
    assert (await store.create("nodes/a", says("x"))).revision == 3


async def test_automatic_compaction_keeps_the_promised_revisions(open_store, folder: Path):
    # Due at 100 + 10 revisions: then everything but the last 100 goes.
    store = await open_store(keep_revisions=100)
    record = await store.create("nodes/a", says("x"))
    for _ in range(108):
        record = await store.update("nodes/a", says("x"), expected=record.revision)
    assert store.compacted == 0
    record = await store.update("nodes/a", says("x"), expected=record.revision)
    assert record.revision == 110
    await compact(store, 0)  # waits for its turn behind the automatic one
    assert store.compacted == 10
    assert [revision for revision, _ in rows_in(folder)] == list(range(10, 111))


async def test_a_store_opened_with_a_smaller_wish_compacts_at_once(open_store, folder: Path):
    store = await open_store()
    record = await store.create("nodes/a", says("x"))
    for _ in range(49):
        record = await store.update("nodes/a", says("x"), expected=record.revision)
    await store.close()
    store = await open_store(keep_revisions=10)
    await compact(store, 0)
    assert store.compacted == 40
    assert store.list("nodes/") == [StoreRecord("nodes/a", 50, b"x@50")]


async def test_compaction_goes_in_steps_and_writes_go_on_between_them(store: Store):
    record = await store.create("nodes/a", says("x"))
    for _ in range(1_200):
        record = await store.update("nodes/a", says("x"), expected=record.revision)
    # 1,201 revisions make three steps of 500; a write queued behind the first is not kept waiting for the last.
    compacting = compact(store, 1_201)
    compacted_at: list[int] = []

    async def write() -> None:
        await store.create("nodes/b", says("x"))
        compacted_at.append(store.compacted)

    await asyncio.gather(compacting, write())
    assert compacted_at[0] < 1_201
    assert store.compacted == 1_201


def test_a_kill_between_two_steps_leaves_a_whole_log(tmp_path: Path):
    path = tmp_path / "log.sqlite3"
    log = StoreLog(path)
    # a: 1 -> 2 (tombstone) -> 5; b: 3 -> 4 -> 6 (tombstone)
    log.append(
        [
            (1, "nodes/a", 0, False, b"a1"),
            (2, "nodes/a", 1, True, b"a2"),
            (3, "nodes/b", 0, False, b"b3"),
            (4, "nodes/b", 3, False, b"b4"),
            (5, "nodes/a", 2, False, b"a5"),
            (6, "nodes/b", 4, True, b"b6"),
        ]
    )
    expected = {
        1: [("nodes/a", 5), ("nodes/b", 6)],
        2: [("nodes/a", 5), ("nodes/b", 6)],
        3: [("nodes/a", 5), ("nodes/b", 6)],
        4: [("nodes/a", 5), ("nodes/b", 6)],
        5: [("nodes/a", 5), ("nodes/b", 6)],
        6: [("nodes/a", 5)],
    }
    for step, heads in expected.items():
        log.compact(step)
        log.close()  # what a kill would leave: nothing is in memory only
        log = StoreLog(path)
        assert (log.compacted, log.revision) == (step, 6)
        loaded = log.load()
        live = [(key, revision) for key, (revision, _) in loaded.records.items()]
        assert sorted(live + list(loaded.tombstones.items())) == heads
        assert loaded.damage == []
    log.close()


async def test_history_goes_that_was_there_when_the_clock_struck_before(open_store):
    store = await open_store()
    record = await store.create("nodes/a", says("x"))
    record = await store.update("nodes/a", says("x"), expected=record.revision)
    store._strike()  # from here on revision 2 grows old
    record = await store.update("nodes/a", says("x"), expected=record.revision)
    await compact(store, 0)
    assert store.compacted == 0
    store._strike()
    await compact(store, 0)  # waits for its turn behind the automatic one
    assert store.compacted == 2
    assert [each.revision for each in await store.list_at("nodes/", 2)] == [2]


async def test_a_store_that_nobody_writes_to_forgets_as_well(open_store, folder: Path):
    store = await open_store(keep_s=0.01)
    record = await store.create("nodes/a", says("x"))
    for _ in range(9):
        record = await store.update("nodes/a", says("x"), expected=record.revision)
    await eventually_async(lambda: store.compacted == 10, "all of history to be old")
    assert rows_in(folder) == [(10, "nodes/a")]


async def test_a_closed_store_does_not_go_on_compacting(open_store):
    store = await open_store(keep_s=0.001)
    await store.create("nodes/a", says("x"))
    await store.close()
    assert store._clock is None
