"""What makes `metadata` legal: the part every kind has in common.

`validate_object_meta` judges a new object, `validate_object_meta_update` a change of one; the verbs call them for every
kind, so a strategy speaks of its own fields only. They expect what the verbs have done before: a name generated from
generateName, uid and creationTimestamp filled in, and on an update those that the client left out copied from the
stored object. Mirrors upstream's ValidateObjectMetaAccessor and ValidateObjectMetaAccessorUpdate, with the rule for
finalizers that the built-in kinds add. Upstream runs some rules up to four times on an update and repeats the cause
each time; a broken rule is told once here.
"""

from __future__ import annotations

from typing import Any

from tonnage.objects import names
from tonnage.objects.document import Doc, same
from tonnage.objects.field_errors import (
    MAX_ERRORS_TOLD,
    Errors,
    FieldError,
    forbidden,
    go_value,
    invalid,
    required,
    too_long,
)
from tonnage.objects.field_rules import NEGATIVE, validate_label_name
from tonnage.objects.names import NameRule

IMMUTABLE = "field is immutable"
ANNOTATIONS_MAX_BYTES = 256 * 1024

_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"
_STANDARD_FINALIZERS = frozenset({"kubernetes", _ORPHAN, _FOREGROUND})
_SUBRESOURCE_MAX_BYTES = 256
FIELD_MANAGER_MAX_BYTES = 128


def validate_object_meta(
    doc: Doc, *, namespaced: bool, name_rule: NameRule, are_finalizers_qualified: bool = True
) -> Errors:
    """Everything wrong with a new object's metadata. The name also has to fit into a URL, whatever the kind allows."""
    meta: Doc = doc.get("metadata", {})
    errors: Errors = []
    if prefix := meta.get("generateName"):
        told = names.name_prefix(prefix, name_rule)
        errors += [invalid("metadata.generateName", prefix, sentence) for sentence in told]
    if name := meta.get("name"):
        told = name_rule(name) or names.path_segment(name)
        errors += [invalid("metadata.name", name, sentence) for sentence in told]
    else:
        errors.append(required("metadata.name", "name or generateName is required"))
    errors += _validate_namespace(meta.get("namespace"), namespaced)
    if meta.get("generation", 0) < 0:
        errors.append(invalid("metadata.generation", meta["generation"], NEGATIVE))
    return errors + _validate_common(meta) + _validate_finalizers(meta.get("finalizers", []), are_finalizers_qualified)


def validate_object_meta_update(new: Doc, old: Doc, *, are_finalizers_qualified: bool = True) -> Errors:
    """Everything wrong with a change of metadata; `new` carries the stored generation and timestamps already."""
    meta: Doc = new.get("metadata", {})
    before: Doc = old.get("metadata", {})
    errors = _validate_common(meta)
    finalizer_errors = _validate_finalizers(meta.get("finalizers", []), are_finalizers_qualified)
    if "deletionTimestamp" in before:
        added = sorted(set(meta.get("finalizers", [])) - set(before.get("finalizers", [])))
        if added:
            found = ", ".join(go_value(finalizer) for finalizer in added)
            told = "no new finalizers can be added if the object is being deleted, found new finalizers "
            finalizer_errors.append(forbidden("metadata.finalizers", f"{told}[]string{{{found}}}"))
    if not meta.get("resourceVersion"):
        errors.append(invalid("metadata.resourceVersion", "", "must be specified for an update"))
    if meta.get("generation", 0) < before.get("generation", 0):
        errors.append(invalid("metadata.generation", meta.get("generation", 0), "must not be decremented"))
    for field in ("name", "namespace", "uid"):
        errors += immutable(f"metadata.{field}", meta.get(field, ""), before.get(field, ""))
    for field in ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        errors += immutable(f"metadata.{field}", meta.get(field), before.get(field))
    return errors + finalizer_errors


def validate_labels(labels: dict[str, str], path: str) -> Errors:
    errors: Errors = []
    for key, value in labels.items():
        errors += validate_label_name(key, path)
        errors += [invalid(path, value, sentence) for sentence in names.label_value(value)]
    return errors


def validate_annotations(annotations: dict[str, str], path: str) -> Errors:
    """Keys as for labels, but in any case; the sum of all keys and values is bounded, their form is free."""
    errors: Errors = []
    for key in annotations:
        errors += [invalid(path, key, sentence) for sentence in names.label_key(key.lower())]
    if byte_size(annotations) > ANNOTATIONS_MAX_BYTES:
        errors.append(too_long(path, ANNOTATIONS_MAX_BYTES))
    return errors


def byte_size(strings: dict[str, str]) -> int:
    """The bytes of all keys and values together."""
    return sum(len(key.encode()) + len(value.encode()) for key, value in strings.items())


