"""A user of the API as Kubernetes knows it: a name, groups, and extra fields from authentication."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tonnage.objects import names

ANONYMOUS: Final = "system:anonymous"
MASTERS: Final = "system:masters"
"""The group that may do everything, whatever the rules say."""
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
SERVICE_ACCOUNTS: Final = "system:serviceaccounts"
NODES: Final = "system:nodes"
CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
"""The extra field with the credential that authenticated the user."""
_PREFIX: Final = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class User:
    """The user of a request. Users are equal if all their fields are."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    @property
    def is_master(self) -> bool:
        return MASTERS in self.groups

    @property
    def is_anonymous(self) -> bool:
        return UNAUTHENTICATED in self.groups

    def authenticated(self) -> User:
        """The user in the group of authenticated users. Mirrors group.AuthenticatedGroupAdder."""
        if AUTHENTICATED in self.groups or self.is_anonymous:
            return self
        return replace(self, groups=(*self.groups, AUTHENTICATED))

    def info(self) -> dict[str, Any]:
        """The user as a UserInfo document; empty fields are left out."""
        extra = {name: list(values) for name, values in sorted(self.extra.items())}
        given = {"uid": self.uid, "groups": list(self.groups), "extra": extra}
        return {"username": self.name, **{name: value for name, value in given.items() if value}}

    def review_spec(self) -> dict[str, Any]:
        """The part of a SubjectAccessReview's spec that names the user."""
        info = self.info()
        return {"user": info.pop("username"), **info}


def bearer_token(header: str) -> str:
    """The token of an Authorization header; empty for another scheme and for none. Mirrors bearertoken.New."""
    parts = header.strip().split(" ", 2)
    return parts[1] if len(parts) > 1 and parts[0].lower() == "bearer" else ""


def service_account_user(namespace: str, name: str, uid: str = "") -> User:
    return User(f"{_PREFIX}{namespace}:{name}", uid, (*service_account_groups(namespace), AUTHENTICATED))


def service_account_groups(namespace: str) -> tuple[str, ...]:
    return SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}"


def split_service_account(username: str) -> tuple[str, str] | None:
    """Namespace and name of the user's ServiceAccount; None if the user is not a ServiceAccount."""
    if not username.startswith(_PREFIX):
        return None
    namespace, _, name = username.removeprefix(_PREFIX).partition(":")
    if ":" in name or names.dns_label(namespace) or names.dns_subdomain(name):
        return None
    return namespace, name


NOBODY: Final = User(ANONYMOUS, groups=(UNAUTHENTICATED,))
