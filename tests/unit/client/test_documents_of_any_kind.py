"""Kinds that are in no table of ours, read as plain documents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tonnage.apiserver.server import ServerSettings, serve
from tonnage.client.config import kubeconfig
from tonnage.client.discovered_kinds import document_class
from tonnage.client.http import Client
from tonnage.client.informer import Informer
from tonnage.objects import codec
from tonnage.objects.codec import Bookmark, WatchChange, resource_of
from tonnage.objects.decode_errors import Unreadable
from tonnage.objects.document import encode
from tonnage.objects.meta import Document
from tonnage.objects.resources import Resource

LVM_NODES = Resource("local.openebs.io", "v1alpha1", "LVMNode", "lvmnodes", namespaced=True)
LVM_NODE = document_class(LVM_NODES)
DOC = {
    "apiVersion": "local.openebs.io/v1alpha1",
    "kind": "LVMNode",
    "metadata": {"name": "node-1", "namespace": "openebs", "uid": "u", "resourceVersion": "7"},
    "volumeGroups": [{"name": "vg", "free": "100Gi", "note": None}],
}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with (
        serve(ServerSettings(data_dir=tmp_path, port=0)) as server,
        Client.connect(kubeconfig.load(server.kubeconfig)) as client,
    ):
        yield client


def test_the_whole_document_is_kept_beside_the_metadata() -> None:
    read = codec.convert(LVM_NODE, DOC)
    assert (read.key, read.uid, read.doc) == ("openebs/node-1", "u", DOC)
    assert codec.to_doc(read) == DOC
    assert (document_class(LVM_NODES), resource_of(LVM_NODE)) == (LVM_NODE, LVM_NODES)


def test_lists_and_watches_are_read_as_those_of_other_kinds() -> None:
    item = {field: DOC[field] for field in ("metadata", "volumeGroups")}  # items do not repeat their kind
    page = codec.decode_list(LVM_NODE, encode({"kind": "LVMNodeList", "items": [item]}))
    assert [each.doc["volumeGroups"] for each in page.items] == [DOC["volumeGroups"]]
    assert codec.to_doc(page.items[0])["kind"] == "LVMNode"
    event = codec.decode_event(LVM_NODE, encode({"type": "MODIFIED", "object": DOC}))
    assert isinstance(event, WatchChange) and event.object.doc == DOC
    bookmark = {"type": "BOOKMARK", "object": {"kind": "LVMNode", "metadata": {"resourceVersion": "9"}}}
    assert codec.decode_event(LVM_NODE, encode(bookmark)) == Bookmark("9")


def test_metadata_of_another_shape_is_refused_with_its_field() -> None:
    with pytest.raises(Unreadable, match=r"metadata\.labels"):
        codec.convert(LVM_NODE, {**DOC, "metadata": {"name": "a", "labels": {"x": 1}}})


async def test_an_informer_follows_a_kind_by_its_resource_alone(client: Client) -> None:
    maps = Resource("", "v1", "ConfigMap", "configmaps", True)  # a row of nobody's table
    await client.create_doc({"metadata": {"name": "a", "namespace": "default"}, "data": {"x": "1"}}, kind=maps)
    async with Informer(client, document_class(maps), namespace="default") as informer:
        await informer.wait_synced()
        found = informer.get("default/a")
    assert isinstance(found, Document) and found.doc["data"] == {"x": "1"}
