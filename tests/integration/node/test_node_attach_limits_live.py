"""How many volumes a node says it takes, over real protocols, and what it does when there is no slot left."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from typing import Any

import grpc
import pytest
from node_questions import has_count, has_in_use, play, was_told
from node_stage import DRIVER, NodeStage

from support.eventually import eventually_async
from support.http import ApiClient
from tonnage.clock import SystemClock, rfc3339
from tonnage.gates import Gates
from tonnage.node.settings import ATTACH_ERROR_GRACE_S
from tonnage.objects.storage_v1 import CSINode

EXHAUSTED = 8
OTHER = "other.example"
NO_SLOT = "rpc error: code = ResourceExhausted desc = no slot left"
REFUSED_CHANGES: dict[str, dict[str, dict[str, Any]]] = {
    "a count that an old server does not let change": {"count.example": {"max_volumes": 5}},
    "a node id and a label": {
        "id.example": {"node_id": "another"},
        "label.example": {"topology": {"topology.label.example/node": "elsewhere"}},
    },
}
"""By driver, what it says when the node starts again, and the server refuses."""


def no_slot() -> dict[str, object]:
    failure = {"time": rfc3339(SystemClock().now()), "message": NO_SLOT, "errorCode": EXHAUSTED}
    return {"attached": False, "attachError": failure}


async def updates_by_the_keps_query(stage: NodeStage) -> float:
    """apiserver_request_total{group="storage.k8s.io", resource="csinodes", verb=~"PATCH|UPDATE", code="200"}"""
    api = ApiClient(stage.url, (stage.folder / "data/token").read_text().strip())
    text = (await asyncio.to_thread(api.get, "/metrics", accept="text/plain")).body
    asked = ('group="storage.k8s.io"', 'resource="csinodes"', 'code="200"')
    lines = [line for line in text.splitlines() if line.startswith("apiserver_request_total{")]
    found = [line for line in lines if all(each in line for each in asked)]
    return sum(float(line.split()[-1]) for line in found if re.search('verb="(PATCH|UPDATE)"', line))


def test_a_slot_that_is_given_back_within_the_grace_is_the_pods_own():
    async def story(stage: NodeStage) -> None:
        stage.settings = dataclasses.replace(stage.settings, attach_error_grace_s=ATTACH_ERROR_GRACE_S)
        driver = await stage.driver(max_volumes=4)
        await stage.csi_driver(period_s=3600)
        await stage.start()
        await eventually_async(lambda: has_count(stage, 4), "the driver is registered")
        driver.max_volumes = 1
        await stage.volume("data")
        await stage.pod("db", "data")
        await stage.attach("data", status=no_slot())
        await eventually_async(lambda: has_count(stage, 1), "the limit is corrected at once")
        assert await updates_by_the_keps_query(stage) == 2  # the driver's entry, and its new count
        assert await stage.phase("db") == "Pending", "and the pod may wait for a slot"
        await stage.attach("data")
        await stage.becomes("db", "Running")

    play(story)


def test_an_attach_without_a_slot_corrects_the_limit_tells_the_pod_and_fails_it():
    async def story(stage: NodeStage) -> None:
        driver = await stage.driver(max_volumes=8)
        await stage.csi_driver(period_s=600)
        await stage.start()
        await eventually_async(lambda: has_count(stage, 8), "the driver is registered")
        await stage.volume("data")
        await stage.pod("db", "data")
        driver.max_volumes = 2
        await stage.attach("data", status=no_slot())
        pod = await stage.becomes("db", "Failed")
        assert pod is not None
        account = "unmounted volumes=[v-data], unattached volumes=[v-data], failed to process volumes=[]"
        told = f"Node has reached its volume attachment limit, rejecting pod. {account}: {NO_SLOT}"
        assert (pod.status.reason, pod.status.message) == (
            "VolumeAttachmentLimitExceeded",
            f"Pod was rejected: {told}",
        )
        assert [each.type for each in pod.status.conditions] == ["PodScheduled"]
        assert await stage.count() == 2
        await eventually_async(lambda: was_told(stage, "db", "VolumeAttachmentLimitExceeded", told), "the pod was told")
        await eventually_async(lambda: has_in_use(stage, []), "the volume may be detached")
        labels = {"driver_name": DRIVER, "trigger": "exhausted"}
        assert stage.measures.get_sample_value("csi_node_updates_total", labels) == 1
        reason = {"reason": "VolumeAttachmentLimitExceeded"}
        assert stage.measures.get_sample_value("kubelet_admission_rejections_total", reason) == 1

    play(story)


@pytest.mark.parametrize("changes", REFUSED_CHANGES.values(), ids=REFUSED_CHANGES.keys())
def test_drivers_whose_updates_are_refused_do_not_keep_others_from_registering(
    changes: dict[str, dict[str, Any]], caplog: pytest.LogCaptureFixture
):
    def right(name: str) -> dict[str, Any]:
        return {"node_id": "node-1", "max_volumes": 8, "topology": {f"topology.{name}/node": "node-1"}}

    async def story(stage: NodeStage) -> None:
        addresses = (f"unix://{stage.folder}/{{node}}/{name}.sock" for name in (*changes, OTHER))
        stage.settings = dataclasses.replace(stage.settings, csi_addresses=tuple(addresses))
        drivers = {name: await stage.driver(name=name, socket=name, **right(name)) for name in changes}

        def say(name: str, fields: dict[str, Any]) -> None:
            for field, value in fields.items():
                setattr(drivers[name], field, value)

        async def all_have_eight() -> bool:
            return [await stage.count(name=name) for name in changes] == [8] * len(changes)

        await stage.start()
        await eventually_async(all_have_eight, "the drivers are registered")
        await stage.stop()
        for name, fields in changes.items():
            say(name, fields)
        await stage.driver(name=OTHER, socket=OTHER, max_volumes=3)
        await stage.start()
        await eventually_async(lambda: has_count(stage, 3, name=OTHER), "the other driver is registered")
        assert await all_have_eight()
        await eventually_async(lambda: len(refusals_logged(caplog)) >= len(changes), "they are told")
        await asyncio.sleep(1.5)  # it was tried again after a second
        told = refusals_logged(caplog)
        assert len(told) == len(changes) and all("node-1" in each for each in told)
        assert all(any(name in each for each in told) for name in changes)
        # It is these drivers' trouble alone: what they can do, they do again.
        for name in changes:
            say(name, right(name))
        await stage.stop()
        await stage.start()
        assert await all_have_eight()

    is_old = "count.example" in changes
    play(story, server_gates=Gates().with_(MutableCSINodeAllocatableCount=False) if is_old else None)


def refusals_logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [each for each in caplog.records if "could not be registered" in each.getMessage()]
    return [str(vars(each)) for each in found]


def test_without_a_period_a_count_that_somebody_changed_is_left_alone():
    async def story(stage: NodeStage) -> None:
        await stage.driver(max_volumes=8)
        await stage.csi_driver()
        stage.settings = dataclasses.replace(stage.settings, status_update_s=0.1)
        await stage.start()
        await eventually_async(lambda: has_count(stage, 8), "the driver is registered")
        for count in (3, None):
            doc = await stage.client.get_doc(CSINode, "node-1")
            doc["spec"]["drivers"][0]["allocatable"] = {} if count is None else {"count": count}
            await stage.client.update_doc(doc)
            await asyncio.sleep(0.5)  # the node has looked several times
            assert await stage.count() == count
        # An entry that is missing is the driver's registration, and comes back with what the driver says.
        doc = await stage.client.get_doc(CSINode, "node-1")
        doc["spec"]["drivers"] = []
        await stage.client.update_doc(doc)
        await eventually_async(lambda: has_count(stage, 8), "the driver is registered again")

    play(story)


def test_pods_that_are_sent_again_to_a_node_without_slots_are_failed_at_growing_intervals():
    async def story(stage: NodeStage) -> None:
        await stage.driver(max_volumes=1)
        await stage.csi_driver(period_s=600)
        await stage.start()
        await eventually_async(lambda: has_count(stage, 1), "the driver is registered")
        clock, failed_s = SystemClock(), []
        for name in ("first", "second", "third"):
            await stage.volume(name)
            await stage.pod(name, name)
            await stage.attach(name, status=no_slot())
            await stage.becomes(name, "Failed")
            failed_s.append(clock.monotonic())
        # The limit says 1 all the time: at once, then 1 s after the first, 2 s after the second.
        assert failed_s[1] - failed_s[0] > 0.8 and failed_s[2] - failed_s[1] > 1.8
        # The next one waits 4 s; a slot that comes meanwhile is its own, and the refusal after that the first again.
        await stage.volume("fourth")
        await stage.pod("fourth", "fourth")
        await stage.attach("fourth", status=no_slot())
        await stage.attach("fourth")
        await stage.becomes("fourth", "Running")
        began_s = clock.monotonic()
        await stage.volume("fifth")
        await stage.pod("fifth", "fifth")
        await stage.attach("fifth", status=no_slot())
        await stage.becomes("fifth", "Failed")
        assert clock.monotonic() - began_s < 4

    play(story)


def test_without_a_period_or_without_the_gate_an_attach_error_changes_nothing():
    async def story(stage: NodeStage) -> None:
        driver = await stage.driver(max_volumes=8)
        await stage.csi_driver(period_s=None if stage.settings.gates.MutableCSINodeAllocatableCount else 10)
        program = await stage.start()
        await eventually_async(lambda: has_count(stage, 8), "the driver is registered")
        await stage.volume("data")
        await stage.pod("db", "data")
        driver.max_volumes = 2
        await stage.attach("data", status=no_slot())
        # Attached in the end, it runs: it has waited all the time.
        await stage.attach("data")
        await stage.becomes("db", "Running")
        assert await stage.count() == 8
        assert program.kubelets["node-1"].limits.running == {}

    play(story)
    play(story, gates=Gates().with_(MutableCSINodeAllocatableCount=False))


def test_a_driver_that_attaches_nothing_may_say_the_same_when_it_stages():
    async def story(stage: NodeStage) -> None:
        driver = await stage.driver(max_volumes=3)
        await stage.csi_driver(period_s=600, attachRequired=False)
        await stage.start()
        await eventually_async(lambda: has_count(stage, 3), "the driver is registered")
        driver.refuse("NodeStageVolume", grpc.StatusCode.RESOURCE_EXHAUSTED, "no slot left")
        driver.max_volumes = 1
        await stage.volume("data")
        await stage.pod("db", "data")
        pod = await stage.becomes("db", "Failed")
        assert pod is not None and pod.status.reason == "VolumeAttachmentLimitExceeded"
        assert pod.status.message.endswith(f'MountVolume.MountDevice failed for volume "data" : {NO_SLOT}')
        assert await stage.count() == 1 and await stage.in_use() == []

    play(story)
