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
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote

from aiohttp import web
from cryptography import x509
from multidict import CIMultiDictProxy

from tonnage.client.delegated_access.authorities import Authorities, FrontProxies
from tonnage.client.delegated_access.reviews import ExpiringCache, ReviewFailed, Reviews
from tonnage.clock import Clock
from tonnage.objects.users import CREDENTIAL_ID, NOBODY, User, bearer_token
from tonnage.serving.certificate_judging import MOST_BETWEEN, InvalidCertificate, common_name, judged, read, subject_of

_DER: Final = 2
"""ENCODING_DER of Python's _ssl."""


def peer_certificates(request: web.BaseRequest) -> list[x509.Certificate]:
    """The client's certificate, and the unverified ones that it sent beside it. Raises InvalidCertificate."""
    transport = request.transport
    tls: Any = transport.get_extra_info("ssl_object") if transport is not None else None
    der = tls.getpeercert(binary_form=True) if tls is not None else None
    return [read(each) for each in (der, *_shown(tls)[1 : MOST_BETWEEN + 1])] if der else []


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
            peer = peer_certificates(request)
            found = self._by_certificate(peer, request.headers, problems) if peer else None
            if found is not None:
                return found.authenticated()
        except InvalidCertificate as exc:
            problems.append(str(exc))
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
        self, peer: list[x509.Certificate], headers: CIMultiDictProxy[str], problems: list[str]
    ) -> User | None:
        """The user of a front proxy, or of the certificate itself. Raises InvalidCertificate."""

        def check(authorities: bytes) -> None:
            judged(peer[0], certificates_of(authorities), shown_beside=peer[1:]).check(self._clock.now())

        authorities = self._authorities()
        proxies = authorities.front_proxies
        if proxies.ca_pem:
            try:
                check(proxies.ca_pem)
            except InvalidCertificate as exc:
                problems.append(f"the certificate is not one of a front proxy: {exc}")
            else:
                if proxies.allowed_names and (name := common_name(peer[0])) not in proxies.allowed_names:
                    problems.append(f"x509: subject with cn={name} is not in the allowed list")
                elif (said := user_of_headers(proxies, headers)) is not None:
                    return said
        if authorities.client_ca_pem:
            check(authorities.client_ca_pem)
            name, uid, groups, credential = subject_of(peer[0])
            return User(name, uid, groups, {CREDENTIAL_ID: (credential,)}) if name else None
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
