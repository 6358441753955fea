"""Deployment, the decision: the sizes of its ReplicaSets, and their revisions.

A rolling update has two limits: at most `replicas + maxSurge` pods, at least `replicas - maxUnavailable` available
ones. The new set grows up to the first; old sets shrink down to the second, useless pods first. If the Deployment is
scaled meanwhile, all sets are scaled in proportion.

A ReplicaSet's name follows from its template, so creating it twice makes one. The set with the Deployment's template
always has the highest revision; a set that is returned to gets a new number and remembers its old ones. Mirrors
rolling.go, sync.go and util/deployment_util.go of pkg/controller/deployment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tonnage.behaviour.workloads import pod_states, templates
from tonnage.objects.apps_v1 import Deployment, ReplicaSet
from tonnage.objects.codec import to_doc
from tonnage.objects.document import Doc, copy, same
from tonnage.quantity import whole_number

POD_TEMPLATE_HASH: Final = "pod-template-hash"
_MAX_NAME: Final = 253


def replica_set_for(deployment: Deployment, replicas: int) -> Doc:
    """The set as its Deployment creates it, without the annotations that count revisions."""
    name = templates.template_hash(deployment.spec.template, deployment.status.collision_count)
    template: Doc = copy(dict(deployment.spec.template))
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    labels[POD_TEMPLATE_HASH] = name
    selector = to_doc(deployment.spec.selector) if deployment.spec.selector is not None else {}
    selector["matchLabels"] = {**selector.get("matchLabels", {}), POD_TEMPLATE_HASH: name}
    spec: Doc = {"replicas": replicas, "selector": selector, "template": template}
    if deployment.spec.min_ready_seconds:
        spec["minReadySeconds"] = deployment.spec.min_ready_seconds
    metadata: Doc = {
        "name": f"{deployment.name[: _MAX_NAME - 1 - len(name)]}-{name}",
        "namespace": deployment.namespace,
        "labels": dict(labels),
        "ownerReferences": [to_doc(templates.controller_ref(deployment))],
    }
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}


DESIRED_REPLICAS: Final = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS: Final = "deployment.kubernetes.io/max-replicas"
MOST_REPLICAS: Final = 2**31 - 1
"""The largest `spec.replicas` and number of a status; with a surge, a sum may be more."""

Sizes = dict[str, int]
"""Number of pods by name of the ReplicaSet."""


# -- the fences -------------------------------------------------------------------------------------------------------


def is_rolling(deployment: Deployment) -> bool:
    return deployment.spec.strategy.type == "RollingUpdate"


def fenceposts(max_surge: int | str, max_unavailable: int | str, replicas: int) -> tuple[int, int]:
    """(surge, unavailable) as counts: surge rounds up, unavailable down; both zero would be a standstill."""
    surge = pod_states.scaled_value(max_surge, replicas, round_up=True)
    unavailable = pod_states.scaled_value(max_unavailable, replicas, round_up=False)
    return surge, unavailable if surge or unavailable else 1


def max_surge(deployment: Deployment) -> int:
    return _fenceposts_of(deployment)[0]


def max_unavailable(deployment: Deployment) -> int:
    return min(_fenceposts_of(deployment)[1], deployment.spec.replicas)


def _fenceposts_of(deployment: Deployment) -> tuple[int, int]:
    limits = deployment.spec.strategy.rolling_update
    if not is_rolling(deployment):
        return 0, 0
    return fenceposts(limits.max_surge, limits.max_unavailable, deployment.spec.replicas)


def replicas_annotations(deployment: Deployment) -> dict[str, str]:
    """The Deployment's size as its sets note it, so that a later change is noticed and made in proportion."""
    replicas = deployment.spec.replicas
    return {DESIRED_REPLICAS: str(replicas), MAX_REPLICAS: str(replicas + max_surge(deployment))}


# -- new and old ------------------------------------------------------------------------------------------------------


