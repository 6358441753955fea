"""The attributes of a request, which an authorizer judges, the 403 that names them, and reviews about them.

`Attributes` is upstream's attributes record, read from the URL alone, as upstream's RequestInfo:

    GET /api/v1/namespaces/shop/pods/db-1/status     ->  get pods/status, named db-1, in namespace shop
    GET /apis/storage.k8s.io/v1/csinodes?watch=true  ->  watch csinodes in storage.k8s.io
    GET /metrics                                     ->  get the path /metrics

Every URL has attributes, served or not. The body is never read, so a create request has no name. Reviews mirror
pkg/apis/authorization. RBAC ignores their selectors, which are parsed all the same to show mistakes in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple, Protocol

from msgspec.structs import astuple

from tonnage.documents.access.rules import Rule
from tonnage.documents.go_text import quoted
from tonnage.documents.strategy import TypeRules
from tonnage.documents.validation.internal_form import internal
from tonnage.errors import Forbidden
from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, invalid
from tonnage.objects.field_rules import each
from tonnage.objects.requirements import Requirement
from tonnage.objects.selectors import FieldSelector, InvalidSelector, LabelSelector
from tonnage.objects.users import User

_SANITIZED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
"""A message must not look like HTML, whatever name a user has."""
VERBS: Final = {
    "POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"
}  # fmt: skip
_VERBS_IN_PATHS: Final = ("proxy", "watch")
_OF_NAMESPACES: Final = ("status", "finalize")
"""Subresources of a namespace: they follow its name and are no resources inside it."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """A verb on a resource, or on a path that is no resource (then `path` is set and `resource` is empty)."""

    user: User
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def is_resource_request(self) -> bool:
        return bool(self.resource) or not self.path

    @property
    def resource_path(self) -> str:
        """`pods/status`, as rules spell it."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """Whether a request is allowed, which rule allowed it, and why rules could not be evaluated."""

    allowed: bool
    reason: str = ""
    evaluation_error: str = ""


class Authorizer(Protocol):
    def authorize(self, attributes: Attributes) -> AccessDecision: ...


class AllowAll:
    """The authorizer of a server without rules: everybody may do everything."""

    def authorize(self, attributes: Attributes) -> AccessDecision:
        return AccessDecision(True)


def forbidden(attributes: Attributes, reason: str = "") -> Forbidden:
    """The 403 for these attributes, with the authorizer's reason if there is one."""
    why = cannot(attributes).translate(_SANITIZED)
    if reason:
        why = f"{why}: {reason}"
    resource = f"{attributes.resource}.{attributes.group}" if attributes.group else attributes.resource
    if resource and attributes.name:
        told = f"{resource} {quoted(attributes.name)} is forbidden: {why}"
    else:
        told = f"{resource} is forbidden: {why}" if resource else f"forbidden: {why}"
    return Forbidden(told, group=attributes.group, kind=attributes.resource, name=attributes.name)


def cannot(attributes: Attributes) -> str:
    """`User "x" cannot list resource "pods" in API group "" in the namespace "default"`."""
    user, verb = quoted(attributes.user.name), attributes.verb
    if not attributes.is_resource_request:
        return f"User {user} cannot {verb} path {quoted(attributes.path)}"
    where = f"in the namespace {quoted(attributes.namespace)}" if attributes.namespace else "at the cluster scope"
    resource = quoted(attributes.resource_path)
    return f"User {user} cannot {verb} resource {resource} in API group {quoted(attributes.group)} {where}"


class ApiPath(NamedTuple):
    """The path of a resource. `prefix` is `watch` or `proxy` in the older paths that begin with a verb."""

    group: str
    version: str
    prefix: str
    namespace: str
    steps: tuple[str, ...]
    """The resource's plural; a name, a subresource and more may follow."""


def api_path(path: str) -> ApiPath | None:
    """Read a URL's path; None if it is not below a group and version."""
    parts = path.removeprefix("/").rstrip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    prefix = namespace = ""
    if rest[0] in _VERBS_IN_PATHS and len(rest) > 1:
        prefix, *rest = rest
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _OF_NAMESPACES:
        _, namespace, *rest = rest
    return ApiPath(group, version, prefix, namespace, tuple(rest))


def attributes_of(user: User, method: str, path: str, query: Mapping[str, str]) -> Attributes:
    """The attributes of one request. Mirrors RequestInfoFactory.NewRequestInfo."""
    at = api_path(path)
    if at is None:
        return Attributes(user, method.lower(), path=path)
    verb = at.prefix or VERBS.get(method, "")
    resource, name, subresource, *_ = (*at.steps, "", "")
    namespace = name if resource == "namespaces" and not at.namespace else at.namespace
    subresource = "" if verb == "proxy" else subresource
    asked = Attributes(user, verb, at.group, at.version, resource, subresource, namespace, name)
    if asked.name:
        return asked
    if verb == "get":
        # As query parameters are read: a value other than false and 0 means yes, an empty value too.
        is_watch = query.get("watch", "false").lower() not in ("false", "0")
        return replace(asked, verb="watch" if is_watch else "list", name=_name_in(query))
    return replace(asked, verb="deletecollection") if verb == "delete" else asked


def _name_in(query: Mapping[str, str]) -> str:
    """The one name that the field selector asks for: with a rule about one object, its user can watch that object."""
    selector = query.get("fieldSelector", "")
    if "metadata.name" not in selector:
        return ""
    try:
        name = FieldSelector.parse(selector).required("metadata.name") or ""
    except InvalidSelector:
        return ""
    return "" if names.path_segment(name) else name


_RESOURCE = "spec.resourceAttributes"
MAX_ANSWERED_CHARS = 1_500_000
"""Limit on the rules that one answer lists: a user may have many roles, each as large as an object."""


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
    errors += _ASKED(asked or {}, _RESOURCE)
    if meta.keys() - {"managedFields", *(["namespace"] if is_local else ())}:
        errors.append(invalid("metadata", meta, f"must be empty{' except for namespace' if is_local else ''}"))
    if is_local and asked is not None and asked.get("namespace", "") != meta.get("namespace", ""):
        told = "must match metadata.namespace"
        errors.append(invalid(f"{_RESOURCE}.namespace", asked.get("namespace", ""), told))
    if is_local and other is not None:
        told = "disallowed on this kind of request"
        errors.append(invalid("spec.nonResourceAttributes", internal("NonResourceAttributes", other), told))
    return errors


def _validate_requirement(requirement: Doc, path: str) -> Errors:
    """An unknown operator is accepted: newer clients may know it."""
    return [error for error in _REQUIREMENT(requirement, path) if error.field != f"{path}.operator"]


_REQUIREMENT = TypeRules("meta.LabelSelectorRequirement")
_ASKED = TypeRules("authorization.ResourceAttributes", **{"labelSelector.requirements": each(_validate_requirement)})


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
            wrong += operator not in ("In", "NotIn") or len(values) != 1
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
