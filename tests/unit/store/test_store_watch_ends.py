"""How a watch ends: a consumer too slow, a history compacted away, a store or a watch that is closed."""

from __future__ import annotations

import asyncio

import pytest

from support.compaction import compact
from tonnage.store.errors import RevisionCompacted, StoreClosed, WatchClosed, WatchOverrun
from tonnage.store.records import EventType, StoreEvent
from tonnage.store.store import Store
from tonnage.store.watch import Watch


def says(text: str):
    return lambda revision: f"{text}@{revision}".encode()


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def creates(store: Store, *keys: str) -> None:
    for key in keys:
        await store.create(key, says("x"))


async def take(watch: Watch, count: int) -> list[StoreEvent]:
    """The next `count` events, however they are batched."""
    events: list[StoreEvent] = []
    while len(events) < count:
        events += await watch.next_batch()
    return events


def revisions(events: list[StoreEvent]) -> list[int]:
    return [event.revision for event in events]


async def test_a_consumer_that_lags_too_far_is_told_where_it_stopped(open_store):
    store = await open_store(max_lag_events=3)
    watch = store.watch("nodes/", after=0)
    live = asyncio.create_task(watch.next_batch())
    await turns()
    await creates(store, "nodes/a")
    assert revisions(await live) == [1]
    await creates(store, "nodes/b", "nodes/c", "nodes/d", "nodes/e")  # four wait, three may
    with pytest.raises(WatchOverrun) as overrun:
        await watch.next_batch()
    assert (overrun.value.prefix, overrun.value.revision, overrun.value.max_lag) == ("nodes/", 1, "3 events")
    assert str(overrun.value) == (
        'the watch of "nodes/" fell more than 3 events behind; watch again after revision 1, and read faster'
    )
    assert watch.revision == 1
    again = store.watch("nodes/", after=overrun.value.revision)
    assert revisions(await take(again, 4)) == [2, 3, 4, 5]
    again.close()


async def test_a_lag_up_to_the_bound_is_forgiven(open_store):
    store = await open_store(max_lag_events=3)
    watch = store.watch("nodes/", after=0)
    live = asyncio.create_task(watch.next_batch())
    await turns()
    await creates(store, "nodes/a")
    await live
    await creates(store, "nodes/b", "nodes/c", "nodes/d")
    assert revisions(await watch.next_batch()) == [2, 3, 4]
    watch.close()


async def test_the_past_is_no_lag(open_store):
    store = await open_store(max_lag_events=3)
    await creates(store, *(f"nodes/n{i}" for i in range(10)))
    watch = store.watch("nodes/", after=0)
    assert revisions(await take(watch, 10)) == list(range(1, 11))
    watch.close()


async def test_a_compacted_revision_cannot_be_watched(store: Store):
    await creates(store, "nodes/a", "nodes/b", "nodes/c")
    await compact(store, 2)
    with pytest.raises(RevisionCompacted, match=r"^revision 1 is gone: history up to revision 2 was compacted;"):
        store.watch("nodes/", after=1)
    watch = store.watch("nodes/", after=2)
    assert revisions(await take(watch, 1)) == [3]
    watch.close()


async def test_compaction_may_overtake_a_watch_that_still_reads_the_log(open_store):
    store = await open_store(window_events=1)
    await creates(store, "nodes/a", "nodes/b", "nodes/c")
    watch = store.watch("nodes/", after=0)
    await compact(store, 2)
    with pytest.raises(RevisionCompacted) as gone:
        await watch.next_batch()
    assert (gone.value.revision, gone.value.compacted) == (0, 2)
    watch.close()


async def test_compaction_does_not_touch_a_watch_that_is_live(store: Store):
    watch = store.watch("nodes/", after=0)
    waiting = asyncio.create_task(watch.next_batch())
    await turns()
    await creates(store, "nodes/a")
    await waiting
    await creates(store, "nodes/b")
    await compact(store, 2)
    assert revisions(await watch.next_batch()) == [2]
    watch.close()


