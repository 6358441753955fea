"""A pod never gets a volume whose claim was deleted under it, however old the news that its node has."""

from __future__ import annotations

import pytest
from node_questions import has_count, play
from node_stage import DRIVER, NodeStage

from support.eventually import eventually_async
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod

PROTECTED = {"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}}
NOT_FOUND = 'failed to fetch PVC from API server: persistentvolumeclaims "data" not found'


async def set_up(stage: NodeStage) -> None:
    await stage.csi_driver()
    await stage.start()
    await eventually_async(lambda: has_count(stage, None), "the driver is registered")
    await stage.volume("data")
    await stage.client.patch(PersistentVolumeClaim, "default/data", PROTECTED)


async def was_told_of(stage: NodeStage, problem: str) -> bool:
    return any(reason == "FailedMount" and problem in note for _, reason, note in await stage.events("db"))


@pytest.mark.parametrize(
    ("deletion", "told"),
    [
        ("waits", "PVC is being deleted"),
        ("is over", NOT_FOUND),
        ("is over, and there is another of its name", "PVC is not bound"),
    ],
)
def test_a_node_whose_watches_lag_asks_the_server_before_it_mounts(deletion: str, told: str):
    async def story(stage: NodeStage) -> None:
        driver = await stage.driver()
        await set_up(stage)
        await stage.pod("db", "data")
        name = f"kubernetes.io/csi/{DRIVER}^handle-data"

        async def is_in_use() -> bool:
            return await stage.in_use() == [name]

        await eventually_async(is_in_use, "the node waits for the attachment")
        await stage.program.informers.of(PersistentVolumeClaim).stop()
        await stage.program.informers.of(PersistentVolume).stop()
        await stage.client.delete(PersistentVolumeClaim, "default/data")
        if deletion != "waits":
            await stage.client.patch(PersistentVolumeClaim, "default/data", {"metadata": {"finalizers": []}})
        if "another" in deletion:
            await stage.client.create_doc(
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": {"name": "data", "namespace": "default"},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "storageClassName": "",
                        "resources": {"requests": {"storage": "1Gi"}},
                    },
                }
            )
        await stage.attach("data")
        await eventually_async(lambda: was_told_of(stage, told), "the pod is told")
        assert await stage.phase("db") == "Pending"
        assert (driver.staged, driver.published) == (set(), set())

    play(story)


def test_a_pod_that_has_its_volume_keeps_it_through_a_restart_while_the_claim_waits_for_it():
    async def story(stage: NodeStage) -> None:
        driver = await stage.driver()
        await set_up(stage)
        await stage.attach("data")
        await stage.pod("db", "data")
        await stage.becomes("db", "Running")
        await stage.client.delete(PersistentVolumeClaim, "default/data")
        await stage.stop()
        calls = len(driver.asked("NodePublishVolume"))
        await stage.start()

        async def is_published_again() -> bool:
            return len(driver.asked("NodePublishVolume")) > calls

        await eventually_async(is_published_again, "the node has looked at its mounts again")
        assert await stage.phase("db") == "Running" and len(driver.published) == 1
        await stage.client.delete(Pod, "default/db")
        await stage.becomes("db", "gone")
        assert (driver.staged, driver.published) == (set(), set())

    play(story)
