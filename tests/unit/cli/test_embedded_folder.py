"""Which clusters are told to be those of a `tonnage up`: faults may be set in those alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tonnage.cli.cluster_options import ClusterQuestion
from tonnage.endpoints import write_endpoints
from tonnage.gates import Gates

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: embedded
contexts:
- {name: embedded, context: {cluster: embedded, user: me}}
- {name: production, context: {cluster: production, user: me}}
clusters:
- {name: embedded, cluster: {server: "https://127.0.0.1:6443"}}
- {name: production, cluster: {server: "https://production.example:6443"}}
users:
- {name: me, user: {token: t}}
"""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG)
    return file


@pytest.fixture(params=["--kubeconfig", "$KUBECONFIG", "the second of $KUBECONFIG", "~/.kube/config"])
def named_by(request: pytest.FixtureRequest, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> Path | None:
    """What --kubeconfig is given as, for each way to name the same file: the answers are the same."""
    home = kubeconfig.parent / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    match request.param:
        case "--kubeconfig":
            return kubeconfig
        case "$KUBECONFIG":
            monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        case "the second of $KUBECONFIG":
            monkeypatch.setenv("KUBECONFIG", f"{home / 'none'}:{kubeconfig}")
        case _:
            (home / ".kube").parent.mkdir()
            (home / ".kube").symlink_to(kubeconfig.parent)
            (kubeconfig.parent / "config").write_text(KUBECONFIG)
    return None


def question(kubeconfig: Path | None, context: str = "") -> ClusterQuestion:
    return ClusterQuestion((), kubeconfig, context, "", None, None, None, None, Gates())


def test_the_folder_of_a_kubeconfig_counts_for_its_own_server_alone(kubeconfig: Path, named_by: Path | None):
    assert question(named_by).embedded_folder is None
    write_endpoints(kubeconfig.parent, {"apiserver": "https://127.0.0.1:6443"}, {})
    found = question(named_by).embedded_folder
    assert found is not None and found.samefile(kubeconfig.parent)
    assert question(named_by, "production").embedded_folder is None


def test_the_scheduler_of_the_folder_is_asked_about_its_own_cluster_alone(kubeconfig: Path, named_by: Path | None):
    write_endpoints(kubeconfig.parent, {"apiserver": "https://127.0.0.1:6443", "scheduler": "http://127.0.0.1:1"}, {})
    asked = question(named_by).scheduler()
    assert asked is not None and asked.url == "http://127.0.0.1:1"
    assert question(named_by, "production").scheduler() is None
