"""What is made from templates: pods, claims of generic ephemeral volumes, names, owner references, and history.

A template is a document and its pod is a copy: unknown fields are kept. `template_hash` is the same for the same
template on every machine, so that an object named by it is found again. (The letters differ from a Go controller's,
which hashes how Go prints its structs.)

A StatefulSet or DaemonSet keeps every template it ever had as a ControllerRevision: a patch that restores the template,
and a growing number. A template that comes back gets its old revision with a new number. Mirrors GetPodFromTemplate,
history/controller_history.go, getStatefulSetRevisions and constructHistory.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from tonnage.behaviour.workloads.pod_states import LETTERS
from tonnage.objects import codec, core_v1, names
from tonnage.objects.apps_v1 import ControllerRevision, DaemonSet, StatefulSet
from tonnage.objects.document import Doc, copy, dig, same
from tonnage.objects.meta import Object, OwnerReference


def owner_ref(owner: Object) -> OwnerReference:
    """A reference to an owner that does not control the object."""
    resource = codec.resource_of(type(owner))
    return OwnerReference(api_version=resource.api_version, kind=resource.kind, name=owner.name, uid=owner.uid)


def controller_ref(owner: Object) -> OwnerReference:
    """A reference to the object's controller, of which there is at most one. Mirrors NewControllerRef.

    It blocks a foreground deletion of the owner until the object is gone.
    """
    return msgspec.structs.replace(owner_ref(owner), controller=True, block_owner_deletion=True)


def by_age(found: Object) -> tuple[float, str]:
    """Sort key: the oldest first, ties by name."""
    created_at = found.metadata.creation_timestamp
    return (created_at.timestamp() if created_at else 0.0, found.name)


def refers_to(reference: OwnerReference, owner: Object) -> bool:
    """True if a reference names an object of this kind and name, with any uid."""
    resource = codec.resource_of(type(owner))
    named = (reference.api_version, reference.kind, reference.name)
    return named == (resource.api_version, resource.kind, owner.name)


REVISION_HASH: Final = "controller-revision-hash"
"""The label with the revision of a pod or ControllerRevision."""


def pod_from_template(template: Mapping[str, Any], owner: Object) -> Doc:
    """A pod of this owner from its template; its creator gives it a name. Mirrors GetPodFromTemplate."""
    wanted = template.get("metadata", {})
    prefix = f"{owner.name}-"
    metadata: Doc = {
        "generateName": owner.name if names.dns_subdomain(f"{prefix}x") else prefix,
        "namespace": owner.namespace,
    }
    metadata |= {field: copy(wanted[field]) for field in ("labels", "annotations", "finalizers") if wanted.get(field)}
    metadata["ownerReferences"] = [codec.to_doc(controller_ref(owner))]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": copy(template.get("spec", {}))}


def template_hash(template: Mapping[str, Any], collision_count: int | None = None) -> str:
    """A few letters that stand for a template; another `collision_count` gives others."""
    data = canonical(template)
    if collision_count is not None:
        data += collision_count.to_bytes(8, "little")
    return _safe(names.fnv1a(data))


def revision_hash(data: Any, collision_count: int) -> str:
    """The same for the data of a ControllerRevision. Mirrors HashControllerRevision, letter by letter."""
    return _safe(names.fnv1(canonical(data) + str(collision_count).encode()))


def canonical(value: Any) -> bytes:
    """JSON with sorted fields and no blanks: equal documents are equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _safe(number: int) -> str:
    return "".join(LETTERS[ord(digit) % len(LETTERS)] for digit in str(number))


def claim_for(pod: core_v1.Pod, volume: core_v1.Volume) -> Doc:
    """The claim of an ephemeral volume: the template's spec, labels and annotations, owned by the pod."""
    template = volume.ephemeral.volume_claim_template if volume.ephemeral is not None else {}
    said = template.get("metadata") or {}
    metadata: Doc = {
        "name": volume.claim_name(pod.name),
        "namespace": pod.namespace,
        "ownerReferences": [codec.to_doc(controller_ref(pod))],
        **{part: dict(said[part]) for part in ("annotations", "labels") if said.get(part)},
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": dict(template.get("spec") or {}),
    }


Versioned = StatefulSet | DaemonSet
"""Workloads whose history is in ControllerRevisions."""

_MAX_PREFIX: Final = 223


def in_order(revisions: Iterable[ControllerRevision]) -> list[ControllerRevision]:
    return sorted(revisions, key=lambda each: (each.revision, *by_age(each)))


def data_of(owner: Versioned) -> Doc:
    """The patch that restores the owner's template, as Go writes it: upstream's clients compare bytes."""
    patch: Doc = _sorted({"spec": {"template": {**dict(owner.spec.template), "$patch": "replace"}}})
    return patch


def _sorted(value: Any) -> Any:
    """A deep copy with sorted keys."""
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, (list, tuple)) else value


def template_of(revision: ControllerRevision) -> Mapping[str, Any]:
    """A revision's template; empty for a revision that is not ours."""
    kept: Doc = dig(revision.data, "spec", "template") or {}
    return {field: value for field, value in kept.items() if field != "$patch"}


def equal_to(owner: Versioned, ordered: Sequence[ControllerRevision]) -> list[ControllerRevision]:
    """The revisions with the owner's present template: one, unless somebody copied it."""
    template = dict(owner.spec.template)
    return [revision for revision in ordered if same(template_of(revision), template)]


def wanted(owner: Versioned, ordered: Sequence[ControllerRevision]) -> tuple[ControllerRevision | None, int | None]:
    """The revision of the owner's template, None if it must be created; and its new number, None if that stays."""
    equal = equal_to(owner, ordered)
    number = ordered[-1].revision + 1 if ordered else 1
    if not equal:
        return None, number
    return equal[-1], None if equal[-1] is ordered[-1] else number


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
            "ownerReferences": [codec.to_doc(controller_ref(owner))],
        },
        "data": data,
        "revision": number,
    }


def outdated(
    owner: Versioned, ordered: Sequence[ControllerRevision], live: Collection[str]
) -> Sequence[ControllerRevision]:
    """The revisions beyond the history limit, oldest first; those in `live` are in use and do not count."""
    limit = owner.spec.revision_history_limit
    past = [revision for revision in ordered if revision.name not in live]
    return past[: len(past) - limit] if 0 <= limit < len(past) else []
