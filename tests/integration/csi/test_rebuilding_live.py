"""KEP-5925's contract of drivers, live: the embedded API server, the driver on its sockets, and its watch of nodes."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from support.eventually import eventually_async
from support.virtual_clock import VirtualClock
from tonnage.apiserver.server import ServerSettings
from tonnage.apiserver.server import serve as serve_api
from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.client.program import Runtime
from tonnage.clock import Clock, SystemClock
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.client import CsiClient
from tonnage.csi.errors import Code, CsiError
from tonnage.driver.driver import CsiDriverSettings, Driver
from tonnage.driver.rebuilding import RebuildController, confined_to
from tonnage.driver.serving import serve
from tonnage.gates import Gates
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.document import Doc
from tonnage.objects.events_v1 import Event

GI = 1 << 30
KEY = "topology.tonnage.dev/node"
MOUNT = csi.VolumeCapability(
    mount=csi.VolumeCapability.MountVolume(),
    access_mode=csi.VolumeCapability.AccessMode(mode=csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER),
)


class RebuildingStage:
    """An API server with two nodes, and a driver with a pool of 20Gi on each; the test plays everybody else."""

    def __init__(self, client: Client, folder: Path, requests: list[str]) -> None:
        self.client = client
        self.folder = folder
        self.requests = requests
        """What was asked of the server: verb and resource."""

    @asynccontextmanager
    async def driver(self, clock: Clock | None = None) -> AsyncIterator[CsiClient]:
        """The driver as `tonnage csi-driver --rebuild` runs it, on the state that is there; its cluster socket.

        `clock` is what the watch goes by.
        """
        watch_clock, clock, rng = clock or SystemClock(), SystemClock(), random.Random(1)
        settings = CsiDriverSettings(pools={"node-1": (20 * GI,), "node-2": (20 * GI,)}, rebuild=True)
        driver = Driver(settings, self.folder / "state", clock=clock, rng=rng)
        async with AsyncExitStack() as stack:
            stack.callback(driver.close)
            runtime = Runtime(self.client, clock=watch_clock, rng=rng)
            rebuilding = await stack.enter_async_context(RebuildController(runtime, driver))
            template = f"unix://{self.folder}/{{node}}.sock"
            address, *_ = await stack.enter_async_context(
                serve(driver, endpoint=f"unix://{self.folder}/csi.sock", node_endpoint_template=template)
            )
            work = asyncio.create_task(rebuilding.run())
            stack.callback(work.cancel)
            yield await stack.enter_async_context(CsiClient(address, clock=clock, rng=rng))

    def on(self, node: str) -> CsiClient:
        """The driver as the kubelet of that node reaches it."""
        return CsiClient(f"unix://{self.folder}/{node}.sock", clock=SystemClock(), rng=random.Random(2))

    async def node(self, name: str) -> None:
        labels = {KEY: name, "kubernetes.io/hostname": name}
        await self.client.create_doc({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})

    async def cordon(self, name: str, unschedulable: bool = True) -> None:
        await self.client.patch(Node, name, {"spec": {"unschedulable": unschedulable}})

    async def provision(self, driver: CsiClient, name: str, node: str = "node-1") -> str:
        """A volume on a node with a word in it, and the objects that provisioner and binder make of it; its id."""
        topology = csi.Topology(segments={KEY: node})
        made = await driver.create_volume(
            csi.CreateVolumeRequest(
                name=name,
                capacity_range=csi.CapacityRange(required_bytes=6 * GI),
                volume_capabilities=[MOUNT],
                accessibility_requirements=csi.TopologyRequirement(requisite=[topology]),
            )
        )
        volume_id = made.volume.volume_id
        claim = await self.client.create_doc(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": name,
                    "namespace": "default",
                    "annotations": {
                        "volume.kubernetes.io/selected-node": node,
                        "pv.kubernetes.io/bind-completed": "yes",
                    },
                },
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "pools",
                    "resources": {"requests": {"storage": "6Gi"}},
                    "volumeName": f"pv-{name}",
                },
            }
        )
        owner = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": name, "uid": claim["metadata"]["uid"]}
        await self.client.create_doc(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": f"pv-{name}"},
                "spec": {
                    "capacity": {"storage": "6Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "pools",
                    "claimRef": owner,
                    "csi": {"driver": "pools.tonnage.dev", "volumeHandle": volume_id},
                    "nodeAffinity": confined_to(node),
                },
            }
        )
        return volume_id

    async def select(self, name: str, node: str) -> None:
        """What the scheduler writes before it binds a pod that takes this claim's volume along."""
        annotations = {"volume.kubernetes.io/selected-node": node}
        await self.client.patch(PersistentVolumeClaim, f"default/{name}", {"metadata": {"annotations": annotations}})

    async def affinity(self, name: str) -> Doc | None:
        found = await self.client.get_doc(PersistentVolume, f"pv-{name}")
        affinity: Doc | None = found["spec"].get("nodeAffinity")
        return affinity

    async def home(self, name: str) -> str | None:
        """Where the driver says that a volume without affinity is."""
        found = await self.client.get_doc(PersistentVolume, f"pv-{name}")
        home: str | None = found["metadata"].get("annotations", {}).get("tonnage.dev/volume-home")
        return home

    async def until_affinity(self, name: str, wanted: Doc | None) -> None:
        await eventually_async(lambda: self.affinity(name), holds=lambda found: found == wanted)

    async def events(self, about: str) -> list[tuple[str, str]]:
        """(reason, note) of what was told of an object, in order."""
        found = await self.client.list(Event, namespace="default")
        told = [each for each in found.items if each.regarding.name == about]
        told.sort(key=lambda each: each.metadata.name)  # names end with the time they were made at
        return [(each.reason, each.note) for each in told]

    async def until_events(self, about: str, *reasons: str) -> list[tuple[str, str]]:
        found = await eventually_async(lambda: self.events(about), holds=lambda told: len(told) >= len(reasons))
        assert [reason for reason, _ in found] == list(reasons)
        return found


