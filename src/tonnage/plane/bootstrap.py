"""The first steps once the API server serves: manifests, starter objects, the programs' accounts; wait for the nodes.

A fresh cluster gets the driver's CSIDriver and the class `pools`, with `--classes N` also `pools-2`, …, in one capacity
group. Objects are created only if missing: a person's changes stay. The CSIDriver's `tonnage.dev/pool-policy` follows
`--pool-policy`, unless it is `unknown`. In a restarted cluster, cordons, taints and faults still hold, and their nodes
are not waited for.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Self

from tonnage import logs
from tonnage.client.config import kubeconfig
from tonnage.client.errors import Disconnected
from tonnage.client.http import Client
from tonnage.clock import Clock, within
from tonnage.driver import DRIVER_NAME
from tonnage.errors import AlreadyExists, ApiError, TonnageError
from tonnage.faults import Fault, FaultFile
from tonnage.objects.core_v1 import Node
from tonnage.objects.document import Doc
from tonnage.objects.node_selectors import NOT_READY, UNREACHABLE
from tonnage.objects.resources import BY_KIND
from tonnage.objects.storage_v1 import (
    CAPACITY_GROUP,
    POOL_POLICY,
    SIZE_RULES,
    CSIDriver,
    CSIStorageCapacity,
    StorageClass,
)
from tonnage.plane.identities import MANAGER, Identities
from tonnage.plane.settings import CommandLines, PlaneSettings

CLASS: Final = "pools"
GROUP: Final = "pools"

_DRIVER: Final[Doc] = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "CSIDriver",
    "metadata": {"name": DRIVER_NAME},
    "spec": {
        "attachRequired": True,
        "podInfoOnMount": True,
        "storageCapacity": True,
        "volumeRebuilding": True,
        # The API's minimum: on a laptop one wants to see limits follow.
        "nodeAllocatableUpdatePeriodSeconds": 10,
    },
}


def class_names(classes: int) -> list[str]:
    """`pools`, `pools-2`, …"""
    return [CLASS, *(f"{CLASS}-{number}" for number in range(2, classes + 1))]


def starter_objects(classes: int, pool_policy: str = "") -> list[Doc]:
    driver = _DRIVER
    if pool_policy:
        driver = {**_DRIVER, "metadata": {"name": DRIVER_NAME, "annotations": {POOL_POLICY: pool_policy}}}
    return [driver, *(_class(name, is_grouped=classes > 1) for name in class_names(classes))]


def _class(name: str, *, is_grouped: bool) -> Doc:
    annotations = {SIZE_RULES: "step=4Ki"}  # of the driver, as `tonnage driver-check --measure` tells
    if name == CLASS:
        annotations["storageclass.kubernetes.io/is-default-class"] = "true"
    if is_grouped:
        annotations[CAPACITY_GROUP] = GROUP
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": annotations},
        "provisioner": DRIVER_NAME,
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Delete",
        "allowVolumeExpansion": True,
    }


async def ensure_starter_objects(client: Client, classes: int = 1, pool_policy: str = "") -> None:
    """Create missing objects. When a cluster with one class gets more, the first joins their capacity group, once."""
    created = set()
    for doc in starter_objects(classes, pool_policy):
        with suppress(AlreadyExists):
            await client.create_doc(doc)
            created.add(doc["metadata"]["name"])
    if pool_policy and DRIVER_NAME not in created:
        driver = await client.get(CSIDriver, DRIVER_NAME)
        if driver.pool_policy not in (pool_policy, "unknown"):
            await client.patch(CSIDriver, DRIVER_NAME, {"metadata": {"annotations": {POOL_POLICY: pool_policy}}})
    if CLASS not in created and created & set(class_names(classes)):
        first = await client.get(StorageClass, CLASS)
        if not first.capacity_group:
            await client.patch(StorageClass, CLASS, {"metadata": {"annotations": {CAPACITY_GROUP: GROUP}}})


_LIFECYCLE_TAINTS: Final = frozenset({NOT_READY, UNREACHABLE})
"""The taints that the node lifecycle controller removes from a live node; all others were set on request."""
_IDLE: Final = frozenset({"node-stopped", "node-removed"})


def expected_nodes(names: Sequence[str], faults: Iterable[Fault]) -> list[str]:
    """The nodes that will register: all but those that a fault has stopped or removed."""
    idle = {fault.node for fault in faults if fault.kind in _IDLE}
    return [] if "" in idle else [name for name in names if name not in idle]


def is_ready(node: Node | None) -> bool:
    """True if the node is Ready and has no taint of the node lifecycle controller."""
    if node is None or any(taint.key in _LIFECYCLE_TAINTS for taint in node.spec.taints):
        return False
    return node.is_ready


_READY_WITHIN_S: Final = 60.0
_LOOK_EVERY_S: Final = 0.05

_log = logs.logger("tonnage.up")


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """The bootstrap of one cluster. `client` must have administrator rights."""

    settings: PlaneSettings
    resolved: Mapping[str, Any]
    client: Client
    identities: Identities
    clock: Clock

    @classmethod
    def connect(cls, settings: PlaneSettings, commands: CommandLines, *, clock: Clock, rng: random.Random) -> Self:
        connection = kubeconfig.load(settings.kubeconfig)
        client = Client.connect(connection, clock=clock, rng=rng, user_agent="tonnage-up")
        identities = Identities(commands.identities, client, ca_pem=connection.cluster.ca_pem, clock=clock, rng=rng)
        return cls(settings, commands.resolved, client, identities, clock)

    async def apply(self, manifests: Sequence[Doc]) -> None:
        """Apply the manifests in order. Raises TonnageError."""
        for doc in manifests:
            metadata, resource = doc["metadata"], BY_KIND[doc["apiVersion"], doc["kind"]]
            key = f"{metadata['namespace']}/{metadata['name']}" if resource.namespaced else metadata["name"]
            try:
                await self.client.patch_doc(resource, key, doc, patch_type="apply", field_manager=MANAGER, force=True)
            except ApiError as exc:
                raise TonnageError(f"{doc['kind']} {key} cannot be applied: {exc.message}", hint=exc.hint) from exc

    async def prepare(self, commands: Mapping[str, Sequence[str]]) -> None:
        """Create the driver's objects and classes, and the programs' accounts, rights and tokens."""
        await asyncio.gather(
            ensure_starter_objects(self.client, int(self.resolved["classes"]), str(self.resolved["pool_policy"])),
            self.identities.ensure(commands),
        )

    async def wait_for_nodes(self, names: Sequence[str]) -> None:
        """Wait until every expected node is ready, and capacity is published for all of them, of every class."""
        try:
            await within(self.clock, _READY_WITHIN_S, self._until_ready(names))
        except TimeoutError:
            raise TonnageError(
                f"the nodes are not ready after {_READY_WITHIN_S:g} s",
                hint=f"read {self.settings.data_dir / 'logs'}",
            ) from None
        present = [node.name for node in (await self.client.list(Node)).items]
        for name in self.settings.former_nodes(self.resolved, present):
            _log.warning(
                "No program runs this node any more; its pods and volumes go elsewhere once it is deleted", node=name
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
