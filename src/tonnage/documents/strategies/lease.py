"""The rules of Lease, which leader election writes every few seconds."""

from __future__ import annotations

from tonnage.documents.strategies.base import Strategy
from tonnage.documents.validation.lease import validate_lease
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors


class LeaseStrategy(Strategy):
    unconditional_update = False
    create_on_update = True

    def default(self, doc: Doc) -> None:
        doc.setdefault("spec", {})

    def prepare_create(self, doc: Doc) -> None:
        _drop_coordination(doc)

    def prepare_update(self, new: Doc, old: Doc) -> None:
        _drop_coordination(new)

    def validate(self, doc: Doc) -> Errors:
        return validate_lease(doc)


def _drop_coordination(doc: Doc) -> None:
    """Fields of coordinated leader election, whose gate is closed on a stock server."""
    doc["spec"].pop("strategy", None)
    doc["spec"].pop("preferredHolder", None)
