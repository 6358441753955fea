"""Who asks: the credentials of a request, tried in upstream's order, and the user they prove.

    client certificate, then bearer token: the tokens of a file, then those of ServiceAccounts

Credentials that prove nothing are refused (401) even where nobody would have needed any; a request without credentials
is nobody's (`None`). A token of a file is looked up by its digest, so that time tells nothing about the tokens there
are.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tonnage.apiserver.authentication.client_certificates import ClientCertificates
from tonnage.apiserver.authentication.service_account_tokens import ServiceAccountTokens
from tonnage.documents.access.service_account_tokens import InvalidToken
from tonnage.errors import Unauthorized
from tonnage.objects.users import AUTHENTICATED, UNAUTHENTICATED, User
from tonnage.serving.certificate_judging import InvalidCertificate

_log = logging.getLogger(__name__)


class Authenticator:
    """The users of one server, by their credentials."""

    def __init__(
        self, tokens: Mapping[str, User], accounts: ServiceAccountTokens, certificates: ClientCertificates | None = None
    ) -> None:
        self._users = {_digest(token.encode()): with_authenticated(user) for token, user in tokens.items()}
        self._certificates = certificates
        self.accounts = accounts

    def authenticate(self, headers: Mapping[str, str], certificate: bytes | None = None) -> User | None:
        """The user of a request; None without credentials. `certificate` (DER) counts before a token. Raises
        Unauthorized.
        """
        refused: Exception | None = None
        if certificate and self._certificates is not None:
            try:
                user = self._certificates.authenticate(certificate)
            except InvalidCertificate as exc:
                refused = exc
            else:
                if user is not None:
                    return with_authenticated(user)
        token = bearer_token(headers.get("Authorization", ""))
        if token:
            try:
                return self.authenticate_token(token, self.accounts.audiences)[0]
            except InvalidToken as exc:
                refused = exc
        if refused is not None:
            _log.info("A request shows credentials that prove nothing: %s", refused)
            raise Unauthorized("Unauthorized") from refused
        return None

    def authenticate_token(self, token: bytes, audiences: Sequence[str]) -> tuple[User, tuple[str, ...]]:
        """The user of a token, and for which of `audiences` it is good: a file's tokens for this server. Raises
        InvalidToken.
        """
        digest = _digest(token)
        user = self._users.get(digest)
        if user is None:
            user, shared = self.accounts.authenticate(token, audiences, digest)
            return with_authenticated(user), shared
        shared = tuple(audience for audience in self.accounts.audiences if audience in audiences)
        if not shared:
            raise InvalidToken("invalid bearer token")
        return user, shared


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
