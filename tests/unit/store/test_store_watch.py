"""Watching: every event after a revision, in order, none missing, none twice, wherever it comes from."""

from __future__ import annotations

import asyncio

import pytest

from tonnage.store.records import EventType, StoreEvent, StoreRecord
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


async def test_a_watch_tells_what_was_and_what_is(store: Store):
    watch = store.watch("nodes/", after=0)
    created = await store.create("nodes/n", says("one"))
    updated = await store.update("nodes/n", says("two"), expected=1)
    deleted = await store.delete("nodes/n", says("bye"), expected=2)
    again = await store.create("nodes/n", says("again"))
    assert await take(watch, 4) == [
        StoreEvent(EventType.PUT_NEW, created, None),
        StoreEvent(EventType.PUT, updated, created),
        StoreEvent(EventType.DELETE, deleted, updated),
        StoreEvent(EventType.PUT_NEW, again, None),
    ]
    watch.close()


async def test_the_log_tells_the_same_story_as_the_live_feed(open_store):
    store = await open_store()
    watch = store.watch("nodes/", after=0)
    waiting = asyncio.create_task(watch.next_batch())
    await turns()
    await creates(store, "nodes/n", "pods/a/1")
    await store.update("nodes/n", says("two"), expected=1)
    await store.delete("nodes/n", says("bye"), expected=3)
    await creates(store, "nodes/n")
    live = [*await waiting, *await take(watch, 3)]
    assert revisions(live) == [1, 3, 4, 5]
    watch.close()
    await store.close()
    from_log = (await open_store()).watch("nodes/", after=0)
    assert await take(from_log, 4) == live
    from_log.close()


async def test_a_watch_sees_its_own_namespace_only(store: Store):
    watch = store.watch("pods/a/", after=0)
    live = asyncio.create_task(take(watch, 2))
    await turns()
    await creates(store, "pods/a/1", "pods/ab/1", "pods/b/1", "nodes/a", "pods/a/2")
    assert revisions(await live) == [1, 5]
    watch.close()


async def test_a_watch_begins_after_its_revision(store: Store):
    await creates(store, "nodes/a", "nodes/b", "nodes/c")
    watch = store.watch("nodes/", after=2)
    assert revisions(await take(watch, 1)) == [3]
    watch.close()


async def test_a_watch_of_the_future_waits_for_it(store: Store):
    watch = store.watch("nodes/", after=2)
    assert watch.revision == 2
    live = asyncio.create_task(watch.next_batch())
    await turns()
    await creates(store, "nodes/a", "nodes/b", "nodes/c")
    assert revisions(await live) == [3]
    watch.close()


@pytest.mark.parametrize("after", range(11))
async def test_log_window_and_live_events_join_without_a_seam(open_store, after: int):
    # Ten events, of which the window holds the last four: a watch from 0..5 reads the log first, one from 6.. does not.
    store = await open_store(window_events=4)
    await creates(store, *(f"nodes/n{i}" for i in range(10)))
    watch = store.watch("nodes/", after=after)
    taking = asyncio.create_task(take(watch, 20 - after))
    await creates(store, *(f"nodes/m{i}" for i in range(10)))
    assert revisions(await taking) == list(range(after + 1, 21))
    watch.close()


async def test_a_window_is_bounded_by_bytes_too(open_store):
    store = await open_store(window_bytes=100)
    for name in "abc":
        await store.create(f"nodes/{name}", lambda revision: bytes(60))  # 60 fits 100, 120 does not
    watch = store.watch("nodes/", after=0)
    assert revisions(await take(watch, 3)) == [1, 2, 3]
    watch.close()


async def test_a_long_history_comes_in_several_batches(open_store):
    store = await open_store(window_events=1)
    await asyncio.gather(*(store.create(f"nodes/n{i}", says("x")) for i in range(2_500)))
    watch = store.watch("nodes/", after=0)
    sizes = [len(await watch.next_batch()) for _ in range(3)]
    assert sizes == [1_000, 1_000, 500]
    watch.close()