async def attach(driver: CsiClient, volume_id: str, node: str) -> None:
    asked = csi.ControllerPublishVolumeRequest(volume_id=volume_id, node_id=node, volume_capability=MOUNT)
    await driver.controller_publish(asked)


async def detach(driver: CsiClient, volume_id: str, node: str) -> None:
    await driver.controller_unpublish(csi.ControllerUnpublishVolumeRequest(volume_id=volume_id, node_id=node))


@asynccontextmanager
async def a_stage(gates: str = "") -> AsyncIterator[RebuildingStage]:
    with tempfile.TemporaryDirectory(prefix="t") as name:
        folder, requests = Path(name), list[str]()

        def note(verb: str, resource: str, *_: object) -> None:
            requests.append(f"{verb} {resource}")

        async with (
            serve_api(ServerSettings(data_dir=folder / "api", port=0, gates=Gates.parse(gates))) as server,
            Client.connect(kubeconfig.load(server.kubeconfig), on_request=note) as client,
        ):
            stage = RebuildingStage(client, folder, requests)
            for node in ("node-1", "node-2"):
                await stage.node(node)
            yield stage


@pytest.fixture
async def stage() -> AsyncIterator[RebuildingStage]:
    async with a_stage() as made:
        yield made


async def staged(stage: RebuildingStage, volume_id: str, node: str) -> Path:
    """The volume as the kubelet of that node stages it."""
    path = stage.folder / f"staging-{node}"
    path.mkdir(exist_ok=True)
    async with stage.on(node) as driver:
        await driver.stage(
            csi.NodeStageVolumeRequest(volume_id=volume_id, staging_target_path=str(path), volume_capability=MOUNT)
        )
    return path / "volume"


async def unstaged(stage: RebuildingStage, volume_id: str, node: str) -> None:
    async with stage.on(node) as driver:
        asked = csi.NodeUnstageVolumeRequest(
            volume_id=volume_id, staging_target_path=str(stage.folder / f"staging-{node}")
        )
        await driver.unstage(asked)


