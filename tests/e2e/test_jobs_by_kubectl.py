"""Jobs and CronJobs by kubectl on a whole cluster: they end, they fail, they go, and give back what they held."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from scene import Scene, whole_cluster

from support.processes import Up
from tonnage.objects.document import Doc
from tonnage.stories.story_runner import claim

pytestmark = [pytest.mark.kubectl, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Up]:
    with whole_cluster("--nodes", "1", "--pools", "100Gi", "--max-volumes", "1") as running:
        yield running


def job(name: str, *, claim_name: str = "", annotations: dict[str, str] | None = None, **spec: Any) -> Doc:
    pod: Doc = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    if claim_name:
        pod["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}]
    template = {"metadata": {"annotations": annotations or {}}, "spec": pod}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template, **spec}}


def pods(scene: Scene) -> list[str]:
    return str(scene.kubectl("get", "pods", "-o", "name")).split()


def test_a_finished_job_gives_its_attach_slot_to_the_next(scene: Scene):
    scene.apply(claim("one", "10Gi"), claim("two", "10Gi"))
    # The node has one slot: the second pod cannot start before the first has ended and its volume is detached.
    scene.apply(job("first", claim_name="one"), job("second", claim_name="two"))
    for name in ("first", "second"):
        scene.kubectl("wait", "--for=condition=complete", f"job/{name}", "--timeout=60s")
    assert len(pods(scene)) == 2


def test_a_job_fails_as_its_annotation_says(scene: Scene):
    scene.apply(job("bad", annotations={"tonnage.dev/exit-code": "3"}, backoffLimit=0))
    scene.kubectl("wait", "--for=condition=failed", "job/bad", "--timeout=60s")
    shown = scene.kubectl("get", "pods", "-o", "jsonpath={.items[0].status.containerStatuses[0].state.terminated}")
    assert '"exitCode":3' in shown


def test_a_job_that_runs_is_deleted_with_its_pods(scene: Scene):
    scene.apply(job("long", annotations={"tonnage.dev/run-seconds": "3600"}, parallelism=2, completions=2))
    scene.until("two pods to run", lambda: scene.kubectl("get", "job", "long", "-o", "jsonpath={.status.ready}") == "2")
    scene.kubectl("delete", "job", "long")
    scene.until("its pods to go", lambda: pods(scene) == [])


def test_kubectl_makes_jobs_by_hand_and_from_cron_jobs(scene: Scene):
    scene.kubectl("create", "cronjob", "tick", "--image=i", "--schedule=0 0 1 1 *")
    scene.kubectl("create", "job", "now", "--from=cronjob/tick")
    scene.kubectl("create", "job", "hello", "--image=i", "--", "echo", "hello")
    for name in ("now", "hello"):
        scene.kubectl("wait", "--for=condition=complete", f"job/{name}", "--timeout=60s")
    scene.kubectl("delete", "cronjob", "tick")
    scene.until("its Job to go with it", lambda: "now" not in scene.kubectl("get", "jobs", "-o", "name"))
