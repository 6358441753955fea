"""A server, or something in front of it, that answers well and does nothing: the pod is tried again all the same."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from support.processes import ApiServerProcess
from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.client.program import Runtime
from tonnage.client.transport.http_transport import HttpTransport
from tonnage.client.transport.wire import HttpResponse, Request
from tonnage.clock import SystemClock
from tonnage.scheduler.program import SchedulerProgram
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.scheduling.engine import attempt

PODS = "/api/v1/namespaces/default/pods"


class LyingTransport(HttpTransport):
    """Says of the first bindings that they were done, and does not pass them on."""

    lies = 1

    async def send(self, request: Request) -> HttpResponse:
        if self.lies and request.path.endswith("/binding"):
            self.lies -= 1
            return HttpResponse(201, b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}')
        return await super().send(request)


async def test_a_binding_that_was_answered_and_did_not_happen_is_made_again(
    cluster: ApiServerProcess, monkeypatch
) -> None:
    monkeypatch.setattr(attempt, "CONFIRMED_WITHIN_S", 0.5)
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    node = {"metadata": {"name": "n"}, "status": {"allocatable": room, "capacity": room}}
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}]}
    assert cluster.post("/api/v1/nodes", node).code == 201
    assert cluster.post(PODS, {"metadata": {"name": "p"}, "spec": spec}).code == 201
    clock = SystemClock()
    transport = LyingTransport(kubeconfig.load(cluster.kubeconfig), clock=clock, user_agent="liar")
    async with (
        Client(transport, clock=clock) as client,
        SchedulerProgram(Runtime(client, clock=clock, rng=random.Random(1)), default_configuration()) as program,
    ):
        running = asyncio.create_task(program.run())
        try:
            began_at = time.monotonic()
            while not (found := await asyncio.to_thread(cluster.get, f"{PODS}/p")).body["spec"].get("nodeName"):
                assert not running.done() and time.monotonic() - began_at < 30.0
                await asyncio.sleep(0.1)
            assert found.body["spec"]["nodeName"] == "n" and transport.lies == 0
        finally:
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
