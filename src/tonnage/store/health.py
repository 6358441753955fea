"""Whether the store can write, as far as it was tried: what probes of the server are told.

Attempts are the writes themselves, and probes: while there is a problem the writer's thread tries again every
`PROBE_EVERY_S`; while there is none and nobody writes, a question older than `PROOF_VALID_S` asks for one.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tonnage.store.errors import (
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreInUse,
    StoreNoPermission,
    StoreRemoved,
    StoreStalled,
    WriteRefused,
)
from tonnage.store.records import Damage
from tonnage.store.writes import Outcomes, Write

_log = logging.getLogger(__name__)

PROBE_EVERY_S = 1.0
"""Between two attempts while writing fails; each is one small commit."""
PROOF_VALID_S = 10.0
"""How long a successful write counts as proof: the period of kubelet's probes."""
PROBE_PATIENCE_S = 0.5
"""How long a question waits for a probe under way; then the last known answer has to do."""
STALLED_AFTER_S = 10.0
"""A probe that takes longer fails: upstream gives etcd 2 s, but does not share a disk with its clients."""
LIVENESS_PATIENCE_S = 30.0
"""How long what others cause may last before liveness tells of it: three of kubelet's probes."""
MAX_NAMED_DAMAGE = 1_000
"""Damaged rows that are kept by name; beyond that they are only counted."""


class StoreHealth:
    """Times are of one monotonic clock, handed in."""

    def __init__(self, now: float, damage: list[Damage]) -> None:
        self.problem: StoreError | None = None
        self.since: float = now
        self.proven_at = now
        self.probing_since: float | None = None
        self.last_error: StoreError | None = None
        self.last_error_at = 0.0
        self.errors: Counter[str] = Counter()
        self.damage = damage[:MAX_NAMED_DAMAGE]
        self.damage_count = len(damage)

    def judge_batch(self, writes: Sequence[Write], outcomes: Outcomes, now: float) -> None:
        """A batch is an attempt to write; of a full disk only a new object proves that there is room again."""
        failures = (error for error in outcomes if error is not None and not isinstance(error, WriteRefused))
        failure = next(failures, None)
        if failure is not None:
            self.failed(failure, now)
        elif not isinstance(self.problem, StoreFull) or any(write.before is None for write in writes):
            self.succeeded(now)

    def succeeded(self, now: float) -> None:
        if self.problem is not None:
            _log.warning("writes work again, after %.1f s", now - self.since)
        self.proven_at = now
        self.problem = None

    def failed(self, error: StoreError, now: float) -> None:
        """Told in the log when it is news: writes that fail for the same reason again are not."""
        if type(error) is not type(self.problem):
            _log.error("writes fail: %s; %s", error.message, error.hint)
        if self.problem is None:
            self.since = now
        self.problem = self.last_error = error
        self.last_error_at = now
        self.errors[kind_of(error)] += 1

    def found(self, damage: Damage) -> bool:
        """A row went bad while we run; whether that is news."""
        if any((each.key, each.revision) == (damage.key, damage.revision) for each in self.damage):
            return False
        self.damage_count += 1
        if len(self.damage) < MAX_NAMED_DAMAGE:
            self.damage.append(damage)
        return True

    def discarded(self, revisions: set[int]) -> None:
        """These rows are no longer in the way."""
        left = [each for each in self.damage if each.revision not in revisions]
        self.damage_count -= len(self.damage) - len(left)
        self.damage = left

    def is_due(self, now: float) -> bool:
        """Should the disk be tried, because nothing has proven it lately?"""
        return self.probing_since is None and now - self.proven_at > PROOF_VALID_S

    def is_for_restart(self, error: StoreError, now: float) -> bool:
        """Should liveness tell as well? After a failure of the file at once: nobody knows what it holds.

        Never for a full disk: reads and deletions go on there, and a restart makes no room. Nor when the file was
        removed: its last readers hold what is left of it. What others cause (a lock on the file, a disk that hangs)
        may pass, and is told when it has lasted.
        """
        if isinstance(error, StoreFull):
            return False
        if isinstance(error, StoreRemoved):
            return error.rescued is not None and error.rescued == error.path.with_name(error.rescued.name)
        if isinstance(error, (StoreInUse, StoreStalled)):
            return now - self.since > LIVENESS_PATIENCE_S
        return True

    def verdict(self, path: Path, now: float) -> StoreError | None:
        if self.problem is None and self.probing_since is not None and now - self.probing_since > STALLED_AFTER_S:
            self.failed(StoreStalled(path, now - self.probing_since), now)
        return self.problem


def kind_of(error: StoreError) -> str:
    """A word for a metric's label."""
    for kind, name in _KINDS.items():
        if isinstance(error, kind):
            return name
    return "io"


_KINDS = {
    StoreFull: "full",
    StoreInUse: "locked",
    StoreCorrupt: "corrupt",
    StoreNoPermission: "read-only",
    StoreStalled: "stalled",
    StoreRemoved: "removed",
}
