"""Validation of label selectors, node selectors and topology terms, and warnings about deprecated node labels.

A selector that was stored before its values were validated stays writable: the rules take `allow_invalid_values`, which
the caller sets on an update if the stored object has such values.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tonnage.documents.validation.metadata import validate_labels
from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, Wrong, forbidden, invalid, required
from tonnage.objects.field_rules import each, named, unique, validate_label_name

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_VALUES_REQUIRED = "must be specified when `operator` is 'In' or 'NotIn'"
_VALUES_FORBIDDEN = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
_ONE_VALUE_REQUIRED = "must be specified single value when `operator` is 'Lt' or 'Gt'"
_NO_OPERATOR = "not a valid selector operator"


def validate_label_selector(selector: Doc | None, path: str, *, allow_invalid_values: bool = False) -> Errors:
    """Mirrors ValidateLabelSelector of meta/v1; an absent selector is legal."""
    if selector is None:
        return []
    errors = validate_labels(selector.get("matchLabels", {}), f"{path}.matchLabels")
    requirement = partial(_validate_requirement, allow_invalid_values=allow_invalid_values)
    return errors + each(requirement)(selector.get("matchExpressions", []), f"{path}.matchExpressions")


def _validate_requirement(requirement: Doc, path: str, *, allow_invalid_values: bool, of_node: bool = False) -> Errors:
    """One requirement on labels; a node selector's requirement may also compare numbers."""
    operator, values = requirement.get("operator", ""), requirement.get("values", [])
    errors: Errors = []
    if operator in ("In", "NotIn"):
        errors += [] if values else [required(f"{path}.values", _VALUES_REQUIRED)]
    elif operator in ("Exists", "DoesNotExist"):
        errors += [forbidden(f"{path}.values", _VALUES_FORBIDDEN)] if values else []
    elif of_node and operator in ("Gt", "Lt"):
        errors += [required(f"{path}.values", _ONE_VALUE_REQUIRED)] if len(values) != 1 else []
    else:
        errors.append(invalid(f"{path}.operator", operator, _NO_OPERATOR))
    errors += validate_label_name(requirement.get("key", ""), f"{path}.key")
    return errors if allow_invalid_values else errors + each(named(names.label_value))(values, f"{path}.values")


def validate_node_selector(node_selector: Doc, path: str, *, allow_invalid_values: bool = False) -> Errors:
    """Mirrors ValidateNodeSelector: at least one term, all legal. An empty term is legal, and matches nothing."""
    terms, path = node_selector.get("nodeSelectorTerms", []), f"{path}.nodeSelectorTerms"
    if not terms:
        return [required(path, "must have at least one node selector term")]
    return each(partial(validate_node_selector_term, allow_invalid_values=allow_invalid_values))(terms, path)


def validate_node_selector_term(term: Doc, path: str, *, allow_invalid_values: bool = False) -> Errors:
    """Mirrors ValidateNodeSelectorTerm: requirements on labels, and on metadata.name, the only field."""
    requirement = partial(_validate_requirement, allow_invalid_values=allow_invalid_values, of_node=True)
    errors = each(requirement)(term.get("matchExpressions", []), f"{path}.matchExpressions")
    return errors + each(_validate_node_field)(term.get("matchFields", []), f"{path}.matchFields")


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
    return errors + each(named(names.dns_subdomain))(values, f"{path}.values")


def validate_topology_selector_term(term: Doc, path: str) -> Wrong:
    """Mirrors ValidateTopologySelectorTerm: unique keys, each with values, unique values."""
    unique_key = unique()
    for idx, requirement in enumerate(term.get("matchLabelExpressions", [])):
        at = f"{path}.matchLabelExpressions[{idx}]"
        key, values = requirement.get("key", ""), requirement.get("values", [])
        if not values:
            yield required(f"{at}.values")
        yield from each(unique())(values, f"{at}.values")
        yield from validate_label_name(key, f"{at}.key")
        yield from unique_key(key, f"{at}.key")


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
