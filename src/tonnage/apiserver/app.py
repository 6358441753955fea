"""The HTTP handler of the API server: it authenticates and authorizes a request, runs the verb of a resource path or
serves another page (discovery, OpenAPI, health, metrics), and turns every error into a Status.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial

from aiohttp import web
from prometheus_client import CollectorRegistry

from tonnage import metrics
from tonnage.apiserver import audit_log, custom_definitions, custom_lifecycle, health_checks, requests, responses
from tonnage.apiserver.authentication.authenticator import Authenticator
from tonnage.apiserver.authentication.service_account_tokens import JWKS_PATH
from tonnage.apiserver.bodies import Bodies
from tonnage.apiserver.discovery import StaticDocuments
from tonnage.apiserver.event_loop import Turn
from tonnage.apiserver.metrics import AccessMetrics, RequestMetrics, show_audit_log, show_store
from tonnage.apiserver.registry import Registry
from tonnage.apiserver.verbs import patching, reading, reviews, subresources, writing
from tonnage.documents.access.attributes import VERBS, Attributes, attributes_of, forbidden
from tonnage.documents.access.impersonation import impersonate, names_another, wanted_user
from tonnage.documents.custom.custom_resource import CustomResource
from tonnage.errors import (
    ApiError,
    BadRequest,
    InternalError,
    MethodNotAllowed,
    NotFound,
    TooManyRequests,
    Unauthorized,
)
from tonnage.http_connection import SEND_S, WRITE_BUFFER_BYTES, LargeResponse, connection_of
from tonnage.objects import document, names, resources, small_groups
from tonnage.objects.users import NOBODY, User
from tonnage.store import errors, writes

Verb = Callable[[Registry, requests.Call], Awaitable[requests.Response]]

_VERBS: dict[str, Verb] = {
    "get": reading.get,
    "list": reading.list_,
    "create": writing.create,
    "update": writing.update,
    "patch": patching.patch,
    "delete": writing.delete,
    "deletecollection": writing.delete_collection,
}
_OPEN_TO_ALL = frozenset(health_checks.KINDS)
_STEPS = _OPEN_TO_ALL | {"api", "apis", "metrics", "openapi", "version", ".well-known"}
"""First steps of paths that are not about a resource, as the metrics count them."""
MAX_READING, MAX_MUTATING = 400, 200
"""Concurrent requests before a 429: upstream's defaults of --max-requests-inflight and its mutating twin."""
_CREDENTIALS_S = 1.0
"""How often the credentials of open watches are checked."""
_LAST_FRAMES_S = 1.0
"""How long after its end a watch may still send its last frames."""
MAX_UNSENT_BYTES = 1 << 30
"""Bytes of large answers that clients have not read yet; lists beyond get 429. Each is kept whole until it is read."""

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Application:
    """The request handler of one server. `stop` ends its watches so that the listener can close."""

    registry: Registry
    _: KW_ONLY
    authenticator: Authenticator
    anonymous_auth: bool = False
    collector_registry: CollectorRegistry
    rng: random.Random

    def __post_init__(self) -> None:
        registry, collector_registry = self.registry, self.collector_registry
        self.audit_log: audit_log.AuditLog | None = None
        self.metrics = RequestMetrics(
            collector_registry,
            lambda resource: registry.store.count(resource.store_prefix),
            registry.gates,
            registry.definitions.all,
        )
        self.metrics.large_requests.set_function(lambda: registry.workers.under_way)
        ticks = asyncio.get_running_loop().time
        show_store(collector_registry, registry.store, now=lambda: registry.clock.now().timestamp(), ticks=ticks)
        self._access = AccessMetrics(collector_registry, ticks)
        show_audit_log(collector_registry, lambda: self.audit_log)
        self._documents = StaticDocuments(registry.definitions)
        self.lifecycle = custom_lifecycle.DefinitionLifecycle(registry, self._end_stale_watches, self.rng)
        self._watches: dict[reading.Watching, Callable[[], bool]] = {}
        self._bodies = Bodies()
        self._reading = self._mutating = self._unsent_bytes = 0
        self.metrics.reading.set_function(lambda: self._reading)
        self.metrics.mutating.set_function(lambda: self._mutating)
        self.stopping = False
        self.url = ""
        """The server's URL, once it listens."""

    def stop(self) -> None:
        self.stopping = True
        for watching in list(self._watches):
            watching.stop()

    def _end_stale_watches(self) -> None:
        """End the watches of a custom resource whose definition changed or went; clients start new ones."""
        for watching in list(self._watches):
            resource = watching.resource
            if isinstance(resource, CustomResource) and not self.registry.definitions.is_current(resource):
                watching.finish()

    async def end_orphaned_watches(self) -> None:
        """Until cancelled: once a second, end the watches whose token or certificate is no longer valid."""
        while True:
            await asyncio.sleep(_CREDENTIALS_S)
            turn = Turn()
            for watching, is_known in list(self._watches.items()):
                if not is_known():
                    watching.stop()
                if turn.is_over:
                    await turn.pause()

    def handle(self, request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
        """Answer one request; errors are answers too. No body is read before its sender is authenticated."""
        return self._handle(request) if self.audit_log is None else self.audit_log.audited(request, self._handle)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            response = await self._answer(request)
        except ConnectionError:
            raise
        except Exception as exc:
            response = self._respond(_failed(_error_of(request, exc)))
        if (not request.content.is_eof() or request.method == "CONNECT") and not response.prepared:
            response.force_close()  # the rest of the body would be read as the next request
        return response

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        user = self._access.authentication(lambda: self._user_of(request), may_be_anonymous=self.anonymous_auth)
        audit_log.note(request, user=user)
        if user is not None:
            if not connection_of(request).let_in():
                raise TooManyRequests("Too many connections, please try again later.", retry_after_s=1)
        elif not self.anonymous_auth and _first_step(path) not in _OPEN_TO_ALL:
            raise Unauthorized("Unauthorized")
        if not request.raw_path.isascii() or not path.isprintable():
            raise BadRequest("the URL has bytes in it that are neither ASCII nor percent-encoded text")
        if user is None and not self.anonymous_auth:
            return await self._other(request, NOBODY)  # probes need no credentials, and no rule for anonymous users
        if len(request.query_string) > requests.LONG_QUERY_CHARS:
            await self.registry.workers.run(partial(requests.read_selectors, request.query))
        asked = attributes_of(user or NOBODY, request.method, path, request.query)
        audit_log.note(request, attributes=asked)
        if names_another(request.headers) and (wanted := wanted_user(list(request.headers.items()))) is not None:
            asked = replace(asked, user=impersonate(asked, wanted, self.registry.authorizer))
        decision = self._access.authorization(lambda: self.registry.authorizer.authorize(asked))
        audit_log.note(request, attributes=asked, decision=decision)
        if not decision.allowed:
            raise forbidden(asked, decision.reason)
        at = requests.locate(path, self.registry.definitions.find)
        if at is None:
            return await self._other(request, asked.user)
        return await self._about_resource(request, at, asked)

    def _user_of(self, request: web.BaseRequest) -> User | None:
        own = next(iter(connection_of(request).certificates), None)
        return self.authenticator.authenticate(request.headers, own)

    # -- resources ----------------------------------------------------------------------------------------------------

    async def _about_resource(
        self, request: web.BaseRequest, at: requests.Location, asked: Attributes
    ) -> web.StreamResponse:
        query = request.query
        custom = at.resource if isinstance(at.resource, CustomResource) else None
        verb = asked.verb
        is_possible = requests.is_possible(request.method, verb, at)
        if not is_possible or verb not in resources.verbs_of(at.resource, at.subresource):
            if custom is not None:
                raise _verb_not_supported(custom, request.method, is_collection=not at.name)
            raise MethodNotAllowed(_NO_METHOD)
        call = requests.Call(verb, at, query, request.headers, user=asked.user)
        if custom is not None and custom.deprecation_warning is not None:
            call.warnings.append(custom.deprecation_warning)
        responses.negotiated(call)  # refuse a form that the client cannot read, before anything happens
        if wrong := names.path_segment(at.name):
            raise BadRequest(f'Name parameter invalid: "{at.name}": {";".join(wrong)}')
        applies = verb == "patch" and patching.is_apply(request.headers.get("Content-Type", ""))
        loop = asyncio.get_running_loop()
        started_at = loop.time()
        code = 500
        try:
            if verb == "watch":
                response = await self._watch(request, call)
                code = response.status
                return response
            answer = await self._limited(request, call)
            code = answer.code
            return self._respond(answer, call.warnings)
        except asyncio.CancelledError:
            if verb == "watch":
                code = 200  # the client went away: most watches end so
            raise
        except ConnectionError:
            raise
        except Exception as exc:
            error = _error_of(request, exc)
            code = error.code
            return self._respond(_failed(error), call.warnings)  # the warnings may explain the failure
        finally:
            self.metrics.done(call, applies, code, loop.time() - started_at)

    async def _limited(self, request: web.BaseRequest, call: requests.Call) -> requests.Response:
        """Run a verb unless too many requests are running."""
        reads = call.verb in ("get", "list")
        fence = None if reads else requests.fence_of(call.headers.get(small_groups.LEASE_HEADER))
        if not reads and request.body_exists:
            call.body = await self._bodies.read(request)
        body = call.body
        try:
            if (self._reading >= MAX_READING) if reads else (self._mutating >= MAX_MUTATING):
                raise TooManyRequests("Too many requests, please try again later.", retry_after_s=1)
            if call.verb == "list" and self._unsent_bytes > MAX_UNSENT_BYTES:
                told = "Too many large answers are not taken yet, please try again later."
                raise TooManyRequests(told, retry_after_s=1)
            self._reading += reads
            self._mutating += not reads
            try:
                with writes.fenced(fence):
                    response = await self._handler(call)(self.registry, call)
                if call.at.resource is custom_definitions.CRDS and not reads:
                    await self.lifecycle.try_to_settle()  # so that the object is there when the answer arrives
                return response
            finally:
                self._reading -= reads
                self._mutating -= not reads
        finally:
            self._bodies.release(body)

    def _handler(self, call: requests.Call) -> Verb:
        if call.at.resource.group in resources.REVIEW_GROUPS:
            if call.at.resource in resources.AUTHORIZATION_REVIEWS:
                return reviews.review
            if call.at.resource is resources.TOKEN_REVIEWS:
                return partial(reviews.review_token, self.authenticator)
            if call.at.resource is resources.SELF_REVIEWS:
                return reviews.review_self
        if call.at.subresource == "token":
            return partial(reviews.create_token, self.authenticator.accounts)
        return subresources.VERBS.get((call.at.subresource, call.verb)) or _VERBS[call.verb]

    async def _watch(self, request: web.BaseRequest, call: requests.Call) -> web.StreamResponse:
        loop, connection = asyncio.get_running_loop(), connection_of(request)
        watching = reading.Watching(self.registry, call, self.rng, started_at=loop.time())
        response = web.StreamResponse(headers={"Cache-Control": "no-cache, private"})
        response.content_type = "application/json"
        gauge, events = self.metrics.watcher(call), self.metrics.events_of(call)
        user = self._user_of(request)

        def is_known() -> bool:
            with suppress(Unauthorized):
                return self._user_of(request) == user
            return False

        self._watches[watching] = is_known
        gauge.inc()
        try:
            if self.audit_log is not None:
                self.audit_log.started(request, response)
            await response.prepare(request)
            if not self.stopping:
                async for frames in watching.frames():
                    if not is_known():
                        break
                    connection.sends(min(watching.ends_at + _LAST_FRAMES_S, loop.time() + SEND_S))
                    await response.write(frames)
                    connection.sent()
                    events.inc()
            connection.sends(loop.time() + SEND_S)
            await response.write_eof()
        except ConnectionError:
            pass  # the client went away; most watches end so
        except Exception:
            if not response.prepared:
                raise
            _log.exception("The watch %s failed", request.path)  # half an answer cannot be followed by another
            if request.transport is not None:
                request.transport.abort()
        finally:
            del self._watches[watching]
            watching.stop()
            gauge.dec()
        return response

    # -- everything else ----------------------------------------------------------------------------------------------

    async def _other(self, request: web.BaseRequest, user: User) -> web.StreamResponse:
        path, accept = request.path, request.headers.get("Accept", "")
        step = _first_step(path)
        if step in _OPEN_TO_ALL:
            kind, _, asked = path.strip("/").partition("/")
            checks = await health_checks.checks_of(kind, self.registry.store, stopping=self.stopping)
            verbose, exclude = "verbose" in request.query, request.query.getall("exclude", [])
            known = user is not NOBODY
            answer = health_checks.answer(kind, asked, checks, verbose=verbose, exclude=exclude, known=known)
        elif path == "/metrics":
            body, content_type = metrics.exposition(self.collector_registry)
            answer = requests.Response(body, content_type=content_type)
        else:
            subresources.refuse_container_request(self.registry, path)
            documents = self._documents.present()
            takes_long = bool(documents.custom) and path.startswith("/openapi/")  # it contains all schemas
            find = partial(documents.find, path, accept, request.headers.get("If-None-Match", ""))
            found = self._issuer_documents(path) or await self.registry.work(takes_long, find)
            if found is None:
                if documents.is_group(path):
                    raise NotFound(_NO_RESOURCE)
                found = requests.Response(b"404 page not found\n", 404, "text/plain; charset=utf-8")
            answer = found
        if request.method not in ("GET", "HEAD") and answer.code == 200:
            raise MethodNotAllowed(_NO_METHOD)
        self.metrics.other(f"/{step}" if step in _STEPS else "", request.method, answer.code)
        return self._respond(answer)

    def _issuer_documents(self, path: str) -> requests.Response | None:
        """OpenID Connect discovery, by which others verify ServiceAccounts' tokens themselves."""
        tokens = self.authenticator.accounts
        if path == "/.well-known/openid-configuration":
            return requests.Response(document.encode(tokens.openid_configuration(f"{self.url}{JWKS_PATH}")))
        if path == JWKS_PATH:
            return requests.Response(document.encode(tokens.key.jwks()), content_type="application/jwk-set+json")
        return None

    # -- answers ------------------------------------------------------------------------------------------------------

    def _respond(self, answer: requests.Response, warnings: Sequence[str] = ()) -> web.Response:
        is_large = len(answer.body) > WRITE_BUFFER_BYTES
        kind = partial(LargeResponse, self._hold) if is_large else web.Response
        response = kind(body=answer.body, status=answer.code, headers=answer.headers)
        response.headers["Content-Type"] = answer.content_type
        response.headers["Cache-Control"] = "no-cache, private"
        for header in responses.warning_headers(warnings):
            response.headers.add("Warning", header)
        return response

    def _hold(self, step: int) -> None:
        self._unsent_bytes += step


def _first_step(path: str) -> str:
    return path.lstrip("/").partition("/")[0]


_NO_RESOURCE = "the server could not find the requested resource"
_NO_METHOD = "the server does not allow this method on the requested resource"


def _verb_not_supported(resource: CustomResource, method: str, *, is_collection: bool) -> ApiError:
    """The same for a custom resource, whose error names the verb."""
    if is_collection and method in ("PUT", "PATCH"):
        return BadRequest("name must be provided")
    verb = VERBS.get(method, method.lower())
    told = f'{verb} is not supported on resources of kind "{resource.qualified}"'
    return MethodNotAllowed(told, group=resource.group, kind=resource.plural)


def _error_of(request: web.BaseRequest, exc: Exception) -> ApiError:
    """The error that a client sees. Failures of the store, with the operator's remedy, and bugs are logged."""
    if isinstance(exc, ApiError):
        return exc
    if isinstance(exc, errors.FenceBroken):
        return requests.fence_broken(request.headers[small_groups.LEASE_HEADER], exc.record)
    if not isinstance(exc, errors.StoreError):
        _log.error("%s %s failed", request.method, request.path, exc_info=exc)
        return InternalError(f"Internal error occurred: {type(exc).__name__}: {exc}")
    _log.error("%s %s: %s", request.method, request.path, exc)
    has_remedy = isinstance(exc, (errors.StoreFull, errors.StoreRemoved, errors.KeyDamaged))
    return InternalError(f"Internal error occurred: {exc.message}{f'; {exc.hint}' if has_remedy else ''}")


def _failed(error: ApiError) -> requests.Response:
    headers = {"Retry-After": str(error.retry_after_s)} if error.retry_after_s else {}
    # Header bytes that are no text, which the library passes on as lone surrogates, are shown as U+FFFD.
    error.message = error.message.encode(errors="surrogatepass").decode(errors="replace")
    return requests.Response(document.encode(error.status()), error.code, headers=headers)
