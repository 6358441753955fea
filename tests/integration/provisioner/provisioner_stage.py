"""A provisioner on a stage: a real API server in this process, a scripted driver on a real socket, and words by which a
test plays the scheduler and the binder of volumes.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.wrappers_pb2 import BoolValue

from tonnage.apiserver.server import Settings, serve
from tonnage.client.config import kubeconfig
from tonnage.client.config.connection import Connection
from tonnage.client.http import Client
from tonnage.clock import SystemClock
from tonnage.csi import csi_pb2 as csi
from tonnage.csi import csi_pb2_grpc as services
from tonnage.csi.client import CsiClient
from tonnage.csi.server import served
from tonnage.errors import NotFound
from tonnage.metrics import new_registry
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.document import Doc
from tonnage.objects.events_v1 import Event
from tonnage.objects.storage_v1 import StorageClass
from tonnage.provisioner.capacity.controller import CapacitySettings
from tonnage.provisioner.metrics import ProvisionerMetrics
from tonnage.provisioner.options import Options
from tonnage.provisioner.program import Provisioner
from tonnage.quantity import Quantity
from tonnage.testing.eventually import eventually_async

DRIVER = "pools.example"
KEY = "topology.example/node"
SELECTED = "volume.kubernetes.io/selected-node"
PROVISIONER = "volume.kubernetes.io/storage-provisioner"
Rpc = csi.ControllerServiceCapability.RPC
Code = grpc.StatusCode


@dataclass
class ScriptedDriver(services.IdentityServicer, services.ControllerServicer, services.NodeServicer):
    """A driver with so many bytes on each node. `script` says how the next calls of a method end, before they begin."""

    free_bytes: dict[str, int] = field(default_factory=dict)
    volumes: dict[str, csi.Volume] = field(default_factory=dict)
    script: dict[str, deque[Code]] = field(default_factory=dict)
    calls: list[tuple[str, Any]] = field(default_factory=list)
    expands_on_node: bool = False
    gives_less_by: int = 0
    """Bytes that its volumes are smaller than what was asked for."""
    runs_on: str = ""
    gate: asyncio.Event | None = None
    """While it is there and not set, CreateVolume has made its volume and does not answer."""
    mood: Callable[[str], Code | None] = lambda _: None
    """How a call ends, asked before it begins (`CreateVolume`) and after it is done (`CreateVolume answer`)."""

    def asked(self, method: str) -> list[Any]:
        return [request for name, request in self.calls if name == method]

    async def _play(self, method: str, request: Any, context: Any) -> None:
        self.calls.append((method, request))
        if self.script.get(method):
            await context.abort(self.script[method].popleft(), f"{method} as the script says")
        await self._mind(method, context)

    async def _mind(self, moment: str, context: Any) -> None:
        if (code := self.mood(moment)) is not None:
            await context.abort(code, f"{moment}: in no mood")

    async def GetPluginInfo(self, request: Any, context: Any) -> csi.GetPluginInfoResponse:
        return csi.GetPluginInfoResponse(name=DRIVER, vendor_version="1")

    async def GetPluginCapabilities(self, request: Any, context: Any) -> csi.GetPluginCapabilitiesResponse:
        service = csi.PluginCapability.Service
        types = (service.CONTROLLER_SERVICE, service.VOLUME_ACCESSIBILITY_CONSTRAINTS)
        return csi.GetPluginCapabilitiesResponse(
            capabilities=[csi.PluginCapability(service=service(type=each)) for each in types]
        )

    async def Probe(self, request: Any, context: Any) -> csi.ProbeResponse:
        return csi.ProbeResponse(ready=BoolValue(value=True))

    async def ControllerGetCapabilities(self, request: Any, context: Any) -> csi.ControllerGetCapabilitiesResponse:
        types = (Rpc.CREATE_DELETE_VOLUME, Rpc.PUBLISH_UNPUBLISH_VOLUME, Rpc.EXPAND_VOLUME, Rpc.CLONE_VOLUME)
        return csi.ControllerGetCapabilitiesResponse(
            capabilities=[csi.ControllerServiceCapability(rpc=Rpc(type=each)) for each in (*types, Rpc.GET_CAPACITY)]
        )

    async def NodeGetCapabilities(self, request: Any, context: Any) -> csi.NodeGetCapabilitiesResponse:
        return csi.NodeGetCapabilitiesResponse()

    async def NodeGetInfo(self, request: Any, context: Any) -> csi.NodeGetInfoResponse:
        return csi.NodeGetInfoResponse(
            node_id=self.runs_on, accessible_topology=csi.Topology(segments={KEY: self.runs_on})
        )

    async def GetCapacity(self, request: csi.GetCapacityRequest, context: Any) -> csi.GetCapacityResponse:
        await self._play("GetCapacity", request, context)
        node = request.accessible_topology.segments.get(KEY, "")
        return csi.GetCapacityResponse(available_capacity=self.free_bytes.get(node, 0))

    async def CreateVolume(self, request: csi.CreateVolumeRequest, context: Any) -> csi.CreateVolumeResponse:
        await self._play("CreateVolume", request, context)
        made = next((each for name, each in self.volumes.items() if name == request.name), None)
        if made is None:
            size = request.capacity_range.required_bytes
            node = request.accessibility_requirements.preferred[0].segments[KEY]
            if self.free_bytes.get(node, 0) < size:
                await context.abort(Code.RESOURCE_EXHAUSTED, f"no pool of {node} has {size} bytes left")
            self.free_bytes[node] -= size
            content = request.volume_content_source if request.HasField("volume_content_source") else None
            made = self.volumes[request.name] = csi.Volume(
                volume_id=f"id-{request.name}",
                capacity_bytes=size - self.gives_less_by,
                volume_context={"pool": "0"},
                content_source=content,
                accessible_topology=[csi.Topology(segments={KEY: node})],
            )
        if self.gate is not None:
            await self.gate.wait()
        await self._mind("CreateVolume answer", context)
        return csi.CreateVolumeResponse(volume=made)

    async def DeleteVolume(self, request: csi.DeleteVolumeRequest, context: Any) -> csi.DeleteVolumeResponse:
        await self._play("DeleteVolume", request, context)
        for name, volume in list(self.volumes.items()):
            if volume.volume_id == request.volume_id:
                node = volume.accessible_topology[0].segments[KEY]
                self.free_bytes[node] += volume.capacity_bytes + self.gives_less_by
                del self.volumes[name]
        await self._mind("DeleteVolume answer", context)
        return csi.DeleteVolumeResponse()

    async def ControllerExpandVolume(
        self, request: csi.ControllerExpandVolumeRequest, context: Any
    ) -> csi.ControllerExpandVolumeResponse:
        await self._play("ControllerExpandVolume", request, context)
        return csi.ControllerExpandVolumeResponse(
            capacity_bytes=request.capacity_range.required_bytes, node_expansion_required=self.expands_on_node
        )

    def services(self) -> list[Callable[[Any], None]]:
        return [
            lambda server: services.add_IdentityServicer_to_server(self, server),
            lambda server: services.add_ControllerServicer_to_server(self, server),
            lambda server: services.add_NodeServicer_to_server(self, server),
        ]


class Stage:
    """A cluster with nodes and a class, and what tests ask about it."""

    def __init__(self, client: Client, driver: ScriptedDriver, address: str) -> None:
        self.client = client
        self.driver = driver
        self.address = address

    async def node(self, name: str, free: str) -> None:
        self.driver.free_bytes[name] = Quantity.parse(free).value()
        labels = {KEY: name, "kubernetes.io/hostname": name}
        await self.client.create_doc({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
        entry = {"name": DRIVER, "nodeID": name, "topologyKeys": [KEY]}
        await self.client.create_doc(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSINode",
                "metadata": {"name": name},
                "spec": {"drivers": [entry]},
            }
        )

    async def storage_class(self, name: str = "pools", *, delayed: bool = True, **more: Any) -> StorageClass:
        mode = "WaitForFirstConsumer" if delayed else "Immediate"
        doc = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
        said = {"provisioner": DRIVER, "volumeBindingMode": mode, "allowVolumeExpansion": True, **more}
        await self.client.create_doc({**doc, **said})
        return await self.client.get(StorageClass, name)

    async def claim(self, name: str, size: str, node: str = "", **spec: Any) -> PersistentVolumeClaim:
        """A claim as it is once scheduler and binder have spoken."""
        annotations = {PROVISIONER: DRIVER, **({SELECTED: node} if node else {})}
        said = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
        await self.client.create_doc(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": name, "namespace": "default", "annotations": annotations},
                "spec": {"storageClassName": "pools", **said, **spec},
            }
        )
        return await self.get_claim(name)

    async def pod(self, name: str, *claims: str) -> Pod:
        volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
        spec = {"containers": [{"name": "c", "image": "app:1"}], "volumes": volumes}
        metadata = {"name": name, "namespace": "default"}
        await self.client.create_doc({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        return await self.client.get(Pod, f"default/{name}")

    async def get_claim(self, name: str) -> PersistentVolumeClaim:
        return await self.client.get(PersistentVolumeClaim, f"default/{name}")

    async def select(self, name: str, node: str) -> None:
        """The scheduler chooses a node."""
        await self.client.patch(
            PersistentVolumeClaim, f"default/{name}", {"metadata": {"annotations": {SELECTED: node}}}
        )

    async def volume_of(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        try:
            return await self.client.get(PersistentVolume, f"pvc-{claim.uid}")
        except NotFound:
            return None

    async def provisioned(self, claim: PersistentVolumeClaim) -> PersistentVolume:
        found: PersistentVolume = await eventually_async(lambda: self.volume_of(claim))
        return found

    async def bind(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        """The binder finishes what a provisioner began."""
        done = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}
        await self.client.patch(PersistentVolumeClaim, claim.key, {**done, "spec": {"volumeName": volume.name}})
        size = {"storage": str(volume.spec.capacity["storage"])}
        status: Doc = {"status": {"phase": "Bound", "capacity": size}}
        await self.client.patch(PersistentVolumeClaim, claim.key, status, subresource="status")
        await self.phase(volume, "Bound")

    async def phase(self, volume: PersistentVolume, phase: str) -> None:
        await self.client.patch(PersistentVolume, volume.name, {"status": {"phase": phase}}, subresource="status")

    async def events(self, name: str, kind: str = "PersistentVolumeClaim") -> list[tuple[str, str, str]]:
        """(type, reason, note) of all events about an object, oldest first."""
        found = (await self.client.list(Event)).items
        about = [each for each in found if each.regarding.name == name and each.regarding.kind == kind]
        about.sort(key=lambda each: (each.event_time is not None and each.event_time.timestamp(), each.name))
        return [(each.type, each.reason, each.note) for each in about]

    async def told(self, name: str, reason: str, kind: str = "PersistentVolumeClaim") -> str:
        """The note of an event, once it is there."""

        async def look() -> str:
            return next((note for _, found, note in await self.events(name, kind) if found == reason), "")

        note: str = await eventually_async(look)
        return note

    @asynccontextmanager
    async def provisioner(
        self, options: Options | None = None, *, timeout_s: float = 5.0, capacity: CapacitySettings | None = None
    ) -> AsyncIterator[Provisioner]:
        """A provisioner at work; leaving the block stops it where it stands, as a kill would."""
        clock, rng, registry = SystemClock(), random.Random(7), new_registry()
        async with (
            CsiClient(self.address, clock=clock, rng=rng, timeout_s=timeout_s) as driver,
            Provisioner(
                self.client,
                driver,
                options or Options(retry_start_s=0.05, retry_max_s=0.2),
                clock=clock,
                rng=rng,
                registry=registry,
                metrics=ProvisionerMetrics(registry),
                capacity=capacity,
            ) as running,
        ):
            await running.wait_synced()
            working = asyncio.create_task(running.run())
            try:
                yield running
            finally:
                working.cancel()
                await asyncio.wait((working,))


@asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    """A fresh cluster: two nodes with 100 Gi each, and a class that waits for a consumer."""
    with short_folder() as folder:
        async with (
            serve(Settings(data_dir=folder / "data", port=0)) as server,
            staged(kubeconfig.load(server.kubeconfig)) as found,
        ):
            yield found


@asynccontextmanager
async def staged(connection: Connection) -> AsyncIterator[Stage]:
    """The same on a server that runs already."""
    driver = ScriptedDriver()
    with short_folder() as folder:
        address = f"unix://{folder}/csi.sock"
        async with served(address, driver.services()), Client.connect(connection) as client:
            found = Stage(client, driver, address)
            await found.node("node-1", "100Gi")
            await found.node("node-2", "100Gi")
            await found.storage_class()
            yield found


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder whose name is short enough for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="t"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
