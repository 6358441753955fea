"""From the provisioner's pod up to what owns its capacity objects, on a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tonnage.apiserver.server import ServerSettings, serve
from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.client.program import NoOwner, find_owner
from tonnage.errors import NotFound
from tonnage.objects.meta import OwnerReference

SELECTOR = {"matchLabels": {"app": "driver"}}
TEMPLATE = {"metadata": {"labels": {"app": "driver"}}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with (
        serve(ServerSettings(data_dir=tmp_path, port=0)) as server,
        Client.connect(kubeconfig.load(server.kubeconfig)) as ready,
    ):
        yield ready


async def make(
    client: Client, api_version: str, kind: str, name: str, spec: Any, *owners: OwnerReference
) -> OwnerReference:
    references = [
        {
            "apiVersion": each.api_version,
            "kind": each.kind,
            "name": each.name,
            "uid": each.uid,
            "controller": each.controller,
        }
        for each in owners
    ]
    metadata = {"name": name, "namespace": "default", "ownerReferences": references, "labels": {"app": "driver"}}
    made = await client.create_doc({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})
    return OwnerReference(api_version=api_version, kind=kind, name=name, uid=made["metadata"]["uid"], controller=True)


async def test_each_level_is_one_step_up_the_chain_of_controllers(client: Client):
    workload = {"replicas": 1, "selector": SELECTOR, "template": TEMPLATE}
    deployment = await make(client, "apps/v1", "Deployment", "driver", workload)
    replicas = await make(client, "apps/v1", "ReplicaSet", "driver-1", workload, deployment)
    bystander = OwnerReference(api_version="v1", kind="ConfigMap", name="x", uid="u-x")
    pod = await make(client, "v1", "Pod", "driver-1-abc", TEMPLATE["spec"], bystander, replicas)

    async def at(level: int) -> OwnerReference | None:
        return await find_owner(client, namespace="default", pod_name="driver-1-abc", level=level)

    assert [await at(level) for level in (-1, 0, 1, 2)] == [None, pod, replicas, deployment]
    with pytest.raises(NoOwner) as ended:
        await at(3)
    assert ended.value.message == (
        'apps/v1/Deployment "driver" in namespace "default" has no controlling owner, '
        "cannot unwind the ownership further"
    )


async def test_the_last_step_needs_no_leave_to_read_the_owner(client: Client):
    # The StatefulSet is not there to be read at all, and its kind need not be known.
    unseen = OwnerReference(api_version="example.com/v1", kind="DriverSet", name="driver", uid="u-1", controller=True)
    await make(client, "v1", "Pod", "driver-0", TEMPLATE["spec"], unseen)
    assert await find_owner(client, namespace="default", pod_name="driver-0", level=1) == unseen
    with pytest.raises(NoOwner) as unknown:
        await find_owner(client, namespace="default", pod_name="driver-0", level=2)
    assert unknown.value.message == (
        'example.com/v1/DriverSet "driver" in namespace "default" is of a kind that cannot be looked up'
    )


async def test_a_pod_that_is_not_there_is_an_error(client: Client):
    with pytest.raises(NotFound):
        await find_owner(client, namespace="default", pod_name="nobody", level=0)
