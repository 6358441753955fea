"""ConfigMap kube-system/extension-apiserver-authentication: how programs authenticate as this server does.

Programs that leave authentication to the API server (schedulers, controllers and their /metrics) read from it which
certificates of clients are good. There is no front proxy here, so there is nothing about its headers; upstream leaves
that out as well then. It is put right at the start, and again when somebody changes or deletes it, or when the
authorities are others.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tonnage.apiserver.authentication.client_certificates import ClientCertificates
from tonnage.apiserver.options import WriteOptions
from tonnage.apiserver.registry import Registry
from tonnage.background import in_background
from tonnage.backoff import Backoff
from tonnage.errors import ApiError, NotFound
from tonnage.objects.document import Doc
from tonnage.objects.resources import BY_PLURAL
from tonnage.store import StoreClosed, StoreError, StoreRecord

NAMESPACE, NAME = "kube-system", "extension-apiserver-authentication"
_CONFIG_MAPS = BY_PLURAL["", "configmaps"]
_OPTIONS = WriteOptions(manager="kube-apiserver")
_log = logging.getLogger(__name__)


@asynccontextmanager
async def authentication_published(
    registry: Registry, certificates: ClientCertificates, rng: random.Random
) -> AsyncIterator[None]:
    """Inside the block, the ConfigMap says which certificates of clients are good."""
    changed = asyncio.Event()
    changed.set()
    key = _CONFIG_MAPS.key(NAMESPACE, NAME)

    def note(record: StoreRecord, *, is_deleted: bool) -> None:
        if record.key == key:
            changed.set()

    registry.store.follow(_CONFIG_MAPS.store_prefix, note)
    certificates.follow(changed.set)
    async with in_background(_publish(registry, certificates, changed, rng), "client certificates"):
        yield


async def _publish(
    registry: Registry, certificates: ClientCertificates, changed: asyncio.Event, rng: random.Random
) -> None:
    backoff = Backoff(clock=registry.clock, rng=rng)
    while True:
        await changed.wait()
        changed.clear()
        try:
            await _ensure(registry, certificates.ca_pem.decode())
            backoff.reset()
        except StoreClosed:
            return
        except (ApiError, StoreError) as exc:
            _log.error("ConfigMap %s/%s cannot be written: %s", NAMESPACE, NAME, exc.message)
            changed.set()
            await registry.clock.sleep(backoff.next_s())


async def _ensure(registry: Registry, client_ca: str) -> None:
    def with_ca(doc: Doc) -> Doc:
        return {**doc, "data": {**doc.get("data", {}), "client-ca-file": client_ca}}

    try:
        await registry.change(_CONFIG_MAPS, NAMESPACE, NAME, with_ca, _OPTIONS)
    except NotFound:
        doc = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": NAME}}
        await registry.create(_CONFIG_MAPS, NAMESPACE, with_ca(doc), _OPTIONS)
