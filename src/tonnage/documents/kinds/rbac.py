"""Validation of roles and bindings. Mirrors pkg/apis/rbac/validation."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from tonnage.documents.strategy import Strategy, TypeRules
from tonnage.documents.validation.internal_form import internal
from tonnage.documents.validation.metadata import except_label_values, validate_label_selector
from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, invalid, required
from tonnage.objects.field_rules import each, one_of

_ROLE_REF, _RULE, _SUBJECT = (TypeRules(f"rbac.{name}") for name in ("RoleRef", "PolicyRule", "Subject"))
_SELECTORS = "aggregationRule.clusterRoleSelectors"


class _RbacStrategy(Strategy):
    name_rule: ClassVar[names.NameRule] = staticmethod(names.path_segment)
    create_on_update = True


class RoleStrategy(_RbacStrategy):
    def validate(self, doc: Doc) -> Errors:
        return each(partial(_validate_rule, is_namespaced=self.resource.namespaced))(doc.get("rules", ()), "rules")


class ClusterRoleStrategy(RoleStrategy):
    def validate(self, doc: Doc) -> Errors:
        return super().validate(doc) + _validate_aggregation(doc)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        """If the stored selectors have invalid values, which older servers accepted, new ones may have them too."""
        stored = old.get("aggregationRule", {}).get("clusterRoleSelectors", [])
        is_excused = any(validate_label_selector(selector, "") for selector in stored)
        return except_label_values(self.validate(new), _SELECTORS) if is_excused else self.validate(new)


class RoleBindingStrategy(_RbacStrategy):
    def validate(self, doc: Doc) -> Errors:
        """A ClusterRoleBinding cannot bind a Role."""
        is_namespaced, reference = self.resource.namespaced, doc.get("roleRef", {})
        kinds = one_of("Role", "ClusterRole") if is_namespaced else one_of("ClusterRole")
        errors = _ROLE_REF(reference, "roleRef", "apiGroup") + kinds(reference.get("kind", ""), "roleRef.kind")
        errors += _ROLE_REF(reference, "roleRef", "name")
        subject = partial(_validate_subject, is_namespaced=is_namespaced)
        return errors + each(subject)(doc.get("subjects", ()), "subjects")

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        errors = self.validate(new)
        reference, before = (internal("RoleRef", doc.get("roleRef", {})) for doc in (new, old))
        if reference != before:
            errors.append(invalid("roleRef", reference, "cannot change roleRef"))
        return errors


class ClusterRoleBindingStrategy(RoleBindingStrategy):
    pass


def _validate_aggregation(doc: Doc) -> Errors:
    if (aggregation := doc.get("aggregationRule")) is None:
        return []
    selectors = aggregation.get("clusterRoleSelectors", [])
    told = "at least one clusterRoleSelector required if aggregationRule is non-nil"
    errors = [] if selectors else [required(_SELECTORS, told)]
    for idx, selector in enumerate(selectors):
        path = f"{_SELECTORS}[{idx}]"
        if wrong := validate_label_selector(selector, path):
            errors += [*wrong, invalid(path, None, "invalid label selector.")]
    return errors


def _validate_rule(rule: Doc, path: str, *, is_namespaced: bool) -> Errors:
    errors = _RULE(rule, path, "verbs")
    if urls := rule.get("nonResourceURLs"):
        at = f"{path}.nonResourceURLs"
        if is_namespaced:
            errors.append(invalid(at, urls, "namespaced rules cannot apply to non-resource URLs"))
        if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
            errors.append(invalid(at, urls, "rules cannot apply to both regular resources and non-resource URLs"))
        return errors
    return errors + _RULE(rule, path, "apiGroups", "resources")


def _validate_subject(subject: Doc, path: str, *, is_namespaced: bool) -> Errors:
    is_homeless = subject.get("kind") == "ServiceAccount" and not is_namespaced and not subject.get("namespace")
    return _SUBJECT(subject, path) + ([required(f"{path}.namespace")] if is_homeless else [])
