"""`tonnage simulate`: its answer as a contract, its runs by name, and what is asked wrongly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from tonnage.cli import cli
from tonnage.errors import TonnageError

CLUSTER = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: pools}
provisioner: pools.tonnage.dev
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: pools.tonnage.dev}
spec: {storageCapacity: true}
---
apiVersion: v1
kind: Node
metadata: {name: node-1, labels: {host: node-1}}
status: {allocatable: {cpu: "8", memory: 32Gi, pods: "110"}}
---
apiVersion: storage.k8s.io/v1
kind: CSIStorageCapacity
metadata: {name: pools-1, namespace: kube-system}
storageClassName: pools
nodeTopology: {matchLabels: {host: node-1}}
availableCapacities: [100Gi, 100Gi]
capacity: 200Gi
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop}
spec:
  replicas: 3
  serviceName: db
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: db}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], storageClassName: pools, resources: {requests: {storage: 60Gi}}}
"""
SCENARIO = """
apiVersion: tonnage.dev/v1alpha1
kind: Scenario
events:
- {at: 0s, arrive: StatefulSet/shop/db}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    return tmp_path


def simulate(folder: Path, *args: str) -> Result:
    # The scenario lies among the manifests, and is not one of them.
    given = ("simulate", "-f", str(folder), "--scenario", str(folder / "scenario.yaml"), *args)
    return CliRunner().invoke(cli, given)


def answer(folder: Path, *args: str) -> Any:
    found = simulate(folder, "-o", "json", *args)
    assert found.exit_code == 0, found.output
    return msgspec.json.decode(found.stdout)


def test_the_json_answer_is_a_contract(folder: Path) -> None:
    document = answer(folder, "--seed", "7")
    assert list(document) == ["seed", "partial", "runs", "differences"]
    assert document["seed"] == 7 and document["partial"] is False and document["differences"] == []
    run = document["runs"]["default"]
    # 100Gi and 100Gi hold one of 60Gi each; the third waits.
    assert {name: run[name] for name in ("placed", "waiting", "refusedVolumes", "bytesRebuilt", "arrived")} == {
        "placed": 2,
        "waiting": 1,
        "refusedVolumes": 0,
        "bytesRebuilt": 0,
        "arrived": 3,
    }
    assert run["timeToRunning"] == {"p50": 1.5, "p90": 1.5, "p99": 1.5}
    assert run["waitingPods"][0]["count"] == 1
    assert set(run) == {
        "placed",
        "waiting",
        "refusedVolumes",
        "timeToRunning",
        "bytesRebuilt",
        "runningWithin",
        "arrived",
        "notMade",
        "running",
        "seconds",
        "partial",
        "volumesMade",
        "attempts",
        "decisions",
        "failedBindings",
        "rejectedPods",
        "waitingPods",
        "lost",
        "blockedEvictions",
        "rebuilds",
        "samples",
        "disks",
    }
    assert set(run["samples"][-1]) == {
        "at",
        "usedBytes",
        "totalBytes",
        "utilisation",
        "fragmentation",
        "running",
        "waiting",
        "refusedVolumes",
    }
    (disk,) = run["disks"]
    assert disk["where"] == "node-1" and disk["objects"] == ["kube-system/pools-1"]
    assert [each["bytes"] >> 30 for each in disk["volumes"]] == [60, 60]
    assert [each >> 30 for each in disk["freeBytes"]] == [40, 40]


def test_every_field_of_the_answer_is_told_of_in_the_docs(folder: Path) -> None:
    document = answer(folder, "--compare", "kep", "--compare", "default")
    told = (Path(__file__).parents[3] / "docs" / "reference" / "json.md").read_text()
    run = next(iter(document["runs"].values()))
    parting = document["differences"][0]["parting"]
    fields = [*document, *run, *run["samples"][0], *run["disks"][0], *document["differences"][0], *parting]
    fields += next(iter(parting["sides"].values()))
    assert [field for field in fields if f"`{field}`" not in told] == []


def test_without_a_table_nobody_is_lost(folder: Path) -> None:
    page = simulate(folder).stdout
    assert "placed" in page and "WAITING" in page
    assert "  1  shop/db-2" in page
    assert "0/1 nodes are available: 1 node(s) did not have enough free storage." in page


def test_runs_are_named_by_presets_and_files(folder: Path) -> None:
    config = folder / "guaranteed.yml"
    args = {"apiVersion": "tonnage.dev/v1alpha1", "kind": "StorageCapacityArgs", "poolFit": "Guaranteed"}
    profile = {"pluginConfig": [{"name": "StorageCapacity", "args": args}]}
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    (folder.parent / "config.yaml").write_text(yaml.safe_dump({**head, "profiles": [profile]}))
    config = folder.parent / "config.yaml"
    compared = ("--compare", "kube-scheduler", "--compare", "letter=kep", "--compare", f"mine={config}")
    document = answer(folder, *compared)
    assert list(document["runs"]) == ["kube-scheduler", "letter", "mine"]
    assert [each["between"] for each in document["differences"]] == [
        ["kube-scheduler", "letter"],
        ["kube-scheduler", "mine"],
        ["letter", "mine"],
    ]


def test_one_run_is_compared_with_the_one_by_config(folder: Path) -> None:
    assert list(answer(folder, "--compare", "kep")["runs"]) == ["default", "kep"]
    assert list(answer(folder, "--compare", "default=kep")["runs"]) == ["default"], "its name is taken"


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (
            ["--compare", "nothing"],
            '"nothing" is neither a file nor a preset; presets are kube-scheduler, kep',
        ),
        (["--compare", "a=nothing"], '"nothing" is neither a file nor a preset'),
        (["--compare", "=kep"], "write NAME=CONFIG"),
        (["--compare", "a="], "write NAME=CONFIG"),
        (["--compare", "a=kep", "--compare", "a=default"], "two runs are called a"),
    ],
)
def test_wrong_usage_is_told(folder: Path, args: list[str], told: str) -> None:
    found = simulate(folder, *args)
    assert found.exit_code == 2 and told in found.stderr


def test_a_config_that_is_not_there_is_a_failure(folder: Path) -> None:
    found = simulate(folder, "--compare", "a=nowhere.yaml")
    assert isinstance(found.exception, TonnageError) and "nowhere.yaml" in str(found.exception)
