"""TokenReview and SubjectAccessReview: questions to the API server about another user.

Retries are upstream's (DefaultAuthWebhookRetryBackoff): five tries within ten seconds, after a cut connection, 429,
500, 504, or a Retry-After. A server that is away is not waited for.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

from tonnage.client import errors, throttle
from tonnage.client.transport.wire import HttpResponse, Request, Transport
from tonnage.clock import Clock, exponential_s, jittered
from tonnage.errors import TonnageError
from tonnage.objects.users import User

TIMEOUT_S: Final = 10.0
_TRIES: Final = 5
_FIRST_PAUSE_S, _FACTOR, _JITTER = 0.5, 1.5, 0.2
_QPS, _BURST = 200.0, 400
"""How many questions a second strangers can cause: upstream's limits of these two clients."""
_RETRIED: Final = frozenset({429, 500, 504})

_TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class ReviewFailed(TonnageError):
    """The API server gave no usable answer: it is away, refuses the question, or answers something else."""


class AccessAnswer(msgspec.Struct, frozen=True):
    """The status of a SubjectAccessReview. A user who is not allowed is refused, denied or not."""

    allowed: bool = False
    denied: bool = False
    reason: str = ""


class _UserInfo(msgspec.Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _TokenStatus(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: _UserInfo = _UserInfo()
    error: str = ""


class _TokenReview(msgspec.Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _AccessReview(msgspec.Struct, frozen=True):
    status: AccessAnswer = AccessAnswer()


class Reviews:
    """Asks one API server. The caller closes the transport."""

    def __init__(self, transport: Transport, *, clock: Clock, rng: random.Random) -> None:
        self._transport = transport
        self._clock = clock
        self._rng = rng
        self._limit = throttle.TokenBucket(_QPS, _BURST, clock=clock)

    async def user_of(self, token: str) -> User | None:
        """The token's user; None for an unknown token. Raises ReviewFailed."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status = (await self._ask(_TOKEN_REVIEWS, body, _TokenReview)).status
        if status.authenticated:
            user, extra = status.user, {name: tuple(values) for name, values in status.user.extra.items()}
            return User(user.username, user.uid, tuple(user.groups), extra)
        if status.error:
            raise ReviewFailed(status.error)
        return None

    async def access(self, spec: Mapping[str, Any]) -> AccessAnswer:
        """Whether the access in `spec` is allowed. Raises ReviewFailed."""
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        status: AccessAnswer = (await self._ask(_ACCESS_REVIEWS, body, _AccessReview)).status
        if status.allowed and status.denied:
            raise ReviewFailed("webhook subject access review returned both allow and deny response")
        return status

    async def _ask(self, path: str, body: Mapping[str, Any], answer: type[Any]) -> Any:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                response = await self._send(Request("POST", path, msgspec.json.encode(body), timeout_s=TIMEOUT_S))
        except TimeoutError as exc:
            raise ReviewFailed(f"POST {path}: no answer within {TIMEOUT_S:g} s") from exc
        except TonnageError as exc:
            raise ReviewFailed(exc.message) from exc
        if response.code not in (200, 201):
            told = errors.status_message(response.body) or f"the answer is {response.code}"
            raise ReviewFailed(f"POST {path}: {told}")
        try:
            return msgspec.json.decode(response.body, type=answer)
        except (msgspec.DecodeError, ValueError, RecursionError) as exc:
            raise ReviewFailed(f"POST {path}: the answer is not a review") from exc

    async def _send(self, request: Request) -> HttpResponse:
        """Raises Disconnected and the transport's other errors after the last useful try."""
        for tried in range(_TRIES):
            await self._limit.take()
            is_last = tried == _TRIES - 1
            try:
                response = await self._transport.send(request)
            except errors.Disconnected as exc:
                if is_last or not exc.in_doubt:
                    raise
            else:
                is_transient = response.code in _RETRIED or (response.code >= 400 and "retry-after" in response.headers)
                if is_last or not is_transient:
                    return response
            await self._clock.sleep(jittered(exponential_s(_FIRST_PAUSE_S, tried, factor=_FACTOR), _JITTER, self._rng))
        raise AssertionError("unreachable: the last try returns or raises")


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ExpiringCache(Generic[K, V]):
    """Values by key with their own expiry. None is no value."""

    def __init__(self, size: int, *, clock: Clock) -> None:
        self._size = size
        self._clock = clock
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def get(self, key: K) -> V | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        until, value = entry
        if self._clock.monotonic() >= until:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V, *, for_s: float) -> None:
        """Keep a value for `for_s` seconds; not at all for 0 or less."""
        if for_s <= 0:
            return
        self._entries[key] = (self._clock.monotonic() + for_s, value)
        self._entries.move_to_end(key)
        while len(self._entries) > self._size:
            self._entries.popitem(last=False)

    def __len__(self) -> int:
        return len(self._entries)
