"""An API server in memory, at the seam of `tonnage.client.transport.wire`: for what must run on virtual time.

It has revisions, optimistic locking, pages, watches from any revision that is kept, and bookmarks. And it does what a
real server does only on bad days, when it is told to: be away, hang up, forget history, refuse watch-lists. That it
answers as a real server does is tested in test_client_wire_contract.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

from tonnage.client.errors import Disconnected
from tonnage.client.transport.wire import HttpResponse, Request
from tonnage.documents.patches.json_patch import merge_patch
from tonnage.objects.document import Doc, copy, decode, encode
from tonnage.objects.resources import BY_PATH, Resource

Key = tuple[str, str, str]  # collection (`pods`, `leases.coordination.k8s.io`), namespace, name


class Refused(Exception):
    def __init__(self, code: int, reason: str, message: str, **details: Any) -> None:
        self.status: Doc = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "details": details,
            "code": code,
        }


@dataclass
class Watch:
    """A stream that somebody reads: bytes, then None for a clean end or an exception for a cut."""

    collection: str
    namespace: str
    queue: asyncio.Queue[bytes | Exception | None] = field(default_factory=asyncio.Queue)
    code: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> AsyncIterator[bytes]:
        while (chunk := await self.queue.get()) is not None:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk

    def tell(self, type_: str, doc: Doc) -> None:
        self.queue.put_nowait(encode({"type": type_, "object": doc}) + b"\n")


class MemoryServer:
    """Documents by key, and every request that came."""

    server = "memory://"

    def __init__(self) -> None:
        self.docs: dict[Key, Doc] = {}
        self.revision = 0
        self.compacted = 0
        self.history: list[tuple[int, str, Key, Doc]] = []
        self.watches: list[Watch] = []
        self.requests: list[str] = []
        self.is_away = False
        self.watch_list: Literal["yes", "refused", "silent"] = "yes"
        self.refuse_next: list[Refused] = []
        self.lose_answers = 0  # so many writes are carried out, and nobody is told

    # -- bad days -----------------------------------------------------------------------------------------------------

    def cut(self) -> None:
        """Every stream breaks."""
        for watch in self.watches:
            watch.queue.put_nowait(Disconnected("GET", "memory://", "cut", in_doubt=True))
        self.watches.clear()

    def end_watches(self) -> None:
        """Every stream ends in good order, as they do after their timeout."""
        for watch in self.watches:
            watch.queue.put_nowait(None)
        self.watches.clear()

    def compact(self) -> None:
        """Forget all history: whoever comes with an old revision gets 410."""
        self.compacted = self.revision
        self.history.clear()

    def bookmark(self) -> None:
        for watch in self.watches:
            watch.tell("BOOKMARK", self._bookmark())

    def fail_watches(self, code: int, reason: str, message: str) -> None:
        for watch in self.watches:
            watch.tell("ERROR", Refused(code, reason, message).status)
            watch.queue.put_nowait(None)
        self.watches.clear()

    # -- the transport ------------------------------------------------------------------------------------------------

    async def send(self, request: Request) -> HttpResponse:
        await asyncio.sleep(0)
        self._note(request)
        try:
            code, doc = self._answer(request)
        except Refused as exc:
            return HttpResponse(exc.status["code"], encode(exc.status))
        if self.lose_answers and request.method != "GET":
            self.lose_answers -= 1
            raise Disconnected(request.method, self.server + request.path, "cut", in_doubt=True)
        return HttpResponse(code, encode(doc))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Watch]:
        await asyncio.sleep(0)
        self._note(request)
        resource, namespace, _, query = self._locate(request.path)
        watch = Watch(resource.qualified, namespace)
        try:
            if self.refuse_next:
                raise self.refuse_next.pop(0)
            self._begin(watch, query, resource)
        except Refused as exc:
            watch.code = exc.status["code"]
            watch.queue.put_nowait(encode(exc.status))
            watch.queue.put_nowait(None)
        try:
            yield watch
        finally:
            if watch in self.watches:
                self.watches.remove(watch)

    async def close(self) -> None:
        self.cut()

    def _note(self, request: Request) -> None:
        if self.is_away:
            raise Disconnected(request.method, self.server + request.path, "connection refused", in_doubt=False)
        kind = "WATCH" if "watch=true" in request.path else request.method
        self.requests.append(f"{kind} {urlsplit(request.path).path}")

    # -- the rules ----------------------------------------------------------------------------------------------------

    def write(self, doc: Doc) -> Doc:
        """Store a document as if somebody else had sent it."""
        resource = next(
            row for row in BY_PATH.values() if (row.api_version, row.kind) == (doc["apiVersion"], doc["kind"])
        )
        meta = doc["metadata"]
        return self._write((resource.qualified, meta.get("namespace", ""), meta["name"]), doc)

    def remove(self, resource: str, namespace: str, name: str) -> None:
        key = (resource, namespace, name)
        self.revision += 1
        gone = copy(self.docs.pop(key))
        gone["metadata"]["resourceVersion"] = str(self.revision)
        self._tell("DELETED", key, gone)

    def _write(self, key: Key, doc: Doc) -> Doc:
        self.revision += 1
        old = self.docs.get(key)
        doc = copy(doc)
        doc["metadata"] |= {
            "resourceVersion": str(self.revision),
            "uid": old["metadata"]["uid"] if old else f"uid-{self.revision}",
        }
        self.docs[key] = doc
        self._tell("MODIFIED" if old else "ADDED", key, doc)
        return doc

    def _tell(self, type_: str, key: Key, doc: Doc) -> None:
        self.history.append((self.revision, type_, key, doc))
        for watch in self.watches:
            if watch.collection == key[0] and watch.namespace in ("", key[1]):
                watch.tell(type_, doc)

    def _begin(self, watch: Watch, query: dict[str, str], resource: Resource) -> None:
        version = query.get("resourceVersion", "")
        if query.get("sendInitialEvents"):
            if self.watch_list == "refused":
                watch.tell("ERROR", Refused(500, "InternalError", "RequestWatchProgress is disabled").status)
                watch.queue.put_nowait(None)
                return
            for key, doc in sorted(self.docs.items()):
                if key[0] == watch.collection and watch.namespace in ("", key[1]):
                    watch.tell("ADDED", doc)
            if self.watch_list == "yes":
                watch.tell("BOOKMARK", self._bookmark(resource, ends_initial_events=True))
        elif int(version) < self.compacted:
            message = f"too old resource version: {version} ({self.compacted})"
            watch.tell("ERROR", Refused(410, "Expired", message).status)
            watch.queue.put_nowait(None)
            return
        else:
            for revision, type_, key, doc in self.history:
                if revision > int(version) and key[0] == watch.collection and watch.namespace in ("", key[1]):
                    watch.tell(type_, doc)
        self.watches.append(watch)

    def _bookmark(self, resource: Resource | None = None, *, ends_initial_events: bool = False) -> Doc:
        meta: Doc = {"resourceVersion": str(self.revision)}
        if ends_initial_events:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        return {"kind": resource.kind if resource else "", "apiVersion": "v1", "metadata": meta}

    def _answer(self, request: Request) -> tuple[int, Doc]:
        resource, namespace, name, query = self._locate(request.path)
        if self.refuse_next:
            raise self.refuse_next.pop(0)
        key = (resource.qualified, namespace, name)
        body = decode(request.body) if request.body else {}
        if request.method == "POST":
            key = (resource.qualified, namespace, body["metadata"]["name"])
            if key in self.docs:
                raise Refused(409, "AlreadyExists", f'{resource.qualified} "{key[2]}" already exists')
            return 201, self._write(key, body)
        if not name:
            return 200, self._list(resource, namespace, query)
        old = self.docs.get(key)
        if old is None:
            raise Refused(404, "NotFound", f'{resource.qualified} "{name}" not found', name=name, kind=resource.plural)
        if request.method == "GET":
            return 200, old
        if request.method == "DELETE":
            self.remove(*key)
            return 200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        if request.method == "PATCH":
            return 200, self._write(key, merge_patch(old, body))
        if body["metadata"].get("resourceVersion", "") not in ("", old["metadata"]["resourceVersion"]):
            raise Refused(
                409,
                "Conflict",
                f'Operation cannot be fulfilled on {resource.qualified} "{name}": the object has been modified; please '
                "apply your changes to the latest version and try again",
            )
        return 200, self._write(key, body)

    def _list(self, resource: Resource, namespace: str, query: dict[str, str]) -> Doc:
        found = [
            doc for key, doc in sorted(self.docs.items()) if key[0] == resource.qualified and namespace in ("", key[1])
        ]
        start, limit = int(query.get("continue", "0")), int(query.get("limit", "0")) or len(found)
        meta: Doc = {"resourceVersion": str(self.revision)}
        if start and self.compacted:
            raise Refused(410, "Expired", "The provided continue parameter is too old")
        if start + limit < len(found):
            meta["continue"] = str(start + limit)
        items = found[start : start + limit]
        return {"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": meta, "items": items}

    def _locate(self, path: str) -> tuple[Resource, str, str, dict[str, str]]:
        url = urlsplit(path)
        parts = url.path.strip("/").split("/")
        group, version, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        return BY_PATH[group, version, rest[0]], namespace, rest[1] if len(rest) > 1 else "", dict(parse_qsl(url.query))
