"""`tonnage up` as somebody starts it who has read nothing: without a folder, in a terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tonnage_command import tonnage


def test_a_cluster_without_a_folder_is_kept_in_the_default_one_where_other_commands_find_it():
    with tempfile.TemporaryDirectory(prefix="t") as home:
        environment = {**os.environ, "HOME": home}
        command = [sys.executable, "-m", "tonnage", "up", "--secure-port", "0", "--pools", "node-1=100Gi"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, env=environment, text=True, stdout=pipe, stderr=pipe) as up:
            try:
                assert up.stdout is not None
                assert up.stdout.readline().startswith("ready https://127.0.0.1:")
                folder = Path(home) / ".tonnage"
                assert folder.stat().st_mode & 0o777 == 0o700
                status = json.loads(tonnage("status", "-o", "json", env=environment).stdout)
                assert status["dataDir"] == str(folder)
                assert [each["name"] for each in status["nodes"]] == ["node-1"]
                faults = tonnage("fault", "set", "dead", "--node", "node-1", env=environment)
                assert faults.stderr == "fault dead on node-1 set\n"
            finally:
                up.terminate()
            out, err = up.communicate(timeout=60)
        assert (up.returncode, out) == (0, "")
        assert err == f"kubeconfig {folder}/kubeconfig\n"  # a script is not told what to do next
