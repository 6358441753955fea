"""Workloads through storms: watches that lag, answers that get lost, controllers that are killed at any moment.

Whatever happens, a ReplicaSet or ReplicationController never has more live pods than were ever asked for, a Deployment
never more than its replicas and the surge, a DaemonSet never two pods on one node; and when the storm is over, all is
as the specs say. The server is the real one; what the controllers send and hear goes through `Storm`.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from support.workload_stage import CLAIM, WorkloadStage, stage_in, template, workload
from tonnage.behaviour.workloads.daemon_set_plan import target_node
from tonnage.behaviour.workloads.pod_states import is_active
from tonnage.client.errors import Disconnected
from tonnage.client.transport.wire import HttpResponse, Request, Stream, Transport
from tonnage.errors import NotFound
from tonnage.objects.apps_v1 import DaemonSet, Deployment, ReplicaSet
from tonnage.objects.core_v1 import Node, Pod

REPLICAS, SURGE, SET_SIZE, STATEFUL_SIZE, OLD_SIZE = 5, 2, 6, 3, 4

NODES = ("a", "b", "c")


class Storm:
    """A way to the server on which watches lag by up to 60 ms and one write in ten gets no answer."""

    def __init__(self, way: Transport, rng: random.Random) -> None:
        self._way = way
        self._rng = rng
        self.is_over = False

    @property
    def server(self) -> str:
        return self._way.server

    async def send(self, request: Request) -> HttpResponse:
        fate = 1.0 if self.is_over or request.method == "GET" else self._rng.random()
        if fate < 0.03:
            raise Disconnected(request.method, request.path, "lost on the way there", in_doubt=True)
        response = await self._way.send(request)
        if fate < 0.1:
            raise Disconnected(request.method, request.path, "lost on the way back", in_doubt=True)
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        async with self._way.stream(request) as stream:
            yield Lagging(stream, self)

    async def close(self) -> None:
        await self._way.close()

    async def lag(self) -> None:
        if not self.is_over:
            await asyncio.sleep(self._rng.random() * 0.06)


class Lagging:
    """A stream whose pieces come late."""

    def __init__(self, stream: Stream, storm: Storm) -> None:
        self._stream = stream
        self._storm = storm

    @property
    def code(self) -> int:
        return self._stream.code

    @property
    def headers(self) -> Mapping[str, str]:
        return self._stream.headers

    async def read(self) -> bytes:
        return await self._stream.read()

    async def chunks(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream.chunks():
            await self._storm.lag()
            yield chunk


class Witness:
    """Looks at every change of a pod, on a steady connection, and remembers the most it ever saw."""

    def __init__(self, stage: WorkloadStage) -> None:
        self._pods = stage.informers.of(Pod)
        self.most: Counter[str] = Counter()
        self.most_on_a_node = 0
        self._pods.on_change(self._look)

    def _look(self, _: Pod) -> None:
        live = Counter(pod.metadata.labels["app"] for pod in self._pods if is_active(pod))
        self.most |= live
        daemons = [pod for pod in self._pods if pod.metadata.labels["app"] == "agent" and is_active(pod)]
        self.most_on_a_node = max([self.most_on_a_node, *Counter(map(target_node, daemons)).values()])


async def _strike(stage: WorkloadStage, rng: random.Random, turn: int) -> None:
    """Something happens: a new template, a failed pod, a killed controller, another size, or nothing for a while."""
    match rng.randrange(7):
        case 0:
            await stage.client.patch(Deployment, "default/web", {"spec": {"template": template(f"app:{turn + 2}")}})
        case 1:
            pods = [pod for pod in await stage.pods() if pod.status.phase == "Running"]
            if pods:
                failed = {"status": {"phase": "Failed"}}
                with suppress(NotFound):  # it may have gone meanwhile
                    await stage.client.patch(Pod, rng.choice(pods).key, failed, subresource="status")
        case 2:
            await stage.kill()
            await stage.start()
        case 3:
            await stage.client.patch(ReplicaSet, "default/set", {"spec": {"replicas": rng.randint(2, SET_SIZE)}})
        case 4:
            change = {"spec": {"template": template(f"app:{turn + 2}", "agent")}}
            await stage.client.patch(DaemonSet, "default/agent", change)
        case 5:
            taints = [{"key": "k", "effect": "NoExecute"}] if rng.random() < 0.5 else []
            await stage.client.patch(Node, rng.choice(NODES), {"spec": {"taints": taints}})
        case _:
            await asyncio.sleep(rng.random() * 0.1)


async def _play(folder: Path, seed: int, turns: int) -> None:
    rng = random.Random(seed)
    storms: list[Storm] = []

    def unsteady(way: Transport) -> Transport:
        storms.append(Storm(way, rng))
        return storms[-1]

    async with stage_in(folder, unsteady=unsteady) as stage:
        witness = Witness(stage)
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": SURGE, "maxUnavailable": 1}}
        await stage.create("apps/v1", "Deployment", "web", workload(REPLICAS, strategy=strategy))
        await stage.create("apps/v1", "ReplicaSet", "set", workload(SET_SIZE, app="set"))
        spec = workload(
            STATEFUL_SIZE, app="db", serviceName="db", podManagementPolicy="Parallel", volumeClaimTemplates=[CLAIM]
        )
        await stage.create("apps/v1", "StatefulSet", "db", spec)
        await stage.create(
            "v1", "ReplicationController", "old", {**workload(OLD_SIZE, app="old"), "selector": {"app": "old"}}
        )
        for name in NODES:
            await stage.create_node(name)
        spec = {"selector": {"matchLabels": {"app": "agent"}}, "template": template(app="agent")}
        await stage.create("apps/v1", "DaemonSet", "agent", spec)
        for turn in range(turns):
            await _strike(stage, rng, turn)
        for name in NODES:
            await stage.client.patch(Node, name, {"spec": {"taints": []}})
        for storm in storms:
            storm.is_over = True
        await stage.kill()
        await stage.start()
        storms[-1].is_over = True
        wanted = {
            "web": REPLICAS,
            "set": (await stage.client.get(ReplicaSet, "default/set")).spec.replicas,
            "db": STATEFUL_SIZE,
            "old": OLD_SIZE,
            "agent": len(NODES),
        }

        async def is_calm() -> bool:
            live = [pod for pod in await stage.pods() if is_active(pod) and pod.status.phase == "Running"]
            return Counter(pod.metadata.labels["app"] for pod in live) == wanted

        await stage.until(is_calm)
        await stage.until_rolled_out("web")
        await stage.until_daemons_run("agent", len(NODES))
    assert witness.most["web"] <= REPLICAS + SURGE
    assert witness.most["set"] <= SET_SIZE
    assert witness.most["db"] <= STATEFUL_SIZE
    assert witness.most_on_a_node == 1
    assert witness.most["old"] <= OLD_SIZE


@pytest.mark.parametrize("seed", [1, 2])
async def test_no_storm_makes_a_pod_too_many(seed: int, tmp_path: Path) -> None:
    await _play(tmp_path, seed, turns=12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 22))
async def test_no_long_storm_makes_a_pod_too_many(seed: int, tmp_path: Path) -> None:
    await _play(tmp_path, seed, turns=40)
