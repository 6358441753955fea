"""Capacity objects on a real server while no informer tells of them: none is made twice, ghosts are found out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.virtual_clock import VirtualClock
from tonnage.apiserver.server import ServerSettings, serve
from tonnage.client.cache import Cache
from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.client.throttle import TokenBucket
from tonnage.errors import Conflict
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.provisioner.capacity.controller import CapacityWriter, PublishedCapacities
from tonnage.provisioner.capacity.objects import ReportedCapacity, Segment, WorkItem

GI = 1 << 30
QUESTION = WorkItem("pools", Segment.of({"node": "node-1"}))


class CapacityWriterRig:
    """A writer whose informer never says a word."""

    def __init__(self, client: Client, limit: TokenBucket | None = None) -> None:
        self.client = client
        self.clock = VirtualClock()
        self.published = PublishedCapacities(Cache(CSIStorageCapacity))
        self.writer = CapacityWriter(
            client=client,
            published=self.published,
            namespace="default",
            labels={},
            owner=None,
            limit=limit,
            clock=self.clock,
        )

    async def write(self, found: CSIStorageCapacity | None, gi: int) -> CSIStorageCapacity:
        return await self.writer.write(QUESTION, found, ReportedCapacity(gi * GI))


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[CapacityWriterRig]:
    async with (
        serve(ServerSettings(data_dir=tmp_path, port=0)) as server,
        Client.connect(kubeconfig.load(server.kubeconfig)) as client,
    ):
        yield CapacityWriterRig(client)


async def test_what_was_written_is_known_at_once_and_changed_on_top_of_that(rig: CapacityWriterRig):
    await rig.write(None, 5)
    (known,) = rig.published.about(QUESTION.key)
    again = await rig.write(known, 4)
    assert [str(each.capacity) for each in rig.published.about(QUESTION.key)] == ["4Gi"]
    assert await rig.writer.confirmed(again) == again
    with pytest.raises(Conflict):
        await rig.write(known, 3)  # on top of what it was before


async def test_what_somebody_deleted_before_anyone_was_told_is_found_out(rig: CapacityWriterRig):
    made = await rig.write(None, 5)
    await rig.client.delete(CSIStorageCapacity, made.key)
    assert await rig.writer.confirmed(made) is None
    assert rig.published.about(QUESTION.key) == []


async def test_what_is_already_gone_needs_no_deleting(rig: CapacityWriterRig):
    made = await rig.write(None, 5)
    await rig.writer.delete(made)
    await rig.writer.delete(made)
    assert rig.published.about(QUESTION.key) == []


async def test_a_later_object_of_the_same_name_is_not_deleted_for_its_predecessor(rig: CapacityWriterRig):
    made = await rig.write(None, 5)
    await rig.client.delete(CSIStorageCapacity, made.key)
    metadata = {"name": made.name, "namespace": "default"}
    doc = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity", "metadata": metadata}
    await rig.client.create_doc({**doc, "storageClassName": "pools"})
    with pytest.raises(Conflict):
        await rig.writer.delete(made)
    assert (await rig.client.get(CSIStorageCapacity, made.key)).uid != made.uid


async def test_an_unchanged_answer_is_not_sent(rig: CapacityWriterRig):
    made = await rig.write(None, 5)
    assert await rig.write(made, 5) is made
