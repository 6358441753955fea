"""Lease: a lock that one holder has for a limited time."""

from __future__ import annotations

from tonnage.documents.strategy import Strategy
from tonnage.objects.document import Doc


class LeaseStrategy(Strategy):
    unconditional_update = False
    create_on_update = True

    def drop_disabled_fields(self, new: Doc, old: Doc) -> None:
        """Drop the fields of coordinated leader election, whose gate is closed on a stock server."""
        new["spec"].pop("strategy", None)
        new["spec"].pop("preferredHolder", None)
