"""The gate of a program's own pages, as kube-scheduler's: the API server says who asks, and whether they may.

      request ─► an open path? ── yes ─► answered, whatever it shows
                   │ no
                   ├─► authentication: front proxy, client certificate, bearer token, anonymous ── refused ─► 401
                   └─► authorisation: system:masters, then SubjectAccessReview (path, verb) ── refused ─► 403
                                                                         └─ no answer ─► 500

Refusals are upstream's, word for word. Unlike upstream, an open path is answered even with a bad token. Credentials
that are shown and not accepted refuse the request. TLS only proves that the client has the key of its certificate; the
certificate is verified on every request, because the authorities change.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import random
import secrets
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import lru_cache
from html import escape
from typing import Final, Self
from urllib.parse import unquote

import msgspec
from aiohttp import web
from cryptography import x509
from multidict import CIMultiDictProxy

from tonnage.client.config.connection import ServerConnection
from tonnage.client.delegated_access import OPEN_PATHS, OpenPaths
from tonnage.client.delegated_access.authorities import AuthoritySources, FollowedAuthorities, FrontProxies
from tonnage.client.delegated_access.reviews import AccessAnswer, ExpiringCache, ReviewFailed, Reviews
from tonnage.client.transport.http_transport import HttpTransport
from tonnage.client.transport.wire import Transport
from tonnage.clock import Clock
from tonnage.errors import ApiError, Forbidden, Unauthorized
from tonnage.http_connection import connection_of
from tonnage.objects.document import encode
from tonnage.objects.users import CREDENTIAL_ID, NOBODY, User, bearer_token
from tonnage.serving.certificate_judging import MOST_BETWEEN, InvalidCertificate, common_name, judged, read, subject_of


@lru_cache(maxsize=8)
def certificates_of(pem: bytes) -> tuple[x509.Certificate, ...]:
    """The certificates in a PEM file; empty for an empty or broken one."""
    try:
        return tuple(x509.load_pem_x509_certificates(pem)) if pem else ()
    except ValueError:
        return ()


_KEPT_TOKENS: Final = 4096


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
        self._known: ExpiringCache[bytes, tuple[User | None]] = ExpiringCache(_KEPT_TOKENS, clock=clock)
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
        user = await self._reviews.user_of(token)
        self._known.put(digest, (user,), for_s=self._ttl_s)
        return user

    def _answered(self, digest: bytes, done: asyncio.Task[User | None]) -> None:
        self._asked.pop(digest, None)
        if not done.cancelled():
            done.exception()  # every waiting caller has it; when all have hung up, nobody needs it


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


_CACHE_SIZE: Final = 8192
_MAX_CACHED_BYTES: Final = 2_000
"""Longer questions are not cached: requests of strangers must not fill the memory."""


class DelegatedAuthorizer:
    """Whether a user may read a path. The API server's answers are cached for `allow_ttl_s` and `deny_ttl_s`."""

    def __init__(self, reviews: Reviews, *, allow_ttl_s: float, deny_ttl_s: float, clock: Clock) -> None:
        self._reviews = reviews
        self._allow_ttl_s = allow_ttl_s
        self._deny_ttl_s = deny_ttl_s
        self._known: ExpiringCache[bytes, AccessAnswer] = ExpiringCache(_CACHE_SIZE, clock=clock)

    async def may(self, user: User, verb: str, path: str) -> AccessAnswer:
        if user.is_master:
            return AccessAnswer(True)
        spec = {"nonResourceAttributes": {"path": path, "verb": verb}, **user.review_spec()}
        key = msgspec.json.encode(spec)
        known = self._known.get(key)
        if known is not None:
            return known
        answer = await self._reviews.access(spec)
        if len(key) <= _MAX_CACHED_BYTES:
            self._known.put(key, answer, for_s=self._allow_ttl_s if answer.allowed else self._deny_ttl_s)
        return answer


_CONNECTIONS: Final = 8
_HEADERS: Final = {"Cache-Control": "no-cache, private"}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """The values of the flags; the defaults are upstream's."""

    token_ttl_s: float = 10.0
    allow_ttl_s: float = 10.0
    deny_ttl_s: float = 10.0
    open_paths: tuple[str, ...] = OPEN_PATHS
    authorities: AuthoritySources = field(default_factory=AuthoritySources)


