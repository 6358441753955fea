"""Node, as far as scheduling and storage depend on it; Namespace, ConfigMap, Secret and ServiceAccount.

A node may be created with its status. Mirrors ValidateNode and ValidateNodeUpdate with their paths: taints are reported
below `metadata`, where they once stood as an annotation.

Deletion makes a namespace Terminating, and it goes when its finalizers are empty (`finalize`). Sizes are bytes as
stored: of text its UTF-8, of base64 the decoded bytes. The shape of well-known Secret types is checked, but not whether
a key fits its certificate.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Container, Iterable
from typing import ClassVar

from tonnage.documents.kinds.networking import range_warnings
from tonnage.documents.strategy import Strategy, TypeRules
from tonnage.documents.validation.internal_form import internal
from tonnage.documents.validation.metadata import validate_qualified_finalizer
from tonnage.documents.validation.resources import validate_resource_quantity
from tonnage.objects import names
from tonnage.objects.document import REQUEST, Budget, BudgetExceeded, Doc, copy, dig, read_json, same
from tonnage.objects.field_errors import (
    Errors,
    Wrong,
    duplicate,
    forbidden,
    go_value,
    invalid,
    invalid_object,
    required,
    too_long,
)
from tonnage.objects.field_rules import (
    NOT_POSITIVE,
    each,
    immutable,
    is_dual_stack,
    sentences,
    unique,
    validate_cidr,
    validate_label_name,
)

_TAINT = TypeRules("core.Taint")
_FEATURE_MAX_BYTES = 253
_FEATURE = re.compile(r"[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*")


class NodeStrategy(Strategy):
    selectable = ("spec.unschedulable",)

    def default(self, doc: Doc) -> None:
        """Mirrors SetDefaults_NodeStatus, and the conversion that keeps podCIDR and podCIDRs equal."""
        spec, status = doc.setdefault("spec", {}), doc.setdefault("status", {})
        # `podCIDR` is the first of `podCIDRs`; if they differ `podCIDR` wins, because old clients write only that.
        single, ranges = spec.pop("podCIDR", ""), spec.get("podCIDRs", [])
        if single and ranges[:1] != [single]:
            ranges = spec["podCIDRs"] = [single]
        if ranges:
            spec["podCIDR"] = ranges[0]
        if "capacity" in status and "allocatable" not in status:
            status["allocatable"] = dict(status["capacity"])
        super().default(doc)

    def prepare_create(self, doc: Doc) -> None:
        # Fields of dynamic kubelet configuration, which no longer exists, are dropped.
        doc.get("spec", {}).pop("configSource", None)
        doc.get("status", {}).pop("config", None)

    def prepare_update(self, new: Doc, old: Doc) -> None:
        super().prepare_update(new, old)
        if "configSource" not in old.get("spec", {}):
            new.get("spec", {}).pop("configSource", None)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        errors = self.validate(new)
        told = {(error.reason, error.field, error.detail) for error in errors}
        again = self.validate_status(new, old)
        return errors + [error for error in again if (error.reason, error.field, error.detail) not in told]

    def prepare_status(self, new: Doc, old: Doc) -> None:
        super().prepare_status(new, old)
        if "config" not in old.get("status", {}):
            new.get("status", {}).pop("config", None)

    def validate(self, doc: Doc) -> Errors:
        """Validate a new node; it may have a status."""
        errors = [*_validate_taints(dig(doc, "spec", "taints") or []), *_validate_amounts(doc)]
        swap = dig(doc, "status", "nodeInfo", "swap", "capacity")
        if swap is not None and swap <= 0:
            errors.append(invalid("metadata.nodeSwapStatus.capacity", swap, NOT_POSITIVE))
        errors += _validate_declared_features(dig(doc, "status", "declaredFeatures") or [])
        return errors + _validate_pod_ranges(dig(doc, "spec", "podCIDRs") or [])

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        """The rules for a change through either endpoint; the main endpoint also has those of a new node."""
        errors = [*_validate_amounts(new)]
        errors += _validate_declared_features(dig(new, "status", "declaredFeatures") or [])
        is_repeated = unique()
        for idx, address in enumerate(dig(new, "status", "addresses") or []):
            shown = internal("NodeAddress", address)
            if is_repeated(go_value(shown), ""):
                errors.append(duplicate(f"status.addresses[{idx}]", shown))
        spec, before = new.get("spec", {}), old.get("spec", {})
        for field, shown in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
            if before.get(field) and spec.get(field) != before[field]:
                told = f'node updates may not change {shown} except from "" to valid'
                errors.append(forbidden(f"spec.{field}", told))
        errors += _validate_taints(spec.get("taints", []))
        if spec.get("externalID", "") != before.get("externalID", ""):
            errors.append(forbidden("spec.externalID", "may not be updated"))
        return errors

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        told: list[str] = []
        spec = new.get("spec", {})
        if "configSource" in spec:
            told.append("spec.configSource: the feature is removed")
        if spec.get("externalID"):
            told.append("spec.externalID: this field is deprecated, and is unused by Kubernetes")
        ranges = enumerate(spec.get("podCIDRs", []))
        return told + range_warnings((f"spec.podCIDRs[{idx}]", value) for idx, value in ranges)


def _validate_taints(taints: list[Doc]) -> Wrong:
    is_repeated = unique()
    for idx, taint in enumerate(taints):
        path = f"metadata.taints[{idx}]"
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        yield from validate_label_name(key, f"{path}.key")
        if told := names.label_value(value):
            yield invalid(f"{path}.value", value, ";".join(told))
        yield from _TAINT(taint, path)
        if is_repeated((key, effect), ""):
            yield duplicate(path, internal("Taint", taint), "taints must be unique by key and effect pair")


def _validate_amounts(doc: Doc) -> Wrong:
    for side in ("capacity", "allocatable"):
        for name, text in (dig(doc, "status", side) or {}).items():
            yield from validate_resource_quantity(name, text, f"status.{side}.{name}")


def _validate_declared_features(features: list[str]) -> Wrong:
    """Features have the right spelling, are sorted and unique. The second of two unsorted features gets the error."""
    path = "status.declaredFeatures"
    for idx, feature in enumerate(features):
        if len(feature.encode()) > _FEATURE_MAX_BYTES:
            told = f'invalid feature name "{feature}": must be no more than {_FEATURE_MAX_BYTES} characters'
            yield invalid(f"{path}[{idx}]", feature, told)
        elif not _FEATURE.fullmatch(feature):
            told = (
                f'invalid feature name "{feature}": must start with an UpperCamelCase segment, with subsequent '
                "segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric "
                "characters and slashes"
            )
            yield invalid(f"{path}[{idx}]", feature, told)
        following = features[idx + 1] if idx + 1 < len(features) else None
        if following == feature:
            yield duplicate(f"{path}[{idx + 1}]", following)
        elif following is not None and following < feature:
            yield invalid(f"{path}[{idx + 1}]", following, "list must be sorted alphabetically")


def _validate_pod_ranges(ranges: list[str]) -> Errors:
    path = "spec.podCIDRs"
    errors = each(validate_cidr)(ranges, path)
    if len(ranges) > 1 and not errors:
        bases = [value.partition("/")[0] for value in ranges]
        if len(ranges) > 2 or not is_dual_stack(bases):
            errors.append(invalid(path, ranges, "may specify no more than one CIDR for each IP family"))
    return errors


_NAME_LABEL = "kubernetes.io/metadata.name"
_FINALIZER = "kubernetes"


class NamespaceStrategy(Strategy):
    name_rule: ClassVar[Callable[[str], list[str]]] = staticmethod(names.dns_label)
    selectable = ("status.phase",)
    new_status: ClassVar[Doc] = {"phase": "Active"}

    def default(self, doc: Doc) -> None:
        """Every namespace has its name as a label, so that selectors can select namespaces by name."""
        super().default(doc)
        metadata = doc["metadata"]
        if metadata.get("name"):
            metadata["labels"] = {**metadata.get("labels", {}), _NAME_LABEL: metadata["name"]}

    def prepare_create(self, doc: Doc) -> None:
        super().prepare_create(doc)
        finalizers = doc.setdefault("spec", {}).get("finalizers", [])
        if _FINALIZER not in finalizers:
            doc["spec"]["finalizers"] = [*finalizers, _FINALIZER]

    def validate(self, doc: Doc) -> Errors:
        """As upstream, the path has no index."""
        finalizers = doc.get("spec", {}).get("finalizers", ())
        return [error for finalizer in finalizers for error in _validate_finalizer(finalizer, "spec.finalizers")]

    def prepare_update(self, new: Doc, old: Doc) -> None:
        super().prepare_update(new, old)
        spec = new.setdefault("spec", {})
        spec.pop("finalizers", None)
        if old.get("spec", {}).get("finalizers"):
            spec["finalizers"] = list(old["spec"]["finalizers"])

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        """Active until it is deleted, Terminating from then on."""
        phase = new.get("status", {}).get("phase", "")
        is_going = "deletionTimestamp" in new["metadata"]
        wanted = "Terminating" if is_going else "Active"
        told = f"may only be '{wanted}' if `deletionTimestamp` is {'not ' if is_going else ''}empty"
        return [] if phase == wanted else [invalid("status.Phase", phase, told)]

    def holds_back_deletion(self, doc: Doc) -> bool:
        return bool(doc.get("spec", {}).get("finalizers"))

    def prepare_deletion(self, doc: Doc) -> None:
        doc.setdefault("status", {})["phase"] = "Terminating"


def finalize(old: Doc, sent: Doc) -> Doc:
    """The namespace with the finalizers that a write to the finalize subresource asks for. Raises Invalid."""
    wanted = sent.get("spec", {}).get("finalizers", [])
    changed: Doc = copy(old)
    changed.setdefault("spec", {}).pop("finalizers", None)
    if wanted:
        changed["spec"]["finalizers"] = list(wanted)
    if errors := each(_validate_finalizer)(wanted, "spec.finalizers"):
        raise invalid_object("", "Namespace", old["metadata"]["name"], errors)
    return changed


def _validate_finalizer(finalizer: str, path: str) -> Errors:
    return sentences(path, finalizer, names.qualified_name(finalizer)) + validate_qualified_finalizer(finalizer, path)


MAX_BYTES = 1024 * 1024
_ACCOUNT_ANNOTATION = "kubernetes.io/service-account.name"
_FROZEN = "field is immutable when `immutable` is set"
_JSON_KEYS = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}


class ConfigMapStrategy(Strategy):
    def validate(self, doc: Doc) -> Errors:
        data, binary = doc.get("data", {}), doc.get("binaryData", {})
        errors = _validate_keys(data, "data", also_in=binary) + _validate_keys(binary, "binaryData")
        size = sum(len(value.encode()) for value in data.values()) + sum(map(_decoded_size, binary.values()))
        # Upstream reports this for the whole object, whose empty path is written so.
        return [*errors, too_long("[]", MAX_BYTES)] if size > MAX_BYTES else errors

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return _validate_frozen(new, old, ("data", "binaryData")) + self.validate(new)


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
        errors = _validate_keys(data, "data")
        if sum(map(_decoded_size, data.values())) > MAX_BYTES:
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
        return errors + _validate_frozen(new, old, ("data",)) + self.validate(new)


class ServiceAccountStrategy(Strategy):
    """Of a reference to a Secret only the name is kept."""

    def prepare_create(self, doc: Doc) -> None:
        for reference in doc.get("secrets", ()):
            for field in reference.keys() - {"name"}:
                del reference[field]

    def prepare_update(self, new: Doc, old: Doc) -> None:
        self.prepare_create(new)


def _validate_keys(data: Iterable[str], field: str, *, also_in: Container[str] = ()) -> Errors:
    errors: Errors = []
    for key in data:
        errors += sentences(f"{field}[{key}]", key, names.config_key(key))
        if key in also_in:
            errors.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    return errors


def _validate_frozen(new: Doc, old: Doc, fields: tuple[str, ...]) -> Errors:
    if not old.get("immutable"):
        return []
    errors = [] if new.get("immutable") else [forbidden("immutable", _FROZEN)]
    return errors + [forbidden(field, _FROZEN) for field in fields if not same(new.get(field), old.get(field))]


def _validate_json(data: dict[str, str], key: str) -> Errors:
    if key not in data:
        return [required(f"data[{key}]")]
    try:
        parsed = read_json(base64.b64decode(data[key]), Budget(REQUEST))
    except (BudgetExceeded, ValueError) as exc:
        return [invalid(f"data[{key}]", "<secret contents redacted>", str(exc))]
    told = "not a JSON object"
    return [] if isinstance(parsed, dict) else [invalid(f"data[{key}]", "<secret contents redacted>", told)]


def _decoded_size(encoded: str) -> int:
    """Decoded bytes of a base64 text, without decoding it: three for every four characters, less the padding."""
    return len(encoded) * 3 // 4 - encoded.count("=", -2)
