"""Reading: the newest state from memory, any kept state from the log."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.compaction import compact
from tonnage.store.errors import RevisionCompacted, RevisionInFuture
from tonnage.store.records import StoreRecord
from tonnage.store.store import Store


def says(text: str):
    return lambda revision: f"{text}@{revision}".encode()


async def fill(store: Store, *keys: str) -> None:
    for key in keys:
        await store.create(key, says("x"))


def keys(records: list[StoreRecord]) -> list[str]:
    return [record.key for record in records]


async def test_a_list_is_in_the_order_of_the_keys_whatever_the_order_of_the_writes(store: Store):
    await fill(store, "pods/b/2", "pods/a/9", "pods/b/10", "pods/a/1")
    assert keys(store.list("pods/")) == ["pods/a/1", "pods/a/9", "pods/b/10", "pods/b/2"]


async def test_a_namespace_is_listed_without_its_neighbours(store: Store):
    await fill(store, "pods/a/1", "pods/a-b/1", "pods/a0/1", "pods/b/1", "nodes/a")
    assert keys(store.list("pods/a/")) == ["pods/a/1"]
    assert store.count("pods/a/") == 1
    assert store.count("pods/") == 4


async def test_a_resource_whose_name_begins_like_another_is_not_part_of_it(store: Store):
    await fill(store, "pods/a/1", "pods-x/a/1", "pods.example/a/1", "pods0/a/1")
    assert keys(store.list("pods/")) == ["pods/a/1"]
    assert keys(await store.list_at("pods/", 3)) == ["pods/a/1"]


async def test_nothing_is_an_empty_list(store: Store):
    assert store.list("pods/") == []
    assert store.count("pods/") == 0
    assert store.get("pods/a/1") is None


@pytest.mark.parametrize("prefix", ["", "pods", "pods/a"])
async def test_a_prefix_ends_in_a_slash(store: Store, prefix: str):
    for ask in (store.list, store.count, lambda prefix: store.watch(prefix, after=0)):
        with pytest.raises(ValueError, match=f'^the prefix "{prefix}" must end in "/"$'):
            ask(prefix)


async def test_attributes_are_computed_once_for_each_write_and_once_more_when_loaded(open_store):
    asked: list[bytes] = []

    def index(key: str, document: bytes) -> int:
        asked.append(document)
        return len(document)

    store = await open_store(index=index)
    await fill(store, "nodes/a")
    await store.update("nodes/a", says("longer"), expected=1)
    assert [record.attributes for record in store.list("nodes/")] == [8]  # "longer@2"
    assert asked == [b"x@1", b"longer@2"]
    await store.close()
    again = await open_store(index=index)
    assert [record.attributes for record in again.list("nodes/")] == [8]
    assert asked == [b"x@1", b"longer@2", b"longer@2"]  # history is not indexed until somebody reads it


async def test_a_state_of_the_past_shows_what_was_changed_and_deleted_since(store: Store):
    await fill(store, "nodes/a", "nodes/b")  # 1, 2
    await store.update("nodes/a", says("new"), expected=1)  # 3
    await store.delete("nodes/b", says("bye"), expected=2)  # 4
    await fill(store, "nodes/c")  # 5
    assert await store.list_at("nodes/", 0) == []
    assert keys(await store.list_at("nodes/", 1)) == ["nodes/a"]
    assert await store.list_at("nodes/", 2) == [StoreRecord("nodes/a", 1, b"x@1"), StoreRecord("nodes/b", 2, b"x@2")]
    assert await store.list_at("nodes/", 3) == [StoreRecord("nodes/a", 3, b"new@3"), StoreRecord("nodes/b", 2, b"x@2")]
    assert await store.list_at("nodes/", 4) == [StoreRecord("nodes/a", 3, b"new@3")]
    assert keys(await store.list_at("nodes/", 5)) == ["nodes/a", "nodes/c"]


async def test_pages_of_the_past_and_of_the_present_agree(store: Store):
    await fill(store, "pods/a/1", "pods/a/2", "pods/b/1", "pods/b/2", "pods/c/1")  # 1..5
    present = await store.list_at("pods/", 5, after_key="pods/a/2", limit=2)
    await store.delete("pods/b/1", says("bye"), expected=3)
    past = await store.list_at("pods/", 5, after_key="pods/a/2", limit=2)
    assert keys(past) == ["pods/b/1", "pods/b/2"]
    assert past == present
    assert keys(await store.list_at("pods/", 5, after_key="pods/b/2", limit=2)) == ["pods/c/1"]
    assert keys(await store.list_at("pods/b/", 5, limit=1)) == ["pods/b/1"]
    assert await store.list_at("pods/a/", 5, after_key="pods/b/1") == []


async def test_a_page_is_not_shortened_by_tombstones(store: Store):
    await fill(store, "nodes/a", "nodes/b", "nodes/c", "nodes/d")
    await store.delete("nodes/a", says("bye"), expected=1)
    await store.delete("nodes/b", says("bye"), expected=2)  # 6
    await fill(store, "nodes/e")
    assert keys(await store.list_at("nodes/", 6, limit=2)) == ["nodes/c", "nodes/d"]


async def test_the_future_cannot_be_listed(store: Store):
    await fill(store, "nodes/a")
    with pytest.raises(RevisionInFuture) as refused:
        await store.list_at("nodes/", 2)
    assert (refused.value.revision, refused.value.newest) == (2, 1)
    assert str(refused.value) == "revision 2 has not happened yet: the newest is 1; ask for that, or wait"


async def test_a_compacted_state_cannot_be_listed(store: Store):
    await fill(store, "nodes/a", "nodes/b", "nodes/c")
    await compact(store, 2)
    with pytest.raises(RevisionCompacted) as refused:
        await store.list_at("nodes/", 1)
    assert (refused.value.revision, refused.value.compacted) == (1, 2)
    assert str(refused.value) == (
        "revision 1 is gone: history up to revision 2 was compacted; list again and go on from there"
    )
    assert keys(await store.list_at("nodes/", 2)) == ["nodes/a", "nodes/b"]


async def test_everything_is_there_after_a_restart(open_store, folder: Path):
    store = await open_store()
    await fill(store, "nodes/b", "pods/a/1", "nodes/a")
    await store.update("nodes/b", says("new"), expected=1)
    await store.delete("pods/a/1", says("bye"), expected=2)  # 5
    await store.close()
    again = await open_store()
    assert again.revision == 5
    assert again.list("nodes/") == [StoreRecord("nodes/a", 3, b"x@3"), StoreRecord("nodes/b", 4, b"new@4")]
    assert again.list("pods/") == []
    assert keys(await again.list_at("pods/", 4)) == ["pods/a/1"]
    assert (await again.create("pods/a/1", says("again"))).revision == 6
