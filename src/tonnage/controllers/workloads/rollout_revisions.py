"""Deployment, its history: which revision each ReplicaSet is, what a new one looks like, which old ones are let go.

Revisions count up. The set with the Deployment's template always has the highest; one that is returned to (`kubectl
rollout undo`) gets a new number and remembers its old ones. The rest is the Deployment's annotations, copied.
Mirrors SetNewReplicaSetAnnotations and getNewReplicaSet of pkg/controller/deployment.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tonnage.controllers.workloads.rollout import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    by_age,
    replicas_annotations,
)
from tonnage.objects.apps_v1 import Deployment, ReplicaSet
from tonnage.objects.document import Doc
from tonnage.objects.templates.replica_set_templates import replica_set_for
from tonnage.objects.texts.whole_numbers import whole_number

REVISION: Final = "deployment.kubernetes.io/revision"
REVISION_HISTORY: Final = "deployment.kubernetes.io/revision-history"
UNLIMITED: Final = 2**31 - 1
"""A limit or deadline of this size is none."""
_OURS: Final = frozenset(
    (
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        REVISION_HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
        "deprecated.deployment.rollback.to",
    )
)
"""Annotations of a Deployment that are not copied to its sets."""
_MAX_HISTORY_CHARS: Final = 2000


def revision_of(found: ReplicaSet) -> int:
    """0 when it has none, or one that is no number."""
    text = found.metadata.annotations.get(REVISION, "")
    return whole_number(text) if text.isascii() and text.isdecimal() else 0


def next_revision(olds: Iterable[ReplicaSet]) -> int:
    return max(map(revision_of, olds), default=0) + 1


def annotations_for(deployment: Deployment, new: ReplicaSet | None, revision: int) -> dict[str, str]:
    """What the new set's annotations lack, its revision included; `new` is None when it is still to be made."""
    has = {} if new is None else new.metadata.annotations
    wanted = {key: text for key, text in deployment.metadata.annotations.items() if key not in _OURS}
    own = has.get(REVISION, "")
    if own and not (own.isascii() and own.isdecimal()):
        return {key: text for key, text in wanted.items() if has.get(key) != text}  # not a number: not ours to change
    if whole_number(own or "0") < revision:
        wanted[REVISION] = str(revision)
        if own:
            wanted[REVISION_HISTORY] = _history(has.get(REVISION_HISTORY, ""), own)
    if new is None:
        wanted |= replicas_annotations(deployment)
    return {key: text for key, text in wanted.items() if has.get(key) != text}


def _history(known: str, revision: str) -> str:
    """The revisions a set has been, the oldest forgotten first when they become too long."""
    revisions = [*filter(None, known.split(",")), revision]
    while len(",".join(revisions)) > _MAX_HISTORY_CHARS:
        revisions.pop(0)
    return ",".join(revisions)


def new_set(deployment: Deployment, replicas: int, revision: int) -> Doc:
    """The ReplicaSet for the Deployment's template, with its number in the history."""
    doc = replica_set_for(deployment, replicas)
    doc["metadata"]["annotations"] = annotations_for(deployment, None, revision)
    return doc


def outdated(deployment: Deployment, olds: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    """The sets beyond the history limit, lowest revision first; one that has or may have pods stays."""
    limit = deployment.spec.revision_history_limit
    alive = [each for each in olds if not each.metadata.is_terminating]
    if limit == UNLIMITED or len(alive) <= limit:
        return []
    ordered = sorted(alive, key=lambda each: (revision_of(each), by_age(each)))
    return [
        each
        for each in ordered[: len(alive) - limit]
        if not each.spec.replicas
        and not each.status.replicas
        and each.metadata.generation <= each.status.observed_generation
    ]
