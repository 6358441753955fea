"""What `tonnage dashboard` and `tonnage up --dashboard` refuse before they start anything."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from tonnage.cli import cli
from tonnage.endpoints import write_endpoints
from tonnage.errors import TonnageError

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
users: [{name: a, user: {token: x}}]
current-context: a
"""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    return str(path)


def told(*words: str) -> TonnageError:
    """The error that a command line ends with."""
    with pytest.raises(TonnageError) as exc:
        CliRunner().invoke(cli, words, catch_exceptions=False)
    return exc.value


def test_a_port_that_is_taken_is_one_clear_error(kubeconfig):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        error = told("dashboard", "--kubeconfig", kubeconfig, "--port", str(port))
    assert error.message == f"cannot listen on 127.0.0.1:{port}: Address already in use"
    assert error.hint.startswith("choose another --port, or 0 for a free one")


def test_a_token_that_anybody_guesses_is_refused(kubeconfig, tmp_path):
    (tmp_path / "token").write_text("secret\n")
    error = told("dashboard", "--kubeconfig", kubeconfig, "--token-file", str(tmp_path / "token"))
    assert "has no token; a token is one line of at least 16 printable characters" in error.message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("up", "--data-dir", "x", "--dashboard-port", "1"), "--dashboard-port goes with --dashboard"),
        (("dashboard", "--tls-cert-file", "x"), "--tls-cert-file and --tls-private-key-file go together"),
    ],
)
def test_flags_that_do_not_go_together_are_told(words, message, kubeconfig, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", kubeconfig)
    result = CliRunner().invoke(cli, words)
    assert (result.exit_code, message in result.output) == (2, True), result.output


def test_the_folder_of_another_cluster_is_refused(kubeconfig, tmp_path):
    """Its faults would go wrong on a cluster that nobody looks at."""
    folder = tmp_path / "cluster"
    folder.mkdir(mode=0o700)
    error = told("dashboard", "--kubeconfig", kubeconfig, "--data-dir", str(folder), "--port", "0")
    assert error.message == f"{folder} is not the folder of the cluster at https://127.0.0.1:1"
    write_endpoints(folder, {"apiserver": "https://127.0.0.1:2"}, {})
    error = told("dashboard", "--kubeconfig", kubeconfig, "--data-dir", str(folder), "--port", "0")
    assert error.message == f"{folder} is not the folder of the cluster at https://127.0.0.1:1"
