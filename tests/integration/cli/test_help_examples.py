"""The examples of the help pages that end by themselves are run: on files, and on a `tonnage up` cluster."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.processes import start_up
from tonnage.cli.commands import EXAMPLES
from tonnage_command import tonnage

ROOT = Path(__file__).parents[3]
SERVERS = {
    *("apiserver", "controllers", "csi-driver", "dashboard", "node", "node-scaler", "pools", "provisioner"),
    *("scheduler", "shadow", "top", "up"),
}
"""Commands that run until they are stopped; `tests/unit/cli/test_help.py` parses their examples."""
ELSEWHERE = {"demo", "driver-check", "csi-driver-quarantine"}
"""Commands that need minutes, a driver of their own, or a driver that does not run."""
SHOP = """
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop}
spec:
  replicas: 1
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: db, image: db}]
      volumes: []
  volumeClaimTemplates: []
"""
LINES = [line for name, lines in EXAMPLES.items() for line in lines if name not in SERVERS | ELSEWHERE]
BACKUP = "tonnage apiserver --data-dir cluster --backup objects.sqlite3"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder with the examples and a running cluster `cluster`, in which StatefulSet shop/db has its pod."""
    with tempfile.TemporaryDirectory(prefix="t") as name:
        at = Path(name)
        (at / "examples").symlink_to(ROOT / "examples")
        (at / "shop.yaml").write_text(SHOP)
        running = start_up(at / "cluster", "--nodes", "2", "--pools", "100Gi", "-f", str(at / "shop.yaml"))
        yield at
        running.stop()


@pytest.mark.parametrize("line", [*LINES, BACKUP])
def test_an_example_of_the_help_runs(folder: Path, line: str):
    environment = {**os.environ, "KUBECONFIG": str(folder / "cluster" / "kubeconfig"), "HOME": str(folder)}
    words = shlex.split(line.removeprefix("source <(").rstrip(")"))[1:]
    words = words[: words.index(">")] if ">" in words else words
    if words == ["status"]:  # its default folder is ~/.tonnage, and the cluster is elsewhere here
        words += ["--data-dir", "cluster"]
    done = tonnage(*words, cwd=folder, env=environment)
    # What doctor finds is in its exit code.
    assert done.returncode in ((0, 4, 5) if words[0] == "doctor" else (0,)), done.stderr
    assert not any(each.startswith("error:") for each in done.stderr.splitlines())
