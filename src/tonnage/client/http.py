"""`Client`: Kubernetes' verbs for the classes of `objects.scheme`, and for plain documents without a class.

An object is named by its key: `namespace/name`, or `name` without namespaces. Refusals raise an `ApiError`, connection
failures `Disconnected`; `calls` says what is retried. `Clients` are those of one program, one per purpose, so that none
waits behind another:

    purpose    what it is for                           limit                                    connections
    leases     renewing a lease                         none                                     2
    work       reads, bindings, what has to be done     `qps` and `burst`                        64
    telling    events, conditions: what people read     a quarter of that, of what work leaves   8

A lease that is renewed late ends the program; an event that comes late does no harm.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, TypedDict, TypeVar, Unpack

from tonnage.client import rest, throttle
from tonnage.client.calls import ApiCall, Caller, OnRequest
from tonnage.client.config.connection import ServerConnection
from tonnage.client.config.credentials import Credentials
from tonnage.client.leadership import Leadership
from tonnage.client.rest import Kind, Selection, resource_of
from tonnage.client.throttle import Limit, SpareTokens, TokenBucket
from tonnage.client.transport.http_transport import MAX_CONNECTIONS, HttpTransport
from tonnage.client.transport.wire import Request, Transport, lines_of
from tonnage.clock import Clock, Closing, SystemClock
from tonnage.errors import Expired, NotFound
from tonnage.objects import codec, decode_errors
from tonnage.objects.document import Doc, encode
from tonnage.objects.meta import Key, Object
from tonnage.objects.resources import BY_KIND, BY_PLURAL, Resource

T = TypeVar("T", bound=Object)
X = TypeVar("X")
Lines = AsyncIterator[list[bytes]]
"""The lines of a watch in batches, as they arrive; `codec.decode_event` reads one."""
PatchType = Literal["merge", "json", "strategic", "apply"]


class PatchOptions(TypedDict, total=False):
    """Options of a patch, by default a merge patch. An apply needs a `field_manager`, and may use `force`."""

    patch_type: PatchType
    subresource: str
    field_manager: str
    force: bool


USER_AGENT = "tonnage"
PAGE_SIZE = 500
"""Objects per page of a list; client-go's number."""
_STREAM_GRACE_S = 30.0
"""How long a stream may outlive the end that it asked for."""
_MAX_STREAM_S = 3600
"""The longest stream that asked for no end: servers end it within an hour."""
_CONTENT_TYPES: dict[PatchType, str] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_PODS = BY_PLURAL["", "pods"]


