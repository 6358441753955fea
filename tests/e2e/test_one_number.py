"""A driver of today, with two volume groups a node and one number for both: without `tonnage pools`, and with it.

The objects are those of examples/20-one-number.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from scene import whole_cluster

from support.eventually import eventually
from support.processes import Up
from support.programs import spawn
from tonnage.objects.storage_v1 import AVAILABLE_CAPACITIES

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "20-one-number"
NAMESPACE = "/api/v1/namespaces/default"
CAPACITIES = "/apis/storage.k8s.io/v1/namespaces/kube-system/csistoragecapacities"
WITHIN_S = 120.0
FITS_NOT = "node(s) did not have enough free storage"


@contextmanager
def cluster(one_number: str, *pools: str) -> Iterator[Up]:
    flags = ["--nodes", str(len(pools)), "--one-number", one_number, "--pool-policy", "most-free"]
    for number, each in enumerate(pools, 1):
        flags += ["--pools", f"node-{number}={each}"]
    with whole_cluster(*flags, "-f", str(EXAMPLE / "lvmnode-crd.yaml"), "-f", str(EXAMPLE / "class.yaml")) as running:
        eventually(
            lambda: len(numbers(running)) == len(pools),
            "the class's capacity to be known",
            within_s=WITHIN_S,
        )
        yield running


@contextmanager
def tonnage_pools(up: Up) -> Iterator[None]:
    source = ("--source", "openebs-lvm", "--driver", "pools.tonnage.dev", "--pool-policy", "most-free")
    process = spawn("pools", "--kubeconfig", str(up.kubeconfig), *source, log=up.folder / "pools.log")
    try:
        assert process.readline() == "ready\n", (up.folder / "pools.log").read_text()
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def of_class(up: Up) -> list[dict[str, Any]]:
    return [each for each in up.get(CAPACITIES).body["items"] if each["storageClassName"] == "lvm"]


def by_node(up: Up, told: Any) -> dict[str, Any]:
    return {each["nodeTopology"]["matchLabels"]["topology.tonnage.dev/node"]: told(each) for each in of_class(up)}


def numbers(up: Up) -> dict[str, str]:
    return by_node(up, lambda each: each.get("capacity"))


def pools(up: Up) -> dict[str, str]:
    return by_node(up, lambda each: each["metadata"].get("annotations", {}).get(AVAILABLE_CAPACITIES))


def pools_become(up: Up, **expected: str) -> None:
    wanted = {name.replace("_", "-"): told for name, told in expected.items()}
    eventually(
        lambda: pools(up) == wanted,
        f"pools {wanted}",
        within_s=WITHIN_S,
        details=lambda: f"{pools(up)} {(up.folder / 'pools.log').read_text()[-2000:]}",
    )


def apply_pod(up: Up) -> None:
    for doc in yaml.safe_load_all((EXAMPLE / "pod.yaml").read_text()):
        plural = {"Pod": "pods", "PersistentVolumeClaim": "persistentvolumeclaims"}[doc["kind"]]
        up.create(f"{NAMESPACE}/{plural}", doc)


def pod(up: Up) -> dict[str, Any]:
    found: dict[str, Any] = up.get(f"{NAMESPACE}/pods/two-groups").body
    return found


def message(up: Up) -> str:
    conditions = pod(up).get("status", {}).get("conditions", [])
    return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")


def claims(up: Up) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = up.get(f"{NAMESPACE}/persistentvolumeclaims").body["items"]
    return found


def is_bound(claim: dict[str, Any]) -> bool:
    return bool(claim.get("status", {}).get("phase") == "Bound")


def refused_volumes(up: Up) -> list[str]:
    events = up.get("/apis/events.k8s.io/v1/namespaces/default/events").body["items"]
    return [each.get("note", "") for each in events if each["reason"] == "ProvisioningFailed"]


def runs(up: Up) -> bool:
    return bool(pod(up).get("status", {}).get("phase") == "Running")


def test_the_largest_number_turns_a_pod_away_that_fits_and_pools_let_it_in() -> None:
    with cluster("largest", "100Gi,100Gi", "100Gi,20Gi") as up:
        assert numbers(up) == {"node-1": "100Gi", "node-2": "100Gi"}
        apply_pod(up)
        # 60Gi and 60Gi are more than the one number, 100Gi, on either node.
        eventually(lambda: f"2 {FITS_NOT}" in message(up), "it to be turned away", within_s=WITHIN_S)
        with tonnage_pools(up):
            eventually(lambda: runs(up), "it to run", within_s=WITHIN_S, details=lambda: message(up))
            assert pod(up)["spec"]["nodeName"] == "node-1"
            # And the pools follow what was made of them.
            pools_become(up, node_1="40Gi,40Gi", node_2="100Gi,20Gi")
        assert refused_volumes(up) == []


@pytest.mark.slow
def test_the_sum_sends_a_pod_to_where_it_hangs_and_pools_do_not() -> None:
    with cluster("sum", "100Gi,20Gi") as up:
        assert numbers(up) == {"node-1": "120Gi"}
        apply_pod(up)
        # 120Gi are enough for the sum; the second volume finds 40Gi and 20Gi.
        eventually(lambda: refused_volumes(up), "a volume to be refused", within_s=WITHIN_S)
        eventually(lambda: sum(map(is_bound, claims(up))) == 1, "one volume to be made", within_s=WITHIN_S)
        assert not runs(up)


@pytest.mark.slow
def test_with_pools_the_sum_does_not_mislead() -> None:
    with cluster("sum", "100Gi,20Gi") as up, tonnage_pools(up):
        pools_become(up, node_1="100Gi,20Gi")
        apply_pod(up)
        eventually(lambda: f"1 {FITS_NOT}" in message(up), "it to be turned away", within_s=WITHIN_S)
        assert not any(map(is_bound, claims(up)))
        assert refused_volumes(up) == []
