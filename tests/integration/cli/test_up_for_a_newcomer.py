"""`tonnage up` as somebody starts it who has read nothing: without a folder, in a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

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


def in_a_terminal(folder: Path, called_as: str, *flags: str) -> tuple[int, str, list[str]]:
    """Start a cluster with stderr on a terminal, stop it when it has said all. Its pid, stdout, and stderr's lines."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "tonnage", "up", "--data-dir", str(folder), "--secure-port", "0", "--nodes", "1"]
    environment = {name: value for name, value in os.environ.items() if name != "TONNAGE_CALLED_AS"}
    environment |= {"TONNAGE_CALLED_AS": called_as} if called_as else {}
    with subprocess.Popen([*command, *flags], env=environment, stdout=subprocess.PIPE, stderr=theirs, text=True) as up:
        os.close(theirs)
        try:
            seen = b""
            while b"To remove it" not in seen or not seen.endswith(b"\n"):
                seen += os.read(ours, 65536)  # OSError when it ends early
            if shutil.which("kubectl"):
                lines = [line.strip() for line in seen.decode().splitlines() if "export " in line or "kubectl " in line]
                done = subprocess.run(["bash", "-euc", "\n".join(lines)], capture_output=True, text=True, check=False)
                assert done.stdout.startswith("NAME") and "node-1   Ready" in done.stdout, done.stderr
        finally:
            up.send_signal(signal.SIGTERM)
            out, _ = up.communicate(timeout=60)
            os.close(ours)
    text = re.sub(r"\x1b\[[0-?]*[a-zA-Z]", "", seen.decode())
    return up.pid, out, [line.rpartition("\r")[2] for line in text.replace("\r\n", "\n").splitlines()]


@pytest.mark.parametrize(
    ("flags", "called_as", "dashboard"),
    [
        ((), "", "  tonnage dashboard     # a web page; `tonnage up --dashboard` serves it too"),
        ((), "/a b/tonnage", "  '/a b/tonnage' dashboard     # a web page; `tonnage up --dashboard` serves it too"),
        (("--dashboard", "--dashboard-port", "0"), "", "The dashboard: open the address above in a browser."),
    ],
    ids=["installed", "from a checkout", "with its dashboard"],
)
def test_in_a_terminal_it_says_what_to_do_next(flags: tuple[str, ...], called_as: str, dashboard: str):
    with tempfile.TemporaryDirectory(prefix="t ") as home:  # a path that a shell would split
        folder = Path(home) / "c"
        pid, out, told = in_a_terminal(folder, called_as, *flags)
        assert [line.split()[0] for line in out.splitlines()] == ["ready", *(["dashboard"] if flags else [])]
        quoted, kubeconfig = shlex.quote(str(folder)), shlex.quote(str(folder / "kubeconfig"))
        assert told[told.index("In another terminal:") - 1 :] == [
            "",
            "In another terminal:",
            f"  export KUBECONFIG={kubeconfig}",
            "  kubectl get nodes",
            dashboard,
            f"To stop the cluster: Ctrl-C, or kill {pid}. The same command starts it again.",
            f"To remove it, once it is stopped: rm -r {quoted}",
        ]
