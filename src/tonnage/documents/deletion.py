"""Deletion of an object: it is removed at once, or marked and waits.

A marked object waits for its grace period, which a second DELETE can only shorten, and for its finalizers. Graceful
kinds (pods) are always marked first; others only if they have finalizers. Mirrors rest.BeforeDelete and the finalizer
rules of upstream's generic store.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tonnage.clock import parse_rfc3339, rfc3339
from tonnage.documents.api_errors import conflict_of_kind
from tonnage.documents.strategy import Strategy
from tonnage.objects.document import Doc, copy
from tonnage.objects.resources import Resource

_FINALIZERS = {"Orphan": "orphan", "Foreground": "foregroundDeletion"}
"""The garbage collector acts on these finalizers."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """The effect of a deletion: `marked` is stored first, unless it is None; then the object is removed or waits."""

    marked: Doc | None
    is_removed: bool


def check_preconditions(resource: Resource, meta: Doc, *, uid: str | None, resource_version: str | None) -> None:
    """Check the preconditions of a deletion. Raises Conflict, in upstream's words, which name the kind."""
    for what, asked, field, happened in (
        ("UID", uid, "uid", "deleted and then recreated"),
        ("ResourceVersion", resource_version, "resourceVersion", "modified"),
    ):
        found = meta.get(field, "")
        if asked is None or asked == found:
            continue
        told = (
            f"the {what} in the precondition ({asked}) does not match the {what} in record ({found}). The object might "
            f"have been {happened}"
        )
        raise conflict_of_kind(resource.group, resource.kind, meta["name"], told)


def judge_deletion(strategy: Strategy, old: Doc, *, asked_s: int | None, propagation: str, now: datetime) -> Deletion:
    """Decide one deletion. `asked_s` is the grace period of the request, None for the object's own."""
    if asked_s is not None and asked_s < 0:
        asked_s = 1
    doc: Doc = copy(old)
    meta = doc["metadata"]
    if strategy.holds_back_deletion(old):
        if "deletionTimestamp" in meta:
            return Deletion(None, False)
        meta["deletionTimestamp"] = rfc3339(now)
        set_propagation_finalizers(meta, propagation)
        strategy.prepare_deletion(doc)
        return Deletion(doc, False)

    grace_s = strategy.grace_period_s(old, asked_s)
    if "deletionTimestamp" in meta and grace_s is not None:
        before_s = meta.get("deletionGracePeriodSeconds", 0)
        if before_s and (asked_s is None or asked_s >= before_s):
            return Deletion(None, False)  # already being deleted, and nothing changes
        grace_s = asked_s if before_s else None
        if grace_s is not None:
            # The new period counts from the start of the old one; if it is already over, it ends now.
            ends_at = _later(parse_rfc3339(meta["deletionTimestamp"]), grace_s - before_s)
            is_over = ends_at < now
            meta["deletionTimestamp"] = rfc3339(now if is_over else ends_at)
            # One second stays if a period was asked for: whoever waits for it confirms the deletion.
            meta["deletionGracePeriodSeconds"] = min(grace_s, 1) if is_over else grace_s
    elif grace_s is not None:
        _begin(meta, grace_s, now)

    if strategy.propagates:
        is_said = any(each in meta.get("finalizers", ()) for each in _FINALIZERS.values())
        set_propagation_finalizers(meta, propagation or ("" if is_said else strategy.default_propagation))
    waits = bool(meta.get("finalizers"))
    if grace_s is not None:
        return Deletion(doc, not waits and grace_s == 0)
    if not waits:
        return Deletion(None, True)
    if "deletionTimestamp" not in meta:
        _begin(meta, 0, now)
    meta["deletionGracePeriodSeconds"] = 0
    return Deletion(doc, False)


def is_deletable(strategy: Strategy, doc: Doc) -> bool:
    """True if a marked object waits for nothing any more. Checked after every write."""
    meta = doc["metadata"]
    waits = meta.get("finalizers") or meta.get("deletionGracePeriodSeconds", 0)
    return "deletionTimestamp" in meta and not waits and not strategy.holds_back_deletion(doc)


def set_propagation_finalizers(meta: Doc, policy: str) -> None:
    """Without a policy the finalizers stay unchanged."""
    if not policy:
        return
    finalizers = [f for f in meta.get("finalizers", ()) if f not in _FINALIZERS.values()]
    if policy in _FINALIZERS:
        finalizers.append(_FINALIZERS[policy])
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)


def _begin(meta: Doc, grace_s: int, now: datetime) -> None:
    meta["deletionTimestamp"] = rfc3339(_later(now, grace_s))
    meta["deletionGracePeriodSeconds"] = grace_s
    # The object's controller must act from now on, as after a change of spec.
    if meta.get("generation"):
        meta["generation"] += 1


_LAST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
_FIRST = datetime(1, 1, 1, tzinfo=UTC)


def _later(at: datetime, seconds: int) -> datetime:
    """A time some seconds later. A grace period may be any 64-bit number, so the result is limited to the year 9999."""
    try:
        return at + timedelta(seconds=seconds)
    except OverflowError:
        return _LAST if seconds > 0 else _FIRST
