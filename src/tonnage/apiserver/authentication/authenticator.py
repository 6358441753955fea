"""Who asks: the credentials of a request, tried in upstream's order, and the user they prove.

    client certificate, then bearer token: the tokens of a file, then those of ServiceAccounts

Credentials that prove nothing are refused (401) even where nobody would have needed any; a request without credentials
is nobody's (`None`), and what that may do is `app`'s to say. Nothing of a body has been read by then, and a token is
looked up by its digest, so that time tells nothing about the tokens there are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from tonnage.documents.access.user import AUTHENTICATED, UNAUTHENTICATED, User
from tonnage.errors import Unauthorized


class Authenticator:
    """The users of one server, by their credentials."""

    def __init__(self, tokens: Mapping[str, User]) -> None:
        self._users = {_digest(token.encode()): with_authenticated(user) for token, user in tokens.items()}

    def authenticate(self, headers: Mapping[str, str]) -> User | None:
        """The user of a request; None without credentials. Raises Unauthorized for credentials that prove nothing."""
        token = bearer_token(headers.get("Authorization", ""))
        if not token:
            return None
        user = self._users.get(_digest(token))
        if user is None:
            raise Unauthorized("Unauthorized")
        return user


def bearer_token(header: str) -> bytes:
    """The token of an Authorization header, empty when there is none. A header may hold any bytes."""
    scheme, _, rest = header.strip().partition(" ")
    if scheme.lower() != "bearer":
        return b""
    return rest.partition(" ")[0].encode(errors="surrogateescape")


def with_authenticated(user: User) -> User:
    """Whoever has proved who he is belongs to this group too, as upstream's AuthenticatedGroupAdder has it."""
    if AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups:
        return user
    return replace(user, groups=(*user.groups, AUTHENTICATED))


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
