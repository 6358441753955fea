"""Rows that are not what was written: named, kept out, never served, and no reason not to start."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from support.compaction import compact
from tonnage.store.check import check_folder
from tonnage.store.database import lost_commits
from tonnage.store.errors import KeyDamaged, KeyMissing, RevisionCompacted
from tonnage.store.records import Damage, EventType, StoreRecord
from tonnage.store.store import Store


def says(text: str):
    return lambda revision: f"{text}@{revision}".encode()


def sql(folder: Path, *statements: str) -> None:
    """Somebody, or the disk, changes the file while nobody has it open."""
    with closing(sqlite3.connect(folder / "log.sqlite3")) as connection, connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for statement in statements:
            connection.execute(statement)


async def three_keys(open_store) -> None:
    """a: 1 -> 4 -> 5; b: 2; c: 3 -> 6 (deleted)"""
    store = await open_store()
    for name in "abc":
        await store.create(f"nodes/{name}", says(name))
    await store.update("nodes/a", says("a"), expected=1)
    await store.update("nodes/a", says("a"), expected=4)
    await store.delete("nodes/c", says("c"), expected=3)
    await store.close()


MISMATCH = "its checksum does not match; kept out"


@pytest.mark.parametrize(
    ("change", "kept_out", "damage"),
    [
        ("UPDATE log SET document = x'00' WHERE revision = 5", ["a"], [Damage("nodes/a", 5, MISMATCH)]),
        ("UPDATE log SET document = CAST('a@4' AS BLOB) WHERE revision = 5", ["a"], [Damage("nodes/a", 5, MISMATCH)]),
        ("UPDATE log SET checksum = checksum + 1 WHERE revision = 2", ["b"], [Damage("nodes/b", 2, MISMATCH)]),
        # The row says it is another's; the row it came after says whose it is.
        ("UPDATE log SET key = 'nodes/x' WHERE revision = 5", ["a"], [Damage("nodes/a", 5, MISMATCH)]),
        # `previous` points at another's newest row; with the right one the checksum matches.
        ("UPDATE log SET previous = 2 WHERE revision = 5", ["a"], [Damage("nodes/a", 5, MISMATCH)]),
        ("UPDATE log SET deleted = 1 WHERE revision = 5", ["a"], [Damage("nodes/a", 5, MISMATCH)]),
        # A tombstone that came to life.
        ("UPDATE log SET deleted = 0 WHERE revision = 6", ["c"], [Damage("nodes/c", 6, MISMATCH)]),
        ("UPDATE log SET follows = 3 WHERE revision = 5", ["a"], [Damage("nodes/a", 5, MISMATCH)]),
        ("INSERT INTO log VALUES (9, 'nodes/b', 2, 6, 0, 7, x'00')", ["b"], [Damage("nodes/b", 9, MISMATCH)]),
    ],
)
async def test_a_damaged_row_is_named_and_its_key_is_kept_out(open_store, folder: Path, change, kept_out, damage):
    await three_keys(open_store)
    sql(folder, change)
    store = await open_store()
    assert store.health.damage == damage
    alive = [f"nodes/{name}" for name in "ab" if name not in kept_out]
    assert [record.key for record in store.list("nodes/")] == alive
    for name in kept_out:
        key = f"nodes/{name}"
        for attempt in (
            lambda key=key: store.create(key, says("new")),
            lambda key=key: store.update(key, says("new"), expected=4),
            lambda key=key: store.delete(key, says("new"), expected=4),
        ):
            with pytest.raises(KeyDamaged):
                await attempt()
        with pytest.raises(KeyDamaged) as refused:
            store.get(key)
        assert refused.value.damage == damage[0]
        assert str(refused.value) == (
            f'"{key}" is damaged in {folder / "log.sqlite3"} '
            f'(revision {damage[0].revision} of "{key}": {MISMATCH}) and is kept out'
        )
        assert refused.value.hint == "delete it and create it again, or restore a backup"
    # All else goes on.
    assert (await store.create("nodes/new", says("new"))).revision > 6


async def test_the_state_before_a_damaged_one_is_not_served_as_the_present(open_store, folder: Path):
    await three_keys(open_store)
    sql(folder, "UPDATE log SET document = x'00' WHERE revision = 5")
    store = await open_store()
    newer = await store.create("nodes/d", says("d"))
    await store.create("nodes/e", says("e"))
    # Not in a list of the past either, which is read from the disk.
    assert [record.key for record in await store.list_at("nodes/", newer.revision)] == ["nodes/b", "nodes/d"]
    # History that leads through it is not served: whoever is behind lists again.
    with pytest.raises(RevisionCompacted):
        store.watch("nodes/", after=4)


async def test_a_damaged_row_that_a_sound_one_follows_is_history(open_store, folder: Path):
    await three_keys(open_store)
    sql(folder, "UPDATE log SET document = x'00' WHERE revision = 4")
    store = await open_store()
    assert store.health.damage == [Damage("nodes/a", 4, "its checksum does not match; a later state is whole")]
    assert store.get("nodes/a") == StoreRecord("nodes/a", 5, b"a@5")
    assert store.compacted == 5  # the step from 4 to 5 cannot be told
    assert (await store.update("nodes/a", says("a"), expected=5)).revision == 7


@pytest.mark.parametrize("revision", [2, 3, 4, 5])
async def test_a_row_that_went_missing_leaves_a_gap(open_store, folder: Path, revision: int):
    await three_keys(open_store)
    sql(folder, f"DELETE FROM log WHERE revision = {revision}")
    store = await open_store()
    assert [each.revision for each in store.health.damage] == [revision]
    assert store.health.damage[0].reason.startswith("it is missing")
    await store.create("nodes/new", says("x"))
    await store.close()
    store = await open_store()  # and it stays one
    assert [each.revision for each in store.health.damage] == [revision]


async def test_the_newest_row_cannot_go_missing_unnoticed_after_an_orderly_end(open_store, folder: Path):
    await three_keys(open_store)
    sql(folder, "DELETE FROM log WHERE revision = 6")
    for _ in range(2):
        store = await open_store()
        assert [each.revision for each in store.health.damage] == [6]
        assert (await store.create(f"nodes/new-{store.revision}", says("x"))).revision > 6  # no revision is given twice
        await store.close()


async def test_rows_older_than_history_cannot_go_missing_unnoticed(open_store, folder: Path):
    await three_keys(open_store)
    store = await open_store()
    await compact(store, 6)
    await store.close()
    sql(folder, "DELETE FROM log WHERE revision = 2")
    store = await open_store()
    reason = "1 of 2 rows at or before it are missing: whose they were is not known"
    assert store.health.damage == [Damage("", 6, reason)]


async def test_a_number_far_away_does_not_lead_the_counter_astray(open_store, folder: Path):
    await three_keys(open_store)
    sql(folder, f"UPDATE log SET revision = {(1 << 62) + 5} WHERE revision = 5")
    store = await open_store()
    assert {each.revision for each in store.health.damage} == {(1 << 62) + 5, 5}
    assert (await store.create("nodes/new", says("x"))).revision == 7
    await store.discard("nodes/a", says("gone"))
    assert (await store.create("nodes/a", says("x"))).revision == 9
    await store.close()
    assert (await open_store()).get("nodes/a") == StoreRecord("nodes/a", 9, b"x@9")


async def test_a_damaged_record_of_compaction_costs_history_and_no_object(open_store, folder: Path):
    await three_keys(open_store)
    sql(folder, "UPDATE compaction SET revision = 4")
    store = await open_store()
    assert [record.key for record in store.list("nodes/")] == ["nodes/a", "nodes/b"]
    assert (store.revision, store.compacted) == (1_000_006, 1_000_006)
    assert store.health.damage[0].reason == "the record of compaction is damaged; history is given up"
    await store.close()
    assert (await open_store()).health.damage == []


@pytest.mark.parametrize("compacting", [False, True])
async def test_a_damaged_key_can_be_discarded_and_made_anew(open_store, folder: Path, compacting: bool):
    await three_keys(open_store)
    sql(folder, "UPDATE log SET document = x'00' WHERE revision = 5")
    store = await open_store()
    watch = store.watch("nodes/", after=store.revision)
    if compacting:  # the last sound state is kept while the newest is damaged: it may be wanted for salvage
        await compact(store, 6)
    gone = await store.discard("nodes/a", says("gone"))
    event = (await watch.next_batch())[0]
    assert (event.type, event.record) == (EventType.DELETE, gone)
    assert event.previous is not None  # else no watcher with a selector would hear of it
    watch.close()
    assert store.get("nodes/a") is None
    assert store.health.damage == []
    with pytest.raises(KeyMissing):
        await store.discard("nodes/a", says("gone"))
    again = await store.create("nodes/a", says("new"))
    await store.close()
    for compacted in (False, True):
        store = await open_store()
        assert store.health.damage == []
        assert store.get("nodes/a") == again
        if compacted:
            await compact(store, store.revision)
        await store.close()


async def test_a_discarded_key_stays_gone_after_compaction(open_store, folder: Path):
    await three_keys(open_store)
    sql(folder, "UPDATE log SET document = x'00' WHERE revision = 5")
    store = await open_store()
    await compact(store, 6)
    await store.discard("nodes/a", says("gone"))
    await compact(store, store.revision)
    await store.close()
    store = await open_store()
    assert (store.get("nodes/a"), store.health.damage) == (None, [])


async def test_compaction_past_damaged_history_brings_nothing_back_to_life(open_store, folder: Path):
    await three_keys(open_store)
    # 4 is damaged, and so names no predecessor to be trusted: 1 must go with it all the same.
    sql(folder, "UPDATE log SET previous = 2 WHERE revision = 4")
    store = await open_store()
    await store.delete("nodes/a", says("bye"), expected=5)
    await compact(store, store.revision)
    await store.close()
    store = await open_store()
    assert [record.key for record in store.list("nodes/")] == ["nodes/b"]
    assert store.health.damage == []


async def test_a_row_that_goes_bad_while_running_is_told_and_not_served(open_store, folder: Path):
    store = await open_store(window_events=1)
    for name in "abc":
        await store.create(f"nodes/{name}", says(name))
    sql(folder, "UPDATE log SET document = x'00' WHERE revision = 2")
    with pytest.raises(RevisionCompacted):
        await store.list_at("nodes/", 2)
    assert store.health.damage == [Damage("nodes/b", 2, "its checksum does not match")]
    with pytest.raises(RevisionCompacted):
        store.watch("nodes/", after=1)
    assert [record.key for record in store.list("nodes/")] == ["nodes/a", "nodes/b", "nodes/c"]  # from memory: whole


async def test_an_index_that_does_not_match_is_made_anew(open_store, folder: Path):
    await three_keys(open_store)
    path = folder / "log.sqlite3"
    # The index keeps the keys a second time: in it, and only in it, nodes/b becomes nodes/q.
    with closing(sqlite3.connect(path)) as connection:
        root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'log_by_key'").fetchone()[0]
    content = bytearray(path.read_bytes())
    page = slice((root - 1) * 4096, root * 4096)
    content[page] = content[page].replace(b"nodes/b", b"nodes/q")
    path.write_bytes(content)
    store = await open_store()
    assert store.health.damage == []
    await store.create("nodes/d", says("d"))
    assert [record.key for record in await store.list_at("nodes/", 6)] == ["nodes/a", "nodes/b"]


@pytest.mark.parametrize("where", [10, 32 + 3, 32 + 4120 * 2 + 500, -4000])
async def test_a_write_ahead_log_that_breaks_off_is_told_and_no_revision_comes_again(
    open_store, folder: Path, tmp_path: Path, where: int
):
    store = await open_store()
    for number in range(10):
        await store.create(f"nodes/{number}", says("x"))
    killed = tmp_path / "killed"
    killed.mkdir(mode=0o700)
    content = bytearray((folder / "log.sqlite3-wal").read_bytes())
    content[where] ^= 8
    for name, text in (("log.sqlite3", (folder / "log.sqlite3").read_bytes()), ("log.sqlite3-wal", bytes(content))):
        (killed / name).write_bytes(text)
        (killed / name).chmod(0o600)
    report = check_folder(killed) if where == -4000 else None
    if report is not None:
        assert report.problems == ["the write-ahead log breaks off, and 1 commits at its end are lost"]
    for _ in range(2):  # and it is told until history has passed it
        again = await Store.open(killed)
        assert again.health.damage_count >= 1
        assert again.count("nodes/") < 10 or where == -4000
        assert again.revision >= 1_000_000
        assert again.compacted >= 1_000_000  # whoever knows of a lost revision lists again
        await again.create(f"nodes/new-{again.revision}", says("x"))
        await again.close()


async def test_a_write_ahead_log_of_several_rounds_is_whole(open_store, folder: Path, tmp_path: Path):
    store = await open_store()
    record = await store.create("nodes/a", lambda revision: bytes(100_000))
    for _ in range(60):  # 25 pages each: SQLite begins again at its front after 1,000 pages
        record = await store.update("nodes/a", lambda revision: bytes(100_000), expected=record.revision)
        assert lost_commits(folder / "log.sqlite3-wal") == 0
