"""A scripted driver that answers GetCapacity as it is told, and a capacity controller that asks it.

The controller's clock is virtual, so that polls and pauses come when a test says so; the wire is real.
"""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from support.eventually import eventually_async
from support.scripted_driver import ScriptedDriver
from support.virtual_clock import VirtualClock
from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.client.informers import Informers
from tonnage.clock import SystemClock
from tonnage.csi.client import CsiClient
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.provisioner.capacity.controller import CapacityController, CapacitySettings
from tonnage.scheduling.volumes.capacity.pools import listed_pools

TOPOLOGY_KEY = "topology.tonnage.dev/node"
_PATIENCE_S = 20.0


class WatchedClock(VirtualClock):
    """Virtual time that remembers who lay down for how long, so that it is moved only when somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.naps_s: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.naps_s.append(seconds)
        await super().sleep(seconds)


class CapacityStage:
    """One namespace, with a driver, classes and nodes of its own: all are named after it."""

    def __init__(self, client: Client, ns: str, driver: ScriptedDriver) -> None:
        self.client, self.ns, self.driver = client, ns, driver
        self.clock = WatchedClock()
        self.registry = CollectorRegistry()
        self.rng = random.Random(1)

    @property
    def asked(self) -> list[tuple[str, str]]:
        """(node, kind) of every GetCapacity since `driver.calls` was cleared."""
        return [
            (each.accessible_topology.segments.get(TOPOLOGY_KEY, ""), each.parameters.get("kind", ""))
            for each in self.driver.asked("GetCapacity")
        ]

    # -- what the cluster has -----------------------------------------------------------------------------------------

    async def storage_class(self, name: str = "pools", *, delayed: bool = True, kind: str = "", group: str = "") -> str:
        doc = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {
                "name": f"{self.ns}-{name}",
                "annotations": {"tonnage.dev/capacity-group": group} if group else {},
            },
            "provisioner": self.ns,
            "parameters": {"kind": kind} if kind else {},
            "volumeBindingMode": "WaitForFirstConsumer" if delayed else "Immediate",
        }
        return str((await self.client.create_doc(doc))["metadata"]["name"])

    async def node(self, name: str, *, is_registered: bool = True, is_labelled: bool = True) -> str:
        """A node with the driver on it; its name in the cluster."""
        full = f"{self.ns}-{name}"
        meta = {"name": full, "labels": {TOPOLOGY_KEY: full} if is_labelled else {}}
        await self.client.create_doc({"apiVersion": "v1", "kind": "Node", "metadata": meta})
        if is_registered:
            doc = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": full}}
            await self.client.create_doc({**doc, "spec": {"drivers": [self.driver_entry(full)]}})
        return full

    def driver_entry(self, node: str) -> dict[str, Any]:
        """The driver as a CSINode knows it."""
        return {"name": self.ns, "nodeID": node, "topologyKeys": [TOPOLOGY_KEY]}

    # -- the controller -----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def controller(
        self, *, more: dict[str, Any] | None = None, **settings: Any
    ) -> AsyncIterator[CapacityController]:
        """A controller at work; unlimited, unless told otherwise."""
        informers = Informers(self.client)
        driver = CsiClient(self.driver.address, clock=SystemClock(), rng=self.rng, timeout_s=5.0)
        capacities = CapacityController(
            self.client,
            driver,
            informers,
            driver_name=self.ns,
            settings=CapacitySettings(**{"namespace": self.ns, "qps": 0.0, **settings}),
            clock=self.clock,
            **(more or {}),
        )
        async with driver, informers:
            self._capacities = capacities
            await informers.wait_synced()
            task = asyncio.create_task(capacities.run())
            try:
                yield capacities
            finally:
                task.cancel()
                await asyncio.wait((task,))

    # -- what is seen -------------------------------------------------------------------------------------------------

    async def objects(self) -> tuple[CSIStorageCapacity, ...]:
        return (await self.client.list(CSIStorageCapacity, namespace=self.ns)).items

    async def only(self) -> CSIStorageCapacity:
        (found,) = await self.objects()
        return found

    async def until_published(self, *figures: tuple[str, str]) -> tuple[CSIStorageCapacity, ...]:
        """Wait until exactly these (node, capacity) are there; the objects."""

        found: tuple[CSIStorageCapacity, ...] = ()

        async def look() -> bool:
            nonlocal found
            found = await self.objects()
            return sorted(said_by(each) for each in found) == sorted(figures)

        await eventually_async(look)
        return found

    async def have_pools(self, count: int) -> bool:
        """Whether so many objects list pools, where the scheduler finds them."""
        return sum(bool(listed_pools(each)) for each in await self.objects()) == count

    async def until_settled(self) -> None:
        """Wait until the controller has nothing to look at for now."""
        await asyncio.wait_for(self._capacities.wait_idle(), _PATIENCE_S)

    async def until_napping(self, seconds: float) -> None:
        """Wait until somebody has lain down for just so long."""

        async def look() -> bool:
            return seconds in self.clock.naps_s

        await eventually_async(look)

    async def until_asked(self, times: int) -> None:
        """Wait until the driver has been asked so often since `driver.calls` was cleared."""

        async def look() -> bool:
            return len(self.asked) >= times

        await eventually_async(look)


def said_by(found: CSIStorageCapacity) -> tuple[str, str]:
    topology = found.node_topology
    node = "" if topology is None else topology.match_labels.get(TOPOLOGY_KEY, "")
    return node, str(found.capacity)


@asynccontextmanager
async def staged(url: str, token: str, ns: str) -> AsyncIterator[CapacityStage]:
    """A stage on a server, with the driver's socket in a folder that is short enough."""
    config = {
        "clusters": [{"name": "c", "cluster": {"server": url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        file = Path(folder) / "kubeconfig"
        file.write_text(json.dumps(config))
        driver = ScriptedDriver(f"unix://{folder}/csi.sock", topology_key=TOPOLOGY_KEY)
        async with driver.served(), Client.connect(kubeconfig.load(file)) as client:
            yield CapacityStage(client, ns, driver)
