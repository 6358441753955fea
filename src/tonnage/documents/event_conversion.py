"""One Event, two shapes: core/v1 and events.k8s.io/v1.

Events are stored in the core shape; the newer API renames half of the fields and calls the old ones deprecated.
`to_events_v1` and `from_events_v1` are lossless, and each undoes the other. Series differ in nothing but the type's
name. `to_stored` and `from_stored` convert the documents of any resource: those of every other resource are stored as
they are.
"""

from __future__ import annotations

from collections.abc import Iterable

from tonnage.objects.document import Doc, copy
from tonnage.objects.resources import Resource

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


_CORE_TIMES = ("firstTimestamp", "lastTimestamp", "eventTime")
_NEW_TIMES = ("deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime")


def to_stored(resource: Resource, doc: Doc) -> Doc:
    """What a client of this resource sent, as it is stored."""
    return doc if resource.stored_as is None else from_events_v1(doc)


def from_stored(resource: Resource, doc: Doc) -> Doc:
    """A stored document under the field names of this resource."""
    if resource.stored_as is None:
        return doc
    converted = to_events_v1(doc)
    for field in ("reportingController", "reportingInstance"):  # the core API writes them empty, this one does not
        if converted.get(field) == "":
            del converted[field]
    return converted


def with_null_times(resource: Resource, event: Doc) -> Doc:
    """An Event with null for the times it does not have, as upstream serves both kinds.

    `kubectl get events --sort-by=.lastTimestamp` finds nothing at all where the field is missing.
    """
    times = _CORE_TIMES if resource.stored_as is None else _NEW_TIMES
    return event | {field: None for field in times if field not in event}


def field_labels(resource: Resource, selectable: Iterable[str]) -> dict[str, str]:
    """What clients of this resource may select by, beside metadata: their label -> the stored shape's."""
    return {label: label for label in selectable} if resource.stored_as is None else dict(FIELD_LABELS)


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
