"""Mode Ledger on a whole cluster: what fits is admitted at once, while volumes are still being made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from scene import Scene, whole_cluster

from support.processes import Up
from tonnage.stories.story_runner import claim, pod

LEDGER = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: StorageCapacity
    args: {apiVersion: tonnage.dev/v1alpha1, kind: StorageCapacityArgs, reservation: Ledger}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    config: Path = tmp_path_factory.mktemp("ledger") / "scheduler.yaml"
    config.write_text(LEDGER)
    with whole_cluster("--nodes", "1", "--pools", "100Gi", "--scheduler-config", str(config)) as up:
        yield up


def test_five_pods_of_20gi_fill_100gi_and_the_sixth_waits_until_one_leaves(scene: Scene):
    for number in range(6):
        scene.apply(claim(f"data-{number}", "20Gi"), pod(f"batch-{number}", [f"data-{number}"]))
    # A promise that is kept back although the figures show its volume would hold the fifth for a minute.
    running = scene.until("five pods to run", lambda: five(scene), timeout_s=20.0)
    told = scene.items(f"/api/v1/namespaces/{scene.namespace}/events")
    assert [each["message"] for each in told if each["reason"] == "ProvisioningFailed"] == []
    scene.kubectl("delete", "pod", running[0])
    scene.kubectl("delete", "pvc", running[0].replace("batch", "data"))
    left = next(f"batch-{number}" for number in range(6) if f"batch-{number}" not in running)
    scene.running(left)


def five(scene: Scene) -> list[str]:
    running = [each["metadata"]["name"] for each in scene.pods() if each["status"]["phase"] == "Running"]
    return running if len(running) == 5 else []
