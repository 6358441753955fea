"""What every namespace has, on the embedded server: a service account and the certificate of the server's authority."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from support.eventually import eventually_async
from tonnage.apiserver import server
from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.client.program import Runtime
from tonnage.clock import SystemClock
from tonnage.controllers.controller_context import ControllerManagerConfiguration
from tonnage.controllers.program import ControllerManager
from tonnage.errors import NotFound
from tonnage.objects.core_v1 import ConfigMap, Namespace, ServiceAccount
from tonnage.objects.meta import Object

CONTROLLERS = (
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
    "namespace-controller",
    "garbage-collector-controller",
)
KINDS: tuple[tuple[type[Object], str], ...] = ((ServiceAccount, "default"), (ConfigMap, "kube-root-ca.crt"))


@asynccontextmanager
async def controllers_in(folder: Path) -> AsyncIterator[tuple[Client, bytes]]:
    """A server with the controllers at work: a client, and the certificate that it verifies the server with."""
    async with server.serve(server.ServerSettings(data_dir=folder, port=0)) as running:
        connection = kubeconfig.load(running.kubeconfig)
        async with (
            Client.connect(connection) as client,
            ControllerManager(
                Runtime(client, clock=SystemClock(), rng=random.Random(1)),
                ControllerManagerConfiguration(root_ca_pem=connection.cluster.ca_pem),
                controllers=CONTROLLERS,
            ) as manager,
        ):
            task = asyncio.create_task(manager.run())
            try:
                yield client, connection.cluster.ca_pem
            finally:
                task.cancel()
                await asyncio.wait((task,))


async def uid(client: Client, cls: type[Object], key: str) -> str:
    try:
        return (await client.get(cls, key)).uid
    except NotFound:
        return ""


async def test_every_namespace_has_a_service_account_and_the_root_ca_until_it_goes(tmp_path: Path) -> None:
    async with controllers_in(tmp_path) as (client, ca_pem):
        await client.create_doc({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
        for namespace in ("default", "kube-system", "shop"):
            for cls, name in KINDS:
                await eventually_async(partial(uid, client, cls, f"{namespace}/{name}"))
        assert dict((await client.get(ConfigMap, "shop/kube-root-ca.crt")).data) == {"ca.crt": ca_pem.decode()}

        for cls, name in KINDS:
            key = f"shop/{name}"
            was = await uid(client, cls, key)
            await client.delete(cls, key)

            async def is_back(cls: type[Object] = cls, key: str = key, was: str = was) -> bool:
                return await uid(client, cls, key) not in ("", was)

            await eventually_async(is_back)

        await client.patch(ConfigMap, "shop/kube-root-ca.crt", {"data": {"ca.crt": "mine", "more": "x"}})

        async def is_right() -> bool:
            found = await client.get(ConfigMap, "shop/kube-root-ca.crt")
            return dict(found.data) == {"ca.crt": ca_pem.decode()}

        await eventually_async(is_right)

        await client.delete(Namespace, "shop")

        async def is_gone() -> bool:
            return not await uid(client, Namespace, "shop")

        await eventually_async(is_gone)
        assert not [each for each in (await client.list(ServiceAccount)).items if each.namespace == "shop"]
