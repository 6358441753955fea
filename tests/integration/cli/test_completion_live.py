"""TAB asks the cluster that the line names, and says nothing when that does not let it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.processes import ApiServerProcess
from tonnage.cli import cli, completion
from tonnage.cli.completion import OurZsh


def values(*words: str) -> list[str]:
    *before, incomplete = words
    found = OurZsh(cli, {}, "tonnage", "_TONNAGE_COMPLETE").get_completions(list(before), incomplete)
    return [item.value for item in found]


def test_values_of_a_live_cluster(cluster: ApiServerProcess, namespace: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(completion, "ANSWER_WITHIN_S", 60.0)  # a busy machine is no reason to fail
    pod = {"metadata": {"name": "db-0"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert cluster.post(f"/api/v1/namespaces/{namespace}/pods", pod).code == 201
    assert cluster.post("/api/v1/nodes", {"metadata": {"name": "mill-1"}}).code == 201
    storage_class = {"metadata": {"name": "fast"}, "provisioner": "d.example"}
    assert cluster.post("/apis/storage.k8s.io/v1/storageclasses", storage_class).code == 201
    config = str(cluster.kubeconfig)
    assert values("explain", "--kubeconfig", config, "--pod", namespace) == [f"{namespace}/db-0"]
    assert values("explain", "--kubeconfig", config, "-n", namespace, "--pod", "d") == ["db-0"]
    assert values("drain-preview", "--kubeconfig", config, "mi") == ["mill-1"]
    assert values("doctor", "--kubeconfig", config, "-n", namespace) == [namespace]
    assert values("pools", "--kubeconfig", config, "--driver", "") == ["d.example"]
    monkeypatch.setenv("KUBECONFIG", config)
    assert values("drain-preview", "mill") == ["mill-1"]


def test_a_cluster_that_refuses_or_is_away_tells_nothing(cluster: ApiServerProcess, tmp_path: Path):
    for server, token in ((cluster.url, "wrong"), ("https://127.0.0.1:9", "any")):
        config = {
            "clusters": [{"name": "c", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
        file = tmp_path / "config"
        file.write_text(json.dumps(config))
        assert values("explain", "--kubeconfig", str(file), "--pod", "") == []
