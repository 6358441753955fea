"""A fence: writes that hold only while another key says so, judged in the same order as all writes.

    with fenced(Fence("leases.coordination.k8s.io/kube-system/kube-scheduler", holds)):
        await store.update(...)        # FenceBroken if, right before it would get its revision, `holds` says no

A write of the fence's key that is on its way is waited for first. So of a change of that key and a fenced write, one
comes first for everybody: whoever sees the change is not surprised by a fenced write after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from tonnage.store.records import StoreRecord


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
