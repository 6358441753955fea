"""One call to the server: rate limit, metrics, refusals as exceptions, and retries.

    what came back                  a read                            a write
    no answer (Disconnected)        retried                           not: it may have been carried out
    429                             retried                           if the server says when (Retry-After)
    502, 503, 504, 5xx with a time  retried                           not
    anything else                   not                               not

The guard (`leadership`) and `asking_first` are asked before every try of a write, after all waiting.
"""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass

import msgspec
from msgspec.structs import replace

from tonnage.client import errors, throttle
from tonnage.client.leadership import Leadership
from tonnage.client.transport.wire import HttpResponse, Request, Stream, Transport
from tonnage.clock import Backoff, Clock
from tonnage.errors import ApiError, TonnageError
from tonnage.objects import codec, decode_errors, meta, small_groups

OnRequest = Callable[[str, str, int, float], None]
"""(verb, resource, HTTP code or 0 without an answer, seconds): called for every request, retries included."""


_RETRIES = 4
_PAUSE_S, _MAX_PAUSE_S = 0.2, 5.0
_QUIET_S = 0.25
"""For so long after its last write a program counts as writing: the next write is likely."""
_MAX_RETRY_AFTER_S = 30
"""A longer Retry-After is not waited for: the caller gets the error."""

_log = logging.getLogger(__name__)


_asked_first: ContextVar[Callable[[], None] | None] = ContextVar("asked_first", default=None)


@contextmanager
def asking_first(check: Callable[[], None]) -> Iterator[None]:
    """Call `check` right before every write of this task in the block; if it raises, nothing is sent."""
    token = _asked_first.set(check)
    try:
        yield
    finally:
        _asked_first.reset(token)


class ApiCall(msgspec.Struct, frozen=True, eq=False):
    """A request and its meaning: `resource` is `pods`, `pods/binding`, `csinodes.storage.k8s.io`, or a path."""

    verb: str
    resource: str
    request: Request
    retry: bool = True

    @property
    def is_read(self) -> bool:
        return self.request.method == "GET"


@dataclass(eq=False)
class Caller:
    transport: Transport
    _: KW_ONLY
    clock: Clock
    rng: random.Random
    limit: throttle.Limit | None = None
    on_request: OnRequest | None = None
    guard: Leadership | None = None

    def __post_init__(self) -> None:
        self._warned: set[str] = set()
        self._writing = 0
        self._wrote_at_s = float("-inf")

    @property
    def is_writing(self) -> bool:
        """True if a write is under way, or was within `_QUIET_S`."""
        return self._writing > 0 or self.clock.monotonic() - self._wrote_at_s < _QUIET_S

    async def send(self, call: ApiCall) -> bytes:
        """The body of a successful answer. Raises ApiError, Disconnected, NoCredentials."""
        backoff: Backoff | None = None
        for tries_left in range(_RETRIES if call.retry else 0, -1, -1):
            try:
                response = await self._once(call)
            except errors.Disconnected as exc:
                failure: ApiError | errors.Disconnected = exc
            else:
                self._pass_on(response.warnings)
                if 200 <= response.code < 300:
                    return response.body
                failure = self._error_of(call, response)
            if not tries_left or not _is_worth_another_try(call, failure):
                raise failure
            if backoff is None:
                backoff = Backoff(clock=self.clock, rng=self.rng, first_s=_PAUSE_S, max_s=_MAX_PAUSE_S)
            asked_s = failure.retry_after_s if isinstance(failure, ApiError) else 0
            await self.clock.sleep(max(float(asked_s), backoff.next_s()))
        raise AssertionError("unreachable: the last try returns or raises")

    @asynccontextmanager
    async def stream(self, call: ApiCall) -> AsyncIterator[Stream]:
        """An accepted stream. Raises as `send` does; not retried."""
        await self._wait_for_limit()
        started_at, code = self.clock.monotonic(), 0
        try:
            async with self.transport.stream(call.request) as stream:
                code = stream.code
                self._count(call, code, started_at)
                if code != 200:
                    raise self._error_of(call, HttpResponse(code, await stream.read(), stream.headers))
                yield stream
        except TonnageError:
            if not code:
                self._count(call, 0, started_at)
            raise

    async def _once(self, call: ApiCall) -> HttpResponse:
        await self._wait_for_limit()
        if not call.is_read and (check := _asked_first.get()) is not None:
            check()
        if self.guard is not None and not call.is_read:
            return await self._guarded(call, self.guard)
        return await self._counted(call, call.request)

    async def _guarded(self, call: ApiCall, guard: Leadership) -> HttpResponse:
        request = call.request
        what, was_sent = f"{request.method} {request.path.partition('?')[0]}", False

        def before_write() -> None:
            nonlocal was_sent
            guard.check(what)
            was_sent = True

        guard.check(what)
        token = ((small_groups.LEASE_HEADER, guard.token),)
        try:
            return await self._counted(call, replace(request, headers=token, before_write=before_write))
        except BaseException:
            if was_sent:
                guard.left_unanswered()
            raise

    async def _counted(self, call: ApiCall, request: Request) -> HttpResponse:
        started_at, code = self.clock.monotonic(), 0
        writes = 0 if call.is_read else 1
        self._writing += writes
        try:
            response = await self.transport.send(request)
            code = response.code
            return response
        finally:
            if writes:
                self._writing -= 1
                self._wrote_at_s = self.clock.monotonic()
            self._count(call, code, started_at)

    async def _wait_for_limit(self) -> None:
        if self.limit is not None:
            await self.limit.take()

    def _count(self, call: ApiCall, code: int, started_at: float) -> None:
        if self.on_request is not None:
            self.on_request(call.verb, call.resource, code, self.clock.monotonic() - started_at)

    def _error_of(self, call: ApiCall, response: HttpResponse) -> ApiError:
        text = response.headers.get("retry-after", "")
        retry_after_s = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
        try:
            status = codec.decode(meta.Status, response.body)
        except decode_errors.Unreadable:
            status = meta.Status()
        if status.code != response.code:  # no Status, or a proxy put one into another answer
            url = self.transport.server + call.request.path.partition("?")[0]
            return errors.from_response(
                call.request.method, url, response.code, response.body, retry_after_s=retry_after_s
            )
        return errors.from_status(status, retry_after_s=retry_after_s)

    def _pass_on(self, warnings: tuple[str, ...]) -> None:
        """Log every distinct warning header once: `299 - "v1 Foo is deprecated"`."""
        for warning in warnings:
            if warning not in self._warned and len(self._warned) < 1000:
                self._warned.add(warning)
                text = warning.partition('"')[2].removesuffix('"').replace('\\"', '"').replace("\\\\", "\\")
                _log.warning("the API server warns: %s", text or warning)


def _is_worth_another_try(call: ApiCall, failure: ApiError | errors.Disconnected) -> bool:
    if isinstance(failure, errors.Disconnected):
        return call.is_read and not isinstance(failure, errors.Untrusted)
    if failure.retry_after_s > _MAX_RETRY_AFTER_S:
        return False
    if failure.code == 429:
        return call.is_read or failure.retry_after_s > 0
    return call.is_read and failure.code >= 500 and (failure.code in (502, 503, 504) or failure.retry_after_s > 0)
