"""The rules of ResourceQuota. What it counts and refuses is `documents/quota/`."""

from __future__ import annotations

from tonnage.documents.defaults.amounts import round_amounts
from tonnage.documents.strategies.base import Strategy
from tonnage.documents.validation.resource_quota import (
    validate_resource_quota,
    validate_resource_quota_status,
    validate_resource_quota_update,
)
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors
from tonnage.quantity import Quantity

_NAMES = ("cpu", "memory", "storage", "ephemeral-storage")


class ResourceQuotaStrategy(Strategy):
    def default(self, doc: Doc) -> None:
        round_amounts(doc.get("spec", {}).get("hard"))
        for field in ("hard", "used"):
            round_amounts(doc.get("status", {}).get(field))

    def prepare_create(self, doc: Doc) -> None:
        doc["status"] = {}

    def validate(self, doc: Doc) -> Errors:
        return validate_resource_quota(doc)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return validate_resource_quota_update(new, old)

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        return validate_resource_quota_status(new)

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        """Of a new quota that lets be requested more than may be the limit."""
        hard = new.get("spec", {}).get("hard", {}) if old is None else {}
        told = []
        for name in _NAMES:
            request = f"requests.{name}" if f"requests.{name}" in hard or name not in ("cpu", "memory") else name
            limit = f"limits.{name}"
            if request in hard and limit in hard and Quantity.of(hard[request]) > Quantity.of(hard[limit]):
                told.append(f"ResourceQuota {request} ({hard[request]}) should be less than {limit} ({hard[limit]})")
        return told