class Client(Closing):
    """A client of one API server; close it, or use it as a context manager."""

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        limit: throttle.Limit | None = None,
        on_request: OnRequest | None = None,
        timeout_s: float = 30.0,
        guard: Leadership | None = None,
    ) -> None:
        """The `guard`, a leader's leadership, is asked right before every write."""
        self.clock = clock or SystemClock()
        self.rng = rng or random.SystemRandom()
        self._caller = Caller(
            transport, clock=self.clock, rng=self.rng, limit=limit, on_request=on_request, guard=guard
        )
        self._timeout_s = timeout_s

    @classmethod
    def connect(
        cls,
        connection: ServerConnection,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        user_agent: str = USER_AGENT,
        on_request: OnRequest | None = None,
        timeout_s: float = 30.0,
    ) -> Client:
        """A client of a kubeconfig's server, without a rate limit. Nothing is sent yet.

        The server takes `user_agent` up to the first slash as the field manager of our writes.
        """
        clock = clock or SystemClock()
        transport = HttpTransport(connection, clock=clock, user_agent=user_agent)
        return cls(transport, clock=clock, rng=rng, on_request=on_request, timeout_s=timeout_s)

    async def close(self) -> None:
        await self._caller.transport.close()

    def give_way_while(self, is_busy: Callable[[], bool]) -> None:
        """For less urgent requests (`Clients.telling`): send few while `is_busy` returns True too."""
        limit = self._caller.limit
        if isinstance(limit, throttle.SpareTokens):
            limit.busy.append(is_busy)

    @contextmanager
    def hurrying(self) -> Iterator[None]:
        """In the block, requests give way to no other: for a program's last writes (`SpareTokens.hurried`)."""
        limit = self._caller.limit
        if isinstance(limit, throttle.SpareTokens):
            limit.hurried += 1
        try:
            yield
        finally:
            if isinstance(limit, throttle.SpareTokens):
                limit.hurried -= 1

    @property
    def is_writing(self) -> bool:
        """True if a write is under way or was a moment ago; less urgent clients give way then."""
        return self._caller.is_writing

    @property
    def server(self) -> str:
        return self._caller.transport.server

    # -- typed --------------------------------------------------------------------------------------------------------

    async def get(self, cls: type[T], key: Key, *, retry: bool = True) -> T:
        """Read one object. Raises NotFound."""
        return codec.decode(cls, await self._get(resource_of(cls), key, retry))

    async def find(self, cls: type[T], key: Key) -> T | None:
        try:
            return await self.get(cls, key)
        except NotFound:
            return None

    async def list(
        self,
        cls: type[T],
        *,
        page_size: int = PAGE_SIZE,
        retry: bool = True,
        on_unreadable: Callable[[decode_errors.Unreadable], None] | None = None,
        at: str = "",
        **selection: Unpack[Selection],
    ) -> codec.ObjectList[T]:
        """All objects at one resourceVersion, read page by page.

        `at` is that resourceVersion. Raises Expired when the server no longer has it, and Unreadable, unless
        `on_unreadable` takes the object that cannot be read.
        """

        def read(body: bytes) -> tuple[Sequence[T], str, str]:
            page = rest.read_page(cls, body, on_unreadable)
            return page.items, page.resource_version, page.continue_

        items, version = await self._list(resource_of(cls), selection, page_size, retry, read, at)
        return codec.ObjectList(items, version)

    async def create(self, wanted: T) -> T:
        """Create an object. Returns the server's. Raises AlreadyExists, Invalid."""
        return codec.decode(type(wanted), await self._create(resource_of(type(wanted)), codec.to_doc(wanted)))

    async def update(self, wanted: T, *, subresource: str = "") -> T:
        """Replace an object, or its status, with all its fields (see `objects.meta`). Raises Conflict."""
        resource = resource_of(type(wanted))
        return codec.decode(type(wanted), await self._update(resource, codec.to_doc(wanted), subresource))

    async def patch(self, cls: type[T], key: Key, patch: Doc | Sequence[Doc], **options: Unpack[PatchOptions]) -> T:
        return codec.decode(cls, await self._patch(resource_of(cls), key, patch, options))

    async def delete(
        self,
        kind: Kind,
        key: Key,
        *,
        uid: str = "",
        resource_version: str = "",
        grace_s: int | None = None,
        propagation: str = "",
    ) -> None:
        """Delete an object. Raises Conflict if `uid` or `resource_version` is given and differs."""
        resource = resource_of(kind)
        options = rest.delete_options(uid, resource_version, grace_s, propagation)
        await self._send("delete", resource, "DELETE", rest.object_path(resource, key), body=options or None)

    async def bind(self, key: Key, node: str, *, uid: str = "") -> None:
        """Bind a pod to a node. Raises Conflict when it has a node, is being deleted, or has another `uid`."""
        path = rest.object_path(_PODS, key, "binding")
        await self._send("create", _PODS, "POST", path, "binding", body=rest.binding(key, node, uid))

    async def evict(self, key: Key) -> None:
        """Delete a pod if its disruption budget allows it. Raises TooManyRequests, without retries, if not."""
        path = rest.object_path(_PODS, key, "eviction")
        await self._send("create", _PODS, "POST", path, "eviction", body=rest.eviction(key), retry=False)

    # -- documents ----------------------------------------------------------------------------------------------------

    async def get_doc(self, kind: Kind, key: Key, *, retry: bool = True) -> Doc:
        """As `get`, with all fields, including those that our classes leave out."""
        resource = resource_of(kind)
        return rest.read_object(resource, await self._get(resource, key, retry))

    async def list_docs(self, kind: Kind, **selection: Unpack[Selection]) -> tuple[Doc, ...]:
        """As `list`; every document has its apiVersion and kind."""
        resource = resource_of(kind)
        docs, _ = await self._list(resource, selection, PAGE_SIZE, True, partial(rest.read_docs, resource))
        return docs

    async def create_doc(self, doc: Doc, *, kind: Kind | None = None) -> Doc:
        """Create an object of the document's kind; `kind` names one that the table of resources does not have."""
        resource = BY_KIND[doc["apiVersion"], doc["kind"]] if kind is None else resource_of(kind)
        return rest.read_object(resource, await self._create(resource, doc))

    async def update_doc(self, doc: Doc, *, subresource: str = "") -> Doc:
        resource = BY_KIND[doc["apiVersion"], doc["kind"]]
        return rest.read_object(resource, await self._update(resource, doc, subresource), subresource)

    async def patch_doc(self, kind: Kind, key: Key, patch: Doc | Sequence[Doc], **options: Unpack[PatchOptions]) -> Doc:
        resource = resource_of(kind)
        body = await self._patch(resource, key, patch, options)
        return rest.read_object(resource, body, options.get("subresource", ""))

    async def raw(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """The body of any path, such as /version or /readyz."""
        request = Request(method, path, body, timeout_s=self._timeout_s)
        return await self._caller.send(ApiCall(method.lower(), path.partition("?")[0], request))

    # -- watch --------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def watch(
        self,
        kind: Kind,
        *,
        resource_version: str = "",
        send_initial_events: bool = False,
        timeout_s: int = 0,
        **selection: Unpack[Selection],
    ) -> AsyncIterator[Lines]:
        """Stream changes after `resource_version`; with `send_initial_events` the state first, ended by a bookmark."""
        resource = resource_of(kind)
        query = rest.watch_query(
            selection,
            resource_version=resource_version,
            send_initial_events=send_initial_events,
            timeout_s=timeout_s,
        )
        path = rest.collection_path(resource, selection.get("namespace", ""), query)
        request = Request("GET", path, timeout_s=(timeout_s or _MAX_STREAM_S) + _STREAM_GRACE_S)
        async with self._caller.stream(ApiCall("watch", resource.qualified, request)) as stream:
            yield lines_of(stream, self.server)

    # -- behind them --------------------------------------------------------------------------------------------------

    async def _get(self, resource: Resource, key: Key, retry: bool) -> bytes:
        return await self._send("get", resource, "GET", rest.object_path(resource, key), retry=retry)

    async def _create(self, resource: Resource, doc: Doc) -> bytes:
        namespace = doc.get("metadata", {}).get("namespace", "")
        if resource.namespaced and not namespace:
            raise ValueError(f"a {resource.kind} is made in a namespace, and metadata.namespace is empty")
        return await self._send("create", resource, "POST", rest.collection_path(resource, namespace), body=doc)

    async def _update(self, resource: Resource, doc: Doc, subresource: str) -> bytes:
        metadata = doc["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}" if resource.namespaced else metadata["name"]
        path = rest.object_path(resource, key, subresource)
        return await self._send("update", resource, "PUT", path, subresource, body=doc)

    async def _patch(self, resource: Resource, key: Key, patch: Doc | Sequence[Doc], options: PatchOptions) -> bytes:
        subresource = options.get("subresource", "")
        query = {"fieldManager": options.get("field_manager", ""), "force": "true" if options.get("force") else ""}
        path = rest.object_path(resource, key, subresource, query)
        content_type = _CONTENT_TYPES[options.get("patch_type", "merge")]
        return await self._send("patch", resource, "PATCH", path, subresource, body=patch, content_type=content_type)

    async def _list(
        self,
        resource: Resource,
        selection: Selection,
        page_size: int,
        retry: bool,
        read: Callable[[bytes], tuple[Sequence[X], str, str]],
        at: str = "",
    ) -> tuple[tuple[X, ...], str]:
        """The items of all pages and their resourceVersion; `read` gives a page's items, version and next token."""
        items: list[X] = []
        token = ""
        while True:
            limit = str(page_size) if page_size else ""
            query = {**rest.selectors_of(selection), "limit": limit, "continue": token}
            if at and not token:  # the token contains the resourceVersion
                query |= {"resourceVersion": at, "resourceVersionMatch": "Exact"}
            path = rest.collection_path(resource, selection.get("namespace", ""), query)
            try:
                page, version, token = read(await self._send("list", resource, "GET", path, retry=retry))
            except Expired:
                if not token:
                    raise
                # The server no longer has the first pages' resourceVersion: list everything again in one page.
                items, token, page_size = [], "", 0
                continue
            items += page
            if not token:
                return tuple(items), version

    async def _send(
        self,
        verb: str,
        resource: Resource,
        method: str,
        path: str,
        subresource: str = "",
        *,
        body: Doc | Sequence[Doc] | None = None,
        content_type: str = "application/json",
        retry: bool = True,
    ) -> bytes:
        name = f"{resource.qualified}/{subresource}" if subresource else resource.qualified
        request = Request(method, path, None if body is None else encode(body), content_type, self._timeout_s)
        return await self._caller.send(ApiCall(verb, name, request, retry))


TELLING_SHARE: Final = 4
"""One in so many of a program's requests may be an event or condition."""
TELLING_QPS: Final = 250.0
TELLING_BURST: Final = 500
"""The limit of telling when work has none: a quarter of the scheduler's default."""
TELLING_CONNECTIONS: Final = 8
LEASE_CONNECTIONS: Final = 2
"""One for a renewal, and one for when the first hangs."""
LEASE_TIMEOUT_S: Final = 5.0
"""Half of the default renew deadline, as client-go: a call that hangs leaves time for another."""
_MIN_LEASE_TIMEOUT_S: Final = 1.0


def lease_timeout_s(renew_deadline_s: float) -> float:
    """The timeout of a call about a lease. Mirrors resourcelock.NewFromKubeconfig."""
    return max(renew_deadline_s / 2, _MIN_LEASE_TIMEOUT_S)


@dataclass(frozen=True, slots=True)
class Clients(Closing):
    """Three clients of one API server; close them, or use this as a context manager."""

    work: Client
    telling: Client
    leases: Client

    @classmethod
    def connect(
        cls,
        connection: ServerConnection,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        user_agent: str = USER_AGENT,
        qps: float = 0.0,
        burst: int = 0,
        on_request: OnRequest | None = None,
        guard: Leadership | None = None,
        lease_timeout_s: float = LEASE_TIMEOUT_S,
    ) -> Clients:
        """Clients of a kubeconfig's server; nothing is sent yet. `qps` 0: no limit for work; `burst` 0: one second's
        worth. The `guard`, a leader's leadership, is asked before all writes but those to leases.
        """
        clock = clock or SystemClock()
        credentials = Credentials(connection, clock=clock)

        def client(
            purpose: str, connections: int, limit: Limit | None, guard: Leadership | None, timeout_s: float = 30.0
        ) -> Client:
            transport = HttpTransport(
                connection,
                clock=clock,
                user_agent=f"{user_agent}/{purpose}" if purpose else user_agent,
                max_connections=connections,
                unacknowledged_s=guard.window_s if guard is not None else 0.0,
                credentials=credentials,
            )
            return Client(
                transport, clock=clock, rng=rng, limit=limit, on_request=on_request, timeout_s=timeout_s, guard=guard
            )

        limit = TokenBucket(qps, burst or math.ceil(qps), clock=clock) if qps else None
        clients = cls(
            work=client("", MAX_CONNECTIONS, limit, guard),
            telling=client("events", TELLING_CONNECTIONS, _telling_limit(limit, qps, burst, clock), guard),
            leases=client("leader-election", LEASE_CONNECTIONS, None, None, lease_timeout_s),
        )
        clients.telling.give_way_while(lambda: clients.work.is_writing)
        return clients

    async def close(self) -> None:
        await asyncio.gather(self.work.close(), self.telling.close(), self.leases.close())


def _telling_limit(work: TokenBucket | None, qps: float, burst: int, clock: Clock) -> SpareTokens:
    if work is None:
        return SpareTokens(TokenBucket(TELLING_QPS, TELLING_BURST, clock=clock), None, clock=clock)
    share = TokenBucket(qps / TELLING_SHARE, max((burst or math.ceil(qps)) // TELLING_SHARE, 1), clock=clock)
    return SpareTokens(share, work, clock=clock)
