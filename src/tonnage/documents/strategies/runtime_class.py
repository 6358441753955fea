"""The rules of RuntimeClass. What it writes into pods is `documents/admission_plugins/runtime_class.py`."""

from __future__ import annotations

from tonnage.documents.defaults.amounts import round_amounts
from tonnage.documents.strategies.base import Strategy
from tonnage.documents.validation.runtime_class import validate_runtime_class, validate_runtime_class_update
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors


class RuntimeClassStrategy(Strategy):
    def default(self, doc: Doc) -> None:
        round_amounts(doc.get("overhead", {}).get("podFixed"))

    def validate(self, doc: Doc) -> Errors:
        return validate_runtime_class(doc)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return validate_runtime_class_update(new, old)
