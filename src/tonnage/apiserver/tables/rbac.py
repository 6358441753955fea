"""Bindings: `kubectl get -o wide` tells for whom one is. Roles have no columns of their own, as upstream."""

from __future__ import annotations

from datetime import datetime

from tonnage.apiserver.tables.column import AGE, NAME, Cell, CellOf, Column, Layout
from tonnage.objects.document import Doc, dig
from tonnage.objects.resources import RBAC


def bound_role(binding: Doc, now: datetime) -> Cell:
    """`ClusterRole/view`."""
    return f"{dig(binding, 'roleRef', 'kind') or ''}/{dig(binding, 'roleRef', 'name') or ''}"


def subjects_cell(kind: str) -> CellOf:
    """The subjects of one kind, accounts with their namespace."""

    def cell(binding: Doc, now: datetime) -> Cell:
        return ", ".join(_subject(each) for each in binding.get("subjects", ()) if each.get("kind") == kind)

    return cell


def _subject(subject: Doc) -> str:
    name = str(subject.get("name", ""))
    return f"{subject.get('namespace', '')}/{name}" if subject.get("kind") == "ServiceAccount" else name


_BINDING = Layout(
    (
        NAME,
        Column("Role", bound_role, field="roleRef"),
        AGE,
        Column("Users", subjects_cell("User"), wide=True, about="The users it is for."),
        Column("Groups", subjects_cell("Group"), wide=True, about="The groups it is for."),
        Column("ServiceAccounts", subjects_cell("ServiceAccount"), wide=True, about="The accounts it is for."),
    )
)
LAYOUTS = {
    (RBAC, "ClusterRoleBinding"): _BINDING,
    (RBAC, "RoleBinding"): _BINDING,
}
