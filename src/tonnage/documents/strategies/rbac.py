"""The rules of roles and bindings. Who may write which of them is `documents/access/escalation.py`'s affair."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from tonnage.documents.strategies.base import Strategy
from tonnage.documents.validation.rbac import (
    has_invalid_selector,
    validate_binding,
    validate_binding_update,
    validate_cluster_role,
    validate_role,
)
from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors
from tonnage.objects.resources import RBAC


class _RbacStrategy(Strategy):
    name_rule: ClassVar[Callable[[str], list[str]]] = staticmethod(names.path_segment)
    create_on_update = True


class RoleStrategy(_RbacStrategy):
    def validate(self, doc: Doc) -> Errors:
        return validate_role(doc)


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
        return validate_binding_update(new, old, is_namespaced=self.resource.namespaced)


class ClusterRoleBindingStrategy(RoleBindingStrategy):
    pass
