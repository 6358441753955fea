"""The controller manager on a real API server: owners and dependents, namespaces, lost nodes, one story each."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.eventually import eventually_async
from tonnage.apiserver import server
from tonnage.behaviour.nodes.node_lifecycle_plan import EvictionRates
from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.client.program import Runtime
from tonnage.clock import SystemClock, rfc3339, rfc3339_micro
from tonnage.controllers import program
from tonnage.controllers.controller_context import ControllerManagerConfiguration
from tonnage.controllers.garbage_collector import GarbageCollector
from tonnage.controllers.nodes.node_lifecycle import LEASES
from tonnage.controllers.program import ControllerManager
from tonnage.errors import NotFound
from tonnage.objects.core_v1 import ConfigMap, Namespace, Node, Pod
from tonnage.objects.document import Doc
from tonnage.objects.events_v1 import Event
from tonnage.objects.meta import Object, ObjectMeta
from tonnage.objects.small_groups import Lease, LeaseSpec

CONTROLLERS = (
    "garbage-collector-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "taint-eviction-controller",
)
QUICK = ControllerManagerConfiguration(
    node_monitor_period_s=0.05,
    node_monitor_grace_period_s=1.0,
    node_startup_grace_period_s=30.0,
    rates=EvictionRates(node_eviction_rate=100.0),
)


class Harness:
    """A server, a client, and a clock that is everybody's."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.clock = SystemClock()

    @asynccontextmanager
    async def controllers(self, *names: str) -> AsyncIterator[ControllerManager]:
        """The manager at work; leaving stops it."""
        manager = ControllerManager(
            Runtime(self.client, clock=self.clock, rng=random.Random(1)),
            QUICK,
            controllers=names or CONTROLLERS,
        )
        async with manager:
            running = asyncio.create_task(manager.run())
            try:
                yield manager
            finally:
                running.cancel()
                await asyncio.wait((running,))

    async def config(self, name: str, *owners: Doc, namespace: str = "default", **metadata: Any) -> Doc:
        """A ConfigMap: the simplest thing that can own and be owned. Gives the reference to it."""
        made = await self.client.create_doc(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": namespace, "ownerReferences": list(owners), **metadata},
            }
        )
        return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": made["metadata"]["uid"]}

    async def pod(self, name: str, *, namespace: str = "default", **spec: Any) -> Doc:
        container = {"name": "c", "image": "app:1"}
        return await self.client.create_doc(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"containers": [container], **spec},
            }
        )

    async def node(self, name: str) -> None:
        room = {"cpu": "4", "memory": "16Gi", "pods": "20"}
        await self.client.create_doc(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name},
                "status": {"allocatable": room, "capacity": room},
            }
        )
        await self.post_ready(name)

    async def post_ready(self, name: str) -> None:
        at = rfc3339(self.clock.now())
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "well"}
        condition = {**ready, "lastHeartbeatTime": at, "lastTransitionTime": at}
        patch = {"status": {"conditions": [condition]}}
        await self.client.patch(Node, name, patch, patch_type="strategic", subresource="status")

    @asynccontextmanager
    async def alive(self, *names: str) -> AsyncIterator[None]:
        """Nodes that renew their leases while the block runs."""

        async def beat() -> None:
            while True:
                for name in names:
                    renewed = {"spec": {"renewTime": rfc3339_micro(self.clock.now())}}
                    await self.client.patch(Lease, f"{LEASES}/{name}", renewed)
                await self.clock.sleep(0.1)

        for name in names:
            spec = LeaseSpec(holder_identity=name, lease_duration_seconds=40)
            await self.client.create(Lease(metadata=ObjectMeta(name=name, namespace=LEASES), spec=spec))
        beating = asyncio.create_task(beat())
        try:
            yield
        finally:
            beating.cancel()
            await asyncio.wait((beating,))

    async def is_gone(self, cls: type[Object], key: str) -> bool:
        try:
            await self.client.get(cls, key)
        except NotFound:
            return True
        return False

    async def owners(self, name: str) -> list[str]:
        found = await self.client.get(ConfigMap, f"default/{name}")
        return [owner.name for owner in found.metadata.owner_references]

    async def notes(self, reason: str) -> list[str]:
        events = await self.client.list(Event)
        return sorted(event.note for event in events.items if event.reason == reason)


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Harness]:
    async with (
        server.serve(server.ServerSettings(data_dir=tmp_path, port=0)) as running,
        Client.connect(kubeconfig.load(running.kubeconfig)) as client,
    ):
        yield Harness(client)