async def test_a_drained_node_lets_its_volume_go_and_the_next_node_has_all_of_it(stage: RebuildingStage) -> None:
    async with stage.driver() as driver:
        volume_id = await stage.provision(driver, "data")
        await attach(driver, volume_id, "node-1")
        seen = await staged(stage, volume_id, "node-1")
        (seen / "word").write_text("tonnage")

        await stage.cordon("node-1")
        await stage.until_affinity("data", None)
        assert await stage.home("data") == "node-1"
        # The pod still runs on node-1, and keeps its volume.
        assert (seen / "word").read_text() == "tonnage"
        with pytest.raises(CsiError) as raised:
            await attach(driver, volume_id, "node-2")
        assert raised.value.code is Code.FAILED_PRECONDITION
        assert raised.value.told == f"volume {volume_id} is published on node-1 already"

        await unstaged(stage, volume_id, "node-1")  # the pod is evicted,
        await detach(driver, volume_id, "node-1")
        await stage.select("data", "node-2")  # and its successor is sent to node-2
        await attach(driver, volume_id, "node-2")
        assert ((await staged(stage, volume_id, "node-2")) / "word").read_text() == "tonnage"
        await stage.until_affinity("data", confined_to("node-2"))
        told = await stage.until_events("pv-data", "AffinityUnset", "VolumeRebuilt", "AffinitySet")
        assert await stage.home("data") is None
        assert [note for _, note in told] == [
            'Node "node-1" is unschedulable; the volume may be rebuilt elsewhere',
            'The volume was rebuilt on node "node-2"; it was on node "node-1"',
            'The volume is on node "node-2", and pods that use it go there',
        ]
        assert await stage.until_events("data", "AffinityUnset", "VolumeRebuilt", "AffinitySet") == told


async def test_without_attaching_staging_elsewhere_rebuilds(stage: RebuildingStage) -> None:
    async with stage.driver() as driver:
        volume_id = await stage.provision(driver, "data")
        seen = await staged(stage, volume_id, "node-1")
        (seen / "word").write_text("tonnage")
        await unstaged(stage, volume_id, "node-1")
        await stage.cordon("node-1")
        await stage.until_affinity("data", None)
        await stage.select("data", "node-2")
        assert ((await staged(stage, volume_id, "node-2")) / "word").read_text() == "tonnage"
        await stage.until_affinity("data", confined_to("node-2"))


async def test_a_node_that_takes_pods_again_has_its_volumes_back(stage: RebuildingStage) -> None:
    async with stage.driver() as driver:
        await stage.provision(driver, "data")
        await stage.provision(driver, "other", node="node-2")
        await stage.cordon("node-1")
        await stage.until_affinity("data", None)
        assert await stage.affinity("other") == confined_to("node-2")
        await stage.cordon("node-1", False)
        await stage.until_affinity("data", confined_to("node-1"))
        told = await stage.until_events("pv-data", "AffinityUnset", "AffinitySet")
        assert told[1][1] == 'The volume is on node "node-1", and pods that use it go there'


async def test_a_node_that_is_deleted_lets_go_of_a_volume_that_is_still_attached_there(stage: RebuildingStage) -> None:
    async with stage.driver() as driver:
        volume_id = await stage.provision(driver, "data")
        await attach(driver, volume_id, "node-1")
        await stage.client.delete(Node, "node-1")
        await stage.until_affinity("data", None)
        await stage.select("data", "node-2")
        await attach(driver, volume_id, "node-2")
        await stage.until_affinity("data", confined_to("node-2"))
        told = await stage.until_events("pv-data", "AffinityUnset", "VolumeRebuilt", "AffinitySet")
        assert told[0][1] == 'Node "node-1" is gone; the volume may be rebuilt elsewhere'


async def place(stage: RebuildingStage, pod: str, *claims: str, node: str = "") -> None:
    """What the scheduler does with a pod that takes its claims' volumes along: it selects the node, then binds.

    Without a node, the pod is made and waits.
    """
    for claim in claims if node else ():
        await stage.select(claim, node)
    await stage.client.create_doc(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": pod, "namespace": "default"},
            "spec": {
                "nodeName": node,
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "db", "image": "db:1"}],
                "volumes": [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims],
            },
        }
    )


