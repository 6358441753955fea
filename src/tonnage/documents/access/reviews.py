"""Access reviews: their validation, the attributes they ask about, and the answer. Mirrors pkg/apis/authorization.

RBAC ignores selectors. They are parsed all the same, so that the answer shows mistakes in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from msgspec.structs import astuple

from tonnage.documents.access.attributes import AccessDecision, Attributes
from tonnage.documents.access.rules import Rule
from tonnage.documents.validation.internal_form import internal
from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, Wrong, forbidden, invalid, required
from tonnage.objects.field_rules import check, each, named, needed, validate_label_name
from tonnage.objects.requirements import Requirement
from tonnage.objects.selectors import FieldSelector, InvalidSelector, LabelSelector
from tonnage.objects.users import User

_RESOURCE = "spec.resourceAttributes"
MAX_ANSWERED_CHARS = 1_500_000
"""Limit on the rules that one answer lists: a user may have many roles, each as large as an object."""
_NEEDS_VALUES, _NEEDS_NONE = ("In", "NotIn"), ("Exists", "DoesNotExist")


def validate_review(doc: Doc, *, names_subject: bool, is_local: bool) -> Errors:
    """The errors of a review. `names_subject`: a (Local)SubjectAccessReview; `is_local`: only about its namespace."""
    spec, meta = doc.get("spec", {}), doc.get("metadata", {})
    asked, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    errors: Errors = []
    if asked is not None and other is not None:
        told = "cannot be specified in combination with resourceAttributes"
        errors.append(invalid("spec.nonResourceAttributes", internal("NonResourceAttributes", other), told))
    elif asked is None and other is None:
        told = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        errors.append(invalid(_RESOURCE, None, told))
    if names_subject and not spec.get("user") and not spec.get("groups"):
        errors.append(invalid("spec.user", "", "at least one of user or group must be specified"))
    errors += _validate_selector(asked or {}, "fieldSelector")
    errors += _validate_selector(asked or {}, "labelSelector")
    if meta.keys() - {"managedFields", *(["namespace"] if is_local else ())}:
        errors.append(invalid("metadata", meta, f"must be empty{' except for namespace' if is_local else ''}"))
    if is_local and asked is not None and asked.get("namespace", "") != meta.get("namespace", ""):
        told = "must match metadata.namespace"
        errors.append(invalid(f"{_RESOURCE}.namespace", asked.get("namespace", ""), told))
    if is_local and other is not None:
        told = "disallowed on this kind of request"
        errors.append(invalid("spec.nonResourceAttributes", internal("NonResourceAttributes", other), told))
    return errors


def _validate_selector(asked: Doc, field: str) -> Wrong:
    selector, path = asked.get(field), f"{_RESOURCE}.{field}"
    if selector is None:
        return
    raw, requirements = selector.get("rawSelector", ""), selector.get("requirements", [])
    if raw and requirements:
        yield invalid(f"{path}.rawSelector", raw, "may not specified at the same time as requirements")
    if not raw and not requirements:
        told = f"when {path} is specified, requirements or rawSelector is required"
        yield required(f"{path}.requirements", told)
    for idx, requirement in enumerate(requirements):
        yield from _validate_requirement(requirement, f"{path}.requirements[{idx}]", field)


def _validate_requirement(requirement: Doc, path: str, field: str) -> Wrong:
    """An unknown operator is accepted: newer clients may know it."""
    operator, values = requirement.get("operator", ""), requirement.get("values", [])
    if field == "fieldSelector":
        yield from check(requirement, path, {"key": needed(told="must be specified")})
    if operator in _NEEDS_VALUES and not values:
        yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in _NEEDS_NONE and values:
        yield forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    if field == "labelSelector":
        yield from validate_label_name(requirement.get("key", ""), f"{path}.key")
        yield from each(named(names.label_value))(values, f"{path}.values")


# -- questions --------------------------------------------------------------------------------------------------------


def subject_of_review(spec: Doc) -> User:
    extra = {key: tuple(values) for key, values in spec.get("extra", {}).items()}
    return User(spec.get("user", ""), spec.get("uid", ""), tuple(spec.get("groups", ())), extra)


def attributes_of_review(user: User, spec: Doc) -> Attributes:
    asked = spec.get("resourceAttributes")
    if asked is None:
        other = spec["nonResourceAttributes"]
        return Attributes(user, other.get("verb", ""), path=other.get("path", ""))
    fields = ("verb", "group", "version", "resource", "subresource", "namespace", "name")
    verb, group, version, resource, subresource, namespace, name = (asked.get(field, "") for field in fields)
    return Attributes(user, verb, group, version or "*", resource, subresource, namespace, name)


def selector_problems(spec: Doc) -> list[str]:
    """The selectors that could not be parsed and were ignored."""
    asked = spec.get("resourceAttributes") or {}
    problems = []
    for field in ("fieldSelector", "labelSelector"):
        if (selector := asked.get(field)) is None:
            continue
        wrong, total = _unreadable(selector, field)
        if wrong:
            part = "partially ignored" if wrong < total else "ignored"
            problems.append(f"{_RESOURCE}.{field} {part} due to parse error")
    return problems


def _unreadable(selector: Doc, field: str) -> tuple[int, int]:
    """How many requirements of a selector cannot be parsed, and how many there are."""
    if raw := selector.get("rawSelector", ""):
        kind = FieldSelector if field == "fieldSelector" else LabelSelector
        return int(_fails(lambda: kind.parse(raw))), 1
    wrong, requirements = 0, selector.get("requirements", [])
    for doc in requirements:
        operator, values = doc.get("operator", ""), tuple(doc.get("values", ()))
        if field == "fieldSelector":
            wrong += operator not in _NEEDS_VALUES or len(values) != 1
        else:
            made = Requirement(key=doc.get("key", ""), operator=operator, values=values)
            wrong += _fails(partial(made.holds, None))
    return wrong, len(requirements)


def _fails(read: Callable[[], object]) -> bool:
    try:
        read()
    except InvalidSelector:
        return True
    return False


# -- the answer -------------------------------------------------------------------------------------------------------


def status_of(decision: AccessDecision, spec: Doc) -> Doc:
    status: Doc = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    problems = [*filter(None, [decision.evaluation_error]), *selector_problems(spec)]
    if problems:
        status["evaluationError"] = "; ".join(problems)
    return status


def rules_status(rules: Iterable[Rule], error: str = "") -> Doc:
    """A SubjectRulesReviewStatus; `incomplete` if there are more rules than one answer can hold."""
    resource_rules, other_rules = [], []
    chars, is_incomplete = 0, False
    for rule in rules:
        size = sum(len(value) + 4 for side in astuple(rule) for value in side)
        if chars + size > MAX_ANSWERED_CHARS:
            is_incomplete = True
            continue
        chars += size
        verbs = list(rule.verbs)
        if rule.resources:
            shown: Doc = {"verbs": verbs, "apiGroups": list(rule.api_groups), "resources": list(rule.resources)}
            resource_rules.append(shown | ({"resourceNames": list(rule.resource_names)} if rule.resource_names else {}))
        if rule.non_resource_urls:
            other_rules.append({"verbs": verbs, "nonResourceURLs": list(rule.non_resource_urls)})
    status: Doc = {"resourceRules": resource_rules, "nonResourceRules": other_rules, "incomplete": is_incomplete}
    return status | ({"evaluationError": error} if error else {})
