"""Custom resources in the life of a server: restarts, watches that end, informers that go on, keys of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from support.eventually import eventually_async
from tonnage.apiserver.server import Server, ServerSettings, serve
from tonnage.client.config import kubeconfig
from tonnage.client.discovered_kinds import document_class
from tonnage.client.http import Client
from tonnage.client.informer import Informer
from tonnage.errors import NotFound, TonnageError
from tonnage.objects.resources import BY_PLURAL, Resource

CRDS = BY_PLURAL["apiextensions.k8s.io", "customresourcedefinitions"]
BOXES = Resource("example.com", "v1", "Box", "boxes", namespaced=True)
NAME = "boxes.example.com"


def definition(*, default: str = "red", **names: Any) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"colour": {"type": "string", "default": default}}},
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "boxes", "kind": "Box", **names},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def box(name: str = "a", **meta: Any) -> dict[str, Any]:
    head = {"name": name, "namespace": "default", **meta}
    return {"apiVersion": "example.com/v1", "kind": "Box", "metadata": head, "spec": {}}


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[tuple[Server, Client]]:
    async with (
        serve(ServerSettings(data_dir=folder, port=0)) as server,
        Client.connect(kubeconfig.load(server.kubeconfig)) as client,
    ):
        yield server, client


async def is_gone(client: Client, kind: Resource, key: str) -> bool:
    try:
        await client.get_doc(kind, key)
    except NotFound:
        return True
    return False


async def test_an_object_can_be_made_as_soon_as_its_definition_was_answered(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        await client.create_doc(definition())
        made = await client.create_doc(box(), kind=BOXES)
    assert made["spec"] == {"colour": "red"}


async def test_definitions_and_objects_are_served_again_after_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        await client.create_doc(definition())
        made = await client.create_doc(box(), kind=BOXES)
    async with running(tmp_path) as (_, client):
        assert await client.get_doc(BOXES, "default/a") == made
        assert await client.list_docs(BOXES) == (made,)


async def test_a_deletion_that_was_under_way_goes_on_after_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        await client.create_doc(definition())
        await client.create_doc(box(finalizers=["example.com/wait"]), kind=BOXES)
        await client.delete(CRDS, NAME)
    async with running(tmp_path) as (_, client):
        assert not await is_gone(client, CRDS, NAME)
        await client.patch_doc(BOXES, "default/a", {"metadata": {"finalizers": None}})
        await eventually_async(lambda: is_gone(client, CRDS, NAME))


async def test_a_watch_ends_with_its_definition_after_the_last_object(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        await client.create_doc(definition())
        await client.create_doc(box(), kind=BOXES)
        lines: list[bytes] = []
        async with client.watch(BOXES, send_initial_events=True) as batches:
            lines += await anext(batches)
            await client.delete(CRDS, NAME)
            async with asyncio.timeout(60):  # the stream ends by itself
                async for batch in batches:
                    lines += batch
        assert [line.partition(b'"type":"')[2].partition(b'"')[0] for line in lines if b"BOOKMARK" not in line] == [
            b"ADDED",
            b"DELETED",
        ]


async def test_an_informer_follows_through_a_change_of_the_definition(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        await client.create_doc(definition())
        await client.create_doc(box(), kind=BOXES)
        async with Informer(client, document_class(BOXES), first_retry_s=0.05) as boxes:
            await boxes.wait_synced()
            known = boxes.get("default/a")
            assert known is not None and known.doc["spec"] == {"colour": "red"}
            changed = definition(default="blue")
            await client.patch_doc(CRDS, NAME, {"spec": {"versions": changed["spec"]["versions"]}})
            await client.create_doc(box("b"), kind=BOXES)

            def colour() -> str:
                found = boxes.get("default/b")
                return found.doc["spec"]["colour"] if found is not None else ""

            await eventually_async(lambda: colour() == "blue")


async def test_an_informer_waits_for_a_kind_that_comes_later(tmp_path: Path) -> None:
    async with (
        running(tmp_path) as (_, client),
        Informer(client, document_class(BOXES), first_retry_s=0.05, max_retry_s=0.2) as boxes,
    ):
        await eventually_async(lambda: isinstance(boxes.last_failure, TonnageError))
        assert not boxes.is_synced
        await client.create_doc(definition())
        await client.create_doc(box(), kind=BOXES)
        await eventually_async(lambda: "default/a" in boxes)


async def test_a_definition_of_a_built_in_resource_takes_nothing_from_it(tmp_path: Path) -> None:
    doc = definition(plural="csinodes", kind="CSINode")
    doc["metadata"] = {
        "name": "csinodes.storage.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "https://example.com/why"},
    }
    doc["spec"] |= {"group": "storage.k8s.io", "scope": "Cluster"}
    node = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n"}, "spec": {"drivers": []}}
    async with running(tmp_path) as (_, client):
        await client.create_doc(node)
        await client.create_doc(doc)
        assert (await client.get_doc(BY_PLURAL["storage.k8s.io", "csinodes"], "n"))["spec"] == {"drivers": []}
        await client.delete(CRDS, "csinodes.storage.k8s.io")
        await eventually_async(lambda: is_gone(client, CRDS, "csinodes.storage.k8s.io"))
        assert not await is_gone(client, BY_PLURAL["storage.k8s.io", "csinodes"], "n")


async def test_a_custom_kind_may_have_the_name_of_another_one(tmp_path: Path) -> None:
    doc = definition(plural="pods", kind="Pod")
    doc["metadata"]["name"] = "pods.example.com"
    pods = Resource("example.com", "v1", "Pod", "pods", namespaced=True)
    async with running(tmp_path) as (_, client):
        await client.create_doc(doc)
        made = await client.create_doc({**box(), "kind": "Pod"}, kind=pods)
        assert made["spec"] == {"colour": "red"}
        assert await client.list_docs(BY_PLURAL["", "pods"]) == ()
        events = {**doc, "metadata": {"name": "events.example.com"}}
        events["spec"] = {**doc["spec"], "names": {"plural": "events", "kind": "Event"}}
        await client.create_doc(events)
        event = Resource("example.com", "v1", "Event", "events", namespaced=True)
        assert (await client.create_doc({**box(), "kind": "Event"}, kind=event))["spec"] == {"colour": "red"}


async def test_a_stored_custom_object_is_counted_as_the_others_are(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        await client.create_doc(definition())
        await client.create_doc(box(), kind=BOXES)
        metrics = (await client.raw("GET", "/metrics")).decode()
        assert 'apiserver_storage_objects{resource="boxes.example.com"} 1.0' in metrics
