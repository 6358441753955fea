"""Every pod that is rendered is restricted, by Kubernetes' standard, and a little more than that."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from pod_security import violations
from rendered import OVERLAYS, VALUES, Document, chart_objects, needs_helm, needs_kubectl, overlay_objects, pod_template

RESTRICTED: dict[str, Any] = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        {"name": "a", "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}
    ],
    "volumes": [{"name": "tmp", "emptyDir": {}}],
}


def changed(path: str, value: object) -> dict[str, Any]:
    spec = deepcopy(RESTRICTED)
    *above, last = path.split(".")
    at: Any = spec
    for step in above:
        at = at[int(step)] if step.isdigit() else at.setdefault(step, {})
    at[last] = value
    return spec


def test_a_restricted_pod_breaks_nothing():
    assert violations(RESTRICTED) == []


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("hostNetwork", True, "host namespaces: hostNetwork"),
        ("volumes", [{"name": "x", "hostPath": {"path": "/"}}], "volume types: x is hostPath"),
        ("securityContext.runAsNonRoot", None, "running as non-root: a does not set runAsNonRoot: true"),
        ("securityContext.runAsUser", 0, "running as non-root user: a runs as 0"),
        ("securityContext.seccompProfile", {}, "seccomp: a is None"),
        ("containers.0.securityContext.privileged", True, "privileged containers: a"),
        ("containers.0.securityContext.capabilities", {}, "capabilities: a does not drop ALL"),
        (
            "containers.0.securityContext.allowPrivilegeEscalation",
            None,
            "privilege escalation: a does not set allowPrivilegeEscalation: false",
        ),
        ("containers.0.ports", [{"containerPort": 1, "hostPort": 1}], "host ports: a"),
    ],
)
def test_each_rule_is_seen(path: str, value: object, told: str):
    assert violations(changed(path, value)) == [told]


@needs_helm
@pytest.mark.parametrize("values", VALUES)
def test_pods_of_the_chart_are_restricted(values: str):
    judge(chart_objects(values))


@needs_kubectl
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_pods_of_overlays_are_restricted(overlay: str):
    judge(overlay_objects(overlay))


def judge(objects: list[Document]) -> None:
    for each in objects:
        template = pod_template(each)
        if template is None:
            continue
        spec = template["spec"]
        assert violations(spec) == []
        for container in spec["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert ":latest" not in container["image"] and container["image"] != "tonnage"
            assert "memory" in container.get("resources", {}).get("limits", {"memory": ""})
