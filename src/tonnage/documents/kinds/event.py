"""Event, for both of its APIs: lenient for the core API, strict for events.k8s.io.

Events are stored in the core shape, which the strategy sees; events.k8s.io renames half of the fields (`to_events_v1`
and `from_events_v1` are lossless). An event with an `eventTime` must name its reporter and action; events.k8s.io
accepts no other events, and only their series may change.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import ClassVar

from tonnage.documents.strategy import Strategy
from tonnage.documents.validation.internal_form import internal
from tonnage.objects import names
from tonnage.objects.document import Doc, copy, same
from tonnage.objects.field_errors import Errors, invalid, required
from tonnage.objects.field_rules import Asked, Rule, Rules, check, immutable, needed, part, sentences
from tonnage.objects.resources import Resource

_OBJECT_FIELDS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_FIXED = (
    *("involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type"),
    *("eventTime", "action", "related", "reportingComponent", "reportingInstance"),
)
# Messages of an update show this field under the new API's name.
_SHOWN = {"reportingComponent": "reportingController"}
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
FIELD_LABELS = {f"regarding.{field}": f"involvedObject.{field}" for field in _OBJECT_FIELDS} | {
    "reportingController": "reportingComponent",
    "reason": "reason",
    "type": "type",
}
"""Field selectors of events.k8s.io in the names of the core shape, which can also select by `source`."""
_CORE_TIMES = ("firstTimestamp", "lastTimestamp", "eventTime")
_NEW_TIMES = ("deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime")


class EventStrategy(Strategy):
    """Its resource decides how strict it is: events.k8s.io requires more than the core API."""

    create_on_update = True
    propagates = False
    selectable = (
        *(f"involvedObject.{field}" for field in _OBJECT_FIELDS),
        *("reason", "reportingComponent", "source", "type"),
    )
    selected_at: ClassVar[dict[str, str]] = {"source": "source.component"}
    stands_in: ClassVar[dict[str, str]] = {"source": "reportingComponent"}
    """An event created by the newer API has no source. Mirrors ToSelectableFields."""

    @property
    def is_strict(self) -> bool:
        return self.resource.group == "events.k8s.io"

    def validate(self, doc: Doc) -> Errors:
        errors = _validate_legacy(doc, strict=self.is_strict)
        return errors + check(doc, "", _STRICT) if self.is_strict else errors

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        errors = _validate_legacy(new, strict=self.is_strict)
        if not self.is_strict:
            return errors
        if not same(new.get("series"), old.get("series")):
            errors += check(new, "", {"series": _SERIES})
        for field in _FIXED:
            now, before = new.get(field), old.get(field)
            if field in ("involvedObject", "related") and not same(now, before):
                now, before = internal("ObjectReference", now), internal("ObjectReference", before)
            errors += immutable(_SHOWN.get(field, field), now, before)
        return errors


def _validate_legacy(doc: Doc, *, strict: bool) -> Errors:
    errors: Errors = []
    namespace = doc["metadata"].get("namespace", "")
    about = doc.get("involvedObject", {}).get("namespace", "")
    mismatch = invalid("involvedObject.namespace", about, "does not match event.namespace")
    if not doc.get("eventTime"):
        # An event about an object without a namespace belongs to "default".
        if (about or "default") != namespace and (about or namespace):
            errors.append(mismatch)
    else:
        if not about and namespace not in ("default", "kube-system"):
            errors.append(mismatch)
        reporter, at = doc.get("reportingComponent", ""), "reportingController" if strict else "reportingComponent"
        errors += [] if reporter else [required(at)]
        errors += sentences(at, reporter, names.qualified_name(reporter)) + check(doc, "", _REPORT)
    return errors + sentences("namespace", namespace, names.dns_subdomain(namespace))


def _at_most(limit: int) -> Rule:
    told = f"can have at most {limit} characters"
    return lambda text, at: [invalid(at, "", told)] if len(text.encode()) > limit else []


def _unset(value: object, at: str) -> Errors:
    return [invalid(at, "", "needs to be unset")] if value else []


_REPORT: Rules = {
    **dict.fromkeys(("reportingInstance", "action", "reason"), needed(_at_most(128))),
    "message": _at_most(1024),
}
_SERIES = part(
    {
        "count": Asked(lambda count, at: [] if count >= 2 else [invalid(at, "", "should be at least 2")], 0),
        "lastObservedTime": needed(),
    }
)
_STRICT: Rules = {
    "series": _SERIES,
    "eventTime": needed(),
    "type": Asked(
        lambda kind, at: [] if kind in ("Normal", "Warning") else [invalid(at, "", f"has invalid value: {kind}")]
    ),
    **dict.fromkeys(("firstTimestamp", "lastTimestamp", "count", "source"), _unset),
}


def to_stored(resource: Resource, doc: Doc) -> Doc:
    return doc if resource.stored_as is None else from_events_v1(doc)


def from_stored(resource: Resource, doc: Doc) -> Doc:
    if resource.stored_as is None:
        return doc
    converted = to_events_v1(doc)
    for field in ("reportingController", "reportingInstance"):  # the core API writes them empty, this one does not
        if converted.get(field) == "":
            del converted[field]
    return converted


def with_null_times(resource: Resource, event: Doc) -> Doc:
    """An Event with null for missing times: `kubectl get events --sort-by=.lastTimestamp` needs them."""
    times = _CORE_TIMES if resource.stored_as is None else _NEW_TIMES
    return event | {field: None for field in times if field not in event}


def field_labels(resource: Resource, selectable: Iterable[str]) -> dict[str, str]:
    """The fields that clients of this resource may select by, beside metadata: their label -> the stored shape's."""
    return {label: label for label in selectable} if resource.stored_as is None else dict(FIELD_LABELS)


def _renamed(event: Doc, names: dict[str, str], api_version: str) -> Doc:
    shaped: Doc = {names.get(field, field): value for field, value in copy(event).items()}
    if "apiVersion" in shaped:
        shaped["apiVersion"] = api_version
    return shaped


to_events_v1 = partial(_renamed, names=_RENAMED, api_version="events.k8s.io/v1")
from_events_v1 = partial(_renamed, names={new: old for old, new in _RENAMED.items()}, api_version="v1")
