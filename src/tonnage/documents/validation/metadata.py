"""Validation of `metadata`, the same for every kind, and of selectors over labels, nodes and topology.

The verbs call `validate_object_meta` for a new object, `validate_object_meta_update` for a change. Before, they have
generated the name, set uid and creationTimestamp, and on an update copied the fields that the client left out. Mirrors
ValidateObjectMetaAccessor and ValidateObjectMetaAccessorUpdate, with the finalizer rule of built-in kinds. Upstream
repeats some causes on an update; here every error is reported once.

A selector that was stored before its values were validated stays writable: if the stored object has such values, the
caller drops the errors about them (`except_label_values`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tonnage.documents.strategy import TypeRules
from tonnage.objects import field_errors, names
from tonnage.objects import field_rules as rules
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, FieldError, Wrong, forbidden, invalid, required

ANNOTATIONS_MAX_BYTES = 256 * 1024
FIELD_MANAGER_MAX_BYTES = 128
_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"
STANDARD_FINALIZERS = frozenset({"kubernetes", _ORPHAN, _FOREGROUND})


def validate_object_meta(
    doc: Doc, *, namespaced: bool, name_rule: names.NameRule, are_finalizers_qualified: bool = True
) -> Errors:
    """The errors of a new object's metadata. Whatever the kind allows, the name must fit into a URL."""
    meta: Doc = doc.get("metadata", {})
    errors: Errors = []
    if prefix := meta.get("generateName"):
        errors += rules.sentences("metadata.generateName", prefix, names.name_prefix(prefix, name_rule))
    if name := meta.get("name"):
        errors += rules.sentences("metadata.name", name, name_rule(name) or names.path_segment(name))
    else:
        errors.append(field_errors.required("metadata.name", "name or generateName is required"))
    namespace = meta.get("namespace")
    if not namespaced:
        errors += [forbidden("metadata.namespace", "not allowed on this type")] if namespace else []
    else:
        errors += META(meta, "metadata", "namespace")
    errors += META(meta, "metadata", "generation..managedFields")
    return errors + _validate_finalizers(meta.get("finalizers", []), are_finalizers_qualified)


def validate_object_meta_update(new: Doc, old: Doc, *, are_finalizers_qualified: bool = True) -> Errors:
    """The errors of a change of metadata; `new` already has the stored generation and timestamps."""
    meta: Doc = new.get("metadata", {})
    before: Doc = old.get("metadata", {})
    errors = META(meta, "metadata", "labels..managedFields")
    finalizer_errors = _validate_finalizers(meta.get("finalizers", []), are_finalizers_qualified)
    if "deletionTimestamp" in before:
        added = sorted(set(meta.get("finalizers", [])) - set(before.get("finalizers", [])))
        if added:
            found = ", ".join(field_errors.go_value(finalizer) for finalizer in added)
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


def validate_annotations(annotations: dict[str, str], path: str) -> Errors:
    """Keys as for labels, but in upper or lower case; keys and values together are bounded, values are free."""
    errors: Errors = []
    for key in annotations:
        errors += rules.sentences(path, key, names.label_key(key.lower()))
    if byte_size(annotations) > ANNOTATIONS_MAX_BYTES:
        errors.append(field_errors.too_long(path, ANNOTATIONS_MAX_BYTES))
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
                found = f'Found "true" in references for {controller} and {current}'
                told = f"Only one reference can have Controller set to true. {found}"
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
            if len(errors) > field_errors.MAX_ERRORS_TOLD:
                break
        at += len(char.encode(errors="surrogatepass"))
    return errors


META = TypeRules(
    "meta.ObjectMeta",
    annotations=validate_annotations,
    ownerReferences=_validate_owners,
    managedFields=rules.each(TypeRules("meta.ManagedFieldsEntry", manager=validate_field_manager)),
)


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_ONE_VALUE_REQUIRED = "must be specified single value when `operator` is 'Lt' or 'Gt'"
_NO_OPERATOR = "not a valid selector operator"


_SELECTOR = TypeRules("meta.LabelSelector")
_VALUE = re.compile(r".*\.matchExpressions\[\d+\]\.values\[\d+\]")


def validate_label_selector(selector: Doc | None, path: str) -> Errors:
    """Mirrors ValidateLabelSelector of meta/v1; an absent selector is legal."""
    return [] if selector is None else _SELECTOR(selector, path)


