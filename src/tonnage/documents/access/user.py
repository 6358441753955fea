"""A user of the API, as Kubernetes knows one: a name, groups, and what else was learned when it was authenticated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

ANONYMOUS: Final = "system:anonymous"
MASTERS: Final = "system:masters"
"""The group that may do everything, whatever the rules say."""
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
SERVICE_ACCOUNTS: Final = "system:serviceaccounts"


@dataclass(frozen=True, slots=True)
class User:
    """Who asks. Two users are the same when everything about them is."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    @property
    def is_master(self) -> bool:
        return MASTERS in self.groups


def service_account_user(namespace: str, name: str, uid: str = "") -> User:
    """The user that a ServiceAccount is."""
    groups = (SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}", AUTHENTICATED)
    return User(f"system:serviceaccount:{namespace}:{name}", uid, groups)


NOBODY: Final = User(ANONYMOUS, groups=(UNAUTHENTICATED,))
