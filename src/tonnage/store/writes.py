"""What goes to the writer's thread and comes back: writes and their outcomes; and the fence.

A fence makes writes depend on another key, judged in the same order as all writes:

    with fenced(Fence("leases.coordination.k8s.io/kube-system/kube-scheduler", holds)):
        await store.update(...)        # FenceBroken if, right before it would get its revision, `holds` says no

A write of the fence's key that is under way is waited for first: after a visible change of that key no fenced write
follows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, field

from tonnage.store import log, reserve
from tonnage.store.errors import StoreError
from tonnage.store.records import StoreRecord


@dataclass(eq=False, slots=True)
class Write:
    """A write on its way to the log. `before` is the live state it replaces, `previous` the row it follows.
    `makes_room`: a deletion, or a step towards one, which may use the reserve. `discards`: damaged rows that a deletion
    buries, with their new documents."""

    record: StoreRecord
    _: KW_ONLY
    before: StoreRecord | None
    previous: int
    deleted: bool
    done: asyncio.Future[StoreRecord]
    makes_room: bool = False
    discards: Mapping[int, bytes] | None = None
    followers: list[asyncio.Future[None]] = field(default_factory=list)
    """Writers of the same key that wait for this one to settle."""


Writes = list[Write]
Outcomes = Sequence[StoreError | None]  # one per write of the batch, None if it is durable


def batches(writes: Writes) -> Iterator[Writes]:
    """The writes in order, one commit each: at most `BATCH_BYTES` of documents, or a larger one, or a discard."""
    batch: Writes = []
    size = 0
    for write in writes:
        size += len(write.record.document)
        if batch and (size > reserve.BATCH_BYTES or write.discards is not None or batch[0].discards is not None):
            yield batch
            batch, size = [], len(write.record.document)
        batch.append(write)
    if batch:
        yield batch


def row_of(write: Write) -> log.Row:
    record = write.record
    return record.revision, record.key, write.previous, write.deleted, record.document


def again(error: StoreError) -> StoreError:
    """The same error for another caller: a raised exception carries a traceback, so everyone needs its own."""
    twin = type(error).__new__(type(error), *error.args)
    vars(twin).update(vars(error))
    twin.__cause__ = error.__cause__
    return twin


@dataclass(frozen=True, slots=True)
class Fence:
    """`holds` judges the present record under `key`, None if there is none; it must not wait."""

    key: str
    holds: Callable[[StoreRecord | None], bool]


_FENCE: ContextVar[Fence | None] = ContextVar("fence", default=None)


@contextmanager
def fenced(fence: Fence | None) -> Iterator[None]:
    """Put all writes of this task in the block behind the fence."""
    token = _FENCE.set(fence)
    try:
        yield
    finally:
        _FENCE.reset(token)


def current_fence() -> Fence | None:
    return _FENCE.get()
