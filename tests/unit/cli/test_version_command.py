"""The version stands in one place, and everything that tells it says the same."""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

import pytest

from tonnage import KUBERNETES_VERSION, __version__
from tonnage.cli import main

ROOT = Path(__file__).parent.parent.parent.parent


def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    monkeypatch.setattr(sys, "argv", ["tonnage", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_version_tells_tonnage_kubernetes_and_python(monkeypatch, capsys):
    assert printed(monkeypatch, capsys, "version") == (
        f"Tonnage {__version__}\n"
        f"Kubernetes {KUBERNETES_VERSION} (the release whose behaviour it follows)\n"
        f"Python {platform.python_version()}\n"
    )


def test_version_as_json(monkeypatch, capsys):
    assert json.loads(printed(monkeypatch, capsys, "version", "-o", "json")) == {
        "tonnage": __version__,
        "kubernetes": KUBERNETES_VERSION,
        "python": platform.python_version(),
    }


def test_the_option_tells_the_version_alone(monkeypatch, capsys):
    assert printed(monkeypatch, capsys, "--version") == f"tonnage, version {__version__}\n"


def test_the_version_is_written_once():
    sources = [ROOT / "pyproject.toml", *(ROOT / "src").rglob("*.py")]
    assert [path.name for path in sources if f'"{__version__}"' in path.read_text()] == ["__init__.py"]
