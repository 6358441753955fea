"""Any byte of a store's file may flip: what is served afterwards was written so, or is told to be damaged.

One small log with history, tombstones, a compaction and a document over several pages is built once. Every example
flips one byte of the file and opens it: either that is refused in one sentence, or everything that is served, now, in
the past and as events, is exactly what was written; and whatever is missing or older than it should be comes with
damage that is told. `slow` goes through the file from end to end.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from support.compaction import compact
from tonnage.store.errors import KeyDamaged, RevisionCompacted, StoreError
from tonnage.store.records import EventType, StoreRecord
from tonnage.store.store import Store

PREFIXES = ("pods/", "nodes/")


class Written:
    """The file as it was closed, every row ever written, and the state at each revision that history has."""

    def __init__(self, folder: Path) -> None:
        self.rows: dict[tuple[str, int], tuple[bytes, bool]] = {}
        self.newest: dict[str, StoreRecord] = {}
        self.past: dict[tuple[str, int], list[StoreRecord]] = {}
        asyncio.run(self._build(folder))
        self.content = (folder / "log.sqlite3").read_bytes()

    async def _build(self, folder: Path) -> None:
        store = await Store.open(folder)

        async def write(verb: str, key: str, repeats: int = 3) -> None:
            def render(revision: int) -> bytes:
                return f"{verb} {key} {revision} ".encode() * repeats

            if verb == "create":
                record = await store.create(key, render)
            else:
                record = await getattr(store, verb)(key, render, expected=self.newest[key].revision)
            self.rows[key, record.revision] = (record.document, verb == "delete")
            self.newest[key] = record
            if verb == "delete":
                del self.newest[key]

        for key in ("pods/a/1", "pods/a/2", "pods/b/1", "nodes/x", "nodes/y"):
            await write("create", key)
        for repeats in (20, 50, 80):
            await write("update", "pods/a/1", repeats)
            await write("update", "nodes/x", repeats)
        await write("delete", "pods/a/2")
        await compact(store, 7)
        await write("create", "pods/a/2")
        await write("update", "pods/b/1", 600)  # over several pages
        await write("create", "nodes/z")
        await write("delete", "nodes/z")
        await write("update", "nodes/y")
        self.revision, self.compacted = store.revision, store.compacted
        for revision in range(store.compacted, store.revision + 1):
            for prefix in PREFIXES:
                self.past[prefix, revision] = await store.list_at(prefix, revision)
        await store.close()

    def was_written(self, record: StoreRecord, *, deleted: bool) -> bool:
        return self.rows.get((record.key, record.revision)) == (record.document, deleted)


@pytest.fixture(scope="module")
def written() -> Iterator[Written]:
    with tempfile.TemporaryDirectory() as folder:
        yield Written(Path(folder) / "store")


async def judge(written: Written, folder: Path) -> str:
    """Open the file and hold all it serves against what was written; how it went."""
    try:
        store = await Store.open(folder)
    except StoreError as refused:
        assert refused.message.isprintable()
        return "refused"
    try:
        damage = store.health.damage
        await judge_present(written, store)
        await judge_past(written, store)
        for prefix in PREFIXES:
            await judge_events(written, store, prefix)
        try:
            new = await store.create("pods/new/1", lambda revision: b"new")
        except StoreError:
            return "refuses writes"  # a page was met that cannot be written to
        assert new.revision > written.revision or damage
        return "damaged" if damage else "whole"
    finally:
        with suppress(StoreError):
            await store.close()


async def judge_present(written: Written, store: Store) -> None:
    damage = store.health.damage
    names, is_unknown = {each.key for each in damage}, any(not each.key for each in damage)
    listed = {record.key: record for prefix in PREFIXES for record in store.list(prefix)}
    assert all(written.was_written(record, deleted=False) for record in listed.values())
    if not damage:
        assert listed == written.newest
    for key in {*written.newest, *listed, "nodes/z"}:
        try:
            found = store.get(key)
        except KeyDamaged:
            assert key not in listed and damage
            continue
        assert found == listed.get(key)
        # What is gone or older than it was is never so in silence.
        assert found == written.newest.get(key) or is_unknown or key in names or (found is None and damage)


async def judge_past(written: Written, store: Store) -> None:
    for revision in range(store.compacted, min(store.revision, written.revision) + 1):
        for prefix in PREFIXES:
            try:
                found = await store.list_at(prefix, revision)
            except StoreError:
                continue  # said, not served
            assert all(written.was_written(record, deleted=False) for record in found)
            if not store.health.damage:
                assert found == written.past[prefix, revision]


async def judge_events(written: Written, store: Store, prefix: str) -> None:
    try:
        watch = store.watch(prefix, after=store.compacted)
    except RevisionCompacted:
        return
    wanted = [key for key in written.rows if key[0].startswith(prefix) and key[1] > store.compacted]
    seen: list[Any] = []
    try:
        while len(seen) < len(wanted) and not store.health.damage:
            async with asyncio.timeout(10):
                for event in await watch.next_batch():
                    assert written.was_written(event.record, deleted=event.type is EventType.DELETE)
                    seen.append((event.record.key, event.record.revision))
        assert store.health.damage or seen == wanted
    except StoreError:
        pass
    finally:
        watch.close()


def outcome_of_flipping(written: Written, offset: int, mask: int) -> str:
    logging.disable(logging.CRITICAL)
    folder = Path(tempfile.mkdtemp())
    try:
        content = bytearray(written.content)
        content[offset] ^= mask
        (folder / "log.sqlite3").write_bytes(content)
        (folder / "log.sqlite3").chmod(0o600)
        return asyncio.run(judge(written, folder))
    finally:
        logging.disable(logging.NOTSET)
        shutil.rmtree(folder)


@given(where=st.floats(0, 1, exclude_max=True), mask=st.sampled_from([1, 2, 4, 8, 16, 32, 64, 128, 255]))
@settings(max_examples=tries(60), deadline=None)
def test_a_flipped_byte_is_never_served(written: Written, where: float, mask: int):
    outcome_of_flipping(written, int(where * len(written.content)), mask)


@pytest.mark.slow
def test_no_byte_of_the_file_can_flip_unnoticed_and_matter(written: Written):
    outcomes = [outcome_of_flipping(written, offset, 1 << offset % 8) for offset in range(0, len(written.content), 7)]
    assert set(outcomes) <= {"whole", "damaged", "refused", "refuses writes"}
    assert outcomes.count("damaged") > len(outcomes) // 10