async def test_the_state_before_the_first_kept_event_is_kept_for_it(open_store):
    store = await open_store(window_events=1)
    old = await store.create("nodes/n", says("old"))
    await creates(store, "nodes/x")
    new = await store.update("nodes/n", says("new"), expected=1)
    await creates(store, "nodes/y")
    await compact(store, 2)
    watch = store.watch("nodes/", after=2)
    assert (await take(watch, 2))[0] == StoreEvent(EventType.PUT, new, old)
    watch.close()


async def test_a_store_that_closes_hands_out_what_is_left_and_ends_the_watch(open_store, folder):
    store = await open_store()
    watch = store.watch("nodes/", after=0)
    waiting = asyncio.create_task(watch.next_batch())
    await turns()
    await creates(store, "nodes/a")
    await waiting
    await creates(store, "nodes/b")
    await store.close()
    assert revisions(await watch.next_batch()) == [2]
    for _ in range(2):
        with pytest.raises(StoreClosed, match=f"^the store in {folder} is closed; open it again$"):
            await watch.next_batch()


async def test_a_waiting_consumer_is_woken_when_the_store_closes(open_store):
    store = await open_store()
    waiting = asyncio.create_task(store.watch("nodes/", after=0).next_batch())
    await turns()
    await store.close()
    with pytest.raises(StoreClosed):
        await waiting


async def test_a_watch_that_never_began_ends_with_the_store_too(open_store):
    store = await open_store()
    watch = store.watch("nodes/", after=0)
    await store.close()
    with pytest.raises(StoreClosed):
        await watch.next_batch()
    with pytest.raises(StoreClosed):
        store.watch("nodes/", after=0)


async def test_a_closed_watch_wakes_its_consumer_and_gets_no_more(store: Store):
    watch = store.watch("nodes/", after=0)
    waiting = asyncio.create_task(watch.next_batch())
    await turns()
    watch.close()
    watch.close()
    with pytest.raises(WatchClosed, match=r'^the watch of "nodes/" was closed; open another$'):
        await waiting
    await creates(store, "nodes/a")
    with pytest.raises(WatchClosed):
        await watch.next_batch()


async def test_a_consumer_may_lag_by_so_many_bytes_too(open_store):
    store = await open_store(max_lag_bytes=1 << 20)
    watch = store.watch("nodes/", after=0)
    live = asyncio.create_task(watch.next_batch())
    await turns()
    await creates(store, "nodes/a")
    assert revisions(await live) == [1]
    for key in ("nodes/b", "nodes/c", "nodes/d"):
        await store.create(key, lambda revision: b"x" * 400_000)  # 1.2 MB wait, 1 MiB may
    with pytest.raises(WatchOverrun) as overrun:
        await watch.next_batch()
    assert (overrun.value.revision, overrun.value.max_lag) == (1, "1 MiB of events")


async def test_one_document_beyond_the_limit_is_still_handed_out(open_store):
    store = await open_store(max_lag_bytes=1000)
    watch = store.watch("nodes/", after=0)
    live = asyncio.create_task(watch.next_batch())
    await turns()
    await store.create("nodes/a", lambda revision: b"x" * 400_000)
    assert revisions(await live) == [1]


async def test_a_batch_is_handed_out_in_pieces_of_a_few_megabytes(open_store):
    store = await open_store()
    watch = store.watch("nodes/", after=0)
    live = asyncio.create_task(watch.next_batch())
    await turns()
    await creates(store, "nodes/a")
    await live
    for number in range(5):
        await store.create(f"nodes/b{number}", lambda revision: b"x" * 900_000)
    assert revisions(await watch.next_batch()) == [2, 3, 4]  # 2.7 MB are more than 2 MiB
    assert watch.revision == 4
    assert revisions(await watch.next_batch()) == [5, 6]