async def test_a_pod_that_was_sent_elsewhere_before_the_uncordon_gets_its_volume_there(stage: RebuildingStage) -> None:
    async with stage.driver(VirtualClock()) as driver:  # no binding under way is waited for: time stands still
        volume_id = await stage.provision(driver, "data")
        await stage.cordon("node-1")
        await stage.until_affinity("data", None)
        await place(stage, "db-0", "data", node="node-2")
        await stage.cordon("node-1", False)
        await attach(driver, volume_id, "node-2")
        await stage.until_affinity("data", confined_to("node-2"))
        # It was never confined to node-1 again in between.
        await stage.until_events("pv-data", "AffinityUnset", "VolumeRebuilt", "AffinitySet")


async def test_a_volume_waits_for_the_pod_that_was_sent_elsewhere_and_goes_home_when_that_is_gone(
    stage: RebuildingStage,
) -> None:
    clock = VirtualClock()

    async def after_two_more_seconds() -> Doc | None:
        clock.advance(2.0)
        return await stage.affinity("data")

    async with stage.driver(clock) as driver:
        await stage.provision(driver, "data")
        await stage.provision(driver, "idle")
        await stage.cordon("node-1")
        await stage.until_affinity("data", None)
        await stage.until_affinity("idle", None)
        await place(stage, "db-0", "data", node="node-2")
        await stage.cordon("node-1", False)
        await stage.until_affinity("idle", confined_to("node-1"))
        for _ in range(5):
            assert await after_two_more_seconds() is None
        await stage.client.delete(Pod, "default/db-0")
        await eventually_async(after_two_more_seconds, holds=lambda found: found == confined_to("node-1"))
        await stage.until_events("pv-data", "AffinityUnset", "AffinitySet")


async def test_a_binding_that_may_still_be_under_way_is_waited_for_before_a_volume_goes_home(
    stage: RebuildingStage,
) -> None:
    clock = VirtualClock()
    async with stage.driver(clock) as driver:
        await stage.provision(driver, "chosen")
        await stage.provision(driver, "idle")
        await stage.cordon("node-1")
        await stage.until_affinity("chosen", None)
        await stage.until_affinity("idle", None)
        await stage.select("chosen", "node-2")  # the scheduler is about to bind a pod there
        await stage.cordon("node-1", False)
        await stage.until_affinity("idle", confined_to("node-1"))
        assert await stage.affinity("chosen") is None

        async def after_two_more_seconds() -> Doc | None:
            clock.advance(2.0)
            return await stage.affinity("chosen")

        await eventually_async(
            after_two_more_seconds, holds=lambda found: found == confined_to("node-1")
        )  # no pod came of it


async def test_a_volume_stays_with_the_pod_at_home_when_another_was_sent_elsewhere(stage: RebuildingStage) -> None:
    """The Node went and came back with its pod; meanwhile a pod that shares the claim was sent to another."""
    clock = VirtualClock()

    async def after_two_more_seconds() -> Doc | None:
        clock.advance(2.0)
        return await stage.affinity("data")

    async with stage.driver(clock) as driver:
        volume_id = await stage.provision(driver, "data")
        await place(stage, "db-0", "data", node="node-1")
        await attach(driver, volume_id, "node-1")
        await stage.client.delete(Node, "node-1")
        await stage.until_affinity("data", None)
        await place(stage, "db-1", "data", node="node-2")
        await stage.node("node-1")
        await eventually_async(after_two_more_seconds, holds=lambda found: found == confined_to("node-1"))
        await stage.until_events("pv-data", "AffinityUnset", "AffinitySet")


async def test_a_volume_goes_home_when_there_is_no_room_where_its_pod_was_sent(stage: RebuildingStage) -> None:
    """The pod's kubelet turns it away then; the next pod goes home, or is placed by capacity while home is cordoned."""
    clock = VirtualClock()

    async def after_two_more_seconds() -> Doc | None:
        clock.advance(2.0)
        return await stage.affinity("data")

    async with stage.driver(clock) as driver:
        volume_id = await stage.provision(driver, "data")
        await stage.provision(driver, "a", "node-2")
        await stage.provision(driver, "b", "node-2")
        await stage.provision(driver, "c", "node-2")  # 18 of 20 Gi are taken
        await stage.cordon("node-1")
        await stage.until_affinity("data", None)
        await place(stage, "db-0", "data", node="node-2")

        async def refused() -> Doc | None:
            """The attacher asks again and again, also before the driver's watch shows the pod."""
            with pytest.raises(CsiError) as error:
                await attach(driver, volume_id, "node-2")
            assert error.value.code is Code.FAILED_PRECONDITION
            return await after_two_more_seconds()

        await eventually_async(refused, holds=lambda found: found == confined_to("node-1"))
        await stage.client.delete(Pod, "default/db-0")  # as after the kubelet failed it
        await stage.until_affinity("data", None)
        await stage.cordon("node-1", False)
        await eventually_async(after_two_more_seconds, holds=lambda found: found == confined_to("node-1"))


