"""Helm's own life with the chart on a server: install, change, go back, two beside each other, remove."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from rendered import CHART, OVERLAYS, helm_path, needs_helm, needs_kubectl, run

from support.processes import ApiServerProcess, start_cluster

pytestmark = [pytest.mark.slow, needs_helm, needs_kubectl]

KINDS = (
    "deployments,services,configmaps,serviceaccounts,poddisruptionbudgets,networkpolicies,roles,rolebindings,"
    "clusterroles,clusterrolebindings"
)


class Server:
    def __init__(self, cluster: ApiServerProcess, folder: Path) -> None:
        self.cluster = cluster
        self.environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "HELM_CACHE_HOME": str(folder)}

    def helm(self, *words: object) -> subprocess.CompletedProcess[str]:
        return run(helm_path(), *words, env=self.environment)

    def done(self, *words: object) -> None:
        told = self.helm(*words)
        assert told.returncode == 0, told.stderr

    def kubectl(self, *words: object) -> str:
        told = run("kubectl", *words, env=self.environment)
        assert told.returncode == 0, told.stderr
        return told.stdout

    def all(self) -> set[str]:
        """What there is, by kind, namespace and name."""
        columns = "custom-columns=K:.kind,S:.metadata.namespace,N:.metadata.name"
        return set(self.kubectl("get", KINDS, "--all-namespaces", "--no-headers", "--output", columns).splitlines())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    cluster = start_cluster(folder)
    try:
        yield Server(cluster, folder / "helm")
    finally:
        cluster.stop()


def roles(server: Server, namespace: str) -> set[str]:
    found = server.cluster.get(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles").names
    return {name for name in found if "tonnage" in name}


def test_the_mode_is_changed_and_changed_back_and_nothing_is_left(server: Server):
    before = server.all()
    where = ("--namespace", "one")
    server.done("install", "tonnage", CHART, *where, "--create-namespace")
    second = server.all()
    assert roles(server, "one") == {"tonnage-scheduler-lease"}
    server.done("upgrade", "tonnage", CHART, *where, "--reuse-values", "--set", "scheduler.mode=only")
    assert roles(server, "one") == set()
    assert roles(server, "kube-system") == {"one:tonnage-scheduler-kube-scheduler-lease"}
    config = "/api/v1/namespaces/one/configmaps/tonnage-scheduler-config"
    assert "schedulerName: default-scheduler" in server.cluster.get(config)["data"]["scheduler.yaml"]
    server.done("rollback", "tonnage", "1", *where)
    assert server.all() == second
    more = "scheduler.replicas=3,scheduler.networkPolicy.enabled=true"
    for change in ("scheduler.replicas=1", more, "image.tag=0.9.0"):
        server.done("upgrade", "tonnage", CHART, *where, "--reuse-values", "--set", change)
    server.done("upgrade", "tonnage", CHART, *where, "--reuse-values", "--set", "fullnameOverride=storage")
    server.done("uninstall", "tonnage", *where)
    namespace = {line for line in server.all() - before if " one " in line and "default" in line}
    assert server.all() - before - namespace == set()


def test_two_releases_live_beside_each_other_by_names_of_their_own(server: Server):
    server.done("install", "tonnage", CHART, "--namespace", "left", "--create-namespace")
    right = ("install", "tonnage", CHART, "--namespace", "right", "--create-namespace")
    told = server.helm(*right)
    assert told.returncode != 0
    assert "the Deployment left/tonnage-scheduler already serves pods with schedulerName: tonnage" in told.stderr
    server.done(*right, "--set", "scheduler.schedulerName=other")
    server.done("upgrade", "tonnage", CHART, "--namespace", "left", "--reuse-values", "--set", "image.tag=0.9.0")
    server.done("uninstall", "tonnage", "--namespace", "left")
    accounts = server.kubectl("get", "clusterrolebindings", "-o", "name")
    assert "right:tonnage-scheduler" in accounts and "left:" not in accounts
    server.done("uninstall", "tonnage", "--namespace", "right")


def test_what_kustomize_installed_is_not_served_twice(server: Server):
    server.kubectl("apply", "-k", OVERLAYS["second-scheduler"])
    told = server.helm("install", "tonnage", CHART, "--namespace", "third", "--create-namespace")
    assert "tonnage-system/tonnage-scheduler already serves" in told.stderr
    server.kubectl("delete", "-k", OVERLAYS["second-scheduler"], "--wait=false")
    server.done("install", "tonnage", CHART, "--namespace", "third", "--create-namespace")
    server.done("uninstall", "tonnage", "--namespace", "third")
