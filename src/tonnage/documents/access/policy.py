"""Every role and binding of a cluster, indexed so that a request costs two lookups and a test of names.

    user, namespace ──► sheet: the rules that apply, in order ──► by verb, group, resource: the grants among them

A binding is found by whom it names, never by going through all. What follows for a user in a namespace is a sheet,
worked out when it is first asked for and kept until any role or binding changes; a change is in force with the call
that makes it. Namespaces without a binding of their own share the sheet of the cluster's scope: namespaces come and
go, and nothing is kept of those that went. The order in which rules are looked at is upstream's, ClusterRoleBindings
first, and by name, so that reasons do not change from one request to the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tonnage.documents.access.attributes import Attributes, Decision
from tonnage.documents.access.bindings import Binding, RoleRef, binding_of
from tonnage.documents.access.rules import Rule, Rules, rules_of
from tonnage.documents.go_text import quoted
from tonnage.objects.document import Doc
from tonnage.objects.resources import RBAC
from tonnage.objects.users import User

MAX_SHEETS, MAX_ANSWERS = 2_048, 2_048
"""Reviews can ask about users and resources that nobody ever heard of: beyond so many, what is kept is forgotten."""

_Grants = tuple[tuple[frozenset[str], Decision], ...]
"""(the names it is limited to, none for no limit; the answer), in order."""


class RoleMissing(Exception):
    """A binding names a role that is not there."""

    def __init__(self, role: RoleRef) -> None:
        self.role = role
        if role.kind in ("Role", "ClusterRole"):
            super().__init__(f"{role.kind.lower()}.{RBAC} {quoted(role.name)} not found")
        else:
            super().__init__(f"unsupported role reference kind: {quoted(role.kind)}")


class Sheet:
    """What one user may do in one namespace, or with an empty one at the cluster's scope."""

    __slots__ = ("_answers", "_rules", "denied", "missing")

    def __init__(self, rules: list[tuple[Rule, str]], missing: list[RoleMissing]) -> None:
        self._rules = rules
        self.missing = missing
        self._answers: dict[tuple[str, ...], _Grants] = {}
        self.denied = Decision(False, f"RBAC: {told}" if (told := aggregated(map(str, missing))) else "")

    @property
    def rules(self) -> list[Rule]:
        return [rule for rule, _ in self._rules]

    def decide(self, attributes: Attributes) -> Decision:
        about: tuple[str, ...]
        if attributes.is_resource_request:
            about = (attributes.verb, attributes.group, attributes.resource, attributes.subresource)
        else:
            about = (attributes.verb, attributes.path)
        grants = self._answers.get(about)
        if grants is None:
            if len(self._answers) >= MAX_ANSWERS:
                self._answers.clear()
            grants = self._answers[about] = tuple(self._grants(about))
        for names, decision in grants:
            if not names or attributes.name in names:
                return decision
        return self.denied

    def _grants(self, about: tuple[str, ...]) -> Iterator[tuple[frozenset[str], Decision]]:
        """The rules about a resource or a path, up to the first that no name limits."""
        for rule, reason in self._rules:
            if len(about) == 2:
                if rule.allows_path(*about):
                    yield frozenset(), Decision(True, reason)
                    return
            elif rule.allows_resource(*about):
                yield frozenset(rule.resource_names), Decision(True, reason)
                if not rule.resource_names:
                    return


class Policy:
    """The roles and bindings there are now."""

    def __init__(self) -> None:
        self._roles: dict[tuple[str, str], Rules] = {}  # (namespace, name); that of a ClusterRole is ""
        self._bindings: dict[tuple[str, str], Binding] = {}
        self._by_subject: dict[tuple[str, str, str], set[str]] = {}  # (namespace, user, group) -> names of bindings
        self._bindings_in: Counter[str] = Counter()  # by namespace; none that has none
        self._sheets: dict[tuple[str, tuple[str, ...], str], Sheet] = {}

    # -- what changes -------------------------------------------------------------------------------------------------

    def put_role(self, doc: Doc) -> None:
        """A Role or a ClusterRole, new or changed."""
        self._roles[_key(doc)] = rules_of(doc)
        self._sheets.clear()

    def drop_role(self, namespace: str, name: str) -> None:
        self._roles.pop((namespace, name), None)
        self._sheets.clear()

    def put_binding(self, doc: Doc) -> None:
        """A RoleBinding or a ClusterRoleBinding, new or changed."""
        binding = binding_of(doc)
        self.drop_binding(binding.namespace, binding.name)
        self._bindings[binding.namespace, binding.name] = binding
        self._bindings_in[binding.namespace] += 1
        for key in _subject_keys(binding):
            self._by_subject.setdefault(key, set()).add(binding.name)

    def drop_binding(self, namespace: str, name: str) -> None:
        self._sheets.clear()
        binding = self._bindings.pop((namespace, name), None)
        if binding is None:
            return
        self._bindings_in[namespace] -= 1
        if not self._bindings_in[namespace]:
            del self._bindings_in[namespace]
        for key in _subject_keys(binding):
            named = self._by_subject[key]
            named.discard(name)
            if not named:
                del self._by_subject[key]

    # -- what is asked ------------------------------------------------------------------------------------------------

    def authorize(self, attributes: Attributes) -> Decision:
        return self.sheet(attributes.user, attributes.namespace).decide(attributes)

    def sheet(self, user: User, namespace: str) -> Sheet:
        """What a user may do in a namespace."""
        scope = namespace if namespace in self._bindings_in else ""
        key = (user.name, user.groups, scope)
        sheet = self._sheets.get(key)
        if sheet is None:
            if len(self._sheets) >= MAX_SHEETS:
                self._sheets.clear()
            sheet = self._sheets[key] = self._worked_out(user, scope)
        return sheet

    def rules_of(self, role: RoleRef, namespace: str) -> Rules:
        """The rules of the role that a binding in `namespace` names. Raises RoleMissing."""
        home = {"Role": namespace, "ClusterRole": ""}.get(role.kind)
        rules = self._roles.get((home, role.name)) if home is not None else None
        if rules is None or (role.kind == "Role" and not namespace):
            raise RoleMissing(role)
        return rules

    def _worked_out(self, user: User, namespace: str) -> Sheet:
        rules: list[tuple[Rule, str]] = []
        missing: list[RoleMissing] = []
        for scope in ("", namespace) if namespace else ("",):
            for binding in self._bindings_of(user, scope):
                reason = binding.reason(next(subject for subject in binding.subjects if subject.is_for(user)))
                try:
                    rules += [(rule, reason) for rule in self.rules_of(binding.role, scope)]
                except RoleMissing as exc:
                    missing.append(exc)
        return Sheet(rules, missing)

    def _bindings_of(self, user: User, scope: str) -> list[Binding]:
        keys = [(scope, user.name, ""), *((scope, "", group) for group in user.groups)]
        names = {name for key in keys for name in self._by_subject.get(key, ())}
        return [self._bindings[scope, name] for name in sorted(names)]


def _key(doc: Doc) -> tuple[str, str]:
    return doc["metadata"].get("namespace", ""), doc["metadata"]["name"]


def _subject_keys(binding: Binding) -> set[tuple[str, str, str]]:
    named = (subject for subject in binding.subjects if subject.user or subject.group)
    return {(binding.namespace, subject.user, subject.group) for subject in named}


def aggregated(errors: Iterator[str]) -> str:
    """Several sentences as one, each once: `a`, `[a, b]`."""
    told = list(dict.fromkeys(errors))
    return told[0] if len(told) == 1 else f"[{', '.join(told)}]" if told else ""
