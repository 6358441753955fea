"""Health: what failed is told at once, and is over when the disk takes writes again, without anybody's write."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from support.eventually import eventually_async
from tonnage.store.errors import StoreCorrupt, StoreFull, StoreInUse, StoreIOError, StoreStalled
from tonnage.store.health import LIVENESS_PATIENCE_S, PROOF_VALID_S, STALLED_AFTER_S, StoreHealth
from tonnage.store.log import StoreLog
from tonnage.store.records import EventType, StoreRecord
from tonnage.store.store import Store


def says(text: str):
    return lambda revision: f"{text}@{revision}".encode()


@contextmanager
def no_file_may_grow_beyond(size: int) -> Iterator[None]:
    """A real I/O error of the kernel: writing beyond the limit gives EFBIG."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_writes_go_on_by_themselves_once_the_disk_takes_them_again(open_store, folder: Path):
    store = await open_store(probe_every_s=0.01)
    kept = await store.create("nodes/a", says("a"))
    watch = store.watch("nodes/", after=1)
    with no_file_may_grow_beyond((folder / "log.sqlite3-wal").stat().st_size):
        with pytest.raises(StoreIOError):
            await store.create("nodes/b", says("b"))
        trouble = await store.find_trouble()
        assert isinstance(trouble, StoreIOError)
        assert store.is_for_restart(trouble)
        assert store.health.errors["io"] >= 1
    await eventually_async(lambda: store.health.problem is None, "the probe to succeed")
    assert await store.find_trouble() is None
    assert store.get("nodes/a") == kept
    again = await store.create("nodes/b", says("b"))
    assert [event.record for event in await watch.next_batch()] == [again]
    watch.close()
    await store.close()
    store = await open_store()
    assert (store.list("nodes/"), store.health.damage) == ([kept, again], [])


async def test_what_a_failed_commit_left_behind_is_found_and_told(open_store, monkeypatch: pytest.MonkeyPatch):
    # A sync that fails after the pages were written: the caller is told that it failed, but the file has the row.
    store: Store = await open_store(probe_every_s=0.01)
    await store.create("nodes/a", says("a"))
    watch = store.watch("nodes/", after=1)
    append = StoreLog.append

    def append_and_fail(log: StoreLog, rows):
        append(log, rows)
        log._last_row = log._acknowledged = 1  # it never came to know
        monkeypatch.setattr(StoreLog, "append", append)
        raise StoreIOError(log.path, "disk I/O error (SQLITE_IOERR_FSYNC)")

    monkeypatch.setattr(StoreLog, "append", append_and_fail)
    with pytest.raises(StoreIOError, match="FSYNC"):
        await store.create("nodes/b", says("b"))
    assert store.get("nodes/b") is None
    await eventually_async(lambda: store.health.problem is None, "the file to be read anew")
    assert store.get("nodes/b") == StoreRecord("nodes/b", 2, b"b@2")
    assert [(event.type, event.revision) for event in await watch.next_batch()] == [(EventType.PUT_NEW, 2)]
    watch.close()
    assert (await store.update("nodes/b", says("b"), expected=2)).revision == 3
    await store.close()
    assert (await open_store()).health.damage == []


async def test_a_file_that_lost_an_acknowledged_write_is_not_gone_on_with(open_store, folder: Path):
    store = await open_store(probe_every_s=3600.0)  # not before the write is lost
    await store.create("nodes/a", says("a"))
    with no_file_may_grow_beyond((folder / "log.sqlite3-wal").stat().st_size), pytest.raises(StoreIOError):
        await store.create("nodes/b", says("b"))
    with closing(sqlite3.connect(folder / "log.sqlite3")) as other, other:
        other.execute("DELETE FROM log")
    store._writer.probe()
    trouble = await eventually_async(
        lambda: store.health.problem if store.health.errors["corrupt"] else None, "the loss to be noticed"
    )
    assert "revision 1, which was acknowledged, is not there" in str(trouble)


