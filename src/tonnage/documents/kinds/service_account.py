"""ServiceAccount. Its effect on pods stands in `documents/admission.py`, its tokens in `documents/access`."""

from __future__ import annotations

from tonnage.documents.strategy import Strategy
from tonnage.objects.document import Doc


class ServiceAccountStrategy(Strategy):
    """Of a reference to a Secret only the name is kept."""

    def prepare_create(self, doc: Doc) -> None:
        for reference in doc.get("secrets", ()):
            for field in reference.keys() - {"name"}:
                del reference[field]

    def prepare_update(self, new: Doc, old: Doc) -> None:
        self.prepare_create(new)
