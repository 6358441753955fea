"""Every example of the help pages is run: what answers, on files and on a `tonnage up` cluster; what runs until it is
stopped, until it says that it is ready."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_top_live import Terminal

from support.pki import Authority
from support.processes import start_cluster, start_up
from tonnage.cli.commands import EXAMPLES
from tonnage_command import tonnage

ROOT = Path(__file__).parents[3]
FOLLOWERS = {"controllers", "dashboard", "node", "node-scaler", "pools", "provisioner", "scheduler", "shadow"}
"""Commands that follow a cluster until they are stopped."""
STARTERS = {"apiserver", "csi-driver", "up"}
"""Commands that make something of their own in a fresh folder, until they are stopped."""
NEED_A_DRIVER = {"driver-check", "csi-driver-quarantine"}
WHOLE_DEMO = "tonnage demo"
"""`tests/integration/cli/test_demo_live.py` plays it, and so does `make demo`: minutes."""
FREE_PORT = {"apiserver": "--secure-port", "controllers": "--secure-port", "scheduler": "--secure-port"}
FREE_PORT |= {"up": "--secure-port", "dashboard": "--port"}
READY = re.compile(r"^(ready\b|following: )")
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
BACKUP = "tonnage apiserver --data-dir cluster --backup objects.sqlite3"
ANSWERS = [
    *(
        line
        for name, lines in EXAMPLES.items()
        for line in lines
        if name not in FOLLOWERS | STARTERS | NEED_A_DRIVER | {"top"} and line != WHOLE_DEMO
    ),
    BACKUP,
]


def lines_of(names: set[str]) -> list[str]:
    return [line for name in sorted(names) for line in EXAMPLES[name] if line != BACKUP]


def words_of(line: str, folder: Path) -> list[str]:
    """The arguments of an example: its sockets are in the folder, and its ports are free ones."""
    line = line.removeprefix("source <(").rstrip(")").replace("unix:///run/csi/", f"unix://{folder}/")
    words = shlex.split(line.replace("~/", f"{folder}/"))[1:]
    words = words[: words.index(">")] if ">" in words else words
    flag = FREE_PORT.get(words[0], "")
    if flag in words:
        del words[words.index(flag) : words.index(flag) + 2]
    return [*words, flag, "0"] if flag else words


class Example:
    """An example that runs until it is stopped."""

    def __init__(self, line: str, folder: Path) -> None:
        environment = {**os.environ, "KUBECONFIG": str(folder / "cluster" / "kubeconfig"), "HOME": str(folder)}
        self.said: list[str] = []
        self._ready = threading.Event()
        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it would be ignored
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tonnage", *words_of(line, folder)],
                cwd=folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        finally:
            signal.signal(signal.SIGINT, before)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._ready.wait(120) and any(map(READY.match, self.said)), "".join(self.said)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self.said.append(line)
                if READY.match(line):
                    self._ready.set()
        self._ready.set()

    def stop(self) -> int:
        self._process.send_signal(signal.SIGINT)
        try:
            return self._process.wait(60)
        finally:
            self._process.kill()
            self._reader.join()


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


def test_every_example_is_run_by_a_test():
    every = {line for lines in EXAMPLES.values() for line in lines}
    here = {*ANSWERS, *lines_of(FOLLOWERS | STARTERS | NEED_A_DRIVER | {"top"})}
    assert every - here == {WHOLE_DEMO}


@pytest.mark.parametrize("line", ANSWERS)
def test_an_example_of_the_help_runs(folder: Path, line: str):
    environment = {**os.environ, "KUBECONFIG": str(folder / "cluster" / "kubeconfig"), "HOME": str(folder)}
    words = words_of(line, folder) if line != BACKUP else shlex.split(line)[1:]
    if words == ["status"]:  # its default folder is ~/.tonnage, and the cluster is elsewhere here
        words += ["--data-dir", "cluster"]
    done = tonnage(*words, cwd=folder, env=environment)
    # What doctor finds is in its exit code.
    assert done.returncode in ((0, 4, 5) if words[0] == "doctor" else (0,)), done.stderr
    assert not any(each.startswith("error:") for each in done.stderr.splitlines())
    if words[:2] == ["demo", "--only"]:
        assert done.stdout.splitlines()[-1] == "1 story passed"


@pytest.fixture(scope="module")
def bare() -> Iterator[Path]:
    """A folder with an API server that nothing follows, `cluster`, and a driver at the socket of the examples."""
    with tempfile.TemporaryDirectory(prefix="t") as name:
        at = Path(name)
        (at / "examples").symlink_to(ROOT / "examples")
        (at / "scheduler.yaml").write_text(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        )
        pair = Authority().sign("storage.example", "storage.example")
        (at / "tls.crt").write_bytes(pair.certificate)
        (at / "tls.key").write_bytes(pair.key)
        server = start_cluster(at / "cluster")
        (at / ".kube").mkdir()
        (at / ".kube" / "config").symlink_to(server.kubeconfig)
        if server.kubeconfig != at / "cluster" / "kubeconfig":
            (at / "cluster" / "kubeconfig").symlink_to(server.kubeconfig)
        driver = Example(EXAMPLES["csi-driver"][0], at)
        yield at
        driver.stop()
        server.stop()


@pytest.mark.parametrize("line", lines_of(FOLLOWERS))
def test_an_example_that_follows_a_cluster_runs_until_it_is_stopped(bare: Path, line: str):
    running = Example(line, bare)
    assert running.stop() == 0, "".join(running.said)


@pytest.mark.parametrize("line", lines_of({"top"}))
def test_an_example_for_a_terminal_runs_until_it_is_left(folder: Path, line: str):
    command = f"cd {folder} && KUBECONFIG=cluster/kubeconfig exec {sys.executable} -m {line}"
    terminal = Terminal("/bin/sh", "-c", command)
    terminal.wait_for("nodes ready")
    terminal.press("q")
    assert terminal.wait_exit() == 0


@pytest.mark.parametrize("line", lines_of(STARTERS))
def test_an_example_that_starts_something_runs_until_it_is_stopped(line: str):
    with tempfile.TemporaryDirectory(prefix="t") as name:
        (Path(name) / "examples").symlink_to(ROOT / "examples")
        assert Example(line, Path(name)).stop() == 0


@pytest.mark.parametrize("line", lines_of({"driver-check"}))
def test_an_example_that_checks_a_driver_finds_nothing_wrong(bare: Path, line: str):
    done = tonnage(*words_of(line, bare), "--settle-time", "0s", cwd=bare)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_examples_of_quarantine_look_at_a_driver_that_does_not_run():
    with tempfile.TemporaryDirectory(prefix="t") as name:
        folder = Path(name)
        Example(EXAMPLES["csi-driver"][0].replace("--state-dir driver", "--state-dir cluster/driver"), folder).stop()
        for line in lines_of({"csi-driver-quarantine"}):
            done = tonnage(*words_of(line, folder), cwd=folder)
            assert done.returncode == 0, done.stderr
