"""The gate of a program's own pages, as kube-scheduler's: the API server says who asks, and whether they may.

      request ─► an open path? ── yes ─► answered, whatever it shows
                   │ no
                   ├─► authentication: front proxy, client certificate, bearer token, anonymous ── refused ─► 401
                   └─► authorisation: system:masters, then SubjectAccessReview (path, verb) ── refused ─► 403
                                                                         └─ no answer ─► 500

Refusals are upstream's, word for word. Unlike upstream, an open path is answered even with a bad token.
"""

from __future__ import annotations

import logging
import random
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from html import escape
from typing import Final, Self

import msgspec
from aiohttp import web

from tonnage.client.config.connection import ServerConnection
from tonnage.client.delegated_access import OPEN_PATHS, OpenPaths
from tonnage.client.delegated_access.authentication import DelegatedAuthenticator, TokenAuthenticator, Unauthenticated
from tonnage.client.delegated_access.authorities import AuthoritySources, FollowedAuthorities
from tonnage.client.delegated_access.reviews import AccessAnswer, ExpiringCache, ReviewFailed, Reviews
from tonnage.client.transport.http_transport import HttpTransport
from tonnage.client.transport.wire import Transport
from tonnage.clock import Clock
from tonnage.health import recognised
from tonnage.objects.document import encode
from tonnage.objects.users import User

_CACHE_SIZE: Final = 8192
_MAX_CACHED_BYTES: Final = 2_000
"""Longer questions are not cached: requests of strangers must not fill the memory."""


class DelegatedAuthorizer:
    """Whether a user may read a path. The API server's answers are cached for `allow_ttl_s` and `deny_ttl_s`."""

    def __init__(self, reviews: Reviews | None, *, allow_ttl_s: float, deny_ttl_s: float, clock: Clock) -> None:
        self._reviews = reviews
        self._allow_ttl_s = allow_ttl_s
        self._deny_ttl_s = deny_ttl_s
        self._known: ExpiringCache[bytes, AccessAnswer] = ExpiringCache(_CACHE_SIZE, clock=clock)

    async def may(self, user: User, verb: str, path: str) -> AccessAnswer:
        if user.is_master:
            return AccessAnswer(True)
        if self._reviews is None:
            return AccessAnswer(False)
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

    `authentication` and `authorization` are the servers to ask. Without the first no token is accepted, without the
    second only administrators may read.
    """

    def __init__(
        self,
        authentication: ServerConnection | None,
        authorization: ServerConnection | None,
        settings: AccessSettings,
        *,
        clock: Clock,
        rng: random.Random,
        user_agent: str,
        transport: Transport | None = None,
    ) -> None:
        """`transport` replaces the connections to both servers."""

        def way_to(connection: ServerConnection | None) -> Transport | None:
            if connection is None or transport is not None:
                return transport
            return HttpTransport(connection, clock=clock, user_agent=user_agent, max_connections=_CONNECTIONS)

        first = way_to(authentication)
        second = first if authorization is authentication else way_to(authorization)
        self._transports: tuple[Transport, ...] = tuple({id(each): each for each in (first, second) if each}.values())
        self._tokens: TokenAuthenticator | None = None
        if first is not None:
            reviews = Reviews(first, clock=clock, rng=rng)
            self._tokens = TokenAuthenticator(reviews, ttl_s=settings.token_ttl_s, clock=clock)
        self._authorities = FollowedAuthorities(settings.authorities, first, clock=clock, rng=rng)
        self._authenticator = DelegatedAuthenticator(lambda: self._authorities.current, self._tokens, clock)
        self._authorizer = DelegatedAuthorizer(
            Reviews(second, clock=clock, rng=rng) if second is not None else None,
            allow_ttl_s=settings.allow_ttl_s,
            deny_ttl_s=settings.deny_ttl_s,
            clock=clock,
        )
        self._open = OpenPaths(settings.open_paths)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            for each in self._transports:
                stack.push_async_callback(each.close)
            if self._tokens is not None:
                stack.push_async_callback(self._tokens.close)
            await stack.enter_async_context(self._authorities)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def client_authorities(self) -> bytes:
        return self._authorities.current.all_pem

    async def gate(self, request: web.BaseRequest) -> web.Response | None:
        """None when the request may go on, else its refusal."""
        path, verb = request.path, request.method.lower()
        if self._open.has(path):
            return None
        try:
            user = await self._authenticator.user_of(request)
        except Unauthenticated as exc:
            _log.info("Unable to authenticate the request: %s", exc)
            return _status(401, "Unauthorized", "Unauthorized")
        if not user.is_anonymous:
            recognised(request)
        try:
            answer = await self._authorizer.may(user, verb, path)
        except ReviewFailed as exc:
            _log.warning("It cannot be told who may read: %s", exc.message)
            told = escape(f'Internal Server Error: "{request.path_qs}": {exc.message}', quote=False)
            return web.Response(status=500, text=f"{told}\n", headers={**_HEADERS, "X-Content-Type-Options": "nosniff"})
        return None if answer.allowed else _forbidden(user, verb, path, answer.reason)


def _forbidden(user: User, verb: str, path: str, reason: str) -> web.Response:
    message = escape(f"User {_quoted(user.name)} cannot {verb} path {_quoted(path)}", quote=False)
    message = f"forbidden: {message}: {reason}" if reason else f"forbidden: {message}"
    return _status(403, "Forbidden", message)


def _status(code: int, reason: str, message: str) -> web.Response:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        **({"details": {}} if code == 403 else {}),
        "code": code,
    }
    headers = {**_HEADERS, "Content-Type": "application/json", "X-Content-Type-Options": "nosniff"}
    return web.Response(status=code, body=encode(status) + b"\n", headers=headers)


def _quoted(text: str) -> str:
    """In quotes, escaped: the text comes from strangers."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