class DelegatedAccess:
    """One program's gate. Entering it reads the authorities; raises TonnageError there if that must succeed.

    `authentication` and `authorization` are the servers to ask.
    """

    def __init__(
        self,
        authentication: ServerConnection,
        authorization: ServerConnection,
        settings: AccessSettings,
        *,
        clock: Clock,
        rng: random.Random,
        user_agent: str,
        transport: Transport | None = None,
    ) -> None:
        """`transport` replaces the connections to both servers."""

        def way_to(connection: ServerConnection) -> Transport:
            return transport or HttpTransport(
                connection, clock=clock, user_agent=user_agent, max_connections=_CONNECTIONS
            )

        first = way_to(authentication)
        second = first if authorization is authentication else way_to(authorization)
        self._transports = (first,) if second is first else (first, second)
        reviews = Reviews(first, clock=clock, rng=rng)
        self._tokens = TokenAuthenticator(reviews, ttl_s=settings.token_ttl_s, clock=clock)
        self._authorities = FollowedAuthorities(settings.authorities, first, clock=clock, rng=rng)
        self._clock = clock
        self._authorizer = DelegatedAuthorizer(
            Reviews(second, clock=clock, rng=rng),
            allow_ttl_s=settings.allow_ttl_s,
            deny_ttl_s=settings.deny_ttl_s,
            clock=clock,
        )
        self._open = OpenPaths(settings.open_paths)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            for transport in self._transports:
                stack.push_async_callback(transport.close)
            stack.push_async_callback(self._tokens.close)
            await stack.enter_async_context(self._authorities.followed())
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def client_authorities(self) -> bytes:
        return self._authorities.all_pem

    async def gate(self, request: web.BaseRequest) -> web.Response | None:
        """None when the request may go on, else its refusal."""
        path, verb = request.path, request.method.lower()
        if self._open.has(path):
            return None
        try:
            user = await self._user_of(request)
        except Unauthenticated as exc:
            _log.info("Unable to authenticate the request: %s", exc)
            return _refusal(Unauthorized("Unauthorized"))
        if not user.is_anonymous:
            connection_of(request).let_in()  # it is kept before those of strangers
        try:
            answer = await self._authorizer.may(user, verb, path)
        except ReviewFailed as exc:
            _log.warning("Permissions cannot be checked: %s", exc.message)
            told = escape(f'Internal Server Error: "{request.path_qs}": {exc.message}', quote=False)
            return web.Response(status=500, text=f"{told}\n", headers={**_HEADERS, "X-Content-Type-Options": "nosniff"})
        return None if answer.allowed else _forbidden(user, verb, path, answer.reason)

    async def _user_of(self, request: web.BaseRequest) -> User:
        """Raises Unauthenticated."""
        problems: list[str] = []
        try:
            peer = [read(each) for each in connection_of(request).certificates[: MOST_BETWEEN + 1]]
            user = self._by_certificate(peer, request.headers, problems) if peer else None
            if user is not None:
                return user.authenticated()
        except InvalidCertificate as exc:
            problems.append(str(exc))
        token = bearer_token(request.headers.get("Authorization", ""))
        if token:
            try:
                user = await self._tokens.user_of(token)
                if user is not None:
                    return user.authenticated()
                problems.append("invalid bearer token")
            except ReviewFailed as exc:
                _log.warning("A token cannot be checked: %s", exc.message)
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

        authorities, proxies = self._authorities, self._authorities.front_proxies
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


def _forbidden(user: User, verb: str, path: str, reason: str) -> web.Response:
    message = escape(f"User {_quoted(user.name)} cannot {verb} path {_quoted(path)}", quote=False)
    return _refusal(Forbidden(f"forbidden: {message}: {reason}" if reason else f"forbidden: {message}"))


def _refusal(error: ApiError) -> web.Response:
    headers = {**_HEADERS, "Content-Type": "application/json", "X-Content-Type-Options": "nosniff"}
    return web.Response(status=error.code, body=encode(error.status()) + b"\n", headers=headers)


def _quoted(text: str) -> str:
    """In quotes, escaped: the text comes from strangers."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
