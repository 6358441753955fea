"""The script that installs Tonnage from the chart on an empty API server, places a pod, and removes all of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.eventually import eventually

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


@pytest.mark.skipif(not Path("/proc").exists(), reason="processes are looked up in /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_ended_midway_it_leaves_no_process(number: signal.Signals, tmp_path: Path):
    """And no folder either, unless it was killed."""
    command = [sys.executable, "-u", str(SCRIPT), "--embedded"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    script = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    assert script.stdout is not None
    for line in script.stdout:
        if line.startswith("3. "):
            break
    assert left(tmp_path)
    script.send_signal(number)
    script.communicate(timeout=120)
    assert script.returncode != 0
    eventually(lambda: not left(tmp_path), "what it started to end")
    if number != signal.SIGKILL:
        assert list(tmp_path.iterdir()) == []


def left(folder: Path) -> list[str]:
    """Processes that were started with a path below the folder."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = each.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            if str(folder) in line:
                found.append(line)
    return found


def holds(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, *arguments], capture_output=True, text=True, timeout=600, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("all of it passed\n")
