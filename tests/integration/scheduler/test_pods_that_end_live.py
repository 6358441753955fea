"""A pod that begins to go while a Permit plugin holds it, on a server: its claim gets no node, and its room is free."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.eventually import eventually_async
from support.processes import ApiServerProcess, start_cluster
from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.client.program import Runtime
from tonnage.clock import SystemClock
from tonnage.scheduler.program import SchedulerProgram
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.configuration.profile_plugins import KnownPlugin
from tonnage.scheduling.framework import SUCCESS, Code, Cycle, PermitPlugin, Status

CORE = "/api/v1/namespaces/default"
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: held
    plugins: {permit: {enabled: [{name: HoldsClaims}]}}
"""


class HoldsClaims(PermitPlugin):
    name = "HoldsClaims"

    def __init__(self, args: Any) -> None: ...

    def permit(self, cycle: Cycle, node_name: str) -> tuple[Status, float]:
        return (Status(Code.WAIT), 600.0) if cycle.pod.pod.claim_names() else (SUCCESS, 0.0)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ApiServerProcess]:
    running = start_cluster(tmp_path)
    yield running
    running.stop()


def going(cluster: ApiServerProcess) -> None:
    assert cluster.delete(f"{CORE}/pods/web").code in (200, 202)  # its finalizer keeps it


def bound_by_another(cluster: ApiServerProcess) -> None:
    binding = {"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "other"}}
    assert cluster.post(f"{CORE}/pods/web/binding", binding).code == 201


@pytest.mark.parametrize("ends", [going, bound_by_another])
async def test_a_pod_that_ends_while_it_is_held(
    cluster: ApiServerProcess, ends: Callable[[ApiServerProcess], None]
) -> None:
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    for name, is_cordoned in (("mine", False), ("other", True)):
        node = {"metadata": {"name": name}, "spec": {"unschedulable": is_cordoned}}
        assert cluster.post("/api/v1/nodes", {**node, "status": {"allocatable": room, "capacity": room}}).code == 201
    late = {"metadata": {"name": "late"}, "provisioner": "d", "volumeBindingMode": "WaitForFirstConsumer"}
    assert cluster.post("/apis/storage.k8s.io/v1/storageclasses", late).code == 201
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "late",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    assert cluster.post(f"{CORE}/persistentvolumeclaims", claim).code == 201

    def pod(name: str, **more: Any) -> dict[str, Any]:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
        spec = {"schedulerName": "held", "containers": [container], **more}
        return {"metadata": {"name": name, "finalizers": ["example.com/kept"]}, "spec": spec}

    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    assert cluster.post(f"{CORE}/pods", pod("web", volumes=volumes)).code == 201
    clock = SystemClock()
    configuration = parse(CONFIGURATION, source="a test", known_plugins=[KnownPlugin.of(HoldsClaims)])
    async with (
        Client.connect(kubeconfig.load(cluster.kubeconfig), clock=clock) as client,
        SchedulerProgram(
            Runtime(client, clock=clock, rng=random.Random(1)),
            configuration,
        ) as program,
    ):
        running = asyncio.create_task(program.run())
        try:
            await eventually_async(lambda: len(program.context.waiting_pods) == 1)
            # mine has 4 cpu, and web takes 3 of them: next has no room until web ends.
            await asyncio.to_thread(ends, cluster)
            assert (await asyncio.to_thread(cluster.post, f"{CORE}/pods", pod("next"))).code == 201

            async def is_bound() -> bool:
                found = await asyncio.to_thread(cluster.get, f"{CORE}/pods/next")
                return bool(found.body["spec"].get("nodeName") == "mine")

            await eventually_async(is_bound)
            assert len(program.context.waiting_pods) == 0 and not running.done()
            found = await asyncio.to_thread(cluster.get, f"{CORE}/persistentvolumeclaims/data")
            assert not found.body["metadata"].get("annotations")
        finally:
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
