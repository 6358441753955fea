"""Who asks: by a front proxy's headers, a client certificate, a bearer token, or anonymous, in upstream's order.

Credentials that are shown and not accepted refuse the request (401). TLS only proves that the client has the key of its
certificate; the certificate is verified on every request, because the authorities change.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from multidict import CIMultiDictProxy

from tonnage.client.delegated_access.authorities import Authorities, FrontProxies
from tonnage.client.delegated_access.reviews import ExpiringCache, ReviewFailed, Reviews
from tonnage.clock import Clock
from tonnage.objects.users import CREDENTIAL_ID, NOBODY, User, bearer_token
from tonnage.serving.certificate_judging import MOST_BETWEEN, InvalidCertificate, judged, read

_UID: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
"""The subject attribute that holds the user's uid."""
_DER: Final = 2
"""ENCODING_DER of Python's _ssl."""


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    """A client's certificate, and the unverified certificates that it sent beside it."""

    leaf: x509.Certificate
    shown_beside: tuple[x509.Certificate, ...] = ()

    @property
    def common_name(self) -> str:
        return (_texts(self.leaf.subject, NameOID.COMMON_NAME) or [""])[-1]  # of several, the last, as in Go

    def check(self, authorities: Sequence[x509.Certificate], now: datetime) -> None:
        """Raises InvalidCertificate unless it chains to one of the authorities, is for clients, and is valid now."""
        judged(self.leaf, authorities, shown_beside=self.shown_beside).check(now)

    def user(self) -> User | None:
        """The certificate's name, groups and uid; None without a name. Mirrors x509.CommonNameUserConversion."""
        name, uids = self.common_name, _texts(self.leaf.subject, _UID)
        if not name or len(uids) > 1:
            return None
        fingerprint = hashlib.sha256(self.leaf.public_bytes(Encoding.DER)).hexdigest()
        extra = {CREDENTIAL_ID: (f"X509SHA256={fingerprint}",)}
        groups = _texts(self.leaf.subject, NameOID.ORGANIZATION_NAME)
        return User(name, "".join(uids), tuple(groups), extra)


def peer_certificate(request: web.BaseRequest) -> PeerCertificate | None:
    """The client certificate of the request's connection, or None. Raises InvalidCertificate."""
    transport = request.transport
    tls: Any = transport.get_extra_info("ssl_object") if transport is not None else None
    der = tls.getpeercert(binary_form=True) if tls is not None else None
    if not der:
        return None
    return PeerCertificate(read(der), tuple(read(each) for each in _shown(tls)[1 : MOST_BETWEEN + 1]))


@lru_cache(maxsize=8)
def certificates_of(pem: bytes) -> tuple[x509.Certificate, ...]:
    """The certificates in a PEM file; empty for an empty or broken one."""
    try:
        return tuple(x509.load_pem_x509_certificates(pem)) if pem else ()
    except ValueError:
        return ()


def _shown(tls: Any) -> tuple[bytes, ...]:
    """The certificates that the client sent, its own first; empty if this Python cannot say."""
    told = getattr(tls, "get_unverified_chain", None)
    if told is not None:
        return tuple(told())
    told = getattr(getattr(tls, "_sslobj", None), "get_unverified_chain", None)
    return tuple(each.public_bytes(_DER) for each in told() or ()) if told is not None else ()


def _texts(name: x509.Name, oid: x509.ObjectIdentifier) -> list[str]:
    values = [each.value for each in name.get_attributes_for_oid(oid)]
    return [value if isinstance(value, str) else value.decode(errors="replace") for value in values]


_CACHE_SIZE: Final = 4096

_log = logging.getLogger(__name__)


class Unauthenticated(Exception):
    """Credentials were shown, and none is accepted."""


