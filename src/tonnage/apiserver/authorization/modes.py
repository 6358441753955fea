"""What `--authorization-mode` may say. Upstream's other modes are named, so that one hears why they are not here."""

from __future__ import annotations

from tonnage.apiserver.authorization.mode_names import ALWAYS_ALLOW, MODES
from tonnage.apiserver.authorization.rbac import RbacAuthorizer
from tonnage.apiserver.registry import Guard
from tonnage.documents.access.attributes import AllowAll, Authorizer
from tonnage.documents.access.escalation import refuse_escalation
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
    """What looks at writes of roles and bindings; nothing where everybody may do everything."""
    if not isinstance(authorizer, RbacAuthorizer):
        return None

    def guard(resource: Resource, namespace: str, name: str, new: Doc, old: Doc | None, user: User) -> None:
        refuse_escalation(
            resource, namespace, name, new, old, user=user, authorizer=authorizer, resolver=authorizer.policy
        )

    return guard
