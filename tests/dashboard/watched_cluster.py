"""A whole cluster of `tonnage up --dashboard`, and kubectl for it."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from dashboard_window import CHROMIUM

from support.processes import Up, start_up


class Watched(Up):
    """A running cluster, and the address of its dashboard."""

    dashboard: str

    async def kubectl(self, *arguments: str, given: Any = None) -> str:
        done = await asyncio.to_thread(
            subprocess.run,
            ["kubectl", "--kubeconfig", str(self.kubeconfig), "--cache-dir", str(self.folder / "cache"), *arguments],
            input=yaml.safe_dump(given) if given is not None else None,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextmanager
def watched_cluster(folder: Path, *flags: str) -> Iterator[Watched]:
    """A cluster that runs while the block does; skips the test without a browser or kubectl."""
    if CHROMIUM is None or shutil.which("kubectl") is None:
        pytest.skip("needs a chromium and kubectl on the PATH")
    running = start_up(folder, "--dashboard", "--dashboard-port", "0", *flags)
    assert isinstance(running.process, subprocess.Popen) and running.process.stdout is not None
    line = running.process.stdout.readline()
    assert line.startswith("dashboard http://127.0.0.1:"), line
    running.__class__ = Watched
    assert isinstance(running, Watched)
    running.dashboard = line.split()[1]
    try:
        yield running
    finally:
        code = running.stop()
    assert code == 0