async def test_what_belongs_to_a_deleted_owner_goes_however_deep(harness: Harness) -> None:
    root = await harness.config("root")
    middle = await harness.config("middle", root)
    other = await harness.config("other")
    await harness.config("leaf", middle)
    await harness.config("shared", root, other)
    await harness.config("stranger", {**root, "uid": "00000000-0000-0000-0000-000000000000"})
    async with harness.controllers():
        # An owner of that name exists, but not with that uid: it was deleted before anybody looked.
        await eventually_async(lambda: harness.is_gone(ConfigMap, "default/stranger"))
        await harness.client.delete(ConfigMap, "default/root", propagation="Background")
        await eventually_async(lambda: harness.is_gone(ConfigMap, "default/leaf"))
        assert await harness.is_gone(ConfigMap, "default/middle")

        async def is_let_go() -> bool:
            return await harness.owners("shared") == ["other"]

        await eventually_async(is_let_go)  # one owner is left, and the other's name is taken out
    assert await harness.owners("other") == []


async def test_a_deletion_in_the_foreground_waits_for_what_blocks_it(harness: Harness) -> None:
    root = await harness.config("root")
    await harness.config("held", {**root, "blockOwnerDeletion": True}, finalizers=["example.com/hold"])
    await harness.config("loose", root, finalizers=["example.com/hold"])
    async with harness.controllers():
        await harness.client.delete(ConfigMap, "default/root", propagation="Foreground")

        async def are_asked_to_go() -> bool:
            found = [await harness.client.get(ConfigMap, f"default/{name}") for name in ("held", "loose")]
            return all(each.metadata.is_terminating for each in found)

        await eventually_async(are_asked_to_go)
        owner = await harness.client.get(ConfigMap, "default/root")
        assert owner.metadata.finalizers == ("foregroundDeletion",)

        await harness.client.patch(ConfigMap, "default/held", {"metadata": {"finalizers": None}})
        await eventually_async(lambda: harness.is_gone(ConfigMap, "default/root"))
        # Nothing waits for a dependent that does not block.
        assert not await harness.is_gone(ConfigMap, "default/loose")


async def test_an_owner_that_orphans_leaves_its_dependents_free(harness: Harness) -> None:
    root = await harness.config("root")
    await harness.config("child", root)
    await harness.client.delete(ConfigMap, "default/root", propagation="Orphan")
    async with harness.controllers():  # started late: the finalizer is what it finds
        await eventually_async(lambda: harness.is_gone(ConfigMap, "default/root"))
    assert await harness.owners("child") == []


async def test_an_owner_in_another_namespace_is_none_and_people_are_told(harness: Harness) -> None:
    await harness.client.create(Namespace(metadata=ObjectMeta(name="shop")))
    root = await harness.config("root")
    async with harness.controllers() as manager:
        await harness.config("child", root, namespace="shop")
        await eventually_async(lambda: harness.is_gone(ConfigMap, "shop/child"))
        assert not await harness.is_gone(ConfigMap, "default/root")
        assert manager.is_healthy
    named = f"[v1/ConfigMap, namespace: shop, name: root, uid: {root['uid']}]"
    told = f'ownerRef {named} does not exist in namespace "shop"'
    assert await harness.notes("OwnerRefInvalidNamespace") == [told]


