"""The wheel as people install it: built from the sdist, put into an empty environment, run outside the checkout."""

from __future__ import annotations

import email
import json
import os
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

from support.eventually import eventually
from support.processes import Up
from tonnage import __version__

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples" / "02-explain"
DATA = {
    ".columns",
    ".policy",
    ".txt",
    ".yaml",
    ".schema",
    ".shapes",
    ".sql",
    ".proto",
    ".pyi",
    ".typed",
    ".css",
    ".html",
    ".js",
    ".svg",
}
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
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    for folder, place in settings["force-include"].items():  # examples that the dashboard plays
        expected |= {
            f"{place}/{each.relative_to(ROOT / folder)}" for each in (ROOT / folder).rglob("*") if each.is_file()
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


def test_the_wheel_says_what_it_is(wheel: Path):
    with zipfile.ZipFile(wheel) as opened:
        metadata = email.message_from_bytes(opened.read(f"tonnage-{__version__}.dist-info/METADATA"))
        assert f"tonnage-{__version__}.dist-info/licenses/LICENSE" in opened.namelist()
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])


@pytest.mark.slow
def test_an_installed_tonnage_runs_a_cluster_with_a_pod(programs: Path, tmp_path: Path):
    """Every file that its programs read is in the wheel: roles, schemas, the policy of the API server."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [
        str(programs / "tonnage"),
        "up",
        "--data-dir",
        str(tmp_path / "up"),
        "--secure-port",
        "0",
        "--nodes",
        "1",
    ]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=outside, cwd=tmp_path)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("ready https://"), (tmp_path / "log").read_text()
        up = Up(tmp_path / "up", line.split()[1], process)
        asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        default = "/api/v1/namespaces/default"
        up.create(f"{default}/persistentvolumeclaims", {"metadata": {"name": "a"}, "spec": asked})
        volumes = [{"name": "a", "persistentVolumeClaim": {"claimName": "a"}}]
        spec = {"containers": [{"name": "c", "image": "c"}], "volumes": volumes}
        up.create(f"{default}/pods", {"metadata": {"name": "a"}, "spec": spec})
        eventually(lambda: up.get(f"{default}/pods/a")["status"].get("phase") == "Running", "the pod", within_s=120)
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0