def same_template(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """True if two templates ask for the same pods; our hash label does not count."""
    return same(_without_hash(one), _without_hash(other))


def split(deployment: Deployment, sets: Iterable[ReplicaSet]) -> tuple[ReplicaSet | None, list[ReplicaSet]]:
    """The set with the Deployment's template, the oldest of several; and all others, oldest first."""
    ordered = sorted(sets, key=templates.by_age)
    new = next((each for each in ordered if same_template(each.spec.template, deployment.spec.template)), None)
    return new, [replica_set for replica_set in ordered if replica_set is not new]


def is_scaling(deployment: Deployment, sets: Iterable[ReplicaSet]) -> bool:
    """True if the Deployment's size differs from the one that its sets with pods have noted."""
    noted = [_noted(replica_set, DESIRED_REPLICAS) for replica_set in sets if replica_set.spec.replicas > 0]
    return any(size is not None and size != deployment.spec.replicas for size in noted)


# -- a rolling update -------------------------------------------------------------------------------------------------


def new_size(deployment: Deployment, new: ReplicaSet | None, olds: Sequence[ReplicaSet]) -> int:
    """The size that the new set may have now; `new` is None before it is created.

    Stricter than upstream's NewRSNewReplicas, which uses the requested sizes: a set that was just made smaller may
    still have its pods, and a set whose controller has not seen its last size may yet create some. Here there are never
    more pods than the surge allows, at the price of one more step.
    """
    wanted = deployment.spec.replicas
    size = new.spec.replicas if new is not None else 0
    if not is_rolling(deployment) or size > wanted:
        return wanted
    sets = [*olds, new] if new is not None else olds
    if any(replica_set.status.observed_generation < replica_set.metadata.generation for replica_set in sets):
        return size
    held = sum(max(replica_set.spec.replicas, replica_set.status.replicas) for replica_set in sets)
    room = wanted + max_surge(deployment) - held
    return size if room <= 0 else size + min(room, wanted - size)


def shrink_old(deployment: Deployment, new: ReplicaSet, olds: Sequence[ReplicaSet]) -> Sizes:
    """The old sets that can be made smaller now. Mirrors reconcileOldReplicaSets."""
    sizes = {replica_set.name: replica_set.spec.replicas for replica_set in olds}
    min_available = deployment.spec.replicas - max_unavailable(deployment)
    # Unavailable pods of the new set must not let old ones go.
    new_unavailable = new.spec.replicas - new.status.available_replicas
    removable = sum(sizes.values()) + new.spec.replicas - min_available - new_unavailable
    if removable <= 0:
        return {}
    ordered = sorted(olds, key=templates.by_age)
    # First the useless: a set deletes its unready pods first.
    for replica_set in ordered:
        unhealthy = max(0, replica_set.spec.replicas - replica_set.status.available_replicas)
        taken = min(removable, unhealthy)
        sizes[replica_set.name] -= taken
        removable -= taken
    # A status may be older than the last change of size: pods about to go are not counted twice.
    available = sum(min(each.status.available_replicas, each.spec.replicas) for each in (*olds, new))
    spare = available - min_available
    for replica_set in ordered:
        taken = max(0, min(spare, sizes[replica_set.name]))
        sizes[replica_set.name] -= taken
        spare -= taken
    return {each.name: sizes[each.name] for each in olds if sizes[each.name] != each.spec.replicas}


# -- scaling ----------------------------------------------------------------------------------------------------------


def scaled(deployment: Deployment, new: ReplicaSet | None, olds: Sequence[ReplicaSet]) -> Sizes:
    """The size of every set after the Deployment was scaled, or while it is paused. Mirrors sync.go's scale."""
    wanted = deployment.spec.replicas
    sets = [*olds, new] if new is not None else list(olds)
    active = [replica_set for replica_set in sets if replica_set.spec.replicas > 0]
    if len(active) <= 1:
        only = active[0] if active else new or max(olds, key=templates.by_age, default=None)
        return {only.name: wanted} if only is not None else {}
    if new and new.spec.replicas == _noted(new, DESIRED_REPLICAS) == new.status.available_replicas == wanted:
        return {replica_set.name: 0 for replica_set in active if replica_set is not new}
    return _in_proportion(deployment, active) if is_rolling(deployment) else {}


def _in_proportion(deployment: Deployment, active: Sequence[ReplicaSet]) -> Sizes:
    wanted = deployment.spec.replicas
    allowed = wanted + max_surge(deployment) if wanted > 0 else 0
    to_add = allowed - sum(replica_set.spec.replicas for replica_set in active)
    # The largest first; of equals, the newer grow first and the older shrink first.
    ordered = sorted(sorted(active, key=templates.by_age, reverse=to_add > 0), key=lambda each: -each.spec.replicas)
    sizes: Sizes = {}
    added = 0
    for replica_set in ordered:
        fraction = _fraction(deployment, replica_set) if to_add != added else 0
        left = to_add - added
        part = 0 if to_add == 0 else min(fraction, left) if to_add > 0 else max(fraction, left)
        sizes[replica_set.name] = replica_set.spec.replicas + part
        added += part
    if to_add != 0:
        largest = ordered[0].name
        sizes[largest] = max(0, sizes[largest] + to_add - added)
    return {name: min(size, MOST_REPLICAS) for name, size in sizes.items()}


def _fraction(deployment: Deployment, each: ReplicaSet) -> int:
    """How many pods a set gains or loses: size * (max now / max before) - size, rounded half away from zero."""
    size, wanted = each.spec.replicas, deployment.spec.replicas
    if wanted == 0:
        return -size
    before = _noted(each, MAX_REPLICAS) or deployment.status.replicas
    if before == 0:
        return 0
    return (2 * size * (wanted + max_surge(deployment)) + before) // (2 * before) - size


def _noted(each: ReplicaSet, annotation: str) -> int | None:
    text = each.metadata.annotations.get(annotation, "")
    number = whole_number(text) if text.isascii() and text.isdecimal() else 2**31
    return number if number < 2**31 else None


def _without_hash(template: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = copy(dict(template))
    plain.get("metadata", {}).get("labels", {}).pop(POD_TEMPLATE_HASH, None)
    return plain


REVISION: Final = "deployment.kubernetes.io/revision"
REVISION_HISTORY: Final = "deployment.kubernetes.io/revision-history"
UNLIMITED: Final = 2**31 - 1
"""A limit or deadline of this size means none."""
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
    """0 if it has none, or one that is not a number."""
    text = found.metadata.annotations.get(REVISION, "")
    return whole_number(text) if text.isascii() and text.isdecimal() else 0


def next_revision(olds: Iterable[ReplicaSet]) -> int:
    return max(map(revision_of, olds), default=0) + 1


def annotations_for(deployment: Deployment, new: ReplicaSet | None, revision: int) -> dict[str, str]:
    """The annotations that the new set lacks, including its revision; `new` is None before it is created."""
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
    """The revisions that a set has had; the oldest are dropped when the text becomes too long."""
    revisions = [*filter(None, known.split(",")), revision]
    while len(",".join(revisions)) > _MAX_HISTORY_CHARS:
        revisions.pop(0)
    return ",".join(revisions)


def new_set(deployment: Deployment, replicas: int, revision: int) -> Doc:
    doc = replica_set_for(deployment, replicas)
    doc["metadata"]["annotations"] = annotations_for(deployment, None, revision)
    return doc


def outdated(deployment: Deployment, olds: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    """The sets beyond the history limit, lowest revision first; a set that has or may have pods stays."""
    limit = deployment.spec.revision_history_limit
    alive = [replica_set for replica_set in olds if not replica_set.metadata.is_terminating]
    if limit == UNLIMITED or len(alive) <= limit:
        return []
    ordered = sorted(alive, key=lambda each: (revision_of(each), templates.by_age(each)))
    return [
        replica_set
        for replica_set in ordered[: len(alive) - limit]
        if not replica_set.spec.replicas
        and not replica_set.status.replicas
        and replica_set.metadata.generation <= replica_set.status.observed_generation
    ]
