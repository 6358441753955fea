"""What a server knows people by, and what it shows itself: everything that is read from files when it starts.

DIR/token          the admin token, unless a token file names one        DIR/pki/ca.*         authority
DIR/pki/sa.key     signs ServiceAccounts' tokens                         DIR/pki/apiserver.*  serving certificate
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tonnage.apiserver.admin_credentials import ADMIN, ensure_token, read_tokens
from tonnage.apiserver.authentication.authenticator import Authenticator
from tonnage.apiserver.authentication.client_ca_file import read_client_ca
from tonnage.apiserver.authentication.client_certificates import ClientCertificates
from tonnage.apiserver.authentication.issuer import DEFAULT_ISSUER
from tonnage.apiserver.authentication.service_account_tokens import ServiceAccountTokens
from tonnage.apiserver.authentication.signing_key import ensure_signing_key
from tonnage.certificates import ensure_identity
from tonnage.clock import Clock
from tonnage.private_files import own_folder
from tonnage.serving.serving_certificate import ServingCertificate
from tonnage.store import Store


@dataclass(frozen=True, slots=True)
class ServerCredentials:
    """Who is known, the authorities of clients, and the certificate and the admin's token that the server hands out."""

    authenticator: Authenticator
    certificate: ServingCertificate
    admin_token: str
    client_certificates: ClientCertificates


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
) -> ServerCredentials:
    """Read what is there, make what is not. Raises TonnageError, and OSError as it comes.

    Somebody must be able to administrate: a token file without an administrator leaves the folder's own token in force.
    """
    pki = own_folder(folder / "pki")
    users = read_tokens(token_file) if token_file is not None else {}
    admin_token = next((token for token, user in users.items() if user.is_master), "")
    if not admin_token:
        admin_token = ensure_token(folder / "token")
        users = {**users, admin_token: ADMIN}
    own_ca = ensure_identity(pki, hosts, clock.now()).ca_pem
    client_ca = read_client_ca(client_ca_file) if client_ca_file else own_ca
    certificates = ClientCertificates(client_ca, clock.now)
    serving = ServingCertificate(pki, hosts, clock, prepare=certificates.ask_for)
    certificates.follow(serving.remake_context)
    accounts = ServiceAccountTokens(
        ensure_signing_key(pki / "sa.key"), store, clock, issuer=issuer, audiences=audiences
    )
    return ServerCredentials(
        Authenticator(users, accounts, certificates),
        serving,
        admin_token,
        certificates,
    )
