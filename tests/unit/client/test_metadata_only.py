"""Any kind, read for its metadata alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tonnage.apiserver.server import ServerSettings, serve
from tonnage.client.config import kubeconfig
from tonnage.client.discovered_kinds import metadata_class, served_resources
from tonnage.client.http import Client
from tonnage.client.informer import Informer
from tonnage.objects import codec
from tonnage.objects.codec import class_of, resource_of
from tonnage.objects.core_v1 import Secret
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.resources import BY_PLURAL, RESOURCES

SECRETS, CLAIMS = BY_PLURAL["", "secrets"], BY_PLURAL["resource.k8s.io", "resourceclaims"]


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with (
        serve(ServerSettings(data_dir=tmp_path, port=0)) as server,
        Client.connect(kubeconfig.load(server.kubeconfig)) as client,
    ):
        yield client


def test_a_kind_without_a_class_has_a_head() -> None:
    head = metadata_class(CLAIMS)
    read = codec.decode(
        head, b'{"kind": "ResourceClaim", "metadata": {"name": "a", "uid": "u"}, "spec": {"devices": 1}}'
    )
    assert (read.name, read.uid, codec.to_doc(read)["apiVersion"]) == ("a", "u", "resource.k8s.io/v1")


def test_a_head_does_not_take_the_place_of_the_class() -> None:
    assert metadata_class(SECRETS) is metadata_class(SECRETS)
    assert (class_of("v1", "Secret"), resource_of(metadata_class(SECRETS))) == (Secret, SECRETS)


async def test_an_informer_of_heads_knows_names_and_no_secrets(client: Client) -> None:
    await client.create(Secret(metadata=ObjectMeta(name="s", namespace="default"), data={"key": b"hidden"}))
    async with Informer(client, metadata_class(SECRETS)) as heads:
        await heads.wait_synced()
        found = heads.get("default/s")
    assert found is not None
    assert "hidden" not in repr(found) and "aGlkZGVu" not in repr(found)  # nor in base64


async def test_the_server_says_which_kinds_it_has(client: Client) -> None:
    assert await served_resources(client) == RESOURCES
