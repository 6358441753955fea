"""The resource quota controller: it keeps `status.used` of every quota equal to what the namespace holds.

The API server charges quotas when objects are created. It counts again when objects go, when a quota is new, and
every few minutes. A quota charged meanwhile conflicts and is counted again. Upstream: pkg/controller/resourcequota.
"""

from __future__ import annotations

from typing import Final

from tonnage import logs
from tonnage.client.cache import Indexer
from tonnage.client.discovered_kinds import metadata_class, wait_for_served_resources
from tonnage.controllers.controller_context import ControllerContext, QueueController, namespace_of
from tonnage.documents.kinds.resource_quota import is_counted, is_same_status, names_for, recounted
from tonnage.errors import NotFound
from tonnage.objects.core_v1 import ResourceQuota
from tonnage.objects.document import Doc, same
from tonnage.objects.meta import Key, Object
from tonnage.objects.resources import BY_PLURAL, Resource

RESYNC_S: Final = 300.0
"""Upstream's --resource-quota-sync-period."""
_QUOTAS: Final = BY_PLURAL["", "resourcequotas"]

_log = logs.logger(__name__)


class ResourceQuotaController(QueueController):
    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._quotas = context.informers.of(ResourceQuota)
        self._reconciler = self._add_queue("resource-quota", self._reconcile)
        # Not queued when the server charges a quota: the charged object does not exist yet and would not be counted.
        self._reconciler.follow(self._quotas, lambda quota: () if quota.is_counted else (quota.namespace,))
        self._by_namespace = Indexer(self._quotas, namespace_of)
        self._counted: tuple[Resource, ...] = ()

    async def run(self) -> None:
        """Count until cancelled. Nothing is counted before every informer is synced."""
        self._counted = tuple(
            filter(is_counted, await wait_for_served_resources(self._client, clock=self._clock, rng=self._rng))
        )
        known = self._informers.followed()  # whole objects, for other controllers; of other kinds only metadata is read
        for resource in self._counted:
            if resource != _QUOTAS:
                self._reconciler.follow(
                    self._informers.of(known.get(resource) or metadata_class(resource)), self._namespaces_of
                )
        await self._informers.wait_synced()
        for quota in self._quotas:  # objects that went while no controller ran
            self._reconciler.add(quota.namespace)
        await super().run()

    def _namespaces_of(self, found: Object) -> tuple[Key, ...]:
        """The object's namespace if it has a quota; most namespaces have none."""
        return (found.namespace,) if self._by_namespace(found.namespace) else ()

    async def _reconcile(self, namespace: Key) -> float | None:
        quotas = await self._client.list_docs(_QUOTAS, namespace=namespace)
        if not quotas:
            return None
        content: dict[Resource, tuple[Doc, ...]] = {}
        for resource in self._counted:
            if any(names_for(resource, quota.get("spec", {}).get("hard", {})) for quota in quotas):
                content[resource] = await self._client.list_docs(resource, namespace=namespace)
        for quota in quotas:
            await self._write(quota, recounted(quota, content, self._clock.now()))
        return RESYNC_S

    async def _write(self, quota: Doc, status: Doc) -> None:
        was = quota.get("status", {})
        if is_same_status(was, status) and same(was.get("hard"), status.get("hard")):
            return
        try:
            await self._client.update_doc({**quota, "status": status}, subresource="status")
        except NotFound:
            return
        _log.debug("Counted", quota=f"{quota['metadata']['namespace']}/{quota['metadata']['name']}")
