"""Quotas on the embedded server, with the controller that counts: charged, refused, given back."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.eventually import eventually_async
from tonnage.apiserver import server
from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.client.program import Runtime
from tonnage.clock import SystemClock
from tonnage.controllers.controller_context import ControllerManagerConfiguration
from tonnage.controllers.program import ControllerManager
from tonnage.errors import Forbidden
from tonnage.objects.core_v1 import Pod, ResourceQuota
from tonnage.objects.document import Doc


@asynccontextmanager
async def counting_in(folder: Path) -> AsyncIterator[Client]:
    async with (
        server.serve(server.ServerSettings(data_dir=folder, port=0)) as running,
        Client.connect(kubeconfig.load(running.kubeconfig)) as client,
        ControllerManager(
            Runtime(client, clock=SystemClock(), rng=random.Random(1)),
            ControllerManagerConfiguration(),
            controllers=("resourcequota-controller",),
        ) as manager,
    ):
        task = asyncio.create_task(manager.run())
        try:
            yield client
        finally:
            task.cancel()
            await asyncio.wait((task,))


def pod(name: str, cpu: str = "100m") -> Doc:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    head = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}}
    return {**head, "spec": {"containers": [container]}}


def quota(**spec: Any) -> Doc:
    head = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}}
    return {**head, "spec": spec}


async def used(client: Client) -> dict[str, str]:
    found = await client.get(ResourceQuota, "default/q")
    return {name: str(amount) for name, amount in found.status.used.items()}


async def is_used(client: Client, **wanted: str) -> None:
    async def holds() -> bool:
        return await used(client) == wanted

    await eventually_async(holds)


async def test_a_quota_is_counted_charged_and_given_back(tmp_path: Path) -> None:
    async with counting_in(tmp_path) as client:
        await client.create_doc(pod("before"))
        await client.create_doc(quota(hard={"pods": "2"}))
        await is_used(client, pods="1")
        await client.create_doc(pod("second"))
        assert await used(client) == {"pods": "2"}
        with pytest.raises(Forbidden, match="exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"):
            await client.create_doc(pod("third"))
        await client.delete(Pod, "default/before")
        await is_used(client, pods="1")
        ended = {"status": {"phase": "Succeeded"}}
        await client.patch(Pod, "default/second", ended, subresource="status")
        await is_used(client, pods="0")


async def test_a_change_of_a_quota_is_counted(tmp_path: Path) -> None:
    async with counting_in(tmp_path) as client:
        await client.create_doc(quota(hard={"pods": "2"}))
        await is_used(client, pods="0")
        await client.create_doc(pod("a", cpu="250m"))
        await client.patch(ResourceQuota, "default/q", {"spec": {"hard": {"requests.cpu": "1"}}})
        await is_used(client, **{"pods": "1", "requests.cpu": "250m"})


async def test_twenty_pods_at_once_do_not_exceed_a_quota(tmp_path: Path) -> None:
    async with counting_in(tmp_path) as client:
        await client.create_doc(quota(hard={"pods": "5"}))
        await is_used(client, pods="0")
        results = await asyncio.gather(
            *(client.create_doc(pod(f"p{number}")) for number in range(20)), return_exceptions=True
        )
        assert sum(isinstance(result, dict) for result in results) == 5
        assert all(isinstance(result, Forbidden) for result in results if not isinstance(result, dict))
        await is_used(client, pods="5")
