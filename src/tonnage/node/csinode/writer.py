"""Writes one node's CSINode: makes it, puts drivers in, takes them out, and writes only what differs.

Every change is read, changed and patched with the version that was read; somebody else's write in between is read
again, as often as upstream does. It is a PATCH because KEP-4876 says so: the queries that it gives to operators look
for that verb. (Upstream's kubelet sends PUT, which they do not find.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from tonnage import logs
from tonnage.backoff import exponential_s
from tonnage.client.http import Client
from tonnage.clock import Clock
from tonnage.errors import AlreadyExists, Conflict, NotFound
from tonnage.node.csinode import driver_entry
from tonnage.node.drivers import InstalledDriver
from tonnage.objects.core_v1 import Node
from tonnage.objects.document import Doc
from tonnage.objects.storage_v1 import CSINode

_TRIES: Final = 5
_FIRST_PAUSE_S, _FACTOR = 0.01, 5.0

_log = logs.logger(__name__)


class CsiNodeWriter:
    """The one writer of a node's CSINode in this process; changes come one after the other."""

    def __init__(self, client: Client, node: str, *, clock: Clock, count_may_change: bool) -> None:
        self._client = client
        self._node = node
        self._clock = clock
        self._count_may_change = count_may_change
        self._lock = asyncio.Lock()

    async def put(self, node: Node, driver: InstalledDriver) -> bool:
        """Make the driver's entry say what it last said of itself; True when that took a write.

        Raises ApiError: Invalid when the driver changed what may not change, its node id or topology keys.
        """
        entry = driver_entry.entry_of(driver.name, driver.info)
        if driver.info.max_volumes_per_node < 0:
            _log.warning(
                "A driver's max_volumes_per_node makes no sense and is left out",
                driver=driver.name,
                node=self._node,
                max_volumes_per_node=driver.info.max_volumes_per_node,
            )
        return await self._change(
            node, lambda doc: driver_entry.with_entry(doc, entry, count_may_change=self._count_may_change)
        )

    async def remove(self, node: Node, driver: str) -> bool:
        return await self._change(node, lambda doc: driver_entry.without_entry(doc, driver))

    async def ensure(self, node: Node, shown: CSINode | None) -> None:
        """See that there is a CSINode of this life of the node; `shown` is the informer's copy."""
        if shown is None or not any(owner.uid == node.uid for owner in shown.metadata.owner_references):
            await self._change(node, lambda doc: None)

    async def register(self, node: Node, shown: CSINode | None, driver: InstalledDriver) -> None:
        """Write the entry of a driver that was found, or whose entry is missing or wrong. Raises as `put` does.

        The count is written when the driver is found. After that it is left as it is, whoever changed it: correcting it
        is the business of `attach_limits`, for drivers that ask for it by a period.
        """
        if shown is None or not self._has(shown, driver, with_count=not driver.is_registered):
            await self.put(node, driver)
        driver.is_registered = True

    async def delete(self) -> None:
        with suppress(NotFound):
            await self._client.delete(CSINode, self._node)

    def _has(self, shown: CSINode, driver: InstalledDriver, *, with_count: bool) -> bool:
        found = shown.driver(driver.name)
        entry = driver_entry.entry_of(driver.name, driver.info)
        return (
            found is not None
            and found.node_id == entry["nodeID"]
            and set(found.topology_keys) == set(entry.get("topologyKeys", ()))
            and (
                not (with_count and self._count_may_change)
                or found.allocatable.count == entry.get("allocatable", {}).get("count")
            )
        )

    async def _change(self, node: Node, change: Callable[[Doc], Doc | None]) -> bool:
        """Write what `change` makes of the CSINode, which is made first where there is none."""
        async with self._lock:
            for attempt in range(_TRIES):
                try:
                    wanted = change(await self._read(node))
                    if wanted is None:
                        return False
                    await self._client.patch(CSINode, self._node, driver_entry.patch_to(wanted))
                    return True
                except (Conflict, NotFound):
                    if attempt == _TRIES - 1:
                        raise
                    await self._clock.sleep(exponential_s(_FIRST_PAUSE_S, attempt, factor=_FACTOR))
        return False

    async def _read(self, node: Node) -> Doc:
        try:
            found = await self._client.get_doc(CSINode, self._node)
        except NotFound:
            return await self._make(node)
        if driver_entry.belongs_to(found, node.uid):
            return found
        # It is left over from a node of this name that was deleted; the garbage collector would take it anyway.
        await self._client.delete(CSINode, self._node, uid=found["metadata"]["uid"])
        return await self._make(node)

    async def _make(self, node: Node) -> Doc:
        try:
            return await self._client.create_doc(driver_entry.new_csi_node(node.name, node.uid))
        except AlreadyExists:
            return await self._client.get_doc(CSINode, self._node)