async def test_a_damaged_file_stays_unhealthy_until_it_is_mended(open_store, monkeypatch: pytest.MonkeyPatch):
    store: Store = await open_store(probe_every_s=0.01)
    append = StoreLog.append

    def meets_a_bad_page(log: StoreLog, rows):
        raise StoreCorrupt(log.path, "database disk image is malformed (SQLITE_CORRUPT)")

    def still_there(log: StoreLog) -> None:
        raise StoreCorrupt(log.path, "Page 7: btreeInitPage() returns error code 11")

    monkeypatch.setattr("tonnage.store.writer._VERIFY_EVERY_S", 0.01)
    verify = StoreLog.verify
    monkeypatch.setattr(StoreLog, "append", meets_a_bad_page)
    monkeypatch.setattr(StoreLog, "verify", still_there)
    with pytest.raises(StoreCorrupt):
        await store.create("nodes/a", says("a"))
    monkeypatch.setattr(StoreLog, "append", append)
    # A write would not meet the page now, and is refused all the same.
    await eventually_async(lambda: store.health.errors["corrupt"] >= 3, "some probes")
    with pytest.raises(StoreCorrupt):
        await store.create("nodes/a", says("a"))
    trouble = await store.find_trouble()
    assert trouble is not None and store.is_for_restart(trouble)
    monkeypatch.setattr(StoreLog, "verify", verify)
    await eventually_async(lambda: store.health.problem is None, "the file to be found whole")
    assert (await store.create("nodes/a", says("a"))).revision > 0


async def test_an_idle_store_is_tried_when_somebody_asks(open_store, folder: Path, monkeypatch: pytest.MonkeyPatch):
    store: Store = await open_store(probe_every_s=3600)
    assert await store.find_trouble() is None
    store.health.proven_at -= PROOF_VALID_S + 1
    probe = StoreLog.probe
    monkeypatch.setattr(StoreLog, "probe", lambda log: (_ for _ in ()).throw(StoreFull(log.path)))
    assert isinstance(await store.find_trouble(), StoreFull)
    monkeypatch.setattr(StoreLog, "probe", probe)
    store.health.proven_at -= PROOF_VALID_S + 1
    assert await store.find_trouble() is None


async def test_a_locked_file_is_told_and_passes(open_store, hold_commits):
    store: Store = await open_store(probe_every_s=0.01)
    store._writer.log._connection.execute("PRAGMA busy_timeout = 0")
    with hold_commits():
        with pytest.raises(StoreInUse):
            await store.create("nodes/a", says("a"))
        trouble = await store.find_trouble()
        assert isinstance(trouble, StoreInUse)
        assert not store.is_for_restart(trouble)
    await eventually_async(lambda: store.health.problem is None, "the lock to be gone")


async def test_a_writing_thread_that_died_is_told_and_nobody_waits(folder: Path, monkeypatch: pytest.MonkeyPatch):
    store = await Store.open(folder)
    monkeypatch.setattr(store._writer, "_commit", lambda writes: 1 / 0)
    monkeypatch.setattr("threading.excepthook", lambda arguments: None)
    writing = asyncio.create_task(store.create("nodes/a", says("a")))
    await eventually_async(lambda: not store._writer.is_alive, "the thread to die")
    with pytest.raises(StoreIOError, match="the writing thread ended"):
        await asyncio.wait_for(writing, 5)
    trouble = await store.find_trouble()
    assert trouble is not None and store.is_for_restart(trouble)
    with pytest.raises(StoreIOError):
        await store.create("nodes/b", says("b"))
    with pytest.raises(StoreIOError):
        await store.close()
    store._writer.log.close()


def test_a_probe_that_hangs_is_a_failure():
    health, path = StoreHealth(0.0, []), Path("log.sqlite3")
    health.probing_since = 100.0
    assert health.verdict(path, 100.0 + STALLED_AFTER_S) is None
    verdict = health.verdict(path, 111.0)
    assert isinstance(verdict, StoreStalled)
    assert str(verdict) == "writing log.sqlite3 has taken 11 s so far and is not done"


def test_liveness_tells_what_a_restart_may_mend():
    health, path = StoreHealth(0.0, []), Path("log.sqlite3")
    soon, late = 1.0, LIVENESS_PATIENCE_S + 2.0
    for error, at_once, after_a_while in [
        (StoreIOError(path, "EIO"), True, True),
        (StoreFull(path), False, False),  # reads and deletions go on; a start would be refused
        (StoreInUse(path, None), False, True),
        (StoreStalled(path, 11.0), False, True),
    ]:
        health.problem = None
        health.failed(error, 0.5)
        assert (health.is_for_restart(error, soon), health.is_for_restart(error, late)) == (at_once, after_a_while)
