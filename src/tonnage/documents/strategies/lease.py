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

    def drop_disabled_fields(self, new: Doc, old: Doc) -> None:
        """Those of coordinated leader election, which are closed on a stock server."""
        new["spec"].pop("strategy", None)
        new["spec"].pop("preferredHolder", None)

    def validate(self, doc: Doc) -> Errors:
        return validate_lease(doc)
