"""`tonnage up` tells of a slip at once: before a process is started or a folder is made."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tonnage.cli import main
from tonnage.plane.settings import PlaneSettings
from tonnage_command import tonnage


def complaint(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The exit code, and the line that begins with `error:`."""
    monkeypatch.setattr(sys, "argv", ["tonnage", "up", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    assert out == ""
    return int(ended.value.code or 0), err.splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--pools", "100Gib"],
            'Invalid value for \'--pools\': "100Gib" is not a quantity: unknown suffix "Gib"; write "100Gi"',
        ),
        (
            ["--nodes", "2", "--pools", "node-1=100Gi"],
            'node "node-2" has no pools; give them, such as --pools 3x100Gi (--nodes is 2)',
        ),
        (
            ["--pools", "1Gi", "--pools", "node-4=1Gi"],
            '--pools names the node "node-4"; the nodes are node-1, node-2, node-3 (--nodes is 3)',
        ),
        (
            ["--nodes", "1", "--pools", "node-1=1Gi", "--pools", "node-2=1Gi"],
            '--pools names the node "node-2"; the nodes are node-1 (--nodes is 1)',
        ),
        (["--pools", "node-2=1Gi"], '--pools names the node "node-2"; the nodes are node-1 (--nodes is 1)'),
        (
            ["--max-volumes", "many"],
            'Invalid value for \'--max-volumes\': "many" is not a number of volumes; write it like "8" or "node-2=2", '
            "0 is no limit",
        ),
        (
            ["--nodes", "1", "--max-volumes", "node-2=1"],
            '--max-volumes names the node "node-2"; the nodes are node-1 (--nodes is 1)',
        ),
        (["--nodes", "0"], "Invalid value for '--nodes': 0 is not in the range 1<=x<=500."),
    ],
)
def test_a_cluster_that_cannot_be_is_wrong_usage(monkeypatch, capsys, tmp_path, arguments, message):
    folder = tmp_path / "data"
    assert complaint(monkeypatch, capsys, "--data-dir", str(folder), *arguments) == (2, f"error: {message}")
    assert not folder.exists()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kind: [", "yaml: line 2: did not find expected node content"),
        (
            "apiVersion: v1\nkind: Foo\nmetadata: {name: x}\n",
            'document 1 (Foo x): no matches for kind "Foo" in version "v1"',
        ),
    ],
)
def test_a_manifest_that_cannot_be_applied_is_told_with_its_file(monkeypatch, capsys, tmp_path, text, problem):
    folder, file = tmp_path / "data", tmp_path / "bad.yaml"
    file.write_text(text)
    code, told = complaint(monkeypatch, capsys, "--data-dir", str(folder), "-f", str(file))
    assert code == 1 and told.startswith(f"error: {file}") and told.endswith(problem)
    assert not folder.exists()


def test_a_manifest_that_is_not_there_is_told(monkeypatch, capsys, tmp_path):
    told = complaint(monkeypatch, capsys, "--data-dir", str(tmp_path), "-f", "/nowhere.yaml")
    assert told == (1, "error: /nowhere.yaml: cannot be read: No such file or directory")


def test_fewer_nodes_than_what_was_kept_speaks_of_are_told(monkeypatch, capsys, tmp_path):
    kept = {"nodes": 2, "pools": ["1Gi", "node-2=2Gi"], "max_volumes": ["16"], "pool_policy": "best-fit"}
    (tmp_path / "cluster.json").write_text(json.dumps(kept))
    told = complaint(monkeypatch, capsys, "--data-dir", str(tmp_path), "--nodes", "1")
    assert told == (2, 'error: --pools names the node "node-2"; the nodes are node-1 (--nodes is 1)')


def test_a_folder_that_cannot_be_made_is_told(monkeypatch, capsys, tmp_path):
    blocked = tmp_path / "file"
    blocked.touch()
    told = complaint(monkeypatch, capsys, "--data-dir", str(blocked / "data"), "--secure-port", "0")
    assert told == (1, f"error: cannot write to {blocked / 'data'}: Not a directory")


def test_the_folder_of_a_running_cluster_is_refused_and_its_memory_left_alone(monkeypatch, capsys, tmp_path):
    kept = {"nodes": 2, "pools": ["1Gi"], "max_volumes": ["16"], "pool_policy": "best-fit"}
    (tmp_path / "cluster.json").write_text(json.dumps(kept))
    with (tmp_path / "lock").open("w") as lock:
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        told = complaint(monkeypatch, capsys, "--data-dir", str(tmp_path), "--nodes", "5")
    assert told == (1, f"error: another cluster runs on {tmp_path} (process {os.getpid()})")
    assert json.loads((tmp_path / "cluster.json").read_text()) == kept


@pytest.mark.parametrize(
    ("files", "held"),
    [
        (["thesis.txt"], "thesis.txt"),
        (["b", "a", "c"], "a and 2 more"),
        (["kubeconfig"], "kubeconfig"),  # it would be overwritten
        (["lock", "yarn.lock"], "yarn.lock"),
        (["cluster.json"], "cluster.json"),  # somebody else's
        (["store/notes.txt"], "store"),
    ],
)
def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path, files, held):
    tmp_path.chmod(0o755)
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    before = sorted((path, path.lstat().st_mtime_ns) for path in (tmp_path, *tmp_path.rglob("*")))
    done = tonnage("up", "--data-dir", str(tmp_path), "--secure-port", "0")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"error: {tmp_path} is not empty, and no cluster was ever started on it: it holds {held}\n"
        "hint: name a new or an empty folder with --data-dir\n"
    )
    assert sorted((path, path.lstat().st_mtime_ns) for path in (tmp_path, *tmp_path.rglob("*"))) == before
    assert tmp_path.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    "files",
    [
        [],
        ["lock", "dashboard.token"],  # a first start that was stopped
        ["faults.json", ".faults.json.lock"],  # `tonnage fault` before the first start
        ["cluster.json", "store/log.sqlite3", "notes.txt"],
        ["store/log.sqlite3", "pki/ca.crt", "kubeconfig", "token"],  # of `tonnage apiserver`
    ],
)
def test_a_cluster_starts_on_an_empty_folder_and_on_its_own(tmp_path, files):
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        # As the first version kept its settings.
        (tmp_path / name).write_text(json.dumps({"nodes": 1, "pools": ["1Gi"], "max_volumes": ["16"]}))
    PlaneSettings(tmp_path).require_own_contents()
    PlaneSettings(tmp_path / "new").require_own_contents()


def test_the_log_of_a_start_may_be_in_the_folder(tmp_path):
    """The shell makes it first. The port is taken, so that nothing stays running."""
    with socket.create_server(("127.0.0.1", 0)) as taken, (tmp_path / "up.log").open("w") as log:
        flags = ("--dashboard", "--dashboard-port", str(taken.getsockname()[1]), "--secure-port", "0")
        command = [sys.executable, "-m", "tonnage", "up", "--data-dir", str(tmp_path), *flags]
        assert subprocess.run(command, stderr=log, check=False).returncode == 1
    assert (tmp_path / "up.log").read_text().startswith("error: the dashboard cannot be served at 127.0.0.1:")


def test_the_default_folder_is_below_the_home(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".tonnage").mkdir()
    (tmp_path / ".tonnage" / "notes.txt").touch()
    code, error = complaint(monkeypatch, capsys)
    assert code == 1 and error.startswith(f"error: {tmp_path / '.tonnage'} is not empty")


def test_a_user_without_a_home_has_to_name_a_folder(monkeypatch, capsys):
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", home)
    assert complaint(monkeypatch, capsys) == (1, "error: this user has no home folder")
