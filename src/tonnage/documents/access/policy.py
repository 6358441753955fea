"""Every role and binding of a cluster, indexed so that a request costs two lookups and a test of names.

    user, namespace ──► sheet: the roles that apply, in order ──► by verb, group, resource: the grants among them

Bindings are indexed by subject. A user's sheet in a namespace is computed on first use and kept until a role or binding
of that namespace, or of the cluster, changes. Namespaces without bindings share the cluster's sheet, so nothing is kept
for deleted namespaces. Rules apply in upstream's order, ClusterRoleBindings first, then by name: reasons are stable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tonnage.documents.access.attributes import AccessDecision, Attributes
from tonnage.documents.access.rules import Rule, RuleIndex, rules_of
from tonnage.documents.go_text import quoted
from tonnage.objects.document import Doc
from tonnage.objects.resources import RBAC
from tonnage.objects.users import User, service_account_user

MAX_SHEETS, MAX_ANSWERS = 2_048, 256
"""Limits of the caches: reviews may ask about users and resources that do not exist."""
_MAX_KEY_CHARS: Final = 4_096
"""Answers about longer names of users, groups and paths, which reviews may contain, are not cached."""
_MAX_KEPT_ROLES: Final = 200_000
"""In all sheets together: a namespace's owner may bind thousands of roles to everybody."""
_MAX_TOLD: Final = 16
"""Missing roles that one answer names: anybody may bind thousands of them."""
_Answer = tuple[tuple[RuleIndex | None, AccessDecision], ...]
"""In order: the decision, and the rules that must allow the object's name first, if any."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a binding: a group, or a user; a ServiceAccount is a user too."""

    kind: str
    name: str
    """As reasons show it; for a ServiceAccount `name/namespace`."""
    user: str = ""
    group: str = ""

    def __str__(self) -> str:
        """`Group "ops"`, `ServiceAccount "name/namespace"`."""
        return f"{self.kind} {quoted(self.name)}"


def subject_of(doc: Doc, namespace: str) -> Subject:
    """A subject of a binding. `namespace` is the binding's ("" for a ClusterRoleBinding), its accounts' default."""
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
    """The role that a binding names: of the binding's own namespace, or of the cluster."""

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
        """Why the subject at `position` is allowed something."""
        subject = self.subjects[position]
        kind, name = "ClusterRoleBinding", self.name
        if self.namespace:
            kind, name = "RoleBinding", f"{self.name}/{self.namespace}"
        return f"RBAC: allowed by {kind} {quoted(name)} of {self.role.kind} {quoted(self.role.name)} to {subject}"


class RoleMissing(Exception):
    """A binding names a role that does not exist."""

    def __init__(self, role: RoleRef) -> None:
        super().__init__(role)
        self.role = role

    def __str__(self) -> str:
        if self.role.kind in ("Role", "ClusterRole"):
            return f"{self.role.kind.lower()}.{RBAC} {quoted(self.role.name)} not found"
        return f"unsupported role reference kind: {quoted(self.role.kind)}"


class Sheet:
    """What one user may do in one namespace, or at the cluster's scope if the namespace is empty."""

    __slots__ = ("_answers", "_bindings", "denied", "missing", "roles")

    def __init__(self, roles: Mapping[RuleIndex, tuple[Binding, int]], missing: list[RoleMissing]) -> None:
        """`roles`: the rules that apply, in order, with their binding and the user's position among its subjects."""
        self.roles = list(roles)
        self._bindings = list(roles.values())
        self.missing = missing
        self._answers: dict[tuple[str, ...], _Answer] = {}
        self.denied = AccessDecision(False, f"RBAC: {told}" if (told := aggregated(missing)) else "")

    @property
    def rules(self) -> Iterator[Rule]:
        return (rule for rules in self.roles for rule in rules.rules)

    def decide(self, attributes: Attributes) -> AccessDecision:
        verb, group, resource = attributes.verb, attributes.group, attributes.resource_path
        about = (verb, group, resource) if attributes.is_resource_request else (verb, attributes.path)
        answer = self._answers.get(about)
        if answer is None:
            answer = tuple(self._answer(about))
            if len(answer) + sum(map(len, about)) <= _MAX_KEY_CHARS:
                if len(self._answers) >= MAX_ANSWERS:
                    self._answers.clear()
                self._answers[about] = answer
        for rules, decision in answer:
            if rules is None or rules.allows(verb, group, resource, attributes.name):
                return decision
        return self.denied

    def _answer(self, about: tuple[str, ...]) -> Iterator[tuple[RuleIndex | None, AccessDecision]]:
        """The roles that allow something on a resource or a path, up to the first that allows it for every name."""
        for rules, (binding, position) in zip(self.roles, self._bindings, strict=True):
            if not (rules.allows_path(*about) if len(about) == 2 else rules.allows_some(*about)):
                continue
            is_limited = len(about) == 3 and not rules.allows(*about)
            yield rules if is_limited else None, AccessDecision(True, binding.reason(position))
            if not is_limited:
                return


