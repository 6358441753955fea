"""Kinds that a server has beyond our table, found by discovery; classes for kinds without a class of their own.

`metadata_class` reads names, owners and finalizers only, `document_class` the whole document. `DiscoveredKinds` watches
the metadata of every discovered kind with its own informers, so that a kind that goes blocks no other.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import KW_ONLY, InitVar, dataclass
from functools import cache
from typing import Any, Final, cast

from tonnage import errors, logs
from tonnage.client.http import Client
from tonnage.client.informer import Informer
from tonnage.client.metrics import WorkQueueMetrics
from tonnage.client.reconciler import Reconciler
from tonnage.clock import Backoff, Clock
from tonnage.objects import codec
from tonnage.objects.document import dig
from tonnage.objects.meta import Document, Key, Object, RecordMeta
from tonnage.objects.resources import BY_PLURAL, RESOURCES, Resource, group_versions

NEEDED_VERBS: Final = frozenset(("list", "watch", "delete"))

_discovery_log = logs.logger("tonnage.client.discovery")


@cache
def _class_of(resource: Resource, base: type[Object]) -> type[Object]:
    # Named as the kind, because an object's `kind` is compared with it.
    cls = RecordMeta(resource.kind, (base,), {"__module__": __name__, "__doc__": base.__doc__})
    assert issubclass(cls, Object)
    codec.RESOURCE_BY_HEAD[cls] = resource
    return cls


def metadata_class(resource: Resource) -> type[Object]:
    """The one class of this resource that holds only metadata."""
    return _class_of(resource, Object)


def document_class(resource: Resource) -> type[Document]:
    """The one class of this resource whose objects keep their whole document in `doc`."""
    return cast(type[Document], _class_of(resource, Document))


async def served_resources(client: Client) -> tuple[Resource, ...]:
    """The resources of our table that this server can list, watch and delete. Raises TonnageError."""
    served: list[Resource] = []
    for group, version in group_versions():
        rows = await _api_resources(client, f"/apis/{group}/{version}" if group else f"/api/{version}")
        names = {row["name"] for row in rows}
        known = [row for row in RESOURCES if (row.group, row.version) == (group, version)]
        served += [resource for resource in known if resource.plural in names]
    return tuple(served)


async def wait_for_served_resources(client: Client, *, clock: Clock, rng: random.Random) -> tuple[Resource, ...]:
    """The same, retried until the server answers."""
    backoff = Backoff(clock=clock, rng=rng)
    while True:
        try:
            return await served_resources(client)
        except errors.TonnageError as exc:
            _discovery_log.warning("Cannot find out what is served; it is tried again", error=exc.message)
            await clock.sleep(backoff.next_s())


async def _api_resources(client: Client, path: str) -> list[dict[str, Any]]:
    """The rows of a group and version that can be listed, watched and deleted; empty for a missing group."""
    try:
        rows = codec.read_doc("APIResourceList", await client.raw("GET", path)).get("resources")
    except errors.NotFound:
        return []  # an older server, a disabled group, or a group that has just gone
    return [row for row in (rows if isinstance(rows, list) else ()) if _has_needed_verbs(row)]


def _has_needed_verbs(row: Any) -> bool:
    verbs = dig(row, "verbs")
    has_verbs = isinstance(verbs, list) and {verb for verb in verbs if isinstance(verb, str)} >= NEEDED_VERBS
    return has_verbs and isinstance(dig(row, "name"), str)


_RESYNC_S: Final = 30.0
"""How often the server is asked again without an event: upstream's garbage collector's period."""

_log = logs.logger(__name__)


async def discovered_resources(client: Client) -> tuple[Resource, ...]:
    """Resources beyond our table that can be listed, watched and deleted, each in its preferred version."""
    found: dict[tuple[str, str], Resource] = {}
    groups = codec.read_doc("APIGroupList", await client.raw("GET", "/apis")).get("groups") or ()
    for group in groups:
        name = dig(group, "name")
        preferred = dig(group, "preferredVersion", "version")
        versions = [dig(each, "version") for each in dig(group, "versions") or ()]
        for version in dict.fromkeys([preferred, *versions]):
            if isinstance(name, str) and isinstance(version, str):
                for resource in await _resources(client, name, version):
                    found.setdefault((resource.group, resource.plural), resource)
    return tuple(found.values())


async def _resources(client: Client, group: str, version: str) -> list[Resource]:
    return [
        Resource(
            group, version, row["kind"], row["name"], row["namespaced"], singular_name=row.get("singularName") or ""
        )
        for row in await _api_resources(client, f"/apis/{group}/{version}")
        if isinstance(row.get("kind"), str)
        and isinstance(row.get("namespaced"), bool)
        and "/" not in row["name"]
        and (group, row["name"]) not in BY_PLURAL
    ]


Added = Callable[[Resource, Informer[Object]], None]


@dataclass(eq=False)
class DiscoveredKinds:
    """Informers of all kinds beyond our table; calls `added` before an informer starts, `removed` after its end."""

    client: Client
    _: KW_ONLY
    clock: InitVar[Clock]
    added: Added
    removed: Callable[[Resource], None] = lambda resource: None
    metrics: InitVar[WorkQueueMetrics | None] = None

    def __post_init__(self, clock: Clock, metrics: WorkQueueMetrics | None) -> None:
        self._informers: dict[Resource, Informer[Object]] = {}
        self._known: dict[tuple[str, str], Resource] = {}
        self._looking = asyncio.Lock()
        self._reconciler = Reconciler("discovered-kinds", self._look, clock=clock, workers=1, metrics=metrics)

    def find(self, api_version: str, kind: str) -> Resource | None:
        """The resource of a kind, in the version that is watched; for a kind that is gone, the last known."""
        return self._known.get((api_version.rpartition("/")[0], kind))

    def look(self, _: object = None) -> None:
        """Run discovery again soon. As an event handler it takes the changed definition."""
        self._reconciler.add("kinds")

    async def run(self) -> None:
        self.look()
        try:
            await self._reconciler.run()
        finally:
            informers, self._informers = list(self._informers.values()), {}
            await asyncio.gather(*(informer.stop() for informer in informers))

    async def wait_synced(self) -> None:
        """Return when all current kinds are synced. Raises TonnageError when the server does not answer."""
        await self._look("kinds")
        for informer in tuple(self._informers.values()):
            await informer.wait_synced()

    async def _look(self, _: Key) -> float:
        async with self._looking:
            await self._compare()
        return _RESYNC_S

    async def _compare(self) -> None:
        served = await discovered_resources(self.client)
        for resource in [each for each in self._informers if each not in served]:
            _log.info("A kind is gone", resource=resource.qualified)
            await self._informers.pop(resource).stop()
            self.removed(resource)
        for resource in served:
            if resource not in self._informers:
                _log.info("A kind is new", resource=resource.qualified)
                self._known[resource.group, resource.kind] = resource
                informer = self._informers[resource] = Informer(self.client, metadata_class(resource))
                self.added(resource, informer)
                informer.start()
