"""Fixtures through the real doors: an API server in its own process, kubectl, the official client, plain HTTP."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tonnage.testing.processes import Cluster, start_cluster

CLUSTER_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One server for the tests of a file; each test keeps to a namespace or to names of its own."""
    running = start_cluster(tmp_path_factory.mktemp("cluster"))
    yield running
    running.stop()


@pytest.fixture
def namespace(cluster: Cluster) -> str:
    """A fresh namespace."""
    name = f"ns-{next(CLUSTER_NUMBERS)}"
    assert cluster.post("/api/v1/namespaces", {"metadata": {"name": name}}).code == 201
    return name


class Kubectl:
    """The real kubectl against one cluster."""

    def __init__(self, cluster: Cluster, home: Path) -> None:
        self._base = ["kubectl", "--kubeconfig", str(cluster.kubeconfig), "--cache-dir", str(home / "cache")]
        self._home = home

    def command(self, *arguments: str) -> list[str]:
        return [*self._base, *arguments]

    def run(self, *arguments: str, stdin: Any = None) -> subprocess.CompletedProcess[str]:
        text = stdin if isinstance(stdin, str) or stdin is None else yaml.safe_dump_all(stdin)
        environment = {**os.environ, "HOME": str(self._home)}
        return subprocess.run(
            self.command(*arguments),
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            env=environment,
            check=False,
        )

    def __call__(self, *arguments: str, stdin: Any = None) -> str:
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}\n{done.stdout}{done.stderr}"
        return done.stdout

    def fails(self, *arguments: str, stdin: Any = None) -> str:
        """Run what must be refused, and give what kubectl says about it."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode != 0, f"kubectl {' '.join(arguments)} was accepted:\n{done.stdout}"
        return done.stderr


@pytest.fixture
def kubectl(cluster: Cluster, tmp_path: Path) -> Kubectl:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on PATH")
    return Kubectl(cluster, tmp_path)
