"""What goes to the writer's thread and comes back from it: writes, compactions, and how each ended. And the fence:
writes that hold only while another key says so, judged in the same order as all writes.

    with fenced(Fence("leases.coordination.k8s.io/kube-system/kube-scheduler", holds)):
        await store.update(...)        # FenceBroken if, right before it would get its revision, `holds` says no

A write of the fence's key that is on its way is waited for first: whoever sees a change of that key is not surprised by
a fenced write after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, field

from tonnage.store.errors import StoreError
from tonnage.store.log import Row
from tonnage.store.records import StoreRecord
from tonnage.store.reserve import BATCH_BYTES


@dataclass(eq=False, slots=True)
class Write:
    """A write on its way to the log. `before` is the live state it replaces, `previous` the row it follows. What
    `makes_room`, a deletion and what leads to one, may use the reserve. `discards` are the damaged rows that a deletion
    buries, and the documents they get instead."""

    record: StoreRecord
    _: KW_ONLY
    before: StoreRecord | None
    previous: int
    deleted: bool
    done: asyncio.Future[StoreRecord]
    makes_room: bool = False
    discards: Mapping[int, bytes] | None = None
    followers: list[asyncio.Future[None]] = field(default_factory=list)
    """Writers of the same key, waiting for this one to settle."""

    def __post_init__(self) -> None:
        self.makes_room = self.makes_room or self.deleted


@dataclass(eq=False, slots=True)
class Compaction:
    """A request to compact up to `target`; `done` is None when nobody waits."""

    target: int
    done: asyncio.Future[None] | None


Writes = list[Write]
Outcomes = Sequence[StoreError | None]  # one for each write of the batch, None where it is durable
OnSettled = Callable[[Writes, Outcomes], None]
OnCompacted = Callable[[Compaction, int, StoreError | None], None]
OnHealth = Callable[[StoreError | None, Sequence[Row]], None]


def batches(writes: Writes) -> Iterator[Writes]:
    """The writes in their order, in runs whose documents have `BATCH_BYTES` together; one that is larger goes alone."""
    batch: Writes = []
    size = 0
    for write in writes:
        size += len(write.record.document)
        if batch and size > BATCH_BYTES:
            yield batch
            batch, size = [], len(write.record.document)
        batch.append(write)
    if batch:
        yield batch


def row_of(write: Write) -> Row:
    record = write.record
    return record.revision, record.key, write.previous, write.deleted, record.document


def again(error: StoreError) -> StoreError:
    """The same error for another caller: a raised exception carries its raiser's traceback, so each needs its own."""
    twin = type(error).__new__(type(error), *error.args)
    vars(twin).update(vars(error))
    twin.__cause__ = error.__cause__
    return twin


@dataclass(frozen=True, slots=True)
class Fence:
    """`holds` judges the record under `key` as it is at that moment, None when there is none; it must not wait."""

    key: str
    holds: Callable[[StoreRecord | None], bool]


_FENCE: ContextVar[Fence | None] = ContextVar("fence", default=None)


@contextmanager
def fenced(fence: Fence | None) -> Iterator[None]:
    """Everything this task writes in the block is written behind the fence."""
    token = _FENCE.set(fence)
    try:
        yield
    finally:
        _FENCE.reset(token)


def current_fence() -> Fence | None:
    return _FENCE.get()
