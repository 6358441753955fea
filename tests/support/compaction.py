"""Compaction of a store at a moment that a test chooses."""

from __future__ import annotations

from support.eventually import eventually_async
from tonnage.store.store import Store


async def compact(store: Store, revision: int = 0) -> None:
    """Wait for the compaction under way; then compact to `revision` as the store itself does, and wait for that.

    Raises StoreError if it fails.
    """
    assert revision <= store.revision
    await _finish(store)
    if revision > store._writer.log.compacted:
        store._compacting = revision
        store._writer.submit(revision)
        await _finish(store)


async def _finish(store: Store) -> None:
    failures = store.health.errors.total()
    await eventually_async(lambda: not store._compacting, "the end of the compaction")
    if store.health.errors.total() > failures and store.health.last_error is not None:
        raise store.health.last_error
