"""A driver that answers GetCapacity as it is told, over a real socket, and a capacity controller that asks it.

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

import grpc.aio
from google.protobuf.wrappers_pb2 import Int64Value
from prometheus_client import CollectorRegistry

from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.client.informers import Informers
from tonnage.clock import SystemClock, VirtualClock
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.client import CsiClient
from tonnage.csi.csi_pb2_grpc import ControllerServicer, add_ControllerServicer_to_server
from tonnage.csi.errors import Code
from tonnage.csi.server import served
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.provisioner.capacity.controller import CapacityController, CapacitySettings
from tonnage.quantity import Quantity
from tonnage.scheduling.volumes.capacity.pools import listed_pools
from tonnage.testing.eventually import eventually_async

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


class ScriptedDriver(ControllerServicer):
    """Says about each node, and by `kind=` about each kind of volume there, what it was told to say."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, str], csi.GetCapacityResponse] = {}
        self.refusal: Code | None = None
        self.asked: list[tuple[str, str]] = []
        """(node, kind) of every attempt_key."""
        self._then: dict[tuple[str, str], csi.GetCapacityResponse] = {}

    def say(self, node: str, *pools: str, total: str = "0", maximum: str | None = None, kind: str = "") -> None:
        self._said[node, kind] = csi.GetCapacityResponse(
            available_capacity=_bytes(total),
            maximum_volume_size=None if maximum is None else Int64Value(value=_bytes(maximum)),
            available_capacities=[_bytes(each) for each in pools],
        )

    def say_once(self, node: str, *, total: str) -> None:
        """Say this the next time, and then what it says now."""
        self._then[node, ""] = self._said[node, ""]
        self.say(node, total=total)

    async def GetCapacity(self, request: csi.GetCapacityRequest, context: Any) -> csi.GetCapacityResponse:
        asked = (request.accessible_topology.segments.get(TOPOLOGY_KEY, ""), request.parameters.get("kind", ""))
        self.asked.append(asked)
        if self.refusal is not None:
            await context.abort(self.refusal, "the driver has a bad day")
        answer = self._said.get(asked, csi.GetCapacityResponse())
        self._said[asked] = self._then.pop(asked, answer)
        return answer


class Stage:
    """One namespace, with a driver, classes and nodes of its own: all are named after it."""

    def __init__(self, client: Client, ns: str, driver: ScriptedDriver, csi_address: str) -> None:
        self.client, self.ns, self.driver, self._csi_address = client, ns, driver, csi_address
        self.clock = WatchedClock()
        self.registry = CollectorRegistry()
        self.rng = random.Random(1)

    # -- what the cluster has -----------------------------------------------------------------------------------------

    async def storage_class(self, name: str = "pools", *, delayed: bool = True, kind: str = "") -> str:
        doc = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": f"{self.ns}-{name}"},
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
        driver = CsiClient(self._csi_address, clock=SystemClock(), rng=self.rng, timeout_s=5.0)
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
        """Wait until the driver has been asked so often since `driver.asked` was cleared."""

        async def look() -> bool:
            return len(self.driver.asked) >= times

        await eventually_async(look)


def said_by(found: CSIStorageCapacity) -> tuple[str, str]:
    topology = found.node_topology
    node = "" if topology is None else topology.match_labels.get(TOPOLOGY_KEY, "")
    return node, str(found.capacity)


@asynccontextmanager
async def staged(url: str, token: str, ns: str) -> AsyncIterator[Stage]:
    """A stage on a server, with the driver's socket in a folder that is short enough."""
    config = {
        "clusters": [{"name": "c", "cluster": {"server": url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    driver = ScriptedDriver()

    def register(server: grpc.aio.Server) -> None:
        add_ControllerServicer_to_server(driver, server)

    with tempfile.TemporaryDirectory(prefix="t") as folder:
        file = Path(folder) / "kubeconfig"
        file.write_text(json.dumps(config))
        async with (
            served(f"unix://{folder}/csi.sock", [register]) as address,
            Client.connect(kubeconfig.load(file)) as client,
        ):
            yield Stage(client, ns, driver, address)


def _bytes(text: str) -> int:
    return Quantity.parse(text).value()
