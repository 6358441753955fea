"""The rules of LimitRange. What it does to pods and claims is `documents/admission_plugins/limit_ranger.py`."""

from __future__ import annotations

from tonnage.documents.defaults.limit_range import default_limit_range
from tonnage.documents.strategies.base import Strategy
from tonnage.documents.validation.limit_range import validate_limit_range
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors


class LimitRangeStrategy(Strategy):
    create_on_update = True

    def default(self, doc: Doc) -> None:
        default_limit_range(doc)

    def validate(self, doc: Doc) -> Errors:
        return validate_limit_range(doc)