async def test_a_namespace_is_emptied_pods_first_and_says_what_it_waits_for(harness: Harness) -> None:
    await harness.client.create(Namespace(metadata=ObjectMeta(name="shop")))
    await harness.node("node-1")
    await harness.pod("web", namespace="shop", nodeName="node-1")
    await harness.config("settings", namespace="shop")
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop"
    bound: Doc = {"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}]}
    for path, body in ((f"{roles}/roles", {}), (f"{roles}/rolebindings", bound)):
        await harness.client.raw("POST", path, json.dumps({"metadata": {"name": "r"}, **body}).encode())
    await harness.client.delete(Namespace, "shop")
    async with harness.controllers():

        async def trouble() -> dict[str, str]:
            namespace = await harness.client.get(Namespace, "shop")
            return {each.type: each.message for each in namespace.status.conditions if each.is_true}

        # The node keeps the pod for its grace period, and the pod keeps everything else.
        assert await eventually_async(trouble) == {
            "NamespaceContentRemaining": "Some resources are remaining: pods. has 1 resource instances"
        }
        assert not await harness.is_gone(ConfigMap, "shop/settings")
        assert (await harness.client.get(Pod, "shop/web")).metadata.is_terminating

        await harness.client.delete(Pod, "shop/web", grace_s=0)  # what the node does in the end
        await eventually_async(lambda: harness.is_gone(Namespace, "shop"))
    assert await harness.is_gone(ConfigMap, "shop/settings")
    for plural in ("roles", "rolebindings"):
        assert json.loads(await harness.client.raw("GET", f"{roles}/{plural}"))["items"] == []


async def test_a_silent_node_is_marked_and_its_pods_leave_when_their_time_is_over(harness: Harness) -> None:
    for name in ("node-1", "node-2"):
        await harness.node(name)
    leaves_soon = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    await harness.pod("brief", nodeName="node-1", tolerations=[{**leaves_soon, "tolerationSeconds": 0}])
    await harness.pod("patient", nodeName="node-1", tolerations=[leaves_soon])
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    await harness.client.patch(Pod, "default/patient", ready, patch_type="strategic", subresource="status")
    async with harness.alive("node-2"), harness.controllers():

        async def is_on_its_way() -> bool:
            return (await harness.client.get(Pod, "default/brief")).metadata.is_terminating

        await eventually_async(is_on_its_way)
        brief = await harness.client.get(Pod, "default/brief")
        disrupted = brief.condition("DisruptionTarget")
        assert disrupted is not None
        assert (disrupted.reason, disrupted.message) == (
            "DeletionByTaintManager",
            "Taint manager: deleting due to NoExecute taint",
        )
        node = await harness.client.get(Node, "node-1")
        assert sorted((taint.key, taint.effect) for taint in node.spec.taints) == [
            ("node.kubernetes.io/unreachable", "NoExecute"),
            ("node.kubernetes.io/unreachable", "NoSchedule"),
        ]
        assert {(each.type, each.status, each.reason) for each in node.status.conditions} == {
            ("Ready", "Unknown", "NodeStatusUnknown"),
            ("MemoryPressure", "Unknown", "NodeStatusNeverUpdated"),
            ("DiskPressure", "Unknown", "NodeStatusNeverUpdated"),
            ("PIDPressure", "Unknown", "NodeStatusNeverUpdated"),
        }
        patient = await harness.client.get(Pod, "default/patient")
        shown = patient.condition("Ready")
        assert (patient.metadata.is_terminating, shown is not None and shown.status) == (False, "False")
        assert (await harness.client.get(Node, "node-2")).spec.taints == ()

        await harness.post_ready("node-1")  # it is back

        async def is_clean() -> bool:
            return not (await harness.client.get(Node, "node-1")).spec.taints

        await eventually_async(is_clean)
    assert await harness.notes("NodeNotReady") == ["Node is not ready", "Node node-1 status is now: NodeNotReady"]
    assert await harness.notes("TaintManagerEviction") == ["Marking for deletion Pod default/brief"]


async def test_a_controller_that_breaks_is_started_again(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = await harness.config("owner")
    await harness.config("child", owner)
    runs = GarbageCollector.run
    broken = asyncio.Event()

    async def breaks_once(collector: GarbageCollector) -> None:
        if not broken.is_set():
            broken.set()
            raise RuntimeError("a fault of ours")
        await runs(collector)

    monkeypatch.setattr(GarbageCollector, "run", breaks_once)
    monkeypatch.setattr(program, "_FIRST_PAUSE_S", 0.01)
    async with harness.controllers() as manager:
        await broken.wait()
        await harness.client.delete(ConfigMap, "default/owner")
        await eventually_async(lambda: harness.is_gone(ConfigMap, "default/child"))
        assert manager.is_healthy
