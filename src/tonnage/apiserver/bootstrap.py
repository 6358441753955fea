"""What a fresh cluster begins with (see `documents/system_objects.py`), and what an old one has to be mended of."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext

from tonnage.apiserver.options import WriteOptions
from tonnage.apiserver.registry import Registry
from tonnage.apiserver.stored_documents import encoder
from tonnage.background import in_background
from tonnage.documents.system_objects import SYSTEM_NAMESPACES, SYSTEM_PRIORITY_CLASSES, kubernetes_service
from tonnage.errors import ApiError
from tonnage.objects.document import Doc, decode
from tonnage.objects.resources import BY_KIND, RESOURCES
from tonnage.objects.texts.decode_budget import MAX_DEPTH
from tonnage.objects.texts.json_text import is_deeper, shallow
from tonnage.store import KeyDamaged, Store, StoreError, StoreFull

_log = logging.getLogger(__name__)
_OPTIONS = WriteOptions(manager="tonnage-apiserver")
_RETRY_S = 5.0
"""How long a step that found the disk full waits for its next attempt."""


@asynccontextmanager
async def taken_when_there_is_room(step: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Take a step now or, if the disk is full, while the block runs. A server on a full disk is there for deletions."""
    later: AbstractAsyncContextManager[None] = nullcontext()
    try:
        await step()
    except StoreFull as exc:
        _log.warning("what a start writes waits for room: %s", exc.message)
        later = in_background(_retried(step), "what a start writes")
    async with later:
        yield


async def _retried(step: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asyncio.sleep(_RETRY_S)
        try:
            await step()
            return
        except StoreFull:
            continue
        except (ApiError, StoreError) as exc:
            _log.error("what a start writes is not all there: %s", exc)
            return


async def bootstrap(registry: Registry) -> None:
    """Create what is missing, and mend what is there. Safe to run at every start."""
    await _cut_deep_documents(registry.store)
    for name in SYSTEM_NAMESPACES:
        await _ensure(registry, "v1", "Namespace", {"metadata": {"name": name}})
    for doc in SYSTEM_PRIORITY_CLASSES:
        await _ensure(registry, "scheduling.k8s.io/v1", "PriorityClass", doc)


async def _cut_deep_documents(store: Store) -> None:
    """Objects that earlier versions let nest beyond the limit become ones that can be changed and deleted."""
    for resource in RESOURCES:
        if resource.stored is not resource:
            continue
        for record in [each for each in store.list(resource.store_prefix) if is_deeper(each.document, MAX_DEPTH)]:
            doc = decode(shallow(record.document, MAX_DEPTH))
            await store.update(record.key, encoder(resource, doc), expected=record.revision)
            _log.warning(
                "%s %s nested beyond %d levels; what lay deeper was taken out, so that it can be changed and deleted",
                resource.kind,
                record.key.removeprefix(resource.store_prefix),
                MAX_DEPTH,
            )


async def publish_address(registry: Registry, port: int) -> None:
    """Make Service `default/kubernetes`, or put right the port it names: a server may listen on another each time."""
    services, wanted = BY_KIND["v1", "Service"], kubernetes_service(port)
    name = wanted["metadata"]["name"]
    if not await _ensure(registry, "v1", "Service", wanted, namespace="default"):
        return

    def readdressed(doc: Doc) -> Doc:
        doc["spec"]["ports"] = wanted["spec"]["ports"]
        return doc

    await registry.change(services, "default", name, readdressed, _OPTIONS)


async def _ensure(registry: Registry, api_version: str, kind: str, doc: Doc, *, namespace: str = "") -> bool:
    """Whether the object can be read now. One that is damaged is left as it is: the log has named it."""
    resource = BY_KIND[api_version, kind]
    try:
        if registry.store.get(resource.key(namespace, doc["metadata"]["name"])) is None:
            whole = {"kind": kind, "apiVersion": api_version, **doc, "metadata": dict(doc["metadata"])}
            await registry.create(resource, namespace, whole, _OPTIONS)
    except KeyDamaged as exc:
        _log.error("%s; %s", exc.message, exc.hint)
        return False
    return True
