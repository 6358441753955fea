"""The example of a plugin as its author works with it: installed by pip, tested, and asked by `tonnage explain`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples" / "17-a-plugin"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that has the example package; on the path it is found as if it were installed beside Tonnage."""
    folder = tmp_path_factory.mktemp("installed")
    offline = ("--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", *offline, "--target", str(folder), str(EXAMPLE))
    done = subprocess.run(pip, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def run(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    beside = {**os.environ, "PYTHONPATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=ROOT, env=beside, capture_output=True, text=True, timeout=120, check=False)


def test_explain_says_what_the_readme_shows(installed: Path):
    config = "examples/17-a-plugin/config/scheduler.yaml"
    command = f"tonnage explain -f examples/17-a-plugin/ --pod disks/db --config {config}"
    done = run(installed, *command.split())
    assert done.returncode == 0, done.stderr
    readme = (EXAMPLE / "README.md").read_text()
    assert f"\n{command}\n```\n\n```\n{done.stdout}```\n" in readme, done.stdout


def test_the_plugins_are_unknown_where_they_are_not_installed(tmp_path: Path):
    config = str(EXAMPLE / "config" / "scheduler.yaml")
    done = run(tmp_path, "tonnage", "explain", "-f", str(EXAMPLE), "--pod", "disks/db", "--config", config)
    assert done.returncode == 1
    assert 'profiles[0].plugins.filter.enabled: FilterPlugin "NoServiceAhead" does not exist' in done.stderr


def test_its_own_tests_pass(installed: Path):
    done = run(installed, "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", str(EXAMPLE / "tests"))
    assert done.returncode == 0, done.stdout


def test_the_configuration_in_the_guide_enables_them(installed: Path, tmp_path: Path):
    guide = (ROOT / "docs" / "plugins.md").read_text()
    _, _, after = guide.partition("```yaml\n")
    (tmp_path / "scheduler.yaml").write_text(after.partition("```")[0])
    pods = ("-f", str(EXAMPLE / "cluster.yaml"), "-f", str(EXAMPLE / "pods.yaml"), "--pod", "disks/db")
    done = run(installed, "tonnage", "explain", *pods, "--config", str(tmp_path / "scheduler.yaml"))
    assert done.returncode == 0, done.stderr
    assert done.stdout in (EXAMPLE / "README.md").read_text(), done.stdout
