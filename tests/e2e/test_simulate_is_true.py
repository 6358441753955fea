"""What simulate says of a cluster is what it then does: the same placements, no volume refused, the same pod waits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from scene import Scene, whole_cluster

from support.processes import Up
from tonnage.stories.story_runner import stateful_set
from tonnage_command import tonnage

pytestmark = pytest.mark.kubectl
REPLICAS = 8
"""Of 90Gi each. Three nodes of three pools of 100Gi have room for nine; two rooms are taken before."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Up]:
    with whole_cluster("--nodes", "3", "--pools", "3x100Gi") as up:
        yield up


def simulated(up: Up, folder: Path, doc: dict[str, Any], seed: int) -> Any:
    """The answer for the live cluster as it is now, with a workload laid over it."""
    manifest, scenario = folder / "db.yaml", folder / "scenario.yaml"
    manifest.write_text(yaml.safe_dump(doc))
    event = {"at": "0s", "arrive": f"StatefulSet/{doc['metadata']['namespace']}/db"}
    scenario.write_text(yaml.safe_dump({"apiVersion": "tonnage.dev/v1alpha1", "kind": "Scenario", "events": [event]}))
    reader = ("--kubeconfig", str(up.folder / "kubeconfig"), "-f", str(manifest))
    done = tonnage("simulate", *reader, "--scenario", str(scenario), "--seed", str(seed), "-o", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["runs"]["default"]


def test_the_cluster_does_what_was_simulated(scene: Scene, tmp_path: Path):
    # Rooms of different size are taken on two nodes, so that points decide and no lot is drawn.
    scene.fill("node-1", "60Gi")
    scene.fill("node-2", "30Gi")
    scene.has_room("node-1", "40Gi", "100Gi", "100Gi")
    scene.has_room("node-2", "70Gi", "100Gi", "100Gi")
    doc = stateful_set("db", "90Gi")
    doc["spec"]["replicas"] = REPLICAS
    doc["metadata"]["namespace"] = scene.namespace
    runs = [simulated(scene.up, tmp_path, doc, seed) for seed in (1, 2)]
    foretold = {each["pod"]: each["node"] for each in runs[0]["decisions"]}
    assert {each["pod"]: each["node"] for each in runs[1]["decisions"]} == foretold, "no lot was drawn"
    # 2 + 2 + 3 pools have room for 90Gi.
    assert {name: runs[0][name] for name in ("placed", "waiting", "refusedVolumes")} == {
        "placed": 7,
        "waiting": 1,
        "refusedVolumes": 0,
    }

    scene.apply(doc)
    waiting = f"db-{REPLICAS - 1}"
    told = scene.waits(waiting, "did not have enough free storage", timeout_s=90.0)
    (group,) = runs[0]["waitingPods"]
    assert group["pods"] == [f"{scene.namespace}/{waiting}"] and told.startswith(group["reason"].removesuffix("."))
    scene.until("all others to run", lambda: len(running(scene)) == REPLICAS - 1)
    real = {f"{scene.namespace}/{name}": node for name, node in running(scene).items()}
    assert real == {pod: node for pod, node in foretold.items() if node is not None}
    events = scene.items(f"/api/v1/namespaces/{scene.namespace}/events")
    assert [each["message"] for each in events if each["reason"] == "ProvisioningFailed"] == []


def running(scene: Scene) -> dict[str, str]:
    """The pods of the set that run, each with its node."""
    found = [each for each in scene.pods("app=db") if each["status"].get("phase") == "Running"]
    return {each["metadata"]["name"]: each["spec"]["nodeName"] for each in found}
