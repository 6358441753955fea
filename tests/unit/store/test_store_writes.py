"""Writing: who may, what it returns, and when it becomes visible."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tonnage.store.errors import KeyExists, KeyMissing, StaleRevision, StoreClosed
from tonnage.store.records import EventType, StoreRecord
from tonnage.store.store import Store


def says(text: str):
    """A document that carries its own revision, as Kubernetes objects do."""
    return lambda revision: f"{text}@{revision}".encode()


async def turns(count: int = 20) -> None:
    """Let everything that can run on the loop run."""
    for _ in range(count):
        await asyncio.sleep(0)


def commits_in(wal: Path) -> int:
    """Transactions in a write-ahead log: after 32 bytes of header, frames of 24 + 4096; only a commit names a size."""
    content = wal.read_bytes()[32:]
    return sum(content[at + 4 : at + 8] != b"\0\0\0\0" for at in range(0, len(content), 24 + 4096))


async def test_a_created_key_is_returned_and_visible_with_its_revision_in_it(store: Store):
    record = await store.create("pods/default/web-0", says("web"))
    assert record == StoreRecord("pods/default/web-0", 1, b"web@1", None)
    assert store.get("pods/default/web-0") == record
    assert store.revision == 1


async def test_revisions_count_the_writes_of_all_keys(store: Store):
    first = await store.create("pods/default/a", says("a"))
    second = await store.create("nodes/n", says("n"))
    third = await store.update("pods/default/a", says("a"), expected=first.revision)
    fourth = await store.delete("nodes/n", says("bye"), expected=second.revision)
    assert [first.revision, second.revision, third.revision, fourth.revision] == [1, 2, 3, 4]
    assert store.revision == 4


async def test_a_second_create_is_refused_with_what_is_there(store: Store):
    there = await store.create("nodes/n", says("first"))
    with pytest.raises(KeyExists) as refused:
        await store.create("nodes/n", says("second"))
    assert refused.value.existing == there
    assert str(refused.value) == 'cannot create "nodes/n": it exists since revision 1; update it instead'


async def test_an_update_of_a_stale_revision_is_refused_with_the_current_one(store: Store):
    await store.create("nodes/n", says("one"))
    current = await store.update("nodes/n", says("two"), expected=1)
    with pytest.raises(StaleRevision) as refused:
        await store.update("nodes/n", says("three"), expected=1)
    assert refused.value.current == current
    assert refused.value.expected == 1
    assert str(refused.value) == (
        'cannot update "nodes/n" at revision 1: it is at revision 2 by now; read it again and retry'
    )
    assert store.get("nodes/n") == current


async def test_a_delete_of_a_stale_revision_is_refused(store: Store):
    await store.create("nodes/n", says("one"))
    await store.update("nodes/n", says("two"), expected=1)
    with pytest.raises(StaleRevision, match=r'^cannot delete "nodes/n" at revision 1: it is at revision 2 by now'):
        await store.delete("nodes/n", says("bye"), expected=1)


@pytest.mark.parametrize("verb", ["update", "delete"])
async def test_what_is_not_there_can_be_neither_updated_nor_deleted(store: Store, verb: str):
    with pytest.raises(KeyMissing) as refused:
        await getattr(store, verb)("nodes/n", says("x"), expected=7)
    assert refused.value.key == "nodes/n"
    assert str(refused.value) == f'cannot {verb} "nodes/n": there is no such key; create it first'


async def test_a_delete_returns_the_final_state_and_frees_the_key(store: Store):
    await store.create("nodes/n", says("one"))
    final = await store.delete("nodes/n", says("bye"), expected=1)
    assert final == StoreRecord("nodes/n", 2, b"bye@2", None)
    assert store.get("nodes/n") is None
    assert (await store.create("nodes/n", says("again"))).revision == 3


async def test_a_refused_write_is_not_rendered(store: Store):
    await store.create("nodes/n", says("one"))
    asked: list[int] = []

    def render(revision: int) -> bytes:
        asked.append(revision)
        return b""

    with pytest.raises(KeyExists):
        await store.create("nodes/n", render)
    assert asked == []


async def test_a_render_that_fails_costs_nothing(store: Store):
    def broken(revision: int) -> bytes:
        raise RuntimeError(f"no document for {revision}")

    with pytest.raises(RuntimeError, match=r"^no document for 1$"):
        await store.create("nodes/n", broken)
    assert (await store.create("nodes/n", says("one"))).revision == 1


async def test_an_index_that_fails_refuses_the_write_before_it_is_stored(open_store, folder: Path):
    def index(key: str, document: bytes) -> str:
        return document.decode("ascii")

    store = await open_store(index=index)
    with pytest.raises(UnicodeDecodeError):
        await store.create("nodes/n", lambda revision: b"\xff")
    assert (await store.create("nodes/n", says("one"))).attributes == "one@1"
    await store.close()
    again = await open_store(index=index)
    assert [record.attributes for record in again.list("nodes/")] == ["one@1"]


async def test_a_key_must_name_a_resource_and_an_object(store: Store):
    with pytest.raises(ValueError, match=r'^the key "web-0" must name a resource and an object, as in "nodes/node-1"$'):
        await store.create("web-0", says("x"))


async def test_a_key_that_is_no_text_is_refused_and_the_store_goes_on(store: Store):
    with pytest.raises(UnicodeEncodeError):
        await store.create("nodes/\ud800", says("x"))
    assert (await store.create("nodes/n", says("x"))).revision == 1


async def test_nothing_is_visible_before_it_is_durable(store: Store, hold_commits):
    watch = store.watch("nodes/", after=0)
    seen = asyncio.create_task(watch.next_batch())
    with hold_commits():
        writing = asyncio.create_task(store.create("nodes/n", says("one")))
        await turns()
        assert store.get("nodes/n") is None
        assert store.count("nodes/") == 0
        assert store.revision == 0
        assert not seen.done()
        assert not writing.done()
    record = await writing
    assert [(event.type, event.record) for event in await seen] == [(EventType.PUT_NEW, record)]
    watch.close()


async def test_what_is_queued_during_one_commit_shares_the_next(store: Store, folder: Path, hold_commits):
    before = commits_in(folder / "log.sqlite3-wal")
    with hold_commits():
        writing = [asyncio.create_task(store.create(f"nodes/n{i}", says("x"))) for i in range(100)]
        await turns()
    records = await asyncio.gather(*writing)
    # The writer took at least one write before it had to wait, and found the others together afterwards.
    assert commits_in(folder / "log.sqlite3-wal") - before <= 2
    assert [record.revision for record in records] == list(range(1, 101))


async def test_of_two_creates_at_once_one_succeeds(store: Store, hold_commits):
    with hold_commits():
        first = asyncio.create_task(store.create("nodes/n", says("first")))
        second = asyncio.create_task(store.create("nodes/n", says("second")))
        await turns()
    assert (await first).document == b"first@1"
    with pytest.raises(KeyExists) as refused:
        await second
    assert refused.value.existing.document == b"first@1"


async def test_of_many_updates_at_once_one_succeeds(store: Store):
    await store.create("nodes/n", says("zero"))
    tries = [store.update("nodes/n", says(f"try {i}"), expected=1) for i in range(50)]
    outcomes = await asyncio.gather(*tries, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StoreRecord] + [StaleRevision] * 49
    assert store.get("nodes/n") == outcomes[0]


async def test_a_create_right_behind_a_delete_waits_for_it_and_succeeds(store: Store, hold_commits):
    await store.create("nodes/n", says("old"))
    with hold_commits():
        deleting = asyncio.create_task(store.delete("nodes/n", says("bye"), expected=1))
        creating = asyncio.create_task(store.create("nodes/n", says("new")))
        await turns()
    assert [(await deleting).revision, (await creating).revision] == [2, 3]


async def test_a_cancelled_caller_does_not_undo_the_write(store: Store, hold_commits):
    watch = store.watch("nodes/", after=0)
    with hold_commits():
        writing = asyncio.create_task(store.create("nodes/n", says("one")))
        await turns()
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
    assert [event.record.document for event in await watch.next_batch()] == [b"one@1"]
    watch.close()
    with pytest.raises(KeyExists):
        await store.create("nodes/n", says("two"))


async def test_a_caller_cancelled_in_the_queue_of_a_key_leaves_the_others_in_it(store: Store, hold_commits):
    with hold_commits():
        first = asyncio.create_task(store.create("nodes/n", says("first")))
        gone = asyncio.create_task(store.update("nodes/n", says("gone"), expected=1))
        third = asyncio.create_task(store.update("nodes/n", says("third"), expected=1))
        await turns()
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
    assert (await first).document == b"first@1"
    assert (await third).document == b"third@2"


async def test_closing_finishes_the_writes_under_way_and_refuses_later_ones(open_store, folder: Path, hold_commits):
    store = await open_store()
    with hold_commits():
        writing = [asyncio.create_task(store.create(f"nodes/n{i}", says("x"))) for i in range(3)]
        behind = asyncio.create_task(store.create("nodes/n0", says("behind")))
        await turns()
        closing = [asyncio.create_task(store.close()) for _ in range(2)]
        await turns()
        with pytest.raises(StoreClosed) as refused:
            await store.create("nodes/late", says("x"))
    assert str(refused.value) == f"the store in {folder} is closed; open it again"
    assert [record.revision for record in await asyncio.gather(*writing)] == [1, 2, 3]
    with pytest.raises(StoreClosed):  # it waited for its turn, and by then the door was shut
        await behind
    await asyncio.gather(*closing)
    assert [record.key for record in store.list("nodes/")] == ["nodes/n0", "nodes/n1", "nodes/n2"]
    assert (await open_store()).list("nodes/") == store.list("nodes/")
