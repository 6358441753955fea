"""What is done once the API server serves: manifests, the objects every cluster has, who the programs are.

    bootstrap = Bootstrap.connect(settings, command_lines, clock=clock, rng=rng)
    await bootstrap.apply(manifests)
    await bootstrap.prepare(commands)               # the programs can be started after this
    await bootstrap.wait_for_nodes(names)

All of it talks to the API server, and is loaded while that starts (`cluster`).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from tonnage import logs
from tonnage.client.config import kubeconfig
from tonnage.client.errors import Disconnected
from tonnage.client.http import Client
from tonnage.clock import Clock
from tonnage.deadline import within
from tonnage.driver.names import DRIVER_NAME
from tonnage.errors import ApiError, TonnageError
from tonnage.faults import FaultFile
from tonnage.objects.core_v1 import Node
from tonnage.objects.document import Doc
from tonnage.objects.resources import BY_KIND
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.plane.command_lines import CommandLines
from tonnage.plane.identities import Identities
from tonnage.plane.readiness import expected_nodes, is_ready
from tonnage.plane.settings import PlaneSettings
from tonnage.plane.starter_objects import ensure_starter_objects

_READY_WITHIN_S: Final = 60.0
_LOOK_EVERY_S: Final = 0.05

_log = logs.logger("tonnage.up")


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """Of one cluster. `client` is an administrator's way to it."""

    settings: PlaneSettings
    resolved: Mapping[str, Any]
    client: Client
    identities: Identities
    clock: Clock

    @classmethod
    def connect(cls, settings: PlaneSettings, commands: CommandLines, *, clock: Clock, rng: random.Random) -> Self:
        """By the kubeconfig that the API server has written."""
        connection = kubeconfig.load(settings.kubeconfig)
        client = Client.connect(connection, clock=clock, rng=rng, user_agent="tonnage-up")
        identities = Identities(commands.identities, client, ca_pem=connection.cluster.ca_pem, clock=clock, rng=rng)
        return cls(settings, commands.resolved, client, identities, clock)

    async def apply(self, manifests: Sequence[Doc]) -> None:
        """One after the other, in their order. Raises TonnageError."""
        for doc in manifests:
            await self._apply(doc)

    async def _apply(self, doc: Doc) -> None:
        metadata = doc["metadata"]
        resource = BY_KIND[doc["apiVersion"], doc["kind"]]
        key = f"{metadata['namespace']}/{metadata['name']}" if resource.namespaced else metadata["name"]
        try:
            await self.client.patch_doc(resource, key, doc, patch_type="apply", field_manager="tonnage-up", force=True)
        except ApiError as exc:
            raise TonnageError(f"{doc['kind']} {key} cannot be applied: {exc.message}", hint=exc.hint) from exc

    async def prepare(self, commands: Mapping[str, Sequence[str]]) -> None:
        """Make what programs with these command lines find: the driver and its classes, accounts, rights and tokens."""
        await asyncio.gather(
            ensure_starter_objects(self.client, int(self.resolved["classes"]), str(self.resolved["pool_policy"])),
            self.identities.ensure(commands),
        )

    async def wait_for_nodes(self, names: Sequence[str]) -> None:
        """Until every node that will come has come, and room is published for as many topologies, of every class."""
        try:
            await within(self.clock, _READY_WITHIN_S, self._until_ready(names))
        except TimeoutError:
            raise TonnageError(
                f"the nodes are not ready after {_READY_WITHIN_S:g} s",
                hint=f"look into {self.settings.data_dir / 'logs'}",
            ) from None
        present = [node.name for node in (await self.client.list(Node)).items]
        for name in self.settings.former_nodes(self.resolved, present):
            _log.warning(
                "Nobody plays this node any more; its pods and volumes go elsewhere once it is deleted", node=name
            )

    async def _until_ready(self, names: Sequence[str]) -> None:
        while True:
            try:
                if await self._are_nodes_ready(names):
                    return
            except Disconnected as exc:
                _log.debug("The server is away", error=exc.message)
            await self.clock.sleep(_LOOK_EVERY_S)

    async def _are_nodes_ready(self, names: Sequence[str]) -> bool:
        nodes = {node.name: node for node in (await self.client.list(Node)).items}
        expected = expected_nodes(names, FaultFile(self.settings.faults).all())
        if not all(is_ready(nodes.get(name)) for name in expected):
            return False
        published = await self.client.list(
            CSIStorageCapacity, label_selector=f"csi.storage.k8s.io/drivername={DRIVER_NAME}"
        )
        return len(published.items) >= len(expected) * int(self.resolved["classes"])
