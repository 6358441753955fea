"""Whether the store can write, as far as it was tried: the answer for the server's probes.

Attempts are the writes themselves, and probes: while writing fails, the writer's thread tries again every
`PROBE_EVERY_S`; while nobody writes, a question asks for a probe if the last proof is older than `PROOF_VALID_S`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tonnage.store import errors, records
from tonnage.store.writes import Outcomes, Write

_log = logging.getLogger(__name__)

PROBE_EVERY_S = 1.0
"""Between two attempts while writing fails; an attempt is one small commit."""
PROOF_VALID_S = 10.0
"""How long a successful write counts as proof: the period of kubelet's probes."""
PROBE_PATIENCE_S = 0.5
"""How long a question waits for a running probe; then it gets the last known answer."""
STALLED_AFTER_S = 10.0
"""A probe that takes longer fails: upstream gives etcd 2 s, but does not share a disk with its clients."""
LIVENESS_PATIENCE_S = 30.0
"""How long a problem caused by others may last before liveness reports it: three of kubelet's probes."""
MAX_NAMED_DAMAGE = 1_000
"""Damaged rows that are kept by name; more are only counted."""


class StoreHealth:
    """Times are of one monotonic clock, passed in."""

    def __init__(self, now: float, damage: list[records.Damage]) -> None:
        self.problem: errors.StoreError | None = None
        self.since: float = now
        self.proven_at = now
        self.probing_since: float | None = None
        self.last_error: errors.StoreError | None = None
        self.last_error_at = 0.0
        self.errors: Counter[str] = Counter()
        self.damage = damage[:MAX_NAMED_DAMAGE]
        self.damage_count = len(damage)

    def judge_batch(self, writes: Sequence[Write], outcomes: Outcomes, now: float) -> None:
        """Judge a batch as an attempt to write. After a full disk only a new object proves that there is space."""
        failures = (error for error in outcomes if error is not None and not isinstance(error, errors.WriteRefused))
        failure = next(failures, None)
        if failure is not None:
            self.failed(failure, now)
        elif not isinstance(self.problem, errors.StoreFull) or any(write.before is None for write in writes):
            self.succeeded(now)

    def succeeded(self, now: float) -> None:
        if self.problem is not None:
            _log.warning("writes work again, after %.1f s", now - self.since)
        self.proven_at = now
        self.problem = None

    def failed(self, error: errors.StoreError, now: float) -> None:
        """Note a failure; it is logged unless writes failed for the same reason before."""
        if type(error) is not type(self.problem):
            _log.error("writes fail: %s; %s", error.message, error.hint)
        if self.problem is None:
            self.since = now
        self.problem = self.last_error = error
        self.last_error_at = now
        self.errors[error.kind] += 1

    def found(self, damage: records.Damage) -> bool:
        """Note a row that got damaged while we run; True if it was not known."""
        if any((each.key, each.revision) == (damage.key, damage.revision) for each in self.damage):
            return False
        self.damage_count += 1
        if len(self.damage) < MAX_NAMED_DAMAGE:
            self.damage.append(damage)
        return True

    def discarded(self, revisions: set[int]) -> None:
        left = [damage for damage in self.damage if damage.revision not in revisions]
        self.damage_count -= len(self.damage) - len(left)
        self.damage = left

    def is_due(self, now: float) -> bool:
        """True if the disk should be tried, because nothing has proven it lately."""
        return self.probing_since is None and now - self.proven_at > PROOF_VALID_S

    def is_for_restart(self, error: errors.StoreError, now: float) -> bool:
        """True if liveness should report it, too: at once after a failure of the file, because its contents are
        unknown.

        Never for a full disk: reads and deletions continue there, and a restart frees nothing. Nor for a removed file:
        its last readers hold what is left of it. What others cause (a lock on the file, a disk that hangs) may pass,
        and is reported if it lasts.
        """
        if isinstance(error, errors.StoreFull):
            return False
        if isinstance(error, errors.StoreRemoved):
            return error.rescued is not None and error.rescued == error.path.with_name(error.rescued.name)
        if isinstance(error, (errors.StoreInUse, errors.StoreStalled)):
            return now - self.since > LIVENESS_PATIENCE_S
        return True

    def verdict(self, path: Path, now: float) -> errors.StoreError | None:
        if self.problem is None and self.probing_since is not None and now - self.probing_since > STALLED_AFTER_S:
            self.failed(errors.StoreStalled(path, now - self.probing_since), now)
        return self.problem
