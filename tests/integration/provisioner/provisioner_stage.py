"""A provisioner on a stage: a real API server in this process, a scripted driver on a real socket, and words by which a
test plays the scheduler and the binder of volumes.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from support.api_servers import kube_apiserver
from support.eventually import eventually_async
from support.scripted_driver import ScriptedDriver
from tonnage.apiserver.server import ServerSettings, serve
from tonnage.client.config import kubeconfig
from tonnage.client.config.connection import KubeconfigCluster, KubeconfigUser, ServerConnection
from tonnage.client.http import Client
from tonnage.client.program import Runtime
from tonnage.clock import SystemClock
from tonnage.csi.client import CsiClient
from tonnage.errors import NotFound
from tonnage.metrics import new_registry
from tonnage.objects.core_v1 import PV_PROTECTION, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.document import Doc
from tonnage.objects.events_v1 import Event
from tonnage.objects.storage_v1 import StorageClass
from tonnage.provisioner.capacity.controller import CapacitySettings
from tonnage.provisioner.context import ProvisionerOptions
from tonnage.provisioner.metrics import ProvisionerMetrics
from tonnage.provisioner.program import Provisioner
from tonnage.quantity import Quantity

DRIVER = "pools.example"
KEY = "topology.example/node"
SELECTED = "volume.kubernetes.io/selected-node"
PROVISIONER = "volume.kubernetes.io/storage-provisioner"
Code = grpc.StatusCode
ASSETS = Path(os.environ.get("KUBEBUILDER_ASSETS", "/nowhere"))
ON_KUBE_APISERVER = [
    pytest.mark.envtest,
    pytest.mark.skipif(
        not (ASSETS / "kube-apiserver").exists(), reason="KUBEBUILDER_ASSETS names no folder with kube-apiserver"
    ),
]
servers = pytest.mark.parametrize("name", ["embedded", pytest.param("kube-apiserver", marks=ON_KUBE_APISERVER)])
"""For a test that runs on a `server` of each name."""


class ProvisionerStage:
    """A cluster with nodes and a class, and what tests ask about it."""

    def __init__(self, client: Client, driver: ScriptedDriver, address: str) -> None:
        self.client = client
        self.driver = driver
        self.address = address

    async def node(self, name: str, free: str) -> None:
        self.driver.free_bytes[name] = Quantity.parse(free).value()
        labels = {KEY: name, "kubernetes.io/hostname": name}
        await self.client.create_doc({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
        entry = {"name": DRIVER, "nodeID": name, **({"topologyKeys": [KEY]} if self.driver.has_topology else {})}
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
        """The binder writes a phase; the protection of what is not bound any more is taken off, as it is elsewhere."""
        if phase != "Bound":
            patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": [PV_PROTECTION]}}
            await self.client.patch(PersistentVolume, volume.name, patch, patch_type="strategic")
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
        self,
        options: ProvisionerOptions | None = None,
        *,
        timeout_s: float = 5.0,
        capacity: CapacitySettings | None = None,
    ) -> AsyncIterator[Provisioner]:
        """A provisioner at work; leaving the block stops it where it stands, as a kill would."""
        clock, rng, registry = SystemClock(), random.Random(7), new_registry()
        async with (
            CsiClient(self.address, clock=clock, rng=rng, timeout_s=timeout_s) as driver,
            Provisioner(
                Runtime(self.client, clock=clock, rng=rng, registry=registry),
                driver,
                options or ProvisionerOptions(retry_start_s=0.05, retry_max_s=0.2),
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
async def stage(*, has_topology: bool = True) -> AsyncIterator[ProvisionerStage]:
    """A fresh cluster: two nodes with 100 Gi each, and a class that waits for a consumer."""
    with short_folder() as folder:
        async with (
            serve(ServerSettings(data_dir=folder / "data", port=0)) as server,
            staged(kubeconfig.load(server.kubeconfig), has_topology=has_topology) as found,
        ):
            yield found


@asynccontextmanager
async def staged(connection: ServerConnection, *, has_topology: bool = True) -> AsyncIterator[ProvisionerStage]:
    """The same on a server that runs already. A driver without topology has 100 Gi everywhere."""
    with short_folder() as folder:
        address = f"unix://{folder}/csi.sock"
        driver = ScriptedDriver(
            address, name=DRIVER, topology_key=KEY, stages=False, node_rpcs=(), has_topology=has_topology
        )
        if not has_topology:
            driver.free_bytes[""] = Quantity.parse("100Gi").value()
        async with driver.served(), Client.connect(connection) as client:
            found = ProvisionerStage(client, driver, address)
            await found.node("node-1", "100Gi")
            await found.node("node-2", "100Gi")
            await found.storage_class()
            yield found


@asynccontextmanager
async def server(name: str, folder: Path, *, has_topology: bool = True) -> AsyncIterator[ProvisionerStage]:
    """The stage on our API server, or on Kubernetes' own."""
    if name == "embedded":
        async with stage(has_topology=has_topology) as on:
            yield on
        return
    with kube_apiserver(folder, ASSETS) as api:
        connection = ServerConnection(
            KubeconfigCluster(api.url, skip_tls_verify=True), KubeconfigUser(token="contract-token"), "default"
        )
        async with staged(connection, has_topology=has_topology) as on:
            yield on


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder whose name is short enough for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="t"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
