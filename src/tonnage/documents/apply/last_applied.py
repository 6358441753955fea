"""The annotation in which client-side `kubectl apply` keeps what it applied, and how apply on the server respects it.

Someone who moves from `kubectl apply` to `kubectl apply --server-side` would run into conflicts with their former
self, known to the server as a manager that updated. So when the manager is `kubectl`, conflicts on fields that still
hold what the annotation says are pardoned, and the annotation is kept in step with what is applied now. Mirrors
upstream's lastappliedmanager and lastappliedupdater.
"""

from __future__ import annotations

import json

from tonnage.documents.apply.field_merge import misfit
from tonnage.documents.apply.field_set import FieldSet
from tonnage.documents.apply.field_shapes import UnnamedItem
from tonnage.documents.apply.field_walk import compare, field_set_of
from tonnage.documents.schema import Struct
from tonnage.objects.document import Doc, copy, dig
from tonnage.objects.texts.decode_budget import REQUEST, Budget, BudgetExceeded
from tonnage.objects.texts.json_text import read_json

KUBECTL = "kubectl"
ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
MAX_ANNOTATIONS_BYTES = 256 * 1024
"""All keys and values together; upstream's TotalAnnotationSizeLimitB."""


def unchanged_since(struct: Struct, live: Doc, api_version: str) -> FieldSet:
    """The fields the annotation sets and that still have the value it gave them. Empty when there is no sense in it."""
    text = dig(live, "metadata", "annotations", ANNOTATION)
    try:
        applied = read_json((text or "null").encode(), Budget(REQUEST))
    except (BudgetExceeded, ValueError):
        return FieldSet()
    if not isinstance(applied, dict) or applied.get("apiVersion") != api_version or misfit(struct, applied):
        return FieldSet()
    try:
        difference = compare(struct, applied, live)
        fields = field_set_of(struct, applied)
    except UnnamedItem:
        return FieldSet()
    return fields.difference(difference.modified).difference(difference.added).difference(difference.removed)


def renew(doc: Doc, config: Doc) -> None:
    """Write `config` into the annotation, in place, where there is one. One that grew too large is dropped."""
    annotations = dig(doc, "metadata", "annotations")
    if not annotations or not annotations.get(ANNOTATION):
        return
    stated: Doc = copy(config)
    if isinstance(dig(stated, "metadata", "annotations"), dict):
        stated["metadata"]["annotations"].pop(ANNOTATION, None)
    annotations[ANNOTATION] = _as_go_writes(stated)
    if sum(len(f"{name}{value}".encode()) for name, value in annotations.items()) > MAX_ANNOTATIONS_BYTES:
        del annotations[ANNOTATION]


def _as_go_writes(doc: Doc) -> str:
    """JSON with sorted keys, the three characters of HTML escaped, and a newline at the end."""
    text = json.dumps(doc, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026") + "\n"
