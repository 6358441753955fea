"""Objects of any served kind, read for their metadata alone.

Whoever looks after all kinds alike (the garbage collector, namespaces) asks the server which it has, and needs names,
owners and finalizers of their objects, and neither specs nor secrets. A class made here reads just that, for a kind
with a class of its own as well as for one without; what it skips is never kept in memory.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from functools import cache
from typing import Final

from tonnage import logs
from tonnage.backoff import Backoff
from tonnage.client.http import Client
from tonnage.clock import Clock
from tonnage.errors import NotFound, TonnageError
from tonnage.objects import codec
from tonnage.objects.document import dig
from tonnage.objects.meta import Object, RecordMeta
from tonnage.objects.resources import RESOURCES, Resource, group_versions
from tonnage.objects.scheme import RESOURCE_BY_HEAD

NEEDED_VERBS: Final = frozenset(("list", "watch", "delete"))

_log = logs.logger("tonnage.client.discovery")


@cache
def metadata_class(resource: Resource) -> type[Object]:
    """The class of this resource that holds metadata and nothing else; always the same one."""
    # Named as the kind, because that is what an object's `kind` is compared with.
    cls = RecordMeta(resource.kind, (Object,), {"__module__": __name__, "__doc__": f"The head of a {resource.kind}."})
    assert issubclass(cls, Object)
    RESOURCE_BY_HEAD[cls] = resource
    return cls


async def served_resources(client: Client) -> tuple[Resource, ...]:
    """What this server has, of all we know, that can be listed, watched and deleted. Raises TonnageError."""
    return tuple([row async for row in _served(client)])


async def wait_for_served_resources(client: Client, *, clock: Clock, rng: random.Random) -> tuple[Resource, ...]:
    """The same; a server that is away is waited for."""
    backoff = Backoff(clock=clock, rng=rng)
    while True:
        try:
            return await served_resources(client)
        except TonnageError as exc:
            _log.warning("Cannot find out what is served; it is tried again", error=exc.message)
            await clock.sleep(backoff.next_s())


async def _served(client: Client) -> AsyncIterator[Resource]:
    for group, version in group_versions():
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            listed = codec.read_doc("APIResourceList", await client.raw("GET", path)).get("resources") or ()
        except NotFound:
            continue  # an older server, or one that has the group turned off
        verbs = {
            dig(each, "name"): [verb for verb in dig(each, "verbs") or () if isinstance(verb, str)] for each in listed
        }
        for row in RESOURCES:
            if (row.group, row.version) == (group, version) and set(verbs.get(row.plural, ())) >= NEEDED_VERBS:
                yield row
