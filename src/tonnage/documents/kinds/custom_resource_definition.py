"""CustomResourceDefinition: defaults, validation, allowed changes, warnings.

A definition is deleted in two steps: it is marked and stays, with a finalizer, until its objects are gone. Conversion
by webhook is refused, because nothing here calls webhooks. As upstream, fields that all versions share are validated
once, under the paths of its internal version (`spec.validation`, `spec.subresources`), and an update may break rules
that the old definition already broke.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from tonnage.clock import rfc3339
from tonnage.documents.custom import definition_rules, schema_rules, validation
from tonnage.documents.strategy import Generation, Strategy, TypeRules, fill
from tonnage.objects import names
from tonnage.objects.document import Doc, dig, same
from tonnage.objects.field_errors import Errors, invalid, required
from tonnage.objects.field_rules import OfWhole, check, dns1035_label, needed, unchanged_fields

CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
APPROVED = "api-approved.kubernetes.io"
_SPEC = TypeRules("apiextensions.CustomResourceDefinitionSpec")
_CONVERSION = TypeRules("apiextensions.CustomResourceConversion")


class CustomResourceDefinitionStrategy(Strategy):
    generation = Generation.COUNTED
    unconditional_update = False
    are_finalizers_qualified = False

    def default(self, doc: Doc) -> None:
        spec = doc.setdefault("spec", {})
        named = spec.setdefault("names", {})
        if kind := named.get("kind", ""):
            fill(named, {"singular": kind.lower(), "listKind": f"{kind}List"})
        if spec.get("conversion") is None:
            spec["conversion"] = {"strategy": "None"}

    def prepare_create(self, doc: Doc) -> None:
        doc["status"] = {"acceptedNames": {"kind": "", "plural": ""}}
        definition_rules.record_stored_version(doc)

    def validate(self, doc: Doc) -> Errors:
        """Of metadata it checks the name, and the approval of protected groups."""
        errors = _name_errors(doc) + _spec_errors(doc.get("spec") or {})
        errors += self.validate_status(doc, doc) + _stored_version_errors(doc)
        return errors + _approval_errors(doc, None) + _preserve_errors(doc, None)

    def prepare_update(self, new: Doc, old: Doc) -> None:
        super().prepare_update(new, old)
        definition_rules.record_stored_version(new)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        errors = _spec_errors(new.get("spec") or {}, old.get("spec") or {})
        settled = ("spec.scope", "spec.names.kind") if definition_rules.is_established(old) else ()
        errors += unchanged_fields(new, old, *settled, "spec.group", "spec.names.plural")
        errors += self.validate_status(new, old) + _stored_version_errors(new)
        return errors + _approval_errors(new, old) + _preserve_errors(new, old)

    def prepare_status(self, new: Doc, old: Doc) -> None:
        super().prepare_status(new, old)
        if not new["status"].get("storedVersions"):
            definition_rules.record_stored_version(new)

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        return _NAMES(dig(new, "status", "acceptedNames") or {}, "status.acceptedNames")

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        """Warnings that the old definition had are not repeated."""
        before = set(_warnings(old)) if old is not None else set()
        return [told for told in _warnings(new) if told not in before]

    def holds_back_deletion(self, doc: Doc) -> bool:
        """The first DELETE always only marks a definition: its objects must go first."""
        return "deletionTimestamp" not in doc["metadata"]

    def prepare_deletion(self, doc: Doc) -> None:
        finalizers: list[str] = doc["metadata"].setdefault("finalizers", [])
        if CLEANUP_FINALIZER not in finalizers:
            finalizers.append(CLEANUP_FINALIZER)
        told = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        now = rfc3339(self.clock.now())
        definition_rules.set_condition(doc, "Terminating", "True", "InstanceDeletionPending", told, now)


def _warnings(definition: Doc) -> list[str]:
    formats: dict[str, None] = {}
    rules = 0
    for version in dig(definition, "spec", "versions") or ():
        for schema in schema_rules.walk_schema(dig(version, "schema", "openAPIV3Schema") or {}):
            types = (schema["type"],) if schema.get("type") else ()
            if schema.get("format") and not validation.known_format(schema, types):
                formats[f'unrecognized format "{schema["format"]}"'] = None
            rules += len(schema.get("x-kubernetes-validations") or ())
    told = [*formats]
    if rules:
        told.append("x-kubernetes-validations: this server stores CEL rules and does not evaluate them")
    return told


def _name_errors(definition: Doc) -> Errors:
    name: str = dig(definition, "metadata", "name") or ""
    prefix: str = dig(definition, "metadata", "generateName") or ""
    wanted = f"{dig(definition, 'spec', 'names', 'plural') or ''}.{dig(definition, 'spec', 'group') or ''}"
    told = 'must be spec.names.plural+"."+spec.group'
    errors = [invalid("metadata.generateName", prefix, told)] if prefix else []
    if name and name != wanted:
        errors.append(invalid("metadata.name", name, told))
    return errors


def _validate_kinds(named: Doc, path: str) -> Errors:
    if not named.get("kind") or named["kind"] != named.get("listKind"):
        return []
    return [invalid(f"{path}.listKind", named["listKind"], "kind and listKind may not be the same")]


_NAMES = TypeRules("apiextensions.CustomResourceDefinitionNames", shortNames=OfWhole(_validate_kinds))


def _approval_errors(new: Doc, old: Doc | None) -> Errors:
    """Groups of the Kubernetes community need the URL of a review, or the statement that there was none."""
    group: str = dig(new, "spec", "group") or ""
    if not (f".{group}".endswith(".k8s.io") or f".{group}".endswith(".kubernetes.io")):
        return []
    said = (dig(new, "metadata", "annotations") or {}).get(APPROVED, "")
    state = _approval(said)
    if old is not None and state == _approval((dig(old, "metadata", "annotations") or {}).get(APPROVED, "")):
        return []
    path, see = f"metadata.annotations[{APPROVED}]", "see https://github.com/kubernetes/enhancements/pull/1111"
    told = f'protected groups must have approval annotation "{APPROVED}"'
    if state == "missing":
        return [required(path, f"{told}, {see}")]
    if state == "invalid":
        return [invalid(path, said, f'{told} with either a URL or a reason starting with "unapproved", {see}')]
    return []


def _approval(said: str) -> str:
    if not said:
        return "missing"
    if said.startswith("unapproved"):
        return "bypassed"
    try:
        parts = urlsplit(said)
    except ValueError:
        return "invalid"
    return "approved" if parts.scheme and parts.netloc else "invalid"


def _preserve_errors(new: Doc, old: Doc | None) -> Errors:
    if not dig(new, "spec", "preserveUnknownFields") or (old and dig(old, "spec", "preserveUnknownFields")):
        return []
    told = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
    return [invalid("spec.preserveUnknownFields", True, told)]


def _stored_version_errors(definition: Doc) -> Errors:
    path, stored = "status.storedVersions", dig(definition, "status", "storedVersions") or []
    if not stored:
        return [invalid(path, None, "must have at least one stored version")]
    errors: Errors = []
    storage = definition_rules.storage_version(definition)
    if storage is not None and storage not in stored:
        errors.append(invalid(path, stored, f"must have the storage version {storage}"))
    known = {version.get("name") for version in dig(definition, "spec", "versions") or ()}
    for index, name in enumerate(stored):
        if name not in known:
            told = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions"
                f" until a storage migration ensures no data remains persisted in {name} and removes {name} from "
                "status.storedVersions"
            )
            errors.append(invalid(f"{path}[{index}]", name, told))
    return errors


def _spec_errors(spec: Doc, old: Doc | None = None) -> Errors:
    errors: Errors = []
    group: str = spec.get("group") or ""
    if not group:
        errors.append(required("spec.group"))
    elif wrong := names.dns_subdomain(group):
        errors.append(invalid("spec.group", group, ",".join(wrong)))
    elif "." not in group:
        errors.append(invalid("spec.group", group, "should be a domain with at least one dot"))
    errors += _SPEC(spec, "spec")

    versions: list[Doc] = spec.get("versions") or []
    for index, version in enumerate(versions):
        if dig(version, "schema", "openAPIV3Schema") is None:
            errors.append(required(f"spec.versions[{index}].schema.openAPIV3Schema"))
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        errors += dns1035_label(version.get("name") or "", f"{path}.name")
        errors += definition_rules.deprecation_errors(version, path)
    # The first version is reported again under `spec.version`, which held the only version before there were several.
    if versions and versions[0].get("name"):
        errors += dns1035_label(versions[0]["name"], "spec.version")
    for field, internal, judge in (
        ("schema", "validation", definition_rules.schema_errors),
        ("subresources", "subresources", definition_rules.subresource_errors),
        ("additionalPrinterColumns", "additionalPrinterColumns", definition_rules.column_errors),
        ("selectableFields", "selectableFields", definition_rules.selectable_errors),
    ):
        first = versions[0].get(field) if versions else None
        if first and all(same(version.get(field), first) for version in versions):  # upstream keeps it once
            errors += judge(versions[0], f"spec.{internal}", old)
        else:
            for index, version in enumerate(versions):
                errors += judge(version, f"spec.versions[{index}].{field}", old)

    if len({version.get("name") for version in versions}) != len(versions):
        errors.append(invalid("spec.versions", versions, "must contain unique version names"))
    if sum(1 for version in versions if version.get("storage")) != 1:
        told = "must have exactly one version marked as storage version"
        errors.append(invalid("spec.versions", spec.get("versions"), told))
    named = spec.get("names") or {}
    errors += check(named, "spec.names", dict.fromkeys(("plural", "singular", "kind", "listKind"), needed()))
    return errors + _NAMES(named, "spec.names") + _CONVERSION(spec.get("conversion") or {}, "spec.conversion")