async def test_a_pod_with_volumes_on_two_nodes_may_take_both_to_one(stage: RebuildingStage) -> None:
    """One volume was rebuilt on node-2, the other was not: two volumes confined to two nodes would leave it no node."""
    async with stage.driver() as driver:
        data = await stage.provision(driver, "data")
        await stage.provision(driver, "log", "node-2")
        await place(stage, "db-0", "data", "log")
        await stage.until_affinity("data", None)
        await stage.until_affinity("log", None)
        assert (await stage.home("data"), await stage.home("log")) == ("node-1", "node-2")
        told = await stage.until_events("pv-data", "AffinityUnset")
        why = 'Pod "db-0" also uses a volume on node "node-2"; the volume may be rebuilt elsewhere'
        assert [note for _, note in told] == [why]
        await attach(driver, data, "node-2")  # the scheduler placed it there
        await stage.until_affinity("data", confined_to("node-2"))
        await stage.until_affinity("log", confined_to("node-2"))


async def test_what_a_driver_missed_while_it_was_dead_is_put_right_when_it_starts(stage: RebuildingStage) -> None:
    async with stage.driver() as driver:
        first = await stage.provision(driver, "first")
        await stage.provision(driver, "second")
    await stage.cordon("node-1")
    async with stage.driver() as driver:
        await stage.until_affinity("first", None)
        await stage.until_affinity("second", None)
        await stage.select("first", "node-2")
        await attach(driver, first, "node-2")
    # The driver may have died before it wrote the affinity, and node-1 takes pods again.
    await stage.client.patch(PersistentVolume, "pv-first", {"spec": {"nodeAffinity": None}})
    await stage.cordon("node-1", False)
    async with stage.driver():
        await stage.until_affinity("first", confined_to("node-2"))
        await stage.until_affinity("second", confined_to("node-1"))


async def test_a_volume_of_another_driver_is_left_alone_whatever_its_handle(stage: RebuildingStage) -> None:
    async with stage.driver() as driver:
        volume_id = await stage.provision(driver, "data")
        foreign: Doc = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "foreign"},
            "spec": {
                "capacity": {"storage": "6Gi"},
                "accessModes": ["ReadWriteOnce"],
                "csi": {"driver": "csi.example", "volumeHandle": volume_id},
                "nodeAffinity": confined_to("node-1"),
            },
        }
        await stage.client.create_doc(foreign)
        await stage.cordon("node-1")
        await stage.until_affinity("data", None)
        found = await stage.client.get_doc(PersistentVolume, "foreign")
        assert found["spec"]["nodeAffinity"] == confined_to("node-1")


async def test_a_server_that_keeps_affinity_fixed_is_told_once_and_left_alone() -> None:
    async with a_stage("MutablePVNodeAffinity=false") as stage, stage.driver() as driver:
        await stage.provision(driver, "data")
        await stage.cordon("node-1")
        told = await stage.until_events("pv-data", "AffinityImmutable")
        assert told[0][1] == (
            "The API server does not let node affinity be changed; its feature gate MutablePVNodeAffinity is needed "
            "for that"
        )
        # The volume changes, is looked at again, and nothing more is said.
        await stage.client.patch(PersistentVolume, "pv-data", {"metadata": {"labels": {"seen": "again"}}})
        await stage.provision(driver, "late", node="node-2")
        await stage.cordon("node-2")
        await stage.until_events("pv-late", "AffinityImmutable")
        assert await stage.events("pv-data") == told
        assert await stage.affinity("data") == confined_to("node-1")
