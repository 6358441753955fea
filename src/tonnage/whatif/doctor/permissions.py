"""What a live scheduler has to be allowed, verb by verb: the rules of its role file, one question each.

Roles in the scheduler's own namespace are asked for where the user of the kubeconfig is at home, if that is a
ServiceAccount; else where the lease of the default configuration is. That a scheduler takes kube-scheduler's lease is a
choice, and is not asked for.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from tonnage.client.config.connection import ServerConnection
from tonnage.roles.role_files import RoleRule, rules_of
from tonnage.scheduling.configuration.file import LeaderElection

LEASE_NAMESPACE: Final = LeaderElection().resource_namespace
"""Where the lease of the default configuration is."""
_NOT_ASKED_FOR: Final = ("only-scheduler",)
_ACCOUNT: Final = "system:serviceaccount:"


class Permission(NamedTuple):
    """One verb on one resource; `namespace` empty is all of them, `name` empty all objects."""

    verb: str
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    purpose: str = ""
    is_needed: bool = True
    """Without it no pod is bound rightly; without others something is missing that `purpose` says."""
    name: str = ""

    @property
    def qualified(self) -> str:
        """The resource as kubectl and ClusterRoles write it: `pods/binding`, `csinodes.storage.k8s.io`."""
        below = f"/{self.subresource}" if self.subresource else ""
        return f"{self.resource}.{self.group}{below}" if self.group else f"{self.resource}{below}"


def scheduler_permissions(namespace: str = LEASE_NAMESPACE) -> tuple[Permission, ...]:
    """What a scheduler that runs in this namespace asks for."""
    found = (
        permission
        for rule in rules_of("scheduler", namespace)
        if rule.right not in _NOT_ASKED_FOR
        for permission in _of_rule(rule)
    )
    return tuple(dict.fromkeys(found))


def _of_rule(rule: RoleRule) -> Iterator[Permission]:
    purpose = rule.reason.rstrip(".")
    for group in rule.groups:
        for resource in rule.resources:
            plural, _, subresource = resource.partition("/")
            for name in rule.names or ("",):
                for verb in rule.verbs:
                    yield Permission(verb, group, plural, subresource, rule.namespace, purpose, rule.is_needed, name)


def home_of(connection: ServerConnection) -> str:
    """The namespace of the ServiceAccount that a connection speaks as; the lease's default one for everybody else."""
    user = connection.user
    if user.impersonation.user:
        return _namespace_in(user.impersonation.user)
    token = user.token
    if not token and user.token_file is not None:
        try:
            token = user.token_file.read_text().strip()
        except (OSError, ValueError):
            return LEASE_NAMESPACE  # whoever connects will say what is wrong with it
    return _namespace_in(_subject(token))


def _namespace_in(subject: str) -> str:
    return subject.removeprefix(_ACCOUNT).partition(":")[0] if subject.startswith(_ACCOUNT) else LEASE_NAMESPACE


def _subject(token: str) -> str:
    """Whom a token says that it is of. Nothing hangs on it but where one looks, so that it is not verified."""
    parts = token.split(".")
    if len(parts) != 3:
        return ""
    try:
        claims = msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError):
        return ""
    return str(claims.get("sub", "")) if isinstance(claims, dict) else ""
