"""Who a binding is for: users, groups and accounts, each told as refusals and reasons tell of them."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.documents.go_text import quoted
from tonnage.objects.document import Doc
from tonnage.objects.users import service_account_user


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom a binding names: a group, or a user, which an account is too."""

    kind: str
    name: str
    """As reasons show it: that of an account is `name/namespace`."""
    user: str = ""
    group: str = ""

    def __str__(self) -> str:
        """`Group "ops"`, `ServiceAccount "name/namespace"`."""
        return f"{self.kind} {quoted(self.name)}"


def subject_of(doc: Doc, namespace: str) -> Subject:
    """A subject of a binding in `namespace`, where accounts without one live; "" is that of a ClusterRoleBinding."""
    kind, name = doc.get("kind", ""), doc.get("name", "")
    if kind == "User":
        return Subject(kind, name, user=name)
    if kind == "Group":
        return Subject(kind, name, group=name)
    if kind == "ServiceAccount":
        home = doc.get("namespace") or namespace
        user = service_account_user(home, name).name if home else ""
        return Subject(kind, f"{name}/{home}", user=user)
    return Subject(kind, name)


@dataclass(frozen=True, slots=True)
class RoleRef:
    """Which role is bound: of the binding's own namespace, or of the cluster."""

    kind: str
    name: str
    group: str = ""

    @property
    def plural(self) -> str:
        return f"{self.kind.lower()}s"


def role_ref_of(binding: Doc) -> RoleRef:
    reference = binding.get("roleRef", {})
    return RoleRef(reference.get("kind", ""), reference.get("name", ""), reference.get("apiGroup", ""))


@dataclass(frozen=True, slots=True)
class Binding:
    """A RoleBinding, or with an empty namespace a ClusterRoleBinding."""

    namespace: str
    name: str
    role: RoleRef
    subjects: tuple[Subject, ...]

    def reason(self, position: int) -> str:
        """Why something is allowed to the subject that stands there."""
        subject = self.subjects[position]
        kind, name = (
            ("RoleBinding", f"{self.name}/{self.namespace}") if self.namespace else ("ClusterRoleBinding", self.name)
        )
        return f"RBAC: allowed by {kind} {quoted(name)} of {self.role.kind} {quoted(self.role.name)} to {subject}"


def binding_of(doc: Doc) -> Binding:
    """The binding that a document describes."""
    namespace = doc["metadata"].get("namespace", "")
    subjects = tuple(subject_of(subject, namespace) for subject in doc.get("subjects") or ())
    return Binding(namespace, doc["metadata"]["name"], role_ref_of(doc), subjects)
