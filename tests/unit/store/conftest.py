"""What the store's tests share: stores that are closed at the end, and a disk that can be made to hold its breath."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tonnage.store.folder import StoreOptions
from tonnage.store.store import Store

OpenStore = Callable[..., Awaitable[Store]]
HoldCommits = Callable[[], AbstractContextManager[None]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
async def open_store(folder: Path) -> AsyncIterator[OpenStore]:
    """Open the store in `folder`, with options; whatever is still open at the end is closed."""
    opened: list[Store] = []

    async def open_it(*, max_pages: int | None = None, **options: Any) -> Store:
        store = await Store.open(folder, StoreOptions(**options))
        opened.append(store)
        if max_pages is not None:  # of 4 KiB: beyond this many the disk is full, as far as SQLite knows
            store._writer.log._connection.execute(f"PRAGMA max_page_count = {max_pages}")
        return store

    yield open_it
    for store in opened:
        await store.close()


@pytest.fixture
async def store(open_store: OpenStore) -> Store:
    return await open_store()


@pytest.fixture
def hold_commits(folder: Path) -> HoldCommits:
    """While this lasts the writer cannot begin a transaction: a second connection has the file's write lock."""

    @contextmanager
    def hold() -> Iterator[None]:
        with closing(sqlite3.connect(folder / "log.sqlite3", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
            other.execute("ROLLBACK")

    return hold
