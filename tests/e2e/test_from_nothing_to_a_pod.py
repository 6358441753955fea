"""The script that installs Tonnage from the chart on an empty API server, places a pod, and removes all of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SCRIPT = ROOT / "deploy" / "try" / "from-nothing-to-a-pod"
ASSETS = Path(os.environ.get("KUBEBUILDER_ASSETS", "/nowhere"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.kubectl,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH"),
    pytest.mark.skipif(
        not (Path(sys.executable).parent / "helm").exists() and shutil.which("helm") is None,
        reason="helm is not here: make setup",
    ),
]


@pytest.mark.envtest
@pytest.mark.skipif(
    not (ASSETS / "kube-apiserver").exists(), reason="KUBEBUILDER_ASSETS names no folder with kube-apiserver"
)
def test_on_an_empty_kube_apiserver():
    holds()


def test_on_an_empty_embedded_server():
    holds("--embedded")


def holds(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, *arguments], capture_output=True, text=True, timeout=600, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("all of it held\n")