class TokenAuthenticator:
    """Asks the API server whose a token is, and remembers the answer, good or bad, for `ttl_s` by a keyed hash.

    Failures are not remembered. Concurrent requests with one token share one question.
    """

    def __init__(self, reviews: Reviews, *, ttl_s: float, clock: Clock) -> None:
        self._reviews = reviews
        self._ttl_s = ttl_s
        self._key = secrets.token_bytes(32)
        self._known: ExpiringCache[bytes, tuple[User | None]] = ExpiringCache(_CACHE_SIZE, clock=clock)
        self._asked: dict[bytes, asyncio.Task[User | None]] = {}

    async def user_of(self, token: str) -> User | None:
        """The token's user; None for an unknown token. Raises ReviewFailed."""
        digest = hmac.new(self._key, token.encode(errors="surrogateescape"), hashlib.sha256).digest()
        known = self._known.get(digest)
        if known is not None:
            return known[0]
        asking = self._asked.get(digest)
        if asking is None:
            asking = asyncio.create_task(self._ask(digest, token))
            self._asked[digest] = asking
            asking.add_done_callback(lambda done: self._answered(digest, done))
        return await asyncio.shield(asking)  # a caller that hangs up does not cancel the question of the others

    async def close(self) -> None:
        for asking in list(self._asked.values()):
            asking.cancel()
        await asyncio.gather(*self._asked.values(), return_exceptions=True)

    async def _ask(self, digest: bytes, token: str) -> User | None:
        found = await self._reviews.user_of(token)
        self._known.put(digest, (found,), for_s=self._ttl_s)
        return found

    def _answered(self, digest: bytes, done: asyncio.Task[User | None]) -> None:
        self._asked.pop(digest, None)
        if not done.cancelled():
            done.exception()  # every waiting caller has it; when all have hung up, nobody needs it


@dataclass(frozen=True, slots=True)
class DelegatedAuthenticator:
    """Finds the user of a request. `authorities` gives the current CAs; tokens may be off."""

    _authorities: Callable[[], Authorities]
    _tokens: TokenAuthenticator | None
    _clock: Clock

    async def user_of(self, request: web.BaseRequest) -> User:
        """Raises Unauthenticated."""
        problems: list[str] = []
        try:
            peer = peer_certificate(request)
        except InvalidCertificate as exc:
            peer = None
            problems.append(str(exc))
        if peer is not None:
            found = self._by_certificate(peer, request.headers, problems)
            if found is not None:
                return found.authenticated()
        token = bearer_token(request.headers.get("Authorization", ""))
        if token and self._tokens is not None:
            try:
                found = await self._tokens.user_of(token)
                if found is not None:
                    return found.authenticated()
                problems.append("invalid bearer token")
            except ReviewFailed as exc:
                _log.warning("A token cannot be judged: %s", exc.message)
                problems.append(exc.message)
        if problems:
            raise Unauthenticated("; ".join(problems))
        return NOBODY

    def _by_certificate(
        self, peer: PeerCertificate, headers: CIMultiDictProxy[str], problems: list[str]
    ) -> User | None:
        authorities, now = self._authorities(), self._clock.now()
        proxies = authorities.front_proxies
        if proxies.ca_pem:
            try:
                peer.check(certificates_of(proxies.ca_pem), now)
            except InvalidCertificate as exc:
                problems.append(f"the certificate is not one of a front proxy: {exc}")
            else:
                if proxies.allowed_names and peer.common_name not in proxies.allowed_names:
                    problems.append(f"x509: subject with cn={peer.common_name} is not in the allowed list")
                elif (said := user_of_headers(proxies, headers)) is not None:
                    return said
        if authorities.client_ca_pem:
            try:
                peer.check(certificates_of(authorities.client_ca_pem), now)
            except InvalidCertificate as exc:
                problems.append(str(exc))
            else:
                return peer.user()
        return None


def user_of_headers(proxies: FrontProxies, headers: CIMultiDictProxy[str]) -> User | None:
    """The user named by a front proxy's headers; None without a name. Mirrors headerrequest."""

    def first(names: tuple[str, ...]) -> str:
        return next((headers[name] for name in names if headers.get(name)), "")

    name = first(proxies.username_headers)
    if not name:
        return None
    groups = [value for header in proxies.group_headers for value in headers.getall(header, ()) if value]
    extra: dict[str, tuple[str, ...]] = {}
    for prefix in proxies.extra_prefixes:
        for header, value in headers.items():
            if prefix and header.lower().startswith(prefix):
                key = unquote(header.lower()[len(prefix) :])
                extra[key] = (*extra.get(key, ()), value)
    return User(name, first(proxies.uid_headers), tuple(groups), extra)
