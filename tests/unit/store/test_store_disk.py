"""A disk that is full or fails: what is refused, what is kept, what goes on."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from support.compaction import compact
from tonnage.store.database import translated
from tonnage.store.errors import KeyExists, StoreCorrupt, StoreFull, StoreIOError, WriteRefused
from tonnage.store.records import StoreRecord
from tonnage.store.reserve import Reserve


def says(text: str):
    return lambda revision: f"{text}@{revision}".encode()


def zeros(kib: int):
    return lambda revision: bytes(kib << 10)


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@contextmanager
def no_file_may_grow_beyond(size: int) -> Iterator[None]:
    """A real I/O error of the kernel: writing beyond the limit gives EFBIG."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_full_disk_refuses_the_write_and_keeps_what_was_there(open_store, folder: Path):
    store = await open_store(max_pages=40)  # 160 KiB
    kept = await store.create("nodes/a", zeros(100))
    watch = store.watch("nodes/", after=1)
    with pytest.raises(StoreFull) as refused:
        await store.create("nodes/b", zeros(100))
    assert str(refused.value) == f"cannot write to {folder / 'log.sqlite3'}: the disk is full; nothing was stored"
    assert refused.value.hint == "make room and retry"
    assert isinstance(refused.value.__cause__, sqlite3.OperationalError)
    assert store.list("nodes/") == [kept]
    assert store.revision == 1
    # A smaller one fits, and is the next thing a watcher hears of. Revision 2 was given to the refused write.
    small = await store.create("nodes/b", says("small"))
    assert small == StoreRecord("nodes/b", 3, b"small@3")
    assert [event.record for event in await watch.next_batch()] == [small]
    watch.close()
    await store.close()
    assert (await open_store()).list("nodes/") == [kept, small]


async def test_a_full_disk_refuses_the_whole_batch(open_store, hold_commits):
    store = await open_store(max_pages=40)
    await store.create("nodes/first", zeros(100))
    with hold_commits():
        first = asyncio.create_task(store.create("nodes/opens-a-batch", says("x")))
        await turns()
        batch = [asyncio.create_task(store.create(f"nodes/n{i}", zeros(10))) for i in range(100)]
        await turns()
    await asyncio.gather(first, return_exceptions=True)  # alone in its batch, or together with the others
    outcomes = await asyncio.gather(*batch, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {StoreFull}
    assert len({id(outcome) for outcome in outcomes}) == 100  # an exception has one traceback: one for each caller
    assert not any(record.key.startswith("nodes/n") for record in store.list("nodes/"))


async def test_history_gives_way_to_writes_when_the_disk_is_full(open_store):
    store = await open_store(max_pages=60)  # 240 KiB: eleven states of 20 KiB, and no more
    record = await store.create("nodes/a", zeros(20))
    for _ in range(40):
        record = await store.update("nodes/a", zeros(20), expected=record.revision)
    assert store.list("nodes/") == [record]
    assert store.compacted > 0
    assert store.health.problem is None


async def test_a_file_that_may_not_grow_takes_every_deletion_and_updates_that_do_not_grow(open_store):
    store = await open_store(max_pages=600)  # 2.4 MB: 25 states of 90 KiB
    records = []
    with pytest.raises(StoreFull):
        for number in range(60):
            records.append(await store.create(f"nodes/{number}", zeros(90)))
    assert len(records) > 20
    lease = records.pop()
    for _ in range(30):
        lease = await store.update(lease.key, zeros(90), expected=lease.revision)
    with pytest.raises(StoreFull):
        await store.update(lease.key, zeros(200), expected=lease.revision)
    assert isinstance(store.health.problem, StoreFull)
    watch = store.watch("nodes/", after=store.revision)
    gone = await asyncio.gather(*(store.delete(each.key, zeros(90), expected=each.revision) for each in records))
    assert store.list("nodes/") == [lease]
    assert [event.record for event in await watch.next_batch()] == gone
    watch.close()
    await store.close()
    again = await open_store(max_pages=600)
    assert again.list("nodes/") == [lease]
    assert again.health.damage == []
    assert (await again.create("nodes/after", zeros(90))).revision > gone[-1].revision


@pytest.mark.parametrize("missing", [1, 4096, 28 << 10, 64 << 10, 1 << 20])
def test_a_reserve_that_misses_a_little_is_made_whole(folder: Path, missing: int):
    folder.mkdir(exist_ok=True)
    reserve = Reserve(folder, 1 << 20)
    assert reserve.take()
    os.truncate(reserve.path, (1 << 20) - missing)  # lent, or taken when there was no room for more
    assert not reserve.is_whole
    assert reserve.take()
    assert reserve.size == 1 << 20


def test_a_quota_that_is_used_up_is_a_full_disk(folder: Path, monkeypatch: pytest.MonkeyPatch):
    folder.mkdir()
    refused = sqlite3.OperationalError("disk I/O error")
    refused.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
    assert isinstance(translated(refused, folder / "log.sqlite3"), StoreIOError)

    def write(fd: int, content: bytes) -> int:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "write", write)
    assert isinstance(translated(refused, folder / "log.sqlite3"), StoreFull)


