"""The options of a store: how much history it keeps, how far watches may lag, and its owner's functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tonnage.store.database import FindProblem
from tonnage.store.health import PROBE_EVERY_S

Index = Callable[[str, bytes], Any]
KEEP_REVISIONS: Final = 100_000
"""Revisions of history: more than a minute of the fastest writing; a disconnected informer is back in seconds."""
KEEP_BYTES: Final = 128 << 20
"""Bytes of history: 100,000 revisions of 1.3 KB, as pods and leases have. Large documents get fewer revisions."""
KEEP_S: Final = 300.0
"""Upstream's interval. Older history goes within as long again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """Of the limits of history, the first one reached counts."""

    index: Index = lambda key, document: None
    """Returns a record's `attributes`: a pure function, called on the loop before a write is accepted, and in a thread
    for what is read from disk. Its exceptions are passed on."""
    find_problem: FindProblem | None = None
    """Judges rows of files without checksums."""
    keep_revisions: int = KEEP_REVISIONS
    keep_bytes: int = KEEP_BYTES
    keep_s: float = KEEP_S
    window_events: int = 4_096
    window_bytes: int = 64 << 20
    """The newest events, in memory. Watches that start before them read the disk."""
    max_lag_events: int = 10_000
    max_lag_bytes: int = 32 << 20
    """A watch that lags further behind is ended."""
    max_pages: int | None = None
    """Beyond this many pages of 4 KiB writes raise StoreFull."""
    reserve_bytes: int = 0
    """Kept back for deletions on a full disk."""
    key_beside: Path | None = None
    """If this file exists and the store does not, StoreMissing is raised."""
    probe_every_s: float = PROBE_EVERY_S
