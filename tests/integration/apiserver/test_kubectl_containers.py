"""kubectl logs, exec, attach and port-forward say that no containers run here, and do not look like a fault."""

from __future__ import annotations

import pytest

from support.http import Doc

pytestmark = pytest.mark.kubectl


def pod(name: str) -> Doc:
    spec = {"containers": [{"name": "main", "image": "app:1.0", "stdin": True}], "nodeName": "n1"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def running(kubectl, namespace):
    kubectl("apply", "-n", namespace, "-f", "-", stdin=[pod("web")])
    status = '{"status": {"phase": "Running", "podIP": "10.1.0.1"}}'
    kubectl("patch", "pod", "web", "-n", namespace, "--subresource=status", "--type=merge", "-p", status)
    return namespace


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("logs", "web"), "there are no logs to show"),
        (("logs", "web", "--previous"), "there are no logs to show"),
        (("exec", "web", "--", "ls"), "there is nothing to run a command in"),
        (("attach", "web"), "there is nothing to attach to"),
        (("port-forward", "pod/web", ":80"), "nothing listens on a port"),
    ],
)
def test_kubectl_is_told_that_no_containers_run_here(kubectl, running, command, why):
    told = kubectl.fails(command[0], "-n", running, *command[1:])
    assert f'pods "web": nodes of this cluster run no containers, so {why}; "kubectl describe pod web' in told


def test_a_pod_that_is_not_there_is_not_found(kubectl, namespace):
    assert 'pods "none" not found' in kubectl.fails(
        "get", "-n", namespace, "--raw", f"/api/v1/namespaces/{namespace}/pods/none/log"
    )
