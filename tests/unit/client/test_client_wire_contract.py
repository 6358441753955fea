"""The server in memory answers as the real one does: one suite over both, so that the tests on it mean something."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
from client_wire import MemoryServer

from support import compaction
from tonnage.apiserver.server import ServerSettings, serve
from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.errors import AlreadyExists, Conflict, Expired, NotFound
from tonnage.objects.codec import Bookmark, WatchChange, WatchEvent, WatchFailure, decode_event
from tonnage.objects.core_v1 import ConfigMap
from tonnage.objects.document import Doc


class Servers:
    """A client, and the one thing that is done behind its back."""

    def __init__(self, client: Client, compact, *, keeps_history: bool = True) -> None:
        self.client = client
        self.compact = compact
        self.keeps_history = keeps_history


@pytest.fixture(params=["memory", "embedded"])
async def at(request, tmp_path) -> AsyncIterator[Servers]:
    if request.param == "memory":
        server = MemoryServer()

        async def compact() -> None:
            server.compact()

        yield Servers(Client(server, rng=random.Random(1)), compact, keeps_history=False)
        return
    async with (
        serve(ServerSettings(data_dir=tmp_path, port=0)) as running,
        Client.connect(kubeconfig.load(running.kubeconfig)) as client,
    ):

        async def compact() -> None:
            await compaction.compact(running.registry.store, running.registry.store.revision)

        yield Servers(client, compact)


def config_map(name: str, value: str = "1") -> Doc:
    meta = {"namespace": "default", "name": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"v": value}}


async def events(client: Client, count: int, **options: Any) -> list[WatchEvent[ConfigMap]]:
    """The first so many events of a watch."""
    found: list[WatchEvent[ConfigMap]] = []
    async with client.watch(ConfigMap, namespace="default", **options) as lines:
        async for batch in lines:
            found += [decode_event(ConfigMap, line) for line in batch]
            if len(found) >= count:
                break
    return found[:count]


def words(found: list[WatchEvent[ConfigMap]]) -> list[str]:
    told = []
    for event in found:
        if isinstance(event, WatchChange):
            told.append(f"{event.type} {event.object.name} {event.object.data.get('v')}")
        elif isinstance(event, Bookmark):
            told.append(f"BOOKMARK {event.ends_initial_events}")
    return told


async def test_what_is_created_can_be_read_and_has_a_version_and_a_uid(at):
    made = await at.client.create_doc(config_map("a"))
    read = await at.client.get(ConfigMap, "default/a")
    assert read.data == {"v": "1"} and read.uid
    assert read.metadata.resource_version == made["metadata"]["resourceVersion"]


async def test_versions_grow_and_the_uid_stays(at):
    made = await at.client.create_doc(config_map("a"))
    changed = await at.client.update_doc({**made, "data": {"v": "2"}})
    patched = await at.client.patch_doc(ConfigMap, "default/a", {"data": {"w": "3"}})
    versions = [int(doc["metadata"]["resourceVersion"]) for doc in (made, changed, patched)]
    assert versions == sorted(set(versions))
    assert {doc["metadata"]["uid"] for doc in (made, changed, patched)} == {made["metadata"]["uid"]}
    assert patched["data"] == {"v": "2", "w": "3"}


async def test_refusals_are_of_the_same_kind_and_wording(at):
    await at.client.create_doc(config_map("a"))
    with pytest.raises(AlreadyExists) as exists:
        await at.client.create_doc(config_map("a"))
    assert exists.value.message == 'configmaps "a" already exists'
    with pytest.raises(NotFound) as missing:
        await at.client.get(ConfigMap, "default/b")
    assert (missing.value.message, missing.value.name, missing.value.kind) == (
        'configmaps "b" not found',
        "b",
        "configmaps",
    )
    stale = await at.client.get_doc(ConfigMap, "default/a")
    await at.client.update_doc({**stale, "data": {"v": "2"}})
    with pytest.raises(Conflict) as conflict:
        await at.client.update_doc({**stale, "data": {"v": "3"}})
    assert conflict.value.message == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes to '
        "the latest version and try again"
    )


async def test_a_list_in_pages_is_the_whole_list(at):
    for number in range(5):
        await at.client.create_doc(config_map(f"c{number}"))
    by_page = await at.client.list(ConfigMap, namespace="default", page_size=2)
    at_once = await at.client.list(ConfigMap, namespace="default", page_size=0)
    assert by_page == at_once and [item.name for item in at_once.items] == ["c0", "c1", "c2", "c3", "c4"]


async def test_a_list_can_show_an_earlier_moment_in_pages_too(at):
    if not at.keeps_history:
        pytest.skip("the memory server keeps no history")
    for number in range(3):
        await at.client.create_doc(config_map(f"c{number}"))
    before = await at.client.list(ConfigMap, namespace="default")
    await at.client.create_doc(config_map("c9"))
    await at.client.delete(ConfigMap, "default/c0")
    for page_size in (0, 2):
        found = await at.client.list(ConfigMap, namespace="default", at=before.resource_version, page_size=page_size)
        assert found == before
    await at.compact()
    with pytest.raises(Expired):
        await at.client.list(ConfigMap, namespace="default", at=before.resource_version)


async def test_a_watch_goes_on_from_a_version(at):
    first = await at.client.create_doc(config_map("a"))
    await at.client.patch_doc(ConfigMap, "default/a", {"data": {"v": "2"}})
    await at.client.create_doc(config_map("b"))
    await at.client.delete(ConfigMap, "default/a")
    version = first["metadata"]["resourceVersion"]
    found = await events(at.client, 3, resource_version=version)
    assert words(found) == ["MODIFIED a 2", "ADDED b 1", "DELETED a 2"]
    versions = [int(event.object.metadata.resource_version) for event in found]
    assert versions == sorted(set(versions)) and versions[0] > int(version)


async def test_a_watch_list_sends_the_state_and_ends_it_with_a_bookmark(at):
    await at.client.create_doc(config_map("a"))
    last = await at.client.create_doc(config_map("b"))
    found = await events(at.client, 3, send_initial_events=True)
    assert words(found) == ["ADDED a 1", "ADDED b 1", "BOOKMARK True"]
    assert int(found[-1].resource_version) >= int(last["metadata"]["resourceVersion"])


async def test_a_watch_from_what_is_forgotten_is_told_so_and_ends(at):
    first = await at.client.create_doc(config_map("a"))
    for value in "23":
        await at.client.patch_doc(ConfigMap, "default/a", {"data": {"v": value}})
    await at.compact()
    (failure,) = await events(at.client, 1, resource_version=first["metadata"]["resourceVersion"])
    assert isinstance(failure, WatchFailure)
    assert (failure.status.code, failure.status.reason) == (410, "Expired")
    assert failure.status.message.startswith("too old resource version: ")
