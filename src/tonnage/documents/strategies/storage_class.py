"""StorageClass: nothing that decides about existing volumes may change, only who may grow, mount and where.

VolumeAttributesClass: nothing may change but its metadata; other attributes are another class.
"""

from __future__ import annotations

from tonnage.documents.defaults.storage import default_storage_class
from tonnage.documents.strategies.base import Strategy
from tonnage.documents.validation.selectors import topology_term_warnings
from tonnage.documents.validation.storage import (
    validate_storage_class,
    validate_storage_class_update,
    validate_volume_attributes_class,
    validate_volume_attributes_class_update,
)
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors


class StorageClassStrategy(Strategy):
    def default(self, doc: Doc) -> None:
        default_storage_class(doc)

    def validate(self, doc: Doc) -> Errors:
        return validate_storage_class(doc)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return validate_storage_class_update(new, old)

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        terms = new.get("allowedTopologies", [])
        return [
            told for idx, term in enumerate(terms) for told in topology_term_warnings(term, f"allowedTopologies[{idx}]")
        ]


class VolumeAttributesClassStrategy(Strategy):
    def validate(self, doc: Doc) -> Errors:
        return validate_volume_attributes_class(doc)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return validate_volume_attributes_class_update(new, old)
