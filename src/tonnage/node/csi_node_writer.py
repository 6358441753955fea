"""Writes one node's CSINode: creates it, adds and removes drivers, and writes only differences.

A change reads the CSINode and patches it with the version it read. It is a PATCH because KEP-4876's queries for
operators look for that verb. As upstream does, an entry that differs is removed and appended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from tonnage import logs
from tonnage.backoff import exponential_s
from tonnage.csi import csi_pb2 as csi
from tonnage.errors import AlreadyExists, Conflict, NotFound
from tonnage.node.context import NodeContext, NodePart
from tonnage.node.drivers import InstalledDriver
from tonnage.objects.codec import to_doc
from tonnage.objects.core_v1 import Node
from tonnage.objects.document import Doc, copy, dig
from tonnage.objects.storage_v1 import CSINode

_MAX_COUNT: Final = 2**31 - 1


def new_csi_node(node_name: str, node_uid: str) -> Doc:
    """A CSINode without drivers. Its node owns it, so that it is deleted with the node."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": node_name, "uid": node_uid}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": node_name, "ownerReferences": [owner]},
        "spec": {"drivers": []},
    }


def belongs_to(csi_node: Doc, node_uid: str) -> bool:
    """False for a CSINode left over from a deleted node of the same name."""
    owners = csi_node["metadata"].get("ownerReferences", ())
    return any(owner.get("kind") == "Node" and owner.get("uid") == node_uid for owner in owners)


def entry_of(driver: str, info: csi.NodeGetInfoResponse) -> Doc:
    """The CSINode entry from a driver's NodeGetInfo. A count of 0 means unknown; a negative count is left out."""
    entry: Doc = {"name": driver, "nodeID": info.node_id}
    if keys := sorted(info.accessible_topology.segments):
        entry["topologyKeys"] = keys
    if info.max_volumes_per_node > 0:
        entry["allocatable"] = {"count": min(info.max_volumes_per_node, _MAX_COUNT)}
    return entry


def with_entry(csi_node: Doc, entry: Doc, *, count_may_change: bool = True) -> Doc | None:
    """The CSINode with this entry; None if it already has it. Without `count_may_change` an existing count stays."""
    drivers = dig(csi_node, "spec", "drivers") or []
    before = next((driver for driver in drivers if driver["name"] == entry["name"]), None)
    if before is not None and not count_may_change:
        entry = {key: value for key, value in entry.items() if key != "allocatable"}
        if "allocatable" in before:
            entry["allocatable"] = before["allocatable"]
    if before is not None and _says(before) == _says(entry):
        return None
    changed: Doc = copy(csi_node)
    changed.setdefault("spec", {})["drivers"] = [each for each in drivers if each is not before] + [entry]
    return changed


def without_entry(csi_node: Doc, driver: str) -> Doc | None:
    """The CSINode without a driver; None if the driver is not in it."""
    drivers = dig(csi_node, "spec", "drivers") or []
    left = [each for each in drivers if each["name"] != driver]
    if len(left) == len(drivers):
        return None
    changed: Doc = copy(csi_node)
    changed["spec"]["drivers"] = left
    return changed


def _says(entry: Doc) -> tuple[object, ...]:
    return entry["nodeID"], frozenset(entry.get("topologyKeys", ())), dig(entry, "allocatable", "count")


_TRIES: Final = 5
_FIRST_PAUSE_S, _FACTOR = 0.01, 5.0

_log = logs.logger(__name__)


class CsiNodeWriter(NodePart):
    """The only writer of a node's CSINode in this process; changes run one after the other."""

    def __init__(self, context: NodeContext) -> None:
        super().__init__(context)
        self._count_may_change = context.settings.gates.MutableCSINodeAllocatableCount
        self._lock = asyncio.Lock()

    async def put(self, node: Node, driver: InstalledDriver) -> bool:
        """Write the driver's last answer; True if that took a write. Raises ApiError: Invalid for a changed node id."""
        entry = entry_of(driver.name, driver.info)
        if driver.info.max_volumes_per_node < 0:
            _log.warning(
                "A driver's max_volumes_per_node makes no sense and is left out",
                driver=driver.name,
                node=self._node,
                max_volumes_per_node=driver.info.max_volumes_per_node,
            )
        return await self._change(node, lambda doc: with_entry(doc, entry, count_may_change=self._count_may_change))

    async def remove(self, node: Node, driver: str) -> bool:
        return await self._change(node, lambda doc: without_entry(doc, driver))

    async def ensure(self, node: Node, shown: CSINode | None) -> None:
        """Create the CSINode if this node has none. `shown` is the informer's copy."""
        if shown is None or not any(owner.uid == node.uid for owner in shown.metadata.owner_references):
            await self._change(node, lambda doc: None)

    async def register(self, node: Node, shown: CSINode | None, driver: InstalledDriver) -> None:
        """Write the entry of a newly found driver, or one that is missing or wrong. Raises as `put` does.

        The count is written when the driver is found; `attach_limits` corrects it later.
        """
        count_may_change = self._count_may_change and not driver.is_registered
        entry = entry_of(driver.name, driver.info)
        if shown is None or with_entry(to_doc(shown), entry, count_may_change=count_may_change) is not None:
            await self.put(node, driver)
        driver.is_registered = True

    async def _change(self, node: Node, change: Callable[[Doc], Doc | None]) -> bool:
        """Write the CSINode that `change` returns; create it first if there is none. True if something was written."""
        async with self._lock:
            for attempt in range(_TRIES):
                try:
                    wanted = change(await self._read(node))
                    if wanted is None:
                        return False
                    seen = wanted["metadata"]
                    metadata = {"uid": seen["uid"], "resourceVersion": seen["resourceVersion"]}
                    await self._client.patch(
                        CSINode, self._node, {"metadata": metadata, "spec": {"drivers": wanted["spec"]["drivers"]}}
                    )
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
        if belongs_to(found, node.uid):
            return found
        # This one is left over from a deleted node of the same name; the garbage collector would delete it anyway.
        await self._client.delete(CSINode, self._node, uid=found["metadata"]["uid"])
        return await self._make(node)

    async def _make(self, node: Node) -> Doc:
        try:
            return await self._client.create_doc(new_csi_node(node.name, node.uid))
        except AlreadyExists:
            return await self._client.get_doc(CSINode, self._node)
