"""Roles and bindings: which rules make sense, and whom a binding may name. Mirrors pkg/apis/rbac/validation.

Who may write which of them is `documents/access/escalation.py`'s affair.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from tonnage.documents.strategy import Strategy
from tonnage.documents.validation.internal_form import internal
from tonnage.documents.validation.selectors import validate_label_selector
from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, invalid, required
from tonnage.objects.field_rules import optional_choice, sentences, unsupported
from tonnage.objects.resources import RBAC

_SUBJECTS = ("ServiceAccount", "User", "Group")
_SELECTORS = "aggregationRule.clusterRoleSelectors"


class _RbacStrategy(Strategy):
    name_rule: ClassVar[Callable[[str], list[str]]] = staticmethod(names.path_segment)
    create_on_update = True


class RoleStrategy(_RbacStrategy):
    def validate(self, doc: Doc) -> Errors:
        return _validate_rules(doc, is_namespaced=True)


class ClusterRoleStrategy(_RbacStrategy):
    def validate(self, doc: Doc) -> Errors:
        return validate_cluster_role(doc)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return validate_cluster_role(new, allow_invalid_values=has_invalid_selector(old))


class RoleBindingStrategy(_RbacStrategy):
    def default(self, doc: Doc) -> None:
        """Mirrors SetDefaults_RoleBinding and SetDefaults_Subject."""
        reference = doc.get("roleRef")
        if reference is not None and not reference.get("apiGroup"):
            reference["apiGroup"] = RBAC
        for subject in doc.get("subjects", ()):
            if subject.get("apiGroup"):
                continue
            if subject.get("kind") in ("User", "Group"):
                subject["apiGroup"] = RBAC
            else:
                subject.pop("apiGroup", None)
            if not subject.get("namespace"):
                subject.pop("namespace", None)

    def validate(self, doc: Doc) -> Errors:
        return validate_binding(doc, is_namespaced=self.resource.namespaced)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        errors = self.validate(new)
        reference, before = (internal("RoleRef", doc.get("roleRef", {})) for doc in (new, old))
        if reference != before:
            errors.append(invalid("roleRef", reference, "cannot change roleRef"))
        return errors


class ClusterRoleBindingStrategy(RoleBindingStrategy):
    pass


def validate_cluster_role(doc: Doc, *, allow_invalid_values: bool = False) -> Errors:
    """`allow_invalid_values` is for roles whose selectors were stored before their values were checked."""
    errors = _validate_rules(doc, is_namespaced=False)
    if (aggregation := doc.get("aggregationRule")) is None:
        return errors
    selectors = aggregation.get("clusterRoleSelectors", [])
    if not selectors:
        told = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        errors.append(required(_SELECTORS, told))
    for idx, selector in enumerate(selectors):
        path = f"{_SELECTORS}[{idx}]"
        errors += validate_label_selector(selector, path, allow_invalid_values=allow_invalid_values)
        if validate_label_selector(selector, path):
            errors.append(invalid(path, None, "invalid label selector."))
    return errors


def has_invalid_selector(doc: Doc) -> bool:
    selectors = doc.get("aggregationRule", {}).get("clusterRoleSelectors", [])
    return any(validate_label_selector(selector, "") for selector in selectors)


def _validate_rules(doc: Doc, *, is_namespaced: bool) -> Errors:
    errors: Errors = []
    for idx, rule in enumerate(doc.get("rules", ())):
        errors += _validate_rule(rule, f"rules[{idx}]", is_namespaced=is_namespaced)
    return errors


def _validate_rule(rule: Doc, path: str, *, is_namespaced: bool) -> Errors:
    errors: Errors = []
    if not rule.get("verbs"):
        errors.append(required(f"{path}.verbs", "verbs must contain at least one value"))
    if urls := rule.get("nonResourceURLs"):
        at = f"{path}.nonResourceURLs"
        if is_namespaced:
            errors.append(invalid(at, urls, "namespaced rules cannot apply to non-resource URLs"))
        if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
            errors.append(invalid(at, urls, "rules cannot apply to both regular resources and non-resource URLs"))
        return errors
    if not rule.get("apiGroups"):
        errors.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        errors.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
    return errors


def validate_binding(doc: Doc, *, is_namespaced: bool) -> Errors:
    """Of a RoleBinding, or of a ClusterRoleBinding, which cannot bind a Role."""
    errors: Errors = []
    reference = doc.get("roleRef", {})
    group, kind, name = (reference.get(field, "") for field in ("apiGroup", "kind", "name"))
    if group != RBAC:
        errors.append(unsupported("roleRef.apiGroup", group, (RBAC,)))
    kinds = ("Role", "ClusterRole") if is_namespaced else ("ClusterRole",)
    errors += optional_choice(kind, kinds, "roleRef.kind")
    errors += sentences("roleRef.name", name, names.path_segment(name)) if name else [required("roleRef.name")]
    for idx, subject in enumerate(doc.get("subjects", ())):
        errors += _validate_subject(subject, f"subjects[{idx}]", is_namespaced=is_namespaced)
    return errors


def _validate_subject(subject: Doc, path: str, *, is_namespaced: bool) -> Errors:
    kind, name, group = (subject.get(field, "") for field in ("kind", "name", "apiGroup"))
    errors: Errors = [] if name else [required(f"{path}.name")]
    if kind == "ServiceAccount":
        if name:
            errors += sentences(f"{path}.name", name, names.dns_subdomain(name))
        if group:
            errors.append(unsupported(f"{path}.apiGroup", group, ("",)))
        if not is_namespaced and not subject.get("namespace"):
            errors.append(required(f"{path}.namespace"))
    elif kind in ("User", "Group"):
        if group != RBAC:
            errors.append(unsupported(f"{path}.apiGroup", group, (RBAC,)))
    else:
        errors.append(unsupported(f"{path}.kind", kind, _SUBJECTS))
    return errors
