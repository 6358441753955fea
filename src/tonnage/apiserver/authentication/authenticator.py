"""The authenticator: it tries the credentials of a request in upstream's order. And the files a server reads at its
start:

    DIR/token          the admin token, unless a token file names one        DIR/pki/ca.*         authority
    DIR/pki/sa.key     signs ServiceAccounts' tokens                         DIR/pki/apiserver.*  serving certificate

A client certificate counts first, then a bearer token: of the token file, then of ServiceAccounts. Invalid credentials
are refused (401) even where none are needed; a request without credentials is anonymous (`None`). File tokens are
looked up by their digest, so that timing reveals nothing about them. Generated files are kept, so that yesterday's
kubeconfig works after a restart.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import logging
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import yaml

from tonnage.apiserver.authentication.client_certificates import ClientCertificates, read_client_ca
from tonnage.apiserver.authentication.service_account_tokens import ServiceAccountTokens, ensure_signing_key
from tonnage.apiserver.settings import DEFAULT_ISSUER
from tonnage.clock import Clock
from tonnage.documents.access.service_account_tokens import InvalidToken
from tonnage.errors import TonnageError, Unauthorized
from tonnage.objects.users import AUTHENTICATED, MASTERS, User, bearer_token
from tonnage.private_files import own_folder, read_given, read_own, write_private
from tonnage.serving.certificate_judging import InvalidCertificate
from tonnage.serving.server_tls import ServerTls, ServingCertificate
from tonnage.store.store import Store


class Authenticator:
    def __init__(
        self, tokens: Mapping[str, User], accounts: ServiceAccountTokens, certificates: ClientCertificates
    ) -> None:
        self._users = {_digest(token.encode()): user.authenticated() for token, user in tokens.items()}
        self.certificates = certificates
        self.accounts = accounts

    def authenticate(self, headers: Mapping[str, str], certificate: bytes | None = None) -> User | None:
        """The user of a request; None without credentials. `certificate` is DER. Raises Unauthorized."""
        refused: Exception | None = None
        if certificate:
            try:
                user = self.certificates.authenticate(certificate)
            except InvalidCertificate as exc:
                refused = exc
            else:
                if user is not None:
                    return user.authenticated()
        token = token_in(headers.get("Authorization", ""))
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
        """The user of a token, and the `audiences` it is valid for (a file's: this server). Raises InvalidToken."""
        user = self._users.get(_digest(token))
        if user is None:
            user, shared = self.accounts.authenticate(token, audiences)
            return user.authenticated(), shared
        shared = tuple(audience for audience in self.accounts.audiences if audience in audiences)
        if not shared:
            raise InvalidToken("invalid bearer token")
        return user, shared


def token_in(header: str) -> bytes:
    """The token of an Authorization header, or empty. A header may hold any bytes."""
    return bearer_token(header).encode(errors="surrogateescape")


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


ADMIN: Final = User("admin", groups=(MASTERS, AUTHENTICATED))
"""The user of a token without a name."""
_FORM: Final = 'write one token a line into it, or token,user,uid,"group1,group2"'
_log = logging.getLogger(__name__)


def ensure_token(path: Path) -> str:
    """The admin token kept in a file, created on first use. Raises NotOurs for another user's file."""
    try:
        kept = read_own(path)
    except FileNotFoundError:
        kept = (secrets.token_urlsafe(32) + "\n").encode()
        write_private(path, kept)
    return next(iter(_users(path, kept)))


def read_tokens(path: Path) -> dict[str, User]:
    """The users of a token file by token. A line is `token,user,uid,"group1,group2"`, or an administrator's bare token.

    Raises NotOurs for a file that others own or can write to: they could add themselves as any user.
    """
    try:
        return _users(path, read_given(path))
    except OSError as exc:
        raise TonnageError(
            f"cannot read the token file {path}: {exc.strerror}", hint="name a readable file with one token a line"
        ) from exc


def _users(path: Path, content: bytes) -> dict[str, User]:
    try:
        lines = [line for line in content.decode().splitlines(keepends=True) if not line.startswith("#")]
        rows = [row for row in csv.reader(lines, strict=True) if "".join(row).strip()]
    except UnicodeDecodeError as exc:
        raise TonnageError(f"the token file {path} is not text: {exc}", hint=_FORM) from exc
    except csv.Error as exc:
        raise TonnageError(f"the token file {path} cannot be read: {exc}", hint=_FORM) from exc
    users: dict[str, User] = {}
    for number, row in enumerate(rows, 1):
        token = row[0].strip()
        if len(row) == 2:
            found = f"2 columns in entry {number}, and a user needs three: token, user name, user uid"
            raise TonnageError(f"the token file {path} has {found}", hint=_FORM)
        if not token:
            _log.warning("The token file %s has an entry without a token, number %d: nobody can use it", path, number)
            continue
        if token in users:
            _log.warning("The token file %s has a token twice, in entry %d again: the last one counts", path, number)
        groups = tuple(filter(None, row[3].split(","))) if len(row) > 3 else ()
        users[token] = ADMIN if len(row) == 1 else User(row[1], row[2], groups)
    if not users:
        raise TonnageError(f"the token file {path} holds no token", hint=_FORM)
    return users


def write_kubeconfig(path: Path, *, url: str, ca_pem: bytes, token: str) -> None:
    """Write an admin kubeconfig, readable only by its owner."""
    authority = base64.b64encode(ca_pem).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "tonnage", "cluster": {"server": url, "certificate-authority-data": authority}}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "tonnage", "context": {"cluster": "tonnage", "user": "admin"}}],
        "current-context": "tonnage",
    }
    write_private(path, yaml.safe_dump(config, sort_keys=False).encode())


def read_credentials(
    folder: Path,
    store: Store,
    clock: Clock,
    hosts: tuple[str, ...],
    *,
    token_file: Path | None = None,
    client_ca_file: Path | None = None,
    issuer: str = DEFAULT_ISSUER,
    audiences: Sequence[str] = (),
) -> tuple[Authenticator, ServerTls, bytes, str]:
    """The authenticator, TLS, its CA and the admin's token. Missing files are created. Raises TonnageError, OSError.

    If the token file names no administrator, the folder's own token stays valid.
    """
    pki = own_folder(folder / "pki")
    users = read_tokens(token_file) if token_file is not None else {}
    admin_token = next((token for token, user in users.items() if user.is_master), "")
    if not admin_token:
        admin_token = ensure_token(folder / "token")
        users = {**users, admin_token: ADMIN}
    serving = ServingCertificate(pki, hosts, clock)
    own_ca = serving.identity.ca_pem
    certificates = ClientCertificates(read_client_ca(client_ca_file) if client_ca_file else own_ca, clock.now)
    tls = ServerTls(serving, client_authorities=lambda: certificates.ca_pem)
    accounts = ServiceAccountTokens(
        ensure_signing_key(pki / "sa.key"), store, clock, issuer=issuer, audiences=audiences
    )
    return Authenticator(users, accounts, certificates), tls, own_ca, admin_token
