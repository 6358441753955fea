"""Lost nodes and their pods on a real API server and on virtual time: minutes pass when the test says so."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support.eventually import eventually_async
from support.virtual_clock import VirtualClock
from tonnage.apiserver.server import ServerSettings, serve
from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.client.informers import Informers
from tonnage.client.recorder import Recorder
from tonnage.clock import rfc3339
from tonnage.controllers.controller_context import ControllerContext
from tonnage.controllers.nodes.node_lifecycle import NodeLifecycleController
from tonnage.controllers.nodes.pod_deletion import PodGCController, TaintEvictionController
from tonnage.errors import NotFound
from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.document import Doc
from tonnage.objects.events_v1 import Event

UNREACHABLE = "node.kubernetes.io/unreachable"


class Harness:
    """A server, and controllers whose clock is moved by hand."""

    def __init__(self, client: Client, informers: Informers, recorder: Recorder) -> None:
        self.client = client
        self.informers = informers
        self.recorder = recorder
        self.clock = VirtualClock(datetime.now(UTC).replace(microsecond=0))

    def make(self, controller: Callable[..., Any], **options: Any) -> Any:
        context = ControllerContext(self.client, self.informers, self.recorder, self.clock, random.Random(1))
        return controller(context, **options)

    @asynccontextmanager
    async def running(self, controller: Any) -> AsyncIterator[None]:
        await self.informers.wait_synced()
        task = asyncio.create_task(controller.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait((task,))

    async def until(self, holds: Callable[[], Awaitable[Any]], tick_s: float = 0.0) -> Any:
        """Ask until it is true, each time `tick_s` later; what it was."""

        async def look() -> Any:
            answer = await holds()
            if not answer:
                self.clock.advance(tick_s)
            return answer

        return await eventually_async(look)

    async def node(self, name: str, **spec: Any) -> None:
        doc: Doc = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec}
        await self.client.create_doc(doc)
        await self.post_ready(name)

    async def post_ready(self, name: str) -> None:
        now = rfc3339(self.clock.now())
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now}
        patch = {"status": {"conditions": [ready]}}
        await self.client.patch(Node, name, patch, patch_type="strategic", subresource="status")

    async def pod(self, name: str, node: str, *tolerations: Doc) -> None:
        spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": node, "tolerations": list(tolerations)}
        metadata = {"namespace": "default", "name": name}
        await self.client.create_doc({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    async def taints(self, name: str) -> set[tuple[str, str]]:
        return {(taint.key, taint.effect) for taint in (await self.client.get(Node, name)).spec.taints}

    async def is_leaving(self, name: str) -> bool:
        return (await self.client.get(Pod, f"default/{name}")).metadata.is_terminating

    async def notes(self, reason: str) -> list[str]:
        return sorted(event.note for event in (await self.client.list(Event)).items if event.reason == reason)


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Harness]:
    async with (
        serve(ServerSettings(data_dir=tmp_path, port=0)) as server,
        Client.connect(kubeconfig.load(server.kubeconfig)) as client,
        Informers(client) as informers,
        Recorder(client, "tests", "tests") as recorder,
    ):
        yield Harness(client, informers, recorder)


async def test_a_pod_stays_as_long_as_it_tolerates_and_a_taint_that_goes_cancels_its_leave(harness: Harness) -> None:
    taint: Doc = {"key": "example.com/broken", "effect": "NoExecute"}
    await harness.node("node-1")
    await harness.pod("p", "node-1", {**taint, "operator": "Exists", "tolerationSeconds": 100})
    eviction: TaintEvictionController = harness.make(TaintEvictionController)

    async def set_taints(taints: list[Doc], planned: int) -> None:
        await harness.client.patch(Node, "node-1", {"spec": {"taints": taints}})

        async def is_noticed() -> bool:
            return len(eviction.planned) == planned

        await harness.until(is_noticed)

    async with harness.running(eviction):
        await set_taints([taint], planned=1)
        harness.clock.advance(99)
        await set_taints([], planned=0)
        harness.clock.advance(1000)
        assert not await harness.is_leaving("p")

        await set_taints([taint], planned=1)
        harness.clock.advance(99)
        assert not await harness.is_leaving("p")
        harness.clock.advance(1)
        await harness.until(lambda: harness.is_leaving("p"))
    await harness.recorder.stop()
    assert await harness.notes("TaintManagerEviction") == [
        "Cancelling deletion of Pod default/p",
        "Marking for deletion Pod default/p",
    ]


async def test_when_all_nodes_are_silent_no_pod_is_turned_out_until_one_is_back(harness: Harness) -> None:
    await harness.node("node-1")
    await harness.node("node-2", unschedulable=True)
    lifecycle: NodeLifecycleController = harness.make(NodeLifecycleController)

    async def has(name: str, *effects: str) -> bool:
        return {effect for key, effect in await harness.taints(name) if key == UNREACHABLE} == set(effects)

    async with harness.running(lifecycle):
        await harness.until(lambda: has("node-1"))
        harness.clock.advance(51)
        await harness.until(lambda: has("node-1", "NoSchedule"), tick_s=0.1)
        await harness.until(lambda: has("node-2", "NoSchedule"), tick_s=0.1)
        harness.clock.advance(600)
        await lifecycle.monitor()
        assert await harness.taints("node-2") == {
            (UNREACHABLE, "NoSchedule"),
            ("node.kubernetes.io/unschedulable", "NoSchedule"),
        }

        await harness.post_ready("node-1")
        await harness.until(lambda: has("node-2", "NoSchedule", "NoExecute"), tick_s=0.1)
        assert await harness.taints("node-1") == set()
        notes = [f"Node node-{number} status is now: NodeNotReady" for number in (1, 2)]
    await harness.recorder.stop()
    assert await harness.notes("NodeNotReady") == notes


async def test_pods_of_a_node_that_is_gone_end_after_the_quarantine(harness: Harness) -> None:
    await harness.node("node-1")
    for name, node in (("lost", "gone"), ("safe", "node-1")):
        await harness.pod(name, node)
    garbage: PodGCController = harness.make(PodGCController)
    await harness.informers.wait_synced()
    last: dict[str, Pod] = {}
    harness.informers.of(Pod).add_handlers(on_update=lambda _, new: last.__setitem__(new.name, new))

    assert await garbage.collect() == 20.0  # it is missed for the first time; a round every 20 s
    harness.clock.advance(39)
    assert await garbage.collect() == 1.0  # the quarantine of 40 s ends before the next round
    assert not await harness.is_leaving("lost")
    harness.clock.advance(1)
    await garbage.collect()
    with pytest.raises(NotFound):
        await harness.client.get(Pod, "default/lost")
    assert not await harness.is_leaving("safe")

    async def is_seen() -> bool:
        return "default/lost" not in harness.informers.of(Pod)

    await harness.until(is_seen)
    reason = last["lost"].condition("DisruptionTarget")
    assert reason is not None
    assert (last["lost"].status.phase, reason.reason, reason.message) == (
        "Failed",
        "DeletionByPodGC",
        "PodGC: node no longer exists",
    )
