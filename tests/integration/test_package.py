"""The wheel as people install it: built from the sdist, put into an empty environment, run outside the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tonnage import __version__

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples" / "02-explain"
DATA = {".policy", ".txt", ".yaml", ".schema", ".sql", ".proto", ".pyi", ".typed", ".css"}
"""Endings of the files of the package that are not Python modules."""


def run(*command: object, cwd: Path) -> str:
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(each) for each in command], cwd=cwd, env=outside, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built by what `make package` calls: first the sdist, then the wheel from it."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    assert (folder / f"tonnage-{__version__}.tar.gz").exists()
    return folder / f"tonnage-{__version__}-py3-none-any.whl"


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the programs of a new environment are that has the wheel, and its dependencies by a path file.

    A path file adds folders and does not read path files in them: that of the checkout does not count here.
    """
    home = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", home, cwd=home)
    python = home / "bin" / "python"
    ask = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    site = Path(run(python, "-c", ask, cwd=home).strip())
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=home)
    return home / "bin"


def test_the_wheel_holds_every_file_of_the_package(wheel: Path):
    source = ROOT / "src"
    expected = {
        path.relative_to(source).as_posix() for path in (source / "tonnage").rglob("*") if path.suffix in {".py", *DATA}
    }
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == expected


def test_the_wheel_brings_the_command_and_the_plugin_of_kubectl(programs: Path):
    assert {"tonnage", "kubectl-tonnage"} <= {path.name for path in programs.iterdir()}


def test_an_installed_tonnage_tells_its_version(programs: Path, tmp_path: Path):
    told = json.loads(run(programs / "tonnage", "version", "-o", "json", cwd=tmp_path))
    assert told["tonnage"] == __version__
    where = run(programs / "python", "-c", "import tonnage; print(tonnage.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(programs.parent)


def test_an_installed_tonnage_explains_an_example(programs: Path, tmp_path: Path):
    told = run(programs / "tonnage", "explain", "-f", EXAMPLE, "--pod", "shop/web-1", cwd=tmp_path)
    assert told.startswith("shop/web-1 goes to shop-b2\n")
    assert told in (EXAMPLE / "README.md").read_text()


def test_an_installed_tonnage_writes_a_report(programs: Path, tmp_path: Path):
    fit = ROOT / "examples" / "13-fit"
    files = ("-f", fit / "cluster.yaml", "-f", fit / "kafka.yaml")
    told = run(
        programs / "tonnage", "fit", *files, "--workload", "StatefulSet/default/kafka", "-o", "html", cwd=tmp_path
    )
    assert told == (fit / "report.html").read_text("utf-8")
