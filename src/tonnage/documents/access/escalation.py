"""Nobody gives away rights that he does not have: judged whenever a role or a binding is written.

    a role       needs every right in it, or the verb `escalate` on the role; one that gathers rules, all there are
    a binding    needs every right of its role, or the verb `bind` on the role

Members of system:masters need nothing. Who only takes finalizers and owners away, as the garbage collector does, needs
nothing either. Mirrors pkg/registry/rbac: escalation_check.go and the policybased storages.
"""

from __future__ import annotations

from typing import Protocol

from tonnage.documents import api_errors
from tonnage.documents.access.attributes import Attributes, Authorizer
from tonnage.documents.access.bindings import RoleRef, role_ref_of
from tonnage.documents.access.covering import TooManySteps, compacted, uncovered
from tonnage.documents.access.policy import RoleMissing, Sheet, aggregated
from tonnage.documents.access.rules import Rule, RuleIndex, rules_of
from tonnage.documents.go_text import quoted, quoted_list
from tonnage.errors import ApiError, BadRequest
from tonnage.objects.document import Doc
from tonnage.objects.resources import RBAC, Resource
from tonnage.objects.users import User

_FULL_AUTHORITY = RuleIndex((Rule(("*",), ("*",), ("*",)), Rule(("*",), non_resource_urls=("*",))))
_ROLES = frozenset({(RBAC, "roles"), (RBAC, "clusterroles")})
_BINDINGS = frozenset({(RBAC, "rolebindings"), (RBAC, "clusterrolebindings")})
_MAX_TOLD, _MAX_RULE_CHARS = 64, 512
"""Rules that a refusal lists, and how much it shows of each. A role of 700 bytes may stand for a million."""
_COLLECTED = ("ownerReferences", "finalizers", "managedFields")


class RuleResolver(Protocol):
    """Who has which rights, and what is in a role."""

    def sheet(self, user: User, namespace: str) -> Sheet: ...

    def rules_of(self, role: RoleRef, namespace: str) -> RuleIndex:
        """Raises RoleMissing."""


def is_guarded(resource: Resource) -> bool:
    """Is this a kind whose writes give rights away?"""
    return (resource.group, resource.plural) in _ROLES | _BINDINGS


def refuse_escalation(
    resource: Resource,
    namespace: str,
    name: str,
    new: Doc,
    old: Doc | None,
    *,
    user: User,
    authorizer: Authorizer,
    resolver: RuleResolver,
) -> None:
    """Raises Forbidden when a user writes a role or a binding beyond his rights; `name` is the URL's."""
    if user.is_master:
        return
    if (resource.group, resource.plural) in _ROLES:
        asked = Attributes(user, "escalate", RBAC, "*", resource.plural, namespace=namespace, name=name)
        if authorizer.authorize(asked).allowed or _only_collects(new, old):
            return
        _refuse_role(resource, namespace, new, old, user, resolver)
        return
    if _only_collects(new, old):
        return
    role = role_ref_of(new)
    asked = Attributes(user, "bind", role.group, "*", role.plural, namespace=namespace, name=role.name)
    if role.kind in ("Role", "ClusterRole") and authorizer.authorize(asked).allowed:
        return
    try:
        rules = resolver.rules_of(role, namespace)
    except RoleMissing as exc:
        raise _missing(resource, exc) from exc
    if problem := _not_held(resource, rules, user, namespace, resolver):
        raise api_errors.forbidden(resource, new["metadata"].get("name", ""), problem)


def _refuse_role(
    resource: Resource, namespace: str, new: Doc, old: Doc | None, user: User, resolver: RuleResolver
) -> None:
    name = new["metadata"].get("name", "")
    if problem := _not_held(resource, RuleIndex(rules_of(new)), user, namespace, resolver):
        raise api_errors.forbidden(resource, name, problem)
    if (_gathers(new) or _gathers(old or {})) and _not_held(resource, _FULL_AUTHORITY, user, namespace, resolver):
        told = "must have cluster-admin privileges to use the aggregationRule"
        raise api_errors.forbidden(resource, name, told)


def _gathers(role: Doc) -> bool:
    return bool(role.get("aggregationRule", {}).get("clusterRoleSelectors"))


def _not_held(resource: Resource, wanted: RuleIndex, user: User, namespace: str, resolver: RuleResolver) -> str:
    """What a user would give away and does not have, told as upstream does; empty when there is no such thing."""
    sheet = resolver.sheet(user, namespace)
    if wanted in sheet.roles:
        return ""
    who = f"user {quoted(user.name)} (groups={quoted_list(user.groups)})"
    try:
        missing = uncovered(sheet.roles, wanted.rules)
    except TooManySteps:
        return f"{who} is attempting to grant RBAC permissions in more rules than can be compared with those held"
    if not missing:
        return ""
    rules, more = compacted(missing, _MAX_TOLD)
    rights = "\n".join(sorted(_shortened(str(rule), _MAX_RULE_CHARS) for rule in rules))
    told = f"{who} is attempting to grant RBAC permissions not currently held:\n{rights}"
    if more:
        told += f"\nand {more} more"
    errors = aggregated(sheet.missing, lambda error: _missing(resource, error).message)
    return f"{told}; resolution errors: [{errors}]" if errors else told


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


def _missing(resource: Resource, error: RoleMissing) -> ApiError:
    """A role that is not there, told as if it were what is written: upstream's store knows no better."""
    if error.role.kind not in ("Role", "ClusterRole"):
        return api_errors.UnknownReason(str(error))
    if error.role.kind == "Role" and not resource.namespaced:
        return BadRequest("Namespace parameter required.")  # a Role is in one, and a ClusterRoleBinding in none
    return api_errors.not_found(resource, error.role.name)


def _only_collects(new: Doc, old: Doc | None) -> bool:
    """Does a change touch nothing but what the garbage collector touches?"""
    return old is not None and _rest(new) == _rest(old)


def _rest(doc: Doc) -> Doc:
    meta = {field: value for field, value in doc["metadata"].items() if field not in _COLLECTED}
    return {**doc, "metadata": meta}
