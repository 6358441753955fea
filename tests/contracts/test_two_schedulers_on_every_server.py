"""Two schedulers without leader election on the same pods: both go on to the end, and each pod is bound once.

That is what an old leader and a new one look like to each other, or a Deployment of two replicas with the wrong flag.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from scheduler_program import Second, is_serving, second

from support.api_servers import ServerApi
from support.eventually import eventually

NODES = 10


@pytest.mark.parametrize("count", [200, pytest.param(2500, marks=pytest.mark.slow)])
def test_two_without_election_live_and_bind_every_pod_once(
    api: ServerApi, ns: str, pods: str, tmp_path: Path, count: int
) -> None:
    room = {"cpu": "1000", "memory": "1000Gi", "pods": "5000"}
    for number in range(NODES):
        metadata = {"name": f"{ns}-{number}", "labels": {"mine": ns}}
        api.create("/api/v1/nodes", {"metadata": metadata, "status": {"capacity": room, "allocatable": room}})
    spec = {"schedulerName": ns, "nodeSelector": {"mine": ns}, "containers": [{"name": "c", "image": "i"}]}
    for number in range(count):
        api.create(pods, {"metadata": {"name": f"web-{number}"}, "spec": spec})
    with ExitStack() as running:
        both = [
            running.enter_context(second(api, folder, ns, elects=False, is_awaited=False))
            for folder in folders(tmp_path, "one", "other")
        ]
        eventually(lambda: all(map(is_serving, both)), "both to be ready")
        eventually(
            lambda: not waiting(api, pods), "all pods to be bound", within_s=300, details=lambda: both[0].log[-2000:]
        )
        # The server refuses a second binding of a pod; what it accepted is what the two have counted together.
        eventually(lambda: sum(map(bound_by, both)) >= count, details=lambda: str(list(map(bound_by, both))))
        assert sum(map(bound_by, both)) == count
        for each in both:
            assert each.get("/healthz") == (200, "ok")
    # A race that is lost is nobody's failure.
    events = api.get(f"/api/v1/namespaces/{ns}/events?fieldSelector=reason%3DFailedScheduling").body["items"]
    assert [each["message"] for each in events] == []
    for each in both:
        assert "Traceback" not in each.log and "unexpectedly" not in each.log


def folders(under: Path, *names: str) -> Iterator[Path]:
    for name in names:
        (under / name).mkdir()
        yield under / name


def waiting(api: ServerApi, pods: str) -> list[Any]:
    return list(api.get(f"{pods}?fieldSelector=spec.nodeName%3D").body["items"])


def bound_by(scheduler: Second) -> int:
    code, text = scheduler.get("/metrics", scheduler.api.token)
    assert code == 200
    samples = (each for family in text_string_to_metric_families(text) for each in family.samples)
    name = "scheduler_schedule_attempts_total"
    return int(sum(each.value for each in samples if each.name == name and each.labels["result"] == "scheduled"))
