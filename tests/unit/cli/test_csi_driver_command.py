"""`tonnage csi-driver` refuses what makes no driver, before it touches anything."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tonnage.cli import main

WHOLE = ["--endpoint", "unix:///run/csi.sock", "--node-id", "node-1", "--state-dir", "state", "--pools", "1Gi"]


def complaint(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The exit code, and the line that begins with `error:`."""
    monkeypatch.setattr(sys, "argv", ["tonnage", "csi-driver", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    assert out == ""
    return int(ended.value.code or 0), err.splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing option '--endpoint'."),
        (WHOLE[:2], "Missing option '--node-id'."),
        (WHOLE[:4], "Missing option '--state-dir'."),
        (
            WHOLE[:6],
            'node "node-1" has no pools; give them, such as --pools 3x100Gi',
        ),
        ([*WHOLE, "--node-id", "node-1"], '--node-id names "node-1" twice'),
        ([*WHOLE, "--pools", "node-2=1Gi"], '--pools names the node "node-2"; the nodes are node-1'),
        ([*WHOLE, "--max-volumes", "node-2=1"], '--max-volumes names the node "node-2"; the nodes are node-1'),
        (
            [*WHOLE, "--node-endpoint", "unix:///run/node.sock"],
            "--node-endpoint gives all nodes one address; write {node} where the node's id goes",
        ),
        (
            [*WHOLE, "--endpoint", "csi.sock"],
            "Invalid value for '--endpoint': \"csi.sock\" is not an address of a CSI driver; "
            "write it like unix:///run/csi.sock or /run/csi.sock",
        ),
        (
            [*WHOLE, "--endpoint", ""],
            "Invalid value for '--endpoint': \"\" is not an address of a CSI driver; "
            "write it like unix:///run/csi.sock or /run/csi.sock",
        ),
        (
            [*WHOLE, "--driver-name", "Bad Name!"],
            "Invalid value for '--driver-name': \"Bad Name!\" is not a name for a CSI driver: at most 63 letters, "
            'digits, dots and dashes, with a letter or digit at both ends; write it like "pools.tonnage.dev"',
        ),
        (
            [*WHOLE, "--pool-policy", "worst-fit"],
            "Invalid value for '--pool-policy': 'worst-fit' is not one of "
            "'best-fit', 'most-free', 'first-fit', 'random'.",
        ),
    ],
)
def test_wrong_usage_is_told_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert complaint(monkeypatch, capsys, *arguments) == (2, f"error: {message}")
    assert list(tmp_path.iterdir()) == []


def test_rebuilding_needs_to_know_the_api_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    missing = str(tmp_path / "kubeconfig")
    code, line = complaint(monkeypatch, capsys, *WHOLE, "--rebuild", "--kubeconfig", missing)
    assert code == 1 and line.startswith(f"error: {missing}: ")
    assert list(tmp_path.iterdir()) == []
