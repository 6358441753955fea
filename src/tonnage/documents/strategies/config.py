"""The rules of ConfigMap, Secret and ServiceAccount."""

from __future__ import annotations

import base64
from typing import ClassVar

from tonnage.documents.strategies.base import Strategy
from tonnage.documents.validation.config import (
    validate_config_map,
    validate_config_map_update,
    validate_secret,
    validate_secret_update,
)
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors


class ConfigMapStrategy(Strategy):
    def validate(self, doc: Doc) -> Errors:
        return validate_config_map(doc)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return validate_config_map_update(new, old)


class SecretStrategy(Strategy):
    """`stringData` is a way to write, never to read: it is folded into `data` when it arrives."""

    selectable: ClassVar[dict[str, tuple[str, ...]]] = {"type": ("type",)}

    def default(self, doc: Doc) -> None:
        if not doc.get("type"):
            doc["type"] = "Opaque"
        plain = doc.pop("stringData", None)
        if plain:
            encoded = {key: base64.b64encode(text.encode()).decode() for key, text in plain.items()}
            doc["data"] = {**doc.get("data", {}), **encoded}

    def validate(self, doc: Doc) -> Errors:
        return validate_secret(doc)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return validate_secret_update(new, old)


class ServiceAccountStrategy(Strategy):
    def prepare_create(self, doc: Doc) -> None:
        _keep_names_only(doc)

    def prepare_update(self, new: Doc, old: Doc) -> None:
        _keep_names_only(new)


def _keep_names_only(doc: Doc) -> None:
    """Of a reference to a Secret only the name counts."""
    for reference in doc.get("secrets", ()):
        for field in [field for field in reference if field != "name"]:
            del reference[field]
