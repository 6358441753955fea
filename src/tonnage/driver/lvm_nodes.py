"""LVMNode objects, as the node agents of OpenEBS LVM LocalPV keep them: this driver's pools as volume groups.

For trying out programs that read them (`tonnage pools`). Pools are `vg-1`, `vg-2`, … of their node. As in OpenEBS, an
object is written a moment after a change. A server without the kind is asked again and again.
"""

from __future__ import annotations

from typing import Final

from tonnage import errors, logs, quantity
from tonnage.client.http import Client
from tonnage.clock import Clock
from tonnage.driver.driver import Driver
from tonnage.driver.volumes.parameters import group_name
from tonnage.objects import core_v1, resources
from tonnage.objects.document import Doc

LVM_NODES: Final = resources.Resource("local.openebs.io", "v1alpha1", "LVMNode", "lvmnodes", True, ("lvmnode",))
_LOOK_EVERY_S: Final = 0.5

_log = logs.logger("tonnage.driver")


class LvmNodes:
    def __init__(self, driver: Driver, client: Client, *, namespace: str, clock: Clock) -> None:
        self._driver = driver
        self._client = client
        self._namespace = namespace
        self._clock = clock
        self._written: dict[str, list[Doc]] = {}
        self._problem = ""

    async def run(self) -> None:
        while True:
            for node in self._driver.nodes:
                try:
                    await self._keep(node)
                except errors.TonnageError as exc:
                    if exc.message != self._problem:  # log it once, not twice a second
                        _log.warning("An LVMNode cannot be written; it is tried again", node=node, error=exc.message)
                    self._problem = exc.message
            await self._clock.sleep(_LOOK_EVERY_S)

    async def _keep(self, node: str) -> None:
        groups = self._groups(node)
        if self._written.get(node) == groups:
            return
        key = f"{self._namespace}/{node}"
        try:
            await self._client.patch_doc(LVM_NODES, key, {"volumeGroups": groups})
        except errors.NotFound:
            owner = await self._client.get(core_v1.Node, node)
            reference = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": owner.uid, "controller": True}
            doc = {
                "apiVersion": LVM_NODES.api_version,
                "kind": LVM_NODES.kind,
                "metadata": {"name": node, "namespace": self._namespace, "ownerReferences": [reference]},
                "volumeGroups": groups,
            }
            await self._client.create_doc(doc, kind=LVM_NODES)
        self._written[node] = groups

    def _groups(self, node: str) -> list[Doc]:
        free = self._driver.faults.reported_bytes(node)
        return [
            {
                "name": group_name(number),
                "uuid": f"{node}-{group_name(number)}",
                "size": str(quantity.Quantity.from_bytes(size)),
                "free": str(quantity.Quantity.from_bytes(free[number])),
                "lvCount": 0,
                "pvCount": 1,
                "maxLv": 0,
                "maxPv": 0,
                "snapCount": 0,
                "missingPvCount": 0,
                "metadataCount": 1,
                "metadataUsedCount": 1,
                "metadataFree": "507Ki",
                "metadataSize": "1020Ki",
                "permissions": 0,
                "allocationPolicy": 0,
            }
            for number, size in enumerate(self._driver.settings.pools[node])
        ]
