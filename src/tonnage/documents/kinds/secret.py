"""Secret. The shape of well-known types is checked, but not whether a key fits its certificate."""

from __future__ import annotations

import base64

from tonnage.documents.kinds.config_map import MAX_BYTES, decoded_size, validate_data_keys, validate_frozen
from tonnage.documents.strategy import Strategy
from tonnage.objects.document import REQUEST, Budget, BudgetExceeded, Doc, read_json
from tonnage.objects.field_errors import Errors, invalid, required, too_long
from tonnage.objects.field_rules import immutable

_ACCOUNT_ANNOTATION = "kubernetes.io/service-account.name"
_JSON_KEYS = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}


class SecretStrategy(Strategy):
    """`stringData` can only be written: it is merged into `data` on arrival."""

    selectable = ("type",)

    def default(self, doc: Doc) -> None:
        super().default(doc)
        plain = doc.pop("stringData", None)
        if plain:
            encoded = {key: base64.b64encode(text.encode()).decode() for key, text in plain.items()}
            doc["data"] = {**doc.get("data", {}), **encoded}

    def validate(self, doc: Doc) -> Errors:
        data, kind = doc.get("data", {}), doc.get("type", "")
        errors = validate_data_keys(data, "data")
        if sum(map(decoded_size, data.values())) > MAX_BYTES:
            errors.append(too_long("data", MAX_BYTES))
        if kind == "kubernetes.io/service-account-token":
            if not doc["metadata"].get("annotations", {}).get(_ACCOUNT_ANNOTATION):
                errors.append(required(f"metadata.annotations[{_ACCOUNT_ANNOTATION}]"))
        elif kind in _JSON_KEYS:
            errors += _validate_json(data, _JSON_KEYS[kind])
        elif kind == "kubernetes.io/basic-auth":
            if not data.keys() & {"username", "password"}:
                errors += [required("data[username]"), required("data[password]")]
        elif kind == "kubernetes.io/ssh-auth":
            errors += [] if data.get("ssh-privatekey") else [required("data[ssh-privatekey]")]
        elif kind == "kubernetes.io/tls":
            errors += [required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data]
        return errors

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        errors = immutable("type", new.get("type", ""), old.get("type", ""))
        return errors + validate_frozen(new, old, ("data",)) + self.validate(new)


def _validate_json(data: dict[str, str], key: str) -> Errors:
    if key not in data:
        return [required(f"data[{key}]")]
    try:
        parsed = read_json(base64.b64decode(data[key]), Budget(REQUEST))
    except (BudgetExceeded, ValueError) as exc:
        return [invalid(f"data[{key}]", "<secret contents redacted>", str(exc))]
    told = "not a JSON object"
    return [] if isinstance(parsed, dict) else [invalid(f"data[{key}]", "<secret contents redacted>", told)]