def immutable(path: str, new: Any, old: Any) -> Errors:
    """One error when a value differs from the stored one; the new value is shown."""
    return [] if same(new, old) else [invalid(path, new, IMMUTABLE)]


def _validate_namespace(namespace: str | None, namespaced: bool) -> Errors:
    if not namespaced:
        return [forbidden("metadata.namespace", "not allowed on this type")] if namespace else []
    if not namespace:
        return [required("metadata.namespace")]
    return [invalid("metadata.namespace", namespace, sentence) for sentence in names.dns_label(namespace)]


def _validate_common(meta: Doc) -> Errors:
    """The rules that hold at creation and ever after, finalizers apart."""
    return (
        validate_labels(meta.get("labels", {}), "metadata.labels")
        + validate_annotations(meta.get("annotations", {}), "metadata.annotations")
        + _validate_owners(meta.get("ownerReferences", []))
        + _validate_managed_fields(meta.get("managedFields", []))
    )


def _validate_owners(owners: list[Doc]) -> Errors:
    # Upstream gives no index: every error stands at the list.
    path = "metadata.ownerReferences"
    errors: Errors = []
    controller = ""
    shown: list[Doc] = []  # all owners, in every error about controllers: made once
    for owner in owners:
        api_version, kind = owner.get("apiVersion", ""), owner.get("kind", "")
        if not api_version.rpartition("/")[2] or api_version.count("/") > 1:
            errors.append(invalid(f"{path}.apiVersion", api_version, "version must not be empty"))
        for field in ("kind", "name", "uid"):
            if not owner.get(field):
                errors.append(invalid(f"{path}.{field}", "", "must not be empty"))
        if (api_version, kind) == ("v1", "Event"):
            told = "/v1, Kind=Event is disallowed from being an owner"
            errors.append(invalid(path, _in_struct_order(owner), told))
        if owner.get("controller"):
            current = f"{kind}/{owner.get('name', '')}"
            if controller:
                told = (
                    "Only one reference can have Controller set to true. "
                    f'Found "true" in references for {controller} and {current}'
                )
                shown = shown or [_in_struct_order(each) for each in owners]
                errors.append(invalid(path, shown, told))
            else:
                controller = current
    return errors


def _in_struct_order(owner: Doc) -> Doc:
    order = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
    blank = {"apiVersion": "", "kind": "", "name": "", "uid": ""} | owner
    return {field: blank[field] for field in order if field in blank}


def _validate_finalizers(finalizers: list[str], are_qualified: bool) -> Errors:
    """`are_qualified`: those that are not Kubernetes' own must have a domain and a slash."""
    path = "metadata.finalizers"
    errors: Errors = []
    for finalizer in finalizers:
        errors += [invalid(path, finalizer, sentence) for sentence in names.qualified_name(finalizer)]
    if _ORPHAN in finalizers and _FOREGROUND in finalizers:
        told = f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set"
        errors.append(invalid(path, finalizers, told))
    for idx, finalizer in enumerate(finalizers):
        if are_qualified and "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            told = "name is neither a standard finalizer name nor is it fully qualified"
            errors.append(invalid(f"{path}[{idx}]", finalizer, told))
    return errors


def _validate_managed_fields(entries: list[Doc]) -> Errors:
    errors: Errors = []
    for idx, entry in enumerate(entries):
        path = f"metadata.managedFields[{idx}]"
        if entry.get("operation") not in ("Apply", "Update"):
            errors.append(invalid(f"{path}.operation", entry.get("operation", ""), "must be `Apply` or `Update`"))
        if entry.get("fieldsType", "FieldsV1") not in ("", "FieldsV1"):
            errors.append(invalid(f"{path}.fieldsType", entry["fieldsType"], "must be `FieldsV1`"))
        errors += validate_field_manager(entry.get("manager", ""), f"{path}.manager")
        if len(entry.get("subresource", "").encode()) > _SUBRESOURCE_MAX_BYTES:
            errors.append(too_long(f"{path}.subresource", _SUBRESOURCE_MAX_BYTES))
    return errors


def validate_field_manager(manager: str, path: str) -> Errors:
    """The name a writer gives itself, in managedFields and in the query of a write: printable, at most 128 bytes."""
    errors: list[FieldError] = []
    if len(manager.encode()) > FIELD_MANAGER_MAX_BYTES:
        errors.append(too_long(path, FIELD_MANAGER_MAX_BYTES))
    at = 0
    for char in manager:
        if not char.isprintable():
            errors.append(invalid(path, manager, f"invalid character U+{ord(char):04X} (at position {at})"))
            if len(errors) > MAX_ERRORS_TOLD:
                break
        at += len(char.encode(errors="surrogatepass"))
    return errors