async def test_a_history_of_large_documents_comes_in_small_batches(open_store):
    store = await open_store(window_events=1)
    for name in "abcde":
        await store.create(f"configmaps/d/{name}", lambda revision: bytes(3 << 20))
    watch = store.watch("configmaps/", after=0)
    # 3 + 3 + 3 MiB is the first sum that reaches 8 MiB.
    assert [revisions(await watch.next_batch()) for _ in range(2)] == [[1, 2, 3], [4, 5]]
    watch.close()


async def test_a_watch_says_how_far_it_has_come(open_store):
    store = await open_store(window_events=2)
    await creates(store, "nodes/a", "pods/a/1", "pods/a/2", "pods/a/3")
    watch = store.watch("nodes/", after=0)
    assert watch.revision == 0
    assert revisions(await watch.next_batch()) == [1]
    assert watch.revision == 4  # the log was read up to there, and nothing more concerned this watch
    waiting = asyncio.create_task(watch.next_batch())
    await turns()
    await creates(store, "pods/a/4")
    assert watch.revision == 5  # live: what is not for it counts as handed out
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await creates(store, "nodes/b", "pods/a/5")
    assert watch.revision == 5  # an event for it waits to be taken
    assert revisions(await watch.next_batch()) == [6]
    assert watch.revision == 7
    watch.close()


async def test_a_cancelled_wait_loses_nothing(store: Store):
    rival, watch = store.watch("nodes/", after=0), store.watch("nodes/", after=0)

    async def cancel_the_other() -> None:
        await rival.next_batch()  # joined first, so it runs first
        assert waiting.cancel()  # with the event in its hands, but before it could run

    cancelling = asyncio.create_task(cancel_the_other())
    await turns()
    waiting = asyncio.create_task(watch.next_batch())
    await turns()
    await creates(store, "nodes/a", "nodes/b")
    await cancelling
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert revisions(await watch.next_batch()) == [1, 2]
    rival.close()
    watch.close()


async def test_a_cancelled_read_of_the_log_loses_nothing(open_store):
    store = await open_store(window_events=1)
    await creates(store, *(f"nodes/n{i}" for i in range(5)))
    watch = store.watch("nodes/", after=0)
    waiting = asyncio.create_task(watch.next_batch())
    await turns(1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert revisions(await take(watch, 5)) == [1, 2, 3, 4, 5]
    watch.close()


async def test_watchers_share_the_encoded_forms_of_an_event(store: Store):
    first, second = store.watch("nodes/", after=0), store.watch("nodes/", after=0)
    await creates(store, "nodes/a", "nodes/b")
    [a, b], [a_too, _] = await first.next_batch(), await second.next_batch()
    a.frames["json"] = b"{}"
    assert a_too.frames == {"json": b"{}"}
    assert b.frames == {}
    first.close()
    second.close()


async def test_ten_thousand_writes_reach_every_watch_once(open_store):
    store = await open_store(window_events=100)
    live = [store.watch(prefix, after=0) for prefix in ("pods/", "pods/ns-1/", "pods/ns-2/")]
    taking = [asyncio.create_task(take(watch, 10_000 if i == 0 else 2_500)) for i, watch in enumerate(live)]
    names = iter(range(10_000))
    halfway = asyncio.Event()

    async def caller() -> None:
        for i in names:
            if i == 5_000:
                halfway.set()
            await store.create(f"pods/ns-{i % 4}/p{i}", says("x"))

    writing = [asyncio.create_task(caller()) for _ in range(32)]
    await halfway.wait()
    late = store.watch("pods/", after=17)  # far behind the window: the log first, while the writes go on
    behind = await take(late, 9_983)
    await asyncio.gather(*writing)
    assert revisions(behind) == list(range(18, 10_001))
    everything, *parts = await asyncio.gather(*taking)
    assert revisions(everything) == list(range(1, 10_001))
    for namespace, part in zip(("pods/ns-1/", "pods/ns-2/"), parts, strict=True):
        assert part == [event for event in everything if event.record.key.startswith(namespace)]
    for watch in (*live, late):
        watch.close()


async def test_records_and_events_cannot_be_changed(store: Store):
    record = await store.create("nodes/a", says("x"))
    with pytest.raises(AttributeError):
        record.revision = 7  # type: ignore[misc]  # that it cannot be set is the point
    assert record == StoreRecord("nodes/a", 1, b"x@1")