class AccessPolicy:
    """The current roles and bindings."""

    def __init__(self) -> None:
        self._roles: dict[tuple[str, str], RuleIndex] = {}  # by (namespace, name); a ClusterRole's namespace is ""
        self._bindings: dict[tuple[str, str], Binding] = {}
        # (namespace, user, group) -> name of a binding -> position of the first subject that matches
        self._by_subject: dict[tuple[str, str, str], dict[str, int]] = {}
        self._bindings_in: Counter[str] = Counter()  # by namespace; only namespaces with bindings
        self._sheets: dict[tuple[str, tuple[str, ...], str], Sheet] = {}
        self._kept_roles = 0

    # -- changes -------------------------------------------------------------------------------------------------------

    def put_role(self, doc: Doc) -> None:
        key = _key(doc)
        self._roles[key] = RuleIndex(rules_of(doc))
        self._forget(key[0])

    def drop_role(self, namespace: str, name: str) -> None:
        self._roles.pop((namespace, name), None)
        self._forget(namespace)

    def put_binding(self, doc: Doc) -> None:
        namespace, name = key = _key(doc)
        subjects = tuple(subject_of(subject, namespace) for subject in doc.get("subjects") or ())
        binding = Binding(namespace, name, role_ref_of(doc), subjects)
        self.drop_binding(namespace, name)
        self._bindings[key] = binding
        self._bindings_in[namespace] += 1
        for position, named in enumerate(_subject_keys(binding)):
            if named[1] or named[2]:  # else the subject names nobody
                self._by_subject.setdefault(named, {}).setdefault(name, position)

    def drop_binding(self, namespace: str, name: str) -> None:
        self._forget(namespace)
        binding = self._bindings.pop((namespace, name), None)
        if binding is None:
            return
        self._bindings_in[namespace] -= 1
        if not self._bindings_in[namespace]:
            del self._bindings_in[namespace]
        for key in _subject_keys(binding):
            if named := self._by_subject.get(key):
                named.pop(name, None)
                if not named:
                    del self._by_subject[key]

    def _forget(self, namespace: str) -> None:
        """Drop the sheets that depend on roles and bindings of this namespace; "" is the cluster: all sheets."""
        self._sheets = {key: sheet for key, sheet in self._sheets.items() if namespace and key[2] != namespace}
        self._kept_roles = sum(len(sheet.roles) for sheet in self._sheets.values())

    # -- questions ----------------------------------------------------------------------------------------------------

    def authorize(self, attributes: Attributes) -> AccessDecision:
        return self.sheet(attributes.user, attributes.namespace).decide(attributes)

    def sheet(self, user: User, namespace: str) -> Sheet:
        scope = namespace if namespace in self._bindings_in else ""
        key = (user.name, user.groups, scope)
        sheet = self._sheets.get(key)
        if sheet is None:
            sheet = self._worked_out(user, scope)
            if len(user.name) + len(user.groups) + sum(map(len, user.groups)) <= _MAX_KEY_CHARS:
                if len(self._sheets) >= MAX_SHEETS or self._kept_roles > _MAX_KEPT_ROLES:
                    self._forget("")
                self._sheets[key] = sheet
                self._kept_roles += len(sheet.roles)
        return sheet

    def rules_of(self, role: RoleRef, namespace: str) -> RuleIndex:
        """The rules of the role that a binding in `namespace` names. Raises RoleMissing."""
        home = {"Role": namespace, "ClusterRole": ""}.get(role.kind)
        rules = self._roles.get((home, role.name)) if home is not None else None
        if rules is None or (role.kind == "Role" and not namespace):
            raise RoleMissing(role)
        return rules

    def _worked_out(self, user: User, namespace: str) -> Sheet:
        roles: dict[RuleIndex, tuple[Binding, int]] = {}
        missing: dict[RoleRef, RoleMissing] = {}
        for scope in ("", namespace) if namespace else ("",):
            for name, position in sorted(self._bindings_of(user, scope).items()):
                binding = self._bindings[scope, name]
                try:
                    roles.setdefault(self.rules_of(binding.role, scope), (binding, position))
                except RoleMissing as exc:
                    missing.setdefault(exc.role, exc)
        return Sheet(roles, list(missing.values()))

    def _bindings_of(self, user: User, scope: str) -> dict[str, int]:
        """Names of the bindings that name the user or its groups, and the position of the first subject that does."""
        first: dict[str, int] = {}
        keys = ((scope, "", group) for group in dict.fromkeys(user.groups))
        for key in ((scope, user.name, ""), *keys):
            for name, position in self._by_subject.get(key, {}).items():
                first[name] = min(position, first.get(name, position))
        return first


def _key(doc: Doc) -> tuple[str, str]:
    return doc["metadata"].get("namespace", ""), doc["metadata"]["name"]


def _subject_keys(binding: Binding) -> Iterator[tuple[str, str, str]]:
    return ((binding.namespace, subject.user, subject.group) for subject in binding.subjects)


def aggregated(errors: Sequence[RoleMissing], text: Callable[[RoleMissing], str] = str) -> str:
    """Several errors as one text without repetitions: `a`, `[a, b]`. After `_MAX_TOLD` errors the rest are counted."""
    told = list(dict.fromkeys(map(text, errors[:_MAX_TOLD])))
    if len(errors) > _MAX_TOLD:
        told.append(f"and {len(errors) - _MAX_TOLD} more")
    return told[0] if len(told) == 1 else f"[{', '.join(told)}]" if told else ""