async def test_whoever_waits_behind_a_failed_write_is_judged_by_what_is_really_there(open_store, hold_commits):
    store = await open_store(max_pages=40)
    await store.create("nodes/a", zeros(100))
    with hold_commits():
        failing = asyncio.create_task(store.create("nodes/b", zeros(100)))
        waiting = asyncio.create_task(store.create("nodes/b", says("small")))
        await turns()
    with pytest.raises(StoreFull):
        await failing
    assert (await waiting).document == b"small@3"


async def test_an_io_error_is_never_followed_by_an_acknowledgement(open_store, folder: Path):
    store = await open_store(probe_every_s=3600)
    kept = await store.create("nodes/a", says("x"))
    path = folder / "log.sqlite3"
    with no_file_may_grow_beyond((folder / "log.sqlite3-wal").stat().st_size), pytest.raises(StoreIOError) as failed:
        await store.create("nodes/b", says("x"))
    assert str(failed.value) == f"reading or writing {path} failed: disk I/O error (SQLITE_IOERR_WRITE)"
    assert failed.value.hint == "check the disk; writing goes on once it can, and acknowledged writes are kept"
    # The disk is well again, but nobody knows where the file ends until it was read anew.
    with pytest.raises(StoreIOError, match=r"SQLITE_IOERR_WRITE"):
        await store.update("nodes/a", says("x"), expected=1)
    with pytest.raises(StoreIOError, match=r"SQLITE_IOERR_WRITE"):
        await compact(store, 1)
    assert store.list("nodes/") == [kept]
    await store.close()
    again = await open_store()
    assert again.get("nodes/a") == kept
    assert (await again.update("nodes/a", says("x"), expected=1)).revision > 1


async def test_the_unique_index_is_the_last_judge_and_refuses_one_write_of_the_batch(
    open_store, folder: Path, hold_commits
):
    store = await open_store()
    await store.create("nodes/a", says("x"))
    # Somebody else writes a successor of revision 1 behind our back, with a revision we are far from.
    with closing(sqlite3.connect(folder / "log.sqlite3")) as other, other:
        other.execute("INSERT INTO log VALUES (1000, 'nodes/a', 1, 1, 0, 0, x'00')")
    with hold_commits():
        before = asyncio.create_task(store.create("nodes/b", says("x")))
        judged = asyncio.create_task(store.update("nodes/a", says("x"), expected=1))
        after = asyncio.create_task(store.create("nodes/c", says("x")))
        await turns()
    assert [(await before).revision, (await after).revision] == [2, 4]
    with pytest.raises(WriteRefused) as refused:
        await judged
    assert (refused.value.key, refused.value.revision) == ("nodes/a", 3)
    assert str(refused.value) == (
        f'{folder / "log.sqlite3"} refused revision 3 of "nodes/a" (UNIQUE constraint failed: log.key, log.previous): '
        f"the file is not as this process left it"
    )
    assert store.get("nodes/a") == StoreRecord("nodes/a", 1, b"x@1")
    with pytest.raises(KeyExists):
        await store.create("nodes/a", says("x"))


async def test_a_page_that_went_bad_is_reported_to_the_reader_who_meets_it(open_store, folder: Path):
    store = await open_store(window_events=1)
    for i in range(50):
        await store.create(f"nodes/n{i}", zeros(2))
    await store.close()
    store = await open_store()
    path = folder / "log.sqlite3"
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096 * 5)
        file.write(b"\xa5" * (size - 4096 * 5))
    watch = store.watch("nodes/", after=0)
    with pytest.raises(StoreCorrupt) as reported:
        while True:
            await watch.next_batch()
    assert str(reported.value) == f"cannot read {path}: database disk image is malformed (SQLITE_CORRUPT)"
    assert store.count("nodes/") == 50
    watch.close()
