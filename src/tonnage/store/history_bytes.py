"""How many bytes of history the log keeps, and how far it must be compacted to keep no more than a budget.

A superseded document goes when compaction passes the revision that superseded it; a tombstone goes when compaction
passes itself. So bytes are booked under the revision that lets them go. Neighbouring revisions share an entry: the
figures are exact, the answer is rounded up to the end of an entry.
"""

from __future__ import annotations

from collections import deque

_REVISIONS_AN_ENTRY = 256
_BYTES_AN_ENTRY = 1 << 20


class HistoryBytes:
    """Bytes by the revision that lets them go; revisions only grow."""

    def __init__(self) -> None:
        self.total = 0
        self._entries: deque[list[int]] = deque()  # first revision, last revision, bytes

    def add(self, revision: int, size: int) -> None:
        if not size:
            return
        self.total += size
        newest = self._entries[-1] if self._entries else None
        if newest is None or newest[2] >= _BYTES_AN_ENTRY or revision - newest[0] >= _REVISIONS_AN_ENTRY:
            self._entries.append([revision, revision, size])
        else:
            newest[1] = revision
            newest[2] += size

    def forget(self, revision: int) -> None:
        """Compaction has passed `revision`."""
        while self._entries and self._entries[0][1] <= revision:
            self.total -= self._entries.popleft()[2]

    def to_keep(self, budget: int) -> int:
        """The revision to compact to so that no more than `budget` bytes are left; 0 when they are not more."""
        left, target = self.total, 0
        for _, last, size in self._entries:
            if left <= budget:
                break
            left -= size
            target = last
        return target
