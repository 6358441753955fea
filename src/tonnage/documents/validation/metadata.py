"""Validation of `metadata`, the same for every kind.

The verbs call `validate_object_meta` for a new object, `validate_object_meta_update` for a change. Before, they have
generated the name, set uid and creationTimestamp, and on an update copied the fields that the client left out. Mirrors
ValidateObjectMetaAccessor and ValidateObjectMetaAccessorUpdate, with the finalizer rule of built-in kinds. Upstream
repeats some causes on an update; here every error is reported once.
"""

from __future__ import annotations

from tonnage.documents.validation.type_rules import TypeRules
from tonnage.objects import field_rules as rules
from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import (
    MAX_ERRORS_TOLD,
    Errors,
    Wrong,
    forbidden,
    go_value,
    invalid,
    required,
    too_long,
)
from tonnage.objects.names import NameRule

ANNOTATIONS_MAX_BYTES = 256 * 1024
FIELD_MANAGER_MAX_BYTES = 128
_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"
STANDARD_FINALIZERS = frozenset({"kubernetes", _ORPHAN, _FOREGROUND})


def validate_object_meta(
    doc: Doc, *, namespaced: bool, name_rule: NameRule, are_finalizers_qualified: bool = True
) -> Errors:
    """The errors of a new object's metadata. Whatever the kind allows, the name must fit into a URL."""
    meta: Doc = doc.get("metadata", {})
    errors: Errors = []
    if prefix := meta.get("generateName"):
        errors += rules.sentences("metadata.generateName", prefix, names.name_prefix(prefix, name_rule))
    if name := meta.get("name"):
        errors += rules.sentences("metadata.name", name, name_rule(name) or names.path_segment(name))
    else:
        errors.append(required("metadata.name", "name or generateName is required"))
    namespace = meta.get("namespace")
    if not namespaced:
        errors += [forbidden("metadata.namespace", "not allowed on this type")] if namespace else []
    else:
        errors += _META(meta, "metadata", "namespace")
    errors += _META(meta, "metadata", "generation..managedFields")
    return errors + _validate_finalizers(meta.get("finalizers", []), are_finalizers_qualified)


def validate_object_meta_update(new: Doc, old: Doc, *, are_finalizers_qualified: bool = True) -> Errors:
    """The errors of a change of metadata; `new` already has the stored generation and timestamps."""
    meta: Doc = new.get("metadata", {})
    before: Doc = old.get("metadata", {})
    errors = _META(meta, "metadata", "labels..managedFields")
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
        errors += rules.immutable(f"metadata.{field}", meta.get(field, ""), before.get(field, ""))
    times = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
    return errors + rules.unchanged_fields(new, old, *(f"metadata.{field}" for field in times)) + finalizer_errors


def validate_labels(labels: dict[str, str], path: str) -> Errors:
    errors: Errors = []
    for key, value in labels.items():
        errors += rules.validate_label_name(key, path) + rules.sentences(path, value, names.label_value(value))
    return errors


def validate_annotations(annotations: dict[str, str], path: str) -> Errors:
    """Keys as for labels, but in upper or lower case; keys and values together are bounded, values are free."""
    errors: Errors = []
    for key in annotations:
        errors += rules.sentences(path, key, names.label_key(key.lower()))
    if byte_size(annotations) > ANNOTATIONS_MAX_BYTES:
        errors.append(too_long(path, ANNOTATIONS_MAX_BYTES))
    return errors


def byte_size(strings: dict[str, str]) -> int:
    return sum(len(key.encode()) + len(value.encode()) for key, value in strings.items())


def _validate_owners(owners: list[Doc], path: str) -> Wrong:
    """As upstream, every error stands at the list, without an index."""
    controller = ""
    shown: list[Doc] = []  # all owners, for every error about controllers: made once
    for owner in owners:
        api_version, kind = owner.get("apiVersion", ""), owner.get("kind", "")
        if not api_version.rpartition("/")[2] or api_version.count("/") > 1:
            yield invalid(f"{path}.apiVersion", api_version, "version must not be empty")
        for field in ("kind", "name", "uid"):
            if not owner.get(field):
                yield invalid(f"{path}.{field}", "", "must not be empty")
        if (api_version, kind) == ("v1", "Event"):
            told = "/v1, Kind=Event is disallowed from being an owner"
            yield invalid(path, _in_struct_order(owner), told)
        if owner.get("controller"):
            current = f"{kind}/{owner.get('name', '')}"
            if controller:
                told = (
                    "Only one reference can have Controller set to true. "
                    f'Found "true" in references for {controller} and {current}'
                )
                shown = shown or [_in_struct_order(other) for other in owners]
                yield invalid(path, shown, told)
            else:
                controller = current


def _in_struct_order(owner: Doc) -> Doc:
    order = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
    blank = {"apiVersion": "", "kind": "", "name": "", "uid": ""} | owner
    return {field: blank[field] for field in order if field in blank}


def _validate_finalizers(finalizers: list[str], are_qualified: bool) -> Errors:
    """`are_qualified`: finalizers that are not Kubernetes' own must have a domain and a slash."""
    path = "metadata.finalizers"
    errors: Errors = []
    for finalizer in finalizers:
        errors += rules.sentences(path, finalizer, names.qualified_name(finalizer))
    if _ORPHAN in finalizers and _FOREGROUND in finalizers:
        errors.append(invalid(path, finalizers, f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set"))
    return errors + (rules.each(validate_qualified_finalizer)(finalizers, path) if are_qualified else [])


def validate_qualified_finalizer(finalizer: str, path: str) -> Errors:
    if "/" in finalizer or finalizer in STANDARD_FINALIZERS:
        return []
    return [invalid(path, finalizer, "name is neither a standard finalizer name nor is it fully qualified")]


def validate_field_manager(manager: str, path: str) -> Errors:
    """A field manager's name, in managedFields and in the query of a write: printable, at most 128 bytes."""
    errors = rules.at_most_bytes(FIELD_MANAGER_MAX_BYTES)(manager, path)
    at = 0
    for char in manager:
        if not char.isprintable():
            errors.append(invalid(path, manager, f"invalid character U+{ord(char):04X} (at position {at})"))
            if len(errors) > MAX_ERRORS_TOLD:
                break
        at += len(char.encode(errors="surrogatepass"))
    return errors


_META = TypeRules(
    "meta.ObjectMeta",
    labels=validate_labels,
    annotations=validate_annotations,
    ownerReferences=_validate_owners,
    managedFields=rules.each(TypeRules("meta.ManagedFieldsEntry", manager=validate_field_manager)),
)
