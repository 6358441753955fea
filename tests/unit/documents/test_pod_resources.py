"""What a pod asks for as a whole, with the sums done by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.documents.validation.resources import aggregate, qos_class
from tonnage.objects.document import Doc


def container(restart_policy: str = "", *, limits: Doc | None = None, **requests: Any) -> Doc:
    resources: dict[str, Any] = {}
    if requests:
        resources["requests"] = requests
    if limits:
        resources["limits"] = limits
    made: Doc = {"resources": resources}
    if restart_policy:
        made["restartPolicy"] = restart_policy
    return made


def texts(amounts: dict[str, Any]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def test_containers_add_up() -> None:
    spec = {"containers": [container(cpu="1500m", memory="1Gi"), container(cpu="500m")]}
    # cpu 1500m + 500m = 2; memory 1Gi + 0.
    assert texts(aggregate(spec, "requests")) == {"cpu": "2", "memory": "1Gi"}


def test_an_init_container_counts_only_where_it_needs_more_than_all_the_others() -> None:
    spec = {
        "containers": [container(cpu="1", memory="2Gi")],
        "initContainers": [container(cpu="3", memory="1Gi")],
    }
    # cpu max(1, 3) = 3; memory max(2Gi, 1Gi) = 2Gi.
    assert texts(aggregate(spec, "requests")) == {"cpu": "3", "memory": "2Gi"}


def test_a_sidecar_runs_beside_the_containers_and_beside_the_init_containers_after_it() -> None:
    spec = {
        "containers": [container(cpu="1")],
        "initContainers": [container(cpu="2"), container("Always", cpu="500m"), container(cpu="2")],
    }
    # running: 1 + 500m = 1500m; first init: 2; second init, sidecar beside it: 2 + 500m = 2500m.
    assert texts(aggregate(spec, "requests")) == {"cpu": "2500m"}


def test_limits_add_up_by_the_same_rule() -> None:
    spec = {"containers": [container(limits={"cpu": "1"}), container(limits={"cpu": "2"})]}
    assert texts(aggregate(spec, "limits")) == {"cpu": "3"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [container()]}, "BestEffort"),
        ({"containers": [container(cpu="0")]}, "BestEffort"),
        ({"containers": [container(cpu="1")]}, "Burstable"),
        ({"containers": [container(limits={"cpu": "1", "memory": "1Gi"}, cpu="1", memory="1Gi")]}, "Guaranteed"),
        ({"containers": [container(limits={"cpu": "1", "memory": "1Gi"}, cpu="1", memory="512Mi")]}, "Burstable"),
        ({"containers": [container(limits={"cpu": "1"}, cpu="1")]}, "Burstable"),
        # Storage has no say: only cpu and memory make a class.
        ({"containers": [{"resources": {"requests": {"ephemeral-storage": "1Gi"}}}]}, "BestEffort"),
        # One init container without limits is enough to lose the guarantee.
        (
            {
                "containers": [container(limits={"cpu": "1", "memory": "1Gi"}, cpu="1", memory="1Gi")],
                "initContainers": [container()],
            },
            "Burstable",
        ),
        # At pod level the pod's own amounts decide, whatever its containers say.
        (
            {
                "resources": {
                    "requests": {"cpu": "1", "memory": "1Gi"},
                    "limits": {"cpu": "1", "memory": "1Gi"},
                },
                "containers": [container()],
            },
            "Guaranteed",
        ),
        ({"resources": {"requests": {"cpu": "1"}}, "containers": [container()]}, "Burstable"),
    ],
)
def test_the_service_class_follows_what_is_asked_and_limited(spec: Doc, expected: str) -> None:
    assert qos_class(spec) == expected
