"""Event, for both of its APIs: lenient for the core API, strict for events.k8s.io.

Documents arrive in the core shape, whichever API they came through. An event with an `eventTime` is of the new kind
and has to say who reported what; through events.k8s.io nothing else is accepted, and of an existing event only its
series may change. Mirrors ValidateEventCreate and ValidateEventUpdate.
"""

from __future__ import annotations

from typing import ClassVar

from tonnage.documents.strategy import Strategy
from tonnage.documents.validation.internal_form import internal
from tonnage.documents.validation.metadata import immutable
from tonnage.objects import names
from tonnage.objects.document import Doc, same
from tonnage.objects.field_errors import Errors, invalid, required
from tonnage.objects.field_rules import sentences

_TEXT_MAX_BYTES, _NOTE_MAX_BYTES = 128, 1024
_FIXED = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
)
# These two keep the new API's name in messages of an update.
_SHOWN = {"reportingComponent": "reportingController"}


class EventStrategy(Strategy):
    """The resource it is made for says how strict it is: events.k8s.io asks for more than the core API."""

    create_on_update = True
    propagates = False
    selectable: ClassVar[dict[str, tuple[str, ...]]] = {
        **{
            f"involvedObject.{field}": ("involvedObject", field)
            for field in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        },
        "reason": ("reason",),
        "reportingComponent": ("reportingComponent",),
        "source": ("source", "component"),
        "type": ("type",),
    }

    stands_in: ClassVar[dict[str, str]] = {"source": "reportingComponent"}
    """An event made through the newer API has no source. Mirrors ToSelectableFields."""

    @property
    def is_strict(self) -> bool:
        return self.resource.group == "events.k8s.io"

    def default(self, doc: Doc) -> None:
        """These are written always, empty or not. (So are three times, as null, which we leave out.)"""
        doc.setdefault("source", {})
        doc.setdefault("reportingComponent", "")
        doc.setdefault("reportingInstance", "")

    def validate(self, doc: Doc) -> Errors:
        errors = _validate_legacy(doc, strict=self.is_strict)
        if not self.is_strict:
            return errors
        errors += _validate_series(doc)
        if not doc.get("eventTime"):
            errors.append(required("eventTime"))
        if doc.get("type") not in ("Normal", "Warning"):
            errors.append(invalid("type", "", f"has invalid value: {doc.get('type', '')}"))
        for field in ("firstTimestamp", "lastTimestamp", "count", "source"):
            if doc.get(field):
                errors.append(invalid(field, "", "needs to be unset"))
        return errors

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        errors = _validate_legacy(new, strict=self.is_strict)
        if not self.is_strict:
            return errors
        if not same(new.get("series"), old.get("series")):
            errors += _validate_series(new)
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
        # An event about something without a namespace belongs to "default".
        if (about or "default") != namespace and (about or namespace):
            errors.append(mismatch)
    else:
        if not about and namespace not in ("default", "kube-system"):
            errors.append(mismatch)
        errors += _validate_report(doc, "reportingController" if strict else "reportingComponent")
    return errors + sentences("namespace", namespace, names.dns_subdomain(namespace))


def _validate_report(doc: Doc, reporter_field: str) -> Errors:
    reporter = doc.get("reportingComponent", "")
    errors = [] if reporter else [required(reporter_field)]
    errors += sentences(reporter_field, reporter, names.qualified_name(reporter))
    for field in ("reportingInstance", "action", "reason"):
        text = doc.get(field, "")
        if not text:
            errors.append(required(field))
        if len(text.encode()) > _TEXT_MAX_BYTES:
            errors.append(invalid(field, "", f"can have at most {_TEXT_MAX_BYTES} characters"))
    if len(doc.get("message", "").encode()) > _NOTE_MAX_BYTES:
        errors.append(invalid("message", "", f"can have at most {_NOTE_MAX_BYTES} characters"))
    return errors


def _validate_series(doc: Doc) -> Errors:
    series = doc.get("series")
    if series is None:
        return []
    errors = [] if series.get("count", 0) >= 2 else [invalid("series.count", "", "should be at least 2")]
    return errors if series.get("lastObservedTime") else [*errors, required("series.lastObservedTime")]
