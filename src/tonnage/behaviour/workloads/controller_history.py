"""The history of a StatefulSet or a DaemonSet: each template it ever had, as a ControllerRevision.

A revision holds a patch that puts its template back (`kubectl rollout undo` applies it), and a number that grows. Its
name follows from the template, so that one that is made twice is there once; a template that comes back takes up its
old revision with a new number. Mirrors history/controller_history.go, getStatefulSetRevisions and constructHistory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tonnage.behaviour.workloads.templates import REVISION_HASH, controller_ref, revision_hash
from tonnage.objects.apps_v1 import ControllerRevision, DaemonSet, StatefulSet
from tonnage.objects.codec import to_doc
from tonnage.objects.document import Doc, dig, same

Versioned = StatefulSet | DaemonSet
"""What keeps its history in ControllerRevisions."""

_MAX_PREFIX: Final = 223


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which revision the owner's template is: `known`, with another number when `number` is set; or one to be made."""

    known: ControllerRevision | None
    number: int | None


def in_order(revisions: Iterable[ControllerRevision]) -> list[ControllerRevision]:
    """By number, then by age, then by name."""

    def key(each: ControllerRevision) -> tuple[int, float, str]:
        created_at = each.metadata.creation_timestamp
        return (each.revision, created_at.timestamp() if created_at else 0.0, each.name)

    return sorted(revisions, key=key)


def data_of(owner: Versioned) -> Doc:
    """The patch that puts the owner's present template back, its fields in the order in which Go writes maps.

    Upstream's clients find the revision of a template by comparing bytes.
    """
    patch: Doc = _sorted({"spec": {"template": {**dict(owner.spec.template), "$patch": "replace"}}})
    return patch


def _sorted(value: Any) -> Any:
    """A deep copy with the keys of every map in order."""
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, (list, tuple)) else value


def template_of(revision: ControllerRevision) -> Mapping[str, Any]:
    """The template that a revision keeps; empty for one that is not ours and keeps something else."""
    kept: Doc = dig(revision.data, "spec", "template") or {}
    return {field: value for field, value in kept.items() if field != "$patch"}


def equal_to(owner: Versioned, ordered: Sequence[ControllerRevision]) -> list[ControllerRevision]:
    """The revisions that keep the owner's present template: one, unless somebody copied it."""
    template = dict(owner.spec.template)
    return [each for each in ordered if same(template_of(each), template)]


def wanted(owner: Versioned, ordered: Sequence[ControllerRevision]) -> Wanted:
    """Find the owner's template among its revisions."""
    equal = equal_to(owner, ordered)
    number = ordered[-1].revision + 1 if ordered else 1
    if not equal:
        return Wanted(None, number)
    return Wanted(equal[-1], None if equal[-1] is ordered[-1] else number)


def new_revision(owner: Versioned, number: int, collision_count: int) -> Doc:
    """The revision of the owner's present template; another `collision_count` gives it another name."""
    data = data_of(owner)
    name = revision_hash(data, collision_count)
    labels = owner.spec.template.get("metadata", {}).get("labels", {})
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"{owner.name[:_MAX_PREFIX]}-{name}",
            "namespace": owner.namespace,
            "labels": {**labels, REVISION_HASH: name},
            "annotations": dict(owner.metadata.annotations),
            "ownerReferences": [to_doc(controller_ref(owner))],
        },
        "data": data,
        "revision": number,
    }


def outdated(
    owner: Versioned, ordered: Sequence[ControllerRevision], live: Collection[str]
) -> Sequence[ControllerRevision]:
    """The revisions beyond the history limit, oldest first; those in `live` are in use and do not count."""
    limit = owner.spec.revision_history_limit
    past = [each for each in ordered if each.name not in live]
    return past[: len(past) - limit] if 0 <= limit < len(past) else []
