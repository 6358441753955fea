"""Claims that no room in the world cures: they keep nothing back, and good pods run beside them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from scene import Scene, whole_cluster

from support.processes import Up
from tonnage.objects.document import Doc
from tonnage.stories.story_runner import claim, pod

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: StorageCapacity
    args: {{apiVersion: tonnage.dev/v1alpha1, kind: StorageCapacityArgs, reservation: {mode}}}
"""


@pytest.fixture(scope="module", params=["Ledger", "Object"])
def cluster(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Up]:
    config: Path = tmp_path_factory.mktemp("refused") / "scheduler.yaml"
    config.write_text(CONFIG.format(mode=request.param))
    with whole_cluster("--nodes", "3", "--pools", "100Gi", "--scheduler-config", str(config)) as up:
        yield up


def with_spec(doc: Doc, **spec: object) -> Doc:
    return {**doc, "spec": {**doc["spec"], **spec}}


BROKEN: dict[str, Doc] = {
    "shared": {"accessModes": ["ReadWriteMany"]},
    "restored": {
        "dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "there-is-none"}
    },
    "cloned": {"dataSource": {"kind": "PersistentVolumeClaim", "name": "there-is-none"}},
    "gilded": {"volumeAttributesClassName": "there-is-none"},
    "smaller": {"dataSource": {"kind": "PersistentVolumeClaim", "name": "source"}},
}


def test_a_good_pod_runs_beside_those_that_cannot_be_made(scene: Scene):
    # One for each node of 100Gi and more: 80Gi would be kept back of each for as long as the claims exist.
    scene.apply(claim("source", "81Gi"), pod("with-source", ["source"]))
    scene.running("with-source")
    for name, spec in BROKEN.items():
        scene.apply(with_spec(claim(name, "80Gi"), **spec), pod(f"with-{name}", [name]))

    def refused() -> bool:
        told = scene.items(f"/api/v1/namespaces/{scene.namespace}/events")
        about = {each["involvedObject"]["name"] for each in told if each["reason"] == "ProvisioningFailed"}
        return set(BROKEN) <= about

    scene.until("all of these claims to be refused", refused, timeout_s=30.0)
    scene.apply(claim("good", "30Gi"), pod("good", ["good"]))
    scene.running("good")
    scene.kubectl("delete", "pod", "--all", "--wait=false")  # the claims stay, and keep nothing back either
    scene.apply(claim("another", "90Gi"), pod("another", ["another"]))
    scene.running("another")
