"""One Event, two shapes: core/v1 and events.k8s.io/v1.

Events are stored in the core shape; the newer API renames half of the fields and calls the old ones deprecated. Both
functions are lossless, and each undoes the other. Series differ in nothing but the type's name.
"""

from __future__ import annotations

from tonnage.objects.document import Doc, copy

# core/v1 -> events.k8s.io/v1; every other field has the same name in both.
_RENAMED = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_RENAMED_BACK = {new: old for old, new in _RENAMED.items()}

FIELD_LABELS = {
    f"regarding.{field}": f"involvedObject.{field}"
    for field in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
} | {"reportingController": "reportingComponent", "reason": "reason", "type": "type"}
"""Field selectors of events.k8s.io in the words of the core shape, which can also select by `source`."""


def to_events_v1(event: Doc) -> Doc:
    """A stored Event as events.k8s.io/v1 shows it."""
    return _renamed(event, _RENAMED, "events.k8s.io/v1")


def from_events_v1(event: Doc) -> Doc:
    """An Event of events.k8s.io/v1 as it is stored."""
    return _renamed(event, _RENAMED_BACK, "v1")


def _renamed(event: Doc, names: dict[str, str], api_version: str) -> Doc:
    shaped: Doc = {names.get(field, field): value for field, value in copy(event).items()}
    if "apiVersion" in shaped:
        shaped["apiVersion"] = api_version
    return shaped
