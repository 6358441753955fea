"""One round of the node scaler after the other, on a real API server and on virtual time: delays, races, refusals."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pool_builders import UNSCHEDULABLE, template

from support.virtual_clock import VirtualClock
from tonnage.apiserver.server import ServerSettings, serve
from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.client.program import Runtime
from tonnage.errors import NotFound
from tonnage.nodescaler.node_pool import TO_BE_DELETED, NodePool
from tonnage.nodescaler.program import NodeScaler, is_free
from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.document import Doc
from tonnage.objects.events_v1 import Event
from tonnage.objects.requirements import NOT_READY
from tonnage.testing.builders import node


class NodeScalerRig:
    """A server, a clock that is moved by hand, and scalers that do what they are told."""

    def __init__(self, client: Client, clock: VirtualClock) -> None:
        self.client = client
        self.clock = clock

    @asynccontextmanager
    async def scaler(self, said: Doc | None = None, max_nodes: int = 2, **limits: Any) -> AsyncIterator[NodeScaler]:
        pool = NodePool(template=said or template(), max_nodes=max_nodes, **limits)
        runtime = Runtime(self.client, clock=self.clock, rng=random.Random(1))
        async with NodeScaler(runtime, pool) as scaler:
            await scaler.wait_synced()
            yield scaler

    async def stuck(self, name: str, cpu: str = "3") -> None:
        """A pod that the scheduler found no node for."""
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        metadata = {"namespace": "default", "name": name}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
        await self.client.create_doc(pod)
        patch = {"status": {"conditions": [UNSCHEDULABLE]}}
        await self.client.patch(Pod, f"default/{name}", patch, patch_type="strategic", subresource="status")

    async def nominate(self, name: str, node_name: str) -> None:
        """Somebody else's nomination."""
        patch = {"status": {"nominatedNodeName": node_name}}
        await self.client.patch(Pod, f"default/{name}", patch, subresource="status", field_manager="kueue")

    async def nominated(self, name: str) -> str:
        return (await self.client.get(Pod, f"default/{name}")).status.nominated_node_name

    async def taints(self, name: str) -> list[str]:
        return [taint.key for taint in (await self.client.get(Node, name)).spec.taints]

    async def nodes(self) -> list[str]:
        return sorted(each.name for each in (await self.client.list(Node)).items)

    async def rounds(self, scaler: NodeScaler, until: Callable[[], Awaitable[bool]]) -> float:
        """Rounds, while the informers catch up, until it holds; what the last one was due in. Time stands still."""
        async with asyncio.timeout(20):
            while True:
                due_s = await scaler.reconcile()
                if await until():
                    return due_s
                await asyncio.sleep(0.01)

    async def seen(self, scaler: NodeScaler, holds: Callable[[Node], bool]) -> None:
        """Wait until the scaler's informer shows some node so."""
        shown = asyncio.Event()
        scaler.informers.of(Node).on_change(lambda node: shown.set() if holds(node) else None)
        async with asyncio.timeout(20):
            await shown.wait()


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[NodeScalerRig]:
    clock = VirtualClock(datetime.now(UTC).replace(microsecond=0))
    async with (
        serve(ServerSettings(data_dir=tmp_path, port=0), clock=clock) as server,
        Client.connect(kubeconfig.load(server.kubeconfig)) as client,
    ):
        yield NodeScalerRig(client, clock)


async def test_a_node_comes_after_its_delay_and_is_ready_after_another(stage: NodeScalerRig) -> None:
    await stage.stuck("p")

    async def is_proposed() -> bool:
        return await stage.nominated("p") == "burst-1"

    async def is_there() -> bool:
        return await stage.nodes() == ["burst-1"]

    async def is_ready() -> bool:
        return await stage.taints("burst-1") == []

    async with stage.scaler(provision_s=20.0, ready_s=10.0) as scaler:
        assert await stage.rounds(scaler, is_proposed) == 20.0
        stage.clock.advance(19.0)
        assert (await scaler.reconcile(), await stage.nodes()) == (1.0, [])
        stage.clock.advance(1.0)
        await stage.rounds(scaler, is_there)
        assert await stage.taints("burst-1") == [NOT_READY]
        await stage.seen(scaler, lambda node: node.name == "burst-1")
        assert await scaler.reconcile() == 10.0
        stage.clock.advance(10.0)
        await stage.rounds(scaler, is_ready)
        assert await stage.nominated("p") == "burst-1"


async def test_a_nomination_that_came_a_moment_ago_is_not_written_over_and_no_node_is_made(
    stage: NodeScalerRig,
) -> None:
    await stage.stuck("p")
    async with stage.scaler() as scaler:
        await scaler.informers.stop()  # what it knows is old from now on
        await stage.nominate("p", "elsewhere")
        await scaler.reconcile()
    assert await stage.nominated("p") == "elsewhere"
    assert await stage.nodes() == []


async def test_a_pod_that_was_made_anew_is_another_pod(stage: NodeScalerRig) -> None:
    await stage.stuck("p")
    async with stage.scaler() as scaler:
        await scaler.informers.stop()
        await stage.client.delete(Pod, "default/p")
        await stage.stuck("p")
        await scaler.reconcile()
    assert (await stage.nominated("p"), await stage.nodes()) == ("", [])


