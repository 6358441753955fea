"""ConfigMap, and the rules that it shares with Secret. Sizes are bytes as stored: of text its UTF-8, of base64 the
decoded bytes.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from tonnage.documents.strategy import Strategy
from tonnage.objects import names
from tonnage.objects.document import Doc, same
from tonnage.objects.field_errors import Errors, forbidden, invalid, too_long
from tonnage.objects.field_rules import sentences

MAX_BYTES = 1024 * 1024
_FROZEN = "field is immutable when `immutable` is set"


class ConfigMapStrategy(Strategy):
    def validate(self, doc: Doc) -> Errors:
        data, binary = doc.get("data", {}), doc.get("binaryData", {})
        errors = validate_data_keys(data, "data", also_in=binary) + validate_data_keys(binary, "binaryData")
        size = sum(len(value.encode()) for value in data.values()) + sum(map(decoded_size, binary.values()))
        # Upstream reports this for the whole object, whose empty path is written so.
        return [*errors, too_long("[]", MAX_BYTES)] if size > MAX_BYTES else errors

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return validate_frozen(new, old, ("data", "binaryData")) + self.validate(new)


def validate_data_keys(data: Iterable[str], field: str, *, also_in: Container[str] = ()) -> Errors:
    errors: Errors = []
    for key in data:
        errors += sentences(f"{field}[{key}]", key, names.config_key(key))
        if key in also_in:
            errors.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    return errors


def validate_frozen(new: Doc, old: Doc, fields: tuple[str, ...]) -> Errors:
    if not old.get("immutable"):
        return []
    errors = [] if new.get("immutable") else [forbidden("immutable", _FROZEN)]
    return errors + [forbidden(field, _FROZEN) for field in fields if not same(new.get(field), old.get(field))]


def decoded_size(encoded: str) -> int:
    """Decoded bytes of a base64 text, without decoding it: three for every four characters, less the padding."""
    return len(encoded) * 3 // 4 - encoded.count("=", -2)
