"""A real API server, the storage controllers on it, and a scripted CSI driver behind a real socket."""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from support.scripted_driver import ScriptedDriver
from tonnage.apiserver.server import ServerSettings, serve
from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.client.informers import Informers
from tonnage.client.recorder import Recorder
from tonnage.clock import SystemClock
from tonnage.controllers.controller_context import ControllerContext, ControllerManagerConfiguration
from tonnage.controllers.volumes.attacher import Attacher
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.client import CsiClient
from tonnage.errors import NotFound
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.document import Doc
from tonnage.objects.events_v1 import Event
from tonnage.objects.storage_v1 import VolumeAttachment

DRIVER = "pools.tonnage.dev"
_Rpc = csi.ControllerServiceCapability.RPC


class Controller(Protocol):
    async def run(self) -> None: ...


class StorageHarness:
    """What a test sees: objects put on a server, and whatever controllers it runs."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.clock = SystemClock()
        self.rng = random.Random(1)
        self.configuration = ControllerManagerConfiguration()

    @property
    def address(self) -> str:
        return f"unix://{self.folder}/csi.sock"

    # -- programs -----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self, *makers: Callable[[ControllerContext], Controller]) -> AsyncIterator[list[Any]]:
        """Controllers at work, as the program runs them: informers and recorder are theirs together."""
        informers, recorder = Informers(self.client), Recorder(self.client, "storage-controllers", "test")
        context = ControllerContext(
            self.client, informers, recorder, self.clock, self.rng, configuration=self.configuration
        )
        made = [maker(context) for maker in makers]
        async with recorder, informers:
            await informers.wait_synced(timeout_s=20)
            tasks = [asyncio.create_task(each.run()) for each in made]
            try:
                yield made
            finally:
                for task in tasks:
                    task.cancel()
                for task in tasks:
                    with suppress(asyncio.CancelledError):
                        await task

    @asynccontextmanager
    async def driver(self, *rpcs: int) -> AsyncIterator[ScriptedDriver]:
        rpcs = rpcs or (_Rpc.PUBLISH_UNPUBLISH_VOLUME, _Rpc.SINGLE_NODE_MULTI_WRITER)
        async with ScriptedDriver(self.address, name=DRIVER, controller_rpcs=rpcs).served() as scripted:
            yield scripted

    @asynccontextmanager
    async def attaching(
        self, *makers: Callable[[ControllerContext], Controller], **options: Any
    ) -> AsyncIterator[None]:
        """An attacher beside other controllers."""
        async with CsiClient(self.address, clock=self.clock, rng=self.rng, timeout_s=2.0) as driver:

            def attacher(context: ControllerContext) -> Attacher:
                return Attacher(context, driver=driver, **{"retry_first_s": 0.05, **options})

            async with self.running(*makers, attacher):
                yield

    # -- objects ------------------------------------------------------------------------------------------------------

    async def make(self, kind: str, name: str, *, namespace: str = "", version: str = "v1", **parts: Any) -> Doc:
        metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **parts.pop("metadata", {})}
        return await self.client.create_doc({"apiVersion": version, "kind": kind, "metadata": metadata, **parts})

    async def storage_class(self, name: str, *, delayed: bool = False, default: bool = False) -> None:
        said = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
        await self.make(
            "StorageClass",
            name,
            version="storage.k8s.io/v1",
            metadata={"annotations": said},
            provisioner=DRIVER,
            volumeBindingMode="WaitForFirstConsumer" if delayed else "Immediate",
        )

    async def claim(self, name: str, size: str = "1Gi", class_name: str | None = "", **spec: Any) -> str:
        """A claim; its uid."""
        named = {} if class_name is None else {"storageClassName": class_name}
        asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **named, **spec}
        made = await self.make("PersistentVolumeClaim", name, namespace="default", spec=asked)
        return str(made["metadata"]["uid"])

    async def volume(self, name: str, size: str = "1Gi", class_name: str = "", **spec: Any) -> None:
        said = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {"driver": DRIVER, "volumeHandle": f"h-{name}"},
            **({"storageClassName": class_name} if class_name else {}),
            **spec,
        }
        await self.make("PersistentVolume", name, spec=said)

    async def pod(self, name: str, *claims: str, on: str = "", **spec: Any) -> None:
        volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
        said = {"containers": [{"name": "c", "image": "app:1"}], "volumes": volumes, **spec}
        await self.make("Pod", name, namespace="default", spec={**said, **({"nodeName": on} if on else {})})

    async def node(self, name: str, *, has_driver: bool = True) -> None:
        await self.make("Node", name)
        drivers = [{"name": DRIVER, "nodeID": f"id-{name}"}] if has_driver else []
        await self.make("CSINode", name, version="storage.k8s.io/v1", spec={"drivers": drivers})
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        await self.client.patch(Node, name, {"status": ready}, subresource="status")

    async def in_use(self, node: str, *handles: str) -> None:
        """What the node's kubelet says that it uses."""
        names = [f"kubernetes.io/csi/{DRIVER}^{handle}" for handle in handles]
        await self.client.patch(Node, node, {"status": {"volumesInUse": names}}, subresource="status")

    async def bound(self, name: str, claim: str, **spec: Any) -> None:
        """A volume and a claim that are bound to each other, without a binder."""
        uid = await self.claim(claim, volumeName=name)
        owner = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": claim, "uid": uid}
        await self.volume(name, claimRef=owner, **spec)
        done = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}
        await self.client.patch(PersistentVolumeClaim, f"default/{claim}", done)
        status = {"status": {"phase": "Bound"}}
        await self.client.patch(PersistentVolumeClaim, f"default/{claim}", status, subresource="status")
        await self.client.patch(PersistentVolume, name, status, subresource="status")

    # -- what came of it ----------------------------------------------------------------------------------------------

    async def get_claim(self, name: str) -> PersistentVolumeClaim:
        return await self.client.get(PersistentVolumeClaim, f"default/{name}")

    async def get_volume(self, name: str) -> PersistentVolume:
        return await self.client.get(PersistentVolume, name)

    async def attachments(self) -> dict[str, VolumeAttachment]:
        """All attachments, as "volume on node"."""
        found = (await self.client.list(VolumeAttachment)).items
        return {f"{each.spec.source.persistent_volume_name} on {each.spec.node_name}": each for each in found}

    async def remove_pod(self, name: str) -> None:
        await self.client.delete(Pod, f"default/{name}", grace_s=0)

    async def told(self, name: str) -> list[tuple[str, str, str]]:
        """(type, reason, note) of the events about an object."""
        found = (await self.client.list(Event)).items
        return [(each.type, each.reason, each.note) for each in found if each.regarding.name == name]

    async def is_gone(self, cls: type[Any], key: str) -> bool:
        try:
            await self.client.get(cls, key)
        except NotFound:
            return True
        return False


@asynccontextmanager
async def storage_harness(data_dir: Path) -> AsyncIterator[StorageHarness]:
    folder = Path(tempfile.mkdtemp(prefix="t"))  # a socket's path is short, a test's folder is not
    try:
        async with (
            serve(ServerSettings(data_dir=data_dir, port=0)) as server,
            Client.connect(kubeconfig.load(server.kubeconfig)) as client,
        ):
            yield StorageHarness(client, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
