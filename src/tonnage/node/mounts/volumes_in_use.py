"""Node.status.volumesInUse of one node: what must not be detached, because it is mounted or about to be.

A volume is reported before anybody looks whether it is attached, and until it is unmounted for good; the attach/detach
controller leaves alone what stands there. Those who report together are written together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tonnage.client.http import Client
from tonnage.client.written_objects import MutationCache
from tonnage.node.node_objects import in_use_patch
from tonnage.objects.core_v1 import Node


class VolumesInUse:
    """`names` tells what is in use at this moment."""

    def __init__(self, client: Client, node: str, nodes: MutationCache[Node], names: Callable[[], set[str]]) -> None:
        self._client = client
        self._node = node
        self._nodes = nodes
        self._names = names
        self._lock = asyncio.Lock()

    async def report(self) -> None:
        """Return when the Node says what is in use now. Raises NotFound while there is no Node."""
        async with self._lock:
            wanted = self._names()
            shown = self._nodes.get(self._node)
            if shown is not None and set(shown.status.volumes_in_use) == wanted:
                return
            patched = await self._client.patch(Node, self._node, in_use_patch(wanted), subresource="status")
            self._nodes.store(patched)
