"""A stage for the workload controllers: a real server in this process, the controllers beside it, stand-in kubelets.

The controllers have a client, informers and a recorder of their own, so that they can be killed and started anew while
everybody else looks on; what they send and hear may be handed through an unsteady `Transport`.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from support.eventually import eventually_async
from tonnage.apiserver.server import Server, ServerSettings, serve
from tonnage.behaviour.workloads.daemon_set_plan import target_node
from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.client.informers import Informers
from tonnage.client.recorder import Recorder
from tonnage.client.transport.http_transport import HttpTransport
from tonnage.client.transport.wire import Transport
from tonnage.clock import SystemClock, rfc3339
from tonnage.controllers.controller_context import ControllerContext
from tonnage.controllers.workloads.deployments import DeploymentController, replica_set_controller, replication_manager
from tonnage.controllers.workloads.disruption import DisruptionController
from tonnage.controllers.workloads.jobs import CronJobController, JobController, TTLAfterFinishedController
from tonnage.controllers.workloads.revisioned_sets import DaemonSetController, StatefulSetController
from tonnage.errors import TonnageError
from tonnage.objects.apps_v1 import DaemonSet, Deployment, StatefulSet
from tonnage.objects.core_v1 import Event, Pod
from tonnage.objects.document import Doc

_PATIENCE_S: Final = 20.0
"""A bound for a hung test, not a measure of speed."""


class StandInKubelet:
    """Stands in for the scheduler and all kubelets: pods run at once, are ready unless held back, and end when told."""

    def __init__(self, client: Client, informers: Informers) -> None:
        self.holds_back: Callable[[Pod], bool] = lambda _: False
        self.runs_pods = True
        self.exit_code: Callable[[Pod], int | None] = lambda _: None
        """How the containers of a pod end; None while they run."""
        self._client = client
        self._pods = informers.of(Pod)
        self._news = asyncio.Event()
        self._pods.on_change(lambda _: self._news.set())

    def look_again(self) -> None:
        self._news.set()

    async def run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            for pod in list(self._pods):
                with suppress(TonnageError):  # it changed meanwhile: there will be news
                    await self._tend(pod)

    async def _tend(self, pod: Pod) -> None:
        if pod.metadata.is_terminating:
            await self._client.delete(Pod, pod.key, uid=pod.uid, grace_s=0)
        elif not pod.spec.node_name:
            await self._client.bind(pod.key, target_node(pod) or "node-1")
        elif not pod.is_terminal and self.runs_pods:
            code = self.exit_code(pod)
            if code is not None:
                await self._end(pod, code)
                return
            is_ready = not self.holds_back(pod)
            was = pod.condition("Ready")
            if pod.status.phase != "Running" or was is None or was.is_true != is_ready:
                since = "2026-01-01T00:00:00Z"
                ready = {"type": "Ready", "status": "True" if is_ready else "False", "lastTransitionTime": since}
                patch: Doc = {"status": {"phase": "Running", "conditions": [ready]}}
                await self._client.patch(Pod, pod.key, patch, patch_type="strategic", subresource="status")

    async def _end(self, pod: Pod, code: int) -> None:
        state = {"terminated": {"exitCode": code, "finishedAt": rfc3339(SystemClock().now())}}
        containers = [{"name": each.name, "image": each.image, "state": state} for each in pod.spec.containers]
        patch: Doc = {"status": {"phase": "Failed" if code else "Succeeded", "containerStatuses": containers}}
        await self._client.patch(Pod, pod.key, patch, patch_type="strategic", subresource="status")


class WorkloadStage:
    """A server, the workload controllers, kubelets, and somebody to look at them with."""

    def __init__(self, server: Server, client: Client, *, unsteady: Callable[[Transport], Transport] | None) -> None:
        self.server = server
        self.client = client
        self.informers = Informers(client)
        self.kubelet = StandInKubelet(client, self.informers)
        self._unsteady = unsteady
        self._tasks: list[asyncio.Task[None]] = []
        self._starts = 0
        self._program: tuple[Client, Informers, Recorder] | None = None

    async def start(self) -> None:
        """Start all controllers anew, as after a crash: nothing is handed over."""
        self._starts += 1
        clock, rng = SystemClock(), random.Random(self._starts)
        connection = kubeconfig.load(self.server.kubeconfig)
        transport: Transport = HttpTransport(connection, clock=clock, user_agent="controllers")
        client = Client(self._unsteady(transport) if self._unsteady else transport, clock=clock)
        informers, recorder = Informers(client), Recorder(client, "controllers", "controllers-1", by_note=True)
        kinds = (
            DeploymentController,
            replica_set_controller,
            replication_manager,
            DaemonSetController,
            StatefulSetController,
            DisruptionController,
            JobController,
            CronJobController,
            TTLAfterFinishedController,
        )
        context = ControllerContext(client, informers, recorder, clock, rng)
        controllers = [kind(context) for kind in kinds]
        recorder.start()
        informers.start()
        self._program = (client, informers, recorder)
        work: list[Coroutine[Any, Any, None]] = [each.run() for each in controllers]
        self._tasks = [asyncio.create_task(each) for each in work]

    async def kill(self) -> None:
        """End the controllers wherever they are."""
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        if self._program is not None:
            client, informers, recorder = self._program
            await informers.stop()
            await recorder.stop(flush_s=0.2)
            await client.close()

    async def create(self, api_version: str, kind: str, name: str, spec: Doc) -> None:
        metadata = {"name": name, "namespace": "default"}
        await self.client.create_doc({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})

    async def create_node(self, name: str, **labels: str) -> None:
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}
        await self.client.create_doc({"apiVersion": "v1", "kind": "Node", "metadata": metadata})

    async def pods(self) -> list[Pod]:
        return sorted((await self.client.list(Pod, namespace="default")).items, key=lambda pod: pod.name)

    async def until(self, holds: Callable[[], Awaitable[Any]], told: Callable[[], Awaitable[Any]] | None = None) -> Any:
        """Ask until the answer is true; what it was."""

        async def details() -> str:
            state = [(pod.name, pod.status.phase, pod.metadata.is_terminating) for pod in await self.pods()]
            return f"pods: {state}; {await told() if told else ''}"

        return await eventually_async(holds, within_s=_PATIENCE_S, details=details)

    async def until_rolled_out(self, name: str) -> Deployment:
        """Wait as `kubectl rollout status` does."""

        async def is_done() -> Deployment | None:
            found = await self.client.get(Deployment, f"default/{name}")
            status, wanted = found.status, found.spec.replicas
            is_seen = status.observed_generation >= found.metadata.generation
            is_new = status.updated_replicas == status.replicas == status.available_replicas == wanted
            return found if is_seen and is_new else None

        found: Deployment = await self.until(is_done)
        return found

    async def until_ready(self, name: str, replicas: int) -> StatefulSet:
        async def is_done() -> StatefulSet | None:
            found = await self.client.get(StatefulSet, f"default/{name}")
            status = found.status
            is_seen = status.observed_generation >= found.metadata.generation
            is_whole = status.ready_replicas == status.replicas == replicas
            return found if is_seen and is_whole and status.update_revision == status.current_revision else None

        async def told() -> object:
            return (await self.client.get(StatefulSet, f"default/{name}")).status

        found: StatefulSet = await self.until(is_done, told)
        return found

    async def until_daemons_run(self, name: str, nodes: int) -> DaemonSet:
        """Wait as `kubectl rollout status` does."""

        async def is_done() -> DaemonSet | None:
            found = await self.client.get(DaemonSet, f"default/{name}")
            status = found.status
            is_seen = status.observed_generation >= found.metadata.generation
            counts = {status.desired_number_scheduled, status.updated_number_scheduled, status.number_available}
            return found if is_seen and counts == {nodes} and status.number_unavailable == 0 else None

        async def told() -> object:
            return (await self.client.get(DaemonSet, f"default/{name}")).status

        found: DaemonSet = await self.until(is_done, told)
        return found

    async def notes(self, reason: str) -> set[str]:
        return {each.message for each in (await self.client.list(Event)).items if each.reason == reason}

    async def kubectl(self, *arguments: str) -> str:
        home = self.server.kubeconfig.parent
        process = await asyncio.create_subprocess_exec(
            "kubectl",
            "--kubeconfig",
            str(self.server.kubeconfig),
            "--cache-dir",
            str(home / "cache"),
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "HOME": str(home)},
        )
        out, err = await asyncio.wait_for(process.communicate(), 30)
        assert process.returncode == 0, f"kubectl {' '.join(arguments)}\n{out.decode()}{err.decode()}"
        return out.decode()


@asynccontextmanager
async def stage_in(
    folder: Path, *, unsteady: Callable[[Transport], Transport] | None = None
) -> AsyncIterator[WorkloadStage]:
    """A stage on a fresh server, with everything running."""
    async with (
        serve(ServerSettings(data_dir=folder, port=0)) as server,
        Client.connect(kubeconfig.load(server.kubeconfig)) as client,
    ):
        stage = WorkloadStage(server, client, unsteady=unsteady)
        async with stage.informers:
            await stage.informers.wait_synced(_PATIENCE_S)
            kubelet = asyncio.create_task(stage.kubelet.run())
            await stage.start()
            try:
                yield stage
            finally:
                kubelet.cancel()
                await stage.kill()


def template(image: str = "app:1", app: str = "web") -> Doc:
    """A pod template with a field that nobody here models."""
    container = {"name": "c", "image": image, "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container]}}


def workload(replicas: int, image: str = "app:1", *, app: str = "web", **spec: Any) -> Doc:
    """The spec of a Deployment, ReplicaSet or StatefulSet."""
    selector = {"matchLabels": {"app": app}}
    return {"replicas": replicas, "selector": selector, "template": template(image, app), **spec}


CLAIM: Final[Doc] = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
"""A claim template."""
