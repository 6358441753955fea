"""What is made from templates: pods, claims of generic ephemeral volumes, names, and references to the owner.

A template is a document and its pod is a copy of it: no field is lost that nobody here knows. `template_hash` is the
name that a template gets: the same for the same template on every machine and after every restart, so that who makes
something named by it finds it again. (The letters differ from those that a Go controller would choose, which hashes
how Go prints its structs; whoever compares templates compares them, not their hashes.)

By the garbage collector's rules, an object that refers to an owner goes when its owner goes. A plain reference says no
more than that. A controller reference also says who manages the object, of which there is one at most, and blocks a
deletion of the owner in the foreground until the object is gone.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any, Final

from tonnage.fnv import fnv1, fnv1a
from tonnage.objects import codec, scheme
from tonnage.objects.codec import to_doc
from tonnage.objects.core_v1 import Pod, Volume
from tonnage.objects.document import Doc, copy
from tonnage.objects.meta import Object, OwnerReference
from tonnage.objects.names import dns_subdomain


def owner_ref(owner: Object) -> OwnerReference:
    """A reference to an owner that does not manage the object."""
    resource = scheme.resource_of(type(owner))
    return OwnerReference(api_version=resource.api_version, kind=resource.kind, name=owner.name, uid=owner.uid)


def controller_ref(owner: Object) -> OwnerReference:
    """A reference to the controller that made the object. Mirrors NewControllerRef."""
    resource = scheme.resource_of(type(owner))
    return OwnerReference(
        api_version=resource.api_version,
        kind=resource.kind,
        name=owner.name,
        uid=owner.uid,
        controller=True,
        block_owner_deletion=True,
    )


def refers_to(reference: OwnerReference, owner: Object) -> bool:
    """Whether a reference names an object of this kind and name, in this life of it or an earlier one."""
    resource = scheme.resource_of(type(owner))
    named = (reference.api_version, reference.kind, reference.name)
    return named == (resource.api_version, resource.kind, owner.name)


REVISION_HASH: Final = "controller-revision-hash"
"""The label by which pods and ControllerRevisions say of which revision they are."""
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels: no words by accident. The alphabet of upstream's generated names."""
_MAX_GENERATED_BASE: Final = 63 - 5


def pod_from_template(template: Mapping[str, Any], owner: Object) -> Doc:
    """A pod of this owner as its template wants it; who makes it still names it. Mirrors GetPodFromTemplate."""
    wanted = template.get("metadata", {})
    metadata: Doc = {"generateName": _prefix(owner.name), "namespace": owner.namespace}
    metadata |= {field: copy(wanted[field]) for field in ("labels", "annotations", "finalizers") if wanted.get(field)}
    metadata["ownerReferences"] = [codec.to_doc(controller_ref(owner))]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": copy(template.get("spec", {}))}


def generated_name(prefix: str, rng: random.Random) -> str:
    """`prefix` and five letters, as the server would choose them.

    Chosen here, so that a create whose answer got lost can be looked up by its name.
    """
    return prefix[:_MAX_GENERATED_BASE] + "".join(rng.choice(_LETTERS) for _ in range(5))


def template_hash(template: Mapping[str, Any], collision_count: int | None = None) -> str:
    """A few letters that stand for a template; another `collision_count` gives others."""
    data = canonical(template)
    if collision_count is not None:
        data += collision_count.to_bytes(8, "little")
    return _safe(fnv1a(data))


def revision_hash(data: Any, collision_count: int) -> str:
    """The same for the data of a ControllerRevision. Mirrors HashControllerRevision, letter by letter."""
    return _safe(fnv1(canonical(data) + str(collision_count).encode()))


def canonical(value: Any) -> bytes:
    """JSON with sorted fields and no blanks: equal documents are equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _prefix(owner_name: str) -> str:
    prefix = f"{owner_name}-"
    return owner_name if dns_subdomain(f"{prefix}x") else prefix


def _safe(number: int) -> str:
    return "".join(_LETTERS[ord(digit) % len(_LETTERS)] for digit in str(number))


def claim_for(pod: Pod, volume: Volume) -> Doc:
    """The claim of an ephemeral volume: the template's spec, labels and annotations, and the pod as its owner."""
    template = volume.ephemeral.volume_claim_template if volume.ephemeral is not None else {}
    said = template.get("metadata") or {}
    metadata: Doc = {
        "name": volume.claim_name(pod.name),
        "namespace": pod.namespace,
        "ownerReferences": [to_doc(controller_ref(pod))],
        **{part: dict(said[part]) for part in ("annotations", "labels") if said.get(part)},
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": dict(template.get("spec") or {}),
    }