async def test_two_scalers_of_one_pool_make_each_node_once(stage: NodeScalerRig) -> None:
    for name in ("a", "b", "c"):
        await stage.stuck(name)
    async with stage.scaler() as one, stage.scaler() as other:
        await asyncio.gather(one.reconcile(), other.reconcile())
        await asyncio.gather(one.reconcile(), other.reconcile())
        assert await stage.nodes() == ["burst-1", "burst-2"]


async def test_when_no_node_can_be_made_proposals_are_taken_back_until_it_is_tried_again(stage: NodeScalerRig) -> None:
    await stage.stuck("p")
    refused = template()
    refused["metadata"]["labels"] = {"disk": "no label's value!"}

    async def was_proposed() -> bool:
        return await stage.nominated("p") == "burst-1"

    async def is_taken_back() -> bool:
        return await stage.nominated("p") == ""

    async def is_told() -> bool:
        events = (await stage.client.list(Event)).items
        return "pod didn't trigger scale-up: 1 in backoff after failed scale-up" in {each.note for each in events}

    async with stage.scaler(refused) as scaler:
        await stage.rounds(scaler, was_proposed)
        await stage.rounds(scaler, is_taken_back)
        await stage.rounds(scaler, is_told)
        stage.clock.advance(300.0)
        await stage.rounds(scaler, was_proposed)
        assert await stage.nodes() == []


async def test_a_node_is_not_removed_when_somebody_was_nominated_to_it_a_moment_ago(stage: NodeScalerRig) -> None:
    await stage.stuck("p", cpu="5")
    async with stage.scaler(min_nodes=1, ready_s=0.0) as scaler:

        async def is_ready() -> bool:
            return await stage.nodes() == ["burst-1"] and await stage.taints("burst-1") == []

        await stage.rounds(scaler, is_ready)
    async with stage.scaler(unneeded_s=60.0) as scaler:
        assert await scaler.reconcile() == 30.0  # it looks again at least that often
        stage.clock.advance(60.0)
        assert await scaler.reconcile() == 5.0
        assert await stage.taints("burst-1") == [TO_BE_DELETED]
        await stage.seen(scaler, lambda node: bool(node.spec.taints))
        await scaler.informers.stop()
        await stage.nominate("p", "burst-1")
        stage.clock.advance(5.0)
        await scaler.reconcile()
        assert await stage.taints("burst-1") == []


async def test_a_node_is_not_removed_when_a_pod_got_its_volume_there_a_moment_ago(stage: NodeScalerRig) -> None:
    """The claim has its node, the pod was not nominated, and no informer knows of either."""
    assert await is_free(stage.client, "burst-1")
    selected = {"volume.kubernetes.io/selected-node": "burst-1"}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"namespace": "default", "name": "data", "annotations": selected}
    await stage.client.create_doc(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    )
    assert await is_free(stage.client, "burst-1"), "nobody waits for the claim"
    mounted = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    pod_spec = {"containers": [{"name": "c", "image": "i"}], "volumes": mounted}
    web = {"namespace": "default", "name": "web"}
    await stage.client.create_doc({"apiVersion": "v1", "kind": "Pod", "metadata": web, "spec": pod_spec})
    assert not await is_free(stage.client, "burst-1")


async def test_a_node_that_changed_since_it_was_looked_at_is_not_removed(stage: NodeScalerRig) -> None:
    marked = NodePool(template=template(), max_nodes=1).manifest("burst-1")
    marked["spec"]["taints"] = [{"key": TO_BE_DELETED, "effect": "NoSchedule", "value": "0"}]
    await stage.client.create_doc(marked)
    async with stage.scaler() as scaler:
        await scaler.informers.stop()
        await stage.client.patch(Node, "burst-1", {"metadata": {"labels": {"keep": "me"}}})
        await scaler.reconcile()
        assert await stage.nodes() == ["burst-1"]


async def test_a_restarted_scaler_goes_on_with_a_removal(stage: NodeScalerRig) -> None:
    marked = NodePool(template=template(), max_nodes=1).manifest("burst-1")
    since = str(int(stage.clock.now().timestamp()))
    marked["spec"]["taints"] = [{"key": TO_BE_DELETED, "effect": "NoSchedule", "value": since}]
    await stage.client.create_doc(marked)
    async with stage.scaler() as scaler:
        assert await scaler.reconcile() == 5.0
        stage.clock.advance(5.0)
        await scaler.reconcile()
        with pytest.raises(NotFound):
            await stage.client.get(Node, "burst-1")


async def test_nodes_of_others_are_let_be(stage: NodeScalerRig) -> None:
    await stage.client.create(node("burst-1"))
    async with stage.scaler(unneeded_s=0.0) as scaler:
        await scaler.reconcile()
        stage.clock.advance(60.0)
        await scaler.reconcile()
    assert await stage.taints("burst-1") == []


async def test_the_loop_scales_until_it_is_cancelled(stage: NodeScalerRig) -> None:
    await stage.stuck("p")
    async with stage.scaler() as scaler:
        running = asyncio.create_task(scaler.run())
        async with asyncio.timeout(20):
            while await stage.nodes() != ["burst-1"]:
                await asyncio.sleep(0.01)
                await stage.clock.run_for(0.3)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
