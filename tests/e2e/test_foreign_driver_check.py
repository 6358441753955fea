"""driver-check of a driver that is not ours: kubernetes-csi's csi-driver-host-path gets an honest report.

Its program is named by CSI_HOSTPATH, as in test_foreign_driver.py. It lists no pools and rebuilds nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from support.eventually import eventually

PLUGIN = os.environ.get("CSI_HOSTPATH", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PLUGIN, reason="CSI_HOSTPATH does not name a program of csi-driver-host-path"),
]


def test_upstreams_own_driver_gets_an_honest_report():
    with tempfile.TemporaryDirectory(prefix="t") as name:
        folder = Path(name)
        (folder / "state").mkdir()
        socket = folder / "csi.sock"
        flags = ["--nodeid", "node-a", "--capacity", "fast=30Gi", "--statedir", str(folder / "state")]
        with (folder / "plugin.log").open("w") as log:
            plugin = subprocess.Popen(
                [PLUGIN, "--endpoint", f"unix://{socket}", *flags, "--enable-attach", "--attach-limit", "3"],
                stdout=log,
                stderr=log,
            )
        try:
            eventually(socket.exists)
            answer = subprocess.run(
                [
                    *(sys.executable, "-m", "tonnage", "driver-check", "--csi-address", f"unix://{socket}"),
                    *("--parameters", "kind=fast", "--work-dir", str(folder), "-o", "json"),
                ],
                capture_output=True,
                text=True,
                timeout=300,
            )
        finally:
            plugin.terminate()
            plugin.wait(timeout=20)
    assert answer.returncode in (0, 4), answer.stderr
    document = json.loads(answer.stdout)
    checks = {each["name"]: each for each in document["checks"]}
    assert document["driver"] == "hostpath.csi.k8s.io" and document["leftBehind"] == []
    assert checks["capacity-pools"]["outcome"] == "skipped", "it tells one number"
    for name in ("capacity-after-create", "capacity-after-delete", "create-idempotent", "create-too-large"):
        assert checks[name]["outcome"] == "passed", checks[name]
    assert checks["limit-enforced"]["outcome"] == "passed", checks["limit-enforced"]
    assert checks["rebuild-moves"]["outcome"] == "skipped"
    # Its figures are the same for every topology, also for one that does not exist; that is told, with what to do.
    broken = {name: each["remedy"] for name, each in checks.items() if each["outcome"] == "failed"}
    assert broken.keys() == {"capacity-segment"} and all(broken.values())
