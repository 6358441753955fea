"""The rules of Event, for both of its APIs. Documents are in the core shape by the time they come here."""

from __future__ import annotations

from typing import ClassVar

from tonnage.documents.strategies.base import Strategy
from tonnage.documents.validation.events import validate_event, validate_event_update
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors


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
        return validate_event(doc, strict=self.is_strict)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return validate_event_update(new, old, strict=self.is_strict)