def except_label_values(errors: Iterable[FieldError], path: str) -> Errors:
    """The errors without those about label values in the selectors at `path` and below."""
    return [error for error in errors if not (error.field.startswith(path) and _VALUE.fullmatch(error.field))]


def validate_node_selector(node_selector: Doc, path: str) -> Errors:
    """Mirrors ValidateNodeSelector: at least one term, all legal. An empty term is legal, and matches nothing."""
    terms, path = node_selector.get("nodeSelectorTerms", []), f"{path}.nodeSelectorTerms"
    if not terms:
        return [required(path, "must have at least one node selector term")]
    return rules.each(validate_node_selector_term)(terms, path)


def validate_node_selector_term(term: Doc, path: str) -> Errors:
    """Mirrors ValidateNodeSelectorTerm: requirements on labels, and on metadata.name, the only field."""
    errors = rules.each(_NODE_LABELS)(term.get("matchExpressions", []), f"{path}.matchExpressions")
    return errors + rules.each(_validate_node_field)(term.get("matchFields", []), f"{path}.matchFields")


def _validate_bound(requirement: Doc, path: str) -> Errors:
    is_bound = requirement.get("operator") in ("Gt", "Lt") and len(requirement.get("values", ())) != 1
    return [required(f"{path}.values", _ONE_VALUE_REQUIRED)] if is_bound else []


_NODE_LABELS = TypeRules("core.NodeSelectorRequirement", operator=rules.OfWhole(_validate_bound))


def _validate_node_field(requirement: Doc, path: str) -> Errors:
    errors: Errors = []
    operator, values = requirement.get("operator", ""), requirement.get("values", [])
    if operator not in ("In", "NotIn"):
        errors.append(invalid(f"{path}.operator", operator, _NO_OPERATOR))
    elif len(values) != 1:
        told = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required(f"{path}.values", told))
    key = requirement.get("key", "")
    if key != "metadata.name":
        return [*errors, invalid(f"{path}.key", key, "not a valid field selector key")]
    return errors + rules.each(rules.named(names.dns_subdomain))(values, f"{path}.values")


_TOPOLOGY_LABEL = TypeRules("core.TopologySelectorLabelRequirement")


def validate_topology_selector_term(term: Doc, path: str) -> Wrong:
    """Mirrors ValidateTopologySelectorTerm: unique keys, each with values, unique values."""
    unique_key = rules.unique()
    for idx, requirement in enumerate(term.get("matchLabelExpressions", [])):
        at = f"{path}.matchLabelExpressions[{idx}]"
        yield from _TOPOLOGY_LABEL(requirement, at)
        yield from unique_key(requirement.get("key", ""), f"{at}.key")


def affinity_terms(pod_spec: Doc) -> Iterator[Doc]:
    """The terms of a pod's affinity and anti-affinity to other pods, required or preferred."""
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity = pod_spec.get("affinity", {}).get(kind, {})
        yield from affinity.get(REQUIRED, ())
        yield from (preferred.get("podAffinityTerm", {}) for preferred in affinity.get(PREFERRED, ()))


def has_invalid_values(node_selector_terms: list[Doc]) -> bool:
    """True if a stored node selector has a label value that is invalid today. Then updates may keep it."""
    return any(
        names.label_value(value)
        for term in node_selector_terms
        for requirement in term.get("matchExpressions", [])
        for value in requirement.get("values", [])
    )


DEPRECATED_NODE_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}


def node_topology_warnings(selector: Doc) -> list[str]:
    """A warning for every deprecated node label in a selector over nodes."""
    return node_selector_term_warnings(selector, "nodeTopology") + [
        f"nodeTopology.matchLabels.{key}: {DEPRECATED_NODE_LABELS[key]}"
        for key in selector.get("matchLabels", {})
        if key in DEPRECATED_NODE_LABELS
    ]


def topology_term_warnings(term: Doc, path: str) -> list[str]:
    return [
        f"{path}.matchLabelExpressions[{idx}].key: {DEPRECATED_NODE_LABELS[requirement['key']]}"
        for idx, requirement in enumerate(term.get("matchLabelExpressions", []))
        if requirement.get("key") in DEPRECATED_NODE_LABELS
    ]


def node_selector_term_warnings(term: Doc, path: str) -> list[str]:
    return [
        f"{path}.matchExpressions[{idx}].key: {requirement['key']} is {DEPRECATED_NODE_LABELS[requirement['key']]}"
        for idx, requirement in enumerate(term.get("matchExpressions", []))
        if requirement.get("key") in DEPRECATED_NODE_LABELS
    ]
