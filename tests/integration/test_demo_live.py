"""`tonnage demo` that is told to end before it is over."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_demo_that_is_told_to_end_stops_its_cluster_and_leaves_no_folder(number: int, code: int):
    folder = Path(tempfile.mkdtemp(prefix="t"))  # sockets are below it
    try:
        command = [sys.executable, "-m", "tonnage", "demo"]
        environment = {**os.environ, "TMPDIR": str(folder)}
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as demo:
            assert demo.stdout is not None
            assert "with all four enhancements" in demo.stdout.readline()
            demo.send_signal(number)
            said, _ = demo.communicate(timeout=30)
        assert demo.returncode == code  # 0 would say that every story held
        assert "held" not in said
        assert list(folder.iterdir()) == []
    finally:
        shutil.rmtree(folder, ignore_errors=True)
