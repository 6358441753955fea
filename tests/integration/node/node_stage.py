"""A stage for nodes: the embedded API server and `NodeProgram` in this process, scripted drivers on real sockets.

The test plays everybody else: it binds claims, sends pods to nodes and attaches volumes, by requests.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from support.eventually import eventually_async
from support.scripted_driver import ScriptedDriver
from tonnage.apiserver.server import ServerSettings, serve
from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.client.program import Runtime
from tonnage.clock import SystemClock
from tonnage.errors import NotFound
from tonnage.faults import FaultFile
from tonnage.gates import Gates
from tonnage.node.program import NodeProgram
from tonnage.node.settings import NodeSettings
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.document import Doc
from tonnage.objects.events_v1 import Event
from tonnage.objects.storage_v1 import CSINode, VolumeAttachment, attachment_name

DRIVER = "csi.example"


class NodeStage:
    """A cluster of two nodes or more, and a hand in everything."""

    def __init__(self, folder: Path, client: Client, gates: Gates, names: tuple[str, ...]) -> None:
        self.folder = folder
        self.client = client
        self.names = names
        self.url = ""
        self.faults = FaultFile(folder / "faults.json")
        self.settings = NodeSettings(
            names=names,
            root_dir=folder / "nodes",
            csi_addresses=(f"unix://{folder}/{{node}}/csi.sock", f"unix://{folder}/{{node}}/other.sock"),
            attach_error_grace_s=0.05,
            poll_sockets_s=0.05,
            gates=gates,
        )
        self.stack = AsyncExitStack()
        self.measures = CollectorRegistry()
        self._program: tuple[NodeProgram, asyncio.Task[None]] | None = None

    @property
    def program(self) -> NodeProgram:
        assert self._program is not None
        return self._program[0]

    async def start(self) -> NodeProgram:
        """Start the nodes, and wait until they are registered."""
        self.measures = CollectorRegistry()  # a restart counts from zero
        program = NodeProgram(
            Runtime(self.client, clock=SystemClock(), rng=random.Random(1), registry=self.measures),
            self.settings,
            faults=self.faults,
        )
        await program.__aenter__()
        self._program = program, asyncio.create_task(program.run())
        await asyncio.wait_for(program.wait_ready(), 30)
        return program

    async def stop(self) -> None:
        """Stop the nodes at once, wherever they are; mounts stay."""
        if self._program is None:
            return
        program, task = self._program
        self._program = None
        task.cancel()
        await asyncio.wait((task,))
        await program.__aexit__(None, None, None)

    async def driver(
        self, node: str = "node-1", *, name: str = DRIVER, socket: str = "csi", **options: Any
    ) -> ScriptedDriver:
        """A driver of this node: the one that most stories are about, or one beside it at the socket `other`."""
        options = {"node_id": node, **options}
        driver = ScriptedDriver(f"unix://{self.folder}/{node}/{socket}.sock", name=name, **options)
        return await self.stack.enter_async_context(driver.served())

    async def csi_driver(self, *, period_s: int | None = None, **spec: Any) -> None:
        if period_s is not None:
            spec["nodeAllocatableUpdatePeriodSeconds"] = period_s
        await self.client.create_doc(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSIDriver",
                "metadata": {"name": DRIVER},
                "spec": {"attachRequired": True, **spec},
            }
        )

    async def volume(self, name: str, **spec: Any) -> None:
        """A claim that is bound to a volume of the same name."""
        claim = await self.client.create_doc(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": name,
                    "namespace": "default",
                    "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
                },
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "",
                    "volumeName": name,
                    "volumeMode": spec.get("volumeMode", "Filesystem"),
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            }
        )
        owner = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": name}
        await self.client.create_doc(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": name},
                "spec": {
                    "capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "claimRef": {**owner, "uid": claim["metadata"]["uid"]},
                    "csi": {
                        "driver": DRIVER,
                        "volumeHandle": f"handle-{name}",
                        "fsType": "ext4",
                        "volumeAttributes": {"pool": "p1"},
                    },
                    **spec,
                },
            }
        )
        bound = {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}}
        await self.client.patch(PersistentVolumeClaim, f"default/{name}", bound, subresource="status")

    async def pod(self, name: str, *claims: str, node: str = "node-1", **spec: Any) -> Pod:
        """A pod that a scheduler has sent to a node."""
        volumes = [{"name": f"v-{each}", "persistentVolumeClaim": {"claimName": each}} for each in claims]
        made = await self.client.create_doc(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"containers": [{"name": "main", "image": "app:1"}], "volumes": volumes, **spec},
            }
        )
        await self.client.bind(f"default/{name}", node)
        return await self.client.get(Pod, f"default/{made['metadata']['name']}")

    async def attach(self, volume: str, node: str = "node-1", *, status: Doc | None = None) -> str:
        """What the attach/detach controller and the attacher do; the attachment's name."""
        name = attachment_name(f"handle-{volume}", DRIVER, node)
        try:
            await self.client.get(VolumeAttachment, name)
        except NotFound:
            await self.client.create_doc(
                {
                    "apiVersion": "storage.k8s.io/v1",
                    "kind": "VolumeAttachment",
                    "metadata": {"name": name},
                    "spec": {"attacher": DRIVER, "nodeName": node, "source": {"persistentVolumeName": volume}},
                }
            )
        said = status or {"attached": True, "attachmentMetadata": {"device": "/dev/sda"}, "attachError": None}
        await self.client.patch(VolumeAttachment, name, {"status": said}, subresource="status")
        return name

    async def phase(self, pod: str) -> str:
        try:
            return (await self.client.get(Pod, f"default/{pod}")).status.phase
        except NotFound:
            return "gone"

    async def becomes(self, pod: str, phase: str) -> Pod | None:
        await eventually_async(lambda: self._has_phase(pod, phase), f"{pod} is {phase}")
        return None if phase == "gone" else await self.client.get(Pod, f"default/{pod}")

    async def _has_phase(self, pod: str, phase: str) -> bool:
        return await self.phase(pod) == phase

    async def count(self, node: str = "node-1", *, name: str = DRIVER) -> int | None:
        """The limit in the CSINode; None without one, -1 while the driver is not there."""
        try:
            found = (await self.client.get(CSINode, node)).driver(name)
        except NotFound:
            return -1
        return -1 if found is None else found.allocatable.count

    async def in_use(self, node: str = "node-1") -> list[str]:
        return list((await self.client.get(Node, node)).status.volumes_in_use)

    async def events(self, pod: str) -> list[tuple[str, str, str]]:
        found = await self.client.list(Event, namespace="default")
        return [(each.type, each.reason, each.note) for each in found.items if each.regarding.name == pod]

    async def volume_of(self, name: str) -> PersistentVolume:
        return await self.client.get(PersistentVolume, name)


@asynccontextmanager
async def node_stage(
    *names: str, gates: Gates | None = None, server_gates: Gates | None = None
) -> AsyncIterator[NodeStage]:
    """A server and nodes that are not started yet; a unix socket needs a short path, so the folder is /tmp/t…

    `server_gates` are the server's where they are not those of the nodes.
    """
    folder = Path(tempfile.mkdtemp(prefix="t"))
    try:
        async with serve(
            ServerSettings(data_dir=folder / "data", port=0, gates=server_gates or gates or Gates())
        ) as server:
            client = Client.connect(kubeconfig.load(server.kubeconfig), user_agent="kubelet")
            async with client:
                stage = NodeStage(folder, client, gates or Gates(), names or ("node-1",))
                stage.url = server.url
                try:
                    yield stage
                finally:
                    await stage.stop()
                    await stage.stack.aclose()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
