"""What `--authorization-mode` may say. Upstream's other modes are named, so that one hears why they are not here."""

from __future__ import annotations

from tonnage.apiserver.authorization.rbac import RbacAuthorizer
from tonnage.apiserver.event_loop import on_loop
from tonnage.apiserver.flag_values import ALWAYS_ALLOW, MODES
from tonnage.apiserver.registry import Guard
from tonnage.documents.access.attributes import AccessDecision, AllowAll, Attributes, Authorizer
from tonnage.documents.access.escalation import refuse_escalation
from tonnage.documents.access.policy import RoleRef, Sheet
from tonnage.documents.access.rules import RuleIndex
from tonnage.errors import TonnageError
from tonnage.objects.document import Doc
from tonnage.objects.resources import Resource
from tonnage.objects.users import User
from tonnage.store import Store

_ELSEWHERE = ("ABAC", "AlwaysDeny", "Node", "Webhook")


def authorization_mode(text: str) -> str:
    """The mode that a flag names: RBAC or AlwaysAllow, one alone. Raises TonnageError."""
    asked, hint = [part.strip() for part in text.split(",")], f"write {' or '.join(MODES)}"
    for mode in asked:
        if mode not in MODES:
            known = "a mode of kube-apiserver's that is not served here" if mode in _ELSEWHERE else "no mode"
            raise TonnageError(f'"{mode}" is {known}', hint=hint)
    if len(asked) != 1:
        raise TonnageError(f'"{text}" is more than one mode', hint=hint)
    return asked[0]


def authorizer_of(mode: str, store: Store) -> Authorizer:
    return AllowAll() if mode == ALWAYS_ALLOW else RbacAuthorizer(store)


def guard_of(authorizer: Authorizer) -> Guard | None:
    """What looks at writes of roles and bindings, in a thread; nothing where everybody may do everything."""
    if not isinstance(authorizer, RbacAuthorizer):
        return None

    rights = _RightsOnLoop(authorizer)

    def guard(resource: Resource, namespace: str, name: str, new: Doc, old: Doc | None, user: User) -> None:
        refuse_escalation(resource, namespace, name, new, old, user=user, authorizer=rights, resolver=rights)

    return guard


class _RightsOnLoop:
    """Roles and bindings, read where they change: a thread that judges by them asks the loop for each part."""

    def __init__(self, authorizer: RbacAuthorizer) -> None:
        self._authorizer = authorizer

    def authorize(self, attributes: Attributes) -> AccessDecision:
        return on_loop(lambda: self._authorizer.authorize(attributes))

    def sheet(self, user: User, namespace: str) -> Sheet:
        return on_loop(lambda: self._authorizer.policy.sheet(user, namespace))

    def rules_of(self, role: RoleRef, namespace: str) -> RuleIndex:
        return on_loop(lambda: self._authorizer.policy.rules_of(role, namespace))
