"""Pods that name their node, past every scheduler: they hold nothing that is not there, and cost what they send.

How one node answers each kind over the API: `tests/integration/node/test_node_admission_live.py`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.eventually import eventually
from support.processes import Up, start_up
from tonnage.behaviour.nodes.kubelet_admission import AdmittedPods, PodRejection, admission
from tonnage.objects.core_v1 import Pod
from tonnage.testing.builders import node, pod

PODS = "/api/v1/namespaces/default/pods"
SETS = "/apis/apps/v1/namespaces/default"
CRITICAL = 2_000_000_000
FEW, MANY = 2_000, 8_000
QUADRATIC = 9.0
"""Four times as much may take four times as long, on a busy machine somewhat more; the square would be sixteen."""
SLACK_S = 0.5


def with_addresses(count: int, name: str) -> Pod:
    """A pod with one port of many addresses: no two of them clash."""
    ports = [
        {"containerPort": 80, "hostPort": 80, "hostIP": f"10.{name}.{at // 250}.{at % 250}"} for at in range(count)
    ]
    return pod(f"p{name}", spec={"containers": [{"name": "main", "image": "app:1", "ports": ports}]})


def with_huge_pages(count: int) -> Pod:
    requests: dict[str, Any] = {f"hugepages-{at}Mi": f"{at}Mi" for at in range(1, count)}
    return pod("pages", priority=CRITICAL, **requests)


def with_tolerations(count: int) -> Pod:
    return pod("tolerant", tolerations=[{"key": f"k{at}", "operator": "Exists"} for at in range(count)])


NEWCOMERS: dict[str, Callable[[int], Pod]] = {
    "addresses": lambda count: with_addresses(count, "2"),
    "huge pages, and critical": with_huge_pages,
    "tolerations": with_tolerations,
}


@pytest.mark.parametrize("kind", NEWCOMERS)
def test_a_pod_with_thousands_of_everything_is_judged_in_proportion(kind: str) -> None:
    tainted = node("n1", taints=["a=b:NoExecute"])

    def judged_s(count: int) -> float:
        admitted = AdmittedPods()
        for number in range(50):
            admitted.admit(pod(f"there-{number}", cpu="1m"))
        admitted.admit(with_addresses(count, "1"))
        newcomer = NEWCOMERS[kind](count)
        began_s = time.thread_time()
        admission(newcomer, tainted, admitted)
        admission(newcomer, node("n1"), admitted)
        return time.thread_time() - began_s

    for _ in range(3):  # before it is believed
        few_s, many_s = judged_s(FEW), judged_s(MANY)
        if many_s < SLACK_S or many_s < QUADRATIC * few_s:
            return
    pytest.fail(f"{FEW}: {few_s:.2f} s, {MANY}: {many_s:.2f} s")


def test_pods_that_a_node_rejects_are_not_looked_at_again() -> None:
    admitted, looks = AdmittedPods(), 0

    def is_active(_: str) -> bool:
        nonlocal looks
        looks += 1
        return True

    crowded = node("n1", pods=20)
    for number in range(20):
        admitted.judge(pod(f"there-{number}", cpu="1m"), crowded, is_active)
    for number in range(1_000):
        assert isinstance(admitted.judge(pod(f"late-{number}"), crowded, is_active), PodRejection)
    assert looks == 1_000 * 20, "the admitted pods are looked at, and nobody else"


def test_what_a_rejected_pod_is_told_is_short() -> None:
    verdict = admission(with_huge_pages(MANY), node("n1"), AdmittedPods())
    assert isinstance(verdict, PodRejection) and len(verdict.message) < 1024


@pytest.mark.slow
def test_pods_of_a_million_cpus_on_every_node_leave_them_to_others() -> None:
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        up = start_up(Path(folder) / "c", "--nodes", "2")
        try:
            _attack(up)
        finally:
            up.stop()


def _attack(up: Up) -> None:
    for name in ("node-1", "node-2"):
        made = up.post(PODS, {"metadata": {"name": f"huge-{name}"}, "spec": _asking("1000000", nodeName=name)})
        assert made.code == 201
        template = {"metadata": {"labels": {"app": name}}, "spec": _asking("1000000", nodeName=name)}
        spec = {"replicas": 3, "selector": {"matchLabels": {"app": name}}, "template": template}
        for kind, more in (("replicasets", {}), ("statefulsets", {"serviceName": "s"})):
            assert up.post(f"{SETS}/{kind}", {"metadata": {"name": name}, "spec": {**spec, **more}}).code == 201
    for name in ("node-1", "node-2"):
        eventually(lambda name=name: _status(up, f"huge-{name}").get("reason") == "OutOfcpu")  # type: ignore[misc]
        assert up.post(PODS, {"metadata": {"name": f"fits-{name}"}, "spec": _asking("7")}).code == 201
    for name in ("node-1", "node-2"):
        eventually(lambda name=name: _status(up, f"fits-{name}").get("phase") == "Running")  # type: ignore[misc]
    time.sleep(5.0)
    names = [each["metadata"]["name"] for each in up.get(PODS).body["items"]]
    # The four named ones, and of each set those that wait to be rejected and the last that was.
    assert len(names) <= 4 + 2 * (3 + 1) + 2 * (1 + 1), names


def _asking(cpu: str, **spec: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}], **spec}


def _status(up: Up, name: str) -> dict[str, Any]:
    status: dict[str, Any] = up.get(f"{PODS}/{name}").body["status"]
    return status
