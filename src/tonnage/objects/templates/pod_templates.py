"""Pods from templates, and short names for templates.

A template is a document and its pod is a copy of it: no field is lost that nobody here knows. `template_hash` is the
name that a template gets: the same for the same template on every machine and after every restart, so that who makes
something named by it finds it again. (The letters differ from those that a Go controller would choose, which hashes
how Go prints its structs; whoever compares templates compares them, not their hashes.)
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any, Final

from tonnage.fnv import fnv1, fnv1a
from tonnage.objects import codec
from tonnage.objects.document import Doc, copy
from tonnage.objects.meta import Object
from tonnage.objects.names import dns_subdomain
from tonnage.objects.templates.owner_references import controller_ref

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
