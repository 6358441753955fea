"""Custom kinds and the controllers that look after all kinds: namespaces empty them, owners take them along."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from support.eventually import eventually_async
from tonnage.apiserver import server
from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.client.program import Runtime
from tonnage.clock import SystemClock
from tonnage.controllers.controller_context import ControllerManagerConfiguration
from tonnage.controllers.program import ControllerManager
from tonnage.errors import NotFound
from tonnage.objects.resources import BY_PLURAL, Resource

CRDS, MAPS = BY_PLURAL["apiextensions.k8s.io", "customresourcedefinitions"], BY_PLURAL["", "configmaps"]
NAMESPACES = BY_PLURAL["", "namespaces"]
BOXES = Resource("example.com", "v1", "Box", "boxes", namespaced=True)
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "boxes.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "boxes", "kind": "Box", "listKind": "PileOfBoxes"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}},
            {"name": "v1beta1", "served": True, "storage": False, "schema": {"openAPIV3Schema": {"type": "object"}}},
        ],
    },
}


@asynccontextmanager
async def at_work(folder: Path) -> AsyncIterator[Client]:
    async with (
        server.serve(server.ServerSettings(data_dir=folder, port=0)) as running,
        Client.connect(kubeconfig.load(running.kubeconfig)) as client,
        ControllerManager(
            Runtime(client, clock=SystemClock(), rng=random.Random(1)),
            ControllerManagerConfiguration(),
            controllers=("namespace-controller", "garbage-collector-controller"),
        ) as manager,
    ):
        task = asyncio.create_task(manager.run())
        try:
            yield client
        finally:
            task.cancel()
            await asyncio.wait((task,))


def box(name: str, namespace: str = "default", **meta: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Box", "metadata": {"name": name, "namespace": namespace, **meta}}


def config_map(name: str, **meta: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default", **meta}}


def owned_by(owner: dict[str, Any], version: str = "") -> list[dict[str, Any]]:
    meta = owner["metadata"]
    return [
        {
            "apiVersion": version or owner["apiVersion"],
            "kind": owner["kind"],
            "name": meta["name"],
            "uid": meta["uid"],
            "blockOwnerDeletion": True,
        }
    ]


async def is_gone(client: Client, kind: Resource, key: str) -> bool:
    try:
        await client.get_doc(kind, key)
    except NotFound:
        return True
    return False


async def test_a_namespace_takes_its_custom_objects_along(tmp_path: Path) -> None:
    async with at_work(tmp_path) as client:
        await client.create_doc(DEFINITION)
        await client.create_doc({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
        await client.create_doc(box("a", "shop"), kind=BOXES)
        await client.create_doc(box("kept"), kind=BOXES)
        await client.delete(NAMESPACES, "shop")
        await eventually_async(lambda: is_gone(client, NAMESPACES, "shop"))
        assert await is_gone(client, BOXES, "shop/a")
        assert not await is_gone(client, BOXES, "default/kept")


async def test_owners_and_dependents_of_custom_kinds_are_followed(tmp_path: Path) -> None:
    async with at_work(tmp_path) as client:
        await client.create_doc(DEFINITION)
        owner = await client.create_doc(box("owner"), kind=BOXES)
        for name, version in (("same", ""), ("other-version", "example.com/v1beta1")):
            await client.create_doc(config_map(name, ownerReferences=owned_by(owner, version)))
        root = await client.create_doc(config_map("root"))
        await client.create_doc(box("dependent", ownerReferences=owned_by(root)), kind=BOXES)
        await client.delete(BOXES, "default/owner", propagation="Background")
        for name in ("same", "other-version"):
            await eventually_async(partial(is_gone, client, MAPS, f"default/{name}"))
        await client.delete(MAPS, "default/root", propagation="Foreground")
        await eventually_async(lambda: is_gone(client, MAPS, "default/root"))
        assert await is_gone(client, BOXES, "default/dependent")


async def test_what_custom_objects_own_goes_with_their_definition(tmp_path: Path) -> None:
    async with at_work(tmp_path) as client:
        await client.create_doc(DEFINITION)
        owner = await client.create_doc(box("owner"), kind=BOXES)
        await client.create_doc(config_map("dependent", ownerReferences=owned_by(owner)))
        # Seen by the garbage collector: a second owner that never was is dropped from what is kept for the first.
        stranger = {**owned_by(owner)[0], "name": "nobody", "uid": "gone"}
        await client.create_doc(config_map("seen", ownerReferences=[*owned_by(owner), stranger]))

        async def owners() -> int:
            found = await client.get_doc(MAPS, "default/seen")
            return len(found["metadata"]["ownerReferences"])

        await eventually_async(owners, holds=lambda count: count == 1)
        await client.delete(CRDS, "boxes.example.com")
        for name in ("dependent", "seen"):
            await eventually_async(partial(is_gone, client, MAPS, f"default/{name}"))
        assert await is_gone(client, CRDS, "boxes.example.com")


async def test_dependents_stay_when_only_a_version_is_no_longer_served(tmp_path: Path) -> None:
    async with at_work(tmp_path) as client:
        await client.create_doc(DEFINITION)
        owner = await client.create_doc(box("owner"), kind=BOXES)
        await client.create_doc(config_map("dependent", ownerReferences=owned_by(owner)))
        versions = [{**version, "served": False} for version in DEFINITION["spec"]["versions"]]  # type: ignore[index]  # a literal
        await client.patch_doc(CRDS, "boxes.example.com", {"spec": {"versions": versions}})
        await eventually_async(lambda: is_gone(client, BOXES, "default/owner"))
        # The collector is at work: what really has lost its owner goes.
        await client.create_doc(config_map("orphan", ownerReferences=owned_by({**config_map("none", uid="gone")})))
        await eventually_async(lambda: is_gone(client, MAPS, "default/orphan"))
        assert not await is_gone(client, MAPS, "default/dependent")
